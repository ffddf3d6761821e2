//! The checks beside a server that runs in this process, for its web console.

use std::path::Path;

use nagi_bson::DocBuf;

use crate::cli::Defaults;
use crate::facts::DataFiles;
use crate::report::Report;
use crate::{json, read};

/// The report of `nagi doctor --quick --json` with these options, as a document: without the disk test, which would
/// take the disk from the server's clients. Takes a few milliseconds. `folder`: none for data in memory.
pub fn report(folder: Option<&Path>, options: &Defaults) -> DocBuf {
    let mut facts = read::facts(folder, options.connection_count_max, options.budget_bytes);
    facts.reads_through_cache = options.reads_through_cache;
    facts.exposure = options.exposure.clone();
    let why = "a server uses the data directory";
    facts.data_files = folder.map(|_| DataFiles::NotCompared(why.to_owned()));
    json::document(&facts, &Report::of(&facts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::CHECKS;

    #[test]
    fn every_check_has_a_result() {
        let options = Defaults {
            folder: "unused".into(),
            connection_count_max: 100,
            budget_bytes: 1 << 30,
            reads_through_cache: false,
            exposure: None,
        };
        let report = report(None, &options);
        let doc = report.as_doc();
        let nagi_bson::Value::Array(findings) = doc.get("findings") else { panic!() };
        let rest = ["good", "notKnown"].map(|name| doc.get(name).as_doc().unwrap().iter().count());
        assert_eq!(findings.iter().count() + rest[0] + rest[1], CHECKS.len());
        let disk = doc.get("notKnown").as_doc().unwrap().get("disk_syncs");
        assert_eq!(disk.as_str(), Some("the disk was not tested"));
    }
}

//! Checks that the data files are those that the last orderly shutdown recorded.
use super::prelude::*;
use crate::facts::DataFiles;

/// The files that a finding names.
const NAMED_MAX: usize = 5;

pub(super) static DATA_FILES: Check = Check {
    name: "data_files",
    title: "presence and sizes of the data files, as recorded by the last shutdown; not their contents",
    reads: &[],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let files = facts.data_files.as_ref();
    match files.ok_or_else(|| NotKnown("there is no data directory".into()))? {
        DataFiles::Unchanged => {
            good("those of the last orderly shutdown; what is in them was not read")
        }
        DataFiles::NotCompared(why) => Err(NotKnown(why.clone())),
        DataFiles::Unreadable(error) => found(
            Critical,
            format!("the data directory cannot be read: {error}"),
            "the server does not start",
            "look for errors of the disk (dmesg), and at owners and permissions",
        )
        .verdict(),
        DataFiles::Damaged(all) => {
            let mut what = all[..all.len().min(NAMED_MAX)].join("; ");
            if all.len() > NAMED_MAX {
                what.push_str(&format!("; and {} more", all.len() - NAMED_MAX));
            }
            let path = facts.data().map_or("DIR", |data| &data.path);
            found(
                Critical,
                what,
                "the server does not start: exit code 14 (DataCorruptionDetected)",
                format!(
                    "put back the files if they were moved; else restore a backup, or save what is readable, on a \
                     copy of the directory: nagi serve --repair --dbpath {path}"
                ),
            )
            .verdict()
        }
    }
}

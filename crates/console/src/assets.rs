//! The files of the pages, which are part of the program: nothing is fetched from anywhere else.

/// Name, media type, contents.
type Asset = (&'static str, &'static str, &'static [u8]);

macro_rules! assets {
    ($($name:literal $kind:literal;)*) => {
        static ASSETS: &[Asset] =
            &[$(($name, $kind, include_bytes!(concat!("../assets/", $name)))),*];
    };
}

assets! {
    "activity.js" "text/javascript; charset=utf-8";
    "advise.js" "text/javascript; charset=utf-8";
    "alerts.js" "text/javascript; charset=utf-8";
    "api.js" "text/javascript; charset=utf-8";
    "app.js" "text/javascript; charset=utf-8";
    "charts.js" "text/javascript; charset=utf-8";
    "collections.js" "text/javascript; charset=utf-8";
    "contact.js" "text/javascript; charset=utf-8";
    "databases.js" "text/javascript; charset=utf-8";
    "document_edit.js" "text/javascript; charset=utf-8";
    "document_list.js" "text/javascript; charset=utf-8";
    "diskmap.js" "text/javascript; charset=utf-8";
    "doctor.js" "text/javascript; charset=utf-8";
    "documents.js" "text/javascript; charset=utf-8";
    "dom.js" "text/javascript; charset=utf-8";
    "ejson.js" "text/javascript; charset=utf-8";
    "format.js" "text/javascript; charset=utf-8";
    "growth.js" "text/javascript; charset=utf-8";
    "heatmap.js" "text/javascript; charset=utf-8";
    "index.html" "text/html; charset=utf-8";
    "indexes.js" "text/javascript; charset=utf-8";
    "live.js" "text/javascript; charset=utf-8";
    "log.js" "text/javascript; charset=utf-8";
    "login.js" "text/javascript; charset=utf-8";
    "memory.js" "text/javascript; charset=utf-8";
    "operations.js" "text/javascript; charset=utf-8";
    "oplog.js" "text/javascript; charset=utf-8";
    "overview.js" "text/javascript; charset=utf-8";
    "plan_tree.js" "text/javascript; charset=utf-8";
    "query_form.js" "text/javascript; charset=utf-8";
    "server.js" "text/javascript; charset=utf-8";
    "sizes.js" "text/javascript; charset=utf-8";
    "slow.js" "text/javascript; charset=utf-8";
    "slow_advice.js" "text/javascript; charset=utf-8";
    "slow_groups.js" "text/javascript; charset=utf-8";
    "storage.js" "text/javascript; charset=utf-8";
    "style.css" "text/css; charset=utf-8";
    "table.js" "text/javascript; charset=utf-8";
    "theme.js" "text/javascript; charset=utf-8";
    "trial.js" "text/javascript; charset=utf-8";
    "typed.js" "text/javascript; charset=utf-8";
    "uplot.iife.min.js" "text/javascript; charset=utf-8";
    "uplot.license.txt" "text/plain; charset=utf-8";
    "uplot.min.css" "text/css; charset=utf-8";
    "users.js" "text/javascript; charset=utf-8";
}

/// The file of a name.
pub(crate) fn find(name: &str) -> Option<(&'static str, &'static [u8])> {
    ASSETS.iter().find(|asset| asset.0 == name).map(|asset| (asset.1, asset.2))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_folder_is_a_row() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "README.txt" && !name.starts_with("LICEN"))
            .collect();
        let rows: BTreeSet<String> = ASSETS.iter().map(|asset| asset.0.to_owned()).collect();
        assert_eq!(files, rows);
        for (name, kind, bytes) in ASSETS {
            let wanted = match name.rsplit_once('.').unwrap().1 {
                "html" => "text/html; charset=utf-8",
                "js" => "text/javascript; charset=utf-8",
                "css" => "text/css; charset=utf-8",
                "svg" => "image/svg+xml",
                _ => "text/plain; charset=utf-8",
            };
            assert_eq!(*kind, wanted, "{name}");
            assert!(std::str::from_utf8(bytes).is_ok(), "{name}");
        }
    }

    #[test]
    fn unknown_names_are_not_found() {
        for name in ["", "../Cargo.toml", "INDEX.HTML", "index.html/"] {
            assert!(find(name).is_none(), "{name}");
        }
    }
}

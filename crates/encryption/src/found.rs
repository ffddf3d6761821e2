//! Whether the files of a data directory are encrypted, by their first bytes, for a directory whose keys are lost.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use crate::header;

/// As many files are looked at. The first two kinds are in every directory.
const FILES_MAX: usize = 64;

/// Returns true if a file in the folder of an engine begins as an encrypted one does. Costs a few reads.
pub fn has_encrypted_files(files: &Path) -> bool {
    let names = fs::read_dir(files).into_iter().flatten().flatten();
    let regular = names.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let mut paths: Vec<_> = regular.map(|entry| entry.path()).collect();
    let is_list = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name == "CURRENT" || name.starts_with("MANIFEST-")
    };
    paths.sort_by_key(|path| !is_list(path));
    paths.iter().take(FILES_MAX).any(|path| is_encrypted(path))
}

fn is_encrypted(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let read = File::open(path).and_then(|file| file.take(8).read_to_end(&mut beginning));
    read.is_ok() && header::is_encrypted(&beginning)
}

#[cfg(test)]
mod tests {
    use nagi_testkit::Scratch;

    use super::*;

    #[test]
    fn encrypted_files_are_told_by_their_beginning() {
        let folder = Scratch::new();
        assert!(!has_encrypted_files(folder.path()));
        fs::create_dir_all(folder.path()).unwrap();
        for name in ["CURRENT", "LOG", "000004.sst"] {
            fs::write(folder.path().join(name), b"MANIFEST-000001\n").unwrap();
        }
        assert!(!has_encrypted_files(folder.path()));
        fs::write(folder.path().join("000004.sst"), b"NagiFile and more").unwrap();
        assert!(has_encrypted_files(folder.path()));
    }
}

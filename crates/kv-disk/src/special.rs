//! Refuses pipes, sockets and devices in the place of a data directory's files.
//!
//! Opening a pipe waits for its other end, and reading a device may never return. So a folder with one of them in
//! the place of a file would block the process before it can report the reason. All folders are checked before a
//! file in them is opened.

use std::{fs, io, path::Path};

use nagi_kv::{Error, Result};

/// Prefixes of files in the data directory itself that are opened; others, such as a Unix socket, may be anything.
const NAMES: [&str; 3] = ["nagi.", "mongod.lock", "free_space"];
/// Prefixes of folders created by engines and backups; every file in them is opened.
const FOLDERS: [&str; 5] = ["rocksdb", "lmdb", "journal", "repair.", "nagi."];
const DEPTH_MAX: u32 = 8;

/// Returns true if the program creates an entry of this name in a data directory. Other entries belong to someone
/// else.
pub fn is_own_entry(name: &str) -> bool {
    NAMES.iter().chain(&FOLDERS).any(|begin| name.starts_with(begin))
}

/// Refuses a data directory in which something else takes the place of a file or folder.
///
/// # Errors
/// `Io` with the path.
pub fn refuse_special(dir: &Path) -> Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_own_entry(&name) {
            let is_folder = FOLDERS.iter().any(|begin| name.starts_with(begin));
            check(&entry.path(), is_folder.then_some(DEPTH_MAX))?;
        }
    }
    Ok(())
}

/// `depth`: the number of levels of folders to check below; none: only the path itself.
fn check(path: &Path, depth: Option<u32>) -> Result<()> {
    let found = match fs::metadata(path) {
        // It was removed in the meantime, or is a dangling link: opening it does not block.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.is_file() && !found.is_dir() {
        let text = format!("{} is not a regular file", path.display());
        return Err(Error::Io(io::Error::new(io::ErrorKind::InvalidData, text)));
    }
    let below = depth.filter(|depth| *depth > 0 && found.is_dir());
    let Some(depth) = below else { return Ok(()) };
    fs::read_dir(path)?.try_for_each(|entry| check(&entry?.path(), Some(depth - 1)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_is_no_file_is_refused_where_one_is_opened() {
        let dir = std::env::temp_dir().join(format!("nagi-special-{}", std::process::id()));
        let dir = dir.as_path();
        let _ = fs::remove_dir_all(dir);
        fs::create_dir_all(dir.join("rocksdb/deep")).unwrap();
        for name in ["nagi.storage", "rocksdb/CURRENT", "rocksdb/deep/000001.sst", "other"] {
            fs::write(dir.join(name), "").unwrap();
        }
        assert!(refuse_special(&dir.join("absent")).is_ok());
        // A server's own socket is allowed.
        let _socket = UnixListener::bind(dir.join("mongodb-27017.sock")).unwrap();
        assert!(refuse_special(dir).is_ok());
        for name in
            ["nagi.closed", "mongod.lock", "free_space.txt", "rocksdb/LOG", "rocksdb/deep/x"]
        {
            let socket = UnixListener::bind(dir.join(name)).unwrap();
            let error = refuse_special(dir).expect_err(name).to_string();
            assert!(error.contains(&format!("{name} is not a regular file")), "{error}");
            drop(socket);
            fs::remove_file(dir.join(name)).unwrap();
            std::os::unix::fs::symlink("/dev/zero", dir.join(name)).unwrap();
            assert!(refuse_special(dir).is_err(), "{name} is a link to a device");
            fs::remove_file(dir.join(name)).unwrap();
        }
        assert!(refuse_special(dir).is_ok());
        fs::remove_dir_all(dir).unwrap();
    }
}

//! File permissions: only the user of this program may access the files that it creates, whatever the shell's umask.
//!
//! As in mongod, the permissions of group and others are removed (077). `processUmask` changes the mask, and with
//! `honorSystemUmask` only the system's umask applies. The owner's permissions always follow the system's umask. At the
//! start, files in the data directory that an earlier version left readable are restricted too.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::Mode;

/// No permissions for group and others.
const PRIVATE: u32 = 0o077;
const ALL: u32 = 0o777;

/// The umask that the options specify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    System,
    /// Remove these permissions of group and others.
    Closed(u32),
}

impl Wanted {
    /// Reads the parameters of the command line. The error is a text for standard error.
    pub(crate) fn from_parameters(parameters: &[(String, String)]) -> Result<Wanted, String> {
        let value = |name: &str| parameters.iter().rfind(|(n, _)| n == name).map(|(_, v)| v.trim());
        let system = matches!(value("honorSystemUmask"), Some("true" | "1"));
        match value("processUmask").filter(|text| !text.is_empty()) {
            Some(_) if system => {
                Err("BadValue: processUmask cannot be set if honorSystemUmask is \
                                      set to true"
                    .into())
            }
            Some(text) => match u32::from_str_radix(text, 8) {
                Ok(mask) if mask <= ALL => Ok(Wanted::Closed(mask & PRIVATE)),
                _ => Err(format!(
                    "BadValue: '{text}' is not a valid value for processUmask: it \
                                  is an octal number up to 777"
                )),
            },
            None if system => Ok(Wanted::System),
            None => Ok(Wanted::Closed(PRIVATE)),
        }
    }

    /// Sets the umask of this process.
    pub(crate) fn set(self) {
        if let Wanted::Closed(mask) = self {
            let system = rustix::process::umask(Mode::from_raw_mode(PRIVATE)).as_raw_mode();
            let owner = system & ALL & !PRIVATE;
            rustix::process::umask(Mode::from_raw_mode(owner | mask));
        }
    }

    /// Restricts the permissions of this program's files in a data directory and returns the number of changed entries.
    /// Foreign entries, symbolic links and files with further hard links are left unchanged: they may be meant for
    /// other users.
    ///
    /// # Errors
    /// The first entry that cannot be read or changed.
    pub(crate) fn tighten(self, folder: &Path) -> io::Result<u64> {
        let Wanted::Closed(mask) = self else { return Ok(0) };
        let mut count = 0;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if nagi_kv_disk::is_own_entry(&entry.file_name().to_string_lossy()) {
                count += tighten_entry(&entry.path(), mask)?;
            }
        }
        Ok(count)
    }
}

fn tighten_entry(path: &Path, mask: u32) -> io::Result<u64> {
    let about = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        about => about?,
    };
    if !(about.is_dir() || about.is_file() && about.nlink() == 1) {
        return Ok(0);
    }
    let is_open = about.mode() & mask != 0;
    if is_open {
        fs::set_permissions(path, Permissions::from_mode(about.mode() & 0o7777 & !mask))?;
    }
    let mut count = u64::from(is_open);
    if about.is_dir() {
        for entry in fs::read_dir(path)? {
            count += tighten_entry(&entry?.path(), mask)?;
        }
    }
    Ok(count)
}

/// Sets the default umask, for subcommands that have no parameters.
pub(crate) fn close() {
    Wanted::Closed(PRIVATE).set();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(parameters: &[(&str, &str)]) -> Result<Wanted, String> {
        let owned = |(n, v): &(&str, &str)| ((*n).to_owned(), (*v).to_owned());
        Wanted::from_parameters(&parameters.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn parameters_as_mongods() {
        assert_eq!(wanted(&[]), Ok(Wanted::Closed(0o077)));
        assert_eq!(wanted(&[("processUmask", "0027")]), Ok(Wanted::Closed(0o027)));
        assert_eq!(wanted(&[("processUmask", "777")]), Ok(Wanted::Closed(0o077)));
        assert_eq!(wanted(&[("honorSystemUmask", "true")]), Ok(Wanted::System));
        let off = [("honorSystemUmask", "false"), ("processUmask", "0")];
        assert_eq!(wanted(&off), Ok(Wanted::Closed(0)));
        for bad in ["8", "1000", "-1", "rwx"] {
            assert!(wanted(&[("processUmask", bad)]).unwrap_err().contains("octal"), "{bad}");
        }
        let both = [("honorSystemUmask", "1"), ("processUmask", "022")];
        assert!(wanted(&both).unwrap_err().contains("cannot be set"));
    }

    #[test]
    fn what_this_program_made_is_closed_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("nagi-umask-{}", std::process::id()));
        let (data, outside) = (folder.join("data"), folder.join("outside"));
        fs::create_dir_all(data.join("rocksdb/inner")).unwrap();
        fs::create_dir_all(data.join("www")).unwrap();
        let own = ["mongod.lock", "rocksdb/a", "rocksdb/inner/b"].map(|name| data.join(name));
        let others = [data.join("www/index.html"), data.join("run.sh"), outside.clone()];
        for path in own.iter().chain(&others) {
            fs::write(path, b"x").unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        }
        std::os::unix::fs::symlink(&outside, data.join("rocksdb/link")).unwrap();
        fs::hard_link(&outside, data.join("rocksdb/second_name")).unwrap();
        for path in ["rocksdb", "rocksdb/inner", "www"] {
            fs::set_permissions(data.join(path), Permissions::from_mode(0o755)).unwrap();
        }
        assert_eq!(Wanted::Closed(0o027).tighten(&data).unwrap(), 5);
        assert_eq!(Wanted::Closed(0o077).tighten(&data).unwrap(), 5);
        assert_eq!(Wanted::Closed(0o077).tighten(&data).unwrap(), 0);
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert!(own.iter().all(|path| mode(path) == 0o600));
        assert!(others.iter().all(|path| mode(path) == 0o644));
        assert_eq!((mode(&data.join("rocksdb/inner")), mode(&data.join("www"))), (0o700, 0o755));
        fs::remove_dir_all(&folder).unwrap();
    }
}

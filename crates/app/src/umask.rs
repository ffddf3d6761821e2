//! Who may read what this program creates: its user alone, whatever umask the shell has.
//!
//! As mongod does it: the bits of group and others are taken away (077), `processUmask` says otherwise, and
//! with `honorSystemUmask` the system's umask counts alone. The bits of the owner are always the system's.
//! What an earlier version left readable in the data folder is closed at the start.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::Mode;

/// Group and others get nothing.
const PRIVATE: u32 = 0o077;
const ALL: u32 = 0o777;

/// What the options make of the system's umask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    System,
    /// These bits of group and others are taken away.
    Closed(u32),
}

impl Wanted {
    /// From the parameters of the command line. An error is a text for standard error.
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

    /// Takes the bits away from everything below a folder that has them; how many that were. Symbolic links
    /// are not followed: what they lead to may be meant for others.
    ///
    /// # Errors
    /// The first thing that cannot be read or changed.
    pub(crate) fn tighten(self, folder: &Path) -> std::io::Result<u64> {
        let Wanted::Closed(mask) = self else { return Ok(0) };
        let mut count = 0;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let about = match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                about => about?,
            };
            if !about.is_file() && !about.is_dir() {
                continue;
            }
            if about.mode() & mask != 0 {
                fs::set_permissions(&path, Permissions::from_mode(about.mode() & 0o7777 & !mask))?;
                count += 1;
            }
            if about.is_dir() {
                count += self.tighten(&path)?;
            }
        }
        Ok(count)
    }
}

/// For the programs that have no parameters.
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
    fn what_was_readable_is_closed_and_links_are_left_alone() {
        let folder = std::env::temp_dir().join(format!("nagi-umask-{}", std::process::id()));
        let outside = folder.with_extension("outside");
        fs::create_dir_all(folder.join("data/inner")).unwrap();
        for path in [folder.join("data/a"), folder.join("data/inner/b"), outside.clone()] {
            fs::write(&path, b"x").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        }
        std::os::unix::fs::symlink(&outside, folder.join("data/link")).unwrap();
        fs::set_permissions(folder.join("data/inner"), Permissions::from_mode(0o755)).unwrap();
        let data = folder.join("data");
        assert_eq!(Wanted::Closed(0o027).tighten(&data).unwrap(), 3);
        assert_eq!(Wanted::Closed(0o077).tighten(&data).unwrap(), 3);
        assert_eq!(Wanted::Closed(0o077).tighten(&data).unwrap(), 0);
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&data.join("a")), mode(&data.join("inner"))), (0o600, 0o700));
        assert_eq!((mode(&data.join("inner/b")), mode(&outside)), (0o600, 0o644));
        fs::remove_dir_all(&folder).unwrap();
        fs::remove_file(&outside).unwrap();
    }
}

//! Opens the file of a ring that an earlier process has created.
//!
//! Every user of the machine can create files in a memory file system, also under a name that a removed ring had.
//! Such a file must not be replayed, and not even be mapped: its owner could shorten it, which ends this process by a
//! signal. So a ring is used only if it is a regular file of a trusted user, closed to all others. Trusted are this
//! process's user and the user whose process wrote `SPOOL`, who could change the data directory itself: root may so
//! start a server once on the data directory of another user without losing what that server has acknowledged.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

/// What was found under the name of a ring.
pub(super) enum Found {
    Ring(File),
    /// Nothing, as after a restart of the machine.
    Missing,
    Refused(Refused),
}

/// A file that is no ring of ours.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) reason: String,
    /// `None` if the file is gone in the meantime.
    pub(super) about: Option<Metadata>,
}

impl Refused {
    /// User and mode of the file, for the log.
    pub(super) fn owner_and_mode(&self) -> (String, String) {
        let unknown = || "unknown".to_owned();
        let owner = self.about.as_ref().map_or_else(unknown, |about| about.uid().to_string());
        let mode = self.about.as_ref().map_or_else(unknown, |about| format!("{:o}", about.mode()));
        (owner, mode)
    }
}

/// The users whose rings are used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trusted {
    own: u32,
    /// The user whose process wrote `SPOOL`.
    of_name: Option<u32>,
}

impl Trusted {
    /// This process's user only.
    pub(super) fn own() -> Trusted {
        Trusted { own: super::raw::effective_user(), of_name: None }
    }

    /// Also the user who owns the file that names the ring.
    pub(super) fn of(name: &Metadata) -> Trusted {
        Trusted { of_name: Some(name.uid()), ..Trusted::own() }
    }

    fn contains(self, user: u32) -> bool {
        user == self.own || Some(user) == self.of_name
    }
}

/// Opens a ring, without following a symbolic link and without waiting at a pipe.
pub(super) fn open(path: &Path, trusted: Trusted) -> Found {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let refused =
        |reason: String| Found::Refused(Refused { reason, about: fs::symlink_metadata(path).ok() });
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::Missing,
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return refused("it is a symbolic link".to_owned());
        }
        Err(error) => return refused(error.to_string()),
    };
    // Of the open file, so that it is the one that is mapped.
    match file.metadata() {
        Ok(about) => match wrong(&about, trusted) {
            Some(reason) => {
                Found::Refused(Refused { reason: reason.to_owned(), about: Some(about) })
            }
            None => Found::Ring(file),
        },
        Err(error) => refused(error.to_string()),
    }
}

/// Why a file cannot be a ring of a trusted user.
fn wrong(about: &Metadata, trusted: Trusted) -> Option<&'static str> {
    if !about.is_file() {
        Some("it is not a regular file")
    } else if !trusted.contains(about.uid()) {
        Some("it belongs to another user")
    } else if about.mode() & 0o077 != 0 {
        Some("other users may read or write it")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use nagi_testkit::Scratch;

    use super::*;

    fn said(found: Found) -> String {
        match found {
            Found::Ring(_) => "ring".to_owned(),
            Found::Missing => "missing".to_owned(),
            Found::Refused(refused) => refused.reason,
        }
    }

    #[test]
    fn only_a_closed_regular_file_of_a_trusted_user_is_a_ring() {
        let dir = Scratch::new();
        fs::create_dir_all(dir.path()).unwrap();
        let at = |name: &str| dir.path().join(name);
        let make = |name: &str, mode: u32| {
            fs::write(at(name), b"ring").unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        make("ring", 0o600);
        make("open", 0o640);
        make("everyone", 0o606);
        symlink(at("ring"), at("link")).unwrap();
        super::super::raw::make_pipe(&at("pipe"));
        fs::create_dir(at("folder")).unwrap();
        let other = Trusted { own: u32::MAX, of_name: None };
        for (name, trusted, expected) in [
            ("ring", Trusted::own(), "ring"),
            ("none", Trusted::own(), "missing"),
            ("open", Trusted::own(), "other users may read or write it"),
            ("everyone", Trusted::own(), "other users may read or write it"),
            ("link", Trusted::own(), "it is a symbolic link"),
            ("pipe", Trusted::own(), "it is not a regular file"),
            ("ring", other, "it belongs to another user"),
            (
                "ring",
                Trusted { of_name: Some(super::super::raw::effective_user()), ..other },
                "ring",
            ),
        ] {
            assert_eq!(said(open(&at(name), trusted)), expected, "{name}");
        }
        assert!(matches!(open(&at("folder"), Trusted::own()), Found::Refused(_)));
    }
}

//! Why keys or the header of a file cannot be used.

use std::path::PathBuf;
use std::{fmt, io};

/// An error of keys; its text never contains one.
#[derive(Debug)]
pub enum KeysError {
    /// A file cannot be read or written.
    Io(PathBuf, io::Error),
    /// The system gives no random bytes.
    Random(String),
    /// `encryption.keys` is damaged, or is not such a file; the text says where.
    DamagedKeys(PathBuf, &'static str),
    /// `encryption.keys` was written by a newer version.
    NewerKeys(PathBuf, u32),
    /// The given master key is not the one that wraps the keys.
    WrongMasterKey {
        /// The file of the keys.
        path: PathBuf,
        /// The id of the master key that the file needs.
        needed: String,
        /// The id of the given one.
        given: String,
    },
    /// The data directory has data, but no keys: its files are not encrypted.
    NotEncrypted(PathBuf),
    /// The directory's files are encrypted, and the file of the keys is missing.
    Lost(PathBuf),
    /// The directory's keys have as many generations as there may be.
    TooManyGenerations(usize),
    /// The header of a file is damaged, or the file is not encrypted.
    DamagedHeader(&'static str),
    /// The file was written by a newer version.
    NewerHeader(u32),
    /// The file belongs to the keys of another data directory.
    ForeignFile,
    /// The keys have no such generation.
    UnknownGeneration(u64),
}

impl KeysError {
    /// True if bytes on disk are damaged, rather than that the wrong key was given or that the system failed.
    pub fn is_damage(&self) -> bool {
        use KeysError::{DamagedHeader, DamagedKeys, UnknownGeneration};
        matches!(self, DamagedKeys(..) | DamagedHeader(_) | UnknownGeneration(_))
    }
}

impl fmt::Display for KeysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeysError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            KeysError::Random(error) => write!(f, "no random bytes for a key: {error}"),
            KeysError::DamagedKeys(path, what) => write!(
                f,
                "{}: the file of the encryption keys is damaged ({what}); restore it from a backup, \
                 without it the data cannot be read",
                path.display()
            ),
            KeysError::NewerKeys(path, version) => {
                write!(f, "{}: version {version} is of a newer Nagi", path.display())
            }
            KeysError::WrongMasterKey { path, needed, given } => write!(
                f,
                "{}: the keys were encrypted with the master key {needed}, but the given one is {given}",
                path.display()
            ),
            KeysError::NotEncrypted(folder) => write!(
                f,
                "{}: the data directory contains data that is not encrypted; encryption starts with an \
                 empty directory, into which a copy is restored",
                folder.display()
            ),
            KeysError::Lost(path) => write!(
                f,
                "the files are encrypted and {} is missing: restore it from a backup of this data directory, \
                 without it the data cannot be read",
                path.display()
            ),
            KeysError::TooManyGenerations(limit) => {
                write!(f, "there are {limit} generations of keys already, the limit")
            }
            KeysError::DamagedHeader(what) => {
                write!(f, "the header of an encrypted file is damaged ({what})")
            }
            KeysError::NewerHeader(version) => {
                write!(f, "an encrypted file of version {version} is of a newer Nagi")
            }
            KeysError::ForeignFile => {
                f.write_str("an encrypted file belongs to the keys of another data directory")
            }
            KeysError::UnknownGeneration(number) => {
                write!(
                    f,
                    "an encrypted file uses generation {number} of keys, which does not exist"
                )
            }
        }
    }
}

impl std::error::Error for KeysError {}

impl From<KeysError> for io::Error {
    /// Damage is `InvalidData`; an error of the system keeps its kind.
    fn from(error: KeysError) -> io::Error {
        match &error {
            KeysError::Io(_, source) => io::Error::new(source.kind(), error.to_string()),
            _ if error.is_damage() => io::Error::new(io::ErrorKind::InvalidData, error.to_string()),
            _ => io::Error::other(error.to_string()),
        }
    }
}

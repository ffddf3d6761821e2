//! Encryption at rest: the keys of a data directory, and the ciphers of its files.
//!
//! ```text
//!   master key        a file, the environment or a KMIP server; never in the data directory
//!     | wraps
//!   generations       `encryption.keys` in the data directory; the newest one is for new files
//!     | wrap
//!   data keys         one for each file, in the file's header
//!     | encrypt
//!   content           AES-256 in counter mode, from the end of the header
//! ```
//!
//! To rotate the master key, only `encryption.keys` is rewritten. To rotate the generation, a new one is added: new
//! files use it, and old files keep theirs until the engine replaces them.
//!
//! Counter mode keeps lengths and lets a file grow by any number of bytes. In exchange no byte may be encrypted twice
//! at one position: each file has a random key of its own, and files are only appended to. It does not authenticate
//! content: the checksums of the engines, which are encrypted with the content, detect faults of a disk. Keys and
//! headers are authenticated (AES-256-GCM).
//!
//! `docs/format.md` has both formats byte by byte.
//!
//! Invariants
//! - Keys are zeroed when they are dropped; no text that this crate makes contains one.
//! - A generation is in `encryption.keys`, on disk, before a file uses it.
//!
//! The crate does not know engines, options or KMIP.

mod cipher;
mod error;
mod found;
mod header;
mod keys;
mod keys_file;
mod master;
mod replace;
mod seal;

pub use cipher::FileCipher;
pub use error::KeysError;
pub use found::has_encrypted_files;
pub use header::{HEADER_BYTES, is_encrypted};
pub use keys::Keys;
pub use keys_file::{FILE_NAME, Summary, summary};
pub use master::{MasterKey, TextError};

//! Encryption at rest: how the engine reads and writes files that are encrypted.
//!
//! ```text
//!   RocksDB --> ring_buffer.cc --> read_back.cc --> encrypted.cc --> operating system
//!                    |                                   |
//!                    +-- logs: Encrypt, then the ring    +-- all other files, and all reads
//! ```
//!
//! Every file of RocksDB's begins with a header, which has the file's own key, wrapped (`nagi_encryption`). The content
//! behind it has the offsets and sizes that RocksDB knows. The log is encrypted before it enters the ring in shared
//! memory, and goes from there to its file as it is.
//!
//! Counter mode has no checksums of its own. RocksDB's are within what is encrypted, so a changed byte changes one byte
//! of the content, and its block or record no longer fits its checksum, as without encryption.
//!
//! Not encrypted, because nothing of a user's is in them: `SPOOL`, `SYNCED`, `nagi.closed`, `nagi.storage`, `LOCK`.
//!
//! - ffi.rs: calls between `nagi_encryption` and encrypted.cc
//! - this file: the few files that are read or written without RocksDB
//!
//! Invariants
//! - No two contents are encrypted at one position of one key: files are written once and appended to, and a new
//!   content has a new key.
//! - The header of a log is durable before anything behind it is written, so a log with no more than a header is empty,
//!   and any other log without a valid header is damaged.
//!
//! Why: docs/decisions/077. The header: docs/format.md.

mod ffi;

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::FileExt,
    path::Path,
};

use nagi_encryption::{FileCipher, HEADER_BYTES, Keys};
use nagi_kv::{Error, Result};

pub(crate) use ffi::{Environment, given};

/// Bytes in front of the content of each file.
pub(crate) fn header_bytes(keys: Option<&Keys>) -> u64 {
    if keys.is_some() { HEADER_BYTES as u64 } else { 0 }
}

/// The content of an open file, encrypted or not.
#[derive(Debug)]
pub(crate) struct Content {
    file: File,
    cipher: Option<FileCipher>,
    begin: u64,
    /// The position of the next `read`, in the content.
    at: u64,
}

impl Content {
    /// Opens a file.
    ///
    /// # Errors
    /// `Corrupt` if it should be encrypted, but has no valid header; errors of the file system.
    pub(crate) fn open(path: &Path, keys: Option<&Keys>) -> Result<Content> {
        let file = File::open(path)?;
        let Some(keys) = keys else { return Ok(Content::of(file, None)) };
        let mut header = Vec::with_capacity(HEADER_BYTES);
        (&file).take(HEADER_BYTES as u64).read_to_end(&mut header)?;
        let cipher = keys
            .open_file(&header)
            .map_err(|error| Error::Corrupt(format!("{}: {error}", path.display())))?;
        Ok(Content::of(file, Some(cipher)))
    }

    /// Opens a log, which is empty if it has no more than a header.
    ///
    /// # Errors
    /// As `open` has.
    pub(crate) fn open_log(path: &Path, keys: Option<&Keys>) -> Result<Content> {
        match keys {
            Some(_) if fs::metadata(path)?.len() <= HEADER_BYTES as u64 => {
                Ok(Content { begin: HEADER_BYTES as u64, ..Content::of(File::open(path)?, None) })
            }
            _ => Content::open(path, keys),
        }
    }

    fn of(file: File, cipher: Option<FileCipher>) -> Content {
        let begin = if cipher.is_some() { HEADER_BYTES as u64 } else { 0 };
        Content { file, cipher, begin, at: 0 }
    }

    /// Where the content begins in the file.
    pub(crate) fn begin(&self) -> u64 {
        self.begin
    }

    /// Bytes of the content.
    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len().saturating_sub(self.begin))
    }

    /// Reads bytes at a position.
    pub(crate) fn read_exact_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(into, self.begin + at)?;
        self.decrypt(at, into);
        Ok(())
    }

    fn decrypt(&self, at: u64, bytes: &mut [u8]) {
        if let Some(cipher) = &self.cipher {
            cipher.apply(at, bytes);
        }
    }
}

impl Read for Content {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(into, self.begin + self.at)?;
        self.decrypt(self.at, &mut into[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

/// The whole content of a file.
///
/// # Errors
/// As `Content::open` has.
pub(crate) fn read(path: &Path, keys: Option<&Keys>) -> Result<Vec<u8>> {
    let mut content = Content::open(path, keys)?;
    let mut bytes = Vec::with_capacity(usize::try_from(content.len()?).unwrap_or(0));
    content.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces a file, or makes it, by way of `temporary` beside it; with a key of its own. Durable on return, but for the
/// names in the folder.
///
/// # Errors
/// Errors of the file system, or no random bytes for a key.
pub(crate) fn replace(
    path: &Path,
    temporary: &Path,
    mut bytes: Vec<u8>,
    keys: Option<&Keys>,
) -> Result<()> {
    let mut file = File::create(temporary)?;
    if let Some(keys) = keys {
        let (header, cipher) = keys.new_file().map_err(io::Error::from)?;
        file.write_all(&header[..])?;
        cipher.apply(0, &mut bytes);
    }
    file.write_all(&bytes)?;
    file.sync_all()?;
    Ok(fs::rename(temporary, path)?)
}

/// Copies the file of the keys, which every copy of encrypted files needs. Durable on return, but for its name.
pub(crate) fn copy_keys(from: &Path, to: &Path) -> Result<()> {
    let copy = to.join(nagi_encryption::FILE_NAME);
    fs::copy(from.join(nagi_encryption::FILE_NAME), &copy)?;
    Ok(File::open(copy)?.sync_all()?)
}

/// The header with the one bit flipped that makes it valid; none if it is valid, or more than a bit is wrong.
pub(crate) fn mended(header: &[u8], keys: &Keys) -> Option<Vec<u8>> {
    if header.len() < HEADER_BYTES || keys.open_file(header).is_ok() {
        return None;
    }
    let mut tried = header[..HEADER_BYTES].to_vec();
    for bit in 0..HEADER_BYTES * 8 {
        tried[bit / 8] ^= 1 << (bit % 8);
        if keys.open_file(&tried).is_ok() {
            return Some(tried);
        }
        tried[bit / 8] ^= 1 << (bit % 8);
    }
    None
}

#[cfg(test)]
mod tests;

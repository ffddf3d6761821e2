//! One file of diagnostic data: written from its beginning to its end, encrypted if the data directory is.
//!
//! An encrypted file has the header of all encrypted files (`nagi_encryption`, docs/format.md), and MongoDB's records
//! behind it.
//!
//! Invariant: no byte is encrypted twice at one position. After a failed write, whose bytes the disk may have, nothing
//! more is written to the file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use nagi_encryption::{FileCipher, HEADER_BYTES, Keys, is_encrypted};

/// Data that is read at once: an interim file has one chunk, of some hundred KB.
const READ_BYTES_MAX: u64 = 64 << 20;

/// A new file.
pub(super) struct Output {
    file: File,
    cipher: Option<FileCipher>,
    /// Its length, with the header.
    bytes: u64,
    failed: bool,
}

impl Output {
    /// Creates a file. With `keys` it is encrypted.
    ///
    /// # Errors
    /// `AlreadyExists`, and errors of the disk; then there is no file.
    pub(super) fn create(path: &Path, keys: Option<&Keys>) -> io::Result<Output> {
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        let mut output = Output { file, cipher: None, bytes: 0, failed: false };
        let begun = output.begin(keys);
        if begun.is_err() {
            let _ = fs::remove_file(path);
        }
        begun.map(|()| output)
    }

    fn begin(&mut self, keys: Option<&Keys>) -> io::Result<()> {
        let Some(keys) = keys else { return Ok(()) };
        let (header, cipher) = keys.new_file()?;
        self.write(&header[..])?;
        self.cipher = Some(cipher);
        Ok(())
    }

    /// Appends a record. After an error the file is as long as it was before, and takes no more.
    pub(super) fn append(&mut self, record: &[u8]) -> io::Result<()> {
        let Some(cipher) = &self.cipher else { return self.write(record) };
        let mut bytes = record.to_vec();
        cipher.apply(self.bytes - HEADER_BYTES as u64, &mut bytes);
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier write to the file failed"));
        }
        if let Err(error) = self.file.write_all(bytes) {
            self.failed = true;
            // Readers find whole records only, if this succeeds.
            let _ = self.file.set_len(self.bytes);
            return Err(error);
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// The length of the file.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The content of a file of at most [`READ_BYTES_MAX`]; `None` if there is none, or it cannot be read or decrypted.
pub(super) fn content(path: &Path, keys: Option<&Keys>) -> Option<Vec<u8>> {
    // Not a link, a pipe or a folder.
    let found = fs::symlink_metadata(path).ok()?;
    if !found.is_file() || found.len() > READ_BYTES_MAX {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(READ_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    if !is_encrypted(&bytes) {
        return Some(bytes);
    }
    let cipher = keys?.open_file(&bytes).ok()?;
    let mut content = bytes.split_off(HEADER_BYTES);
    cipher.apply(0, &mut content);
    Some(content)
}

//! Scratch files: bytes that are written once, read and dropped, for sorts and groups that exceed their memory.
//!
//! A scratch file has no name: it is unlinked as soon as it is open, so its space is released when it is dropped
//! and when the process dies in any way. Nothing is synced. The page cache may keep or write its pages, and drops
//! them with the file.
//!
//! With encryption at rest its content is encrypted with a key that only this process has: what a crash leaves on the
//! disk cannot be read by anyone.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use nagi_encryption::FileCipher;
use nagi_kv::{Result, Scratch};

/// Bytes that are encrypted at once: a copy of this size is made, which stays in the processor's cache.
const PIECE_BYTES: usize = 64 << 10;

/// Returns `Ok` if there is disk space for this many more bytes.
pub type CheckCapacity = Box<dyn Fn(u64) -> Result<()> + Send + Sync>;

/// An unnamed file.
pub struct ScratchFile {
    file: File,
    capacity: CheckCapacity,
    cipher: Option<FileCipher>,
}

impl ScratchFile {
    /// Creates a file at `path`, which must not be used otherwise, and removes its name. A crash between the two
    /// steps leaves an empty file, which the next call with this path replaces. With a `cipher`,
    /// which no other file has, the content is encrypted.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn create(
        path: &Path,
        capacity: CheckCapacity,
        cipher: Option<FileCipher>,
    ) -> Result<Arc<dyn Scratch>> {
        let _ = fs::remove_file(path);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        fs::remove_file(path)?;
        Ok(Arc::new(ScratchFile { file, capacity, cipher }))
    }
}

impl Scratch for ScratchFile {
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        (self.capacity)(bytes.len() as u64)?;
        let Some(cipher) = &self.cipher else { return Ok(self.file.write_all_at(bytes, at)?) };
        let mut piece = Vec::with_capacity(bytes.len().min(PIECE_BYTES));
        let mut at = at;
        for plain in bytes.chunks(PIECE_BYTES) {
            piece.clear();
            piece.extend_from_slice(plain);
            cipher.apply(at, &mut piece);
            self.file.write_all_at(&piece, at)?;
            at += plain.len() as u64;
        }
        Ok(())
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(into, at)?;
        if let Some(cipher) = &self.cipher {
            cipher.apply(at, into);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encrypted_content_comes_back_and_is_not_in_the_file() {
        let folder = nagi_testkit::Scratch::new();
        fs::create_dir_all(folder.path()).expect("it can be created");
        let marker = b"a marker in the clear";
        let content: Vec<u8> = marker.iter().copied().cycle().take(3 * PIECE_BYTES + 17).collect();
        for encrypted in [false, true] {
            let path = folder.path().join("scratch");
            let file = File::create_new(&path).expect("it can be created");
            let other = File::open(&path).expect("it is there");
            let cipher = encrypted.then(|| FileCipher::ephemeral().expect("random bytes"));
            let scratch = ScratchFile { file, capacity: Box::new(|_| Ok(())), cipher };
            scratch.write(0, &content[..100]).expect("there is space");
            scratch.write(100, &content[100..]).expect("there is space");
            for range in [0..content.len(), 1..2, 77..PIECE_BYTES + 300] {
                let mut back = vec![0; range.len()];
                scratch.read(range.start as u64, &mut back).expect("it was written");
                assert!(back == content[range]);
            }
            let mut stored = vec![0; content.len()];
            other.read_exact_at(&mut stored, 0).expect("it was written");
            let found = stored.windows(marker.len()).any(|bytes| bytes == marker);
            assert_eq!(found, !encrypted);
            fs::remove_file(&path).expect("it is there");
        }
    }
}

//! Scratch files: bytes that are written once, read and dropped, for sorts and groups that exceed their memory.
//!
//! A scratch file has no name: it is unlinked as soon as it is open, so its space is released when it is dropped
//! and when the process dies in any way. Nothing is synced. The page cache may keep or write its pages, and drops
//! them with the file.
//!
//! With encryption at rest its content is encrypted with keys that only this process has: what a crash leaves on the
//! disk cannot be read by anyone. After a write that failed, the next one begins where that one began, with other
//! bytes. They get a key of their own: who has both states of the disk would else see the difference of both contents.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nagi_encryption::FileCipher;
use nagi_kv::{Error, Result, Scratch};

/// Bytes that are encrypted at once: a copy of this size is made, which stays in the processor's cache.
const PIECE_BYTES: usize = 64 << 10;

/// Returns `Ok` if there is disk space for this many more bytes.
pub type CheckCapacity = Box<dyn Fn(u64) -> Result<()> + Send + Sync>;

/// An unnamed file.
pub struct ScratchFile {
    file: File,
    capacity: CheckCapacity,
    ciphers: Option<Mutex<Ciphers>>,
}

/// The ciphers of an encrypted file.
struct Ciphers {
    /// Each from its position to that of the next one, in the order of the positions.
    parts: Vec<(u64, Arc<FileCipher>)>,
    /// Where nothing was encrypted yet.
    fresh_from: u64,
}

impl Ciphers {
    /// The cipher for a write of so many bytes at a position, behind which nothing is needed any more.
    fn to_write(&mut self, at: u64, len: u64) -> Result<Arc<FileCipher>> {
        if at < self.fresh_from {
            let cipher = FileCipher::ephemeral().map_err(std::io::Error::from)?;
            self.parts.retain(|(from, _)| *from < at);
            self.parts.push((at, Arc::new(cipher)));
        }
        self.fresh_from = at + len;
        let last = self.parts.last().map(|(_, cipher)| Arc::clone(cipher));
        last.ok_or_else(|| Error::other("a scratch file has no cipher"))
    }

    /// The cipher at a position, and where the next one begins.
    fn to_read(&self, at: u64) -> Option<(Arc<FileCipher>, u64)> {
        let next = self.parts.partition_point(|(from, _)| *from <= at);
        let (_, cipher) = self.parts.get(next.checked_sub(1)?)?;
        let end = self.parts.get(next).map_or(u64::MAX, |(from, _)| *from);
        Some((Arc::clone(cipher), end))
    }
}

/// A panic leaves the ciphers as they were.
fn locked(ciphers: &Mutex<Ciphers>) -> MutexGuard<'_, Ciphers> {
    ciphers.lock().unwrap_or_else(PoisonError::into_inner)
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
        Ok(Arc::new(ScratchFile::over(file, capacity, cipher)))
    }

    fn over(file: File, capacity: CheckCapacity, cipher: Option<FileCipher>) -> ScratchFile {
        let ciphers = cipher.map(|cipher| {
            Mutex::new(Ciphers { parts: vec![(0, Arc::new(cipher))], fresh_from: 0 })
        });
        ScratchFile { file, capacity, ciphers }
    }
}

impl Scratch for ScratchFile {
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        (self.capacity)(bytes.len() as u64)?;
        let Some(ciphers) = &self.ciphers else { return Ok(self.file.write_all_at(bytes, at)?) };
        let cipher = locked(ciphers).to_write(at, bytes.len() as u64)?;
        let mut piece = vec![0; bytes.len().min(PIECE_BYTES)];
        let mut at = at;
        for plain in bytes.chunks(PIECE_BYTES) {
            let piece = &mut piece[..plain.len()];
            cipher.copy(at, plain, piece);
            self.file.write_all_at(piece, at)?;
            at += plain.len() as u64;
        }
        Ok(())
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(into, at)?;
        let Some(ciphers) = &self.ciphers else { return Ok(()) };
        let (mut at, mut rest) = (at, into);
        while !rest.is_empty() {
            let Some((cipher, end)) = locked(ciphers).to_read(at) else { break };
            let count = usize::try_from(end - at).unwrap_or(usize::MAX).min(rest.len());
            let (part, behind) = rest.split_at_mut(count);
            cipher.apply(at, part);
            (at, rest) = (at + count as u64, behind);
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
            let scratch = ScratchFile::over(file, Box::new(|_| Ok(())), cipher);
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
    /// A disk that is full in the middle of a piece: a part of it is in the file, and the next run begins there.
    #[test]
    fn no_key_stream_is_used_again_after_a_failed_write() {
        let folder = nagi_testkit::Scratch::new();
        fs::create_dir_all(folder.path()).expect("it can be created");
        let path = folder.path().join("scratch");
        let open = || {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(true);
            options.open(&path).expect("it opens")
        };
        let cipher = FileCipher::ephemeral().expect("random bytes");
        let scratch = ScratchFile::over(open(), Box::new(|_| Ok(())), Some(cipher));
        let stored = |range: std::ops::Range<usize>| {
            let mut bytes = vec![0; range.len()];
            File::open(&path)
                .and_then(|file| file.read_exact_at(&mut bytes, range.start as u64))
                .expect("it is there");
            bytes
        };
        let xor = |a: &[u8], b: &[u8]| -> Vec<u8> { a.iter().zip(b).map(|(a, b)| a ^ b).collect() };
        let (begin, failed, next) =
            (vec![1; 1000], vec![2; 3 * PIECE_BYTES], vec![3; 2 * PIECE_BYTES]);
        scratch.write(0, &begin).expect("there is space");
        let kept = stored(0..1000);
        // What was written of a piece is what an undisturbed write would have stored there.
        scratch.write(1000, &failed).expect("there is space");
        let torn = stored(1000..1000 + next.len());
        scratch.write(1000, &next).expect("there is space");
        let over = stored(1000..1000 + next.len());
        let same = xor(&torn, &over) == xor(&failed[..next.len()], &next);
        assert!(!same, "the difference of the contents is that of the stored bytes");
        // Twice, and further behind, which the newest cipher continues with.
        scratch.write(1000, &failed).expect("there is space");
        scratch.write(1000, &next).expect("there is space");
        scratch.write(1000 + next.len() as u64, &failed).expect("there is space");
        assert_eq!(stored(0..1000), kept);
        let whole = [&begin[..], &next, &failed].concat();
        for range in [0..whole.len(), 990..1010, 999..1000, 1000..1001] {
            let mut back = vec![0; range.len()];
            scratch.read(range.start as u64, &mut back).expect("it was written");
            assert!(back == whole[range.clone()], "{range:?}");
        }
        let Some(ciphers) = &scratch.ciphers else { panic!("it is encrypted") };
        assert_eq!(locked(ciphers).parts.len(), 2, "old ciphers are dropped");
    }
}

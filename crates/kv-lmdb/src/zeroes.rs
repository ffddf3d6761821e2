//! Allocates space of a file by writing zeroes behind its end, for file systems without `fallocate` (ext3).
//!
//! MongoDB 2 did the same with large writes into the page cache. ext3 writes such data in the middle of its next
//! journal commit, so that every sync of the machine waited for seconds. Here the zeroes are written in pieces of a
//! megabyte, past the page cache, and the thread rests three quarters of the time. So a sync waits for one piece at
//! most.

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    time::{Duration, Instant},
};

use nagi_kv::Result;
use rustix::fs::OFlags;

/// Bytes of a write.
const PIECE_BYTES: usize = 1 << 20;
/// Alignment that direct writes need, of memory and position.
const BLOCK_BYTES: usize = 4096;
/// The rest after a write, as a multiple of its duration.
const REST: u32 = 3;
const REST_MAX: Duration = Duration::from_millis(500);

/// Appends at least `bytes` zeroes to the file at `path`. Each piece is written at the end that the file has then,
/// while the value of `lock` lives: it must keep others from writing behind that end. `pause` is called between the
/// pieces; if it returns false, the rest is not written, and the result is false. Takes four times as long as the
/// writes.
///
/// # Errors
/// `Full` or `Io` if a piece cannot be written; earlier ones stay.
pub(crate) fn append<L>(
    path: &Path,
    bytes: u64,
    lock: impl Fn() -> Result<L>,
    pause: &mut dyn FnMut(Duration) -> bool,
) -> Result<bool> {
    let buffer = vec![0; PIECE_BYTES + BLOCK_BYTES];
    let aligned = buffer.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
    let zeroes = &buffer[aligned..aligned + PIECE_BYTES];
    let mut file = open(path, true)?;
    let mut left = bytes;
    while left > 0 {
        let start = Instant::now();
        let written = {
            let _lock = lock()?;
            write(path, &mut file, &zeroes[..piece(left)])?
        };
        left = left.saturating_sub(written as u64);
        if !pause((start.elapsed() * REST).min(REST_MAX)) {
            return Ok(left == 0);
        }
    }
    Ok(true)
}

/// The bytes of the next write: whole blocks.
fn piece(left: u64) -> usize {
    let left = usize::try_from(left).unwrap_or(PIECE_BYTES);
    left.next_multiple_of(BLOCK_BYTES).min(PIECE_BYTES)
}

/// A file and if it is written past the page cache.
struct Target {
    file: File,
    direct: bool,
}

fn open(path: &Path, direct: bool) -> Result<Target> {
    let mut options = fs::OpenOptions::new();
    options.write(true);
    if direct {
        let flags = OFlags::DIRECT.bits();
        if let Ok(file) = options.clone().custom_flags(flags.cast_signed()).open(path) {
            return Ok(Target { file, direct: true });
        }
    }
    Ok(Target { file: options.open(path)?, direct: false })
}

/// Writes zeroes at the end of the file, from the next whole block. Returns their number.
fn write(path: &Path, target: &mut Target, zeroes: &[u8]) -> Result<usize> {
    let end = target.file.metadata()?.len().next_multiple_of(BLOCK_BYTES as u64);
    match target.file.write_all_at(zeroes, end) {
        // Blocks of this file system or disk are larger, or it has no direct writes.
        Err(error) if target.direct && error.kind() == std::io::ErrorKind::InvalidInput => {
            *target = open(path, false)?;
            target.file.write_all_at(zeroes, end)?;
        }
        result => result?,
    }
    if !target.direct {
        target.file.sync_data()?;
    }
    Ok(zeroes.len())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use nagi_testkit::Scratch;

    use super::*;

    #[test]
    fn appends_whole_pieces_at_the_end_of_that_moment() {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path()).expect("creates");
        let path = scratch.path().join("data");
        fs::write(&path, b"pages").expect("writes");
        let grown = Cell::new(false);
        // Another writer makes the file longer between two pieces; its bytes must survive.
        let mut pause = |_| {
            if !grown.replace(true) {
                let end = fs::metadata(&path).expect("is there").len();
                let file = fs::OpenOptions::new().write(true).open(&path).expect("opens");
                file.write_all_at(b"more", end).expect("writes");
            }
            true
        };
        assert!(append(&path, 2 << 20, || Ok(()), &mut pause).expect("appends"));
        let bytes = fs::read(&path).expect("reads");
        assert_eq!(&bytes[..6], b"pages\0");
        let second = BLOCK_BYTES + PIECE_BYTES;
        assert_eq!(&bytes[second..second + 5], b"more\0");
        assert_eq!(bytes.len(), 2 * BLOCK_BYTES + 2 * PIECE_BYTES);
        assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 9);
    }

    #[test]
    fn stops_between_pieces() {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path()).expect("creates");
        let path = scratch.path().join("data");
        File::create(&path).expect("creates");
        assert!(!append(&path, 8 << 20, || Ok(()), &mut |_| false).expect("appends"));
        assert_eq!(fs::metadata(&path).expect("is there").len(), 1 << 20);
        assert!(append(&path, 4096, || Ok(()), &mut |_| false).expect("appends"));
    }
}

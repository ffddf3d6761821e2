//! Direct reads and writes at random offsets, one at a time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::Latencies;

/// Sizes of requests.
pub(super) const SIZES: [usize; 4] = [4 << 10, 8 << 10, 16 << 10, 32 << 10];

/// Direct I/O requires buffers and offsets at multiples of a sector; 4096 fits every disk.
const ALIGNMENT: usize = 4096;
const CHUNK: usize = 1 << 20;

/// Time limits of the steps, which also have a limit of operations.
const FILL_TIME: Duration = Duration::from_secs(2);
const STEP_TIME: Duration = Duration::from_millis(400);
const READS_MAX: usize = 8_000;
const WRITES_MAX: usize = 1_000;
const SYNCS_MAX: usize = 500;

/// A file of incompressible bytes.
pub(super) struct Disk<'f> {
    file: &'f File,
    /// The number of bytes that are filled.
    bytes: u64,
    buffer: Vec<u8>,
    random: u64,
}

impl<'f> Disk<'f> {
    /// Fills the file until the time limit, but with at least one megabyte.
    pub(super) fn fill(file: &'f File, bytes: u64) -> io::Result<Disk<'f>> {
        let mut disk = Disk {
            file,
            bytes: 0,
            buffer: vec![0; CHUNK + ALIGNMENT],
            random: 0x9E37_79B9_7F4A_7C15,
        };
        let start = Instant::now();
        while disk.bytes == 0 || (disk.bytes < bytes && start.elapsed() < FILL_TIME) {
            disk.scramble();
            let chunk = aligned(&mut disk.buffer, CHUNK);
            file.write_all_at(chunk, disk.bytes)?;
            disk.bytes += CHUNK as u64;
        }
        file.sync_data()?;
        Ok(disk)
    }

    /// Random reads of `size` bytes.
    pub(super) fn reads(&mut self, size: usize) -> io::Result<Option<Latencies>> {
        self.step(READS_MAX, size, |file, buffer, at| file.read_exact_at(buffer, at))
    }

    /// Random writes of `size` bytes.
    pub(super) fn writes(&mut self, size: usize) -> io::Result<Option<Latencies>> {
        self.step(WRITES_MAX, size, |file, buffer, at| file.write_all_at(buffer, at))
    }

    /// Writes of 4 KB, each synced before the next.
    pub(super) fn syncs(&mut self) -> io::Result<Option<Latencies>> {
        self.step(SYNCS_MAX, SIZES[0], |file, buffer, at| {
            file.write_all_at(buffer, at)?;
            file.sync_data()
        })
    }

    fn step(
        &mut self,
        count_max: usize,
        size: usize,
        operation: impl Fn(&File, &mut [u8], u64) -> io::Result<()>,
    ) -> io::Result<Option<Latencies>> {
        let places = self.bytes / size as u64;
        let start = Instant::now();
        let mut nanos = Vec::with_capacity(count_max);
        while nanos.len() < count_max && start.elapsed() < STEP_TIME {
            let at = self.next() % places * size as u64;
            let begin = Instant::now();
            operation(self.file, aligned(&mut self.buffer, size), at)?;
            nanos.push(begin.elapsed().as_nanos() as u64);
        }
        Ok(Latencies::of(nanos))
    }

    /// Fills the buffer with new random bytes.
    fn scramble(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        for word in buffer.chunks_exact_mut(8) {
            word.copy_from_slice(&self.next().to_le_bytes());
        }
        self.buffer = buffer;
    }

    /// Xorshift: random enough for offsets on a disk.
    fn next(&mut self) -> u64 {
        let mut x = self.random;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random = x;
        x
    }
}

/// Returns `len` bytes of the buffer that begin at an aligned address. The buffer must be large enough for the
/// padding.
fn aligned(buffer: &mut [u8], len: usize) -> &mut [u8] {
    let skip = buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    &mut buffer[skip..skip + len]
}

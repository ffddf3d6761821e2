//! Measures how long it takes to reserve space.

use std::fs::File;
use std::io::{self, Write};
use std::time::Instant;

use rustix::fs::{FallocateFlags, fallocate};

use super::Allocation;

/// The number of bytes filled with zeroes if `fallocate` is not supported.
const FILLED_BYTES: u64 = 16 << 20;

/// Reserves a quarter of `bytes`, then all of it.
pub(super) fn measure(file: &File, bytes: u64) -> io::Result<Allocation> {
    let mut allocation = Allocation { is_supported: true, steps: Vec::new() };
    let mut reserved = 0;
    for until in [bytes / 4, bytes] {
        let start = Instant::now();
        match fallocate(file, FallocateFlags::empty(), reserved, until - reserved) {
            Ok(()) => allocation.steps.push((until - reserved, micros(start))),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                return fill(file, bytes.min(FILLED_BYTES));
            }
            Err(error) => return Err(error.into()),
        }
        reserved = until;
    }
    Ok(allocation)
}

fn fill(mut file: &File, bytes: u64) -> io::Result<Allocation> {
    let zeroes = vec![0; 1 << 20];
    let start = Instant::now();
    let mut written = 0;
    while written < bytes {
        file.write_all(&zeroes)?;
        written += zeroes.len() as u64;
    }
    file.sync_data()?;
    Ok(Allocation { is_supported: false, steps: vec![(written, micros(start))] })
}

fn micros(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64 / 1000.0
}

//! Measures the cipher of files on one core: `cargo run --release -p nagi-encryption --example speed`.
#![allow(clippy::print_stdout, reason = "it is a program for the terminal")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use nagi_encryption::FileCipher;

fn main() {
    let cipher = FileCipher::ephemeral().expect("the system has random bytes");
    for bytes in [32, 256, 4096, 16 << 10, 64 << 10, 1 << 20] {
        let mut buffer = vec![7; bytes];
        let (begun, mut count) = (Instant::now(), 0_u64);
        while begun.elapsed() < Duration::from_millis(300) {
            for _ in 0..64 {
                cipher.apply(count * bytes as u64, black_box(&mut buffer));
                count += 1;
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        let rate = count as f64 * bytes as f64 / seconds / 1e9;
        println!(
            "{bytes:>8} bytes: {rate:>6.2} GB/s, {:>8.0} ns each",
            seconds * 1e9 / count as f64
        );
    }
}

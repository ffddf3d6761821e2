//! The effect of a compressor on small documents: size on disk, time to write, point reads, a scan.
//!
//! cargo run -p nagi-kv-rocks --example shrink -- DIR [documents] [none|snappy|zlib|zstd|lz4] [ycsb|json|words]
//!     [dictionary bytes] [zstd level] [cache MB]
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::{fs, io::Write as _, path::Path, time::Instant};

use nagi_kv::{Compressor, Durability, Space, TxnOptions};
use nagi_kv_rocks::{Options, open};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let text = |index: usize, default: &str| args.get(index).cloned().unwrap_or(default.to_owned());
    let dir = args.first().expect("the first argument is a new folder");
    let count: u64 = text(1, "200000").parse().unwrap();
    let compressor = Compressor::by_name(&text(2, "zstd")).expect("a compressor");
    let kind = text(3, "ycsb");
    let mut options = Options { records_compression: compressor, ..Options::default() };
    options.zstd_dictionary_bytes = text(4, "0").parse().unwrap();
    options.zstd_level = text(5, "").parse().ok();
    options.cache_bytes = text(6, "64").parse::<u64>().unwrap() << 20;
    let _ = fs::remove_dir_all(dir);
    let engine = open(Path::new(dir), &options).expect("opens");
    let (mut raw, mut value) = (0, Vec::new());
    let begin = Instant::now();
    for batch in 0..count / 100 {
        let mut txn = engine.begin(TxnOptions::default()).unwrap();
        for number in batch * 100..batch * 100 + 100 {
            document(&kind, number, &mut value);
            raw += value.len() as u64;
            txn.put(Space::Records, &number.to_be_bytes(), &value).unwrap();
        }
        txn.commit(Durability::Buffered).unwrap();
    }
    let written = begin.elapsed();
    engine.compact(Space::Records, &[], &[]).unwrap();
    let compacted = begin.elapsed();
    let mut size = 0;
    engine.stats(&mut |name, value| size = if name == "disk_live_bytes" { value } else { size });
    let begin = Instant::now();
    let gets = 100_000_u64;
    for number in 0..gets {
        let key = (spread(number) % count).to_be_bytes();
        engine.latest().get(Space::Records, &key, &mut value).unwrap().unwrap();
    }
    let read = begin.elapsed();
    let begin = Instant::now();
    let mut cursor = engine.latest().cursor(Space::Records, &[], &[]).unwrap();
    let mut found = cursor.seek(&[]).unwrap();
    while found {
        found = cursor.next().unwrap();
    }
    let scanned = begin.elapsed();
    println!(
        "{kind} {} dictionary {} level {:?}: {:.1} % of {} MB, written {:.1} s, compacted {:.1} s, \
         get {:.1} us, scan {:.0} MB/s",
        compressor.name(),
        options.zstd_dictionary_bytes,
        options.zstd_level,
        size as f64 / raw as f64 * 100.0,
        raw >> 20,
        written.as_secs_f64(),
        compacted.as_secs_f64(),
        read.as_secs_f64() * 1e6 / gets as f64,
        raw as f64 / 1e6 / scanned.as_secs_f64(),
    );
    drop(cursor);
    drop(engine);
    let _ = fs::remove_dir_all(dir);
}

fn spread(number: u64) -> u64 {
    let mut x = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 29;
    x.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
}

const WORDS: &[&str] = &[
    "river", "stone", "cloud", "paper", "market", "winter", "music", "garden", "letter", "bridge",
    "silver", "doctor", "window", "engine", "story", "valley",
];

/// A document of one kind: ten fields of random letters (as in YCSB), small records with equal field names, or
/// sentences.
fn document(kind: &str, number: u64, out: &mut Vec<u8>) {
    out.clear();
    let mut state = spread(number);
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    match kind {
        "ycsb" => (0..10).for_each(|field| {
            write!(out, "field{field}").unwrap();
            (0..100).for_each(|_| out.push(b' ' + (next() % 95) as u8));
        }),
        "json" => write!(
            out,
            "_id{number}customer_id{:08}status{}created_at2024-{:02}-{:02}T10:00:00Zamount{}.{:02}\
             currencyEURitems{}shipping_address{} street {}country{}",
            next() % 1_000_000,
            ["pending", "shipped", "delivered", "returned"][next() as usize % 4],
            next() % 12 + 1,
            next() % 28 + 1,
            next() % 900,
            next() % 100,
            next() % 9,
            WORDS[next() as usize % WORDS.len()],
            next() % 300,
            ["DE", "FR", "JP", "US"][next() as usize % 4],
        )
        .unwrap(),
        _ => (0..120).for_each(|_| {
            out.extend_from_slice(WORDS[next() as usize % WORDS.len()].as_bytes());
            out.push(b' ');
        }),
    }
}

//! Benefit and cost of a compressed cache tier: uniform and skewed point reads of three kinds of documents (random
//! text, JSON-like, repetitive) with a cache smaller than the data; scans in both directions.
//!
//! cargo run --release -p nagi-kv-rocks --example tiers -- DIR KIND COMPRESSOR PERCENT CACHE_MB [documents] [seconds]
//!
//! KIND is text, json or repetitive; COMPRESSOR is none, lz4 or zstd. With PERCENT 0 the tier adapts to the data.
//! An existing folder is reused.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use nagi_kv::{Compressor, Engine, Space};
use nagi_kv_rocks::{Options, open};
use nagi_proc::Process;

const THREADS: u64 = 16;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let text = |index: usize| args.get(index).map_or("", String::as_str);
    let number = |index: usize, default: u64| text(index).parse().unwrap_or(default);
    let (dir, kind) = (Path::new(text(0)), text(1));
    let compressor = match text(2) {
        "lz4" => Compressor::Lz4,
        "zstd" => Compressor::Zstd,
        _ => Compressor::None,
    };
    let (count, seconds) = (number(5, 200_000), number(6, 6));
    let fresh = !dir.exists();
    let options = Options {
        cache_bytes: number(4, 64) << 20,
        cache_compression: compressor,
        cache_compressed_percent: Some(number(3, 30) as u8).filter(|percent| *percent > 0),
        ..Options::default()
    };
    let engine = open(dir, &options).unwrap();
    if fresh {
        fill(&engine, kind, count);
    }
    for skewed in [false, true] {
        reads(&engine, count, skewed, Duration::from_secs(seconds));
        let before = gauges(&engine);
        let (cpu, begin) = (cpu_us(), Instant::now());
        let done = reads(&engine, count, skewed, Duration::from_secs(seconds));
        let rate = done as f64 / begin.elapsed().as_secs_f64();
        let after = gauges(&engine);
        let part = |index: usize| (after[index] - before[index]) as f64 / done as f64;
        println!(
            "{kind} {} {}% {}MB {}: {rate:.0}/s cpu {:.1} us, of a read: disk {:.3}, compressed tier {:.3}; rss {} MB",
            text(2),
            text(3),
            text(4),
            if skewed { "zipfian" } else { "uniform" },
            (cpu_us() - cpu) as f64 / done as f64,
            part(0),
            part(1),
            rss_mb()
        );
    }
    for forward in [true, false] {
        let begin = Instant::now();
        let mut cursor = engine.latest().cursor(Space::Records, &[], &[]).unwrap();
        let mut there = if forward { cursor.seek(&[]) } else { cursor.seek_back(&[]) }.unwrap();
        let mut bytes = 0;
        while there {
            bytes += cursor.value().len();
            there = if forward { cursor.next() } else { cursor.prev() }.unwrap();
        }
        let rate = bytes as f64 / 1e6 / begin.elapsed().as_secs_f64();
        println!("{kind} scan {}: {rate:.0} MB/s", if forward { "forward" } else { "backward" });
    }
}

fn gauges(engine: &Arc<dyn Engine>) -> [i64; 2] {
    let mut found = [0; 2];
    engine.stats(&mut |name, value| match name {
        "cache_blocks_added" => found[0] = value,
        "cache_compressed_hits" => found[1] = value,
        _ => {}
    });
    found
}

fn fill(engine: &Arc<dyn Engine>, kind: &str, count: u64) {
    let mut at = 0;
    let mut next = |key: &mut Vec<u8>, value: &mut Vec<u8>| {
        if at == count {
            return Ok(false);
        }
        key.clear();
        key.extend_from_slice(&at.to_be_bytes());
        document(kind, at, value);
        at += 1;
        Ok(true)
    };
    engine.load(Space::Records, &mut next).unwrap();
    engine.compact(Space::Records, &[], &[]).unwrap();
}

fn spread(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn document(kind: &str, number: u64, out: &mut Vec<u8>) {
    const WORDS: [&str; 16] = [
        "order",
        "customer",
        "delivered",
        "pending",
        "Tokyo",
        "Berlin",
        "invoice",
        "quantity",
        "colour",
        "description",
        "warehouse",
        "shipping",
        "express",
        "return",
        "blue",
        "large",
    ];
    out.clear();
    match kind {
        "json" => {
            for field in 0..20 {
                let random = spread(number * 31 + field);
                let (name, word) = (WORDS[field as usize % 16], WORDS[random as usize % 16]);
                let text = format!(
                    "\"{name}{field}\":{{\"value\":{},\"state\":\"{word}\"}},",
                    random % 100_000
                );
                out.extend_from_slice(text.as_bytes());
            }
        }
        "repetitive" => {
            out.extend_from_slice(&number.to_be_bytes());
            (0..110).for_each(|_| out.extend_from_slice(b"0123456789"));
        }
        _ => {
            for field in 0..10_u64 {
                out.extend_from_slice(format!("field{field}").as_bytes());
                let chars =
                    (0..100).map(|at| b' ' + (spread(number * 1009 + field * 100 + at) % 95) as u8);
                out.extend(chars);
            }
        }
    }
}

fn reads(engine: &Arc<dyn Engine>, count: u64, skewed: bool, time: Duration) -> u64 {
    static ROUND: AtomicU64 = AtomicU64::new(1);
    let round = ROUND.fetch_add(1, Relaxed);
    let (stop, total) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (stop, total) = (&stop, &total);
            scope.spawn(move || {
                let (mut buf, mut done) = (Vec::new(), 0);
                while !stop.load(Relaxed) {
                    let random = spread((round << 50) + (number << 40) + done);
                    let wanted = match skewed {
                        // Approximately Zipf's law: the exponential of a uniform number, scattered.
                        true => {
                            let rank =
                                (count as f64).powf((random >> 11) as f64 / (1_u64 << 53) as f64);
                            spread(rank as u64) % count
                        }
                        false => random % count,
                    };
                    let key = wanted.to_be_bytes();
                    assert!(engine.latest().get(Space::Records, &key, &mut buf).unwrap().is_some());
                    done += 1;
                }
                total.fetch_add(done, Relaxed);
            });
        }
        thread::sleep(time);
        stop.store(true, Relaxed);
    });
    total.load(Relaxed)
}

fn cpu_us() -> u64 {
    Process::Own.stat().expect("Linux").cpu_us()
}

fn rss_mb() -> u64 {
    let status = Process::Own.status().expect("Linux");
    status.resident_bytes.unwrap_or(0) >> 20
}

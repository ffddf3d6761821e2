//! Spaces with one compressor, dictionaries and a compressed log: over restarts, crashes and checkpoints.

use std::{fs, io, path::Path, sync::Arc};

use nagi_kv::{Compressor, Engine, Space};
use nagi_kv_rocks::{Options, open};

use crate::{
    Scratch, open_at,
    reopen::{count, gauge, get, put},
    small,
};

/// Text that compresses and differs by number.
fn text(number: u32) -> Vec<u8> {
    format!("number {number}: {}", "all of this is said in every document, ".repeat(20))
        .into_bytes()
}

fn fill(engine: &Arc<dyn Engine>, space: Space, from: u32) {
    for n in from..from + 2000 {
        put(engine, space, &n.to_be_bytes(), &text(n));
    }
}

fn check(engine: &Arc<dyn Engine>, space: Space, upto: u32) {
    assert_eq!(count(engine, space), u64::from(upto));
    for n in [0, 1, upto / 2, upto - 1] {
        assert_eq!(get(engine, space, &n.to_be_bytes()), Some(text(n)), "{space:?}");
    }
}

#[test]
fn spaces_come_into_being_with_their_first_key_and_stay() {
    let scratch = Scratch::new();
    let engine = open_at(scratch.path());
    let families = || {
        let manifest = fs::read_dir(scratch.path().join("rocksdb")).unwrap();
        let manifest = manifest.map(|file| file.unwrap().path());
        let newest = manifest.filter(|path| path.to_string_lossy().contains("MANIFEST")).max();
        String::from_utf8_lossy(&fs::read(newest.unwrap()).unwrap()).into_owned()
    };
    assert!(!families().contains("records_"), "what nobody uses does not exist");
    let mut sizes = Vec::new();
    for space in Space::BY_COMPRESSOR {
        fill(&engine, space, 0);
        engine.compact(space, &[], &[]).expect("compacts");
        sizes.push(engine.approximate_size(space, &[], &[0xff; 5]).expect("a size"));
        assert_eq!(engine.compressor(space), Compressor::of_space(space).unwrap());
    }
    assert!(families().contains("records_zstd"));
    // None, snappy, zlib, zstd, lz4.
    let [none, snappy, zlib, zstd, lz4] = sizes.try_into().unwrap();
    assert!(none > 1_000_000 && snappy < none / 3 && lz4 < none / 3, "{none} {snappy} {lz4}");
    assert!(zlib < none / 8 && zstd < none / 8, "{none} {zlib} {zstd}");
    let copy = Scratch::new();
    engine.checkpoint(copy.path()).expect("a checkpoint");
    drop(engine);
    for dir in [scratch.path(), copy.path()] {
        let engine = open_at(dir);
        Space::BY_COMPRESSOR.into_iter().for_each(|space| check(&engine, space, 2000));
        engine.drop_range(Space::RecordsZstd, &[], &[]).expect("drops");
        assert_eq!(count(&engine, Space::RecordsZstd), 0);
    }
}

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => copy_files(&entry.path(), &to.join(entry.file_name()))?,
            false => fs::copy(entry.path(), to.join(entry.file_name())).map(drop)?,
        }
    }
    Ok(())
}

/// Opens a copy of the files, as after a crash at this moment. Files are created and removed while they are copied,
/// so several attempts may be required to get all of them.
fn crash(dir: &Path, options: &Options) -> (Scratch, Arc<dyn Engine>) {
    for _ in 0..100 {
        let copy = Scratch::new();
        if copy_files(dir, copy.path()).is_ok()
            && let Ok(engine) = open(copy.path(), options)
        {
            return (copy, engine);
        }
    }
    panic!("no copy opens");
}

#[test]
fn a_compressed_log_is_read_after_a_crash_also_when_its_files_were_used_before() {
    let scratch = Scratch::new();
    let options = |journal_compression| Options {
        journal_compression,
        write_buffer_bytes: Some(1 << 20),
        ..small()
    };
    // Compression is switched on and off: files of both kinds are recycled for each other.
    for (round, on) in [true, false, true].into_iter().enumerate() {
        let engine = open(scratch.path(), &options(on)).expect("opens");
        let from = round as u32 * 6000;
        (0..3).for_each(|part| fill(&engine, Space::RecordsZstd, from + part * 2000));
        engine.flush().expect("syncs");
        let (_copy, crashed) = crash(scratch.path(), &options(!on));
        drop(engine);
        let engine = open(scratch.path(), &options(!on)).expect("opens");
        for engine in [crashed, engine] {
            check(&engine, Space::RecordsZstd, from + 6000);
            assert_eq!(count(&engine, Space::Changes), u64::from(from) + 6000);
        }
    }
}

#[test]
fn a_dictionary_makes_small_documents_smaller() {
    let size = |zstd_dictionary_bytes, zstd_level| {
        let scratch = Scratch::new();
        let options = Options {
            records_compression: Compressor::Zstd,
            zstd_dictionary_bytes,
            zstd_level,
            ..small()
        };
        let engine = open(scratch.path(), &options).expect("opens");
        let value =
            |n: u32| format!("customer {:08x} from town {}", n.wrapping_mul(2_654_435_761), n % 7);
        for n in 0..20_000_u32 {
            put(&engine, Space::Records, &n.to_be_bytes(), value(n).as_bytes());
        }
        engine.compact(Space::Records, &[], &[]).expect("compacts");
        assert_eq!(get(&engine, Space::Records, &7_u32.to_be_bytes()), Some(value(7).into_bytes()));
        assert!(gauge(&engine, "disk_live_bytes") > 0);
        engine.approximate_size(Space::Records, &[], &[0xff; 5]).expect("a size")
    };
    let (without, with) = (size(0, None), size(4 << 10, None));
    assert!(with < without, "{with} {without}");
    assert!(size(0, Some(-7)) > without, "a level of speed costs space");
}

//! A database on encrypted files without the ring buffer.

use std::{fs, sync::Arc};

use nagi_encryption::{Keys, MasterKey};
use nagi_kv::Space;
use nagi_testkit::Scratch;

use super::{Batch, Db, System};
use crate::{Options, capacity};

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|found| found == part)
}

/// With and without direct I/O, and with a log that RocksDB writes itself.
#[test]
fn a_database_without_a_ring_buffer_has_everything_after_it_is_left_behind() {
    for direct_io in [false, true] {
        let folder = Scratch::new();
        fs::create_dir_all(folder.path()).expect("creates");
        let master = MasterKey::from_bytes(&[3; 32], "").expect("the right length");
        let keys = Arc::new(Keys::open(folder.path(), &master, true).expect("makes keys"));
        let files = folder.path().join("rocksdb");
        fs::create_dir_all(&files).expect("creates");
        let direct_io = direct_io && capacity::takes_direct_io(&files);
        let options =
            Options { cache_bytes: 16 << 20, keys: Some(Arc::clone(&keys)), ..Options::default() };
        let system = System { direct_io, direct_reads: direct_io, ..System::plain() };
        let value = |n: u32| b"the value of a key ".repeat(1 + (n % 700) as usize);
        let key = |n: u32| [&b"marked key "[..], &n.to_be_bytes()].concat();
        for round in 0..3 {
            let db = Arc::new(Db::open(&files, &options, &system).expect("opens"));
            let mut buf = Vec::new();
            for n in 0..round * 1000 {
                assert!(db.get(None, Space::Records, &key(n), &mut buf).expect("reads"), "{n}");
                assert_eq!(buf, value(n));
            }
            for n in round * 1000..(round + 1) * 1000 {
                let mut batch = Batch::new();
                db.put_batch(&mut batch, Space::Records, &key(n), &value(n));
                db.write(&mut batch).expect("writes");
                if n % 1000 == 600 {
                    db.flush_memtables().expect("flushes");
                    db.compact(Space::Records, &key(0), &key(n));
                }
            }
            // The memtables stay in the log only.
            drop(db);
        }
        let mut seen = 0;
        for entry in fs::read_dir(&files).expect("lists") {
            let path = entry.expect("an entry").path();
            let bytes = fs::read(&path).expect("reads");
            seen += bytes.len();
            let marked = [&b"the value of"[..], b"marked key"];
            assert!(!marked.iter().any(|text| has(&bytes, text)), "{}", path.display());
            let is_lock = path.file_name().is_some_and(|name| name == "LOCK");
            assert!(is_lock || bytes.starts_with(b"NagiFile"), "{}", path.display());
        }
        assert!(seen > 1 << 20, "{seen} bytes");
    }
}

//! Encrypted files that are read and written without RocksDB.

use std::sync::Arc;

use nagi_encryption::MasterKey;
use nagi_testkit::Scratch;

use super::*;

fn keys(folder: &Scratch) -> Arc<Keys> {
    fs::create_dir_all(folder.path()).expect("creates");
    let master = MasterKey::from_bytes(&[3; 32], "").expect("the right length");
    Arc::new(Keys::open(folder.path(), &master, true).expect("makes keys"))
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|found| found == part)
}

#[test]
fn a_replaced_file_reads_as_it_was_written_and_has_another_key_each_time() {
    let folder = Scratch::new();
    let keys = keys(&folder);
    let (path, temporary) = (folder.path().join("file"), folder.path().join("tmp"));
    let content: Vec<u8> = b"something to find".repeat(999);
    let mut before = Vec::new();
    for keys in [None, Some(&*keys), Some(&*keys)] {
        replace(&path, &temporary, content.clone(), keys).expect("writes");
        assert_eq!(read(&path, keys).expect("reads"), content);
        let open = Content::open(&path, keys).expect("opens");
        assert_eq!(open.len().expect("there") as usize, content.len());
        let mut part = [0; 100];
        open.read_exact_at(&mut part, 4711).expect("reads");
        assert_eq!(part, content[4711..4811]);
        let stored = fs::read(&path).expect("there");
        assert_eq!(stored.len() as u64, header_bytes(keys) + content.len() as u64);
        assert_eq!(has(&stored, b"something to find"), keys.is_none());
        assert!(stored != before, "the same key stream");
        before = stored;
        assert!(!temporary.exists());
    }
}

#[test]
fn a_header_is_needed_and_a_single_wrong_bit_of_it_is_found() {
    let folder = Scratch::new();
    let keys = keys(&folder);
    let (path, temporary) = (folder.path().join("000001.log"), folder.path().join("tmp"));
    replace(&path, &temporary, b"content".to_vec(), Some(&keys)).expect("writes");
    let whole = fs::read(&path).expect("there");
    assert_eq!(mended(&whole, &keys), None);
    for bit in (0..HEADER_BYTES * 8).step_by(331) {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &bytes).expect("writes");
        for error in [Content::open(&path, Some(&keys)), Content::open_log(&path, Some(&keys))] {
            let error = error.expect_err("damaged").to_string();
            assert!(error.contains("000001.log: the header of an encrypted file"), "{error}");
        }
        assert_eq!(mended(&bytes, &keys).expect("one bit"), whole[..HEADER_BYTES]);
        bytes[HEADER_BYTES / 2] ^= 3;
        assert_eq!(mended(&bytes, &keys), None);
    }
    // What a crash leaves of a new log, of which only the header was written.
    for length in [0, 1, 108, HEADER_BYTES] {
        fs::write(&path, &whole[..length]).expect("writes");
        assert_eq!(Content::open(&path, Some(&keys)).is_ok(), length == HEADER_BYTES);
        let mut log = Content::open_log(&path, Some(&keys)).expect("empty");
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes).expect("reads");
        assert!(bytes.is_empty() && log.len().expect("there") == 0);
    }
}

//! Prefixes that are new, known, of another version, or of another program.

use std::thread;

use nagi_kv::Space;
use nagi_kv_tikv::open;
use tikv_client::TransactionClient;

use crate::cluster::{engine, get, new_prefix, options, put};

/// Writes a key as another program would.
fn write_raw(key: &[u8], value: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let hosts = options("a").address.placement_drivers;
    let write = async {
        let client = TransactionClient::new(hosts).await?;
        let mut txn = client.begin_optimistic().await?;
        txn.put(key.to_vec(), value.to_vec()).await?;
        txn.commit().await
    };
    runtime.expect("a runtime").block_on(write).expect("writes");
}

fn refusal(prefix: &str) -> String {
    match open(&options(prefix)) {
        Ok(_) => panic!("it is not refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn prefixes_of_others_are_refused() {
    let taken = new_prefix();
    write_raw(&[taken.as_bytes(), b"\0\x01other"].concat(), b"data");
    assert_eq!(
        refusal(&taken),
        format!("the prefix '{taken}' of TiKV is in use by another program")
    );
    let newer = new_prefix();
    write_raw(&[newer.as_bytes(), b"\0\0"].concat(), b"nagi kv-tikv format 2");
    assert!(refusal(&newer).ends_with("have format 2; this program has 1"));
    // A key before the prefix's own range is none of its keys.
    let fine = new_prefix();
    write_raw(fine.as_bytes(), b"data");
    engine(&fine);
}

#[test]
fn several_open_a_new_prefix_at_once_and_find_it_again() {
    let prefix = new_prefix();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| engine(&prefix));
        }
    });
    put(&*engine(&prefix), Space::Records, b"k", b"v");
    assert_eq!(get(&*engine(&prefix), Space::Records, b"k").as_deref(), Some(&b"v"[..]));
    assert_eq!(get(&*engine(&new_prefix()), Space::Records, b"k"), None);
}

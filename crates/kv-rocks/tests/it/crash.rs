//! `kill -9` under load; see `nagi_kv::conformance::crash`.

use nagi_kv::conformance::crash;

use crate::{Scratch, encrypted, open_at};

#[test]
fn child() {
    crash::child(&open_at);
}

#[test]
fn what_was_acknowledged_is_there_after_kill_9() {
    crash::rounds(Scratch::new().path(), 6, &open_at);
}

#[test]
fn what_was_acknowledged_is_there_in_encrypted_files() {
    crash::rounds(encrypted().path(), 6, &open_at);
}

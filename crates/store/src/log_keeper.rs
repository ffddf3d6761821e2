//! The thread of a log of lists (`change_log/listed.rs`): it reads what nodes have listed into the feed of the streams
//! that wait at this node, and removes what is older than the log lasts if this node does the work of all.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use nagi_kv::sync::{Instant, thread::Builder};

use crate::{
    Store,
    store::{Shared, change_log::Lists},
};

/// How often the feed is read while there are streams.
const READ_EACH: Duration = Duration::from_millis(100);
/// How often something is removed, and how soon if there is more.
const TRIM_EACH: Duration = Duration::from_secs(5);
const TRIM_AGAIN: Duration = Duration::from_millis(200);

/// Starts the thread. It ends with the store, or when this node is out.
pub(crate) fn start(shared: &Arc<Shared>, lists: &Arc<Lists>, lasts: Duration) {
    let (shared, lists) = (Arc::downgrade(shared), Arc::clone(lists));
    let started =
        Builder::new().name("changeStreams".into()).spawn(move || run(&shared, &lists, lasts));
    if let Err(error) = started {
        log::error!(target: "STORAGE", id = 8_200_443, error:% = error;
            "The thread that reads changes for change streams cannot be started: they are late");
    }
}

fn run(shared: &Weak<Shared>, lists: &Lists, lasts: Duration) {
    let (mut trim_at, mut is_late) = (Instant::now() + TRIM_EACH, false);
    while lists.pause(READ_EACH) {
        let Some(shared) = shared.upgrade() else { return };
        let store = Store { shared, bound: None, client: Arc::default() };
        let members = store.members.as_ref();
        if members.is_some_and(|members| members.is_over()) {
            return;
        }
        let read = store.refresh_feed(&mut || Ok(()));
        if let Some(error) = read.as_ref().err().filter(|_| !is_late) {
            log::debug!(target: "STORAGE", id = 8_200_444, error:% = error;
                "Changes cannot be read for change streams; retrying");
        }
        is_late = read.is_err();
        if Instant::now() < trim_at || members.is_some_and(|members| !members.is_steward()) {
            continue;
        }
        let more = store.trim_lists(lasts).unwrap_or_else(|error| {
            log::debug!(target: "STORAGE", id = 8_200_445, error:% = error;
                "Old changes cannot be removed from the change log; retrying");
            false
        });
        trim_at = Instant::now() + if more { TRIM_AGAIN } else { TRIM_EACH };
    }
}

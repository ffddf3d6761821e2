//! The threads of a node that shares the data with others. One answers them. The other one reads the counts that they
//! have changed, and does the steward's work if this node is the one that does it; that may take longer.

use std::{
    sync::{Arc, Weak, atomic::Ordering::SeqCst},
    time::Duration,
};

use nagi_error::Result;
use nagi_kv::sync::{
    Instant,
    atomic::AtomicBool,
    thread::{self, Builder},
};

use crate::{
    Store,
    steward::Duties,
    store::{Shared, members::Members},
};

/// How often counts are read, and the steward looks for work.
const DUTIES_EACH: Duration = Duration::from_secs(5);

/// What a thread does.
type Run = fn(&Weak<Shared>, &Arc<Members>);

/// Starts the threads. They end with the store, or when this node is out.
pub(crate) fn start(shared: &Arc<Shared>, members: &Arc<Members>) {
    let threads: [(&str, Run); 2] = [("nodeCatalog", answer), ("nodeDuties", attend)];
    for (name, run) in threads {
        let (shared, members) = (Arc::downgrade(shared), Arc::clone(members));
        let started = Builder::new().name(name.into()).spawn(move || run(&shared, &members));
        if let Err(error) = started {
            // Without the first one the lease of this node ends.
            log::error!(target: "STORAGE", id = 8_200_434, thread = name, error:% = error;
                "A thread that works with the other nodes cannot be started");
        }
    }
}

fn store_of(shared: &Weak<Shared>) -> Option<Store> {
    Some(Store { shared: shared.upgrade()?, bound: None, client: Arc::default() })
}

/// Answers the other nodes.
fn answer(shared: &Weak<Shared>, members: &Arc<Members>) {
    let (mut is_late, mut pause, mut seen) = (false, Duration::ZERO, (0, Instant::now()));
    while members.pause(pause) && !members.is_over() {
        let Some(store) = store_of(shared) else { return };
        match store.answer(members) {
            Ok(()) if is_late => {
                is_late = false;
                log::info!(target: "STORAGE", id = 8_200_436; "The catalog is up to date again");
            }
            Ok(()) => {}
            Err(error) if !is_late && !members.is_over() => {
                is_late = true;
                log::warn!(target: "STORAGE", id = 8_200_435, error:% = error;
                    "The catalog of other nodes cannot be followed; retrying");
            }
            Err(_) => {}
        }
        pause = members.next_look(&mut seen);
    }
}

fn attend(shared: &Weak<Shared>, members: &Arc<Members>) {
    let (mut duties, mut pause) = (Duties::default(), Duration::ZERO);
    let at_work = Arc::new(AtomicBool::new(false));
    while members.pause(pause) && !members.is_over() {
        let Some(store) = store_of(shared) else { return };
        if let Err(error) = do_duties(store, members, &mut duties, &at_work)
            && !members.is_over()
        {
            log::debug!(target: "STORAGE", id = 8_200_441, error:% = error;
                "Counts of other nodes, or what one node does for all, have to wait");
        }
        pause = DUTIES_EACH;
    }
}

/// Counts, and the steward's work, of which the long part is done by a thread of its own.
fn do_duties(
    store: Store,
    members: &Arc<Members>,
    duties: &mut Duties,
    at_work: &Arc<AtomicBool>,
) -> Result<()> {
    duties.count_from = store.read_counts(members, duties.count_from)?;
    store.elect(members)?;
    if members.is_steward() {
        store.reclaim_left_over(duties)?;
    }
    let orphans = store.orphans(members, members.is_steward())?;
    if !orphans.is_empty() && !at_work.swap(true, SeqCst) {
        let (done, members) = (Arc::clone(at_work), Arc::clone(members));
        let work = move || {
            store.adopt(&members, orphans);
            done.store(false, SeqCst);
        };
        if thread::Builder::new().name("nodeSteward".into()).spawn(work).is_err() {
            at_work.store(false, SeqCst);
        }
    }
    Ok(())
}

//! The thread of a node that shares the data with others: it answers them, reads the counts that they have changed, and
//! does the steward's work if this node is the one that does it.

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

/// Starts the thread. It ends with the store, or when this node is out.
pub(crate) fn start(shared: &Arc<Shared>, members: &Arc<Members>) {
    let (shared, members) = (Arc::downgrade(shared), Arc::clone(members));
    let thread = Builder::new().name("nodeCatalog".into());
    let started = thread.spawn(move || run(&shared, &members));
    if let Err(error) = started {
        // Without it the lease of this node ends.
        log::error!(target: "STORAGE", id = 8_200_434, error:% = error;
            "The thread that answers other nodes cannot be started");
    }
}

fn run(shared: &Weak<Shared>, members: &Arc<Members>) {
    let (mut is_late, mut pause) = (false, Duration::ZERO);
    let (mut duties, mut next) = (Duties::default(), Instant::now());
    let mut seen = (0, next);
    let at_work = Arc::new(AtomicBool::new(false));
    while members.pause(pause) && !members.is_over() {
        let Some(shared) = shared.upgrade() else { return };
        let store = Store { shared, bound: None, client: Arc::default() };
        let answered = store.answer(members).and_then(|()| {
            if Instant::now() < next {
                return Ok(());
            }
            next = Instant::now() + DUTIES_EACH;
            attend(store, members, &mut duties, &at_work)
        });
        pause = members.next_look(&mut seen);
        match answered {
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
    }
}

/// Counts, and the steward's work, of which the long part is done by a thread of its own.
fn attend(
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

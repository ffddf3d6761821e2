//! The threads of a node that shares the data with others. One answers them. The second one reads the counts that they
//! have changed, and does the steward's work if this node is the one that does it; that may take longer. The third one
//! has old versions removed, which may take minutes. The fourth one answers questions to this node's server.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use nagi_error::Result;
use nagi_kv::sync::{Instant, Sender, channel, thread::Builder};

use crate::{
    Store,
    steward::{Duties, Wanted},
    store::{Shared, members::Members},
};

/// How often counts are read, and the steward looks for work.
const DUTIES_EACH: Duration = Duration::from_secs(5);

/// How long to wait before a question is answered again, after a failure.
const RETRY_EACH: Duration = Duration::from_millis(200);

/// What a thread does.
type Run = fn(&Weak<Shared>, &Arc<Members>);

/// Starts the threads. They end with the store, or when this node is out.
pub(crate) fn start(shared: &Arc<Shared>, members: &Arc<Members>) {
    let threads: [(&str, Run); 4] = [
        ("nodeCatalog", answer),
        ("nodeDuties", attend),
        ("nodeVersions", tend),
        ("nodeMail", reply),
    ];
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
    let builder = start_builder(shared);
    while members.pause(pause) && !members.is_over() {
        let Some(store) = store_of(shared) else { return };
        if let Err(error) = do_duties(&store, members, &mut duties, builder.as_ref())
            && !members.is_over()
        {
            log::debug!(target: "STORAGE", id = 8_200_441, error:% = error;
                "Counts of other nodes, or what one node does for all, have to wait");
        }
        pause = DUTIES_EACH;
    }
}

/// Has versions removed that no node may read any more.
fn tend(shared: &Weak<Shared>, members: &Arc<Members>) {
    let (mut is_late, mut pause) = (false, Duration::ZERO);
    while members.pause(pause) && !members.is_over() {
        let Some(store) = store_of(shared) else { return };
        match store.tend_versions(members) {
            Ok(()) => is_late = false,
            Err(error) if !is_late && !members.is_over() => {
                is_late = true;
                log::warn!(target: "STORAGE", id = 8_200_422, error:% = error;
                    "The removal of old versions has to wait; retrying");
            }
            Err(_) => {}
        }
        pause = DUTIES_EACH;
    }
}

/// Answers questions of other nodes to this node's server. After a failure again after a while; who has asked waits
/// for seconds only.
fn reply(shared: &Weak<Shared>, members: &Arc<Members>) {
    let mut answered = 0;
    while !members.has_to_end() {
        let Some(asked) = members.next_questions(answered) else { continue };
        let Some(store) = store_of(shared) else { return };
        match store.answer_questions(members, answered..asked) {
            Ok(last) => answered = last,
            Err(error) => {
                log::debug!(target: "STORAGE", id = 8_200_406, error:% = error;
                    "A question of another node cannot be answered yet");
                members.pause(RETRY_EACH);
            }
        }
    }
}

/// Counts, and the steward's work.
fn do_duties(
    store: &Store,
    members: &Members,
    duties: &mut Duties,
    builder: Option<&Sender<Wanted>>,
) -> Result<()> {
    duties.count_from = store.read_counts(members, duties.count_from)?;
    store.elect(members)?;
    if members.is_steward() {
        store.reclaim_left_over(duties)?;
        store.remove_left_questions(members, duties)?;
    }
    let orphans = store.orphans(members, members.is_steward())?;
    for wanted in store.withdraw(members, orphans)? {
        let refused = match builder {
            Some(builder) => builder.send(wanted).err().map(|refused| refused.0),
            None => Some(wanted),
        };
        // Without a thread for it.
        refused.iter().for_each(|wanted| store.build_again(wanted));
    }
    Ok(())
}

/// Starts a thread that builds indexes. It may wait for a build of another node, which has to be dropped when that node
/// dies: so it does nothing else.
fn start_builder(shared: &Weak<Shared>) -> Option<Sender<Wanted>> {
    let (sender, receiver) = channel::<Wanted>();
    let shared = Weak::clone(shared);
    let run = move || {
        for wanted in receiver {
            let Some(store) = store_of(&shared) else { return };
            store.build_again(&wanted);
        }
    };
    Builder::new().name("nodeSteward".into()).spawn(run).ok().map(|_| sender)
}

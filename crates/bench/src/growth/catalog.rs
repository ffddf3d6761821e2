//! Changes of the catalog, which all nodes have to see (decision 104): how long one takes, and how long writers of the
//! collection wait, by the number of nodes and of changes at once.
//!
//!   the node that changes    intent, wait for all seats, lock of the catalog, change, wait for all seats
//!   each other node          looks at the board, lets its writers leave, writes its seat; later once more
use super::costs::{
    self, FAR, NODE_SEND, PD_MESSAGE, RAFT, STORE_READ, STORE_SCAN, STORE_WRITE, SYNC,
};
use super::kernel::{Events, MS, Ns, SECOND, Station};
use crate::histogram::Histogram;
use crate::random::Random;

/// How often a node looks: always, and for a second after a change.
const LOOK: Ns = costs::BOARD_MS * MS;
const LOOK_BUSY: Ns = 20 * MS;
const BUSY: Ns = SECOND;
/// How often the node that changes looks at the seats of the others.
const ANSWERS: Ns = 10 * MS;
/// A node looks again whether its writers have left.
const LEAVING: Ns = 5 * MS;
/// Changes that are measured, of each client.
const EACH: u64 = 20;

/// A timestamp and a read.
const READ: Ns = NODE_SEND.ns + PD_MESSAGE.ns + STORE_READ.ns + 4 * FAR.ns;
/// A timestamp, a read and a commit in one phase, without the part of the region's thread.
const WRITE: Ns = READ + STORE_WRITE.ns + 4 * FAR.ns + SYNC.ns;

/// The lock of the catalog is held for a look at the newest catalog, the commit, and its own removal.
const HELD: Ns = READ + 2 * WRITE;

pub(super) struct Changes {
    pub(super) nodes: usize,
    pub(super) at_once: usize,
    /// Changes a second.
    pub(super) rate: f64,
    pub(super) latencies: Histogram,
    /// How long a node keeps writers out.
    pub(super) closed: Histogram,
    /// The share of the time that the thread of the catalog's region works.
    pub(super) region: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    Posting,
    Closing,
    Changing,
    Following,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Looks(usize),
    /// A node's seat tells what it had seen of each change.
    Tells(usize, Vec<(usize, Phase)>),
    Begins(usize),
    Posted(usize),
    AsksAll(usize),
    Changed(usize),
}

struct Change {
    node: usize,
    phase: Phase,
    begun: Ns,
    /// What each node has seen, and told.
    seen: Vec<Phase>,
    told: Vec<Phase>,
    closed_since: Vec<Ns>,
}

struct World {
    events: Events<What>,
    changes: Vec<Change>,
    /// The thread of the catalog's region, and the lock of the catalog.
    region: Station,
    lock: Station,
    busy_until: Vec<Ns>,
    /// Changes of existing collections have an intent; creations do not.
    with_intent: bool,
    done: u64,
    latencies: Histogram,
    closed: Histogram,
}

/// Simulates clients that each send one change after another, at nodes in turn.
pub(super) fn simulate(nodes: usize, at_once: usize, with_intent: bool, seed: u64) -> Changes {
    let mut random = Random::new(seed);
    let change = |number: usize| Change {
        node: number % nodes,
        phase: Phase::Posting,
        begun: 0,
        seen: vec![Phase::Posting; nodes],
        told: vec![Phase::Posting; nodes],
        closed_since: vec![0; nodes],
    };
    let mut world = World {
        events: Events::new(),
        changes: (0..at_once).map(change).collect(),
        region: Station::new(1),
        lock: Station::new(1),
        busy_until: vec![0; nodes],
        with_intent,
        done: 0,
        latencies: Histogram::new(),
        closed: Histogram::new(),
    };
    (0..nodes).for_each(|node| world.events.at(random.below(LOOK), What::Looks(node)));
    (0..at_once).for_each(|change| {
        // One change alone is not close behind another.
        world.events.at(2 * SECOND + random.below(LOOK), What::Begins(change));
    });
    while world.done < EACH * at_once as u64 {
        let Some(what) = world.events.next() else { break };
        world.happen(what, &mut random);
    }
    let now = world.events.now();
    let time = (now - 2 * SECOND) as f64;
    Changes {
        nodes,
        at_once,
        rate: world.done as f64 / (time / SECOND as f64),
        region: world.region.worked(now) as f64 / time,
        latencies: world.latencies,
        closed: world.closed,
    }
}

impl World {
    fn happen(&mut self, what: What, random: &mut Random) {
        let now = self.events.now();
        match what {
            What::Looks(node) => self.looks(node),
            What::Tells(node, all) => {
                for (at, phase) in all {
                    self.changes[at].told[node] = phase;
                }
            }
            What::Begins(at) => {
                let change = &mut self.changes[at];
                (change.phase, change.begun) = (Phase::Posting, now);
                change.seen.fill(Phase::Posting);
                change.told.fill(Phase::Posting);
                let posted = if self.with_intent { self.write(now) } else { now };
                self.events.at(posted, What::Posted(at));
            }
            What::Posted(at) => {
                self.changes[at].phase = Phase::Closing;
                let next = if self.with_intent { What::AsksAll(at) } else { What::Changed(at) };
                self.events.at(now, next);
            }
            What::AsksAll(at) => self.asks_all(at, random),
            What::Changed(at) => {
                if self.changes[at].phase != Phase::Changing {
                    // Now it has the lock: a look at the newest catalog, and the commit.
                    self.changes[at].phase = Phase::Changing;
                    let held = self.lock.serve(now, HELD);
                    self.region.serve(now, 2 * RAFT.ns);
                    self.events.at(held, What::Changed(at));
                    return;
                }
                self.changes[at].phase = Phase::Following;
                self.events.at(now, What::AsksAll(at));
            }
        }
    }

    /// A write to the catalog's region that begins now; returns its end.
    fn write(&mut self, now: Ns) -> Ns {
        self.region.serve(now, RAFT.ns) + WRITE + RAFT.ns
    }

    /// A node reads the board, and does what it finds there.
    fn looks(&mut self, node: usize) {
        let now = self.events.now();
        let (mut told, mut follows, mut leaves) = (Vec::new(), 0, 0);
        for (at, change) in self.changes.iter_mut().enumerate() {
            if change.node == node || change.phase <= change.seen[node] {
                continue;
            }
            match change.phase {
                Phase::Closing if self.with_intent => {
                    change.closed_since[node] = now;
                    leaves = LEAVING;
                }
                Phase::Following => {
                    follows = READ;
                    if self.with_intent {
                        self.closed.record(now + READ - change.closed_since[node]);
                    }
                }
                _ => continue,
            }
            change.seen[node] = change.phase;
            told.push((at, change.phase));
        }
        let mut again = now + READ;
        if !told.is_empty() {
            self.busy_until[node] = now + BUSY;
            // One write of the seat tells all of it.
            again = self.write(now + READ + leaves + follows);
            self.events.at(again, What::Tells(node, told));
        }
        let pause = if now < self.busy_until[node] { LOOK_BUSY } else { LOOK };
        self.events.at((now + pause).max(again), What::Looks(node));
    }

    /// The node that changes reads all seats.
    fn asks_all(&mut self, at: usize, random: &mut Random) {
        let (now, change) = (self.events.now(), &mut self.changes[at]);
        let phase = change.phase;
        let own = change.node;
        let all = (0..change.told.len()).all(|node| node == own || change.told[node] >= phase);
        let asked = now + READ + STORE_SCAN.ns;
        match (all, phase) {
            (false, _) => self.events.at(asked + ANSWERS, What::AsksAll(at)),
            (true, Phase::Closing) => self.events.at(asked, What::Changed(at)),
            (true, _) => {
                let begun = change.begun;
                self.done += 1;
                self.latencies.record(asked - begun);
                // A client alone waits for the nodes to be calm again.
                let pause =
                    if self.changes.len() == 1 { 2 * SECOND + random.below(LOOK) } else { 0 };
                self.events.at(asked + pause, What::Begins(at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/scale-out.md: three nodes took 0.1 to 0.2 s for a change of a collection, 0.1 s for a creation.
    #[test]
    fn three_nodes_take_about_what_was_measured() {
        let p50 = |at_once, with_intent| {
            simulate(3, at_once, with_intent, 1).latencies.quantile(0.5) / MS
        };
        assert!((80..=200).contains(&p50(1, true)), "{}", p50(1, true));
        assert!((50..=110).contains(&p50(1, false)), "{}", p50(1, false));
    }

    #[test]
    fn the_same_seed_gives_the_same_run_and_more_nodes_take_longer() {
        let run = |nodes, seed| {
            let found = simulate(nodes, 8, true, seed);
            (found.rate.to_bits(), found.latencies.quantile(0.5), found.closed.count())
        };
        assert_eq!(run(10, 5), run(10, 5));
        assert!(run(100, 5).1 > run(2, 5).1);
    }
}

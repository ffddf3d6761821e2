//! The parts of a simulated cluster: nodes, placement driver, stores, regions, and what is under way.
use super::costs::{self, REPLICAS, ZONES};
use super::kernel::{Events, Log, Ns, Station, Turns, US, exponential};
use super::kinds::{Kind, Target, Workload};
use super::measured::Window;
use crate::random::{Random, Zipf};
use std::collections::{HashMap, VecDeque};

/// What could be done against a bottleneck. The default is the engine as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lifts {
    /// Reads at a timestamp that the node has already, from any replica.
    pub(super) stale_reads: bool,
    /// A node has one message to PD on its way, and the next one has all timestamps that were asked for meanwhile.
    pub(super) one_message: bool,
    /// Members of PD that take messages for its leader ("TSO follower proxy").
    pub(super) pd_proxies: usize,
    /// Regions of fences and counters, and regions of sessions.
    pub(super) fences: usize,
    pub(super) sessions: usize,
    /// Hash buckets of records and of ascending ids.
    pub(super) buckets: usize,
    pub(super) follower_reads: bool,
    pub(super) region_mb: u64,
    pub(super) board_ms: u64,
    pub(super) raft_threads: usize,
    /// Costs that the results depend on most, in case that they are wrong.
    pub(super) message_ns: Ns,
    pub(super) command_ns: Ns,
}

impl Default for Lifts {
    fn default() -> Lifts {
        Lifts {
            stale_reads: false,
            one_message: false,
            pd_proxies: 1,
            fences: 1,
            sessions: 1,
            buckets: 1,
            follower_reads: false,
            region_mb: costs::REGION_MB,
            board_ms: costs::BOARD_MS,
            raft_threads: costs::RAFT_THREADS,
            message_ns: costs::PD_MESSAGE.ns,
            command_ns: costs::RAFT.ns,
        }
    }
}

/// A run of the simulation.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub(super) nodes: usize,
    pub(super) stores: usize,
    pub(super) terabytes: f64,
    /// Clients of each node, which send the next operation when the last one is answered.
    pub(super) clients: usize,
    /// Operations that are measured, after two of each client.
    pub(super) operations: u64,
    pub(super) seed: u64,
    pub(super) workload: &'static Workload,
    pub(super) lifts: Lifts,
    /// All processes share this many cores, within one machine, and there is one copy: the machine of the tests.
    pub(super) shared_cores: Option<usize>,
}

impl Setting {
    /// Regions of the data.
    pub(super) fn regions(&self) -> f64 {
        (self.terabytes * 1e6 / self.lifts.region_mb as f64).max(1.0)
    }

    /// The share of the space that TiKV's advice for a store allows.
    pub(super) fn fill(&self) -> f64 {
        self.terabytes * REPLICAS as f64 / (self.stores as f64 * costs::STORE_TB)
    }

    /// Among how many regions a hundred records are that are anywhere.
    pub(super) fn scattered(&self) -> usize {
        let regions = self.regions();
        let among = regions * (1.0 - (1.0 - 1.0 / regions).powi(100));
        (among.round() as usize).clamp(1, 100)
    }

    /// The probability that a block is not in a store's memory. Only leaders read.
    pub(super) fn misses(&self) -> f64 {
        (1.0 - costs::CACHE_BYTES * self.stores as f64 / (self.terabytes * 1e12)).clamp(0.0, 1.0)
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
pub(super) enum What {
    /// An operation begins, of a client or of the node itself.
    Begins(u32),
    /// The node has worked for the operation's next round of requests.
    Computed(u32),
    SendStamps(u32),
    StampsArrive(u32),
    StampsDone(u32),
    StampsBack(u32),
    /// A request is at its store; the store's processor is done; so is the disk.
    Arrives(u32),
    Fetches(u32, u32),
    Served(u32),
    Proposed(u32),
    /// A follower has the entry; has handled it.
    Copied(u32, u8),
    Appended(u32, u8),
    Acknowledged(u32),
    Synced(u32),
    Applied(u32),
    Answered(u32),
    Heartbeat,
}

/// What an operation waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Stamp,
    Read(usize),
    Write,
    SecondStamp,
    Commit,
    Done,
}

pub(super) struct Op {
    pub(super) node: usize,
    pub(super) kind: &'static Kind,
    pub(super) step: Step,
    pub(super) began: Ns,
    /// When it got its timestamp: a later commit of its key is a conflict.
    pub(super) stamped: Ns,
    pub(super) pending: u32,
    pub(super) sent: u32,
    pub(super) conflict: bool,
    pub(super) key: u64,
    /// The number of its attempt, which names its locks.
    pub(super) attempt: u64,
    pub(super) has_turn: bool,
    /// Writes of its commit: region and leader.
    pub(super) writes: Vec<(Option<usize>, usize)>,
    /// Of the node itself: it begins again after this long, and is not counted.
    pub(super) every: Option<Ns>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    Get,
    Scan,
    Prewrite,
    Commit,
    /// The second phase of the other keys.
    Late,
    Rollback,
}

impl Work {
    /// True if no operation waits for it.
    pub(super) fn is_late(self) -> bool {
        matches!(self, Work::Late | Work::Rollback)
    }

    pub(super) fn is_read(self) -> bool {
        matches!(self, Work::Get | Work::Scan)
    }
}

pub(super) struct Request {
    pub(super) op: u32,
    pub(super) node: usize,
    pub(super) work: Work,
    pub(super) region: Option<usize>,
    pub(super) leader: usize,
    /// The version of the region that the node knows.
    pub(super) epoch: u32,
    pub(super) of_key: Option<u64>,
    pub(super) attempt: u64,
    pub(super) logged: bool,
    pub(super) acks: u8,
    pub(super) applies: bool,
    /// Events that are still to come.
    pub(super) left: u8,
}

pub(super) struct Node {
    pub(super) cores: Station,
    pub(super) stamps: VecDeque<u32>,
    pub(super) sending: bool,
    /// Whose turn it is of those that have lost a conflict, and who waits for it.
    pub(super) turn: Option<u32>,
    pub(super) losers: VecDeque<u32>,
    /// The versions of special regions that it knows.
    pub(super) epochs: Vec<u32>,
}

pub(super) struct Store {
    pub(super) cores: Station,
    pub(super) raft: Station,
    pub(super) apply: Station,
    pub(super) log: Log,
    pub(super) reads: Station,
    pub(super) disk: Station,
}

/// A region with a load of its own. The many others of the data have none worth a queue.
pub(super) struct Region {
    pub(super) target: Target,
    pub(super) leader: usize,
    pub(super) raft: Turns,
    pub(super) apply: Turns,
    pub(super) bytes: u64,
    pub(super) epoch: u32,
    pub(super) closed_until: Ns,
}

#[derive(Default)]
pub(super) struct HotKey {
    pub(super) locked_by: Option<u64>,
    pub(super) committed: Ns,
}

/// Things by number, whose numbers are used again.
pub(super) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Slab<T> {
        Slab { items: Vec::new(), free: Vec::new() }
    }

    pub(super) fn add(&mut self, item: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.items[number as usize] = Some(item);
            return number;
        }
        self.items.push(Some(item));
        self.items.len() as u32 - 1
    }

    pub(super) fn of(&mut self, number: u32) -> &mut T {
        self.items[number as usize].as_mut().expect("it is in use")
    }

    pub(super) fn remove(&mut self, number: u32) -> T {
        self.free.push(number);
        self.items[number as usize].take().expect("it is in use")
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

/// The state of a run.
pub(super) struct Cluster {
    pub(super) setting: Setting,
    pub(super) events: Events<What>,
    pub(super) random: Random,
    pub(super) zipf: Zipf,
    pub(super) nodes: Vec<Node>,
    pub(super) stores: Vec<Store>,
    pub(super) pd: Vec<Station>,
    pub(super) regions: Vec<Region>,
    pub(super) ops: Slab<Op>,
    pub(super) requests: Slab<Request>,
    pub(super) batches: Slab<(usize, Vec<u32>)>,
    pub(super) keys: HashMap<u64, HotKey>,
    /// The cores that all processes share, if they do.
    pub(super) shared: Option<Station>,
    pub(super) attempts: u64,
    /// Nothing begins any more.
    pub(super) draining: bool,
    pub(super) window: Window,
}

impl Cluster {
    pub(super) fn new(setting: Setting) -> Cluster {
        let lifts = &setting.lifts;
        let node = || Node {
            cores: Station::new(costs::NODE_CORES),
            stamps: VecDeque::new(),
            sending: false,
            turn: None,
            losers: VecDeque::new(),
            epochs: Vec::new(),
        };
        let store = || Store {
            cores: Station::new(costs::STORE_CORES),
            raft: Station::new(lifts.raft_threads),
            apply: Station::new(lifts.raft_threads),
            log: Log::default(),
            reads: Station::new(costs::DISK_READS),
            disk: Station::new(1),
        };
        let mut random = Random::new(setting.seed);
        let regions = regions(&setting, &mut random);
        let mut nodes: Vec<Node> = std::iter::repeat_with(node).take(setting.nodes).collect();
        nodes.iter_mut().for_each(|node| node.epochs = vec![0; regions.len()]);
        let pd = || Station::new(costs::PD_CORES);
        Cluster {
            events: Events::new(),
            zipf: Zipf::new(costs::SKEWED),
            nodes,
            stores: std::iter::repeat_with(store).take(setting.stores).collect(),
            pd: std::iter::repeat_with(pd).take(lifts.pd_proxies).collect(),
            regions,
            ops: Slab::new(),
            requests: Slab::new(),
            batches: Slab::new(),
            keys: HashMap::new(),
            shared: setting.shared_cores.map(Station::new),
            attempts: 0,
            draining: false,
            window: Window::new(),
            random,
            setting,
        }
    }

    /// A length of processor time with this mean.
    pub(super) fn work(&mut self, mean: Ns) -> Ns {
        exponential(&mut self.random, mean)
    }

    /// One way from one machine to another. Machines are in the zones in turn; PD's leader is in the first one.
    pub(super) fn way(&self, from: usize, to: usize) -> Ns {
        if self.setting.shared_cores.is_some() {
            return 10 * US;
        }
        if from % ZONES == to % ZONES { costs::NEAR.ns } else { costs::FAR.ns }
    }

    /// A region for a target, if it is a special one, and the store of its leader.
    pub(super) fn region(&mut self, target: Target) -> (Option<usize>, usize) {
        let of = |region: &&Region| region.target == target;
        let count = self.regions.iter().filter(of).count();
        if count == 0 {
            return (None, self.random.below(self.setting.stores as u64) as usize);
        }
        let first = self.regions.iter().position(|region| region.target == target).unwrap_or(0);
        let region = first + self.random.below(count as u64) as usize;
        (Some(region), self.regions[region].leader)
    }
}

/// The regions with a load of their own. Those of one target are neighbours in the list. PD moves leaders of loaded
/// regions apart, so they are at different stores while there are enough.
fn regions(setting: &Setting, random: &mut Random) -> Vec<Region> {
    let lifts = &setting.lifts;
    let region_bytes = lifts.region_mb * 1_000_000;
    // The blocks of record numbers that the nodes are filling lie behind each other.
    let blocks = setting.nodes as u64 * costs::BLOCK * costs::DOCUMENT_BYTES / region_bytes;
    let of_records = if lifts.buckets > 1 { lifts.buckets } else { blocks.max(1) as usize };
    let groups = [
        (Target::Catalog, 1),
        (Target::Fences, lifts.fences),
        (Target::Sessions, lifts.sessions),
        (Target::Records, of_records),
        (Target::Ids, lifts.buckets),
    ];
    let targets = groups.iter().flat_map(|(target, count)| std::iter::repeat_n(*target, *count));
    let region = |(number, target): (usize, Target)| Region {
        target,
        leader: number % setting.stores,
        raft: Turns::default(),
        apply: Turns::default(),
        // Half full to full, as after a split.
        bytes: region_bytes / 2 + random.below(region_bytes / 2),
        epoch: 0,
        closed_until: 0,
    };
    targets.enumerate().map(region).collect()
}

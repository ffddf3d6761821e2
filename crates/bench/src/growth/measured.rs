//! What is measured of a run: operations, latencies, and how busy each resource was.
use super::cluster::{Cluster, Region};
use super::kernel::{Ns, SECOND, Station};
use super::kinds::Target;
use crate::histogram::Histogram;

/// A resource that is busier than this is a bottleneck.
const BUSY: f64 = 0.85;
/// So many conflicts for an operation are a bottleneck of their own.
const CONFLICTS: f64 = 0.5;

/// Resources of each kind, and how long each of them has worked.
type Worked = Vec<(&'static str, Vec<f64>)>;

/// The part of a run that is measured.
pub(super) struct Window {
    /// Operations of clients that have begun, and that were answered, in the whole run.
    pub(super) begun: u64,
    pub(super) answered: u64,
    skipped: u64,
    wanted: u64,
    pub(super) latencies: Histogram,
    begin: Option<(Ns, Worked)>,
    /// Counts since the beginning of the part.
    pub(super) stamps: u64,
    pub(super) messages: u64,
    pub(super) conflicts: u64,
    pub(super) lock_waits: u64,
    pub(super) splits: u64,
    pub(super) look_ups: u64,
}

impl Window {
    pub(super) fn new() -> Window {
        Window {
            begun: 0,
            answered: 0,
            skipped: 0,
            wanted: 0,
            latencies: Histogram::new(),
            begin: None,
            stamps: 0,
            messages: 0,
            conflicts: 0,
            lock_waits: 0,
            splits: 0,
            look_ups: 0,
        }
    }

    /// Leaves out so many operations, then measures so many.
    pub(super) fn plan(&mut self, skipped: u64, wanted: u64) {
        (self.skipped, self.wanted) = (skipped, wanted);
    }

    pub(super) fn done(&mut self, latency: Ns) {
        self.answered += 1;
        if self.begin.is_some() {
            self.latencies.record(latency);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.latencies.count() >= self.wanted
    }
}

/// How busy the resources of one kind were: all of them, and the busiest one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Use {
    pub(super) name: &'static str,
    pub(super) mean: f64,
    pub(super) most: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) seconds: f64,
    pub(super) rate: f64,
    pub(super) p50: Ns,
    pub(super) p99: Ns,
    pub(super) uses: Vec<Use>,
    pub(super) stamps: f64,
    pub(super) messages: f64,
    pub(super) conflicts: f64,
}

impl Found {
    pub(super) fn of(&self, name: &str) -> &Use {
        self.uses.iter().find(|of| of.name == name).expect("a resource")
    }

    /// What limits the rate.
    pub(super) fn bottleneck(&self) -> String {
        let busiest = self.uses.iter().max_by(|a, b| a.most.total_cmp(&b.most));
        match busiest {
            Some(of) if of.most >= BUSY => match of.most > 2.0 * of.mean && of.mean > 0.0 {
                true => format!("{} at one", of.name),
                false => of.name.to_owned(),
            },
            _ if self.conflicts > CONFLICTS => "conflicts on hot keys".to_owned(),
            _ => "none: clients wait".to_owned(),
        }
    }
}

impl Cluster {
    /// Begins to measure when enough was left out.
    pub(super) fn measure(&mut self) {
        if self.window.begin.is_none() && self.window.answered >= self.window.skipped {
            self.window.begin = Some((self.events.now(), self.worked()));
            let window = &mut self.window;
            (window.stamps, window.messages, window.conflicts) = (0, 0, 0);
            (window.lock_waits, window.splits, window.look_ups) = (0, 0, 0);
        }
    }

    /// Nanoseconds that each resource has worked until now, divided by its servers.
    fn worked(&self) -> Worked {
        let now = self.events.now();
        let of = |station: &Station| station.worked(now) as f64 / station.servers() as f64;
        let region = |target: Target| {
            let of = |region: &Region| region.raft.worked(now).max(region.apply.worked(now)) as f64;
            self.regions.iter().filter(|region| region.target == target).map(of).collect()
        };
        let mut all: Worked = vec![
            ("node cores", self.nodes.iter().map(|node| of(&node.cores)).collect()),
            ("PD", self.pd.iter().map(of).collect()),
            ("store cores", self.stores.iter().map(|store| of(&store.cores)).collect()),
            ("log threads", self.stores.iter().map(|store| of(&store.raft)).collect()),
            ("apply threads", self.stores.iter().map(|store| of(&store.apply)).collect()),
            ("disk reads", self.stores.iter().map(|store| of(&store.reads)).collect()),
            ("disk writes", self.stores.iter().map(|store| of(&store.disk)).collect()),
            ("region of fences", region(Target::Fences)),
            ("region of sessions", region(Target::Sessions)),
            ("last region of records", region(Target::Records)),
            ("last region of ids", region(Target::Ids)),
            ("region of the catalog", region(Target::Catalog)),
        ];
        all.extend(self.shared.iter().map(|station| ("the machine", vec![of(station)])));
        all
    }

    pub(super) fn found(&self) -> Found {
        let now = self.events.now();
        let (since, before) = self.window.begin.clone().unwrap_or((now, self.worked()));
        let (time, window) = ((now - since).max(1) as f64, &self.window);
        let count = window.latencies.count() as f64;
        let uses = self.worked().into_iter().zip(before).map(|((name, after), (_, before))| {
            let each: Vec<f64> =
                after.iter().zip(before).map(|(after, before)| (after - before) / time).collect();
            let mean = each.iter().sum::<f64>() / each.len().max(1) as f64;
            Use { name, mean, most: each.into_iter().fold(0.0, f64::max) }
        });
        let seconds = time / SECOND as f64;
        Found {
            seconds,
            rate: count / seconds,
            p50: window.latencies.quantile(0.5),
            p99: window.latencies.quantile(0.99),
            uses: uses.collect(),
            stamps: window.stamps as f64 / seconds,
            messages: window.messages as f64 / seconds,
            conflicts: window.conflicts as f64 / count.max(1.0),
        }
    }
}

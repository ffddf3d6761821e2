//! The course of a request at the stores: reads from memory or disk, commands through the log of their region, which
//! two of three replicas have synced before it is applied.
use super::cluster::{Cluster, What, Work};
use super::costs::{self, REPLICAS};
use super::kernel::{Ns, SECOND};
use super::kinds::Target;

/// A write of a log is that of the leader, or of a follower's copy.
const OF_FOLLOWER: u32 = 1 << 31;
const MILLION: u64 = 1_000_000;

impl Cluster {
    pub(super) fn at_store(&mut self, what: What) {
        match what {
            What::Arrives(request) => self.arrives(request),
            What::Fetches(request, store) => self.fetches(request, store as usize),
            What::Served(request) => self.served(request),
            What::Proposed(request) => self.proposed(request),
            What::Copied(request, follower) => self.copied(request, follower),
            What::Appended(request, follower) => self.appended(request, follower),
            What::Acknowledged(request) => {
                self.requests.of(request).acks += 1;
                self.may_apply(request);
                self.release(request);
            }
            What::Synced(store) => self.synced(store as usize),
            What::Applied(request) => self.applied(request),
            _ => {}
        }
    }

    /// The request has one event less before it. The last one removes it.
    pub(super) fn release(&mut self, number: u32) {
        let request = self.requests.of(number);
        request.left -= 1;
        if request.left == 0 {
            self.requests.remove(number);
        }
    }

    fn arrives(&mut self, number: u32) {
        let now = self.events.now();
        let request = self.requests.of(number);
        let (region, node, epoch) = (request.region, request.node, request.epoch);
        if let Some(at) = region {
            let known = self.regions[at].epoch;
            let open = self.regions[at].closed_until;
            if open > now {
                self.events.at(open, What::Arrives(number));
                return;
            }
            if epoch != known {
                self.look_up(number, at, node);
                return;
            }
        }
        if self.waits_for_lock(number) {
            return;
        }
        let request = self.requests.of(number);
        let (request_work, leader) = (request.work, request.leader);
        let mean = match request_work {
            Work::Get => costs::STORE_READ.ns,
            Work::Scan => costs::STORE_SCAN.ns,
            Work::Prewrite | Work::Commit | Work::Late | Work::Rollback => costs::STORE_WRITE.ns,
        };
        let is_read = request_work.is_read();
        let lifts = self.setting.lifts;
        let (mut at, mut wait) = (leader, 0);
        if is_read && (lifts.stale_reads || lifts.follower_reads) {
            at = (leader + self.random.below(REPLICAS as u64) as usize) % self.setting.stores;
        }
        if at != leader && !lifts.stale_reads {
            // The replica asks the leader first.
            let asked = self.stores[leader].cores.serve(now, costs::READ_INDEX.ns);
            wait = asked - now + 2 * self.way(at, leader);
        }
        let work = self.work(mean);
        let cores = self.shared.as_mut().unwrap_or(&mut self.stores[at].cores);
        let done = cores.serve(now, work) + wait;
        // The blocks of special regions are in memory, and the upper levels of all; a block of the data may not be.
        let chance = self.random.below(MILLION) as f64 / MILLION as f64;
        let is_on_disk = is_read && region.is_none() && chance < self.setting.misses();
        let next = if is_on_disk { What::Fetches(number, at as u32) } else { What::Served(number) };
        self.events.at(done, next);
    }

    fn fetches(&mut self, number: u32, store: usize) {
        let (now, work) = (self.events.now(), self.work(costs::DISK_READ.ns));
        let done = self.stores[store].reads.serve(now, work);
        self.events.at(done, What::Served(number));
    }

    /// The node knows an older version of the region: it asks PD for the new one, and sends the request again.
    fn look_up(&mut self, number: u32, region: usize, node: usize) {
        let (now, leader) = (self.events.now(), self.regions[region].leader);
        let work = self.work(costs::PD_REGION.ns);
        let asked = self.pd[0].serve(now, work) - now;
        let way = 2 * self.way(leader, node) + 2 * self.way(node, 0);
        self.nodes[node].epochs[region] = self.regions[region].epoch;
        self.requests.of(number).epoch = self.regions[region].epoch;
        self.window.look_ups += 1;
        self.events.after(asked + way, What::Arrives(number));
    }

    /// A read waits for the lock of another operation; a write that finds one, or a newer commit, has lost.
    fn waits_for_lock(&mut self, number: u32) -> bool {
        let request = self.requests.of(number);
        let (Some(name), attempt, op) = (request.of_key, request.attempt, request.op) else {
            return false;
        };
        let key = self.keys.entry(name).or_default();
        let is_locked = key.locked_by.is_some_and(|by| by != attempt);
        match request.work {
            Work::Get if is_locked => {
                self.window.lock_waits += 1;
                self.events.after(costs::LOCK_PAUSE.ns, What::Arrives(number));
                return true;
            }
            Work::Prewrite => {
                let of = self.ops.of(op);
                if is_locked || key.committed > of.stamped {
                    of.conflict = true;
                } else {
                    key.locked_by = Some(attempt);
                }
            }
            _ => {}
        }
        false
    }

    fn served(&mut self, number: u32) {
        let request = self.requests.of(number);
        if request.work.is_read() {
            return self.answer(number);
        }
        let now = self.events.now();
        match request.region {
            Some(at) if !self.regions[at].raft.begin(now, number) => {}
            _ => self.propose(number),
        }
    }

    /// The region's thread appends the command.
    fn propose(&mut self, number: u32) {
        let (now, work) = (self.events.now(), self.work(self.setting.lifts.command_ns));
        let leader = self.requests.of(number).leader;
        let raft = self.shared.as_mut().unwrap_or(&mut self.stores[leader].raft);
        let done = raft.serve(now, work);
        self.events.at(done, What::Proposed(number));
    }

    fn proposed(&mut self, number: u32) {
        let now = self.events.now();
        let request = self.requests.of(number);
        let (region, leader) = (request.region, request.leader);
        if let Some(next) = region.and_then(|at| self.regions[at].raft.end(now)) {
            self.propose(next);
        }
        let followers = self.followers();
        self.requests.of(number).left += 1 + followers;
        for follower in 1..=followers {
            let to = self.follower(number, follower);
            let way = self.way(leader, to);
            self.events.after(way, What::Copied(number, follower));
        }
        self.log(leader, number);
    }

    fn followers(&self) -> u8 {
        (self.setting.stores.min(REPLICAS) - 1) as u8
    }

    fn follower(&mut self, number: u32, follower: u8) -> usize {
        (self.requests.of(number).leader + usize::from(follower)) % self.setting.stores
    }

    fn copied(&mut self, number: u32, follower: u8) {
        let store = self.follower(number, follower);
        let (now, work) = (self.events.now(), self.work(self.setting.lifts.command_ns));
        let done = self.stores[store].raft.serve(now, work);
        self.events.at(done, What::Appended(number, follower));
    }

    fn appended(&mut self, number: u32, follower: u8) {
        let store = self.follower(number, follower);
        // It is applied later, without a request that waits.
        let (now, work) = (self.events.now(), self.work(self.setting.lifts.command_ns));
        self.stores[store].apply.serve(now, work);
        self.write_data(store);
        self.log(store, number | OF_FOLLOWER);
    }

    /// The bytes of a command, which the disk writes several times as levels are merged.
    fn write_data(&mut self, store: usize) {
        let bytes = costs::DOCUMENT_BYTES / 4 * costs::AMPLIFICATION;
        let now = self.events.now();
        self.stores[store].disk.serve(now, bytes * SECOND / costs::DISK_BYTES_PER_SECOND);
    }

    fn log(&mut self, store: usize, write: u32) {
        if let Some(bytes) = self.stores[store].log.add(write, costs::DOCUMENT_BYTES) {
            self.sync(store, bytes);
        }
    }

    fn sync(&mut self, store: usize, bytes: u64) {
        let time: Ns = costs::SYNC.ns + bytes * SECOND / costs::DISK_BYTES_PER_SECOND;
        self.events.after(time, What::Synced(store as u32));
    }

    fn synced(&mut self, store: usize) {
        let mut writes = Vec::new();
        if let Some(bytes) = self.stores[store].log.end(&mut writes) {
            self.sync(store, bytes);
        }
        for write in writes {
            let number = write & !OF_FOLLOWER;
            if write & OF_FOLLOWER == 0 {
                self.requests.of(number).logged = true;
                self.may_apply(number);
                self.release(number);
            } else {
                let leader = self.requests.of(number).leader;
                let way = self.way(leader, store);
                self.events.after(way, What::Acknowledged(number));
            }
        }
    }

    /// The leader applies the command when two of three replicas have it.
    fn may_apply(&mut self, number: u32) {
        let wanted = u8::from(self.followers() > 0);
        let now = self.events.now();
        let request = self.requests.of(number);
        if request.applies || !request.logged || request.acks < wanted {
            return;
        }
        request.applies = true;
        match request.region {
            Some(at) if !self.regions[at].apply.begin(now, number) => {}
            _ => self.apply(number),
        }
    }

    fn apply(&mut self, number: u32) {
        let (now, work) = (self.events.now(), self.work(self.setting.lifts.command_ns));
        let leader = self.requests.of(number).leader;
        let apply = self.shared.as_mut().unwrap_or(&mut self.stores[leader].apply);
        let done = apply.serve(now, work);
        self.events.at(done, What::Applied(number));
    }

    fn applied(&mut self, number: u32) {
        let now = self.events.now();
        let request = self.requests.of(number);
        let (region, leader, work) = (request.region, request.leader, request.work);
        let (of_key, attempt) = (request.of_key, request.attempt);
        if let Some(next) = region.and_then(|at| self.regions[at].apply.end(now)) {
            self.apply(next);
        }
        self.write_data(leader);
        if let (Some(at), Work::Prewrite) = (region, work) {
            self.grow(at);
        }
        if let (Some(name), Work::Commit | Work::Late | Work::Rollback) = (of_key, work) {
            let key = self.keys.entry(name).or_default();
            if key.locked_by == Some(attempt) {
                key.locked_by = None;
                key.committed = if work == Work::Rollback { key.committed } else { now };
            }
        }
        self.answer(number);
    }

    /// A region at the end of its collection grows, and splits when it is full.
    fn grow(&mut self, at: usize) {
        let (now, limit) = (self.events.now(), self.setting.lifts.region_mb * 1_000_000);
        let region = &mut self.regions[at];
        if !matches!(region.target, Target::Records | Target::Ids) {
            return;
        }
        region.bytes += costs::DOCUMENT_BYTES;
        if region.bytes >= limit {
            region.bytes = limit / 2;
            region.epoch += 1;
            region.closed_until = now + costs::SPLIT.ns;
            self.window.splits += 1;
        }
    }

    fn answer(&mut self, number: u32) {
        let request = self.requests.of(number);
        let (leader, node) = (request.leader, request.node);
        let way = self.way(leader, node);
        self.events.after(way, What::Answered(number));
    }
}

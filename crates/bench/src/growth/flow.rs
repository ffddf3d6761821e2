//! The course of an operation at its node: timestamps, rounds of requests, conflicts, the answer.
use super::cluster::{Cluster, Op, Request, Step, What, Work};
use super::costs;
use super::kernel::{MS, Ns, SECOND, exponential};
use super::kinds::{self, Kind, Round, Target};

/// Events of a run at most: a bound of its time.
const EVENTS_MAX: u64 = 200_000_000;

impl Cluster {
    /// Runs until the operations are measured.
    pub(super) fn run(mut self) -> Cluster {
        self.begin();
        while !self.window.is_over() && self.events.planned() < EVENTS_MAX {
            let Some(what) = self.events.next() else { break };
            self.happen(what);
            self.measure();
        }
        self
    }

    /// Ends what is under way, without new operations. Returns what could not end.
    #[cfg(test)]
    pub(super) fn drain(&mut self) -> usize {
        self.draining = true;
        while let Some(what) = self.events.next() {
            self.happen(what);
        }
        self.requests.used()
    }

    fn begin(&mut self) {
        let clients = self.setting.nodes * self.setting.clients;
        self.window.plan(2 * clients as u64, self.setting.operations);
        for client in 0..clients {
            let op = self.operation(client % self.setting.nodes, &kinds::BOARD, None);
            // Not all in one moment.
            let at = self.random.below(MS);
            self.events.at(at, What::Begins(op));
        }
        if self.setting.shared_cores.is_some() {
            return;
        }
        for node in 0..self.setting.nodes {
            for (kind, every) in self.duties() {
                let op = self.operation(node, kind, Some(every));
                let at = self.random.below(every);
                self.events.at(at, What::Begins(op));
            }
        }
        self.events.at(0, What::Heartbeat);
    }

    /// What each node does beside, and how often.
    fn duties(&self) -> [(&'static Kind, Ns); 3] {
        let parts = costs::COLLECTIONS * self.setting.nodes as u64 * costs::PARTS_EACH;
        let pages = parts.min(costs::PARTS_MAX).div_ceil(costs::PAGE);
        [
            (&kinds::BOARD, self.setting.lifts.board_ms * MS),
            (&kinds::RENEWAL, costs::RENEWAL_MS * MS),
            (&kinds::COUNTS, costs::COUNTS_MS * MS / pages),
        ]
    }

    fn operation(&mut self, node: usize, kind: &'static Kind, every: Option<Ns>) -> u32 {
        self.ops.add(Op {
            node,
            kind,
            step: Step::Stamp,
            began: 0,
            stamped: 0,
            pending: 0,
            sent: 0,
            conflict: false,
            key: 0,
            attempt: 0,
            has_turn: false,
            writes: Vec::new(),
            every,
        })
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Begins(op) => self.begins(op),
            What::Computed(op) => self.step(op),
            What::SendStamps(node) => self.send_stamps(node as usize),
            What::StampsArrive(batch) => self.stamps_arrive(batch),
            What::StampsDone(batch) => {
                let node = self.batches.of(batch).0;
                let way = self.way(0, node);
                self.events.after(way, What::StampsBack(batch));
            }
            What::StampsBack(batch) => self.stamps_back(batch),
            What::Answered(request) => self.answered(request),
            What::Heartbeat => self.heartbeat(),
            at_store => self.at_store(at_store),
        }
    }

    fn begins(&mut self, number: u32) {
        if self.draining {
            return;
        }
        let (now, workload) = (self.events.now(), self.setting.workload);
        let mut chosen = self.random.below(100);
        let key = self.zipf.next(&mut self.random);
        self.attempts += 1;
        let op = self.ops.of(number);
        if op.every.is_none() {
            op.kind = workload
                .kinds
                .iter()
                .find(|(share, _)| {
                    let is_it = chosen < *share;
                    chosen = chosen.saturating_sub(*share);
                    is_it
                })
                .map_or(op.kind, |(_, kind)| kind);
        }
        (op.began, op.step, op.sent, op.key) = (now, Step::Stamp, 0, key);
        (op.conflict, op.attempt) = (false, self.attempts);
        let (node, is_read) = (op.node, op.kind.writes.is_empty());
        if op.every.is_none() {
            self.window.begun += 1;
        }
        let cost = if is_read { costs::NODE_READ.ns } else { costs::NODE_WRITE.ns };
        self.compute(number, node, cost);
    }

    /// The node works for an operation, whose next step follows.
    fn compute(&mut self, op: u32, node: usize, mean: Ns) {
        let (now, work) = (self.events.now(), self.work(mean));
        let cores = self.shared.as_mut().unwrap_or(&mut self.nodes[node].cores);
        let done = cores.serve(now, work);
        self.events.at(done, What::Computed(op));
    }

    /// Sends what the step of the operation needs, or goes to the next step.
    fn step(&mut self, number: u32) {
        let stale = self.setting.lifts.stale_reads;
        let op = self.ops.of(number);
        let (node, kind) = (op.node, op.kind);
        match op.step {
            Step::Stamp if stale && kind.writes.is_empty() => self.next_step(number),
            Step::Stamp | Step::SecondStamp => {
                op.sent += 1;
                self.nodes[node].stamps.push_back(number);
                if !self.nodes[node].sending {
                    self.nodes[node].sending = true;
                    self.events.after(costs::NODE_SEND.ns, What::SendStamps(node as u32));
                }
            }
            Step::Read(round) => self.read(number, kind.reads[round]),
            Step::Write => {
                let targets = kind.writes;
                let writes = targets.iter().map(|target| self.region(*target)).collect();
                self.ops.of(number).writes = writes;
                self.write(number, Work::Prewrite, 0, targets.len());
            }
            Step::Commit => {
                self.write(number, Work::Commit, 0, 1);
                self.write(number, Work::Late, 1, kind.writes.len());
            }
            Step::Done => self.done(number),
        }
    }

    fn read(&mut self, number: u32, round: Round) {
        let (count, target, work) = match round {
            Round::Get(target) => (1, target, Work::Get),
            Round::Scan(target) => (1, target, Work::Scan),
            Round::Records100 => (self.setting.scattered(), Target::Any, Work::Get),
        };
        for _ in 0..count {
            let (region, leader) = self.region(target);
            let of_key = (target == Target::Key).then(|| self.ops.of(number).key);
            self.send(number, work, (region, leader), of_key);
        }
        self.ops.of(number).pending = count as u32;
    }

    fn write(&mut self, number: u32, work: Work, first: usize, end: usize) {
        for at in first..end {
            let op = self.ops.of(number);
            let (to, is_key) = (op.writes[at], op.kind.writes[at] == Target::Key);
            let of_key = is_key.then_some(op.key);
            self.send(number, work, to, of_key);
        }
        if !work.is_late() {
            self.ops.of(number).pending = (end - first) as u32;
        }
    }

    fn send(&mut self, op: u32, work: Work, to: (Option<usize>, usize), of_key: Option<u64>) {
        let of = self.ops.of(op);
        of.sent += 1;
        let (node, attempt, (region, leader)) = (of.node, of.attempt, to);
        let request = Request {
            op,
            node,
            work,
            region,
            leader,
            epoch: region.map_or(0, |region| self.nodes[node].epochs[region]),
            of_key,
            attempt,
            logged: false,
            acks: 0,
            applies: false,
            left: 1,
        };
        let (request, way) = (self.requests.add(request), self.way(node, leader));
        self.events.after(way, What::Arrives(request));
    }

    /// The step has all its answers.
    fn next_step(&mut self, number: u32) {
        let op = self.ops.of(number);
        let one_phase = op.kind.writes.len() == 1;
        op.step = match op.step {
            Step::Stamp if !op.kind.reads.is_empty() => Step::Read(0),
            Step::Read(round) if round + 1 < op.kind.reads.len() => Step::Read(round + 1),
            Step::Stamp | Step::Read(_) if op.kind.writes.is_empty() => Step::Done,
            Step::Stamp | Step::Read(_) => Step::Write,
            Step::Write if one_phase => Step::Done,
            Step::Write => Step::SecondStamp,
            Step::SecondStamp => Step::Commit,
            Step::Commit | Step::Done => Step::Done,
        };
        // The first three requests are in the cost of the operation.
        let (node, extra) = (op.node, u64::from(op.sent.saturating_sub(3)));
        op.sent -= extra as u32;
        match extra {
            0 => self.step(number),
            extra => self.compute(number, node, extra * costs::NODE_REQUEST.ns),
        }
    }

    fn send_stamps(&mut self, node: usize) {
        let of = &mut self.nodes[node];
        let most = if self.setting.lifts.one_message { usize::MAX } else { costs::STAMPS_MAX };
        let count = of.stamps.len().min(most);
        let batch: Vec<u32> = of.stamps.drain(..count).collect();
        let again = !of.stamps.is_empty() && !self.setting.lifts.one_message;
        of.sending = again || self.setting.lifts.one_message;
        if again {
            self.events.after(costs::NODE_SEND.ns, What::SendStamps(node as u32));
        }
        let (batch, way) = (self.batches.add((node, batch)), self.way(node, 0));
        self.events.after(way, What::StampsArrive(batch));
    }

    fn stamps_arrive(&mut self, batch: u32) {
        let (node, count) = (self.batches.of(batch).0, self.batches.of(batch).1.len() as u64);
        let work = self.work(self.setting.lifts.message_ns) + count * costs::PD_STAMP.ns;
        let (now, members) = (self.events.now(), self.pd.len());
        let pd = self.shared.as_mut().unwrap_or(&mut self.pd[node % members]);
        let done = pd.serve(now, work);
        self.events.at(done, What::StampsDone(batch));
        self.window.stamps += count;
        self.window.messages += 1;
    }

    fn stamps_back(&mut self, batch: u32) {
        let (node, ops) = self.batches.remove(batch);
        for number in ops {
            if self.ops.of(number).step == Step::Stamp {
                self.ops.of(number).stamped = self.events.now();
            }
            self.next_step(number);
        }
        if self.setting.lifts.one_message {
            let is_more = !self.nodes[node].stamps.is_empty();
            self.nodes[node].sending = is_more;
            if is_more {
                self.events.after(costs::NODE_SEND.ns, What::SendStamps(node as u32));
            }
        }
    }

    fn heartbeat(&mut self) {
        if self.draining {
            return;
        }
        let (now, work) = (self.events.now(), self.work(costs::PD_HEARTBEAT.ns));
        self.pd[0].serve(now, work);
        let between = SECOND as f64 * costs::HEARTBEAT_SECONDS / self.setting.regions();
        let wait = exponential(&mut self.random, between as Ns);
        self.events.after(wait, What::Heartbeat);
    }

    fn answered(&mut self, number: u32) {
        let request = self.requests.of(number);
        let (op, late) = (request.op, request.work.is_late());
        self.release(number);
        if late {
            return;
        }
        let of = self.ops.of(op);
        of.pending -= 1;
        if of.pending > 0 {
            return;
        }
        match of.conflict {
            true => self.lose(op),
            false => self.next_step(op),
        }
    }

    /// After a conflict the operation begins anew. Those of a node that have lost take turns.
    fn lose(&mut self, number: u32) {
        self.window.conflicts += 1;
        // What the commit has locked is rolled back.
        let writes = self.ops.of(number).kind.writes.len();
        self.write(number, Work::Rollback, 0, writes);
        self.attempts += 1;
        let op = self.ops.of(number);
        (op.step, op.sent, op.conflict, op.attempt) = (Step::Stamp, 0, false, self.attempts);
        let (node, has_turn) = (op.node, op.has_turn);
        let turn = &mut self.nodes[node];
        match turn.turn {
            Some(_) if !has_turn => turn.losers.push_back(number),
            _ => {
                turn.turn = Some(number);
                self.ops.of(number).has_turn = true;
                self.compute(number, node, costs::NODE_WRITE.ns);
            }
        }
    }

    fn done(&mut self, number: u32) {
        let now = self.events.now();
        let op = self.ops.of(number);
        let (began, node, every) = (op.began, op.node, op.every);
        if std::mem::take(&mut op.has_turn) {
            let next = self.nodes[node].losers.pop_front();
            self.nodes[node].turn = next;
            if let Some(next) = next {
                self.ops.of(next).has_turn = true;
                self.compute(next, node, costs::NODE_WRITE.ns);
            }
        }
        match every {
            Some(every) => self.events.at((began + every).max(now), What::Begins(number)),
            None => {
                self.window.done(now - began);
                // The client, in the node's zone, has the answer and sends the next operation.
                self.events.after(2 * self.way(0, 0), What::Begins(number));
            }
        }
    }
}

//! Records the writes of one writer, and derives the states that a document may have after a crash.
//!
//! A writer owns a range of ids and sends one write at a time, so the history of a document is a sequence: one
//! state that is certain to be durable, then attempts in order. An attempt becomes certain when it is
//! acknowledged with `j: true`, or once it has been acknowledged for longer than the commit interval. After a
//! crash the document may be in the last certain state or in any attempted state after it.
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The server's default `storage.journal.commitIntervalMs`, and an allowance for the flush itself on a busy
/// machine.
pub(super) const COMMIT_INTERVAL: Duration = Duration::from_millis(100);
pub(super) const FLUSH_SLACK: Duration = Duration::from_millis(400);

/// The document's version, or `None` if the document does not exist.
pub(super) type State = Option<i64>;

struct Attempt {
    state: State,
    acknowledged_at: Option<Instant>,
    synced: bool,
}

#[derive(Default)]
struct History {
    certain: State,
    attempts: Vec<Attempt>,
}

pub(super) struct Model {
    /// Number of the writer. Its ids begin at a million times this number.
    pub(super) writer: u64,
    /// The last version assigned; versions of one writer never repeat.
    pub(super) version: i64,
    documents: HashMap<i64, History>,
}

impl Model {
    pub(super) fn new(writer: u64) -> Model {
        Model { writer, version: 0, documents: HashMap::new() }
    }

    pub(super) fn id(&self, n: u64) -> i64 {
        (self.writer * 1_000_000 + n) as i64
    }

    /// Returns true if `id` is in this writer's range.
    pub(super) fn owns(&self, id: i64) -> bool {
        u64::try_from(id).is_ok_and(|id| id / 1_000_000 == self.writer)
    }

    /// The state that the writer's last write gave the document.
    pub(super) fn current(&self, id: i64) -> State {
        self.documents.get(&id).and_then(|h| h.attempts.last().map_or(h.certain, |a| a.state))
    }

    /// Records a write before it is sent.
    pub(super) fn attempt(&mut self, id: i64, state: State, synced: bool) {
        let attempt = Attempt { state, acknowledged_at: None, synced };
        self.documents.entry(id).or_default().attempts.push(attempt);
    }

    /// Records that the last write of `id` was acknowledged.
    pub(super) fn acknowledge(&mut self, id: i64, now: Instant) {
        if let Some(last) = self.documents.get_mut(&id).and_then(|h| h.attempts.last_mut()) {
            last.acknowledged_at = Some(now);
        }
    }

    /// Compares the model with the data of a reopened server, adopts that data as certain, and returns all
    /// differences.
    pub(super) fn settle(&mut self, found: &HashMap<i64, i64>, killed_at: Instant) -> Vec<String> {
        let mut problems = Vec::new();
        for id in found.keys().filter(|id| self.owns(**id) && !self.documents.contains_key(id)) {
            problems.push(format!("document {id} was never written"));
        }
        for (id, history) in &mut self.documents {
            let state = found.get(id).copied();
            let allowed = history.allowed(killed_at);
            if !allowed.contains(&state) {
                problems.push(format!("document {id} is {state:?}, may be one of {allowed:?}"));
            }
            *history = History { certain: state, attempts: Vec::new() };
        }
        problems
    }
}

impl History {
    fn allowed(&self, killed_at: Instant) -> Vec<State> {
        let certain = |a: &Attempt| {
            a.acknowledged_at
                .is_some_and(|at| a.synced || at + COMMIT_INTERVAL + FLUSH_SLACK < killed_at)
        };
        match self.attempts.iter().rposition(certain) {
            Some(last) => self.attempts[last..].iter().map(|a| a.state).collect(),
            None => {
                std::iter::once(self.certain).chain(self.attempts.iter().map(|a| a.state)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(model: &mut Model, version: State, killed_at: Instant) -> bool {
        let found = version.map(|v| (5, v)).into_iter().collect();
        model.settle(&found, killed_at).is_empty()
    }

    #[test]
    fn a_synced_write_must_be_there_or_a_later_one() {
        let now = Instant::now();
        for (version, good) in [(None, false), (Some(1), false), (Some(2), true), (Some(3), true)] {
            let mut m = Model::new(0);
            for (v, synced) in [(1, false), (2, true), (3, false)] {
                m.attempt(5, Some(v), synced);
                m.acknowledge(5, now);
            }
            assert_eq!(left(&mut m, version, now), good, "{version:?}");
        }
    }

    #[test]
    fn an_old_write_is_as_good_as_a_synced_one() {
        let now = Instant::now();
        let mut m = Model::new(0);
        m.attempt(5, Some(1), false);
        m.acknowledge(5, now);
        assert!(!left(&mut m, None, now + Duration::from_secs(1)));
    }

    #[test]
    fn an_unanswered_write_may_be_there_or_not() {
        let now = Instant::now();
        for version in [None, Some(1)] {
            let mut m = Model::new(0);
            m.attempt(5, Some(1), true);
            assert!(left(&mut m, version, now));
        }
    }

    #[test]
    fn strangers_are_noticed() {
        let mut m = Model::new(3);
        let found = HashMap::from([(3_000_001, 1)]);
        assert_eq!(m.settle(&found, Instant::now()).len(), 1);
    }
}

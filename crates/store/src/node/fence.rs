//! Fences: the keys of which each commit writes one, so that it conflicts with a takeover; and what they tell of a
//! commit whose outcome is unknown.
//!
//!   Counters   FENCES (4) | number (2)          node (16) | number of the commit (8)
//!
//! A fence is written by one commit at a time, so its value says if that commit took effect, unless another node has
//! taken over since.

use nagi_kv::{CommitStamp, Engine, Result, Space, Txn};

use crate::ident::Ident;

/// The value that a commit writes to its fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    pub(super) node: [u8; 16],
    /// From 1; 0 is that of the takeover.
    pub(super) commit: u64,
}

/// The outcome of a commit, found out afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// It took effect, at this stamp at the latest.
    Committed(CommitStamp),
    /// It did not, and will not. A fence is in use again behind this stamp.
    Failed(CommitStamp),
    /// Another node has written the fence since.
    Unknown,
}

impl Mark {
    /// Stages it as the value of a fence.
    pub(super) fn put(self, txn: &mut dyn Txn, number: u16) -> Result<()> {
        let value = [&self.node[..], &self.commit.to_be_bytes()].concat();
        txn.put(Space::Counters, &key(number), &value)
    }

    /// What became of the commit that wrote it to a fence. One read, which makes the engine decide.
    pub(super) fn outcome(self, on: &dyn Engine, number: u16) -> Result<Outcome> {
        let snapshot = on.snapshot()?;
        let mut buf = Vec::new();
        let found = snapshot.get(Space::Counters, &key(number), &mut buf)?;
        let Some((node, commit)) = found.and_then(<[u8]>::split_first_chunk::<16>) else {
            return Ok(Outcome::Unknown);
        };
        Ok(match (*node == self.node, *commit == self.commit.to_be_bytes()) {
            (false, _) => Outcome::Unknown,
            (true, true) => Outcome::Committed(snapshot.stamp()),
            (true, false) => Outcome::Failed(snapshot.stamp()),
        })
    }
}

pub(super) fn key(number: u16) -> Vec<u8> {
    [&Ident::FENCES.bytes()[..], &number.to_be_bytes()].concat()
}

//! Merges many sorted sources with a loser tree: one comparison per level and entry.

use std::cmp::Ordering;

use nagi_error::Result;

use super::{
    run::RunReader,
    segment::{self, Segment},
};

/// One sorted source.
pub(super) enum Source {
    Memory { segment: Segment, next: usize },
    Disk(RunReader),
}

impl Source {
    fn advance(&mut self) -> Result<bool> {
        match self {
            Source::Memory { segment, next } => {
                let found = *next < segment.len();
                *next += usize::from(found);
                Ok(found)
            }
            Source::Disk(run) => run.advance(),
        }
    }

    fn prefix(&self) -> u64 {
        match self {
            Source::Memory { segment, next } => segment.prefix(*next - 1),
            Source::Disk(run) => segment::prefix(run.key()),
        }
    }

    fn key(&self) -> &[u8] {
        match self {
            Source::Memory { segment, next } => segment.key(*next - 1),
            Source::Disk(run) => run.key(),
        }
    }

    fn bits(&self) -> &[u8] {
        match self {
            Source::Memory { segment, next } => segment.bits(*next - 1),
            Source::Disk(run) => run.bits(),
        }
    }
}

/// All entries of the sources in order.
pub(super) struct Merge {
    sources: Vec<Source>,
    /// The first bytes of each source's current key; none at its end.
    heads: Vec<Option<u64>>,
    /// Element 0 is the winner; each inner node has the loser of its match. Source `i` is leaf `i + sources.len()`.
    tree: Vec<usize>,
    begun: bool,
}

impl Merge {
    pub(super) fn new(sources: Vec<Source>) -> Merge {
        let heads = vec![None; sources.len()];
        let tree = vec![0; sources.len()];
        Merge { sources, heads, tree, begun: false }
    }

    /// Moves to the next entry. Returns false at the end, and on every later call.
    pub(super) fn advance(&mut self) -> Result<bool> {
        if self.sources.is_empty() {
            return Ok(false);
        }
        if self.begun {
            let winner = self.tree[0];
            self.step(winner)?;
            self.replay(winner);
        } else {
            self.begun = true;
            (0..self.sources.len()).try_for_each(|source| self.step(source))?;
            self.tree[0] = self.play(1);
        }
        Ok(self.heads[self.tree[0]].is_some())
    }

    /// The current key, with the record id at its end.
    pub(super) fn key(&self) -> &[u8] {
        self.sources[self.tree[0]].key()
    }

    /// The current entry's type bits.
    pub(super) fn bits(&self) -> &[u8] {
        self.sources[self.tree[0]].bits()
    }

    fn step(&mut self, source: usize) -> Result<()> {
        let of = &mut self.sources[source];
        let found = of.advance()?;
        self.heads[source] = found.then(|| of.prefix());
        Ok(())
    }

    fn is_before(&self, a: usize, b: usize) -> bool {
        match (self.heads[a], self.heads[b]) {
            (Some(x), Some(y)) => {
                let of = |source: usize| self.sources[source].key();
                // Most keys differ in their first bytes, so that the rest is not compared.
                x < y || x == y && of(a).cmp(of(b)) == Ordering::Less
            }
            (a, b) => a.is_some() && b.is_none(),
        }
    }

    /// Plays all matches below a node and returns the winner.
    fn play(&mut self, node: usize) -> usize {
        if node >= self.sources.len() {
            return node - self.sources.len();
        }
        let (left, right) = (self.play(2 * node), self.play(2 * node + 1));
        let (winner, loser) = match self.is_before(right, left) {
            true => (right, left),
            false => (left, right),
        };
        self.tree[node] = loser;
        winner
    }

    /// Replays the matches on the path from a source that has moved to the root.
    fn replay(&mut self, source: usize) {
        let mut winner = source;
        let mut node = (source + self.sources.len()) / 2;
        while node > 0 {
            let loser = self.tree[node];
            if self.is_before(loser, winner) {
                self.tree[node] = winner;
                winner = loser;
            }
            node /= 2;
        }
        self.tree[0] = winner;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordKey;

    #[test]
    fn sources_of_any_number_and_length_come_out_in_order() {
        for count in 0..9u64 {
            let mut expected = Vec::new();
            let mut sources = Vec::new();
            for source in 0..count {
                let mut segment = Segment::default();
                // Short keys, keys with a common beginning, an empty source.
                for n in 0..source * 5 {
                    let number = (n * 7919 + source * 31) % 97;
                    let key = match number % 3 {
                        0 => format!("same beginning {number}").into_bytes(),
                        1 => vec![number as u8],
                        _ => Vec::new(),
                    };
                    let id = RecordKey::Id((source * 100 + n) as i64);
                    segment.push(&key, id, &[source as u8]);
                    let mut full = key.clone();
                    id.append_tail(&mut full);
                    expected.push((full, source as u8));
                }
                segment.sort();
                sources.push(Source::Memory { segment, next: 0 });
            }
            expected.sort();
            let mut merge = Merge::new(sources);
            let mut found = Vec::new();
            while merge.advance().unwrap() {
                found.push((merge.key().to_vec(), merge.bits()[0]));
            }
            assert_eq!(found, expected);
            assert!(!merge.advance().unwrap());
        }
    }
}

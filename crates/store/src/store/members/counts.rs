//! Counts and sizes of collections over several nodes. What this node adds is counted in memory at once; what others
//! have added is read every few seconds, from their parts of the counters.

use std::{collections::BTreeMap, ops::Range};

use nagi_error::Result;
use nagi_kv::Space;

use super::Members;
use crate::{Collection, Store, engine_error::engine, ident::Ident};

/// Parts of counters that are read at a time; the next ones follow a few seconds later.
const PARTS_MAX: usize = 50_000;

/// Count and bytes of a collection, in this node's parts and in those of others.
#[derive(Default)]
struct Sums {
    own: (i64, i64),
    others: (i64, i64),
}

impl Store {
    /// At the start, before this node writes: takes over all counters.
    pub(crate) fn read_all_counts(&self, members: &Members) -> Result<()> {
        let (sums, _) = self.read_parts(members, Ident(0)..Ident(Ident::END), usize::MAX)?;
        self.take_over(&sums, true);
        Ok(())
    }

    /// Takes over what other nodes have added, of the counters from `from` on. Returns where to go on, from the first
    /// one if all were read. A scan.
    pub(crate) fn read_counts(&self, members: &Members, from: Ident) -> Result<Ident> {
        let (sums, next) = self.read_parts(members, from..Ident(Ident::END), PARTS_MAX)?;
        self.take_over(&sums, false);
        Ok(next.unwrap_or(Ident(0)))
    }

    /// Reads the counters of one collection, after a commit whose outcome is unknown.
    pub(crate) fn reread_counts(&self, members: &Members, of: Ident) -> Result<()> {
        let (sums, _) = self.read_parts(members, of..Ident(of.0 + 1), usize::MAX)?;
        self.take_over(&sums, true);
        Ok(())
    }

    /// Number of documents and sum of their sizes of each collection, with all commits that were acknowledged before,
    /// by whichever node. Costs nothing where one node has the data; a timestamp and a scan of the parts of all
    /// collections between these over several nodes, and fails then if the engine does not answer.
    pub fn counts_of(&self, collections: &[&Collection]) -> Result<Vec<(i64, i64)>> {
        let idents = collections.iter().map(|one| one.ident);
        let range = idents.clone().min().zip(idents.max());
        let (Some(members), Some((first, last))) = (&self.members, range) else {
            return Ok(collections.iter().map(|one| one.state.counters()).collect());
        };
        let (sums, _) = self.read_parts(members, first..Ident(last.0 + 1), usize::MAX)?;
        self.take_over(&sums, false);
        // Not what is in memory: a slower read of the board may have brought older sums meanwhile, and the own part is
        // off where a commit of unknown outcome was read again beside other writers.
        let counts = collections.iter().map(|one| {
            sums.get(&one.ident)
                .map_or((0, 0), |Sums { own, others }| (own.0 + others.0, own.1 + others.1))
        });
        Ok(counts.collect())
    }

    /// [`Store::counts_of`] one collection.
    pub fn counts(&self, collection: &Collection) -> Result<(i64, i64)> {
        let counts = self.counts_of(&[collection])?;
        Ok(counts.first().copied().unwrap_or_default())
    }

    /// The sums of the parts of collections in `range`, and the first one that was left out because there were
    /// `parts_max` before it.
    fn read_parts(
        &self,
        members: &Members,
        range: Range<Ident>,
        parts_max: usize,
    ) -> Result<(BTreeMap<Ident, Sums>, Option<Ident>)> {
        let snapshot = self.engine.snapshot().map_err(engine)?;
        let (start, end) = (range.start.bytes(), range.end.bytes());
        let mut cursor = snapshot.cursor(Space::Counters, &start, &end).map_err(engine)?;
        let mut sums = BTreeMap::<Ident, Sums>::new();
        let (mut count, mut found) = (0, cursor.seek(&start).map_err(engine)?);
        while found {
            let [a, b, c, d, high, low] = *cursor.key() else {
                found = cursor.next().map_err(engine)?;
                continue;
            };
            let ident = Ident(u32::from_be_bytes([a, b, c, d]));
            if count >= parts_max && !sums.contains_key(&ident) {
                return Ok((sums, Some(ident)));
            }
            let deltas = cursor.value().as_chunks().0;
            let at = |at: usize| deltas.get(at).map_or(0, |bytes| i64::from_le_bytes(*bytes));
            let sums = sums.entry(ident).or_default();
            let sum = match members.is_own_part(u16::from_be_bytes([high, low])) {
                true => &mut sums.own,
                false => &mut sums.others,
            };
            *sum = (sum.0 + at(0), sum.1 + at(1));
            count += 1;
            found = cursor.next().map_err(engine)?;
        }
        Ok((sums, None))
    }

    /// Has these sums in memory; those of this node only if it writes nothing, `with_own`.
    fn take_over(&self, sums: &BTreeMap<Ident, Sums>, with_own: bool) {
        let catalog = self.catalog.load_full();
        for (&ident, sums) in sums {
            if let Some(of) = catalog.names.by_ident(ident) {
                of.state.set_parts(with_own.then_some(sums.own), sums.others);
                if of.options.capped {
                    // Perhaps another node has inserted what a tailable cursor waits for.
                    of.state.arrivals.announce();
                }
            }
        }
    }
}

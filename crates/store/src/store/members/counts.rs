//! Counts and sizes of collections over several nodes. What this node adds is counted in memory at once; what others
//! have added is read every few seconds, from their parts of the counters.

use std::collections::BTreeMap;

use nagi_error::Result;
use nagi_kv::Space;

use super::Members;
use crate::{Store, engine_error::engine, ident::Ident};

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
        let mut from = Some(Ident(0));
        while let Some(next) = from {
            from = self.read_parts(members, next, usize::MAX, &|_| true)?;
        }
        Ok(())
    }

    /// Takes over what other nodes have added, of the counters from `from` on. Returns where to go on, from the first
    /// one if all were read. A scan.
    pub(crate) fn read_counts(&self, members: &Members, from: Ident) -> Result<Ident> {
        let next = self.read_parts(members, from, PARTS_MAX, &|_| false)?;
        Ok(next.unwrap_or(Ident(0)))
    }

    fn read_parts(
        &self,
        members: &Members,
        from: Ident,
        parts_max: usize,
        with_own: &dyn Fn(Ident) -> bool,
    ) -> Result<Option<Ident>> {
        let catalog = self.catalog.load_full();
        let snapshot = self.engine.snapshot().map_err(engine)?;
        let (start, end) = (from.bytes(), Ident(Ident::END).bytes());
        let mut cursor = snapshot.cursor(Space::Counters, &start, &end).map_err(engine)?;
        let (mut sums, mut next) = (BTreeMap::<Ident, Sums>::new(), None);
        let (mut count, mut found) = (0, cursor.seek(&start).map_err(engine)?);
        while found {
            let [a, b, c, d, high, low] = *cursor.key() else {
                found = cursor.next().map_err(engine)?;
                continue;
            };
            let ident = Ident(u32::from_be_bytes([a, b, c, d]));
            if count >= parts_max && !sums.contains_key(&ident) {
                next = Some(ident);
                break;
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
        for (ident, sums) in sums {
            if let Some(of) = catalog.names.by_ident(ident) {
                of.state.set_parts(with_own(ident).then_some(sums.own), sums.others);
                if of.options.capped {
                    // Perhaps another node has inserted what a tailable cursor waits for.
                    of.state.arrivals.announce();
                }
            }
        }
        Ok(next)
    }

    /// Reads the counters of one collection, after a commit whose outcome is unknown.
    pub(crate) fn reread_counts(&self, members: &Members, of: Ident) -> Result<()> {
        self.read_parts(members, of, 1, &|ident| ident == of).map(drop)
    }
}

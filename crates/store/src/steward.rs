//! Work that one of the nodes that share the data does for all, the one with the lowest seat: it declares nodes dead,
//! deletes what they have dropped, builds the indexes that they have begun, and has old versions removed. Each part may
//! be done twice.

use std::{collections::BTreeSet, sync::Arc};

use nagi_bson::DocBuf;
use nagi_error::Result;
use nagi_kv::{Read, Space};

use crate::{
    BuildOptions, Collection, Namespace, Store,
    build::Build,
    engine_error::engine,
    ident::{CatalogKey, Ident},
    index::Index,
    node::{Board, mail},
    store::{members::Members, reclaim::Job},
};

/// Ranges to delete that are looked at.
const DROPPED_MAX: usize = 10_000;

/// A question that is older was left by a node that is gone.
const LEFT_OVER_SECONDS: u64 = 60;

/// What the thread of a node remembers from one time to the next.
#[derive(Default)]
pub(crate) struct Duties {
    /// The counter with which to go on.
    pub(crate) count_from: Ident,
    /// Ranges that were to be deleted the last time.
    dropped: BTreeSet<(u8, Ident)>,
    /// Those that this node deletes.
    reclaimed: BTreeSet<(u8, Ident)>,
    /// So many questions were asked when none was left.
    pub(crate) questions: u64,
}

/// Indexes to be built.
pub(crate) struct Wanted {
    namespace: Namespace,
    specs: Vec<DocBuf>,
}

/// The unfinished indexes of a collection, of nodes that are out.
pub(crate) struct Orphan {
    build: Build,
}

impl Store {
    /// Declares nodes dead whose leases have ended, and finds out if this node is the steward.
    pub(crate) fn elect(&self, members: &Members) -> Result<()> {
        let (seats, now) = members.seats()?;
        let (alive, dead): (Vec<_>, Vec<_>) = seats.iter().partition(|seat| seat.until >= now);
        let first = alive.first().map(|seat| seat.node);
        let is_steward = first == Some(members.node());
        if is_steward != members.is_steward() {
            log::info!(target: "STORAGE", id = 8_200_437, node = members.name(), steward = is_steward;
                "This node begins or ends to do the work that one node does for all");
        }
        members.set_steward(is_steward);
        match is_steward {
            true => dead.into_iter().try_for_each(|seat| members.clear(seat)),
            false => Ok(()),
        }
    }

    /// Has old versions removed, by the steward for all. A node whose lease has ended may have commits under way, with
    /// snapshots that are too old by then: not before they are refused.
    pub(crate) fn tend_versions(&self, members: &Members) -> Result<()> {
        let mut leads = members.is_steward();
        if leads {
            let (seats, now) = members.seats()?;
            leads = seats.iter().all(|seat| seat.until >= now);
        }
        // Without another user of the store, it is being dropped.
        let is_used = || Arc::strong_count(&self.shared) > 1;
        let watch = &mut |_, _| members.is_steward() && !members.is_over() && is_used();
        self.engine.tend_versions(leads, watch).map_err(engine)
    }

    /// True if there is no other node, after those whose leases have ended are out.
    pub(crate) fn is_only_member(&self, members: &Members) -> Result<bool> {
        self.elect(members)?;
        let (seats, _) = members.seats()?;
        Ok(seats.iter().all(|seat| seat.node == members.node()))
    }

    /// Deletes the ranges that were dropped by nodes that are out. A node deletes its own at once, so only those that
    /// are still there the next time are of others.
    pub(crate) fn reclaim_left_over(&self, duties: &mut Duties) -> Result<()> {
        let snapshot = self.engine.snapshot().map_err(engine)?;
        let version = Board::read(&*snapshot).map_err(engine)?.changes.version;
        let now = dropped(&*snapshot)?;
        let left: Vec<_> = now.intersection(&duties.dropped).copied().collect();
        duties.reclaimed.retain(|range| now.contains(range));
        duties.dropped = now;
        let new: Vec<_> =
            left.into_iter().filter(|range| !duties.reclaimed.contains(range)).collect();
        let Some(members) = self.members.as_ref().filter(|_| !new.is_empty()) else {
            return Ok(());
        };
        // No node may use them any more. Otherwise the next time.
        let (seats, _) = members.seats()?;
        if seats.iter().all(|seat| seat.report.version >= version) {
            let space = |(space, ident): &(u8, Ident)| Some((Space::by_number(*space)?, *ident));
            self.reclaimer.push(Job::left_over(new.iter().filter_map(space).collect()));
            duties.reclaimed.extend(new);
        }
        Ok(())
    }

    /// Removes the questions that nodes have left that are gone, by the steward: a scan, if any was asked since there
    /// was none.
    pub(crate) fn remove_left_questions(
        &self,
        members: &Members,
        duties: &mut Duties,
    ) -> Result<()> {
        let asked = members.questions_asked();
        if duties.questions == asked {
            return Ok(());
        }
        let snapshot = self.engine.snapshot().map_err(engine)?;
        let now = snapshot.stamp().0 >> 32;
        let all = mail::questions(&*snapshot).map_err(engine)?;
        let old = |question: &&mail::Question| (question.asked >> 32) + LEFT_OVER_SECONDS < now;
        all.iter().filter(old).try_for_each(|question| self.remove_question(question.id))?;
        if all.iter().all(|question| old(&question)) {
            duties.questions = asked;
        }
        Ok(())
    }

    /// Builds whose node is out, and those of this node that have failed and could not be undone. `of_others`: those,
    /// too.
    pub(crate) fn orphans(&self, members: &Members, of_others: bool) -> Result<Vec<Orphan>> {
        let catalog = self.catalog.load_full();
        let unfinished = |of: &&Arc<Collection>| of.indexes.iter().any(|index| !index.ready);
        let collections: Vec<_> = catalog.iter().filter(unfinished).cloned().collect();
        if collections.is_empty() {
            return Ok(Vec::new());
        }
        // After the look at the catalog: a build that is in it, and is not over, counts.
        let builds_nothing = members.builds_nothing();
        let (seats, _) = members.seats()?;
        let is_orphan = |index: &&Arc<Index>| match index.building.and_then(|of| of.owner) {
            Some(owner) if owner == members.node() => builds_nothing,
            Some(owner) => of_others && !seats.iter().any(|seat| seat.node == owner),
            None => of_others,
        };
        let orphans = collections.into_iter().filter_map(|collection| {
            let unfinished = collection.indexes.iter().filter(|index| !index.ready);
            let indexes: Vec<_> = unfinished.filter(is_orphan).cloned().collect();
            (!indexes.is_empty()).then(|| Orphan { build: Build { collection, indexes } })
        });
        Ok(orphans.collect())
    }

    /// Drops what there is of these indexes. Returns those to build again: not those for which the client of this node
    /// has got an error.
    pub(crate) fn withdraw(&self, members: &Members, orphans: Vec<Orphan>) -> Result<Vec<Wanted>> {
        let mut all = Vec::new();
        for Orphan { build } in orphans {
            let namespace = &build.collection.namespace;
            for index in &build.indexes {
                log::info!(target: "INDEX", id = 8_200_438, namespace = namespace.as_str(),
                    index = index.name(); "Index build: an unfinished index was left; dropping it or beginning again");
            }
            self.give_up(&build)?;
            let of_others = |index: &&Arc<Index>| {
                index.building.is_none_or(|building| building.owner != Some(members.node()))
            };
            let wanted = build.indexes.iter().filter(|index| !index.is_copy()).filter(of_others);
            let specs: Vec<_> = wanted.map(|index| index.spec.doc.clone()).collect();
            if !specs.is_empty() {
                all.push(Wanted { namespace: namespace.clone(), specs });
            }
        }
        Ok(all)
    }

    /// Builds them. May take long, and may wait for other builds of the same indexes.
    pub(crate) fn build_again(&self, wanted: &Wanted) {
        let specs: Vec<_> = wanted.specs.iter().map(DocBuf::as_doc).collect();
        let done = self.create_indexes(&wanted.namespace, &specs, BuildOptions::default());
        if let Err(error) = done {
            log::warn!(target: "INDEX", id = 8_200_439, namespace = wanted.namespace.as_str(),
                error:% = error; "Index build: an index that another node began could not be built");
        }
    }
}

/// Ranges that are to be deleted: the numbers of their spaces, and idents.
fn dropped(read: &(impl Read + ?Sized)) -> Result<BTreeSet<(u8, Ident)>> {
    let (start, end) = ([CatalogKey::Dropped as u8], [CatalogKey::Dropped as u8 + 1]);
    let mut cursor = read.cursor(Space::Catalog, &start, &end).map_err(engine)?;
    let (mut all, mut found) = (BTreeSet::new(), cursor.seek(&start).map_err(engine)?);
    while found && all.len() < DROPPED_MAX {
        if let ([_, a, b, c, d], [space]) = (cursor.key(), cursor.value()) {
            all.insert((*space, Ident(u32::from_be_bytes([*a, *b, *c, *d]))));
        }
        found = cursor.next().map_err(engine)?;
    }
    Ok(all)
}

//! Spreading a collection over the machines of a cluster: its records and the entries of its index on `_id` get stripes
//! (`node/stripes.rs`), and the engine is told where to end the ranges that it places.
//!
//! ```text
//!   collection without documents     new idents, which have stripes; other indexes get new ones, too
//!                                    its counters are divided by the nodes that add to them
//!   first one of the data            fences, session records and the change log are divided as well
//! ```
//!
//! The order in the engine is that of idents and keys, so documents would have to be written anew: a collection with
//! some stays as it is. Until a collection is spread, nothing is divided, because a commit of keys in one range takes
//! one phase. The reasons are in docs/decisions/119 and 120.

use std::sync::Arc;

use nagi_bson::Value;
use nagi_error::{Code, Result, bail};
use nagi_kv::Space;

use crate::{
    Collection, Index, Namespace, Store,
    annotations::Annotations,
    catalog::{CollectionState, CollectionVersion, is_striped_format},
    ident::{Ident, STRIPES_POWER_MAX},
    index::{Multikey, multikey_words},
    keystring,
    node::{counters_of, fences_of, log_parts, stripes},
    record_key::Layout,
    store::ddl::{Ddl, refuse_view},
};

/// Session records begin with random bytes; they are divided in so many parts.
const SESSION_PARTS: u8 = 32;
/// A node that starts divides the counters of so many collections at the most.
const DIVIDED_AT_START_MAX: usize = 32;

/// What [`Store::spread_collection`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// The collection has so many stripes now, or had them before.
    Stripes(u32),
    /// It has documents, and stays as it is.
    HasDocuments,
    /// Its records are in the order of `_id`, in which they are to stay.
    Clustered,
    /// A server of another version shares the data, and may not know stripes: it stays as it is.
    OtherVersions,
    /// The engine is not one of a cluster, or has no numbers of this kind left: it stays as it is.
    Impossible,
}

impl Store {
    /// The most stripes that a collection may have.
    pub const STRIPES_MAX: u32 = 1 << STRIPES_POWER_MAX;

    /// Spreads a collection without documents over the machines of a cluster, in `stripes` parts; at least 2, at most
    /// [`Store::STRIPES_MAX`], rounded up to a power of two. Ascending record numbers are then written to all of them,
    /// and ascending ids unless `ids_in_order`: then the index on `_id` stays one range. What clients see stays the
    /// same: options, indexes, UUID, all orders. Its writers wait. Then the engine divides its ranges, which takes some
    /// seconds; a line in the log says so if it fails.
    ///
    /// # Errors
    /// 26, 166; 72 for a capped collection, whose order is that of its insertions; 12587 if an index is being built.
    pub fn spread_collection(
        &self,
        namespace: &Namespace,
        stripes: u32,
        ids_in_order: bool,
    ) -> Result<Spread> {
        if self.promises.only_writer {
            return Ok(Spread::Impossible);
        }
        let power = stripes.clamp(2, Store::STRIPES_MAX).next_power_of_two().trailing_zeros();
        let mut ddl = Ddl::alone(self, &|catalog| {
            catalog.collection(namespace).cloned().into_iter().collect()
        })?;
        let Some(old) = ddl.collection(namespace) else {
            bail!(Code::NAMESPACE_NOT_FOUND, "ns not found {namespace}");
        };
        if let known @ 1.. = old.ident.stripes_power() {
            return Ok(Spread::Stripes(1 << known));
        }
        refuse_view(&old)?;
        old.refuse_while_building()?;
        if old.options.capped {
            bail!(Code::INVALID_OPTIONS, "can't shard a capped collection");
        }
        if ids_in_order && old.layout == Layout::Ids {
            return Ok(Spread::Clustered);
        }
        // It has no writers now.
        if self.latest().scan(&old, true)?.advance()? {
            return Ok(Spread::HasDocuments);
        }
        // Later ones find the format; one that runs has read it before.
        let is_first = !is_striped_format(self.latest().read)?;
        if is_first && self.has_other_versions()? {
            return Ok(Spread::OtherVersions);
        }
        let of_ids = if ids_in_order { 0 } else { power };
        let new = elsewhere(&mut ddl, &old, (power, of_ids))?;
        let Some(new) = new else { return Ok(Spread::Impossible) };
        let new = ddl.put_elsewhere(&old, new)?;
        ddl.finish()?;
        if is_first {
            self.split_shared();
        }
        self.split_collection(&new);
        log::info!(target: "SHARDING", id = 8_200_423, namespace = namespace.as_str(),
            stripes = 1 << power; "A collection was spread over the store");
        Ok(Spread::Stripes(1 << power))
    }

    /// True if a node says another version of itself than this one, or has not said it yet.
    fn has_other_versions(&self) -> Result<bool> {
        let nodes = self.nodes()?.unwrap_or_default();
        let own = nodes.iter().find(|node| node.is_own);
        let own = own.and_then(|node| node.about.get("version").as_str());
        Ok(nodes.iter().any(|node| node.about.get("version").as_str() != own))
    }

    /// Ends ranges at the stripes of a collection, and within its hashed indexes.
    fn split_collection(&self, of: &Collection) {
        self.split(of.space, stripes::starts(of.ident));
        if let Some(seats) = self.seats() {
            let keys = seats.into_iter().map(|seat| counters_of(of.ident, seat));
            self.split(Space::Counters, keys.collect());
        }
        for index in of.written_indexes() {
            let power = index.ident.stripes_power();
            let is_hashed = index.spec.key.first().is_some_and(|part| part.is_hashed());
            if power > 0 {
                self.split(Space::Index, stripes::starts(index.ident));
            } else if is_hashed {
                self.split(Space::Index, hashes(index, of.ident.stripes_power()));
            }
        }
    }

    /// Divides the small keys that all commits write.
    fn split_shared(&self) {
        let of_session = |part: u8| {
            let first = part * (u8::MAX / SESSION_PARTS + 1);
            [&Ident::SESSIONS.bytes()[..], &[first]].concat()
        };
        self.split(Space::Records, (0..SESSION_PARTS).map(of_session).collect());
        let (log, parts) = log_parts();
        self.split(log, parts);
        if let Some(seats) = self.seats() {
            self.split(Space::Counters, seats.into_iter().flat_map(fences_of).collect());
        }
    }

    /// The seats of all nodes. One that has the data alone has the fences of the first seat.
    fn seats(&self) -> Option<Vec<u16>> {
        match self.nodes() {
            Ok(Some(nodes)) => Some(nodes.iter().map(|node| node.seat).collect()),
            Ok(None) => Some(vec![0]),
            Err(error) => {
                say_not_split(Space::Counters, &error);
                None
            }
        }
    }

    /// Ends ranges at the fences of this node, and at its parts of counters, if collections have been spread: its
    /// commits need not go to the machine of the other nodes'.
    ///
    /// # Errors
    /// Those of reading the format and the seats.
    pub(crate) fn split_own_fences(&self) -> Result<()> {
        if !self.promises.splits_ranges || !is_striped_format(self.latest().read)? {
            return Ok(());
        }
        let own = self.nodes()?.and_then(|nodes| nodes.into_iter().find(|node| node.is_own));
        let seat = own.map_or(0, |own| own.seat);
        let catalog = self.catalog();
        let striped = catalog.iter().map(|collection| collection.ident);
        let striped = striped.filter(|ident| ident.stripes_power() > 0).take(DIVIDED_AT_START_MAX);
        let mut keys = fences_of(seat);
        keys.extend(striped.map(|ident| counters_of(ident, seat)));
        self.split(Space::Counters, keys);
        Ok(())
    }

    fn split(&self, space: Space, keys: Vec<Vec<u8>>) {
        let lent: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        match self.engine.split_at(space, &lent) {
            Ok(done) if done < lent.len() && self.promises.splits_ranges => {
                say_not_split(space, &format!("{done} of {} keys", lent.len()));
            }
            Ok(_) => {}
            Err(error) => say_not_split(space, &error),
        }
    }
}

fn say_not_split(space: Space, why: &dyn std::fmt::Display) {
    log::warn!(target: "SHARDING", id = 8_200_424, space:? = space, error:% = why;
        "The store could not divide a range of keys; it will when the range grows");
}

/// The version of a collection without documents whose records and index on `_id` have so many stripes, as powers of
/// two; none if no such ident is left.
fn elsewhere(
    ddl: &mut Ddl<'_>,
    old: &Arc<Collection>,
    (power, of_ids): (u32, u32),
) -> Result<Option<CollectionVersion>> {
    let ident = ddl.striped_ident(power)?;
    if ident.stripes_power() == 0 {
        return Ok(None);
    }
    let mut new = old.with_indexes(Vec::new());
    new.ident = ident;
    let mut indexes = Vec::new();
    for index in &old.indexes {
        let power = if index.spec.is_id() { of_ids } else { 0 };
        let multikey = Multikey::new(multikey_words(&index.spec));
        let index = Index::new_empty(index.spec.clone(), ddl.striped_ident(power)?, multikey)?;
        indexes.push(Arc::new(index.of_records(old.layout, (old.space, ident))));
    }
    new.indexes = indexes.into();
    new.state = Arc::new(CollectionState::of_nothing(&ddl.store.promises));
    new.version_annotations = Annotations::default();
    debug_assert!(matches!(new.layout, Layout::Numbers | Layout::Ids));
    Ok(Some(new))
}

/// Keys that divide the hashes of an index evenly.
fn hashes(index: &Index, power: u32) -> Vec<Vec<u8>> {
    let Some(first) = index.spec.key.first() else { return Vec::new() };
    let of_part = |part: u64| {
        let hash = (i64::MIN as u64).wrapping_add(part << (u64::BITS - power)) as i64;
        let mut key = index.ident.bytes().to_vec();
        keystring::append(Value::Int64(hash), first.descending, &mut key);
        key
    };
    (1..1 << power).map(of_part).collect()
}

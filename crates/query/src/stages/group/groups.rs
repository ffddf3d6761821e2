//! The groups with the states of their accumulators, in memory and in runs on disk.
//!
//! A run stores groups ordered by the hash of their key, so keys are compared only if their hashes are equal:
//!
//! ```text
//!   key:     hash (4, big-endian) | type of the group's key (1) | its bytes
//!   value:   a document of the accumulators' partial states, named by position
//! ```

use std::cmp::Ordering;
use std::sync::Arc;

use nagi_bson::{Type, append_payload, payload_value};
use nagi_error::Error;
use nagi_lang::accum::{AccumSpec, States};
use nagi_lang::collation;
use nagi_lang::ordered;
use nagi_store::Spill;

use super::super::prelude::*;
use super::super::unpack_columns::BUCKET_WEIGHT;
use super::columns::Plan;
use super::table::{Table, hash_of};
use super::{Grouping, key_value};
use crate::source::{Gather, OperatorMemory, Runs, SourceStats, read_meta};

/// Limit of groups in memory, whatever the limit in bytes, because group numbers have 32 bits.
const GROUPS_MAX: usize = 1 << 31;
/// Accumulators whose last digits depend on where the documents are divided. One thread computes them, so that a query
/// gives the same result whether or not a core was free. (Sums are kept with twice the digits of a double.)
const INDIVISIBLE: [&str; 5] =
    ["$accumulator", "$median", "$percentile", "$stdDevPop", "$stdDevSamp"];
/// As soon as these meet a decimal, their results are rounded at each document, in its order.
pub(super) const SUMS: [&str; 2] = ["$sum", "$avg"];
/// Bytes of hash and type in a run's key.
const HEAD_BYTES: usize = 5;

pub(super) struct Groups {
    pub(super) grouping: Arc<Grouping>,
    /// How it reads an input of buckets.
    plan: Option<Arc<Plan>>,
    pub(super) memory_bytes_max: usize,
    /// True if it has the later documents, to be joined to the earlier ones.
    pub(super) later: bool,
    pub(super) table: Table,
    /// The accumulator states of each field, by group number.
    pub(super) states: Vec<Box<dyn States>>,
    pub(super) held: OperatorMemory,
    /// Spills, in the order of their documents.
    spills: Vec<Spill>,
    /// Counters of spilling.
    pub(super) stats: SourceStats,
    /// Peak memory of the accumulators of each field.
    pub(super) fields_held: Vec<u64>,
    pub(super) arena: Bump,
    partial: Vec<u8>,
}

impl Gather for Groups {
    fn take(&mut self, input: &dyn Source, cx: &mut Cx<'_>) -> Result<()> {
        if let Some(plan) = self.plan.clone() {
            return self.take_bucket(&plan, input.doc(), cx);
        }
        self.take_doc((input.doc(), input.meta()), cx)
    }

    fn weight(&self) -> u64 {
        if self.plan.is_some() { BUCKET_WEIGHT } else { 1 }
    }

    /// The memory is halved. Groups beyond it are spilled, so spilling must be allowed.
    fn beside(&mut self, _: &mut Cx<'_>) -> Result<Option<Groups>> {
        let divisible = |accum: &AccumSpec| !INDIVISIBLE.contains(&accum.name());
        if !self.grouping.allow_disk_use
            || !self.grouping.fields.iter().all(|(_, accum)| divisible(accum))
        {
            return Ok(None);
        }
        self.memory_bytes_max = self.grouping.memory_bytes_max / 2;
        let beside = Groups::new(self.grouping.clone(), self.plan.clone());
        Ok(Some(Groups { memory_bytes_max: self.memory_bytes_max, later: true, ..beside }))
    }

    fn alone(&mut self) {
        self.memory_bytes_max = self.grouping.memory_bytes_max;
    }

    fn join(&mut self, mut later: Groups, cx: &mut Cx<'_>) -> Result<()> {
        if self.spills.is_empty() && later.spills.is_empty() {
            return self.merge(&later, cx);
        }
        if self.table.len() > 0 {
            self.write_run(cx)?;
        }
        self.held.keep(0);
        self.spills.append(&mut later.spills);
        (self.table, self.states, self.held) = (later.table, later.states, later.held);
        Ok(())
    }
}

/// The number of a key, and true if it is new.
#[inline]
pub(super) fn number_of(
    table: &mut Table,
    states: &mut [Box<dyn States>],
    (key, own): (Value<'_>, Option<&'static collation::Collation>),
    cx: &Cx<'_>,
) -> Result<(usize, bool)> {
    let key = if key.is_missing() { Value::Null } else { key };
    let (at, is_new) = table.find(key, hash_of(key, own), own);
    if is_new {
        for states in states {
            states.push();
            states.start(at, key, cx.vars, cx.env.now_ms())?;
        }
    }
    Ok((at, is_new))
}

/// The error of a thread that has later documents and meets a decimal. Its part is read again in order.
pub(super) fn out_of_order() -> Error {
    Error::bug("decimals are added in the order of their documents")
}

impl Groups {
    /// `plan`: for an input of buckets.
    pub(super) fn new(grouping: Arc<Grouping>, plan: Option<Arc<Plan>>) -> Groups {
        Groups {
            plan,
            memory_bytes_max: grouping.memory_bytes_max,
            later: false,
            table: Table::default(),
            states: grouping.fields.iter().map(|(_, accum)| accum.new_states()).collect(),
            grouping,
            held: OperatorMemory::default(),
            spills: Vec::new(),
            stats: SourceStats::default(),
            fields_held: Vec::new(),
            arena: Bump::new(),
            partial: Vec::new(),
        }
    }

    /// Takes a document with its metadata.
    #[inline]
    pub(super) fn take_doc(
        &mut self,
        (doc, meta): (Doc<'_>, Doc<'_>),
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        let mut eval = cx.eval(doc, &self.arena);
        eval.meta = read_meta(meta, &self.arena);
        let key = self.grouping.id.eval(&eval)?;
        let own = self.grouping.collation;
        let (at, is_new) = number_of(&mut self.table, &mut self.states, (key, own), cx)?;
        for ((_, accum), states) in self.grouping.fields.iter().zip(&mut self.states) {
            let value = accum.argument().eval(&eval)?;
            if self.later && matches!(value, Value::Decimal128(_)) && SUMS.contains(&accum.name()) {
                return Err(out_of_order());
            }
            states.add(at, value, cx.vars)?;
        }
        renew(&mut self.arena);
        match is_new || self.states.iter().any(|states| states.grows()) {
            true => self.fit(cx),
            false => Ok(()),
        }
    }

    /// Number of groups in memory.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.table.bytes() + self.states.iter().map(|states| states.bytes()).sum::<usize>()
    }

    /// Spills if the memory exceeds its limit.
    #[inline]
    pub(super) fn fit(&mut self, cx: &Cx<'_>) -> Result<()> {
        let bytes = self.bytes();
        if bytes <= self.memory_bytes_max
            && self.held.fits_as_one(cx, bytes)
            && self.table.len() < GROUPS_MAX
        {
            return Ok(());
        }
        self.over_memory(bytes, cx)
    }

    #[cold]
    fn over_memory(&mut self, bytes: usize, cx: &Cx<'_>) -> Result<()> {
        if !self.grouping.allow_disk_use {
            if bytes <= self.memory_bytes_max {
                return Err(self.held.full());
            }
            bail!(
                Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                "Exceeded memory limit for $group, but didn't allow external sort. Pass \
                 allowDiskUse:true to opt in."
            );
        }
        self.write_run(cx)?;
        self.held.keep(0);
        Ok(())
    }

    /// Merges groups of documents that came after all of its own.
    fn merge(&mut self, later: &Groups, cx: &Cx<'_>) -> Result<()> {
        let own = self.grouping.collation;
        for number in 0..later.len() {
            cx.pass()?;
            let key = later.table.key(number);
            let (at, is_new) = self.table.find(key, hash_of(key, own), own);
            for (into, from) in self.states.iter_mut().zip(&later.states) {
                if is_new {
                    into.push();
                }
                self.partial.clear();
                from.partial(number, DocWriter::new(&mut self.partial).slot(""));
                into.merge(at, key_value(&self.partial), cx.vars)?;
            }
            self.fit(cx)?;
        }
        Ok(())
    }

    /// Updates the peak memory for explain.
    fn note_held(&mut self) {
        self.fields_held.resize(self.states.len(), 0);
        for (most, states) in self.fields_held.iter_mut().zip(&self.states) {
            *most = (*most).max(states.bytes() as u64);
        }
    }

    /// Merges all runs by hash and key; none if everything is in memory.
    pub(super) fn runs(&mut self, cx: &Cx<'_>) -> Result<Option<Runs>> {
        if self.spills.is_empty() {
            self.note_held();
            return Ok(None);
        }
        self.write_run(cx)?;
        self.held.keep(0);
        self.spills.iter().for_each(|spill| self.stats.note_spill(spill));
        let order = |a: &[u8], b: &[u8]| run_order(a, b, self.grouping.collation);
        Runs::open_all(std::mem::take(&mut self.spills), &order, cx).map(Some)
    }

    /// Writes all groups as a run and clears them.
    fn write_run(&mut self, cx: &Cx<'_>) -> Result<()> {
        self.note_held();
        let (table, own) = (&mut self.table, self.grouping.collation);
        let mut places = table.take_places();
        let by_hash = |a: &u64, b: &u64| {
            Table::hash(*a).cmp(&Table::hash(*b)).then_with(|| {
                let key = |place| table.key(Table::number(place));
                collation::values(key(*a), key(*b), own)
            })
        };
        ordered::order(&mut places, &by_hash, &mut || cx.pass())?;
        if self.spills.is_empty() {
            self.spills.push(cx.store.spill());
        }
        let Some(spill) = self.spills.last_mut() else { return Ok(()) };
        let names: Vec<String> = (0..self.states.len()).map(|at| at.to_string()).collect();
        let states = &self.states;
        let average =
            states.iter().map(|states| states.bytes()).sum::<usize>() / places.len().max(1);
        let mut places = places.into_iter();
        spill.write_run(&mut |key, value| {
            let Some(place) = places.next() else { return Ok(false) };
            cx.writing(average)?;
            cx.pass()?;
            let number = Table::number(place);
            let group = table.key(number);
            key.extend_from_slice(&Table::hash(place).to_be_bytes());
            key.push(group.kind() as u8);
            append_payload(key, group);
            let mut partials = DocWriter::new(value);
            for (name, states) in names.iter().zip(states) {
                states.partial(number, partials.slot(name));
            }
            Ok(true)
        })?;
        self.table = Table::default();
        self.states.iter_mut().for_each(|states| states.clear());
        Ok(())
    }

    /// Writes the document of a group in memory.
    pub(super) fn write(&mut self, number: usize, out: &mut Vec<u8>, cx: &Cx<'_>) -> Result<()> {
        cx.writing(self.bytes() / self.len().max(1))?;
        let key = self.table.key(number);
        write_group(&self.grouping, key, (number, &mut self.states), out, cx)
    }

    /// Combines the partial groups of the current key of `runs` and writes the result. Returns true if there is a
    /// next key, which is then current.
    pub(super) fn write_merged(
        &mut self,
        runs: &mut Runs,
        out: &mut Vec<u8>,
        cx: &Cx<'_>,
    ) -> Result<bool> {
        let Groups { grouping, states, partial: key, .. } = self;
        key.clear();
        key.extend_from_slice(runs.entry()?.0);
        for states in states.iter_mut() {
            states.clear();
            states.push();
        }
        let order = |a: &[u8], b: &[u8]| run_order(a, b, grouping.collation);
        let is_more = loop {
            cx.pass()?;
            for element in Doc::trusted(runs.entry()?.1) {
                // Missing states are not stored, so elements are identified by name, not by position.
                let at = element.name().parse::<usize>().ok();
                if let Some(states) = at.and_then(|at| states.get_mut(at)) {
                    states.merge(0, element.value(), cx.vars)?;
                }
            }
            if !runs.advance(&order)? {
                break false;
            }
            if order(runs.entry()?.0, key).is_ne() {
                break true;
            }
        };
        cx.writing(states.iter().map(|states| states.bytes()).sum())?;
        write_group(grouping, split(key).1, (0, states), out, cx)?;
        Ok(is_more)
    }
}

/// Parses hash and value from a run's key.
fn split(key: &[u8]) -> ([u8; 4], Value<'_>) {
    let Some((head, bytes)) = key.split_first_chunk::<HEAD_BYTES>() else {
        return ([0; 4], Value::Null);
    };
    let [hash @ .., kind] = *head;
    (hash, Type::from_byte(kind).map_or(Value::Null, |kind| payload_value(kind, bytes)))
}

/// The order of a run.
pub(super) fn run_order(
    a: &[u8],
    b: &[u8],
    own: Option<&'static collation::Collation>,
) -> Ordering {
    let (a, b) = (split(a), split(b));
    a.0.cmp(&b.0).then_with(|| collation::values(a.1, b.1, own))
}

fn write_group(
    grouping: &Grouping,
    key: Value<'_>,
    (number, states): (usize, &mut [Box<dyn States>]),
    out: &mut Vec<u8>,
    cx: &Cx<'_>,
) -> Result<()> {
    out.clear();
    let mut out = DocWriter::new(out);
    out.put("_id", key);
    for ((name, _), states) in grouping.fields.iter().zip(states) {
        states.finish(number, cx.vars, out.slot(name))?;
        // Each accumulator has a limit of its own (146).
        cx.writing_document(out.len())?;
    }
    Ok(())
}

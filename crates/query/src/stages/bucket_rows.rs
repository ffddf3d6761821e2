//! The rows of a `$bucketAuto` in the order of their keys: in memory, or merged from runs on disk.
//!
//! ```text
//!   rows:    first bytes of the sort key | place                 sorted; most keys differ in these bytes
//!   pages:   sort key | {"": group key, "0": argument, ..} ...   in the order of arrival
//! ```
//!
//! Sort keys are key strings, so comparing them is comparing bytes. A row needs no allocation of its own.

use std::cmp::Ordering;

use nagi_lang::collation::Collation;
use nagi_lang::ordered;
use nagi_store::{Spill, keystring};

use super::prelude::*;
use crate::source::{OperatorMemory, Runs, SourceStats};

/// Pages double in size up to this.
const PAGE_BYTES: std::ops::RangeInclusive<usize> = 1 << 12..=1 << 20;

/// The place of a row in the pages.
#[derive(Clone, Copy)]
struct Place {
    /// The first bytes of the sort key, as numbers with the same order.
    prefix: [u64; 2],
    page: u32,
    start: u32,
    key_len: u32,
    len: u32,
}

impl Place {
    /// Compares by sort key. Most keys need no look into the pages, which would wait for memory.
    fn compare(&self, other: &Place, pages: &Pages) -> Ordering {
        self.prefix.cmp(&other.prefix).then_with(|| {
            match self.key_len.max(other.key_len) as usize <= size_of_val(&self.prefix) {
                true => self.key_len.cmp(&other.key_len),
                false => pages.row(*self).key.cmp(pages.row(*other).key),
            }
        })
    }
}

/// The bytes of rows.
#[derive(Default)]
struct Pages(Vec<Vec<u8>>);

impl Pages {
    /// A page with `len` free bytes. Returns true if it is new.
    fn page_for(&mut self, len: usize, bytes: usize) -> bool {
        let fits = |page: &Vec<u8>| page.capacity() - page.len() >= len;
        if self.0.last().is_some_and(fits) {
            return false;
        }
        let size = bytes.clamp(*PAGE_BYTES.start(), *PAGE_BYTES.end()).max(len);
        self.0.push(Vec::with_capacity(size));
        true
    }

    fn row(&self, place: Place) -> Row<'_> {
        let start = place.start as usize;
        let bytes = &self.0[place.page as usize][start..start + place.len as usize];
        let (key, values) = bytes.split_at(place.key_len as usize);
        Row { key, values: Doc::trusted(values) }
    }
}

/// The row of a document.
#[derive(Clone, Copy)]
pub(super) struct Row<'r> {
    /// Its bytes are ordered as the values are that documents are grouped by.
    pub(super) key: &'r [u8],
    values: Doc<'r>,
}

impl<'r> Row<'r> {
    /// The value that the document is grouped by.
    pub(super) fn group_key(&self) -> Value<'r> {
        self.values.first().map_or(Value::Null, |element| element.value())
    }

    /// The stored arguments by name; one that is missing was not written.
    pub(super) fn argument(&self, name: &str) -> Value<'r> {
        self.values.get(name)
    }
}

/// The order of rows, and their memory limit.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) collation: Option<&'static Collation>,
    pub(super) memory_bytes_max: usize,
    pub(super) allow_disk_use: bool,
}

/// Rows in the order of arrival.
pub(super) struct Gathered {
    limits: Limits,
    /// The part of the limit that this half may use.
    memory_bytes_max: usize,
    rows: Vec<Place>,
    /// The rows in memory are in order.
    ordered: bool,
    pages: Pages,
    /// Memory of the pages.
    page_bytes: usize,
    held: OperatorMemory,
    /// Spills, in the order of their documents.
    spills: Vec<Spill>,
    total: usize,
    /// The next row.
    next: Vec<u8>,
}

impl Gathered {
    pub(super) fn new(limits: Limits) -> Gathered {
        Gathered {
            limits,
            memory_bytes_max: limits.memory_bytes_max,
            rows: Vec::new(),
            ordered: true,
            pages: Pages::default(),
            page_bytes: 0,
            held: OperatorMemory::default(),
            spills: Vec::new(),
            total: 0,
            next: Vec::new(),
        }
    }

    /// Adds the row of a document with this group key; `arguments` writes the arguments. Rows beyond the memory limit
    /// are spilled.
    ///
    /// # Errors
    /// 292 if spilling is not allowed, 146 if the server's memory is exhausted; those of `arguments`.
    pub(super) fn add(
        &mut self,
        key: Value<'_>,
        arguments: impl FnOnce(&mut DocWriter<'_>) -> Result<()>,
        cx: &Cx<'_>,
    ) -> Result<()> {
        self.next.clear();
        let keyed = self.limits.collation.and_then(|collation| collation.keyed(key));
        let ordered = keyed.as_ref().map_or(key, |keyed| keyed.value());
        keystring::append(ordered, false, &mut self.next);
        let key_len = self.next.len();
        let mut values = DocWriter::new(&mut self.next);
        values.put("", key);
        arguments(&mut values)?;
        values.finish();
        let len = self.next.len();
        if self.pages.page_for(len, self.page_bytes) {
            self.page_bytes += self.pages.0.last().map_or(0, Vec::capacity);
        }
        let number = self.pages.0.len() - 1;
        let page = &mut self.pages.0[number];
        self.rows.push(Place {
            prefix: prefix(&self.next[..key_len]),
            page: number as u32,
            start: page.len() as u32,
            key_len: key_len as u32,
            len: len as u32,
        });
        page.extend_from_slice(&self.next);
        self.ordered = false;
        self.total += 1;
        self.fit(cx)
    }

    /// An empty one for later documents; none if both could not spill. Both get half of the memory.
    pub(super) fn beside(&mut self) -> Option<Gathered> {
        if !self.limits.allow_disk_use {
            return None;
        }
        self.memory_bytes_max = self.limits.memory_bytes_max / 2;
        Some(Gathered { memory_bytes_max: self.memory_bytes_max, ..Gathered::new(self.limits) })
    }

    pub(super) fn alone(&mut self) {
        self.memory_bytes_max = self.limits.memory_bytes_max;
    }

    /// Appends rows that came after all of its own.
    pub(super) fn join(&mut self, mut later: Gathered, cx: &Cx<'_>) -> Result<()> {
        self.total += later.total;
        if !later.spills.is_empty() {
            if !self.rows.is_empty() {
                self.write_run(cx)?;
            }
            self.spills.append(&mut later.spills);
        }
        let pages = self.pages.0.len() as u32;
        self.pages.0.append(&mut later.pages.0);
        self.page_bytes += later.page_bytes;
        later.held.keep(0);
        later.rows.iter_mut().for_each(|row| row.page += pages);
        if self.ordered && later.ordered {
            let pages = &self.pages;
            let compare = |a: &Place, b: &Place| a.compare(b, pages);
            let rows = std::mem::take(&mut self.rows);
            self.rows = ordered::merge(rows, later.rows, &compare, &mut || cx.pass())?;
        } else {
            self.rows.append(&mut later.rows);
            self.ordered = false;
        }
        self.fit(cx)
    }

    fn bytes(&self) -> usize {
        self.page_bytes + self.rows.capacity() * size_of::<Place>()
    }

    fn fit(&mut self, cx: &Cx<'_>) -> Result<()> {
        let (bytes, most) = (self.bytes(), self.memory_bytes_max);
        if bytes <= most && self.held.fits(cx, bytes) {
            return Ok(());
        }
        if !self.limits.allow_disk_use {
            if bytes <= most {
                return Err(self.held.full());
            }
            bail!(
                Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                "Sort exceeded memory limit of {most} bytes, but did not opt in to external \
                 sorting. Aborting operation. Pass allowDiskUse:true to opt in."
            );
        }
        self.write_run(cx)
    }

    /// Sorts the rows in memory; equal ones keep the order of arrival.
    pub(super) fn order(&mut self, cx: &Cx<'_>) -> Result<()> {
        if std::mem::replace(&mut self.ordered, true) {
            return Ok(());
        }
        let pages = &self.pages;
        let compare = |a: &Place, b: &Place| a.compare(b, pages);
        ordered::order(&mut self.rows, &compare, &mut || cx.pass())
    }

    fn write_run(&mut self, cx: &Cx<'_>) -> Result<()> {
        self.order(cx)?;
        if self.spills.is_empty() {
            self.spills.push(cx.store.spill());
        }
        let Some(spill) = self.spills.last_mut() else { return Ok(()) };
        let pages = std::mem::take(&mut self.pages);
        let mut rows = std::mem::take(&mut self.rows).into_iter();
        spill.write_run(&mut |key, value| {
            let Some(place) = rows.next() else { return Ok(false) };
            cx.pass()?;
            let row = pages.row(place);
            key.extend_from_slice(row.key);
            value.extend_from_slice(row.values.as_bytes());
            Ok(true)
        })?;
        self.page_bytes = 0;
        self.held.keep(0);
        Ok(())
    }

    /// All rows by key, equal ones in the order of arrival; and the counters of spilling.
    pub(super) fn sorted(mut self, cx: &Cx<'_>) -> Result<(Rows, SourceStats)> {
        let mut spilled = SourceStats::default();
        let from = if self.spills.is_empty() {
            self.order(cx)?;
            From::Memory { rows: self.rows, pages: self.pages, next: 0 }
        } else {
            self.write_run(cx)?;
            self.spills.iter().for_each(|spill| spilled.note_spill(spill));
            let runs = Runs::open_all(self.spills, &|a, b| a.cmp(b), cx)?;
            From::Disk { runs, more: false, before: Default::default() }
        };
        let mut rows = Rows { from, total: self.total, _held: self.held };
        rows.step()?;
        Ok((rows, spilled))
    }
}

/// The first bytes of a key as numbers with the same order; missing bytes are zeros.
fn prefix(key: &[u8]) -> [u64; 2] {
    let mut first = [0; 16];
    let len = key.len().min(first.len());
    first[..len].copy_from_slice(&key[..len]);
    let both = u128::from_be_bytes(first);
    [(both >> 64) as u64, both as u64]
}

enum From {
    /// `next`: the number of the row after the current one.
    Memory { rows: Vec<Place>, pages: Pages, next: usize },
    /// `more`: there is a current row.
    /// `before`: the sort key and the values of the row before the current one.
    Disk { runs: Runs, more: bool, before: (Vec<u8>, Vec<u8>) },
}

/// Sorted rows; the first one is current.
pub(super) struct Rows {
    from: From,
    pub(super) total: usize,
    /// The charge for the rows in memory.
    _held: OperatorMemory,
}

impl Rows {
    /// The current row; none after the last one.
    pub(super) fn current(&self) -> Result<Option<Row<'_>>> {
        match &self.from {
            From::Memory { rows, pages, next } => {
                let place = next.checked_sub(1).and_then(|at| rows.get(at));
                Ok(place.map(|place| pages.row(*place)))
            }
            From::Disk { more: false, .. } => Ok(None),
            From::Disk { runs, .. } => {
                let (key, values) = runs.entry()?;
                Ok(Some(Row { key, values: Doc::trusted(values) }))
            }
        }
    }

    /// The row before the current one; none before the first one.
    pub(super) fn before(&self) -> Option<Row<'_>> {
        match &self.from {
            From::Memory { rows, pages, next } => {
                let place = next.checked_sub(2).and_then(|at| rows.get(at))?;
                Some(pages.row(*place))
            }
            From::Disk { before: (key, values), .. } => {
                (!values.is_empty()).then(|| Row { key, values: Doc::trusted(values) })
            }
        }
    }

    /// Moves to the next row.
    pub(super) fn step(&mut self) -> Result<()> {
        match &mut self.from {
            From::Memory { next, .. } => *next += 1,
            From::Disk { runs, more, before } => {
                if *more {
                    let (key, values) = runs.entry()?;
                    key.clone_into(&mut before.0);
                    values.clone_into(&mut before.1);
                }
                *more = runs.advance(&|a, b| a.cmp(b))?;
            }
        }
        Ok(())
    }
}

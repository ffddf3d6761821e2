//! The rows of a `$bucketAuto` in the order of their keys: in memory, or merged from runs on disk.

use nagi_bson::ValueBuf;
use nagi_lang::collation::{self, Collation};
use nagi_lang::ordered;
use nagi_store::Spill;

use super::{group::key_value, prelude::*};
use crate::source::{Held, Runs, SourceStats};

/// Memory of a row in addition to its values, in bytes; and of each argument.
const ROW_BYTES: usize = 48;
const ARGUMENT_BYTES: usize = 24;

/// The row of a document: the value it is grouped by, and the arguments of the accumulators.
pub(super) struct Row {
    pub(super) key: ValueBuf,
    pub(super) arguments: Box<[ValueBuf]>,
}

impl Row {
    fn bytes(&self) -> usize {
        let arguments = self.arguments.iter().map(|v| v.heap_bytes() + ARGUMENT_BYTES);
        self.key.heap_bytes() + ROW_BYTES + arguments.sum::<usize>()
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
#[derive(Default)]
pub(super) struct Gathered {
    rows: Vec<Row>,
    held_bytes: usize,
    held: Held,
    spill: Option<Spill>,
    total: usize,
}

impl Gathered {
    /// Adds a row. Rows beyond the memory limit are spilled.
    ///
    /// # Errors
    /// 292 if spilling is not allowed, 146 if the server's memory is exhausted.
    pub(super) fn add(&mut self, row: Row, limits: Limits, cx: &Cx<'_>) -> Result<()> {
        self.held_bytes += row.bytes();
        self.total += 1;
        self.rows.push(row);
        let most = limits.memory_bytes_max;
        if self.held_bytes <= most && self.held.fits(cx, self.held_bytes) {
            return Ok(());
        }
        if !limits.allow_disk_use {
            if self.held_bytes <= most {
                bail!(Code::EXCEEDED_MEMORY_LIMIT, "{}", Held::FULL);
            }
            bail!(
                Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                "Sort exceeded memory limit of {most} bytes, but did not opt in to external \
                 sorting. Aborting operation. Pass allowDiskUse:true to opt in."
            );
        }
        self.write_run(limits, cx)
    }

    fn order(&mut self, limits: Limits, cx: &Cx<'_>) -> Result<()> {
        let own = limits.collation;
        let by_key = |a: &Row, b: &Row| collation::values(a.key.value(), b.key.value(), own);
        ordered::order(&mut self.rows, &by_key, &mut || cx.pass())
    }

    fn write_run(&mut self, limits: Limits, cx: &Cx<'_>) -> Result<()> {
        self.order(limits, cx)?;
        let mut spill = self.spill.take().unwrap_or_else(|| cx.store.spill());
        let mut rows = std::mem::take(&mut self.rows).into_iter();
        spill.write_run(&mut |key, value| {
            let Some(row) = rows.next() else { return Ok(false) };
            cx.pass()?;
            DocWriter::new(key).put("", row.key.value());
            let mut arguments = DocWriter::new(value);
            for (at, argument) in row.arguments.iter().enumerate() {
                arguments.put(&at.to_string(), argument.value());
            }
            Ok(true)
        })?;
        self.held_bytes = 0;
        self.held.keep(0);
        self.spill = Some(spill);
        Ok(())
    }

    /// All rows by key, equal ones in the order of arrival; and the counters of spilling.
    pub(super) fn sorted(mut self, limits: Limits, cx: &Cx<'_>) -> Result<(Rows, SourceStats)> {
        let mut spilled = SourceStats::default();
        let own = limits.collation;
        let order = |a: &[u8], b: &[u8]| collation::values(key_value(a), key_value(b), own);
        let from = match self.spill.is_some() {
            false => {
                self.order(limits, cx)?;
                From::Memory(self.rows.into_iter())
            }
            true => {
                self.write_run(limits, cx)?;
                let spill = self.spill.take().unwrap_or_else(|| cx.store.spill());
                spilled.note_spill(&spill);
                From::Disk(Runs::open(spill, &order, cx)?)
            }
        };
        let (total, _held) = (self.total, self.held);
        let mut rows = Rows { from, next: None, total, collation: limits.collation, _held };
        rows.next = rows.read()?;
        Ok((rows, spilled))
    }
}

enum From {
    Memory(std::vec::IntoIter<Row>),
    Disk(Runs),
}

/// Sorted rows with one row of look-ahead.
pub(super) struct Rows {
    from: From,
    next: Option<Row>,
    pub(super) total: usize,
    collation: Option<&'static Collation>,
    /// The charge for the rows in memory.
    _held: Held,
}

impl Rows {
    pub(super) fn peek(&self) -> Option<&Row> {
        self.next.as_ref()
    }

    /// Takes the next row.
    pub(super) fn take(&mut self) -> Result<Option<Row>> {
        let next = self.read()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    fn read(&mut self) -> Result<Option<Row>> {
        let runs = match &mut self.from {
            From::Memory(rows) => return Ok(rows.next()),
            From::Disk(runs) => runs,
        };
        let own = self.collation;
        let order = |a: &[u8], b: &[u8]| collation::values(key_value(a), key_value(b), own);
        if !runs.advance(&order)? {
            return Ok(None);
        }
        let (key, value) = runs.entry()?;
        let key = ValueBuf::new(key_value(key));
        // A missing argument was not written.
        let mut arguments = Vec::new();
        for element in Doc::trusted(value) {
            let at = element.name().parse::<usize>().unwrap_or(arguments.len());
            arguments.resize_with(at, || ValueBuf::new(Value::Missing));
            arguments.push(ValueBuf::new(element.value()));
        }
        Ok(Some(Row { key, arguments: arguments.into() }))
    }
}

//! Reads the log as documents, forward or backward: one for each stamp.

use std::sync::Arc;

use nagi_bson::{Doc, DocWriter, Value};
use nagi_error::{Code, Result, bail};
use nagi_kv::{CommitStamp, Cursor, Read, Space};

use super::{
    CONTINUES, FOLLOWS, FORMAT, FORMAT_WITH_PRE_IMAGE, HEAD_BYTES, IN_TRANSACTION, OP_TIME_BEFORE,
    OPS_BEFORE, first_of, parts, pre_images::ShownImage, put_op_time,
};
use crate::{catalog::CollectionState, engine_error::engine, memory};

/// Where a cursor goes next.
enum Next {
    First,
    /// The cursor stands at the first entry that was not read.
    Here,
    /// The cursor stands at the only entry of the current document.
    Behind,
    /// The same, but there is none.
    End,
    /// To the first document after this stamp in the reader's direction.
    Beyond(u64),
}

/// A cursor over the documents of the log.
pub(crate) struct LogReader {
    cursor: Box<dyn Cursor>,
    /// The collection that shows the log: its first record tells what was removed.
    shown: Arc<CollectionState>,
    forward: bool,
    next: Next,
    /// The stamp of the current document.
    pub(crate) stamp: u64,
    /// The entries of the current document one after the other, and the end of each. Empty for a document that is no
    /// transaction: it has one entry, at which the cursor stands.
    entries: Vec<u8>,
    ends: Vec<usize>,
    /// For a backward reader: the document behind the next one continues its transaction.
    continued: bool,
    /// The next document continues the transaction of the current one.
    is_continued: bool,
    /// Passes over entries that were removed before it has read them.
    passes_over: bool,
}

/// An entry of the engine.
pub(super) struct Entry<'e> {
    pub(super) in_transaction: bool,
    continues: bool,
    follows: bool,
    term: i64,
    pub(super) wall_ms: i64,
    pub(super) doc: Doc<'e>,
    /// The document before the change.
    pub(super) pre_image: Option<Doc<'e>>,
}

impl<'e> Entry<'e> {
    pub(super) fn parse(value: &'e [u8]) -> Result<Entry<'e>> {
        let Some((head, doc)) = value.split_first_chunk::<HEAD_BYTES>() else {
            bail!(Code::INTERNAL_ERROR, "an entry of the oplog is too short");
        };
        if !matches!(head[0], FORMAT | FORMAT_WITH_PRE_IMAGE) {
            bail!(Code::INTERNAL_ERROR, "an entry of the oplog has the unknown format {}", head[0]);
        }
        let number = |at: usize| {
            let bytes = head[at..].first_chunk().copied().unwrap_or_default();
            i64::from_le_bytes(bytes)
        };
        let (doc, image) = parts(doc);
        Ok(Entry {
            in_transaction: head[1] & IN_TRANSACTION != 0,
            continues: head[1] & CONTINUES != 0,
            follows: head[1] & FOLLOWS != 0,
            term: number(2),
            wall_ms: number(10),
            doc: Doc::trusted(doc),
            pre_image: (head[0] == FORMAT_WITH_PRE_IMAGE).then(|| Doc::trusted(image)),
        })
    }

    /// The transaction that the entry belongs to: its `lsid` and `txnNumber`.
    fn transaction(&self) -> Option<(Value<'e>, Value<'e>)> {
        self.in_transaction.then(|| (self.doc.get("lsid"), self.doc.get("txnNumber")))
    }
}

pub(super) fn stamp_of(key: &[u8]) -> u64 {
    key.first_chunk().map_or(0, |stamp| u64::from_be_bytes(*stamp))
}

/// Documents of more entry bytes than this are written into a buffer of their size.
const LARGE_BYTES: usize = 256 << 10;
/// What the fields of a document take beside its entries.
const FIELDS_BYTES: usize = 4 << 10;

/// Greater than every key.
const END: [u8; 13] = [0xFF; 13];

impl LogReader {
    /// `shown`: the state of the collection that shows the log.
    pub(crate) fn open(
        read: &dyn Read,
        forward: bool,
        shown: &Arc<CollectionState>,
    ) -> Result<LogReader> {
        let (shown, first) = (Arc::clone(shown), first_of(shown).to_be_bytes());
        let cursor = read.cursor(Space::Changes, &first, &[]).map_err(engine)?;
        let (entries, ends) = (Vec::new(), Vec::new());
        let (next, stamp, continued, is_continued) = (Next::First, 0, false, false);
        Ok(LogReader {
            cursor,
            shown,
            forward,
            next,
            stamp,
            entries,
            ends,
            continued,
            is_continued,
            passes_over: false,
        })
    }

    /// Makes a forward reader continue at the oldest entry if entries were removed before it has read them, instead of
    /// the error for that.
    pub(super) fn passing_over(self) -> LogReader {
        LogReader { passes_over: true, ..self }
    }

    /// Makes the next `advance` move to the first document.
    pub(crate) fn begin_again(&mut self) {
        (self.next, self.continued) = (Next::First, false);
    }

    /// Makes the next `advance` move beyond this stamp in the reader's direction.
    pub(crate) fn resume_after(&mut self, stamp: u64) {
        self.next = Next::Beyond(stamp);
    }

    /// Moves to the next document, which is written to `out`. Returns false at the end.
    pub(crate) fn advance(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let found = self.skip()?;
        if found {
            self.write(out)?;
        }
        Ok(found)
    }

    /// Moves to the next document. Returns false at the end.
    pub(crate) fn skip(&mut self) -> Result<bool> {
        while self.seek()? {
            if self.read()? {
                return Ok(true);
            }
            self.next = Next::First;
        }
        Ok(false)
    }

    /// Moves to the first entry of the next document. Returns false at the end.
    fn seek(&mut self) -> Result<bool> {
        let first = first_of(&self.shown).to_be_bytes();
        let found = match (std::mem::replace(&mut self.next, Next::Here), self.forward) {
            (Next::End, _) => false,
            (Next::Here, _) => true,
            (Next::Behind, true) => self.cursor.next().map_err(engine)?,
            (Next::Behind, false) => self.cursor.prev().map_err(engine)?,
            (Next::First, true) => self.cursor.seek(&first).map_err(engine)?,
            (Next::First, false) => self.cursor.seek_back(&END).map_err(engine)?,
            (Next::Beyond(stamp), true) => {
                let after = stamp.saturating_add(1).to_be_bytes().max(first);
                self.cursor.seek(&after).map_err(engine)?
            }
            (Next::Beyond(stamp), false) => {
                let at = stamp.to_be_bytes().max(first);
                self.continued =
                    self.cursor.seek(&at).map_err(engine)? && self.continues_at(stamp)?;
                self.cursor.seek_back(&at).map_err(engine)?
            }
        };
        if !found {
            self.next = Next::End;
        }
        Ok(found)
    }

    /// True if the cursor stands at an entry of this stamp that continues the transaction of the stamp before.
    fn continues_at(&self, stamp: u64) -> Result<bool> {
        let entry = Entry::parse(self.cursor.value())?;
        Ok(stamp_of(self.cursor.key()) == stamp && entry.continues)
    }

    /// Copies the entries of the current stamp, the first of which the cursor has, and moves behind them.
    fn read_entries(&mut self) -> Result<()> {
        loop {
            memory::wait(self.cursor.value().len(), "the operations of a transaction")?;
            self.entries.extend_from_slice(self.cursor.value());
            self.ends.push(self.entries.len());
            let more = match self.forward {
                true => self.cursor.next(),
                false => self.cursor.prev(),
            };
            if !more.map_err(engine)? {
                self.next = Next::End;
                return Ok(());
            }
            if stamp_of(self.cursor.key()) != self.stamp {
                self.next = Next::Here;
                return Ok(());
            }
        }
    }

    /// Reads the document at whose first entry (in the reader's direction) the cursor stands. Returns false if it was
    /// removed meanwhile, so that entries may be missing.
    fn read(&mut self) -> Result<bool> {
        let before = std::mem::replace(&mut self.stamp, stamp_of(self.cursor.key()));
        memory::renew(&mut self.entries);
        self.ends.clear();
        match Entry::parse(self.cursor.value())?.in_transaction {
            true => self.read_entries()?,
            false => self.next = Next::Behind,
        }
        // Entries that were removed meanwhile may have been passed over.
        let first = first_of(&self.shown);
        if self.passes_over && self.forward && first > self.stamp {
            return Ok(false);
        }
        let lost = first > self.stamp || before > 0 && first > before + 1;
        if self.forward && lost && !self.passes_over {
            bail!(
                Code::CAPPED_POSITION_LOST,
                "entries of the oplog were removed before they were read; last seen: {}",
                CommitStamp(before)
            );
        }
        self.is_continued = match self.forward {
            true => matches!(self.next, Next::Here) && self.continues_at(self.stamp + 1)?,
            false => {
                let continues = self.entry(0)?.continues;
                std::mem::replace(&mut self.continued, continues)
            }
        };
        Ok(true)
    }

    /// Bytes of the entries of the current document, as the counters have them.
    pub(crate) fn entry_bytes(&self) -> i64 {
        match self.ends.is_empty() {
            true => self.cursor.value().len() as i64,
            false => self.entries.len() as i64,
        }
    }

    fn entry(&self, at: usize) -> Result<Entry<'_>> {
        if self.ends.is_empty() {
            return Entry::parse(self.cursor.value());
        }
        // A backward reader met the last entry first.
        let at = if self.forward { at } else { self.ends.len() - 1 - at };
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        Entry::parse(&self.entries[start..self.ends[at]])
    }

    /// True if the next document continues the transaction of the current one; for a forward reader.
    pub(crate) fn is_continued(&self) -> bool {
        self.is_continued
    }

    /// The document before the change of an entry of the current document.
    pub(crate) fn pre_image(&self, at: usize) -> Result<Option<Doc<'_>>> {
        Ok(self.entry(at)?.pre_image)
    }

    /// Number of entries of the current document.
    pub(super) fn op_count(&self) -> usize {
        self.ends.len().max(1)
    }

    /// The same, with what the collection of pre-images shows beside it.
    pub(super) fn shown_image(&self, at: usize) -> Result<Option<ShownImage<'_>>> {
        let Entry { doc, pre_image, .. } = self.entry(at)?;
        // The time that the document of a transaction has.
        let wall_ms = self.entry(0)?.wall_ms;
        Ok(pre_image.map(|image| ShownImage { uuid: doc.get("ui"), wall_ms, image }))
    }

    /// The stamp of the first document of the transaction that has one at `stamp`; else `stamp`.
    pub(crate) fn first_of_transaction(read: &dyn Read, stamp: u64) -> Result<u64> {
        let mut cursor = read.cursor(Space::Changes, &[0], &[]).map_err(engine)?;
        let mut first = stamp;
        while cursor.seek(&first.to_be_bytes()).map_err(engine)?
            && stamp_of(cursor.key()) == first
            && Entry::parse(cursor.value())?.continues
        {
            first -= 1;
        }
        Ok(first)
    }

    /// The stamp of the last document of the transaction that has one at `stamp`; else `stamp`.
    pub(crate) fn last_of_transaction(read: &dyn Read, stamp: u64) -> Result<u64> {
        let mut cursor = read.cursor(Space::Changes, &[0], &[]).map_err(engine)?;
        let mut last = stamp;
        while cursor.seek(&(last + 1).to_be_bytes()).map_err(engine)?
            && stamp_of(cursor.key()) == last + 1
            && Entry::parse(cursor.value())?.continues
        {
            last += 1;
        }
        Ok(last)
    }

    /// Writes the document of the entries that were read.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let bytes = self.entry_bytes() as usize;
        if bytes > LARGE_BYTES {
            // Otherwise the buffer would grow by doubling.
            memory::wait(bytes.saturating_sub(out.capacity()), "a document of the oplog")?;
            out.reserve_exact(bytes + FIELDS_BYTES);
        }
        let first = self.entry(0)?;
        let mut doc = DocWriter::new(out);
        match first.transaction() {
            Some((session, number)) => {
                doc.put("lsid", session);
                doc.put("txnNumber", number);
                doc.put("op", "c");
                doc.put("ns", "admin.$cmd");
                doc.doc("o", |doc| {
                    doc.array("applyOps", |ops| {
                        (0..self.ends.len()).try_for_each(|at| {
                            let entry = self.entry(at)?;
                            ops.doc(|op| {
                                let own =
                                    |name: &str| !matches!(name, "lsid" | "txnNumber" | OPS_BEFORE);
                                let fields = entry.doc.iter().filter(|field| own(field.name()));
                                fields.for_each(|field| op.put_element(field));
                            });
                            Ok::<(), nagi_error::Error>(())
                        })
                    })?;
                    match first.doc.get(OPS_BEFORE) {
                        _ if self.is_continued => doc.put("partialTxn", true),
                        Value::Int64(before) => doc.put("count", before + self.ends.len() as i64),
                        _ => {}
                    }
                    Ok::<(), nagi_error::Error>(())
                })?;
            }
            None => {
                // It comes last.
                let own = first.doc.iter().filter(|field| field.name() != OP_TIME_BEFORE);
                own.for_each(|field| doc.put_element(field));
            }
        }
        doc.put("ts", Value::Timestamp(self.stamp));
        doc.put("t", first.term);
        doc.put("v", 2_i64);
        doc.put("wall", Value::DateTime(first.wall_ms));
        if first.doc.element("txnNumber").is_some() {
            match first.doc.element(OP_TIME_BEFORE) {
                _ if first.continues || first.follows => {
                    put_op_time((self.stamp - 1, first.term), &mut doc);
                }
                Some(before) => doc.put_element(before),
                None => put_op_time((0, -1), &mut doc),
            }
        }
        doc.finish();
        Ok(())
    }
}

//! Reads the log as documents, forward or backward: one for each stamp.

use nagi_bson::{Doc, DocWriter, Value};
use nagi_error::{Code, Result, bail};
use nagi_kv::{Cursor, Read, Space};

use super::{CONTINUES, FORMAT, HEAD_BYTES, IN_TRANSACTION};
use crate::engine_error::engine;

/// Where a cursor goes next.
enum Next {
    First,
    /// The cursor stands at the first entry that was not read.
    Here,
    /// The same, but there is none.
    End,
    /// To the first document after this stamp in the reader's direction.
    Beyond(u64),
}

/// A cursor over the documents of the log.
pub(crate) struct LogReader {
    cursor: Box<dyn Cursor>,
    /// The least key.
    first: [u8; 8],
    forward: bool,
    next: Next,
    /// The stamp of the current document.
    pub(crate) stamp: u64,
    /// The entries of the current document one after the other, and the end of each.
    entries: Vec<u8>,
    ends: Vec<usize>,
    /// For a backward reader: the document behind the next one continues its transaction.
    continued: bool,
}

/// An entry of the engine.
struct Entry<'e> {
    in_transaction: bool,
    continues: bool,
    term: i64,
    wall_ms: i64,
    doc: Doc<'e>,
}

impl<'e> Entry<'e> {
    fn parse(value: &'e [u8]) -> Result<Entry<'e>> {
        let Some((head, doc)) = value.split_first_chunk::<HEAD_BYTES>() else {
            bail!(Code::INTERNAL_ERROR, "an entry of the oplog is too short");
        };
        if head[0] != FORMAT {
            bail!(Code::INTERNAL_ERROR, "an entry of the oplog has the unknown format {}", head[0]);
        }
        let number = |at: usize| {
            let bytes = head[at..].first_chunk().copied().unwrap_or_default();
            i64::from_le_bytes(bytes)
        };
        Ok(Entry {
            in_transaction: head[1] & IN_TRANSACTION != 0,
            continues: head[1] & CONTINUES != 0,
            term: number(2),
            wall_ms: number(10),
            doc: Doc::trusted(doc),
        })
    }

    /// The transaction that the entry belongs to: its `lsid` and `txnNumber`.
    fn transaction(&self) -> Option<(Value<'e>, Value<'e>)> {
        self.in_transaction.then(|| (self.doc.get("lsid"), self.doc.get("txnNumber")))
    }
}

fn stamp_of(key: &[u8]) -> u64 {
    key.first_chunk().map_or(0, |stamp| u64::from_be_bytes(*stamp))
}

/// Greater than every key.
const END: [u8; 13] = [0xFF; 13];

impl LogReader {
    /// `first`: all entries before this stamp were removed.
    pub(crate) fn open(read: &dyn Read, forward: bool, first: u64) -> Result<LogReader> {
        let first = first.to_be_bytes();
        let cursor = read.cursor(Space::Changes, &first, &[]).map_err(engine)?;
        let (entries, ends) = (Vec::new(), Vec::new());
        let (next, stamp, continued) = (Next::First, 0, false);
        Ok(LogReader { cursor, first, forward, next, stamp, entries, ends, continued })
    }

    /// Makes the next `advance` move to the first document.
    pub(crate) fn begin_again(&mut self) {
        self.next = Next::First;
    }

    /// Makes the next `advance` move beyond this stamp in the reader's direction.
    pub(crate) fn resume_after(&mut self, stamp: u64) {
        self.next = Next::Beyond(stamp);
    }

    /// Moves to the next document, which is written to `out`. Returns false at the end.
    pub(crate) fn advance(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let found = match (std::mem::replace(&mut self.next, Next::Here), self.forward) {
            (Next::End, _) => false,
            (Next::Here, _) => return self.read(out),
            (Next::First, true) => self.cursor.seek(&self.first).map_err(engine)?,
            (Next::First, false) => self.cursor.seek_back(&END).map_err(engine)?,
            (Next::Beyond(stamp), true) => {
                let after = stamp.saturating_add(1).to_be_bytes().max(self.first);
                self.cursor.seek(&after).map_err(engine)?
            }
            (Next::Beyond(stamp), false) => {
                let at = stamp.to_be_bytes().max(self.first);
                self.continued = self.cursor.seek(&at).map_err(engine)? && self.begins_at(stamp)?;
                self.cursor.seek_back(&at).map_err(engine)?
            }
        };
        if !found {
            self.next = Next::End;
            return Ok(false);
        }
        self.read(out)
    }

    /// True if the cursor stands at an entry of this stamp that continues the transaction of the stamp before.
    fn begins_at(&self, stamp: u64) -> Result<bool> {
        let entry = Entry::parse(self.cursor.value())?;
        Ok(stamp_of(self.cursor.key()) == stamp && entry.continues)
    }

    /// Reads the document at whose first entry (in the reader's direction) the cursor stands.
    fn read(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        self.stamp = stamp_of(self.cursor.key());
        self.entries.clear();
        self.ends.clear();
        loop {
            self.entries.extend_from_slice(self.cursor.value());
            self.ends.push(self.entries.len());
            let more = match self.forward {
                true => self.cursor.next(),
                false => self.cursor.prev(),
            };
            if !more.map_err(engine)? {
                self.next = Next::End;
                break;
            }
            if stamp_of(self.cursor.key()) != self.stamp {
                self.next = Next::Here;
                break;
            }
        }
        let is_continued = match self.forward {
            true => matches!(self.next, Next::Here) && self.begins_at(self.stamp + 1)?,
            false => {
                let continues = self.entry(0)?.continues;
                std::mem::replace(&mut self.continued, continues)
            }
        };
        self.write(is_continued, out)?;
        Ok(true)
    }

    /// Bytes of the entries of the current document, as the counters have them.
    pub(crate) fn entry_bytes(&self) -> i64 {
        self.entries.len() as i64
    }

    fn entry(&self, at: usize) -> Result<Entry<'_>> {
        // A backward reader met the last entry first.
        let at = if self.forward { at } else { self.ends.len() - 1 - at };
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        Entry::parse(&self.entries[start..self.ends[at]])
    }

    /// Writes the document of the entries that were read. `is_continued`: by the next document.
    fn write(&self, is_continued: bool, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
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
                                let own = |name: &str| !matches!(name, "lsid" | "txnNumber");
                                let fields = entry.doc.iter().filter(|field| own(field.name()));
                                fields.for_each(|field| op.put_element(field));
                            });
                            Ok::<(), nagi_error::Error>(())
                        })
                    })?;
                    if is_continued {
                        doc.put("partialTxn", true);
                    }
                    Ok::<(), nagi_error::Error>(())
                })?;
            }
            None => doc.extend(first.doc),
        }
        doc.put("ts", Value::Timestamp(self.stamp));
        doc.put("t", first.term);
        doc.put("v", 2_i64);
        doc.put("wall", Value::DateTime(first.wall_ms));
        if first.doc.element("txnNumber").is_some() {
            let (before, term) =
                if first.continues { (self.stamp - 1, first.term) } else { (0, -1) };
            doc.doc("prevOpTime", |doc| {
                doc.put("ts", Value::Timestamp(before));
                doc.put("t", term);
            });
        }
        doc.finish();
        Ok(())
    }
}

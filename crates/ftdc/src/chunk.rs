//! Writing: samples are added to a chunk, a chunk becomes a record of the file.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use nagi_bson::{Binary, Doc, DocBuf, Value};

use crate::metrics::{extract, same_fields};
use crate::{CHANGES_MAX, VALUES_MAX, varint};

/// `type` of a record with facts that rarely change: versions, options, the host.
const METADATA: i32 = 0;
/// `type` of a record with samples.
const METRICS: i32 = 1;

/// What happened to a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is in the chunk.
    Added,
    /// It is in the chunk, which is full: write its record, and clear it.
    Full,
    /// It is not in the chunk, because its fields differ or the chunk was full before: write the record, clear the
    /// chunk, and add the sample again.
    Refused,
}

/// Some minutes of samples.
#[derive(Default)]
pub struct Chunk {
    /// Time of the first sample, ms since 1970.
    begin_ms: i64,
    reference: DocBuf,
    /// The numbers of the last sample, and room for those of the next one.
    last: Vec<u64>,
    next: Vec<u64>,
    /// The differences that are not zero: column, row, difference. Most numbers of a server rest.
    changes: Vec<(u32, u32, u64)>,
    samples: usize,
    full: bool,
}

impl Chunk {
    /// Adds a sample of the time `now_ms`; the chunk is full with `samples_max` of them, or earlier if it would become
    /// too large. Costs a walk over the sample's fields; keeps 16 bytes for each number that differs from the last one.
    pub fn add(&mut self, now_ms: i64, sample: Doc<'_>, samples_max: usize) -> Added {
        if self.full {
            return Added::Refused;
        }
        if self.samples == 0 {
            self.begin_ms = now_ms;
            self.reference = sample.to_buf();
            self.last.clear();
            extract(sample, &mut self.last);
        } else if same_fields(self.reference.as_doc(), sample) {
            self.next.clear();
            extract(sample, &mut self.next);
            let row = self.samples as u32 - 1;
            let columns = (0u32..).zip(self.next.iter().zip(&self.last));
            let changed = columns.filter(|(_, (next, last))| next != last);
            self.changes.extend(
                changed.map(|(column, (next, last))| (column, row, next.wrapping_sub(*last))),
            );
            std::mem::swap(&mut self.next, &mut self.last);
        } else {
            return Added::Refused;
        }
        self.samples += 1;
        let columns = self.last.len();
        self.full = self.samples >= samples_max
            || self.changes.len() + columns > CHANGES_MAX
            || columns * (self.samples + 1) > VALUES_MAX;
        if self.full { Added::Full } else { Added::Added }
    }

    /// Samples in the chunk.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// Removes all samples; buffers are reused.
    pub fn clear(&mut self) {
        self.samples = 0;
        self.full = false;
        self.changes.clear();
    }

    /// The chunk as a record of a file: a BSON document. None without samples.
    pub fn record(&self) -> Option<DocBuf> {
        if self.samples == 0 {
            return None;
        }
        let data = self.compressed().ok()?;
        Some(DocBuf::build(|out| {
            out.put("_id", Value::DateTime(self.begin_ms));
            out.put("type", METRICS);
            out.put("data", Value::Binary(Binary { subtype: 0, bytes: &data }));
        }))
    }

    /// Length before compression (4), then the zlib stream. Writing to memory does not fail.
    fn compressed(&self) -> io::Result<Vec<u8>> {
        let content = self.content();
        let length = u32::try_from(content.len()).map_err(io::Error::other)?;
        let mut packed = Vec::with_capacity(content.len() / 4 + 64);
        packed.extend(length.to_le_bytes());
        let mut stream = ZlibEncoder::new(packed, Compression::default());
        stream.write_all(&content)?;
        stream.finish()
    }

    /// The reference, the counts of columns and of further samples, and the differences column by column, in which a
    /// run of zeroes, also across columns, is a zero and the number of those that follow it.
    fn content(&self) -> Vec<u8> {
        let columns = self.last.len() as u64;
        let rows = self.samples as u64 - 1;
        let mut out = self.reference.as_bytes().to_vec();
        out.extend((columns as u32).to_le_bytes());
        out.extend((rows as u32).to_le_bytes());
        let mut changes = self.changes.clone();
        changes.sort_unstable();
        let mut at = 0;
        for (column, row, delta) in changes {
            let place = u64::from(column) * rows + u64::from(row);
            put_zeroes(&mut out, place - at);
            varint::put(&mut out, delta);
            at = place + 1;
        }
        put_zeroes(&mut out, columns * rows - at);
        out
    }
}

fn put_zeroes(out: &mut Vec<u8>, count: u64) {
    if count > 0 {
        varint::put(out, 0);
        varint::put(out, count - 1);
    }
}

/// A record with facts that rarely change; each file begins with one.
pub fn metadata_record(now_ms: i64, facts: Doc<'_>) -> DocBuf {
    DocBuf::build(|out| {
        out.put("_id", Value::DateTime(now_ms));
        out.put("type", METADATA);
        out.put("doc", facts);
    })
}

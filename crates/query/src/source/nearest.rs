//! Yields the nearest documents first without sorting all of them: it searches rings around the centre, one after
//! another.
//!
//!   ring 0: [0, w)   ring 1: [w, w + w')   ...      each is an index scan and a small heap
//!
//! The scan of a ring finds every document whose nearest location may lie in it. Documents nearer than the ring's
//! outer radius are returned in order; farther ones wait in the heap for their ring. After a ring with few
//! documents the next one is wider, after one with many it is narrower. Only distances and record ids are kept, so
//! a document is read once to be measured and once to be returned.

use std::{cmp::Ordering, collections::BinaryHeap, sync::Arc};

use bumpalo::Bump;
use nagi_bson::{Doc, DocWriter, Value};
use nagi_error::{Code, Result, bail};
use nagi_lang::{
    expr::{Eval, Metadata},
    geo::Near,
    path::{self, FieldPath},
};
use nagi_store::{RecordBuf, RecordId, RecordKey};

use super::{Cx, IndexScan, Seen, Source, SourceStats, renew};
use crate::{
    access::{GeoNearAccess, IndexAccess, Shown},
    limits::SORT_MEMORY_BYTES_MAX,
};

/// With fewer documents in a ring the next one is wider; with more than `MANY` it is narrower.
const FEW: usize = 300;
const MANY: usize = 1200;

/// A document that was measured and not yet returned. The greatest one is the nearest.
struct Waiting {
    distance: f64,
    id: RecordId,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> Ordering {
        other.distance.total_cmp(&self.distance).then_with(|| other.id.cmp(&self.id))
    }
}

/// Yields documents by distance.
pub(crate) struct Nearest {
    access: Arc<GeoNearAccess>,
    waiting: BinaryHeap<Waiting>,
    seen: Seen,
    /// Everything nearer than this has been found.
    searched: f64,
    width: f64,
    done: bool,
    /// True if the snapshot differs from the one in which documents were measured.
    stale: bool,
    id: Option<RecordId>,
    doc: Vec<u8>,
    /// Metadata of `doc`, if it is used.
    meta: Vec<u8>,
    buf: RecordBuf,
    arena: Bump,
    stats: SourceStats,
}

/// The distance of a document's values at a path, and the nearest value.
fn nearest_value<'d>(doc: Doc<'d>, path: &FieldPath, near: &Near) -> Option<(f64, Value<'d>)> {
    let mut best: Option<(f64, Value<'d>)> = None;
    path::for_each_value(doc, path, &mut |value| {
        if let Value::Doc(_) | Value::Array(_) = value
            && let Some(distance) = near.distance(value)
            && best.is_none_or(|(least, _)| distance < least)
        {
            best = Some((distance, value));
        }
    });
    best
}

/// The `$meta` values of a document found by nearness.
pub(crate) fn geo_metadata<'a>(
    doc: Doc<'_>,
    path: &FieldPath,
    near: &Near,
    arena: &'a Bump,
) -> Metadata<'a> {
    let mut meta = Metadata::default();
    let Some((distance, value)) = nearest_value(doc, path, near) else { return meta };
    meta.geo_distance = Some(distance);
    meta.geo_point = match value {
        Value::Doc(doc) => Some(Value::Doc(Doc::trusted(arena.alloc_slice_copy(doc.as_bytes())))),
        Value::Array(array) => {
            let bytes = arena.alloc_slice_copy(array.as_bytes());
            Some(Value::Array(nagi_bson::Array::trusted(bytes)))
        }
        _ => None,
    };
    meta
}

impl Nearest {
    pub(crate) fn new(access: &Arc<GeoNearAccess>) -> Nearest {
        Nearest {
            waiting: BinaryHeap::new(),
            seen: Seen::default(),
            searched: access.near.min,
            width: access.first_width(),
            done: access.near.min > access.reach(),
            stale: false,
            id: None,
            doc: Vec::new(),
            meta: Vec::new(),
            buf: RecordBuf::default(),
            arena: Bump::new(),
            stats: SourceStats::default(),
            access: access.clone(),
        }
    }

    /// Reads a record into `doc`. Returns false if it does not exist or does not match the rest of the filter.
    fn read(&mut self, id: RecordKey<'_>, matching: bool, cx: &Cx<'_>) -> Result<bool> {
        let Some(doc) = cx.reader.record(&self.access.collection, id, &mut self.buf)? else {
            return Ok(false);
        };
        if matching && let Some(filter) = &self.access.filter {
            let matched = filter.matches(doc, &cx.matching(&self.arena))?;
            renew(&mut self.arena);
            if !matched {
                return Ok(false);
            }
        }
        self.doc.clear();
        self.doc.extend_from_slice(doc.as_bytes());
        Ok(true)
    }

    /// Searches the next ring.
    fn next_ring(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let access = self.access.clone();
        let reach = access.reach();
        let outer = (self.searched + self.width).min(reach);
        let ring = IndexAccess {
            index: access.index.clone(),
            bounds: access.ring(self.searched, outer),
            forward: true,
            dedup: false,
            distinct: None,
            filter: None,
            range: None,
        };
        let mut scan = IndexScan::new(&Arc::new(ring));
        let mut found = 0;
        while scan.advance(cx)? {
            let Some(id) = scan.record_id() else { continue };
            if !self.seen.insert(id) {
                continue;
            }
            self.stats.docs_examined += 1;
            cx.examined_doc();
            if !self.read(id, true, cx)? {
                continue;
            }
            let measured = nearest_value(Doc::trusted(&self.doc), &access.path, &access.near);
            let Some((distance, _)) = measured else { continue };
            if access.near.accepts(distance) {
                self.waiting.push(Waiting { distance, id: id.to_id() });
                found += 1;
            }
            let bytes = self.seen.bytes() + self.waiting.len() * size_of::<Waiting>();
            self.stats.bytes_held = self.stats.bytes_held.max(bytes as u64);
            if bytes > SORT_MEMORY_BYTES_MAX {
                bail!(
                    Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                    "$geoNear exceeded the memory limit of {SORT_MEMORY_BYTES_MAX} bytes"
                );
            }
        }
        let stats = scan.stats();
        self.stats.keys_examined += stats.keys_examined;
        self.stats.seeks += stats.seeks;
        self.width *= match found {
            0 => 4.0,
            few if few < FEW => 2.0,
            many if many > MANY => 0.5,
            _ => 1.0,
        };
        self.done = outer >= reach;
        // Far from the origin of coordinates, a small step may be lost in rounding.
        if outer <= self.searched {
            self.width = self.width.max(reach);
        }
        self.searched = outer;
        Ok(())
    }

    /// Adds the fields and the metadata for distance and location.
    fn show(&mut self, cx: &Cx<'_>) -> Result<()> {
        let access = self.access.clone();
        let shown = access.shown.as_deref().and_then(|Shown(fields)| fields.as_ref());
        if shown.is_none() && access.metas.is_empty() {
            return Ok(());
        }
        let doc = Doc::trusted(&self.doc);
        let meta = self.arena.alloc(geo_metadata(doc, &access.path, &access.near, &self.arena));
        self.meta.clear();
        if !access.metas.is_empty() {
            meta.write(access.metas, &mut DocWriter::new(&mut self.meta));
        }
        if let Some(fields) = shown {
            let mut out = Vec::with_capacity(self.doc.len() + 32);
            let mut eval: Eval<'_> = cx.eval(doc, &self.arena);
            eval.meta = Some(meta);
            fields.apply(&eval, &mut DocWriter::new(&mut out))?;
            self.doc = out;
        }
        renew(&mut self.arena);
        Ok(())
    }
}

impl Source for Nearest {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        loop {
            let ready = |next: &Waiting| self.done || next.distance < self.searched;
            if self.waiting.peek().is_some_and(ready) {
                let Some(Waiting { id, .. }) = self.waiting.pop() else { return Ok(false) };
                cx.tick()?;
                if !self.read(id.key(), self.stale, cx)? {
                    continue;
                }
                self.show(cx)?;
                self.id = Some(id);
                return Ok(true);
            }
            if self.done {
                return Ok(false);
            }
            self.next_ring(cx)?;
        }
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.doc)
    }

    fn meta(&self) -> Doc<'_> {
        Doc::trusted(&self.meta)
    }

    fn record_id(&self) -> Option<RecordKey<'_>> {
        self.id.as_ref().filter(|_| self.access.shown.is_none()).map(RecordId::key)
    }

    fn is_at_end(&self) -> bool {
        self.done && self.waiting.is_empty()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }

    fn restore(&mut self, _: &mut Cx<'_>) -> Result<()> {
        self.stale = true;
        Ok(())
    }

    fn stats(&self) -> SourceStats {
        self.stats
    }
}

//! The earliest or the latest measurement of each bucket, without unpacking the others: what the rewriting of a
//! pipeline makes of `$_internalUnpackBucket` if later stages want the first one by time of all that have the same
//! metadata.
//!
//! ```text
//!   [{$_internalUnpackBucket: ..}, {$sort: {m: 1, t: -1}}, {$group: {_id: "$m", v: {$first: "$v"}}}]
//! ```

use std::sync::Arc;

use nagi_timeseries::bucket::Columns;

use super::{
    prelude::*,
    unpack_columns::{ByColumns, Times},
};
use crate::source::{Absorbed, splits_with_input};

/// Which measurement of a bucket is wanted.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    /// That with the latest time, not the earliest.
    pub(crate) latest: bool,
    /// Of several with the same time the last one.
    pub(crate) last: bool,
}

pub(super) struct UnpackEnds {
    pub(super) by: Arc<ByColumns>,
    pub(super) ends: Ends,
    /// The stages that it makes unnecessary, for explain.
    pub(super) replaced: Box<[Arc<dyn Stage>]>,
}

struct Running {
    input: Box<dyn Source>,
    by: Arc<ByColumns>,
    ends: Ends,
    found: Vec<u8>,
}

impl Stage for UnpackEnds {
    fn replaces(&self) -> &[Arc<dyn Stage>] {
        &self.replaced
    }

    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running { input, by: self.by.clone(), ends: self.ends, found: Vec::new() })
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        self.replaced.iter().for_each(|stage| stage.explain(out));
        out.put("only", if self.ends.latest { "latest" } else { "earliest" });
    }
}

impl Running {
    /// The same over another input; only before the first document.
    fn over(&self, input: Box<dyn Source>) -> Running {
        Running { input, by: self.by.clone(), ends: self.ends, found: Vec::new() }
    }

    /// Reads the wanted measurement of the current bucket into `found`; false if it has none.
    fn take(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        let Running { input, by, ends, found } = self;
        let bucket = input.doc();
        found.clear();
        let better = |time: i64, than: Option<i64>| match than {
            Some(best) if time == best => ends.last,
            Some(best) if ends.latest => time > best,
            Some(best) => time < best,
            None => true,
        };
        let columns = Columns::of(bucket).filter(|columns| by.is_readable(columns));
        if let Some(mut columns) = columns {
            let mut times = Times::new(by, &columns);
            let mut best: Option<(usize, i64)> = None;
            while times.advance(&mut columns, cx)? {
                for (at, time) in times.block.iter().enumerate() {
                    if times.wanted[at] && better(*time, best.map(|(_, time)| time)) {
                        best = Some((times.before + at, *time));
                    }
                }
            }
            if !times.odd {
                let Some((row, time)) = best else { return Ok(false) };
                by.measurement(bucket, (row, time), found, cx)?;
                return Ok(true);
            }
        }
        let mut best = None;
        by.unpack(bucket, 0, cx, &mut |doc, _| {
            // Values that are no dates come before all dates.
            let time = match doc.get(by.time_field()) {
                Value::DateTime(time) => time,
                _ => i64::MIN,
            };
            if better(time, best) {
                best = Some(time);
                found.clear();
                found.extend_from_slice(doc.as_bytes());
            }
            Ok(())
        })?;
        Ok(best.is_some())
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        while self.input.advance(cx)? {
            if self.take(cx)? {
                return Ok(true);
            }
        }
        self.found.clear();
        Ok(false)
    }

    fn absorb(&mut self, cx: &mut Cx<'_>) -> Result<Absorbed> {
        self.input.absorb(cx)
    }

    splits_with_input!();

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.found)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }
}

//! Counters around sources, for explain; and a source that only passes on its input.

use std::time::Instant;

use nagi_bson::{Doc, DocWriter};
use nagi_error::Result;
use nagi_store::{RecordId, RecordKey};

use super::{Cx, Source, SourceStats};

/// Counts the results of a source. Its inputs are the source's own, so that explain can walk the plan and the
/// opened sources side by side.
pub(crate) struct Counted {
    source: Box<dyn Source>,
    works: u64,
    advanced: u64,
    at_end: bool,
    /// True if time is measured.
    timed: bool,
    nanos: u64,
}

impl Counted {
    /// `timed` costs two reads of the clock per call, so it is used only by explain.
    pub(crate) fn new(source: Box<dyn Source>, timed: bool) -> Counted {
        Counted { source, works: 0, advanced: 0, at_end: false, timed, nanos: 0 }
    }
}

impl Source for Counted {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        self.works += 1;
        let begin = self.timed.then(Instant::now);
        let more = self.source.advance(cx);
        self.nanos += begin.map_or(0, |begin| begin.elapsed().as_nanos() as u64);
        let more = more?;
        self.advanced += u64::from(more);
        self.at_end = !more;
        Ok(more)
    }

    fn doc(&self) -> Doc<'_> {
        self.source.doc()
    }

    fn record_id(&self) -> Option<RecordKey<'_>> {
        self.source.record_id()
    }

    fn meta(&self) -> Doc<'_> {
        self.source.meta()
    }

    fn key(&self) -> Option<(&[u8], &[u8])> {
        self.source.key()
    }

    fn ahead(&mut self, cx: &mut Cx<'_>, count: usize, out: &mut Vec<RecordId>) -> Result<()> {
        self.source.ahead(cx, count, out)
    }

    fn is_at_end(&self) -> bool {
        self.source.is_at_end()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        self.source.inputs()
    }

    fn pass_to(&mut self, id: RecordKey<'_>) {
        self.source.pass_to(id);
    }

    fn save(&mut self) {
        self.source.save();
    }

    fn restore(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        self.source.restore(cx)
    }

    fn doubt_keys(&mut self, noted: u64, checked: bool) -> Result<bool> {
        self.source.doubt_keys(noted, checked)
    }

    fn stats(&self) -> SourceStats {
        let stats = self.source.stats();
        let examined = stats.keys_examined.max(stats.docs_examined);
        SourceStats {
            works: self.works.max(examined + u64::from(self.at_end)),
            advanced: self.advanced,
            at_end: self.at_end,
            nanos: self.nanos,
            ..stats
        }
    }

    fn show_run(&self, out: &mut DocWriter<'_>) {
        self.source.show_run(out);
    }
}

/// A counted stage of a pipeline, with its position in the pipeline.
pub(crate) struct Staged {
    counted: Counted,
    at: usize,
}

impl Staged {
    pub(crate) fn boxed(source: Box<dyn Source>, at: usize) -> Box<dyn Source> {
        Box::new(Staged { counted: Counted::new(source, true), at })
    }
}

impl Source for Staged {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        self.counted.advance(cx)
    }

    fn doc(&self) -> Doc<'_> {
        self.counted.doc()
    }

    fn meta(&self) -> Doc<'_> {
        self.counted.meta()
    }

    fn record_id(&self) -> Option<RecordKey<'_>> {
        self.counted.record_id()
    }

    fn is_at_end(&self) -> bool {
        self.counted.is_at_end()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        self.counted.inputs()
    }

    fn doubt_keys(&mut self, noted: u64, checked: bool) -> Result<bool> {
        self.counted.doubt_keys(noted, checked)
    }

    fn stats(&self) -> SourceStats {
        self.counted.stats()
    }

    fn show_run(&self, out: &mut DocWriter<'_>) {
        self.counted.show_run(out);
    }

    fn stage_at(&self) -> Option<usize> {
        Some(self.at)
    }
}

/// Passes everything on: a node that explain shows and that does nothing.
pub(crate) struct Pass {
    input: Box<dyn Source>,
}

impl Pass {
    pub(crate) fn new(input: Box<dyn Source>) -> Pass {
        Pass { input }
    }
}

impl Source for Pass {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        self.input.advance(cx)
    }

    fn doc(&self) -> Doc<'_> {
        self.input.doc()
    }

    over_input!();
}

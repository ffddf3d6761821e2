//! `$facet`: several pipelines over the same input. Yields one document with an array for each pipeline.
//!
//! ```text
//!   input -> portion -> [pipeline a]  [pipeline b]      each reads the portion at once (`branches`)
//!               \----> kept input -> [pipeline c]      after the last portion (`kept`)
//! ```
//!
//! The input is read once, and a document is copied once, into a portion that all pipelines read while it is in the
//! processor's cache. A pipeline that cannot stop in the middle of its input (for example a `$lookup` of each
//! document) gets all of it at the end; only for such pipelines the input is kept, in memory or on disk.
//!
//! If all pipelines gather (`$group`, `$count`, `$sort`), two threads read the input and feed gatherers of their own,
//! which are joined at the end ([`crate::source::drain`]).

mod branches;
mod kept;

use std::sync::Arc;

use self::{
    branches::{Branch, Feed, check_output, split},
    kept::{Kept, Limits},
};
use super::{Pipeline, Within, prelude::*};
use crate::source::{SourceStats, drain};

pub(super) static FACET: StageSpec = StageSpec {
    name: "$facet",
    shape: How::Pipelines,
    place: Place::NotInFacet,
    parse,
    ..StageSpec::ROW
};

struct Facet {
    pipelines: Arc<[(Box<str>, Pipeline)]>,
    limits: Limits,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let Some(doc) = spec.as_doc().filter(|doc| !doc.is_empty()) else {
        bail!(
            Code::Location(40169),
            "the $facet specification must be a non-empty object, but found: $facet: {spec}"
        );
    };
    let mut pipelines = Vec::new();
    for element in doc {
        let name = element.name();
        nagi_lang::expr::check_field_name(name)?;
        let Value::Array(stages) = element.value() else {
            bail!(
                Code::Location(40170),
                "arguments to $facet must be arrays, {name} is type {}",
                element.kind().name()
            );
        };
        for (at, stage) in stages.iter().enumerate() {
            if stage.as_doc().is_none_or(|stage| stage.is_empty()) {
                bail!(
                    Code::Location(40171),
                    "elements of arrays in $facet spec must be non-empty objects, {name} argument \
                     contained an element of type {}: {at}: {stage}",
                    stage.kind().name()
                );
            }
        }
        if stages.is_empty() {
            bail!(Code::BAD_VALUE, "sub-pipeline in $facet stage cannot be empty");
        }
        let mut inner = PipelineCx {
            depth: cx.depth + 1,
            within: Within::Facet,
            given: None,
            ..PipelineCx { ..*cx }
        };
        pipelines.push((name.into(), Pipeline::parse(stages, &mut inner)?));
    }
    Ok(Box::new(Facet {
        pipelines: pipelines.into(),
        limits: Limits {
            memory_bytes_max: cx.options.memory.facet,
            allow_disk_use: cx.options.allow_disk_use,
        },
    }))
}

impl Stage for Facet {
    fn touches(&self, out: &mut Vec<super::Touch>) {
        let stages = self.pipelines.iter().flat_map(|(_, pipeline)| &pipeline.stages);
        stages.for_each(|stage| stage.touches(out));
    }

    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running {
            inputs: vec![input],
            pipelines: self.pipelines.clone(),
            limits: self.limits,
            stats: SourceStats::default(),
            out: Vec::new(),
            done: false,
        })
    }

    fn keeps_meta(&self) -> bool {
        false
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.doc("$facet", |out| {
            for (name, pipeline) in &*self.pipelines {
                out.array(name, |out| {
                    // The input, which is read once for all pipelines.
                    out.doc(|out| out.doc("$internalFacetTeeConsumer", |_| {}));
                    pipeline.stages.iter().for_each(|stage| out.doc(|out| stage.explain(out)));
                });
            }
        });
    }
}

struct Running {
    /// The input, and the source of its later part if it was split.
    inputs: Vec<Box<dyn Source>>,
    pipelines: Arc<[(Box<str>, Pipeline)]>,
    limits: Limits,
    stats: SourceStats,
    out: Vec<u8>,
    done: bool,
}

impl Running {
    /// Reads the input. Returns the branches, and the input for those that could not be fed.
    fn read(&mut self, cx: &mut Cx<'_>) -> Result<(Vec<Branch>, Option<Kept>)> {
        let pipelines = self.pipelines.iter();
        let branches = pipelines.map(|(_, pipeline)| Branch::open(pipeline, cx));
        let mut feed = Feed::new(branches.collect::<Result<_>>()?);
        let input = &mut *self.inputs[0];
        if feed.must_be_kept() {
            let kept = Kept::read(input, &mut feed, self.limits, cx)?;
            return Ok((feed.branches, Some(kept)));
        }
        let helper = drain(input, &mut feed, cx)?;
        self.inputs.extend(helper);
        feed.hand_out(cx)?;
        Ok((feed.branches, None))
    }

    /// Writes the results of all pipelines.
    fn run(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let (branches, kept) = self.read(cx)?;
        self.stats = kept.as_ref().map_or(self.stats, Kept::stats);
        self.out.clear();
        let mut out = DocWriter::new(&mut self.out);
        for ((name, pipeline), branch) in self.pipelines.iter().zip(branches) {
            let (done, mut source) = branch.finish();
            if let Some(kept) = &kept
                && source.is_none()
            {
                source = Some(pipeline.open(0, kept.open()?));
            }
            let full = out.len();
            out.array(name, |array| {
                let mut rest = &done[..];
                while let Some((doc, after)) = split(rest) {
                    cx.writing(full + array.len() + doc.len())?;
                    array.push_doc(doc);
                    rest = after;
                }
                let Some(source) = &mut source else { return Ok::<(), nagi_error::Error>(()) };
                while source.advance(cx)? {
                    cx.writing(full + array.len() + source.doc().len())?;
                    array.push_doc(source.doc());
                    check_output(full + array.len())?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(false);
        }
        self.run(cx)?;
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut self.inputs
    }

    fn stats(&self) -> SourceStats {
        self.stats
    }
}

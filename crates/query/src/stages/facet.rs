//! `$facet`: several pipelines over the same input. Yields one document with an array for each pipeline.

use std::sync::Arc;

use nagi_store::{Spill, SpillCursor};

use super::{Pipeline, Within, prelude::*};
use crate::{
    limits::DOC_BYTES_MAX,
    source::{Documents, Held, SourceStats, carry, document, metadata},
};

pub(super) static FACET: StageSpec = StageSpec {
    name: "$facet",
    shape: How::Pipelines,
    place: Place::NotInFacet,
    parse,
    ..StageSpec::ROW
};

struct Facet {
    pipelines: Arc<[(Box<str>, Pipeline)]>,
    /// Memory limit of its input; more is spilled.
    memory_bytes_max: usize,
    allow_disk_use: bool,
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
        let mut inner =
            PipelineCx { depth: cx.depth + 1, within: Within::Facet, ..PipelineCx { ..*cx } };
        pipelines.push((name.into(), Pipeline::parse(stages, &mut inner)?));
    }
    Ok(Box::new(Facet {
        pipelines: pipelines.into(),
        memory_bytes_max: cx.options.memory.facet,
        allow_disk_use: cx.options.allow_disk_use,
    }))
}

impl Stage for Facet {
    fn touches(&self, out: &mut Vec<super::Touch>) {
        let stages = self.pipelines.iter().flat_map(|(_, pipeline)| &pipeline.stages);
        stages.for_each(|stage| stage.touches(out));
    }

    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running {
            input,
            pipelines: self.pipelines.clone(),
            memory_bytes_max: self.memory_bytes_max,
            allow_disk_use: self.allow_disk_use,
            stats: SourceStats::default(),
            held: Held::default(),
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
    input: Box<dyn Source>,
    pipelines: Arc<[(Box<str>, Pipeline)]>,
    memory_bytes_max: usize,
    allow_disk_use: bool,
    stats: SourceStats,
    held: Held,
    out: Vec<u8>,
    done: bool,
}

/// The input, as documents with their metadata, which every sub-pipeline reads.
enum Kept {
    Memory(Arc<Vec<Box<[u8]>>>),
    /// The input exceeded the memory limit: one run on disk.
    Disk(Arc<Spill>),
}

impl Kept {
    fn open(&self) -> Result<Box<dyn Source>> {
        Ok(match self {
            Kept::Memory(docs) => Box::new(Documents::new(docs.clone())),
            Kept::Disk(spill) => {
                let cursor = spill.read_run(0)?;
                Box::new(Spilled { cursor, _spill: spill.clone(), doc: Vec::new() })
            }
        })
    }
}

/// Yields the documents of a run on disk.
struct Spilled {
    cursor: SpillCursor,
    /// Keeps the run from being dropped.
    _spill: Arc<Spill>,
    doc: Vec<u8>,
}

impl Source for Spilled {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        cx.tick()?;
        if !self.cursor.advance()? {
            return Ok(false);
        }
        self.doc.clear();
        self.doc.extend_from_slice(self.cursor.entry()?.1);
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        document(&self.doc)
    }

    fn meta(&self) -> Doc<'_> {
        metadata(&self.doc)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }
}

impl Running {
    fn read(&mut self, cx: &mut Cx<'_>) -> Result<Kept> {
        let mut docs = Vec::new();
        let mut bytes = 0;
        while self.input.advance(cx)? {
            let mut doc = Vec::new();
            carry(&*self.input, &mut doc);
            bytes += doc.len();
            docs.push(doc.into());
            if bytes > self.memory_bytes_max || !self.held.fits(cx, bytes) {
                let kept = self.read_to_disk(docs, cx);
                self.held.keep(0);
                return kept;
            }
        }
        Ok(Kept::Memory(Arc::new(docs)))
    }

    /// Writes the documents read so far and the rest of the input into one run.
    fn read_to_disk(&mut self, docs: Vec<Box<[u8]>>, cx: &mut Cx<'_>) -> Result<Kept> {
        if !self.allow_disk_use {
            bail!(
                Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                "Exceeded memory limit for $facet, but disk use is not allowed: its input is larger \
                 than {} bytes",
                self.memory_bytes_max
            );
        }
        let mut spill = cx.store.spill();
        let mut read = docs.into_iter();
        let input = &mut self.input;
        spill.write_run(&mut |_, value| {
            match read.next() {
                Some(doc) => value.extend_from_slice(&doc),
                None if input.advance(cx)? => carry(&**input, value),
                None => return Ok(false),
            }
            Ok(true)
        })?;
        self.stats.note_spill(&spill);
        Ok(Kept::Disk(Arc::new(spill)))
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(false);
        }
        let kept = self.read(cx)?;
        self.out.clear();
        let mut out = DocWriter::new(&mut self.out);
        for (name, pipeline) in &*self.pipelines {
            let mut source = pipeline.open(0, kept.open()?);
            let full = out.len();
            out.array(name, |array| {
                while source.advance(cx)? {
                    cx.writing(full + array.len() + source.doc().len())?;
                    array.push_doc(source.doc());
                    if full + array.len() > 2 * DOC_BYTES_MAX {
                        bail!(
                            Code::BSON_OBJECT_TOO_LARGE,
                            "document constructed by $facet is larger than {DOC_BYTES_MAX} bytes"
                        );
                    }
                }
                Ok(())
            })?;
        }
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }

    fn stats(&self) -> SourceStats {
        self.stats
    }
}

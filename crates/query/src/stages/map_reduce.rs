//! The stages of `mapReduce` that are no stages of pipelines: mapping documents to pairs, and
//! finishing reduced values. Between them stand `$group` and `$sort`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nagi_lang::accum::AccumSpec;
use nagi_lang::expr::{Eval, Expr, ParseCx};
use nagi_lang::script::Function;

use super::group::{Group, Grouping};
use super::map::{Mapped, Mapper};
use super::prelude::*;

/// What a run counts, for its reply.
#[derive(Debug, Default)]
pub struct MapReduceCounts {
    /// Documents mapped.
    pub input: AtomicU64,
    /// Calls of `emit`.
    pub emit: AtomicU64,
    /// Calls of the reduce function.
    pub reduce: Arc<AtomicU64>,
}

/// Calls the map function on each document, and passes on what it emits as `{key, value}`.
pub(crate) struct MapStage {
    pub(crate) map: Arc<Function>,
    pub(crate) counts: Arc<MapReduceCounts>,
}

impl Stage for MapStage {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Mapping {
            input,
            map: self.map.clone(),
            counts: self.counts.clone(),
            pairs: VecDeque::new(),
            current: DocBuf::new(),
        })
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.doc("$_internalMap", |out| out.put("map", Value::Code(self.map.text())));
    }
}

struct Mapping {
    input: Box<dyn Source>,
    map: Arc<Function>,
    counts: Arc<MapReduceCounts>,
    /// What the last document emitted and was not passed on yet; bounded by what one may emit.
    pairs: VecDeque<DocBuf>,
    current: DocBuf,
}

impl Source for Mapping {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        let Some(scripts) = cx.vars.scripts else {
            bail!(
                Code::Location(31264),
                "Cannot run server-side javascript without the javascript engine enabled"
            );
        };
        while self.pairs.is_empty() {
            if !self.input.advance(cx)? {
                return Ok(false);
            }
            self.counts.input.fetch_add(1, Relaxed);
            let pairs = &mut self.pairs;
            scripts.map(&self.map, self.input.doc(), &mut |key, value| {
                pairs.push_back(DocBuf::build(|out| {
                    out.put("key", key);
                    out.put("value", value);
                }));
                Ok(())
            })?;
            self.counts.emit.fetch_add(self.pairs.len() as u64, Relaxed);
        }
        self.current = self.pairs.pop_front().unwrap_or_default();
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        self.current.as_doc()
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }
}

/// The `$group` that reduces the pairs, key by key.
pub(crate) fn reducing(
    reduce: &Arc<Function>,
    counts: &MapReduceCounts,
    cx: &PipelineCx<'_>,
) -> Result<Arc<dyn Stage>> {
    let path = |name: &str| Expr::parse(Value::String(name), &mut ParseCx::new());
    let reduction = AccumSpec::reduction(path("$value")?, reduce.clone(), counts.reduce.clone());
    let grouping = Grouping {
        id: path("$key")?,
        fields: vec![("value".into(), reduction)],
        allow_disk_use: cx.allow_disk_use,
        memory_bytes_max: cx.memory_bytes_max.group,
        collation: cx.collation,
    };
    let text = DocBuf::build(|out| {
        out.put("_id", "$key");
        out.doc("value", |out| out.put("reduce", Value::Code(reduce.text())));
    });
    Ok(Arc::new(Group { grouping: Arc::new(grouping), text }))
}

/// Replaces each value by what the finalize function makes of key and value.
pub(crate) struct FinalizeStage(pub(crate) Arc<Function>);

struct Finalizing(Arc<Function>);

impl Stage for FinalizeStage {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Mapped::boxed(input, Arc::new(Finalizing(self.0.clone())))
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.doc("$_internalFinalize", |out| out.put("finalize", Value::Code(self.0.text())));
    }
}

impl Mapper for Finalizing {
    fn map<'a>(&'a self, cx: &Eval<'a>, out: &mut Vec<u8>) -> Result<()> {
        let Some(scripts) = cx.vars.scripts else {
            bail!(Code::ILLEGAL_OPERATION, "JavaScript is switched off");
        };
        let (key, value) = (cx.root.get("_id"), cx.root.get("value"));
        let value = scripts.call(&self.0, Value::Missing, &[key, value])?;
        let mut out = DocWriter::new(out);
        out.put("_id", key);
        out.put("value", value.value());
        Ok(())
    }
}

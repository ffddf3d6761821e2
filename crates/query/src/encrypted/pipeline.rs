//! Pipelines: filters and expressions in their stages, and the pipelines within them.

use nagi_bson::{Array, ArrayBuf, ArrayWriter, Doc, DocBuf, DocWriter, Value};
use nagi_error::Result;

use super::tags::{Rewriter, has_query};

/// Where a stage has filters and pipelines.
struct Row {
    name: &'static str,
    /// The stage is a filter.
    is_filter: bool,
    /// Its fields are pipelines over the same documents.
    has_branches: bool,
    /// The name of its field that is a filter; empty: none.
    filter: &'static str,
    /// The name of the field with the other collection; empty: none.
    from: &'static str,
}

impl Row {
    const fn named(name: &'static str) -> Row {
        Row { name, is_filter: false, has_branches: false, filter: "", from: "" }
    }
}

static STAGES: &[Row] = &[
    Row { has_branches: true, ..Row::named("$facet") },
    Row { filter: "query", ..Row::named("$geoNear") },
    Row { filter: "restrictSearchWithMatch", from: "from", ..Row::named("$graphLookup") },
    Row { from: "from", ..Row::named("$lookup") },
    Row { is_filter: true, ..Row::named("$match") },
    Row { from: "coll", ..Row::named("$unionWith") },
];

/// The field with the pipeline over another collection.
const PIPELINE: &str = "pipeline";

impl Rewriter<'_> {
    /// The pipeline without payloads of queries.
    pub(super) fn pipeline(&mut self, pipeline: Array<'_>) -> Result<ArrayBuf> {
        let mut stages = Vec::new();
        for stage in pipeline.iter() {
            stages.push(match stage {
                Value::Doc(stage) if has_query(Value::Doc(stage)) => Some(self.stage(stage)?),
                _ => None,
            });
        }
        Ok(ArrayBuf::build(|list: &mut ArrayWriter<'_>| {
            for (stage, rewritten) in pipeline.iter().zip(&stages) {
                match rewritten {
                    Some(rewritten) => list.push_doc(rewritten.as_doc()),
                    None => list.push(stage),
                }
            }
        }))
    }

    fn stage(&mut self, stage: Doc<'_>) -> Result<DocBuf> {
        let mut out = Vec::new();
        let mut writer = DocWriter::new(&mut out);
        for element in stage {
            let (name, value) = (element.name(), element.value());
            let row = STAGES.iter().find(|row| row.name == name);
            match (row, value) {
                (Some(row), Value::Doc(filter)) if row.is_filter => {
                    let filter = self.filter(filter)?;
                    writer.put(name, filter.as_doc());
                }
                (Some(row), Value::Doc(spec)) => {
                    let spec = self.parts(row, spec)?;
                    writer.put(name, spec.as_doc());
                }
                _ => self.put(name, value, &mut writer)?,
            }
        }
        writer.finish();
        Ok(Doc::trusted(&out).to_buf())
    }

    /// The specification of a stage with filters or pipelines in it.
    fn parts(&mut self, row: &Row, spec: Doc<'_>) -> Result<DocBuf> {
        let from = (!row.from.is_empty()).then(|| spec.get(row.from).as_str()).flatten();
        let mut out = Vec::new();
        let mut writer = DocWriter::new(&mut out);
        for element in spec {
            let (name, value) = (element.name(), element.value());
            match value {
                Value::Doc(filter) if name == row.filter => {
                    let filter = self.within(from, |inner| inner.filter(filter))?;
                    writer.put(name, filter.as_doc());
                }
                Value::Array(pipeline) if row.has_branches => {
                    let pipeline = self.pipeline(pipeline)?;
                    writer.put(name, pipeline.as_array());
                }
                Value::Array(pipeline) if name == PIPELINE => {
                    let pipeline = self.within(from, |inner| inner.pipeline(pipeline))?;
                    writer.put(name, pipeline.as_array());
                }
                value => self.put(name, value, &mut writer)?,
            }
        }
        writer.finish();
        Ok(Doc::trusted(&out).to_buf())
    }
}

//! Updates by a pipeline: `[{$set: ...}, {$unset: ...}, ...]`.
//!
//! Only stages that produce exactly one document from one document are allowed. Each stage reads the output of the
//! previous stage from the arena.

use nagi_bson::{Array, Doc, DocWriter, NameTag, Value, compare};
use nagi_error::{Code, Result, bail};

use super::replace::altered;
use super::{UpdateCx, check};
use crate::expr::{Eval, ParseCx, memory::check_size};
use crate::project::{AddFields, AggProjection, ReplaceRoot};

/// The maximal number of stages, as for an aggregation.
const STAGES_MAX: usize = 1000;

/// Parsed stages.
#[derive(Debug)]
pub(super) struct Pipeline(Vec<Step>);

#[derive(Debug)]
enum Step {
    Add(AddFields),
    Project(AggProjection),
    Replace(ReplaceRoot),
}

impl Pipeline {
    /// Parses the stages.
    ///
    /// # Errors
    /// 72 for a stage that is not allowed in an update, 40323 and 40324 for a value that is not a stage.
    pub(super) fn parse(stages: Array<'_>, cx: &mut ParseCx<'_>) -> Result<Pipeline> {
        let mut steps = Vec::new();
        if stages.count() > STAGES_MAX {
            bail!(
                Code::Location(7_749_501),
                "Pipeline length must be no longer than {STAGES_MAX} stages."
            );
        }
        for stage in stages.iter() {
            let Value::Doc(stage) = stage else {
                bail!(
                    Code::TYPE_MISMATCH,
                    "Each element of the 'pipeline' array must be an object"
                );
            };
            let Some(element) = stage.first().filter(|_| stage.count() == 1) else {
                bail!(
                    Code::Location(40323),
                    "A pipeline stage specification object must contain exactly one field."
                );
            };
            steps.push(step(element.name(), element.value(), cx)?);
        }
        Ok(Pipeline(steps))
    }

    pub(super) fn apply<'a>(
        &'a self,
        old: Doc<'a>,
        cx: &UpdateCx<'a>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let new = self.run(old, cx)?;
        let (old_id, id) = (old.get("_id"), new.get("_id"));
        if !id.is_missing() && !old_id.is_missing() && !compare::equal(id, old_id) {
            return Err(altered(id));
        }
        write(new, if id.is_missing() { old_id } else { id }, out)
    }

    /// The output of the last stage.
    pub(super) fn run<'a>(&'a self, old: Doc<'a>, cx: &UpdateCx<'a>) -> Result<Doc<'a>> {
        let mut doc = old;
        let mut bytes = Vec::new();
        for step in &self.0 {
            let eval = Eval::new(doc, cx.vars, cx.arena, cx.now_ms);
            bytes.clear();
            let mut writer = DocWriter::new(&mut bytes);
            match step {
                Step::Add(stage) => stage.apply(&eval, &mut writer)?,
                Step::Project(stage) => stage.apply(&eval, &mut writer)?,
                Step::Replace(stage) => {
                    let new = stage.apply(&eval)?;
                    writer.extend(new);
                }
            }
            writer.finish();
            check_size(bytes.len())?;
            if Doc::trusted(&bytes).is_deeper_than(check::STORED_DEPTH_MAX) {
                bail!(
                    Code::OVERFLOW,
                    "Document exceeds maximum nesting depth of {}",
                    check::STORED_DEPTH_MAX
                );
            }
            doc = Doc::trusted(cx.arena.alloc_slice_copy(&bytes));
        }
        Ok(doc)
    }
}

/// Writes a document with `id` as its first field.
pub(super) fn write(doc: Doc<'_>, id: Value<'_>, out: &mut Vec<u8>) -> Result<()> {
    check::id(id)?;
    check::depth(doc)?;
    let mut writer = DocWriter::new(out);
    writer.put("_id", id);
    let own = NameTag::of("_id");
    let mut elements = doc.iter();
    let (mut copied, mut begin) = (elements.offset(), elements.offset());
    while let Some((tag, _)) = elements.next_tagged() {
        if tag == own {
            writer.extend_between(doc, copied, begin);
            copied = elements.offset();
        }
        begin = elements.offset();
    }
    writer.extend_between(doc, copied, doc.len() - 1);
    writer.finish();
    Ok(())
}

/// Checks that the stages of an update exist. Each statement checks separately that they are allowed.
///
/// # Errors
/// 14 for a value that is not a stage, 40323 for a stage with several fields, 40324 for an unknown name.
pub fn check_stages(pipeline: Array<'_>) -> Result<()> {
    for stage in pipeline.iter() {
        let Value::Doc(stage) = stage else {
            bail!(Code::TYPE_MISMATCH, "Each element of the 'pipeline' array must be an object");
        };
        let mut fields = stage.iter();
        let (Some(field), None) = (fields.next(), fields.next()) else {
            bail!(
                Code::Location(40323),
                "A pipeline stage specification object must contain exactly one field."
            );
        };
        let name = field.name();
        if !UPDATE_STAGES.contains(&name) && !OTHER_STAGES.contains(&name) {
            bail!(Code::Location(40324), "Unrecognized pipeline stage name: '{name}'");
        }
    }
    Ok(())
}

/// The stages that are allowed in an update.
const UPDATE_STAGES: [&str; 6] =
    ["$addFields", "$project", "$replaceRoot", "$replaceWith", "$set", "$unset"];

fn step(name: &str, spec: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Step> {
    Ok(match name {
        "$addFields" | "$set" => Step::Add(AddFields::parse(spec, name, cx)?),
        "$project" => Step::Project(AggProjection::parse(spec, cx)?),
        "$unset" => Step::Project(AggProjection::parse_unset(spec)?),
        "$replaceRoot" => Step::Replace(ReplaceRoot::parse(spec, cx)?),
        "$replaceWith" => Step::Replace(ReplaceRoot::parse_with(spec, cx)?),
        _ if !OTHER_STAGES.contains(&name) => {
            bail!(Code::Location(40324), "Unrecognized pipeline stage name: '{name}'")
        }
        _ => {
            bail!(Code::INVALID_OPTIONS, "{name} is not allowed to be used within an update")
        }
    })
}

/// The stages that exist but are not allowed in an update.
const OTHER_STAGES: [&str; 38] = [
    "$bucket",
    "$bucketAuto",
    "$changeStream",
    "$changeStreamSplitLargeEvent",
    "$collStats",
    "$count",
    "$currentOp",
    "$densify",
    "$documents",
    "$facet",
    "$fill",
    "$geoNear",
    "$graphLookup",
    "$group",
    "$indexStats",
    "$limit",
    "$listCatalog",
    "$listLocalSessions",
    "$listSampledQueries",
    "$listSearchIndexes",
    "$listSessions",
    "$lookup",
    "$match",
    "$merge",
    "$out",
    "$planCacheStats",
    "$querySettings",
    "$queryStats",
    "$redact",
    "$sample",
    "$search",
    "$setWindowFields",
    "$shardedDataDistribution",
    "$skip",
    "$sort",
    "$sortByCount",
    "$unionWith",
    "$unwind",
];

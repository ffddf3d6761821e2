//! `$lookup`: adds to each document an array of the matching documents of another collection.
//!
//! It joins by equality (`localField`, `foreignField`), by a pipeline with variables (`let`), or both.
//!
//! | equality, and                           | explain's `strategy` |                                      |
//! |-----------------------------------------|----------------------|--------------------------------------|
//! | an index on the foreign field           | `IndexedLoopJoin`    | many documents at a time: `join.rs`  |
//! | no index serves it, the table fits      | `HashJoin`           | one scan for all: `hash_join.rs`     |
//! | otherwise                               | `NestedLoopJoin`     | a plan for each document             |
//!
//! An `$expr` with `$eq` in a `$match` of the pipeline is such an equality, too. The plan for a document has the
//! local values and the values of the variables as constants of its filter, so that an index can serve the
//! comparisons of the pipeline. This file has the stage and its parser; `lookup_run.rs` is the running join.

use std::sync::Arc;

use nagi_bson::Array;
use nagi_lang::{
    expr::{Expr, check_variable_write},
    path::FieldPath,
};
use nagi_store::Namespace;

use super::{
    Within, inner::Inner, lookup_run::Running, lookup_unwind::LookupUnwind, paths::components,
    prelude::*, stage_facts, unwind::Unwind,
};

pub(super) static LOOKUP: StageSpec = StageSpec {
    name: "$lookup",
    shape: How::Fields(&[
        ("from", How::Same),
        ("as", How::Same),
        ("localField", How::Same),
        ("foreignField", How::Same),
        ("pipeline", How::Pipeline),
    ]),
    parse,
    ..StageSpec::ROW
};

pub(super) struct Lookup {
    pub(super) inner: Inner,
    found_bytes_max: usize,
    pub(super) to: Box<[Box<str>]>,
    /// Local and foreign path.
    pub(super) equality: Option<(FieldPath, FieldPath)>,
    pub(super) lets: Vec<Expr>,
    /// True if the pipeline begins with a condition that compares a path with a variable.
    pub(super) compares: bool,
    pub(super) text: DocBuf,
}

/// The options as given.
#[derive(Default)]
struct Options<'a> {
    from: Option<&'a str>,
    to: Option<&'a str>,
    local: Option<&'a str>,
    foreign: Option<&'a str>,
    lets: Option<Doc<'a>>,
    pipeline: Option<Array<'a>>,
}

fn options(doc: Doc<'_>) -> Result<Options<'_>> {
    let mut out = Options::default();
    for element in doc {
        let (name, value) = (element.name(), element.value());
        match name {
            "pipeline" => {
                let Value::Array(stages) = value else {
                    bail!(Code::TYPE_MISMATCH, "'pipeline' option must be specified as an array");
                };
                out.pipeline = Some(stages);
                continue;
            }
            "let" => {
                let Value::Doc(lets) = value else {
                    bail!(
                        Code::FAILED_TO_PARSE,
                        "$lookup argument 'let: {value}' must be an object, is type {}",
                        value.kind().name()
                    );
                };
                out.lets = Some(lets);
                continue;
            }
            _ => {}
        }
        let Value::String(text) = value else {
            if name == "from" {
                if let Value::Doc(place) = value {
                    return Err(elsewhere(place));
                }
                bail!(
                    Code::FAILED_TO_PARSE,
                    "'from' option to $lookup must be a string, but was type {}",
                    value.kind().name()
                );
            }
            bail!(
                Code::FAILED_TO_PARSE,
                "$lookup argument '{name}: {value}' must be a string, is type {}",
                value.kind().name()
            );
        };
        match name {
            "from" => out.from = Some(text),
            "as" => out.to = Some(text),
            "localField" => out.local = Some(text),
            "foreignField" => out.foreign = Some(text),
            _ => bail!(Code::FAILED_TO_PARSE, "unknown argument to $lookup: {name}"),
        }
    }
    Ok(out)
}

/// `from: {db, coll}` is reserved for the server's own collections, which clients do not read.
fn elsewhere(place: Doc<'_>) -> nagi_error::Error {
    match (place.get("db"), place.get("coll")) {
        (Value::String(db), Value::String(coll)) if place.count() == 2 => nagi_error::err!(
            Code::FAILED_TO_PARSE,
            "$lookup with syntax {{from: {{db:<>, coll:<>}},..}} is not supported for db: {db} and \
             coll: {coll}"
        ),
        _ => nagi_error::err!(
            Code::FAILED_TO_PARSE,
            "$lookup 'from' must be a string or {{db: <string>, coll: <string>}}"
        ),
    }
}

/// The namespace of a `$lookup` without `from`, whose pipeline must begin with documents of its own.
fn without_from(options: &Options<'_>) -> Result<&'static str> {
    let Some(pipeline) = options.pipeline else {
        bail!(Code::FAILED_TO_PARSE, "must specify 'pipeline' when 'from' is empty");
    };
    let first = pipeline.iter().next().and_then(|stage| stage.as_doc()).and_then(|s| s.first());
    if first.is_none_or(|stage| stage_facts(stage.name()).runs_on != RunsOn::Database) {
        bail!(
            Code::FAILED_TO_PARSE,
            "$lookup stage without explicit collection must have a pipeline with $documents as first \
             stage"
        );
    }
    // A name that clients cannot use, as for `aggregate: 1`.
    Ok("aggregate.collectionless")
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let Value::Doc(doc) = spec else {
        bail!(
            Code::FAILED_TO_PARSE,
            "the $lookup specification must be an Object, but found {}",
            spec.kind().name()
        );
    };
    let options = options(doc)?;
    let from = match options.from {
        Some(from) => from,
        None => without_from(&options)?,
    };
    let Some(to) = options.to.filter(|to| !to.is_empty()) else {
        bail!(Code::FAILED_TO_PARSE, "must specify 'as' field for a $lookup");
    };
    let Ok(namespace) = Namespace::new(cx.namespace.database(), from) else {
        bail!(
            Code::INVALID_NAMESPACE,
            "invalid $lookup namespace: {}.{from}",
            cx.namespace.database()
        );
    };
    let filled = |text: Option<&'_ str>| text.is_some_and(|text| !text.is_empty());
    let by_fields = filled(options.local) && filled(options.foreign);
    if options.lets.is_some() && options.pipeline.is_none() {
        bail!(Code::FAILED_TO_PARSE, "$lookup with a 'let' argument must also specify 'pipeline'");
    }
    if !by_fields && (options.pipeline.is_none() || options.local.or(options.foreign).is_some()) {
        bail!(
            Code::FAILED_TO_PARSE,
            "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be \
             specified"
        );
    }
    let mut names = Vec::new();
    let mut lets = Vec::new();
    for element in options.lets.unwrap_or(Doc::EMPTY) {
        check_variable_write(element.name())?;
        lets.push(Expr::parse(element.value(), &mut cx.lang())?);
        names.push(element.name().into());
    }
    let equality = match (options.local, options.foreign) {
        (Some(local), Some(foreign)) => {
            components(local)?;
            components(foreign)?;
            Some((FieldPath::new(local), FieldPath::new(foreign)))
        }
        _ => None,
    };
    let stages = options.pipeline.unwrap_or(Array::EMPTY);
    let inner = Inner::parse(namespace, stages, &names, Within::Lookup, cx)?;
    let compares = !lets.is_empty()
        && inner.pipeline.conditions().0.is_some_and(|filter| {
            filter.expr_equalities().iter().any(|equality| !equality.is_constant())
        });
    Ok(Box::new(Shared(Arc::new(Lookup {
        inner,
        compares,
        found_bytes_max: cx.options.memory.lookup,
        to: components(to)?,
        equality,
        lets,
        text: doc.to_buf(),
    }))))
}

struct Shared(Arc<Lookup>);

impl Stage for Shared {
    fn touches(&self, out: &mut Vec<super::Touch>) {
        self.0.inner.touches(out);
    }

    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running::new(input, &self.0))
    }

    fn unwound(&self, by: &Arc<Unwind>) -> Option<Arc<dyn Stage>> {
        // Below another field the two stages would treat arrays differently.
        let same = self.0.to.len() == 1 && self.0.to == by.path;
        same.then(|| LookupUnwind::boxed(&self.0, by))
    }

    fn changes(&self) -> Option<Vec<String>> {
        Some(vec![self.0.to.join(".")])
    }

    fn is_one_to_one(&self) -> bool {
        true
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$lookup", &self.0.text);
    }
}

impl Lookup {
    /// Refuses to join more than the limit to one document.
    pub(super) fn check_size(&self, bytes: usize) -> Result<()> {
        if bytes > self.found_bytes_max {
            bail!(
                Code::Location(4568),
                "Total size of documents in {} matching pipeline's $lookup stage exceeds \
                 maximum document size",
                self.inner.namespace.collection()
            );
        }
        Ok(())
    }
}

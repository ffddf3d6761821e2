//! `$merge`: writes each document into a collection. It updates the document with the same `on` fields, or inserts
//! a new one.
//!
//! Each document becomes one update statement: a replacement, `$set`, `$setOnInsert` or a pipeline.

use std::sync::Arc;

use nagi_bson::{ArrayBuf, ValueBuf, doc};
use nagi_lang::expr::{Expr, check_variable_write};
use nagi_store::{Collection, Durability, Namespace, Store};

use super::{
    Touch, Use,
    out::{insert_all, refuse_internal},
    paths::value_at,
    prelude::*,
};
use crate::write::{UpdateStatement, update};

pub(super) static MERGE: StageSpec = StageSpec {
    name: "$merge",
    shape: How::Fields(&[
        ("into", How::Same),
        ("on", How::Same),
        ("whenMatched", How::Pipeline),
        ("whenNotMatched", How::Same),
    ]),
    place: Place::Last,
    parse,
    accumulates: super::Accumulates::Nowhere,
    facts: StageFacts {
        in_transaction: false,
        writes: true,
        in_view: false,
        ..StageFacts::ORDINARY
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Matched {
    Replace,
    KeepExisting,
    Merge,
    Fail,
    Pipeline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotMatched {
    Insert,
    Discard,
    Fail,
}

struct Merge {
    into: Namespace,
    on: Vec<Box<str>>,
    matched: Matched,
    not_matched: NotMatched,
    pipeline: ArrayBuf,
    lets: Vec<(Box<str>, Expr)>,
    bypass_validation: bool,
    text: ValueBuf,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let options = match spec {
        Value::String(_) => Doc::EMPTY,
        Value::Doc(doc) => doc,
        _ => bail!(
            Code::Location(51182),
            "$merge requires a string or object argument, but found {}",
            spec.kind().name()
        ),
    };
    let known = ["into", "on", "let", "whenMatched", "whenNotMatched"];
    if let Some(other) = options.iter().find(|e| !known.contains(&e.name())) {
        bail!(Code::IDL_UNKNOWN_FIELD, "BSON field '$merge.{}' is an unknown field.", other.name());
    }
    let into = if options.is_empty() { spec } else { options.get("into") };
    let into = parse_into(into, cx)?;
    if !cx.for_access {
        refuse_internal("$merge to", &into, Code::Location(31320))?;
        if into.is_system() {
            let collection = into.collection();
            bail!(Code::Location(31319), "Cannot $merge to special collection: {collection}");
        }
    }
    let (matched, pipeline) = parse_matched(options.get("whenMatched"))?;
    let not_matched = match options.get("whenNotMatched") {
        Value::Missing | Value::String("insert") => NotMatched::Insert,
        Value::String("discard") => NotMatched::Discard,
        Value::String("fail") => NotMatched::Fail,
        other => bail!(
            Code::BAD_VALUE,
            "Enumeration value {other} for field '$merge.whenNotMatched' is not a valid value."
        ),
    };
    if matches!(matched, Matched::Fail | Matched::KeepExisting) && not_matched != NotMatched::Insert
    {
        bail!(
            Code::Location(51181),
            "Combination of {{'whenMatched': {:?}, 'whenNotMatched': {:?}}} is not supported",
            matched,
            not_matched
        );
    }
    let lets = parse_let(options.get("let"), matched, cx)?;
    Ok(Box::new(Shared(Arc::new(Merge {
        into,
        on: parse_on(options.get("on"))?,
        matched,
        not_matched,
        pipeline,
        lets,
        bypass_validation: cx.bypass_validation,
        text: ValueBuf::new(spec),
    }))))
}

fn parse_into(into: Value<'_>, cx: &PipelineCx<'_>) -> Result<Namespace> {
    match into {
        Value::String(name) => Namespace::new(cx.namespace.database(), name),
        Value::Doc(doc) => {
            let db = doc.get("db").as_str().unwrap_or(cx.namespace.database());
            match doc.get("coll") {
                Value::String(name) => Namespace::new(db, name),
                _ => bail!(
                    Code::Location(51178),
                    "$merge 'into' field must specify a 'coll' that is not empty, null or undefined"
                ),
            }
        }
        Value::Missing => {
            bail!(
                Code::IDL_FAILED_TO_PARSE,
                "BSON field '$merge.into' is missing but a required field"
            )
        }
        other => bail!(
            Code::Location(51178),
            "$merge 'into' field must be either a string or an object, but found {}",
            other.kind().name()
        ),
    }
}

fn parse_matched(value: Value<'_>) -> Result<(Matched, ArrayBuf)> {
    let none = ArrayBuf::build(|_| ());
    Ok(match value {
        Value::Missing | Value::String("merge") => (Matched::Merge, none),
        Value::String("replace") => (Matched::Replace, none),
        Value::String("keepExisting") => (Matched::KeepExisting, none),
        Value::String("fail") => (Matched::Fail, none),
        Value::Array(stages) => (Matched::Pipeline, stages.to_buf()),
        other => bail!(
            Code::BAD_VALUE,
            "Enumeration value {other} for field '$merge.whenMatched' is not a valid value."
        ),
    })
}

fn parse_on(value: Value<'_>) -> Result<Vec<Box<str>>> {
    let mut on: Vec<Box<str>> = Vec::new();
    match value {
        Value::Missing => on.push("_id".into()),
        Value::String(name) => on.push(name.into()),
        Value::Array(names) if !names.is_empty() => {
            for name in names.iter() {
                let Value::String(name) = name else {
                    bail!(
                        Code::Location(51134),
                        "$merge 'on' array elements must be strings, but found {}",
                        name.kind().name()
                    );
                };
                if on.iter().any(|known| &**known == name) {
                    bail!(Code::Location(31465), "Found a duplicate field '{name}'");
                }
                on.push(name.into());
            }
        }
        Value::Array(_) => bail!(
            Code::Location(51187),
            "If explicitly specifying $merge 'on', must include at least one field"
        ),
        other => bail!(
            Code::Location(51186),
            "$merge 'on' field must be either a string or an array of strings, but found {}",
            other.kind().name()
        ),
    }
    Ok(on)
}

fn parse_let(
    value: Value<'_>,
    matched: Matched,
    cx: &PipelineCx<'_>,
) -> Result<Vec<(Box<str>, Expr)>> {
    let mut lets: Vec<(Box<str>, Expr)> = Vec::new();
    match value {
        Value::Missing => {}
        Value::Doc(_) if matched != Matched::Pipeline => bail!(
            Code::Location(51199),
            "Cannot use 'let' variables with 'whenMatched: {matched:?}' mode"
        ),
        Value::Doc(doc) => {
            for element in doc {
                check_variable_write(element.name())?;
                let expr = Expr::parse(element.value(), &mut cx.lang())?;
                lets.push((element.name().into(), expr));
            }
        }
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field '$merge.let' is the wrong type '{}', expected type 'object'",
            other.kind().name()
        ),
    }
    if lets.iter().all(|(name, _)| &**name != "new") {
        let root = Expr::parse(Value::String("$$ROOT"), &mut cx.lang())?;
        lets.push(("new".into(), root));
    }
    Ok(lets)
}

struct Shared(Arc<Merge>);

impl Stage for Shared {
    fn check_target(&self, store: &Store) -> Result<()> {
        self.0.refuse_series(store)?;
        match store.collection(&self.0.into) {
            // The write reports that error.
            Some(target) if target.is_view() => Ok(()),
            target => self.0.check_unique(target.as_deref()),
        }
    }

    fn touches(&self, out: &mut Vec<Touch>) {
        let mut touch = |usage| out.push(Touch { namespace: self.0.into.clone(), usage });
        if self.0.not_matched == NotMatched::Insert {
            touch(Use::Insert);
        }
        // Keeping what exists is an update with `$setOnInsert`.
        if !matches!(self.0.matched, Matched::Fail) {
            touch(Use::Update);
        }
    }

    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running { input, merge: self.0.clone(), done: false })
    }

    fn writes(&self) -> bool {
        true
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$merge", self.0.text.value());
    }
}

struct Running {
    input: Box<dyn Source>,
    merge: Arc<Merge>,
    done: bool,
}

impl Merge {
    /// Measurements are not replaced.
    fn refuse_series(&self, store: &Store) -> Result<()> {
        match store.buckets_of(&self.into) {
            None => Ok(()),
            Some(_) => bail!(
                Code::Location(1_074_330),
                "$merge does not support time-series collections as the output collection: {}",
                self.into
            ),
        }
    }

    /// The target, created if required; checks that the `on` fields identify a document.
    fn target(&self, cx: &Cx<'_>) -> Result<Arc<Collection>> {
        self.refuse_series(cx.store)?;
        let collection = cx.store.collection_or_create(&self.into)?;
        if collection.is_view() {
            bail!(
                Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                "Namespace {} is a view, not a collection",
                self.into
            );
        }
        self.check_unique(Some(&collection))?;
        Ok(collection)
    }

    /// Returns true if a unique index of the target has exactly the `on` fields. A target that does not exist yet
    /// will have the index on `_id`.
    fn check_unique(&self, target: Option<&Collection>) -> Result<()> {
        let unique = match target {
            None => self.on.len() == 1 && &*self.on[0] == "_id",
            Some(target) => target.ready_indexes().any(|index| {
                let spec = &index.spec;
                (spec.unique || spec.is_id())
                    && spec.partial.is_none()
                    && spec.key.len() == self.on.len()
                    && spec.key.iter().all(|part| self.on.contains(&part.path))
            }),
        };
        if !unique {
            bail!(
                Code::Location(51183),
                "Cannot find index to verify that join fields will be unique"
            );
        }
        Ok(())
    }

    /// The filter `{on: value, ...}`.
    fn filter(&self, document: Doc<'_>) -> Result<DocBuf> {
        let mut out = Vec::new();
        let mut writer = DocWriter::new(&mut out);
        for name in &self.on {
            let path: Vec<Box<str>> = name.split('.').map(Box::from).collect();
            let value = value_at(document, &path);
            if value.is_nullish() || matches!(value, Value::Array(_)) {
                bail!(
                    Code::Location(51132),
                    "$merge write error: 'on' field '{name}' cannot be missing, null, undefined \
                     or an array"
                );
            }
            writer.doc(name, |out| out.put("$eq", value));
        }
        writer.finish();
        Ok(Doc::trusted(&out).to_buf())
    }

    fn write(&self, document: Doc<'_>, collection: &Collection, cx: &Cx<'_>) -> Result<()> {
        let filter = self.filter(document)?;
        let insert = || insert_all(cx.store, collection, &[document], self.bypass_validation, cx);
        // The document may be large, so only what the mode needs has a copy of it.
        let mut lets = doc! {};
        let operators;
        let change = match self.matched {
            Matched::Fail => return insert(),
            Matched::Replace => Value::Doc(document),
            Matched::Pipeline => {
                lets = self.let_values(document, cx)?;
                Value::Array(self.pipeline.as_array())
            }
            Matched::KeepExisting => {
                operators = doc! { "$setOnInsert": document };
                Value::Doc(operators.as_doc())
            }
            Matched::Merge => {
                operators = doc! { "$set": document };
                Value::Doc(operators.as_doc())
            }
        };
        let inserts = self.not_matched == NotMatched::Insert;
        let statement = UpdateStatement {
            bypass_validation: self.bypass_validation,
            upsert: inserts && self.matched != Matched::Pipeline,
            let_vars: lets.as_doc(),
            ..UpdateStatement::new(filter.as_doc(), change)
        };
        let run = || update(cx.store, &self.into, &statement, Durability::Buffered, cx.env);
        let done = cx.env.nested(run)?;
        if done.matched > 0 || done.upserted.is_some() {
            return Ok(());
        }
        match self.not_matched {
            NotMatched::Insert => insert(),
            NotMatched::Discard => Ok(()),
            NotMatched::Fail => bail!(
                Code::MERGE_STAGE_NO_MATCHING_DOCUMENT,
                "$merge could not find a matching document in the target collection for at least \
                 one document in the source collection"
            ),
        }
    }

    /// The values of `let`, as constants.
    fn let_values(&self, document: Doc<'_>, cx: &Cx<'_>) -> Result<DocBuf> {
        let arena = Bump::new();
        let eval = cx.eval(document, &arena);
        let mut bytes = Vec::new();
        let mut out = DocWriter::new(&mut bytes);
        for (name, expr) in &self.lets {
            let value = expr.eval(&eval)?;
            out.doc(name, |out| out.put("$literal", value));
        }
        out.finish();
        Ok(Doc::trusted(&bytes).to_buf())
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(false);
        }
        let collection = self.merge.target(cx)?;
        while self.input.advance(cx)? {
            let document = self.input.doc();
            if !document.get("_id").is_missing() {
                self.merge.write(document, &collection, cx)?;
                continue;
            }
            let id = cx.store.new_object_id();
            let named = DocBuf::build(|out| {
                out.put("_id", &id);
                out.extend(document);
            });
            self.merge.write(named.as_doc(), &collection, cx)?;
        }
        Ok(false)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::EMPTY
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }
}

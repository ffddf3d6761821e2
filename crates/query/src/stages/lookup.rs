//! `$lookup`: an array of the documents of another collection that belong to each document.
//!
//! By equality (`localField`, `foreignField`), by a pipeline with variables (`let`), or both.
//!
//! | equality, and                           | explain's `strategy` |                                      |
//! |-----------------------------------------|----------------------|--------------------------------------|
//! | an index on the foreign field           | `IndexedLoopJoin`    | many documents at a time: `join.rs`  |
//! | no index, no pipeline, the table fits   | `HashJoin`           | one scan for all: `hash_join.rs`     |
//! | else                                    | `NestedLoopJoin`     | a plan for each document             |
//!
//! The plan for a document has its local values as a filter and its variables' values, so that an index
//! serves what a pipeline compares with them, too.

use std::sync::Arc;

use nagi_bson::{Array, ArrayWriter, ValueBuf};
use nagi_lang::{
    collation::Collation,
    expr::{Expr, Vars, check_variable_write},
    filter::{CompareOp, Filter, InList, Pred},
    path::{self, FieldPath, Leaf},
};
use nagi_store::{Index, Namespace};

use super::{
    Within,
    hash_join::Table,
    inner::{Inner, Used},
    join::{self, Batch, Way},
    lookup_unwind::LookupUnwind,
    paths::{components, write_replaced},
    prelude::*,
    unwind::Unwind,
};

use crate::{
    execution::{ExecutionStats, sum_stats},
    source::SourceStats,
};

pub(super) static LOOKUP: StageSpec = StageSpec { name: "$lookup", place: Place::Anywhere, parse };

pub(super) struct Lookup {
    pub(super) inner: Inner,
    found_bytes_max: usize,
    pub(super) to: Box<[Box<str>]>,
    /// Local and foreign path.
    equality: Option<(FieldPath, FieldPath)>,
    pub(super) lets: Vec<Expr>,
    pub(super) text: DocBuf,
}

/// The options as they are given.
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

/// `from: {db, coll}` is for collections of the server's own that no client reads.
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

/// Where a `$lookup` without `from` reads: nowhere, its pipeline begins with its own documents.
fn without_from(options: &Options<'_>) -> Result<&'static str> {
    let Some(pipeline) = options.pipeline else {
        bail!(Code::FAILED_TO_PARSE, "must specify 'pipeline' when 'from' is empty");
    };
    let first = pipeline.iter().next().and_then(|stage| stage.as_doc()).and_then(|s| s.first());
    if first.is_none_or(|stage| stage.name() != "$documents") {
        bail!(
            Code::FAILED_TO_PARSE,
            "$lookup stage without explicit collection must have a pipeline with $documents as first \
             stage"
        );
    }
    // A name no client can give, as for `aggregate: 1`.
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
    Ok(Box::new(Shared(Arc::new(Lookup {
        inner,
        found_bytes_max: cx.memory_bytes_max.lookup,
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
        // Below another field the two would meet arrays in different ways.
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

/// The join while it runs.
pub(super) struct Running {
    pub(super) input: Box<dyn Source>,
    pub(super) lookup: Arc<Lookup>,
    /// Input documents that wait; none if each is read and joined in its turn.
    pub(super) batch: Option<Batch>,
    /// Whether it is known what belongs to them, or that it is found out in their turn.
    is_joined: bool,
    /// The index they were joined by.
    index: Option<Arc<Index>>,
    pub(super) found: Vec<u8>,
    out: Vec<u8>,
    arena: Bump,
    /// What was looked at in the other collection.
    pub(super) examined: ExecutionStats,
    used: Used,
    hash: Hash,
    /// Whether any document was joined by a table.
    was_hashed: bool,
}

/// What is known of joining by a table.
enum Hash {
    /// No document has needed a scan of the other collection.
    Unneeded,
    /// One has; the next one that would makes the table.
    Needed,
    Made(Table),
    /// It does not fit. It is tried again in the next batch.
    Refused,
}

/// The values of a local document that foreign ones are to equal.
fn local_values(doc: Doc<'_>, local: &FieldPath) -> Result<Vec<ValueBuf>> {
    let mut values = Vec::new();
    path::any(doc, local, Leaf::Whole, &mut |value, _| {
        match value {
            Value::Array(array) => values.extend(array.iter().map(ValueBuf::new)),
            Value::Missing => {}
            value => values.push(ValueBuf::new(value)),
        }
        Ok(false)
    })?;
    if values.is_empty() {
        values.push(ValueBuf::new(Value::Null));
    }
    for value in &mut values {
        // Undefined equals nothing but what null equals here.
        if matches!(value.value(), Value::Undefined) {
            *value = ValueBuf::new(Value::Null);
        }
    }
    Ok(values)
}

/// The condition on foreign documents: equal to one of these values.
fn equality(
    values: &[ValueBuf],
    foreign: &FieldPath,
    collation: Option<&'static Collation>,
) -> Filter {
    let pred = match values {
        [value] => Pred::Compare { op: CompareOp::Eq, value: value.clone(), collation },
        values => Pred::In(InList::collated(values.to_vec(), Vec::new(), collation)),
    };
    Filter::Field { path: foreign.clone(), pred }
}

impl Lookup {
    /// Refuses to join more to one document.
    fn check_size(&self, bytes: usize) -> Result<()> {
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

impl Running {
    pub(super) fn new(input: Box<dyn Source>, lookup: &Arc<Lookup>) -> Running {
        // Whatever else is evaluated for a document is evaluated in its turn.
        let joins = lookup.equality.is_some()
            && lookup.lets.is_empty()
            && lookup.inner.is_plain()
            && lookup.inner.collation.is_none();
        Running {
            input,
            lookup: Arc::clone(lookup),
            batch: joins.then(Batch::default),
            is_joined: false,
            index: None,
            found: Vec::new(),
            out: Vec::new(),
            arena: Bump::new(),
            examined: ExecutionStats::default(),
            used: Used::default(),
            hash: Hash::Unneeded,
            was_hashed: false,
        }
    }

    /// The current input document.
    pub(super) fn current(&self) -> Doc<'_> {
        self.batch.as_ref().map_or_else(|| self.input.doc(), Batch::doc)
    }

    /// Fills `found` with what belongs to the current document, if the batch knows it; else false.
    pub(super) fn find_joined(&mut self, cx: &Cx<'_>) -> Result<bool> {
        let Some(batch) = &self.batch else { return Ok(false) };
        self.found.clear();
        let mut array = ArrayWriter::new(&mut self.found);
        let lookup = &*self.lookup;
        let entries = batch.write(&mut array, &|bytes| lookup.check_size(bytes))?;
        array.finish();
        let Some(entries) = entries else { return Ok(false) };
        self.examined.keys_examined += entries;
        self.examined.docs_examined += entries;
        cx.examined_keys(entries);
        if let Some(index) = &self.index {
            self.used.note_index(index, cx);
        }
        Ok(true)
    }

    /// The values of the variables for the current document.
    pub(super) fn let_values(&self, cx: &Cx<'_>) -> Result<Vec<ValueBuf>> {
        // With a batch the input is ahead of it.
        if self.lookup.lets.is_empty() {
            return Ok(Vec::new());
        }
        let eval = cx.eval_current(&*self.input, &self.arena);
        self.lookup.lets.iter().map(|expr| Ok(ValueBuf::new(expr.eval(&eval)?))).collect()
    }

    /// Opens what belongs to the current document; `cx` has the values of the variables.
    pub(super) fn open_found(&mut self, cx: &mut Cx<'_>) -> Result<Box<dyn Source>> {
        let lookup = Arc::clone(&self.lookup);
        let by = lookup.inner.collation;
        let Some((local, foreign)) = &lookup.equality else {
            return lookup.inner.open_noting(None, &mut self.used, cx);
        };
        let values = local_values(self.current(), local)?;
        let filter = equality(&values, foreign, by);
        if let Hash::Needed = self.hash {
            self.hash = self.make_table(foreign, cx)?;
        }
        if let Hash::Made(table) = &self.hash {
            self.was_hashed = true;
            return Ok(table.find(&values, by, filter));
        }
        let source = lookup.inner.open_noting(Some(filter), &mut self.used, cx)?;
        let scanned = lookup.inner.is_plain() && self.used.scanned.is_some();
        if let (Hash::Unneeded, true) = (&self.hash, scanned) {
            self.hash = Hash::Needed;
        }
        Ok(source)
    }

    fn make_table(&mut self, foreign: &FieldPath, cx: &mut Cx<'_>) -> Result<Hash> {
        let inner = &self.lookup.inner;
        let mut source = inner.open_noting(None, &mut self.used, cx)?;
        // None if it has been dropped since.
        let Some(collection) = self.used.scanned.take() else { return Ok(Hash::Unneeded) };
        let table = Table::read(&collection, foreign, inner.collation, &mut *source, cx)?;
        sum_stats(&mut *source, &mut self.examined);
        Ok(table.map_or(Hash::Refused, Hash::Made))
    }

    /// How documents are joined, as explain calls it.
    fn strategy(&self) -> Option<&'static str> {
        self.lookup.equality.as_ref()?;
        Some(match () {
            () if self.was_hashed => "HashJoin",
            () if self.index.is_some() || !self.used.indexes.is_empty() => "IndexedLoopJoin",
            () => "NestedLoopJoin",
        })
    }

    /// Fills `found` with what belongs to the current document.
    fn find(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        if self.find_joined(cx)? {
            return Ok(());
        }
        let values = self.let_values(cx)?;
        let values: Vec<Value<'_>> =
            cx.vars.lets.iter().copied().chain(values.iter().map(ValueBuf::value)).collect();
        let vars = Vars { lets: &values, ..cx.vars.clone() };
        let mut inner_cx = Cx { store: cx.store, reader: cx.reader, vars: &vars, env: cx.env };
        let mut source = self.open_found(&mut inner_cx)?;
        self.found.clear();
        let mut array = ArrayWriter::new(&mut self.found);
        while source.advance(&mut inner_cx)? {
            inner_cx.writing(array.len() + source.doc().len())?;
            array.push_doc(source.doc());
            self.lookup.check_size(array.len())?;
        }
        array.finish();
        sum_stats(&mut *source, &mut self.examined);
        Ok(())
    }

    /// Goes to the next input document; false at the end.
    pub(super) fn next(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        let Some(batch) = &mut self.batch else { return self.input.advance(cx) };
        if batch.is_empty() {
            self.is_joined = false;
            if !batch.gather(&mut *self.input, cx)? {
                return Ok(false);
            }
        }
        if !self.is_joined {
            self.join(cx)?;
            self.is_joined = true;
        }
        if let Some(batch) = &mut self.batch {
            batch.advance();
        }
        Ok(true)
    }

    /// Finds what belongs to the documents that wait, if there is an index to do it together.
    fn join(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let lookup = &*self.lookup;
        let (Some(batch), Some((local, foreign))) = (&mut self.batch, &lookup.equality) else {
            return Ok(());
        };
        let Some(example) = batch.example(local)? else { return Ok(()) };
        let filter = equality(&local_values(example, local)?, foreign, None);
        match lookup.inner.index_for(filter, cx)? {
            Some((collection, index)) if join::serves(&index, foreign) => {
                self.index = Some(index.clone());
                batch.join(&Way { collection, index }, local, cx)
            }
            _ => Ok(()),
        }
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if !self.next(cx)? {
            return Ok(false);
        }
        self.find(cx)?;
        renew(&mut self.arena);
        self.out.clear();
        let doc = self.batch.as_ref().map_or_else(|| self.input.doc(), Batch::doc);
        cx.writing(doc.len() + self.found.len())?;
        let found = Value::Array(Array::trusted(&self.found));
        write_replaced(&mut DocWriter::new(&mut self.out), doc, &self.lookup.to, found);
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn meta(&self) -> Doc<'_> {
        self.batch.as_ref().map_or_else(|| self.input.meta(), Batch::meta)
    }

    fn save(&mut self) {
        if let Some(batch) = &mut self.batch {
            batch.save();
        }
        self.is_joined = false;
        if let Hash::Made(_) | Hash::Refused = self.hash {
            self.hash = Hash::Needed;
        }
        self.input.save();
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }

    fn stats(&self) -> SourceStats {
        SourceStats {
            keys_examined: self.examined.keys_examined,
            docs_examined: self.examined.docs_examined,
            ..SourceStats::default()
        }
    }

    fn show_run(&self, out: &mut DocWriter<'_>) {
        out.put("totalDocsExamined", self.examined.docs_examined as i64);
        out.put("totalKeysExamined", self.examined.keys_examined as i64);
        out.put("collectionScans", self.used.collection_scans as i64);
        out.array("indexesUsed", |out| self.used.indexes.iter().for_each(|name| out.push(&**name)));
        if let Some(strategy) = self.strategy() {
            out.put("strategy", strategy);
        }
    }
}

//! `$graphLookup`: the documents of a collection that are reachable from a document.
//!
//! It is a breadth-first search. Each round queries the documents whose `connectToField` is one of the values found
//! in the previous round, so an index on that field is used once per round. Each document is visited once (by
//! `_id`), so cycles terminate, and each value is queried once.

use std::{collections::HashSet, sync::Arc};

use nagi_bson::{ValueBuf, array, compare};
use nagi_lang::{
    expr::Expr,
    filter::{Filter, InList, Pred},
    path::{self, FieldPath, Leaf},
};
use nagi_store::Namespace;

use super::{
    Within,
    inner::Inner,
    paths::{components, write_replaced},
    prelude::*,
};
use crate::source::{ExecutionStats, OperatorMemory, SourceStats, sum_stats};

pub(super) static GRAPH_LOOKUP: StageSpec = StageSpec {
    name: "$graphLookup",
    shape: How::Fields(&[
        ("from", How::Same),
        ("as", How::Same),
        ("connectFromField", How::Same),
        ("connectToField", How::Same),
        ("depthField", How::Same),
        ("restrictSearchWithMatch", How::Filter),
    ]),
    parse,
    ..StageSpec::ROW
};

struct GraphLookup {
    inner: Inner,
    memory_bytes_max: usize,
    to: Box<[Box<str>]>,
    start: Expr,
    connect_from: FieldPath,
    connect_to: FieldPath,
    depth_max: Option<i64>,
    depth_field: Option<Box<[Box<str>]>>,
    text: DocBuf,
}

/// The options as given.
#[derive(Default)]
struct Options<'v> {
    from: Option<&'v str>,
    to: Option<&'v str>,
    start: Option<Value<'v>>,
    connect_from: Option<&'v str>,
    connect_to: Option<&'v str>,
    depth_field: Option<&'v str>,
    depth_max: Option<i64>,
    restrict: Option<Doc<'v>>,
}

fn options(doc: Doc<'_>) -> Result<Options<'_>> {
    let mut out = Options::default();
    for element in doc {
        let value = element.value();
        let target = match element.name() {
            "startWith" => {
                out.start = Some(value);
                continue;
            }
            "maxDepth" => {
                out.depth_max = Some(depth(value)?);
                continue;
            }
            "restrictSearchWithMatch" => {
                let Value::Doc(filter) = value else {
                    bail!(
                        Code::Location(40185),
                        "restrictSearchWithMatch must be an object, found {}",
                        value.kind().name()
                    );
                };
                out.restrict = Some(filter);
                continue;
            }
            "from" => &mut out.from,
            "as" => &mut out.to,
            "connectFromField" => &mut out.connect_from,
            "connectToField" => &mut out.connect_to,
            "depthField" => &mut out.depth_field,
            name => bail!(Code::Location(40104), "Unknown argument to $graphLookup: {name}"),
        };
        let Value::String(text) = value else {
            if element.name() == "from" {
                bail!(
                    Code::FAILED_TO_PARSE,
                    "'from' option to $graphLookup must be a string, but was type {}",
                    value.kind().name()
                );
            }
            bail!(
                Code::Location(40103),
                "expected string as argument for {}, found: {value}",
                element.name()
            );
        };
        *target = Some(text);
    }
    Ok(out)
}

fn depth(value: Value<'_>) -> Result<i64> {
    if !value.is_number() {
        bail!(
            Code::Location(40100),
            "maxDepth must be numeric, found type: {}",
            value.kind().name()
        );
    }
    match nagi_bson::number::as_i64_exact(value) {
        Some(depth) if depth >= 0 => Ok(depth),
        Some(depth) => {
            bail!(Code::Location(40101), "maxDepth requires a nonnegative argument, found: {depth}")
        }
        None => bail!(
            Code::Location(40102),
            "maxDepth could not be represented as a long long: {value}"
        ),
    }
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let Value::Doc(doc) = spec else {
        bail!(
            Code::FAILED_TO_PARSE,
            "the $graphLookup stage specification must be an object, but found {}",
            spec.kind().name()
        );
    };
    let options = options(doc)?;
    let filled = |text: Option<&'_ str>| text.is_some_and(|text| !text.is_empty());
    let complete = options.start.is_some()
        && filled(options.from)
        && filled(options.to)
        && filled(options.connect_from)
        && filled(options.connect_to);
    let (Some(from), Some(to), Some(start), Some(connect_from), Some(connect_to), true) = (
        options.from,
        options.to,
        options.start,
        options.connect_from,
        options.connect_to,
        complete,
    ) else {
        bail!(
            Code::Location(40105),
            "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', and \
             'connectToField' to be specified."
        );
    };
    let Ok(namespace) = Namespace::new(cx.namespace.database(), from) else {
        bail!(
            Code::INVALID_NAMESPACE,
            "invalid $graphLookup namespace: {}.{from}",
            cx.namespace.database()
        );
    };
    components(connect_from)?;
    components(connect_to)?;
    let stages = match options.restrict {
        Some(filter) => array! [{ "$match": filter }],
        None => array![],
    };
    let depth_field = options.depth_field.map(components).transpose()?;
    let start = Expr::parse(start, &mut cx.lang())?;
    let inner = Inner::parse(namespace, stages.as_array(), &[], Within::Lookup, cx)?;
    Ok(Box::new(Shared(Arc::new(GraphLookup {
        inner,
        memory_bytes_max: cx.options.memory.graph_lookup,
        to: components(to)?,
        start,
        connect_from: FieldPath::new(connect_from),
        connect_to: FieldPath::new(connect_to),
        depth_max: options.depth_max,
        depth_field,
        text: doc.to_buf(),
    }))))
}

struct Shared(Arc<GraphLookup>);

impl Stage for Shared {
    fn touches(&self, out: &mut Vec<super::Touch>) {
        self.0.inner.touches(out);
    }

    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running {
            input,
            graph: self.0.clone(),
            out: Vec::new(),
            arena: Bump::new(),
            examined: ExecutionStats::default(),
        })
    }

    fn is_one_to_one(&self) -> bool {
        true
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$graphLookup", &self.0.text);
    }
}

struct Running {
    input: Box<dyn Source>,
    graph: Arc<GraphLookup>,
    out: Vec<u8>,
    arena: Bump,
    /// What the searches have read.
    examined: ExecutionStats,
}

/// A value with MongoDB's equality and hash.
struct Item(ValueBuf);

impl PartialEq for Item {
    fn eq(&self, other: &Item) -> bool {
        compare::equal(self.0.value(), other.0.value())
    }
}

impl Eq for Item {}

impl std::hash::Hash for Item {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        compare::hash(self.0.value(), state);
    }
}

type Items = HashSet<Item, foldhash::fast::RandomState>;

/// The state of a search.
#[derive(Default)]
struct Search {
    /// Values that were queried or will be.
    asked: Items,
    /// Values of the next round.
    frontier: Vec<ValueBuf>,
    /// The `_id` of every document found.
    visited: Items,
    found: Vec<DocBuf>,
    held_bytes: usize,
    held: OperatorMemory,
    examined: ExecutionStats,
}

impl Search {
    fn ask(&mut self, value: Value<'_>) {
        let value = ValueBuf::new(value);
        if self.asked.insert(Item(value.clone())) {
            self.held_bytes += 2 * value.heap_bytes() + 64;
            self.frontier.push(value);
        }
    }

    fn ask_all(&mut self, value: Value<'_>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.ask(item)),
            Value::Missing => {}
            value => self.ask(value),
        }
    }

    fn visit(&mut self, doc: Doc<'_>, depth: i64, graph: &GraphLookup) -> Result<()> {
        let id = doc.get("_id");
        if id.is_missing() {
            bail!(
                Code::Location(40271),
                "Documents in the '{}' namespace must contain an _id for de-duplication in \
                 $graphLookup",
                graph.inner.namespace
            );
        }
        if !self.visited.insert(Item(ValueBuf::new(id))) {
            return Ok(());
        }
        let kept = match &graph.depth_field {
            Some(field) => {
                DocBuf::build(|out| write_replaced(out, doc, field, Value::Int64(depth)))
            }
            None => doc.to_buf(),
        };
        self.held_bytes += kept.as_bytes().len() + 128;
        if self.held_bytes > graph.memory_bytes_max {
            bail!(Code::Location(40099), "$graphLookup reached maximum memory consumption");
        }
        self.found.push(kept);
        path::any(doc, &graph.connect_from, Leaf::Whole, &mut |value, _| {
            self.ask_all(value);
            Ok(false)
        })?;
        Ok(())
    }
}

impl Running {
    /// The documents found, and what was read for them.
    fn search(&self, cx: &mut Cx<'_>) -> Result<(Vec<DocBuf>, ExecutionStats)> {
        let graph = &*self.graph;
        let eval = cx.eval_current(&*self.input, &self.arena);
        let mut search = Search::default();
        search.ask_all(graph.start.eval(&eval)?);
        let mut depth = 0;
        while !search.frontier.is_empty() && graph.depth_max.is_none_or(|max| depth <= max) {
            let values = std::mem::take(&mut search.frontier);
            let pred = Pred::In(InList::collated(values, Vec::new(), graph.inner.collation));
            let filter = Filter::Field { path: graph.connect_to.clone(), pred };
            let mut source = graph.inner.open(Some(filter), cx)?;
            while source.advance(cx)? {
                search.visit(source.doc(), depth, graph)?;
                if !search.held.fits(cx, search.held_bytes) {
                    return Err(search.held.full());
                }
            }
            sum_stats(&mut *source, &mut search.examined);
            depth += 1;
        }
        Ok((search.found, search.examined))
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if !self.input.advance(cx)? {
            return Ok(false);
        }
        let (found, examined) = self.search(cx)?;
        self.examined.keys_examined += examined.keys_examined;
        self.examined.docs_examined += examined.docs_examined;
        renew(&mut self.arena);
        self.out.clear();
        // Memory for the array, and for the document that contains it.
        let bytes = found.iter().map(|doc| doc.as_bytes().len()).sum::<usize>();
        cx.writing(2 * bytes)?;
        let found = nagi_bson::ArrayBuf::build(|out| {
            found.iter().for_each(|doc| out.push_doc(doc.as_doc()));
        });
        let mut out = DocWriter::new(&mut self.out);
        write_replaced(&mut out, self.input.doc(), &self.graph.to, Value::Array(found.as_array()));
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn meta(&self) -> Doc<'_> {
        self.input.meta()
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
}

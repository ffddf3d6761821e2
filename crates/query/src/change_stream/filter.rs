//! The conditions of `$match` stages directly behind `$changeStream`, tested before an event is delivered.
//!
//! ```text
//!   of a document of the log     letter, namespace, hash of `_id`     no event is looked at
//!   of an operation              operationType, ns
//!   of the event of all          documentKey, updateDescription, fullDocument, ...    nothing is copied
//! ```
//!
//! The stages remain behind the stream: what is tested here may pass more than they do, and never less. Conditions on
//! documents that a stream looks up are left to them.

use std::cell::RefCell;

use bumpalo::Bump;
use nagi_bson::{Doc, DocWriter, Value, doc};
use nagi_error::Result;
use nagi_lang::filter::{CompareOp, Filter, Pred};
use nagi_store::{IdHash, LogDocument, OpHead};

use super::{
    event,
    operation::{Kind, Operation},
    options::{Scope, StreamOptions},
};
use crate::source::{Cx, renew};

/// The fields that depend on what a stream looks up.
const LOOKED_UP: [&str; 2] = ["fullDocument", "fullDocumentBeforeChange"];

/// What a condition reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reads {
    OperationType,
    Names,
    Event,
    LookedUp,
}

/// See the module's header.
pub(super) struct StreamFilter {
    /// The kinds of events that can match, one bit each.
    kinds: u32,
    names: Vec<Filter>,
    tested: RefCell<Option<TestedNames>>,
    event: Vec<Filter>,
    looked_up: Vec<Filter>,
    id: Option<IdHash>,
    arena: Bump,
}

/// The names that were tested last.
struct TestedNames {
    database: Box<str>,
    collection: Box<str>,
    matched: bool,
}

/// What a condition reads of an event; `None` if that is unknown.
fn reads(filter: &Filter) -> Option<Reads> {
    let of_path = |path: &str| match path.split('.').next().unwrap_or(path) {
        "operationType" if path == "operationType" => Reads::OperationType,
        "ns" => Reads::Names,
        first if LOOKED_UP.contains(&first) => Reads::LookedUp,
        _ => Reads::Event,
    };
    match filter {
        Filter::AlwaysTrue | Filter::AlwaysFalse => Some(Reads::OperationType),
        Filter::And(all) | Filter::Or(all) | Filter::Nor(all) => {
            let mut most = Reads::OperationType;
            let mut only: Option<Reads> = None;
            for part in all {
                let part = reads(part)?;
                let mixed = only.is_some_and(|only| only != part);
                only = Some(part);
                most = most.max(part).max(if mixed { Reads::Event } else { part });
            }
            Some(most)
        }
        Filter::Not(inner) => reads(inner),
        Filter::Field { pred: Pred::Near(_), .. } => None,
        Filter::Field { path, .. } => Some(of_path(path.as_str())),
        Filter::Expr(_)
        | Filter::Given(_)
        | Filter::Schema(_)
        | Filter::Text(_)
        | Filter::Where(_) => None,
    }
}

/// Takes a conjunction apart.
fn conjuncts<'f>(filter: &'f Filter, out: &mut Vec<&'f Filter>) {
    match filter {
        Filter::And(all) => all.iter().for_each(|part| conjuncts(part, out)),
        other => out.push(other),
    }
}

/// The document that a condition requires, by its id.
fn id_of(filter: &Filter) -> Option<IdHash> {
    let Filter::Field { path, pred: Pred::Compare { op: CompareOp::Eq, value, collation: None } } =
        filter
    else {
        return None;
    };
    let value = value.value();
    // An equality with these has other matches, too.
    let exact = !matches!(
        value,
        Value::Null | Value::Missing | Value::Undefined | Value::Array(_) | Value::Regex { .. }
    );
    (exact && path.as_str() == "documentKey._id").then(|| IdHash::of(value))
}

/// The id that the conditions require of a document.
pub(crate) fn wanted_id<'f>(filters: impl Iterator<Item = &'f Filter>) -> Option<IdHash> {
    let mut all = Vec::new();
    filters.for_each(|filter| conjuncts(filter, &mut all));
    all.into_iter().find_map(id_of)
}

impl StreamFilter {
    /// `None` if there is nothing to test.
    pub(super) fn new<'f>(
        filters: impl Iterator<Item = &'f Filter>,
        cx: &Cx<'_>,
    ) -> Result<Option<StreamFilter>> {
        let mut all = Vec::new();
        filters.for_each(|filter| conjuncts(filter, &mut all));
        let id = all.iter().copied().find_map(id_of);
        let mut of = StreamFilter {
            kinds: u32::MAX,
            names: Vec::new(),
            tested: RefCell::new(None),
            event: Vec::new(),
            looked_up: Vec::new(),
            id,
            arena: Bump::new(),
        };
        let mut found = false;
        for filter in all {
            let Some(reads) = reads(filter) else { continue };
            found = true;
            match reads {
                Reads::OperationType => of.keep_kinds(filter, cx)?,
                Reads::Names => of.names.push(filter.clone()),
                Reads::Event => of.event.push(filter.clone()),
                Reads::LookedUp => of.looked_up.push(filter.clone()),
            }
        }
        Ok(found.then_some(of))
    }

    fn keep_kinds(&mut self, filter: &Filter, cx: &Cx<'_>) -> Result<()> {
        for kind in Kind::ALL {
            let event = doc! { "operationType": (kind.name()) };
            if !filter.matches(event.as_doc(), &cx.matching(&self.arena))? {
                self.kinds &= !bit(kind);
            }
        }
        Ok(())
    }

    /// False if no event of the document of the log can match.
    pub(super) fn wants(&self, document: &LogDocument, scope: &Scope) -> bool {
        (0..document.op_count()).any(|at| self.may_match(document.head(at), scope))
    }

    /// False if the event of the operation cannot match, or is not of the scope.
    pub(super) fn may_match(&self, head: OpHead<'_>, scope: &Scope) -> bool {
        let kinds = match head.letter {
            b'i' => bit(Kind::Insert),
            b'u' => bit(Kind::Update) | bit(Kind::Replace),
            b'd' => bit(Kind::Delete),
            b'n' => return false,
            // It may end the stream.
            _ => return true,
        };
        // Changes of views are told otherwise.
        if head.namespace.ends_with(".system.views") {
            return true;
        }
        let within = match scope {
            Scope::Collection(namespace) => head.namespace == namespace.as_str(),
            Scope::Database(_) | Scope::Cluster => true,
        };
        within && kinds & self.kinds != 0 && (self.id.is_none() || head.id == self.id)
    }

    /// False if the event of an operation cannot match.
    pub(super) fn matches_operation(&self, operation: &Operation<'_>, cx: &Cx<'_>) -> Result<bool> {
        if self.kinds & bit(operation.kind) == 0 {
            return Ok(false);
        }
        if self.names.is_empty() {
            return Ok(true);
        }
        let (database, collection) = (operation.database, operation.collection);
        let tested = &mut *self.tested.borrow_mut();
        if let Some(tested) = tested
            && (&*tested.database, &*tested.collection) == (database, collection)
        {
            return Ok(tested.matched);
        }
        let mut event = Vec::new();
        let mut out = DocWriter::new(&mut event);
        event::put_name("ns", (database, collection), &mut out);
        out.finish();
        let matched = self.all(&self.names, Doc::trusted(&event), cx)?;
        let (database, collection) = (database.into(), collection.into());
        *tested = Some(TestedNames { database, collection, matched });
        Ok(matched)
    }

    /// False if an event, as all streams have it, does not match.
    pub(super) fn matches_event(
        &mut self,
        event: Doc<'_>,
        kind: Kind,
        options: &StreamOptions,
        cx: &Cx<'_>,
    ) -> Result<bool> {
        let as_shown = !options.looks_up(kind);
        let matched = self.all(&self.event, event, cx)?
            && (!as_shown || self.all(&self.looked_up, event, cx)?);
        renew(&mut self.arena);
        Ok(matched)
    }

    fn all(&self, filters: &[Filter], event: Doc<'_>, cx: &Cx<'_>) -> Result<bool> {
        for filter in filters {
            if !filter.matches(event, &cx.matching(&self.arena))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn bit(kind: Kind) -> u32 {
    1 << kind as u32
}

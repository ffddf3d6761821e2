//! The arguments of `find`, and their parsed form.

use std::{cell::Cell, sync::Arc};

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Result, bail};
use nagi_lang::{
    collation::{Asked, Collation},
    expr::{LetVars, MetaSet, ParseCx},
    filter::{Allowed, Filter},
    sort::SortSpec,
};
use nagi_store::{Collection, Namespace, RecordKey};

use super::{FindSpec, Hint};
use crate::{
    limits::QueryOptions,
    projection::Projection,
    source::{Env, ScanOptions},
};

/// The arguments of `find` that determine the result. Documents that the command does not have are empty.
#[derive(Debug, Clone, Copy)]
pub struct FindRequest<'a> {
    pub namespace: &'a Namespace,
    pub filter: Doc<'a>,
    pub projection: Doc<'a>,
    pub sort: Doc<'a>,
    pub hint: Option<Hint<'a>>,
    pub skip: u64,
    /// `None`: no limit. (`limit: 0` of the command is none.)
    pub limit: Option<u64>,
    pub min: Doc<'a>,
    pub max: Doc<'a>,
    pub return_key: bool,
    pub show_record_id: bool,
    /// Variables for expressions.
    pub let_vars: Doc<'a>,
    /// Options from the server's parameters.
    pub options: QueryOptions,
    /// The cursor waits at the end of a capped collection.
    pub tailable: bool,
    /// `$_requestResumeToken`: the caller requests [`Execution::resume_token`].
    pub request_token: bool,
    /// `$_resumeAfter`: the record after which the scan begins.
    pub resume_after: Option<RecordKey<'a>>,
    pub collation: Asked,
}

impl<'a> FindRequest<'a> {
    /// A request for all documents of the collection.
    pub fn new(namespace: &'a Namespace) -> FindRequest<'a> {
        FindRequest {
            namespace,
            filter: Doc::EMPTY,
            projection: Doc::EMPTY,
            sort: Doc::EMPTY,
            hint: None,
            skip: 0,
            limit: None,
            min: Doc::EMPTY,
            max: Doc::EMPTY,
            return_key: false,
            show_record_id: false,
            let_vars: Doc::EMPTY,
            options: QueryOptions::DEFAULT,
            tailable: false,
            request_token: false,
            resume_after: None,
            collation: Asked::Inherited,
        }
    }

    /// The `_id` if the request is only a lookup by `_id`, which [`nagi_store::Store::point_read`] can answer.
    pub fn point(&self) -> Option<Value<'a>> {
        let plain = self.projection.is_empty()
            && self.hint.is_none()
            && self.skip == 0
            && !self.return_key
            && !self.show_record_id
            && !self.tailable
            && !self.request_token
            && self.min.is_empty()
            && self.max.is_empty()
            && self.let_vars.is_empty()
            // With the collection's own collation, a lookup by id is correct for any type of id.
            && self.collation == Asked::Inherited;
        if plain { lone_id(self.filter) } else { None }
    }
}

/// The `_id` if the filter is only that, and a value that stands for itself.
pub fn lone_id(filter: Doc<'_>) -> Option<Value<'_>> {
    let mut fields = filter.iter();
    let (Some(first), None) = (fields.next(), fields.next()) else { return None };
    match first.value() {
        _ if first.name() != "_id" => None,
        value @ (Value::Int32(_)
        | Value::Int64(_)
        | Value::String(_)
        | Value::ObjectId(_)
        | Value::Binary(_)
        | Value::DateTime(_)) => Some(value),
        _ => None,
    }
}

/// The parsed arguments.
pub(crate) struct Parsed {
    pub(crate) filter: Arc<Filter>,
    pub(crate) sort: Option<Arc<SortSpec>>,
    pub(crate) projection: Option<Arc<Projection>>,
    pub(crate) lets: LetVars,
    /// Requested metadata.
    pub(crate) metas: MetaSet,
    /// `sort: {$natural: 1}` or -1: collection order, forward or backward.
    pub(crate) natural: Option<bool>,
}

pub(crate) fn parse(
    request: &FindRequest<'_>,
    collation: Option<&'static Collation>,
    env: &Env<'_>,
) -> Result<Parsed> {
    let lets = LetVars::parse(request.let_vars, env.now_ms(), collation)?;
    let noted = Cell::default();
    let mut cx = ParseCx::with_let(lets.names())
        .collated(collation)
        .with_scripts(env.scripts().is_some())
        .noting(&noted);
    let filter = Filter::parse_with(request.filter, &mut cx, Allowed::WITH_NEAR)?.normalize();
    let natural = natural(request.sort)?;
    let sort = match natural {
        Some(_) => None,
        None => parse_sort(request.sort, collation, filter.metas())?,
    };
    let projection = Projection::parse(request.projection, &filter, &mut cx)?.map(Arc::new);
    if sort.is_none() && projection.as_ref().is_some_and(|shape| shape.needs_sort_key()) {
        bail!(Code::Location(40218), "query requires sort key metadata, but it is not available");
    }
    noted.get().check(filter.metas())?;
    let metas = noted.get() | sort.as_ref().map_or(MetaSet::NONE, |sort| sort.metas());
    Ok(Parsed { filter: Arc::new(filter), sort, projection, lets, metas, natural })
}

/// The sort of a request whose filter provides the metadata `available`.
pub(crate) fn parse_sort(
    sort: Doc<'_>,
    collation: Option<&'static Collation>,
    available: MetaSet,
) -> Result<Option<Arc<SortSpec>>> {
    let spec = SortSpec::parse(sort)?.collated(collation);
    spec.metas().check(available)?;
    Ok((!spec.is_empty()).then(|| Arc::new(spec)))
}

/// The direction of `{$natural: 1}`.
fn natural(sort: Doc<'_>) -> Result<Option<bool>> {
    if sort.element("$natural").is_none() {
        return Ok(None);
    }
    let direction = sort.first().and_then(|part| nagi_bson::number::as_f64(part.value()));
    match direction {
        Some(1.0) if sort.count() == 1 => Ok(Some(true)),
        Some(-1.0) if sort.count() == 1 => Ok(Some(false)),
        _ if sort.count() > 1 => bail!(
            Code::BAD_VALUE,
            "Cannot include '$natural' in compound sort: {}",
            nagi_bson::text::doc_text(sort)
        ),
        _ => bail!(Code::BAD_VALUE, "$natural sort cannot be set to a value other than -1 or 1."),
    }
}

pub(crate) fn spec<'a>(
    request: &FindRequest<'a>,
    parsed: &Parsed,
    collection: Option<Arc<Collection>>,
) -> FindSpec<'a> {
    FindSpec {
        sort: parsed.sort.clone(),
        projection: parsed.projection.clone(),
        natural: parsed.natural,
        needed: parsed.projection.as_ref().and_then(|projection| projection.included()),
        metas: parsed.metas,
        skip: request.skip,
        limit: request.limit,
        hint: request.hint,
        min: request.min,
        max: request.max,
        return_key: request.return_key,
        show_record_id: request.show_record_id,
        options: request.options,
        scan: ScanOptions {
            tailable: request.tailable,
            tracked: request.request_token,
            resume_after: request.resume_after.map(RecordKey::to_id),
        },
        ..FindSpec::new(collection, parsed.filter.clone())
    }
}

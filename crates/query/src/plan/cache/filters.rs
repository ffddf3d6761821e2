//! Index filters: the indexes that plans of a query shape may use. They override a hint.
//!
//! They are kept in memory with the collection, as in MongoDB, and are lost at a restart. Servers that share the data
//! store them, too, each as a document, and install what is stored:
//!
//!   {_id: {collection: UUID, shape: Long}, query, sort, projection, collation, indexes: [..]}

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use nagi_bson::{Array, ArrayWriter, Binary, Doc, DocBuf, DocWriter, Value};
use nagi_budget::{Charge, Pool};
use nagi_error::{Code, Result, bail};
use nagi_lang::collation::Asked;
use nagi_store::{Collection, Namespace, Store, Uuid};
use parking_lot::RwLock;

use super::{PlanCache, Shape};
use crate::{
    access::{Allowed, AllowedIndexes},
    collating,
    plan::find::FindRequest,
    source::Env,
};

/// Fields of stored filters.
const COLLECTION: &str = "collection";
const SHAPE: &str = "shape";
const INDEXES: &str = "indexes";

/// A query shape, as the plan cache commands specify it.
#[derive(Debug, Clone, Copy)]
pub struct ShapeRequest<'a> {
    pub query: Doc<'a>,
    pub sort: Doc<'a>,
    pub projection: Doc<'a>,
    pub collation: Option<Doc<'a>>,
}

/// The index filters of a collection.
#[derive(Default)]
pub(crate) struct IndexFilters {
    /// Number of filters: the usual case of none costs one load.
    count: AtomicUsize,
    by_shape: RwLock<BTreeMap<u64, Arc<IndexFilter>>>,
}

/// The indexes that one shape may use.
pub(crate) struct IndexFilter {
    /// `{query, sort, projection, collation}`.
    request: DocBuf,
    allowed: AllowedIndexes,
    /// Its charge in the memory budget.
    _memory: Charge,
}

impl IndexFilter {
    pub(crate) fn allowed(&self) -> &AllowedIndexes {
        &self.allowed
    }
}

impl IndexFilters {
    /// The filter of a shape.
    pub(crate) fn of(collection: &Collection, shape: u64) -> Option<Arc<IndexFilter>> {
        let filters = collection.annotations().get::<IndexFilters>()?;
        match filters.count.load(Relaxed) {
            0 => None,
            _ => filters.by_shape.read().get(&shape).cloned(),
        }
    }

    /// Returns true if the collection has any index filter.
    pub(crate) fn has_any(collection: &Collection) -> bool {
        let filters = collection.annotations().get::<IndexFilters>();
        filters.is_some_and(|filters| filters.count.load(Relaxed) > 0)
    }

    fn change<T>(&self, f: impl FnOnce(&mut BTreeMap<u64, Arc<IndexFilter>>) -> T) -> T {
        let mut filters = self.by_shape.write();
        let out = f(&mut filters);
        self.count.store(filters.len(), Relaxed);
        out
    }
}

/// The shape of a request, computed as for queries that are run.
fn shape(
    namespace: &Namespace,
    collection: &Arc<Collection>,
    request: &ShapeRequest<'_>,
    env: &Env<'_>,
) -> Result<u64> {
    let asked = Asked::parse(request.collation)?;
    let find = FindRequest {
        filter: request.query,
        sort: request.sort,
        projection: request.projection,
        collation: asked,
        ..FindRequest::new(namespace)
    };
    let parsed = crate::plan::find::parse(&find, collating::of(Some(collection), asked)?, env)?;
    let spec = crate::plan::find::spec(&find, &parsed, Some(Arc::clone(collection)));
    Ok(Shape::of(&spec).shape)
}

/// Drops the cached plans of a collection, or those of one shape. Without such a collection it does nothing.
///
/// # Errors
/// The errors of parsing the shape.
pub fn clear_plans(
    store: &Store,
    namespace: &Namespace,
    request: Option<&ShapeRequest<'_>>,
    env: &Env<'_>,
) -> Result<()> {
    if let Some((collection, shape)) = named(store, namespace, request, env)? {
        forget(&collection, shape);
    }
    Ok(())
}

/// The collection, and the shape of the request if there is one; none if there is no such collection.
fn named(
    store: &Store,
    namespace: &Namespace,
    request: Option<&ShapeRequest<'_>>,
    env: &Env<'_>,
) -> Result<Option<(Arc<Collection>, Option<u64>)>> {
    let Some(collection) = store.collection(namespace) else { return Ok(None) };
    let shape = request.map(|request| shape(namespace, &collection, request, env)).transpose()?;
    Ok(Some((collection, shape)))
}

/// Restricts queries of a shape to these indexes: names or key patterns.
///
/// # Errors
/// 2 if there is no such collection or the list of indexes is wrong; 146 if the memory budget lacks the capacity;
/// errors of parsing the shape.
pub fn set_index_filter(
    store: &Store,
    namespace: &Namespace,
    request: &ShapeRequest<'_>,
    indexes: Array<'_>,
    env: &Env<'_>,
) -> Result<()> {
    let (collection, shape) = checked(store, namespace, request, indexes, env)?;
    let kept = DocBuf::build(|out| write_request(request, out));
    let filter = made(store, kept, indexes)?;
    let filters = collection.annotations().get_or_make::<IndexFilters>();
    filters.change(|filters| filters.insert(shape, filter));
    forget(&collection, Some(shape));
    Ok(())
}

/// The collection, and the shape of the request.
fn checked(
    store: &Store,
    namespace: &Namespace,
    request: &ShapeRequest<'_>,
    indexes: Array<'_>,
    env: &Env<'_>,
) -> Result<(Arc<Collection>, u64)> {
    let Some(collection) = store.collection(namespace) else {
        bail!(Code::BAD_VALUE, "no such collection");
    };
    indexes.iter().try_for_each(|index| allowed(index).map(drop))?;
    if indexes.is_empty() {
        bail!(Code::BAD_VALUE, "required field indexes must contain at least one index");
    }
    let shape = shape(namespace, &collection, request, env)?;
    Ok((collection, shape))
}

fn write_request(request: &ShapeRequest<'_>, out: &mut DocWriter<'_>) {
    out.put("query", request.query);
    out.put("sort", request.sort);
    out.put("projection", request.projection);
    if let Some(collation) = request.collation.filter(|collation| !collation.is_empty()) {
        out.put("collation", collation);
    }
}

/// A filter with its charge in the memory budget.
fn made(store: &Store, kept: DocBuf, indexes: Array<'_>) -> Result<Arc<IndexFilter>> {
    let indexes = indexes.iter().map(allowed).collect::<Result<Box<[Allowed]>>>()?;
    let names = indexes.iter().map(|allowed| match allowed {
        Allowed::Name(name) => name.len(),
        Allowed::Key(key) => key.as_bytes().len(),
    });
    let bytes = kept.as_bytes().len() + names.sum::<usize>() + size_of::<IndexFilter>();
    let mut charge = Charge::empty(store.budget(), Pool::Plans);
    if !charge.try_grow(bytes as u64) {
        bail!(Code::EXCEEDED_MEMORY_LIMIT, "no memory is left for index filters");
    }
    let allowed = AllowedIndexes { list: indexes, natural: None };
    Ok(Arc::new(IndexFilter { request: kept, allowed, _memory: charge }))
}

/// The document of an index filter, for servers that share the data. Nothing is changed.
///
/// # Errors
/// Those of [`set_index_filter`], except for lack of memory.
pub fn index_filter_document(
    store: &Store,
    namespace: &Namespace,
    request: &ShapeRequest<'_>,
    indexes: Array<'_>,
    env: &Env<'_>,
) -> Result<DocBuf> {
    let (collection, shape) = checked(store, namespace, request, indexes, env)?;
    Ok(DocBuf::build(|out| {
        out.doc("_id", |out| {
            out.put(COLLECTION, uuid(&collection.uuid));
            out.put(SHAPE, shape.cast_signed());
        });
        write_request(request, out);
        out.put(INDEXES, indexes);
    }))
}

/// Returns what tells the documents of the filters of a collection, or that of one shape; none if there is no such
/// collection.
///
/// # Errors
/// Errors of parsing the shape.
pub fn index_filter_ids(
    store: &Store,
    namespace: &Namespace,
    request: Option<&ShapeRequest<'_>>,
    env: &Env<'_>,
) -> Result<Option<impl Fn(Doc<'_>) -> bool + use<>>> {
    let found = named(store, namespace, request, env)?;
    Ok(found.map(|(collection, shape)| {
        let of = collection.uuid;
        move |doc: Doc<'_>| {
            id_of(doc).is_some_and(|id| id.0 == of && shape.is_none_or(|shape| id.1 == shape))
        }
    }))
}

/// The collection of a stored filter, and its shape.
fn id_of(doc: Doc<'_>) -> Option<(Uuid, u64)> {
    let id = doc.get("_id").as_doc()?;
    match (id.get(COLLECTION), id.get(SHAPE)) {
        (Value::Binary(uuid), Value::Int64(shape)) => {
            Some((Uuid(uuid.bytes.try_into().ok()?), shape.cast_unsigned()))
        }
        _ => None,
    }
}

fn uuid(uuid: &Uuid) -> Value<'_> {
    Value::Binary(Binary { subtype: 4, bytes: &uuid.0 })
}

/// True for the document of a filter whose collection does not exist any more.
pub fn is_index_filter_of_none(store: &Store, doc: Doc<'_>) -> bool {
    id_of(doc).is_none_or(|(uuid, _)| store.catalog().by_uuid(uuid).is_none())
}

/// Makes the stored filters those of all collections. Returns how many could not be used, because they are damaged, or
/// for lack of memory.
pub fn install_index_filters(store: &Store, stored: &[DocBuf]) -> usize {
    let mut by_collection: BTreeMap<[u8; 16], BTreeMap<u64, Arc<IndexFilter>>> = BTreeMap::new();
    let mut unusable = 0;
    for doc in stored.iter().map(DocBuf::as_doc) {
        let Some((uuid, shape)) = id_of(doc) else { continue };
        let of = |field: &nagi_bson::Element<'_>| !["_id", INDEXES].contains(&field.name());
        let kept =
            DocBuf::build(|out| doc.iter().filter(of).for_each(|field| out.put_element(field)));
        match made(store, kept, doc.get(INDEXES).as_array().unwrap_or(Array::EMPTY)) {
            Ok(filter) => drop(by_collection.entry(uuid.0).or_default().insert(shape, filter)),
            Err(_) => unusable += 1,
        }
    }
    for collection in store.catalog().iter() {
        let new = by_collection.remove(&collection.uuid.0).unwrap_or_default();
        if new.is_empty() && !IndexFilters::has_any(collection) {
            continue;
        }
        let filters = collection.annotations().get_or_make::<IndexFilters>();
        filters.change(|filters| *filters = new);
        forget(collection, None);
    }
    unusable
}

fn allowed(value: Value<'_>) -> Result<Allowed> {
    match value {
        Value::String(name) => Ok(Allowed::Name(name.into())),
        Value::Doc(key) if key.is_empty() => {
            bail!(Code::BAD_VALUE, "index filter cannot be an empty key pattern")
        }
        Value::Doc(key) => Ok(Allowed::Key(key.to_buf())),
        _ => bail!(Code::BAD_VALUE, "each item in indexes must be an object or string"),
    }
}

fn forget(collection: &Collection, shape: Option<u64>) {
    if let Some(cache) = collection.version_annotations.get::<PlanCache>() {
        cache.clear(shape);
    }
}

/// Removes the index filter of a shape, or all.
///
/// # Errors
/// Errors of parsing the shape.
pub fn clear_index_filters(
    store: &Store,
    namespace: &Namespace,
    request: Option<&ShapeRequest<'_>>,
    env: &Env<'_>,
) -> Result<()> {
    let Some((collection, shape)) = named(store, namespace, request, env)? else { return Ok(()) };
    let Some(filters) = collection.annotations().get::<IndexFilters>() else { return Ok(()) };
    filters.change(|filters| match shape {
        Some(shape) => drop(filters.remove(&shape)),
        None => filters.clear(),
    });
    forget(&collection, shape);
    Ok(())
}

/// Writes `{query, sort, projection, collation, indexes}` for each index filter of the collection.
pub fn list_index_filters(store: &Store, namespace: &Namespace, out: &mut ArrayWriter<'_>) {
    let Some(collection) = store.collection(namespace) else { return };
    let Some(filters) = collection.annotations().get::<IndexFilters>() else { return };
    for filter in filters.by_shape.read().values() {
        out.doc(|out| {
            out.extend(filter.request.as_doc());
            out.array("indexes", |out| {
                for allowed in &filter.allowed.list {
                    match allowed {
                        Allowed::Name(name) => out.push(&**name),
                        Allowed::Key(key) => out.push_doc(key.as_doc()),
                    }
                }
            });
        });
    }
}

//! The catalog: databases, collections, indexes. A version is immutable; a request uses one version.

mod arrivals;
mod bucket_facts;
mod cells;
mod clustered;
mod gate;
mod images;
pub(crate) mod names;
mod numbers;
mod options;
mod persist;
mod reload;
mod state;
mod validity;
pub(crate) mod view_graph;

use std::{fmt, ops::Deref, sync::Arc};

use nagi_bson::{Binary, Doc, DocBuf, Value};
use nagi_error::{Code, Result, bail, err};
use nagi_kv::Space;

pub use arrivals::Arrivals;
pub use bucket_facts::BucketFacts;
pub(crate) use bucket_facts::StoredFacts;
pub(crate) use clustered::{listed as clustered_listed, without_clustered};
pub(crate) use gate::Pass;
pub(crate) use images::{ImageAge, ImageSource};
pub(crate) use numbers::stored_next;
pub(crate) use options::table_options;
pub use options::{CollectionOptions, ValidationAction, ValidationLevel, ViewOptions};
pub(crate) use persist::{
    LAYOUT_IDS, check_entry, is_striped_format, load, load_counters, namespace_of,
    put_striped_format, stored_ident,
};
pub(crate) use reload::Reloaded;
pub(crate) use state::CollectionState;

use names::Names;

use crate::{
    Index, Namespace, annotations::Annotations, ident::Ident, index::precondition::Precondition,
    record_key::Layout,
};

/// A collection's identity; subtype 4 binary on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

/// One version of the catalog. Clones share everything.
#[derive(Clone, Default)]
pub struct Catalog {
    pub(crate) names: Names,
}

impl Catalog {
    pub fn collection(&self, namespace: &Namespace) -> Option<&Arc<Collection>> {
        self.names.get(namespace)
    }

    /// A copy with a collection that only one transaction knows.
    pub(crate) fn with(&self, collection: &Arc<Collection>) -> Catalog {
        let mut with = self.clone();
        with.names.put(collection);
        with
    }

    /// Refuses (361) a collection with another UUID than the client expects.
    pub fn check_uuid(&self, namespace: &Namespace, expected: Option<Uuid>) -> Result<()> {
        let Some(expected) = expected else { return Ok(()) };
        if self.collection(namespace).is_some_and(|collection| collection.uuid == expected) {
            return Ok(());
        }
        let actual = self.by_uuid(expected);
        let actual = actual.filter(|c| c.namespace.database() == namespace.database());
        let info = DocBuf::build(|w| {
            w.put("db", namespace.database());
            w.put("collectionUUID", Value::Binary(Binary { subtype: 4, bytes: &expected.0 }));
            w.put("expectedCollection", namespace.collection());
            w.put(
                "actualCollection",
                actual.map_or(Value::Null, |c| Value::String(c.namespace.collection())),
            );
        });
        let text = "Collection UUID does not match that specified";
        Err(err!(Code::COLLECTION_UUID_MISMATCH, "{text}").with_info(info))
    }

    pub fn by_uuid(&self, uuid: Uuid) -> Option<&Arc<Collection>> {
        self.names.by_uuid(uuid)
    }

    /// Names of the databases that have a collection, in the order of their lower-case forms.
    pub fn databases(&self) -> impl Iterator<Item = &str> {
        self.names.databases()
    }

    /// The collections and views of a database, sorted by name.
    pub fn database<'c>(&'c self, name: &'c str) -> impl Iterator<Item = &'c Arc<Collection>> {
        self.names.database(name)
    }

    /// The views of a database, sorted by name.
    pub fn views<'c>(&'c self, name: &'c str) -> impl Iterator<Item = &'c Arc<Collection>> {
        self.names.views(name)
    }

    /// Every collection and view, sorted by namespace.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Collection>> {
        self.names.iter()
    }
}

/// A collection or a view: a handle of one of its versions. Handles of a version are equal; there are several, so that
/// requests on different cores do not count references on one cache line.
pub struct Collection(Arc<CollectionVersion>);

/// One version of a collection. Immutable; DDL makes the next one.
pub struct CollectionVersion {
    pub uuid: Uuid,
    pub namespace: Namespace,
    pub options: CollectionOptions,
    /// `_id_` first; includes unfinished ones. Empty for a view.
    pub indexes: Box<[Arc<Index>]>,
    pub(crate) ident: Ident,
    /// The space of its records, which depends on its compressor.
    pub(crate) space: Space,
    /// The kind of key that its records have.
    pub(crate) layout: Layout,
    pub(crate) state: Arc<CollectionState>,
    pub(crate) validator: Option<Precondition>,
    /// An extension slot for planning, bound to this version: it is dropped when indexes or options change.
    pub version_annotations: Annotations,
}

impl Deref for Collection {
    type Target = CollectionVersion;

    fn deref(&self) -> &CollectionVersion {
        &self.0
    }
}

impl Collection {
    /// The first handle of a version.
    pub(crate) fn new(version: CollectionVersion) -> Arc<Collection> {
        Arc::new(Collection(Arc::new(version)))
    }

    /// Another handle of the same version.
    fn another(&self) -> Collection {
        Collection(Arc::clone(&self.0))
    }

    /// Returns true if both are handles of one version.
    pub(crate) fn is_same(&self, other: &Collection) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl CollectionVersion {
    pub fn is_view(&self) -> bool {
        self.options.view.is_some()
    }

    /// True for a view of the name and on the buckets of a time series.
    pub fn shows_series(&self) -> bool {
        self.options.view.as_ref().is_some_and(|view| {
            let of_buckets = view.on.collection().strip_prefix("system.buckets.");
            of_buckets == Some(self.namespace.collection())
        })
    }

    /// True for the collection that shows the change log: its record keys are stamps.
    pub fn is_change_log(&self) -> bool {
        self.layout == Layout::Stamps
    }

    /// True for the collection that shows the pre-images in the change log.
    pub fn is_pre_images(&self) -> bool {
        self.layout == Layout::PreImages
    }

    /// True if its records are those of the change log.
    pub fn shows_log(&self) -> bool {
        self.is_change_log() || self.is_pre_images()
    }

    /// The index on `_id`; none for a view.
    pub fn id_index(&self) -> Option<&Arc<Index>> {
        self.indexes.iter().find(|index| index.spec.is_id())
    }

    pub fn index(&self, name: &str) -> Option<&Arc<Index>> {
        self.named_indexes().find(|index| index.name() == name)
    }

    /// The indexes that clients know: each name once, ready or unfinished.
    pub fn named_indexes(&self) -> impl Iterator<Item = &Arc<Index>> {
        self.indexes.iter().filter(|index| !index.is_copy())
    }

    /// The indexes with entries of their own, which writers maintain; not one whose entries are the records.
    pub(crate) fn written_indexes(&self) -> impl Iterator<Item = &Arc<Index>> {
        self.indexes.iter().filter(|index| !index.is_of_records())
    }

    /// The indexes that reads may use.
    pub fn ready_indexes(&self) -> impl Iterator<Item = &Arc<Index>> {
        self.indexes.iter().filter(|index| index.ready)
    }

    /// The id of an index's build in listings: constant during the build, and equal for all indexes of one request.
    pub fn build_uuid(&self, index: &Index) -> Uuid {
        let mut uuid = self.uuid;
        let build = index.building.map_or(index.ident, |building| building.build);
        for (byte, own) in uuid.0[12..].iter_mut().zip(build.0.to_be_bytes()) {
            *byte ^= own;
        }
        uuid
    }

    /// Refuses operations that MongoDB refuses while indexes of the collection are being built (12587).
    pub(crate) fn refuse_while_building(&self) -> Result<()> {
        let Some(index) = self.indexes.iter().find(|index| !index.ready) else { return Ok(()) };
        bail!(
            Code::BACKGROUND_OPERATION_IN_PROGRESS_FOR_NAMESPACE,
            "cannot perform operation: an index build is currently running for collection \
             '{}'. Found index build: {}",
            self.namespace,
            self.build_uuid(index)
        );
    }

    /// An extension slot for the upper layer, for as long as the collection exists and the server runs.
    pub fn annotations(&self) -> &Annotations {
        &self.state.annotations
    }

    /// The same for writes.
    pub fn write_annotations(&self) -> &Annotations {
        &self.state.write_annotations
    }

    /// Notifies of inserts into a capped collection, and of its drop.
    pub fn arrivals(&self) -> &Arc<Arrivals> {
        &self.state.arrivals
    }

    /// Number of documents, exact as of the newest commit of this node; those of other nodes are some seconds late
    /// (`Store::counts` is not). Costs nothing.
    pub fn count(&self) -> i64 {
        self.state.counters().0
    }

    /// Sum of the documents' sizes in bytes, as late. Costs nothing.
    pub fn data_bytes(&self) -> i64 {
        self.state.counters().1
    }

    /// Average length of a document.
    pub fn mean_bytes(&self) -> usize {
        usize::try_from(self.data_bytes() / self.count().max(1)).unwrap_or(0)
    }
}

/// Statistics of a collection. Count and data size are exact, the rest are estimates; cheap.
#[derive(Clone, Debug, Default)]
pub struct CollectionStats {
    pub count: i64,
    pub data_bytes: i64,
    pub storage_bytes: i64,
    /// The part of `storage_bytes` that `compact` would release.
    pub free_bytes: i64,
    /// Name and size on disk.
    pub index_bytes: Vec<(Box<str>, i64)>,
    /// In the same order, the bytes that `compact` would release.
    pub index_free_bytes: Vec<i64>,
}

/// What of a collection or an index is in the caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CachedStats {
    /// Blocks of files, documents, and unwritten changes.
    pub bytes: i64,
    /// The part of `bytes` that is not in files yet; an estimate.
    pub dirty_bytes: i64,
}

impl CollectionStats {
    /// Bytes of all indexes.
    pub fn indexes_bytes(&self) -> i64 {
        self.index_bytes.iter().map(|index| index.1).sum()
    }

    /// The bytes that `compact` would release in all indexes.
    pub fn indexes_free_bytes(&self) -> i64 {
        self.index_free_bytes.iter().sum()
    }
}

/// The reply of `createIndexes`.
#[derive(Clone, Debug)]
pub struct CreatedIndexes {
    pub before: usize,
    pub after: usize,
    pub created_collection: bool,
}

/// The indexes to drop.
#[derive(Clone, Debug)]
pub enum IndexSelector<'a> {
    /// `"*"`: all but `_id_`.
    All,
    Name(&'a str),
    Names(Vec<&'a str>),
    Key(Doc<'a>),
}

/// The changes of `collMod`; absent fields stay unchanged.
#[derive(Clone, Default)]
pub struct CollMod<'a> {
    /// The UUID that the client expects; another collection is error 361.
    pub uuid: Option<Uuid>,
    pub index: Option<Doc<'a>>,
    pub validator: Option<Doc<'a>>,
    pub validation_level: Option<&'a str>,
    pub validation_action: Option<&'a str>,
    pub view_on: Option<&'a str>,
    pub pipeline: Option<nagi_bson::Array<'a>>,
    pub pre_images: Option<Doc<'a>>,
    pub capped_size: Option<i64>,
    pub capped_max: Option<i64>,
    /// `timeseries`, for the buckets of a time series collection.
    pub timeseries: Option<Doc<'a>>,
    /// `expireAfterSeconds` of a clustered collection; [`Value::Missing`] turns it off.
    pub expire_after_seconds: Option<Value<'a>>,
    /// Checks everything, changes nothing.
    pub dry_run: bool,
    /// Polled while an index is read in order to become unique; an error cancels that.
    pub interrupt: Option<&'a dyn Fn() -> Result<()>>,
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Uuid {
    /// A new random one (version 4).
    pub fn random() -> Uuid {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&crate::clock::random().to_be_bytes());
        bytes[8..].copy_from_slice(&crate::clock::random().to_be_bytes());
        bytes[6] = (bytes[6] & 0x0F) | 0x40;
        bytes[8] = (bytes[8] & 0x3F) | 0x80;
        Uuid(bytes)
    }
}

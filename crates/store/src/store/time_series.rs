//! Time series collections: a view that clients use, and the collection with the buckets under it.
//!
//! ```text
//!   db.c                  a view on db.system.buckets.c whose pipeline returns the measurements of the buckets
//!   db.system.buckets.c   the buckets, clustered by _id, with an index on metadata and time
//! ```
//!
//! Both are ordinary entries of the catalog, as in MongoDB before 8.2, and are created and dropped together. The
//! options of the time series are stored with the buckets.

use std::sync::Arc;

use nagi_bson::{Array, Doc, DocBuf, DocWriter, Value};
use nagi_error::{Code, Error, Result, bail};
use nagi_kv::Durability;
use nagi_timeseries::Options;

use crate::{
    Catalog, Collection, CollectionOptions, Index, IndexSpec, Namespace, Store,
    catalog::CollectionVersion,
    index::{Multikey, multikey_words},
    store::ddl::{Ddl, create, made, same_options},
};

impl Catalog {
    /// The collection with the buckets of a time series collection; none for a name that is no time series collection.
    pub fn buckets_of(&self, namespace: &Namespace) -> Option<&Arc<Collection>> {
        let view = self.collection(namespace)?.options.view.as_ref()?;
        // Compared without allocating: each write asks.
        let is_own =
            view.on.collection().strip_prefix("system.buckets.") == Some(namespace.collection());
        self.collection(&view.on).filter(|buckets| is_own && buckets.options.timeseries.is_some())
    }

    /// The buckets of a time series whose view is missing: they were created by their own name, or restored. None for
    /// a name that something has.
    pub(super) fn lone_buckets_of(&self, namespace: &Namespace) -> Option<&Arc<Collection>> {
        if self.collection(namespace).is_some() || namespace.is_buckets() {
            return None;
        }
        let name = namespace.buckets().ok()?;
        self.collection(&name).filter(|buckets| buckets.options.timeseries.is_some())
    }

    /// Refuses a name for anything but a time series if there are its buckets (48).
    pub(crate) fn refuse_beside_buckets(&self, namespace: &Namespace) -> Result<()> {
        match self.lone_buckets_of(namespace) {
            None => Ok(()),
            Some(buckets) => bail!(
                Code::NAMESPACE_EXISTS,
                "Conflicting namespace already exists :: caused by :: Collection {} already exists.",
                buckets.namespace
            ),
        }
    }
}

impl Store {
    /// The collection with the buckets of a time series collection; none for a name that is no time series collection.
    pub fn buckets_of(&self, namespace: &Namespace) -> Option<Arc<Collection>> {
        let view = self.collection(namespace).filter(|found| found.is_view())?;
        self.catalog().buckets_of(&view.namespace).cloned()
    }

    /// The buckets that writes to a name change: those of a time series collection, and those whose view is missing.
    pub fn written_buckets_of(&self, namespace: &Namespace) -> Option<Arc<Collection>> {
        match self.collection(namespace) {
            Some(found) if found.is_view() => self.buckets_of(namespace),
            Some(_) => None,
            None => self.catalog().lone_buckets_of(namespace).cloned(),
        }
    }

    /// Refuses to create anything but a time series where the buckets of one are.
    ///
    /// # Errors
    /// 48.
    pub fn refuse_beside_buckets(&self, namespace: &Namespace) -> Result<()> {
        self.catalog().refuse_beside_buckets(namespace)
    }

    /// Creates a time series collection; `given` are all its options. Returns the view. For the name of its buckets,
    /// only these are created and returned.
    ///
    /// # Errors
    /// 48 if there is something else of that name, 73 if the name is too long for the buckets.
    pub(super) fn create_time_series(
        &self,
        namespace: &Namespace,
        given: &CollectionOptions,
        durability: Durability,
    ) -> Result<Arc<Collection>> {
        let Some(options) = &given.timeseries else { bail!(Code::BAD_VALUE, "no time series") };
        if namespace.is_buckets() {
            return self.create_lone_buckets(namespace, (given, options), durability);
        }
        let name = namespace.buckets()?;
        let given = given.doc.as_doc();
        let of_buckets = CollectionOptions::parse(buckets_options(given, options).as_doc(), &name)?;
        let of_view =
            CollectionOptions::parse(view_options(given, options, &name).as_doc(), namespace)?;
        let mut ddl = Ddl::begin(self)?;
        let (view, buckets) = (ddl.collection(namespace), ddl.collection(&name));
        if let Some(buckets) = &buckets {
            same_options(Arc::clone(buckets), &of_buckets)?;
        }
        if let Some(view) = view {
            // After a change of the granularity, the view that would be created has another pipeline.
            return match buckets.is_some() {
                true => Ok(view),
                false => same_options(view, &of_view),
            };
        }
        if buckets.is_none() {
            create_buckets(&mut ddl, &name, of_buckets, options)?;
        }
        let view = create(&mut ddl, namespace, of_view, None)?;
        ddl.finish_with(durability)?;
        log::info!(target: "STORAGE", id = 20320, namespace = namespace.as_str(),
            uuid:% = view.uuid; "createCollection");
        Ok(view)
    }

    /// Creates buckets as they are below a time series collection, which can be added later.
    fn create_lone_buckets(
        &self,
        namespace: &Namespace,
        (given, options): (&CollectionOptions, &Options),
        durability: Durability,
    ) -> Result<Arc<Collection>> {
        let all = buckets_options(given.doc.as_doc(), options);
        let all = CollectionOptions::parse(all.as_doc(), namespace)?;
        let mut ddl = Ddl::begin(self)?;
        if let Some(existing) = ddl.collection(namespace) {
            return same_options(existing, &all);
        }
        create_buckets(&mut ddl, namespace, all, options)?;
        ddl.finish_with(durability)?;
        self.collection(namespace).ok_or_else(|| Error::bug("created buckets are missing"))
    }
}

/// Two changes, so that the log has the index, too.
fn create_buckets(
    ddl: &mut Ddl<'_>,
    name: &Namespace,
    all: CollectionOptions,
    options: &Options,
) -> Result<()> {
    let buckets = made(ddl, name, all, None)?;
    let buckets = ddl.put(buckets)?;
    if let Some(buckets) = with_index(ddl, &buckets, options)? {
        ddl.put(buckets)?;
    }
    Ok(())
}

impl Ddl<'_> {
    /// What is dropped together with a collection: the buckets of a time series collection, and its view with them.
    pub(crate) fn other_half(&self, collection: &Collection) -> Option<Arc<Collection>> {
        other_half(&self.catalog, collection)
    }
}

/// The other one of a view and its buckets.
pub(crate) fn other_half(catalog: &Catalog, collection: &Collection) -> Option<Arc<Collection>> {
    if collection.is_view() {
        return catalog.buckets_of(&collection.namespace).cloned();
    }
    let view = collection.namespace.of_buckets()?;
    catalog.buckets_of(&view)?;
    catalog.collection(&view).cloned()
}

/// Adds the index that finds the bucket for a measurement, if there is metadata.
fn with_index(
    ddl: &mut Ddl<'_>,
    buckets: &Collection,
    options: &Options,
) -> Result<Option<CollectionVersion>> {
    let Some(spec) = first_index(options) else { return Ok(None) };
    let collation = buckets.options.collation;
    let spec = IndexSpec::parse_with(spec.as_doc(), &buckets.namespace, false, collation)?;
    let multikey = Arc::new(Multikey::new(multikey_words(&spec)));
    let index = Index::new(spec, true, ddl.ident()?, multikey)?;
    let index = index.of_records(buckets.layout, (buckets.space, buckets.ident));
    let indexes = buckets.indexes.iter().cloned().chain([Arc::new(index)]).collect();
    Ok(Some(buckets.with_indexes(indexes)))
}

/// The index on metadata and time that a new collection has.
pub(crate) fn first_index(options: &Options) -> Option<DocBuf> {
    let (meta, time) = (options.meta_field.as_ref()?, &options.time_field);
    Some(DocBuf::build(|out| {
        out.put("v", 2);
        out.doc("key", |out| {
            out.put("meta", 1);
            out.put(&format!("control.min.{time}"), 1);
            out.put(&format!("control.max.{time}"), 1);
        });
        out.put("name", &format!("{meta}_1_{time}_1"));
    }))
}

/// The options of the buckets: those given, and what makes them buckets.
pub(crate) fn buckets_options(given: Doc<'_>, options: &Options) -> DocBuf {
    DocBuf::build(|out| {
        out.put("validator", &validator(&options.time_field));
        out.put("clusteredIndex", true);
        for element in given.iter().filter(|element| element.name() != "temp") {
            out.put_element(element);
        }
    })
}

/// The options of the view on `buckets`.
pub(crate) fn view_options(given: Doc<'_>, options: &Options, buckets: &Namespace) -> DocBuf {
    DocBuf::build(|out| {
        out.put("viewOn", buckets.collection());
        out.put("pipeline", Value::Array(view_pipeline(options).as_array()));
        out.put("collation", given.get("collation"));
    })
}

/// The pipeline of the view.
pub(crate) fn view_pipeline(options: &Options) -> nagi_bson::ArrayBuf {
    nagi_bson::ArrayBuf::build(|out| {
        out.doc(|out| {
            out.doc("$_internalUnpackBucket", |out| {
                out.put("timeField", &*options.time_field);
                if let Some(meta) = &options.meta_field {
                    out.put("metaField", &**meta);
                }
                out.put("bucketMaxSpanSeconds", options.span);
            });
        });
    })
}

/// The condition on documents that clients insert into the buckets themselves, as `mongorestore` does.
fn validator(time_field: &str) -> DocBuf {
    let kind = |name: &str, kind: &str, out: &mut DocWriter<'_>| {
        out.doc(name, |out| out.put("bsonType", kind));
    };
    let required = |names: &[&str], out: &mut DocWriter<'_>| {
        out.array("required", |out| names.iter().for_each(|name| out.push(*name)));
    };
    let end = |name: &str, out: &mut DocWriter<'_>| {
        out.doc(name, |out| {
            out.put("bsonType", "object");
            required(&[time_field], out);
            out.doc("properties", |out| kind(time_field, "date", out));
        });
    };
    DocBuf::build(|out| {
        out.doc("$jsonSchema", |out| {
            out.put("bsonType", "object");
            required(&["_id", "control", "data"], out);
            out.doc("properties", |out| {
                kind("_id", "objectId", out);
                out.doc("control", |out| {
                    out.put("bsonType", "object");
                    required(&["version", "min", "max"], out);
                    out.doc("properties", |out| {
                        kind("version", "number", out);
                        end("min", out);
                        end("max", out);
                        kind("closed", "bool", out);
                        out.doc("count", |out| {
                            out.put("bsonType", "number");
                            out.put("minimum", 1);
                        });
                    });
                    out.put("additionalProperties", false);
                });
                kind("data", "object", out);
                out.put("meta", Doc::EMPTY);
            });
            out.put("additionalProperties", false);
        });
    })
}

/// The options of a time series collection as they are listed: those that a client may give to `create`.
pub fn listed_options(buckets: &Collection) -> DocBuf {
    const LISTED: &[&str] =
        &["storageEngine", "indexOptionDefaults", "collation", "timeseries", "expireAfterSeconds"];
    DocBuf::build(|out| {
        let all = buckets.options.doc.as_doc();
        all.iter().filter(|e| LISTED.contains(&e.name())).for_each(|e| out.put_element(e));
    })
}

/// The changes of `collMod` to the view, after the options of the buckets were changed.
pub(crate) fn changed_view(view: &Collection, options: &Options) -> Result<CollectionOptions> {
    let doc = DocBuf::build(|out| {
        for element in view.options.doc.as_doc() {
            match element.name() {
                "pipeline" => {
                    let pipeline = view_pipeline(options);
                    let pipeline: Array<'_> = pipeline.as_array();
                    out.put("pipeline", Value::Array(pipeline));
                }
                _ => out.put_element(element),
            }
        }
    });
    CollectionOptions::parse(doc.as_doc(), &view.namespace)
}

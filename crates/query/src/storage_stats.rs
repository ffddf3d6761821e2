//! The storage statistics of a collection, for `collStats` and `$collStats`.

use nagi_bson::{DocWriter, Value};
use nagi_error::{Code, Result, bail};
use nagi_store::{CachedStats, Collection, CollectionStats, Store};

/// The requested parts of `$collStats`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CollStatsSpec {
    /// The scale of `storageStats`, if that is requested.
    pub storage_scale: Option<i64>,
    pub count: bool,
    /// For `latencyStats`, if that is requested: true if it includes histograms.
    pub latency_histograms: Option<bool>,
    pub exec: bool,
}

impl CollStatsSpec {
    /// Parses the specification of the stage.
    pub fn parse(spec: Value<'_>) -> Result<CollStatsSpec> {
        let Value::Doc(doc) = spec else {
            bail!(
                Code::Location(40166),
                "$collStats must take a nested object but found: $collStats: {spec}"
            );
        };
        let mut out = CollStatsSpec::default();
        for element in doc {
            let name = element.name();
            if !matches!(name, "storageStats" | "count" | "latencyStats" | "queryExecStats") {
                bail!(Code::Location(40168), "unrecognized option to $collStats: {name}");
            }
            let Value::Doc(options) = element.value() else {
                bail!(
                    Code::Location(40167),
                    "{name} argument must be an object, but got {name}: {} of type {}",
                    element.value(),
                    element.kind().name()
                );
            };
            match name {
                "count" => out.count = true,
                "queryExecStats" => out.exec = true,
                "latencyStats" => {
                    out.latency_histograms = Some(histograms(options.get("histograms"))?)
                }
                _ => out.storage_scale = Some(scale(options.get("scale"))?),
            }
        }
        Ok(out)
    }
}

fn histograms(value: Value<'_>) -> Result<bool> {
    match value {
        Value::Missing => Ok(false),
        Value::Bool(on) => Ok(on),
        other => bail!(
            Code::Location(40305),
            "histograms option to latencyStats must be bool, got {other} of type {}",
            other.kind().name()
        ),
    }
}

fn scale(value: Value<'_>) -> Result<i64> {
    match value {
        Value::Missing => Ok(1),
        value if !value.is_number() => bail!(
            Code::TYPE_MISMATCH,
            "BSON field 'storageStats.scale' is the wrong type '{}', expected types '[long, int, \
             decimal, double]'",
            value.kind().name()
        ),
        value => match nagi_bson::number::truncate_to_i64(value) {
            Some(scale) if scale >= 1 => Ok(scale),
            scale => bail!(
                Code::Location(51024),
                "BSON field 'scale' value must be >= 1, actual value '{}'",
                scale.unwrap_or(0)
            ),
        },
    }
}

/// The fields of `storageStats`; sizes are divided by `scale`.
pub fn write_storage_stats(
    store: &Store,
    collection: &Collection,
    scale: i64,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let stats = store.stats(collection)?;
    out.put("size", stats.data_bytes / scale);
    if collection.options.timeseries.is_some() {
        out.doc("timeseries", |out| {
            out.put("bucketsNs", collection.namespace.as_str());
            out.put("bucketCount", stats.count);
            if stats.count > 0 {
                out.put("avgBucketSize", stats.data_bytes / stats.count);
            }
            crate::write::write_counts(collection, out);
        });
    } else {
        out.put("count", stats.count);
        if stats.count > 0 {
            out.put("avgObjSize", stats.data_bytes / stats.count);
        }
    }
    out.put("numOrphanDocs", 0);
    out.put("storageSize", stats.storage_bytes / scale);
    out.put("freeStorageSize", stats.free_bytes / scale);
    out.put("capped", collection.options.capped);
    if let Some(size) = collection.options.size_bytes_max {
        out.put("max", collection.options.count_max_listed());
        out.put("maxSize", size / scale);
    }
    let creation = store.creation_string(collection);
    let uri = format!("statistics:table:collection-{}", hex(&collection.uuid.0));
    let cached = store.cached(collection)?.unwrap_or_default();
    let (records, indexes) = cached.split_first().unzip();
    out.doc("wiredTiger", |table| {
        write_table(table, &creation, &uri, (stats.storage_bytes, stats.free_bytes), records);
    });
    out.put("nindexes", collection.indexes.len() as i32);
    write_indexes(store, collection, (&stats, indexes.unwrap_or_default()), scale, out);
    out.put("scaleFactor", scale as i32);
    Ok(())
}

fn write_indexes(
    store: &Store,
    collection: &Collection,
    (stats, cached): (&CollectionStats, &[CachedStats]),
    scale: i64,
    out: &mut DocWriter<'_>,
) {
    let creation = store.index_creation_string();
    out.doc("indexDetails", |details| {
        let sizes = stats.index_bytes.iter().zip(&stats.index_free_bytes);
        for (at, ((name, bytes), free)) in sizes.enumerate() {
            let uri = format!("statistics:table:index-{}-{name}", hex(&collection.uuid.0));
            let sizes = (*bytes, *free);
            details.doc(name, |table| write_table(table, &creation, &uri, sizes, cached.get(at)));
        }
    });
    out.array("indexBuilds", |builds| {
        for index in collection.named_indexes().filter(|index| !index.ready) {
            builds.push(index.name());
        }
    });
    out.put("totalIndexSize", stats.indexes_bytes() / scale);
    out.put("totalSize", (stats.storage_bytes + stats.indexes_bytes()) / scale);
    out.doc("indexSizes", |sizes| {
        for (name, bytes) in &stats.index_bytes {
            sizes.put(name, bytes / scale);
        }
    });
}

/// The part of WiredTiger's table description that is true here as well. Not scaled, as in MongoDB.
fn write_table(
    out: &mut DocWriter<'_>,
    creation: &str,
    uri: &str,
    (bytes, free): (i64, i64),
    cached: Option<&CachedStats>,
) {
    out.doc("metadata", |metadata| metadata.put("formatVersion", 1));
    out.put("creationString", creation);
    out.put("type", "file");
    out.put("uri", uri);
    out.doc("block-manager", |blocks| {
        blocks.put("file bytes available for reuse", free);
        blocks.put("file size in bytes", bytes);
    });
    if let Some(cached) = cached {
        out.doc("cache", |cache| {
            cache.put("bytes currently in the cache", cached.bytes);
            cache.put("tracked dirty bytes in the cache", cached.dirty_bytes);
        });
    }
}

/// Writes the `storageStats` of a collection that does not exist.
pub fn write_no_storage_stats(scale: i64, out: &mut DocWriter<'_>) {
    let zeroes = [
        "size",
        "count",
        "numOrphanDocs",
        "storageSize",
        "totalSize",
        "nindexes",
        "totalIndexSize",
    ];
    for name in zeroes {
        out.put(name, 0);
    }
    out.doc("indexDetails", |_| ());
    out.doc("indexSizes", |_| ());
    out.put("scaleFactor", scale as i32);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

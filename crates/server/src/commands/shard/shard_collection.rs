//! `shardCollection` and `unshardCollection`: record the key by which a collection is sharded, and spread it over the
//! store.
//!
//! The store splits each collection by its record keys and index keys, wherever it grows or is busy. Ascending ones go
//! to the last part, so the records of a collection without documents, and its index on `_id`, get stripes by a hash
//! (`Store::spread_collection`), whatever the key is. An index on a range key stays in the order of its values: that is
//! why it was chosen. Everything else is as in MongoDB: the collection and an index on the key are created, and the key
//! can be read in `config.collections`.

use nagi_store::{BuildOptions, Collection, Index, Namespace, Spread, Store};

use super::{full_name, may, router};
use crate::commands::common::{check_uuid_arg, refuse_view};
use crate::core::command::prelude::*;
use crate::router::sharded;

pub(super) static SHARD_COLLECTION: Command = Command {
    facts: Facts {
        name: "shardCollection",
        aliases: &["shardcollection"],
        help: "Records the shard key of a collection, creates its index, and spreads it if it is empty.",
        admin_only: true,
        servers: Servers::Routers,
        write: true,
        ..Facts::ROW
    },
    access: Access::By(|asking, req| may(asking, req, Action::EnableSharding)),
    run: shard,
    ..Command::ROW
};

pub(super) static UNSHARD_COLLECTION: Command = Command {
    facts: Facts {
        name: "unshardCollection",
        help: "Forgets the shard key of a collection.",
        admin_only: true,
        servers: Servers::Routers,
        write: true,
        ..Facts::ROW
    },
    access: Access::By(|asking, req| may(asking, req, Action::UnshardCollection)),
    run: unshard,
    ..Command::ROW
};

args! { "shardCollection" => ShardArgs {
    name:             Option<Name<'a>>    = "shardCollection",
    old_name:         Option<Name<'a>>    = "shardcollection",
    key:              Doc<'a>             = "key",
    unique:           Option<StrictBool>        = "unique",
    chunks:           Option<NonNegative> = "numInitialChunks",
    presplit:         Option<StrictBool>        = "presplitHashedZones",
    collation:        Option<Doc<'a>>     = "collation",
    timeseries:       Option<Doc<'a>>     = "timeseries",
    unique_enforced:  Option<StrictBool>        = "enforceUniquenessCheck",
    implicitly:       Option<StrictBool>        = "implicitlyCreateIndex",
    uuid:             Value<'a>           = "collectionUUID",
}}

args! { "unshardCollection" => UnshardArgs {
    name: Name<'a>        = "unshardCollection",
    to:   Option<&'a str> = "toShard",
}}

fn shard(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = ShardArgs::parse(req)?;
    router(cx)?;
    let ns = full_name(req)?;
    let unique = args.unique == Some(StrictBool(true));
    check(&ns, &args, unique)?;
    check_uuid_arg(cx, &ns, "shardCollection", args.uuid)?;
    refuse_view(cx, &ns)?;
    let _writing = cx.begin_write(ns.database())?;
    let store = cx.connection.store.clone();
    if let Some(collection) = store.collection(&ns) {
        if let Some(known) = sharded::find(&store, &collection)? {
            return same(&ns, &known, args.key, unique, out);
        }
        if collection.options.capped {
            bail!(Code::INVALID_OPTIONS, "can't shard a capped collection");
        }
        if collection.count() > 0 {
            refuse_chunks(&args)?;
        }
    }
    let collection = store.collection_or_create(&ns)?;
    if !has_index(&collection, args.key, unique) {
        let allowed = args.implicitly != Some(StrictBool(false)) && collection.count() == 0;
        create_index(cx, &ns, (args.key, unique), allowed)?;
    }
    let note = spread(&store, &ns, &args)?;
    sharded::put(&store, &collection, args.key, unique)?;
    log::info!(target: "SHARDING", id = 8_200_451, namespace = ns.as_str(), key = args.key.to_string();
        "The shard key of a collection was recorded; the store splits it by itself");
    write_sharded(&ns, &note, out);
    Ok(())
}

fn write_sharded(ns: &Namespace, note: &str, out: &mut DocWriter<'_>) {
    out.put("collectionsharded", ns.as_str());
    out.put("note", note);
}

/// The stripes of a collection whose number the client does not give.
const STRIPES: u32 = 16;
/// MongoDB's limit for each shard, of which there is one.
const CHUNKS_MAX: u64 = 8192;

/// Spreads the collection if that is possible. Returns what the client is told.
fn spread(store: &Store, ns: &Namespace, args: &ShardArgs<'_>) -> Result<String> {
    let wanted = match args.chunks.map(|chunks| chunks.0) {
        None | Some(0) => STRIPES,
        Some(1) => return Ok(as_it_is("one chunk was asked for")),
        Some(chunks) => u32::try_from(chunks).unwrap_or(u32::MAX),
    };
    let mut parts = args.key.iter();
    let first_is_id =
        parts.next().is_some_and(|part| part.name() == "_id" && part.value().is_number());
    let stripes = match store.spread_collection(ns, wanted, first_is_id)? {
        Spread::Stripes(stripes) => stripes,
        Spread::HasDocuments => return Ok(as_it_is("the collection has documents")),
        Spread::Clustered => return Ok(as_it_is("its records are in the order of the key")),
        Spread::OtherVersions => {
            return Ok(as_it_is("a server of another version shares the data"));
        }
        Spread::Impossible => return Ok(as_it_is("the storage engine cannot do that")),
    };
    let what = if first_is_id { "records are" } else { "records and the index on _id are" };
    Ok(format!("the key is recorded; {what} spread over the store in {stripes} parts"))
}

fn as_it_is(why: &str) -> String {
    format!(
        "the key is recorded; the collection is not spread: {why}. The store splits it where it grows"
    )
}

/// The answer for a collection that is sharded already (23 by another key).
fn same(
    ns: &Namespace,
    known: &sharded::Sharded,
    key: Doc<'_>,
    unique: bool,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    if !is_prefix(key, known.key()) || !is_prefix(known.key(), key) || known.is_unique() != unique {
        bail!(
            Code::ALREADY_INITIALIZED,
            "sharding already enabled for collection {ns} with options {{ key: {}, unique: {} }}",
            known.key(),
            known.is_unique()
        );
    }
    write_sharded(ns, "the key was recorded before", out);
    Ok(())
}

/// Refuses what cannot be sharded, and keys that are none.
fn check(ns: &Namespace, args: &ShardArgs<'_>, unique: bool) -> Result<()> {
    if matches!(ns.database(), "admin" | "config" | "local") || ns.is_system() {
        bail!(Code::ILLEGAL_OPERATION, "can't shard {ns}: it is a collection of the server");
    }
    if args.timeseries.is_some() {
        bail!(Code::ILLEGAL_OPERATION, "time series collections are not sharded: create it first");
    }
    if args.collation.is_some_and(|collation| collation.get("locale").as_str() != Some("simple")) {
        bail!(
            Code::BAD_VALUE,
            "The collation for shardCollection must be {{locale: 'simple'}}, but found: {}",
            args.collation.unwrap_or(Doc::EMPTY)
        );
    }
    let hashed = args.key.iter().filter(|part| part.value().as_str() == Some("hashed")).count();
    let ascending =
        |value: Value<'_>| value.is_number() && crate::number::truncate(value) == Some(1);
    let allowed = |part: nagi_bson::Element<'_>| {
        !part.name().starts_with('$')
            && !part.name().split('.').any(str::is_empty)
            && (ascending(part.value()) || part.value().as_str() == Some("hashed"))
    };
    if args.key.is_empty() || hashed > 1 || !args.key.iter().all(allowed) {
        bail!(
            Code::BAD_VALUE,
            "Unsupported shard key pattern {}. Pattern must either be a single hashed field, or a list of \
             ascending fields",
            args.key
        );
    }
    if args.chunks.is_some_and(|chunks| chunks.0 > CHUNKS_MAX as i64) {
        bail!(
            Code::INVALID_OPTIONS,
            "numInitialChunks cannot be more than either: {CHUNKS_MAX}, 8192 * number of shards; or 1000000"
        );
    }
    if hashed == 0 {
        refuse_chunks(args)?;
    }
    if unique && hashed > 0 {
        bail!(
            Code::INVALID_OPTIONS,
            "Hashed shard keys cannot be declared unique. It's possible to ensure uniqueness on the hashed field \
             by declaring an additional (non-hashed) unique index on the field."
        );
    }
    Ok(())
}

/// Refuses a number of chunks where there is no hash by which they could be made.
fn refuse_chunks(args: &ShardArgs<'_>) -> Result<()> {
    if args.chunks.is_some_and(|chunks| chunks.0 > 0) {
        bail!(
            Code::INVALID_OPTIONS,
            "numInitialChunks is only supported when the collection is empty and has a hashed field in the shard key \
             pattern"
        );
    }
    Ok(())
}

/// Returns true if an index supports the key: it begins with it, and has an entry for each document.
fn has_index(collection: &Collection, key: Doc<'_>, unique: bool) -> bool {
    let supports = |index: &Index| {
        let spec = &index.spec;
        let pattern = spec.key_pattern.as_doc();
        is_prefix(key, pattern)
            && spec.partial.is_none()
            && !spec.sparse
            && spec.collation.is_none()
            && (!unique || (is_prefix(pattern, key) && (spec.unique || &*spec.name == "_id_")))
    };
    collection.ready_indexes().any(|index| supports(index))
}

/// Returns true if `pattern` begins with `key`.
fn is_prefix(key: Doc<'_>, pattern: Doc<'_>) -> bool {
    let mut parts = pattern.iter();
    key.iter().all(|wanted| {
        let same = |part: nagi_bson::Element<'_>| {
            part.name() == wanted.name()
                && match (wanted.value(), part.value()) {
                    (Value::String(one), Value::String(other)) => one == other,
                    (one, other) => {
                        one.is_number()
                            && crate::number::truncate(one) == crate::number::truncate(other)
                    }
                }
        };
        parts.next().is_some_and(same)
    })
}

/// Creates the index on the key if that is allowed: where there are documents, the client decides when it is done (72).
fn create_index(
    cx: &Context<'_>,
    ns: &Namespace,
    (key, unique): (Doc<'_>, bool),
    allowed: bool,
) -> Result<()> {
    if !allowed {
        bail!(
            Code::INVALID_OPTIONS,
            "Please create an index that starts with the proposed shard key before sharding the collection"
        );
    }
    let name = key.iter().map(|part| {
        let kind = part.value().as_str().map_or("1", |kind| kind);
        format!("{}_{kind}", part.name())
    });
    let name = name.collect::<Vec<_>>().join("_");
    let spec = DocBuf::build(|w| {
        w.put("key", key);
        w.put("name", &name);
        if unique {
            w.put("unique", true);
        }
    });
    let check = || cx.check();
    let options = BuildOptions { interrupt: Some(&check), ..BuildOptions::default() };
    cx.store().create_indexes(ns, &[spec.as_doc()], options).map(drop)
}

fn unshard(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = UnshardArgs::parse(req)?;
    router(cx)?;
    let ns = full_name(req)?;
    if args.to.is_some_and(|to| to != crate::router::SHARD) {
        bail!(Code::SHARD_NOT_FOUND, "Shard {} not found", args.to.unwrap_or_default());
    }
    let _writing = cx.begin_write(ns.database())?;
    let store = cx.connection.store.clone();
    let Some(collection) = store.collection(&ns) else {
        bail!(Code::NAMESPACE_NOT_FOUND, "Collection {ns} not found");
    };
    if sharded::find(&store, &collection)?.is_none() {
        bail!(Code::NAMESPACE_NOT_SHARDED, "Namespace {ns} is not sharded.");
    }
    sharded::remove(&store, &collection)
}

//! The collections of `config` that describe a sharded cluster, as a router shows them: nothing of them is stored.
//!
//! ```text
//!   find, aggregate, count, distinct, explain on config.shards, .. --> a store in memory: made anew, then read
//! ```
//!
//! There is one shard, the store; each sharded collection is one chunk, because the store does not tell where it
//! splits. The request runs on a handle of the store in memory, so each kind of read works, also a `$lookup` from one
//! of these collections into another. A cursor continues with what there is by then.

use std::collections::BTreeMap;

use nagi_bson::{Binary, Doc, DocBuf, DocWriter, Value};
use nagi_error::{Code, Result, bail};
use nagi_store::{Namespace, Uuid, WriteOptions};
use sha2::{Digest, Sha256};

use crate::core::command::Context;
use crate::core::nodes::{self, Node};
use crate::core::server::Server;
use crate::request::Request;
use crate::router::sharded::{self, Sharded};
use crate::router::{Router, SHARD};

/// Databases that every server has.
const OWN: [&str; 3] = ["admin", "config", "local"];

/// What the documents of a collection are made from.
struct Facts<'s> {
    server: &'s Server,
    router: &'s Router,
    host: String,
}

type Make = fn(&Facts<'_>) -> Result<Vec<DocBuf>>;

static VIEWS: &[(&str, Make)] = &[
    ("chunks", chunks),
    ("collections", collections),
    ("databases", databases),
    ("mongos", routers),
    ("shards", |facts| Ok(vec![shard(facts.router, &facts.host)])),
];

/// The collection that a request names, or that of the command that it explains.
fn named<'a>(request: &Request<'a>) -> Option<&'a str> {
    match request.body.first()?.value() {
        Value::String(name) => Some(name),
        Value::Doc(explained) => explained.first()?.value().as_str(),
        _ => None,
    }
}

fn is_view(request: &Request<'_>) -> bool {
    request.db == "config"
        && named(request).is_some_and(|name| VIEWS.iter().any(|(n, _)| *n == name))
}

/// Returns true if the request reads what only a router shows.
pub(crate) fn are_read(server: &Server, request: &Request<'_>) -> bool {
    server.router.is_some() && request.command.reads_config && is_view(request)
}

/// Refuses to write what is not stored.
///
/// # Errors
/// 166, as for a view.
pub(crate) fn refuse_writes(server: &Server, request: &Request<'_>) -> Result<()> {
    let writes = request.command.write && request.command.on_collection;
    if server.router.is_some() && writes && !request.command.reads_config && is_view(request) {
        bail!(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "Namespace config.{} is a view, not a collection",
            named(request).unwrap_or_default()
        );
    }
    Ok(())
}

/// Runs a read on the store in memory, where the collections that it mentions are made anew.
pub(crate) fn run(
    cx: &mut Context<'_>,
    request: &Request<'_>,
    out: &mut DocWriter<'_>,
    inner: fn(&mut Context<'_>, &Request<'_>, &mut DocWriter<'_>) -> Result<()>,
) -> Result<()> {
    let Some(router) = &cx.server.router else { return inner(cx, request, out) };
    if request.body.get("pipeline").as_array().is_some_and(nagi_query::writes) {
        bail!(
            Code::ILLEGAL_OPERATION,
            "config.{} is not stored: $out and $merge cannot read it",
            named(request).unwrap_or_default()
        );
    }
    let facts = Facts { server: cx.server, router, host: cx.server.host_and_port() };
    for (name, make) in VIEWS {
        if mentions(request.body, name) {
            show(router, name, &make(&facts)?)?;
        }
    }
    cx.bound = Some(router.views.for_client());
    let result = inner(cx, request, out);
    cx.bound = None;
    result
}

/// Returns true if the name occurs anywhere in the request.
fn mentions(body: Doc<'_>, name: &str) -> bool {
    body.as_bytes().windows(name.len()).any(|bytes| bytes == name.as_bytes())
}

/// Replaces the documents of a collection of the store in memory.
fn show(router: &Router, name: &str, docs: &[DocBuf]) -> Result<()> {
    let _one = router.refreshing.lock();
    let store = &router.views;
    let collection = store.collection_or_create(&Namespace::new("config", name)?)?;
    store.write(WriteOptions::default(), &mut |txn| {
        let mut cursor = txn.reader().scan(&collection, true)?;
        while cursor.advance()? {
            let old = cursor.doc().to_buf();
            txn.delete(&collection, cursor.id(), old.as_doc())?;
        }
        drop(cursor);
        docs.iter().try_for_each(|doc| txn.insert(&collection, doc.as_doc()).map(drop))
    })?;
    Ok(())
}

/// The shard, as `config.shards` and `listShards` describe it. Who connects to its host finds a router.
pub(crate) fn shard(router: &Router, host: &str) -> DocBuf {
    DocBuf::build(|w| {
        w.put("_id", SHARD);
        w.put("host", host);
        w.put("state", 1);
        w.put("topologyTime", Value::Timestamp(router.since()));
        w.put("replSetConfigVersion", -1_i64);
    })
}

/// The nodes whose leases last; each tells what only it knows ([`nodes`]). A node that was killed, and
/// started again at once, has two leases for a moment.
fn routers(facts: &Facts<'_>) -> Result<Vec<DocBuf>> {
    let mut all = BTreeMap::new();
    for node in nodes::all(facts.server)? {
        let older = all.get(&node.host).is_some_and(|other: &Node| other.ping_ms > node.ping_ms);
        if !older {
            all.insert(node.host.clone(), node);
        }
    }
    let doc = |node: &Node| {
        DocBuf::build(|w| {
            w.put("_id", node.host.as_str());
            w.array("advisoryHostFQDNs", |_| {});
            w.put("created", Value::DateTime(node.started_ms));
            w.put("mongoVersion", node.version.as_str());
            w.put("ping", Value::DateTime(node.ping_ms));
            w.put("up", (node.ping_ms - node.started_ms).max(0) / 1000);
            w.put("waiting", true);
        })
    };
    Ok(all.values().map(doc).collect())
}

fn databases(facts: &Facts<'_>) -> Result<Vec<DocBuf>> {
    let catalog = facts.server.store.catalog();
    let own = |name: &&str| !OWN.contains(name);
    let doc = |name: &str| {
        DocBuf::build(|w| {
            w.put("_id", name);
            w.put("primary", SHARD);
            w.doc("version", |w| {
                w.put("uuid", uuid(&database_uuid(facts.router, name)));
                w.put("timestamp", Value::Timestamp(facts.router.since()));
                w.put("lastMod", 1);
            });
        })
    };
    Ok(catalog.databases().filter(own).map(doc).collect())
}

/// A UUID that every router gives to the database.
fn database_uuid(router: &Router, name: &str) -> Uuid {
    let digest: [u8; 32] =
        Sha256::new().chain_update(router.cluster_id).chain_update(name).finalize().into();
    let mut bytes: [u8; 16] = std::array::from_fn(|at| digest[at]);
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    Uuid(bytes)
}

fn uuid(uuid: &Uuid) -> Value<'_> {
    Value::Binary(Binary { subtype: 4, bytes: &uuid.0 })
}

fn collections(facts: &Facts<'_>) -> Result<Vec<DocBuf>> {
    let doc = |one: &Sharded| {
        DocBuf::build(|w| {
            w.put("_id", one.namespace.as_str());
            w.put("lastmodEpoch", one.epoch());
            w.put("lastmod", one.date());
            w.put("timestamp", Value::Timestamp(one.since()));
            w.put("uuid", uuid(&one.uuid));
            w.put("key", one.key());
            w.put("unique", one.is_unique());
            w.put("noBalance", false);
        })
    };
    Ok(sharded::all(&facts.server.store)?.iter().map(doc).collect())
}

fn chunks(facts: &Facts<'_>) -> Result<Vec<DocBuf>> {
    let doc = |one: &Sharded| {
        let bound = |w: &mut DocWriter<'_>, value: Value<'_>| {
            one.key().iter().for_each(|field| w.put(field.name(), value));
        };
        let since = Value::Timestamp(one.since());
        DocBuf::build(|w| {
            w.put("_id", one.epoch());
            w.put("uuid", uuid(&one.uuid));
            w.doc("min", |w| bound(w, Value::MinKey));
            w.doc("max", |w| bound(w, Value::MaxKey));
            w.put("shard", SHARD);
            w.put("lastmod", Value::Timestamp(1 << 32));
            w.put("onCurrentShardSince", since);
            w.array("history", |list| {
                list.doc(|w| {
                    w.put("validAfter", since);
                    w.put("shard", SHARD);
                });
            });
        })
    };
    Ok(sharded::all(&facts.server.store)?.iter().map(doc).collect())
}

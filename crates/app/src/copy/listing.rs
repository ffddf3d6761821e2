//! What a deployment has: databases, collections, views and time series, with options and indexes.

use nagi_bson::{Doc, DocBuf, Value, doc};

use super::filter::{BUCKETS, Filter, OWN_DB};
use super::link::{Link, NAMESPACE_NOT_FOUND, Result, failed};

/// The bytes of a UUID.
pub(super) type Uuid = [u8; 16];

/// The most collections that are copied at once.
const COLLECTIONS_MAX: usize = 100_000;

/// A database and a collection in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Ns {
    pub(super) db: String,
    pub(super) name: String,
}

impl std::fmt::Display for Ns {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}", self.db, self.name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Capped,
    /// A time series: its documents are in another collection, of which change streams do not tell.
    Series,
    /// `system.js`, of which change streams do not tell either.
    Unwatched,
    View,
}

impl Kind {
    pub(super) fn is_watched(self) -> bool {
        matches!(self, Kind::Plain | Kind::Capped)
    }
}

/// A collection, view or time series.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) ns: Ns,
    pub(super) kind: Kind,
    /// Of a time series that of its buckets; zero for a view.
    pub(super) uuid: Uuid,
    /// As `create` takes them.
    pub(super) options: DocBuf,
}

/// The collection with the documents of `ns`.
pub(super) fn stored(ns: &Ns, kind: Kind) -> Ns {
    match kind {
        Kind::Series => Ns { db: ns.db.clone(), name: format!("{BUCKETS}{}", ns.name) },
        _ => ns.clone(),
    }
}

pub(super) fn uuid_of(value: Value<'_>) -> Option<Uuid> {
    match value {
        Value::Binary(binary) => binary.bytes.try_into().ok(),
        _ => None,
    }
}

/// The databases of which something is copied.
fn databases(link: &mut Link, filter: &Filter) -> Result<Vec<String>> {
    let reply = link.run(&doc! { "listDatabases": 1, "nameOnly": true, "$db": "admin" })?;
    let list = reply.get("databases").as_array();
    let names = list.iter().flat_map(|list| list.iter()).filter_map(|db| {
        let name = db.as_doc()?.get("name").as_str()?.to_owned();
        filter.has_database(&name).then_some(name)
    });
    Ok(names.collect())
}

/// Everything in databases of which something is copied. Not at one time: the caller makes sure that nothing has
/// changed meanwhile.
pub(super) fn all(link: &mut Link, filter: &Filter) -> Result<Vec<Listed>> {
    let mut found = Vec::new();
    for db in databases(link, filter)? {
        found.extend(of_database(link, &db)?);
    }
    if found.len() > COLLECTIONS_MAX {
        return failed(format!("the source has more than {COLLECTIONS_MAX} collections"));
    }
    Ok(found)
}

/// The collections, views and time series of a database; other internal collections are left out.
pub(super) fn of_database(link: &mut Link, db: &str) -> Result<Vec<Listed>> {
    let entries = link.list(&doc! { "listCollections": 1, "cursor": {}, "$db": db })?;
    let of = |entry: &DocBuf| {
        entry.get("info").as_doc().and_then(|info| uuid_of(info.get("uuid"))).unwrap_or_default()
    };
    let uuid_of_buckets = |name: &str| {
        let buckets = format!("{BUCKETS}{name}");
        entries.iter().find(|e| e.get("name").as_str() == Some(&buckets)).map(of)
    };
    let listed = entries.iter().filter_map(|entry| {
        let name = entry.get("name").as_str()?;
        let options = entry.get("options").as_doc().unwrap_or(Doc::EMPTY);
        let kind = match entry.get("type").as_str() {
            Some("view") => Kind::View,
            Some("timeseries") => Kind::Series,
            _ if name == "system.js" => Kind::Unwatched,
            _ if name.starts_with("system.") => return None,
            _ if options.get("capped").is_truthy() => Kind::Capped,
            _ => Kind::Plain,
        };
        let uuid = match kind {
            Kind::Series => uuid_of_buckets(name).unwrap_or_default(),
            _ => of(entry),
        };
        let ns = Ns { db: db.to_owned(), name: name.to_owned() };
        Some(Listed { ns, kind, uuid, options: options.to_buf() })
    });
    Ok(listed.collect())
}

/// One collection, view or time series; `None` if there is none of this name.
pub(super) fn one(link: &mut Link, ns: &Ns) -> Result<Option<Listed>> {
    Ok(of_database(link, &ns.db)?.into_iter().find(|listed| listed.ns == *ns))
}

/// Creates it in the target. Nothing expires there yet.
pub(super) fn create(link: &mut Link, ns: &Ns, listed: &Listed) -> Result<()> {
    let command = DocBuf::build(|out| {
        out.put("create", ns.name.as_str());
        for option in listed.options.as_doc().iter() {
            if option.name() != "expireAfterSeconds" && option.name() != "uuid" {
                out.put_element(option);
            }
        }
        out.put("$db", ns.db.as_str());
    });
    link.run(&command).map(drop).map_err(|trouble| trouble.during(&format!("create {ns}")))
}

pub(super) fn drop_namespace(link: &mut Link, ns: &Ns) -> Result<()> {
    let command = doc! { "drop": ns.name.as_str(), "$db": ns.db.as_str() };
    match link.run(&command) {
        Err(trouble) if trouble.code() != NAMESPACE_NOT_FOUND => {
            Err(trouble.during(&format!("drop {ns}")))
        }
        _ => Ok(()),
    }
}

/// The indexes other than that of `_id`; none if there is no such collection.
pub(super) fn indexes(link: &mut Link, ns: &Ns) -> Result<Vec<DocBuf>> {
    let command = doc! { "listIndexes": ns.name.as_str(), "cursor": {}, "$db": ns.db.as_str() };
    match link.list(&command) {
        Err(trouble) if trouble.code() == NAMESPACE_NOT_FOUND => Ok(Vec::new()),
        Err(trouble) => Err(trouble),
        Ok(mut list) => {
            list.retain(|index| {
                index.get("name").as_str() != Some("_id_") && !index.get("clustered").is_truthy()
            });
            Ok(list)
        }
    }
}

/// Removes the database with the progress.
pub(super) fn drop_own(link: &mut Link) -> Result<()> {
    link.run(&doc! { "dropDatabase": 1, "$db": OWN_DB }).map(drop)
}

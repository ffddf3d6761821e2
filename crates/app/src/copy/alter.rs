//! Options, indexes and views: the target gets those that the source has now.
//!
//! They are compared as a whole and not changed event by event: whatever came between, the result is that of the
//! source. Until the copy is finished, the target has no unique and no expiring index: documents of different times
//! may violate the former, and the latter would remove documents that the source still changes. Both are made what
//! they are at the end, without being built again.

use std::cmp::Ordering;

use nagi_bson::{Doc, DocBuf, DocWriter, compare, doc};

use super::link::{Link, NAMESPACE_EXISTS, Result, failed};
use super::listing::{self, Kind, Listed, Ns, drop_namespace};

/// What an index has only at the end.
const AT_THE_END: &[&str] = &["unique", "prepareUnique", "expireAfterSeconds"];
/// Options that `collMod` changes; all others are fixed when a collection is created.
const CHANGEABLE: &[(&str, &str)] = &[
    ("validator", "validator"),
    ("validationLevel", "validationLevel"),
    ("validationAction", "validationAction"),
    ("changeStreamPreAndPostImages", "changeStreamPreAndPostImages"),
    ("size", "cappedSize"),
    ("max", "cappedMax"),
];

/// An index without what it has only at the end, and without the version that the server chooses.
fn plain(index: Doc<'_>) -> DocBuf {
    DocBuf::build(|out| {
        for field in index.iter() {
            if !AT_THE_END.contains(&field.name()) && field.name() != "ns" {
                out.put_element(field);
            }
        }
    })
}

/// What must be created and dropped, so that `present` becomes `wanted`.
fn difference(wanted: &[DocBuf], present: &[DocBuf]) -> (Vec<DocBuf>, Vec<String>) {
    let is_in = |index: &DocBuf, list: &[DocBuf]| {
        let index = fields(plain(index.as_doc()).as_doc());
        list.iter().any(|other| is_equal(&fields(plain(other.as_doc()).as_doc()), &index))
    };
    let create = wanted.iter().filter(|index| !is_in(index, present));
    let drop = present.iter().filter(|index| !is_in(index, wanted));
    let name = |index: &DocBuf| index.get("name").as_str().unwrap_or("").to_owned();
    (create.map(|index| plain(index.as_doc())).collect(), drop.map(name).collect())
}

/// Creates and drops indexes of the target.
pub(super) fn indexes(source: &mut Link, target: &mut Link, from: &Ns, to: &Ns) -> Result<()> {
    let (wanted, present) = (listing::indexes(source, from)?, listing::indexes(target, to)?);
    let (create, surplus) = difference(&wanted, &present);
    for name in surplus {
        let command = doc! { "dropIndexes": to.name.as_str(), "index": name.as_str(),
        "$db": to.db.as_str() };
        target.run(&command).map_err(|e| e.during(&format!("dropIndexes {to}")))?;
    }
    if create.is_empty() {
        return Ok(());
    }
    let command = DocBuf::build(|out| {
        out.put("createIndexes", to.name.as_str());
        out.array("indexes", |out| create.iter().for_each(|index| out.push_doc(index.as_doc())));
        out.put("$db", to.db.as_str());
    });
    target.run(&command).map(drop).map_err(|e| e.during(&format!("createIndexes {to}")))
}

/// Gives the target's collection the changeable options of the source's.
pub(super) fn options(target: &mut Link, to: &Ns, wanted: Doc<'_>) -> Result<()> {
    let Some(present) = listing::one(target, to)? else { return Ok(()) };
    let change = changed(wanted, present.options.as_doc());
    if change.as_doc().count() == 0 {
        return Ok(());
    }
    coll_mod(target, to, |out| out.extend(change.as_doc()))
}

/// The arguments of `collMod`.
pub(super) fn changed(wanted: Doc<'_>, present: Doc<'_>) -> DocBuf {
    DocBuf::build(|out| {
        for (option, argument) in CHANGEABLE {
            let (wanted, present) = (wanted.get(option), present.get(option));
            if wanted.same_bytes(&present) {
                continue;
            }
            // What is not set any more.
            match (*argument, wanted.is_missing()) {
                ("validator", true) => out.put("validator", Doc::EMPTY),
                ("validationLevel", true) => out.put("validationLevel", "strict"),
                ("validationAction", true) => out.put("validationAction", "error"),
                ("changeStreamPreAndPostImages", true) => {
                    out.doc("changeStreamPreAndPostImages", |out| out.put("enabled", false));
                }
                (_, true) => {}
                (argument, false) => out.put(argument, wanted),
            }
        }
    })
}

fn coll_mod(target: &mut Link, ns: &Ns, fill: impl FnOnce(&mut DocWriter<'_>)) -> Result<()> {
    let command = DocBuf::build(|out| {
        out.put("collMod", ns.name.as_str());
        fill(out);
        out.put("$db", ns.db.as_str());
    });
    target.run(&command).map(drop).map_err(|trouble| trouble.during(&format!("collMod {ns}")))
}

/// Makes the target's indexes unique and expiring where the source's are, and lets documents expire.
pub(super) fn finish(source: &mut Link, target: &mut Link, from: &Listed, to: &Ns) -> Result<()> {
    let wanted = listing::indexes(source, &from.ns)?;
    let present = listing::indexes(target, to)?;
    for index in wanted {
        let name = index.get("name").as_str().unwrap_or("");
        let here = present.iter().find(|here| here.get("name").as_str() == Some(name));
        let Some(here) = here else {
            return failed(format!(
                "{to} has no index {name}: an index of the source was made just now"
            ));
        };
        for option in AT_THE_END {
            let (wanted, is) = (index.get(option), here.get(option));
            if wanted.is_missing() || compare::equal(wanted, is) {
                continue;
            }
            // Uniqueness is checked once, when no new violation can come in any more.
            if *option == "unique" {
                modify_index(target, to, name, |out| out.put("prepareUnique", true))?;
            }
            modify_index(target, to, name, |out| out.put(option, wanted))?;
        }
    }
    let expiry = from.options.get("expireAfterSeconds");
    if !expiry.is_missing() {
        coll_mod(target, to, |out| out.put("expireAfterSeconds", expiry))?;
    }
    Ok(())
}

fn modify_index(
    target: &mut Link,
    ns: &Ns,
    name: &str,
    fill: impl FnOnce(&mut DocWriter<'_>),
) -> Result<()> {
    coll_mod(target, ns, |out| {
        out.doc("index", |out| {
            out.put("name", name);
            fill(out);
        });
    })
    .map_err(|trouble| trouble.during(&format!("the index {name}")))
}

/// Drops unique and expiring indexes, which an interrupted finish has made, so that changes can be applied again.
pub(super) fn loosen(target: &mut Link, ns: &Ns) -> Result<()> {
    for index in listing::indexes(target, ns)? {
        if AT_THE_END.iter().any(|option| !index.get(option).is_missing()) {
            let command = doc! { "dropIndexes": ns.name.as_str(), "index": index.get("name"),
            "$db": ns.db.as_str() };
            target.run(&command)?;
        }
    }
    let expires = listing::one(target, ns)?
        .is_some_and(|listed| !listed.options.get("expireAfterSeconds").is_missing());
    if expires {
        coll_mod(target, ns, |out| out.put("expireAfterSeconds", "off"))?;
    }
    Ok(())
}

/// Gives the target the views of the source. `is_covered`: which ones are copied.
pub(super) fn views(target: &mut Link, wanted: &[Listed], present: &[Listed]) -> Result<()> {
    let same = |one: &Listed, other: &Listed| {
        one.ns == other.ns
            && one.kind == other.kind
            && one.options.as_bytes() == other.options.as_bytes()
    };
    let is_view = |listed: &&Listed| listed.kind == Kind::View;
    for view in present.iter().filter(is_view) {
        if !wanted.iter().any(|other| same(view, other)) {
            drop_namespace(target, &view.ns)?;
        }
    }
    for view in wanted.iter().filter(is_view) {
        if !present.iter().any(|other| same(view, other)) {
            match listing::create(target, &view.ns, view) {
                Err(trouble) if trouble.code() != NAMESPACE_EXISTS => return Err(trouble),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether both sides have the same indexes; the type of a number makes no difference.
pub(super) fn is_same(wanted: &[DocBuf], present: &[DocBuf]) -> bool {
    let has = |list: &[DocBuf], index: &DocBuf| {
        let fields = fields(index.as_doc());
        list.iter().any(|other| is_equal(&self::fields(other.as_doc()), &fields))
    };
    wanted.len() == present.len() && wanted.iter().all(|index| has(present, index))
}

fn is_equal(one: &DocBuf, other: &DocBuf) -> bool {
    compare::docs(one.as_doc(), other.as_doc()) == Ordering::Equal
}

/// The fields of an index in the order of their names.
fn fields(index: Doc<'_>) -> DocBuf {
    let mut list: Vec<_> = index.iter().filter(|field| field.name() != "ns").collect();
    list.sort_by_key(|field| field.name());
    DocBuf::build(|out| list.into_iter().for_each(|field| out.put_element(field)))
}

#[cfg(test)]
mod tests {
    use nagi_bson::{ArrayBuf, array};

    use super::*;

    /// The documents of an array.
    fn list(array: &ArrayBuf) -> Vec<DocBuf> {
        array.as_array().iter().filter_map(|value| value.as_doc()).map(|doc| doc.to_buf()).collect()
    }

    #[test]
    fn indexes_are_compared_without_what_comes_at_the_end() {
        let wanted = list(&array![
            { "v": 2, "key": { "a": 1 }, "name": "a", "unique": true },
            { "v": 2, "key": { "b": 1 }, "name": "b", "expireAfterSeconds": 5 },
            { "v": 2, "key": { "c": 1 }, "name": "c", "sparse": true }
        ]);
        let present = list(&array![
            { "v": 2, "key": { "a": 1 }, "name": "a" },
            { "v": 2, "key": { "c": 1 }, "name": "c" },
            { "v": 2, "key": { "d": 1 }, "name": "d" }
        ]);
        let (create, drop) = difference(&wanted, &present);
        assert_eq!(drop, ["c", "d"]);
        let created = list(&array![
            { "v": 2, "key": { "b": 1 }, "name": "b" },
            { "v": 2, "key": { "c": 1 }, "name": "c", "sparse": true }
        ]);
        assert!(is_same(&create, &created));
        assert_eq!(difference(&created, &created), (Vec::new(), Vec::new()));
        assert!(!is_same(&wanted, &present));
    }

    #[test]
    fn changed_options_become_arguments() {
        let wanted = doc! { "validator": { "a": 1 }, "capped": true, "size": 4096, "max": 5 };
        let present =
            doc! { "validationLevel": "moderate", "capped": true, "size": 8192, "max": 5 };
        let expected =
            doc! { "validator": { "a": 1 }, "validationLevel": "strict", "cappedSize": 4096 };
        assert_eq!(changed(wanted.as_doc(), present.as_doc()), expected);
        assert_eq!(changed(wanted.as_doc(), wanted.as_doc()), DocBuf::new());
        let cleared = changed(Doc::EMPTY, wanted.as_doc());
        assert_eq!(cleared, doc! { "validator": {} });
    }
}

//! Entries for changes of the catalog: `c`.

use std::sync::Arc;

use nagi_bson::{Doc, DocWriter, Value};

use super::{command, is_logged, uuid};
use crate::{Collection, Index, store::commit::Replaced};

/// Writes the fields of an entry. Returns false if the change has none: views are logged as the documents of
/// `system.views`, and an index when it is ready.
pub(super) fn write(
    before: Option<&Collection>,
    after: Option<&Collection>,
    target: Option<Replaced>,
    out: &mut DocWriter<'_>,
) -> bool {
    let Some(collection) = after.or(before) else { return false };
    if collection.is_view() || !is_logged(&collection.namespace) {
        return false;
    }
    match (before, after) {
        (None, _) => create(collection, out),
        (_, None) => drop_collection(collection, out),
        (Some(before), Some(after)) if before.namespace != after.namespace => {
            rename(before, after, target, out);
        }
        (Some(before), Some(after)) => return modify(before, after, out),
    }
    true
}

fn create(collection: &Collection, out: &mut DocWriter<'_>) {
    let namespace = &collection.namespace;
    command(namespace.database(), Some(collection), out, |out| {
        out.put("create", namespace.collection());
        let given = collection.options.doc.as_doc();
        given.iter().filter(|e| e.name() != "idIndex").for_each(|e| out.put_element(e));
        if let Some(index) =
            collection.id_index().filter(|_| collection.options.clustered.is_none())
        {
            out.put("idIndex", index.spec.doc.as_doc());
        }
    });
}

fn drop_collection(collection: &Collection, out: &mut DocWriter<'_>) {
    let namespace = &collection.namespace;
    command(namespace.database(), Some(collection), out, |out| {
        out.put("drop", namespace.collection());
    });
    out.doc("o2", |out| out.put("numRecords", collection.count()));
}

fn rename(
    before: &Collection,
    after: &Collection,
    target: Option<Replaced>,
    out: &mut DocWriter<'_>,
) {
    command(before.namespace.database(), Some(before), out, |out| {
        out.put("renameCollection", before.namespace.as_str());
        out.put("to", after.namespace.as_str());
        out.put("stayTemp", after.options.is_temporary());
        if let Some(target) = &target {
            out.put("dropTarget", uuid(&target.uuid));
        }
    });
    if let Some(target) = target {
        out.doc("o2", |out| out.put("numRecords", target.count));
    }
}

/// Indexes that became ready, or that were dropped; nothing else that a client sees.
fn modify(before: &Collection, after: &Collection, out: &mut DocWriter<'_>) -> bool {
    let has = |of: &Collection, index: &Index| {
        of.ready_indexes().any(|other| other.name() == index.name())
    };
    let new: Vec<&Arc<Index>> = after.ready_indexes().filter(|i| !has(before, i)).collect();
    let gone: Vec<&Arc<Index>> = before.ready_indexes().filter(|i| !has(after, i)).collect();
    let (database, name) = (after.namespace.database(), after.namespace.collection());
    match (new.as_slice(), gone.as_slice()) {
        ([], []) => return false,
        ([index], _) => command(database, Some(after), out, |out| {
            out.put("createIndexes", name);
            out.extend(index.spec.doc.as_doc());
        }),
        ([first, ..], _) => command(database, Some(after), out, |out| {
            out.put("commitIndexBuild", name);
            out.put("indexBuildUUID", uuid(&after.build_uuid(first)));
            out.array("indexes", |out| {
                new.iter().for_each(|index| out.push_doc(index.spec.doc.as_doc()));
            });
        }),
        ([], [first, rest @ ..]) => {
            command(database, Some(after), out, |out| {
                out.put("dropIndexes", name);
                match rest {
                    [] => out.put("index", first.name()),
                    _ => out.array("index", |out| gone.iter().for_each(|i| out.push(i.name()))),
                }
            });
            if rest.is_empty() {
                out.put("o2", first.spec.doc.as_doc());
            }
        }
    }
    true
}

/// Writes the fields of an entry for `collMod`: the options that changed, of the collection or of one of its indexes.
/// Returns false for a view.
pub(super) fn write_coll_mod(
    before: &Collection,
    after: &Collection,
    out: &mut DocWriter<'_>,
) -> bool {
    if after.is_view() || !is_logged(&after.namespace) {
        return false;
    }
    let (old, new) = (before.options.doc.as_doc(), after.options.doc.as_doc());
    let changed_index = after.ready_indexes().find_map(|index| {
        let old = before.index(index.name())?;
        let same = old.spec.doc.as_doc().as_bytes() == index.spec.doc.as_doc().as_bytes();
        (!same && index.ready).then_some((old, index))
    });
    let (database, name) = (after.namespace.database(), after.namespace.collection());
    command(database, Some(after), out, |out| {
        out.put("collMod", name);
        changed_options(old, new, out);
        if let Some((old, index)) = changed_index {
            put_index(old, index, out);
        }
    });
    out.doc("o2", |out| {
        out.doc("collectionOptions_old", |out| {
            out.put("uuid", uuid(&before.uuid));
            old.iter().filter(|e| e.name() != "idIndex").for_each(|e| out.put_element(e));
        });
        if let Some((old, index)) = changed_index {
            out.doc("indexOptions_old", |out| put_old_options(old, index, out));
        }
    });
    true
}

/// The options of an index that `collMod` changes.
const INDEX_OPTIONS: [&str; 4] = ["hidden", "expireAfterSeconds", "prepareUnique", "unique"];

/// The values that changed options had before.
fn put_old_options(old: &Index, index: &Index, out: &mut DocWriter<'_>) {
    let (old, new) = (old.spec.doc.as_doc(), index.spec.doc.as_doc());
    for option in INDEX_OPTIONS {
        match (old.get(option), new.get(option)) {
            (old, new) if old.same_bytes(&new) => {}
            (Value::Missing, Value::Bool(_)) => out.put(option, false),
            (old, _) => out.put(option, old),
        }
    }
}

fn put_index(old: &Index, index: &Index, out: &mut DocWriter<'_>) {
    out.doc("index", |out| {
        out.put("name", index.name());
        let (old, new) = (old.spec.doc.as_doc(), index.spec.doc.as_doc());
        for option in INDEX_OPTIONS {
            match (old.get(option), new.get(option)) {
                (old, new) if old.same_bytes(&new) => {}
                (_, Value::Missing) => out.put(option, false),
                (_, new) => out.put(option, new),
            }
        }
    });
}

/// The changed options of a collection, as arguments of `collMod`.
fn changed_options(old: Doc<'_>, new: Doc<'_>, out: &mut DocWriter<'_>) {
    for element in new.iter().filter(|e| !old.get(e.name()).same_bytes(&e.value())) {
        match element.name() {
            "size" => out.put("cappedSize", element.value()),
            "max" => out.put("cappedMax", element.value()),
            _ => out.put_element(element),
        }
    }
    for gone in old.iter().filter(|e| new.element(e.name()).is_none()) {
        match gone.name() {
            "expireAfterSeconds" => out.put("expireAfterSeconds", "off"),
            "changeStreamPreAndPostImages" => out.doc(gone.name(), |out| out.put("enabled", false)),
            "validator" => out.put("validator", Doc::EMPTY),
            _ => {}
        }
    }
}

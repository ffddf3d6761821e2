//! Entries for changes of the catalog: `c`.

use std::sync::Arc;

use nagi_bson::{DocWriter, doc};

use super::{command, is_logged, uuid};
use crate::{Collection, Index, Uuid};

/// Writes the fields of an entry. Returns false if the change has none: views are logged as the documents of
/// `system.views`, and an index when it is ready.
pub(super) fn write(
    before: Option<&Collection>,
    after: Option<&Collection>,
    target: Option<Uuid>,
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

fn rename(before: &Collection, after: &Collection, target: Option<Uuid>, out: &mut DocWriter<'_>) {
    command(before.namespace.database(), Some(before), out, |out| {
        out.put("renameCollection", before.namespace.as_str());
        out.put("to", after.namespace.as_str());
        out.put("stayTemp", after.options.is_temporary());
        if let Some(target) = &target {
            out.put("dropTarget", uuid(target));
        }
    });
    if target.is_some() {
        out.doc("o2", |out| out.put("numRecords", before.count()));
    }
}

/// Indexes that became ready, indexes that were dropped, or other options.
fn modify(before: &Collection, after: &Collection, out: &mut DocWriter<'_>) -> bool {
    let has = |of: &Collection, index: &Index| {
        of.ready_indexes().any(|other| other.name() == index.name())
    };
    let new: Vec<&Arc<Index>> = after.ready_indexes().filter(|i| !has(before, i)).collect();
    let gone: Vec<&Arc<Index>> = before.ready_indexes().filter(|i| !has(after, i)).collect();
    let (database, name) = (after.namespace.database(), after.namespace.collection());
    match (new.as_slice(), gone.as_slice()) {
        ([], []) => return options(before, after, out),
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

/// `collMod`: the options that changed, of the collection or of one of its indexes.
fn options(before: &Collection, after: &Collection, out: &mut DocWriter<'_>) -> bool {
    let (old, new) = (before.options.doc.as_doc(), after.options.doc.as_doc());
    let changed_index = after.ready_indexes().find_map(|index| {
        let old = before.index(index.name())?;
        let same = old.spec.doc.as_doc().as_bytes() == index.spec.doc.as_doc().as_bytes();
        (!same && index.ready).then_some((old, index))
    });
    if old.as_bytes() == new.as_bytes() && changed_index.is_none() {
        return false;
    }
    let (database, name) = (after.namespace.database(), after.namespace.collection());
    command(database, Some(after), out, |out| {
        out.put("collMod", name);
        let changed = new.iter().filter(|element| {
            old.element(element.name()).is_none_or(|old| !old.value().same_bytes(&element.value()))
        });
        changed.for_each(|element| out.put_element(element));
        if let Some((old, index)) = changed_index {
            out.doc("index", |out| {
                out.put("name", index.name());
                let (old, new) = (old.spec.doc.as_doc(), index.spec.doc.as_doc());
                let differs = |name: &str| !old.get(name).same_bytes(&new.get(name));
                for option in ["hidden", "expireAfterSeconds", "prepareUnique", "unique"] {
                    if differs(option) {
                        out.put(option, new.get(option));
                    }
                }
            });
        }
    });
    out.doc("o2", |out| {
        out.put("collectionOptions_old", doc! { "uuid": (uuid(&before.uuid)) }.as_doc())
    });
    true
}

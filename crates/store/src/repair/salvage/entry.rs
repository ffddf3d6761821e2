//! Recovers the loadable part of a collection's catalog entry that does not load.

use std::iter;

use nagi_bson::{Doc, DocBuf, Value};

use crate::catalog::check_entry;

/// A reduced entry that loads.
pub(super) struct Kept {
    pub(super) entry: DocBuf,
    /// The option and the indexes that were left out, as text.
    pub(super) left_out: Vec<String>,
}

/// Returns the entry without the indexes that do not load and, if it does not load even without any index, without
/// the one option that prevents loading. `None` if the bytes are not a document, if the entry does not load without
/// any single option, and for a view, which without its pipeline would show documents that it is meant to hide.
pub(super) fn kept(value: &[u8]) -> Option<Kept> {
    let doc = Doc::parse_wrapped(value).ok()?;
    let options = doc.get("options").as_doc()?;
    if !options.get("viewOn").is_missing() {
        return None;
    }
    iter::once(None)
        .chain(options.iter().map(|option| Some(option.name())))
        .find_map(|option| without(doc, option))
}

fn without(doc: Doc<'_>, option: Option<&str>) -> Option<Kept> {
    let loads = |entry: &DocBuf| check_entry(entry.as_bytes()).is_ok();
    if !loads(&part(doc, option, &|_| false)) {
        return None;
    }
    let mut left_out: Vec<String> = option.iter().map(|name| format!("option {name}")).collect();
    let mut good = Vec::new();
    for (at, index) in doc.get("indexes").as_array()?.iter().enumerate() {
        let name =
            index.as_doc().and_then(|index| index.get("spec").as_doc()?.get("name").as_str());
        match loads(&part(doc, option, &|other| other == at)) {
            true => good.push(at),
            false if name == Some("_id_") || is_clustered(index) => return None,
            false => left_out.push(format!("index {}", name.unwrap_or("without a name"))),
        }
    }
    let entry = part(doc, option, &|at| good.contains(&at));
    loads(&entry).then_some(Kept { entry, left_out })
}

/// Returns true if this is the clustered index on `_id`, which may have a name other than `_id_`.
fn is_clustered(index: Value<'_>) -> bool {
    let spec = index.as_doc().and_then(|index| index.get("spec").as_doc());
    spec.is_some_and(|spec| spec.get("clustered").is_truthy())
}

/// The entry without the given option and with the selected indexes.
fn part(doc: Doc<'_>, option: Option<&str>, has_index: &dyn Fn(usize) -> bool) -> DocBuf {
    DocBuf::build(|out| {
        for field in doc {
            match (field.name(), field.value().as_doc(), field.value().as_array()) {
                ("options", Some(options), _) => out.doc("options", |out| {
                    for given in options.iter().filter(|given| Some(given.name()) != option) {
                        out.put(given.name(), given.value());
                    }
                }),
                ("indexes", _, Some(indexes)) => out.array("indexes", |out| {
                    let kept = indexes.iter().enumerate().filter(|(at, _)| has_index(*at));
                    kept.for_each(|(_, index)| out.push(index));
                }),
                (name, ..) => out.put(name, field.value()),
            }
        }
    })
}

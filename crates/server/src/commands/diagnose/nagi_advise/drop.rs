//! Which indexes help no query.

use nagi_store::{Collection, Index, IndexSpec, Namespace};

use super::Scope;
use crate::advice::{Known, Useless, useless};
use crate::clock;
use crate::core::command::prelude::*;

/// Limit of the indexes that are listed.
const ADVICE_MAX: usize = 60;

/// An index that may be dropped.
pub(super) struct Advice {
    ns: Namespace,
    index: Known,
    why: Useless,
    bytes: i64,
}

/// Finds them in all collections whose statistics the caller may see; the largest first.
pub(super) fn find(cx: &Context<'_>, scope: &Scope<'_>) -> Result<Vec<Advice>> {
    let catalog = cx.store().catalog();
    let mut found = Vec::new();
    for collection in catalog.iter() {
        cx.check()?;
        let ns = &collection.namespace;
        let may = |action| cx.asking().on_collection(ns.database(), ns.collection(), action);
        let is_plain = !collection.is_view() && collection.options.timeseries.is_none();
        if !is_plain
            || !scope.has(ns.database(), ns.collection())
            || !may(Action::IndexStats)
            || !may(Action::CollStats)
        {
            continue;
        }
        let ready = collection.ready_indexes();
        let known: Vec<Known> = ready.map(|index| known(collection, index)).collect();
        let useless = useless(&known, clock::wall_ms(), scope.unused_ms);
        if useless.is_empty() {
            continue;
        }
        let sizes = cx.store().stats(collection)?.index_bytes;
        for (at, why) in useless {
            let index = known[at].clone();
            let size = sizes.iter().find(|(name, _)| **name == *index.name);
            let bytes = size.map_or(0, |(_, bytes)| *bytes);
            found.push(Advice { ns: ns.clone(), index, why, bytes });
        }
    }
    found.sort_by(|a, b| {
        let key = |advice: &Advice| (advice.ns.as_str().to_owned(), advice.index.name.clone());
        b.bytes.cmp(&a.bytes).then_with(|| key(a).cmp(&key(b)))
    });
    found.truncate(ADVICE_MAX);
    Ok(found)
}

/// The fields of an index with their directions.
pub(super) fn fields(spec: &IndexSpec) -> Vec<(String, i32)> {
    let field =
        |(path, descending): (&str, bool)| (path.to_owned(), if descending { -1 } else { 1 });
    spec.key_fields().map(field).collect()
}

fn known(collection: &Collection, index: &Index) -> Known {
    let spec = &index.spec;
    let (uses, since_ms) = index.uses();
    Known {
        name: index.name().to_owned(),
        fields: fields(spec),
        is_special: spec.is_id()
            || spec.is_clustered()
            || spec.unique
            || spec.prepare_unique
            || spec.sparse
            || spec.partial.is_some()
            || spec.expire_after_seconds.is_some()
            || !spec.kind.facts().by_value
            || spec.kind.facts().by_path
            || spec.collation != collection.options.collation,
        is_hidden: spec.hidden,
        uses,
        since_ms,
    }
}

impl Advice {
    pub(super) fn write(&self, out: &mut DocWriter<'_>) {
        let name = self.index.name.as_str();
        out.put("kind", "dropIndex");
        out.put("ns", self.ns.as_str());
        out.put("name", name);
        out.doc("key", |out| {
            self.index.fields.iter().for_each(|(path, direction)| out.put(path, *direction));
        });
        out.put("reason", self.reason().as_str());
        out.doc("command", |out| {
            out.put("dropIndexes", self.ns.collection());
            out.put("index", name);
        });
        // Reverted at once if a query is slower without it.
        out.doc("tryFirst", |out| {
            out.put("collMod", self.ns.collection());
            out.doc("index", |out| {
                out.put("name", name);
                out.put("hidden", true);
            });
        });
        out.put("sizeBytes", self.bytes);
        if let Useless::Prefix(longer) = &self.why {
            out.put("prefixOf", longer.as_str());
        }
        out.doc("accesses", |out| {
            out.put("ops", i64::try_from(self.index.uses).unwrap_or(i64::MAX));
            out.put("since", Value::DateTime(self.index.since_ms));
        });
    }

    fn reason(&self) -> String {
        match &self.why {
            Useless::Prefix(longer) => {
                format!("the index {longer} begins with the same fields and can serve its queries")
            }
            Useless::Unused(ms) => {
                format!("no query has used it for {:.1} hours", *ms as f64 / 3_600_000.0)
            }
        }
    }
}

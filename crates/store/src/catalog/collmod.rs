//! `collMod`: new options for a collection, an index or a view.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, DocWriter, Value, number};
use nagi_error::{Code, Result, bail};

use super::{
    CollMod, Collection, CollectionOptions,
    ddl::{Ddl, find_by_key},
};
use crate::{Index, Namespace, Store};

impl Store {
    /// `collMod`; gives back the fields of the reply (`*_old`, `*_new`). Codes 26, 27, 72.
    pub fn coll_mod(&self, namespace: &Namespace, changes: CollMod<'_>) -> Result<DocBuf> {
        let mut ddl = Ddl::begin(self)?;
        let Some(collection) = ddl.collection(namespace) else {
            bail!(Code::NAMESPACE_NOT_FOUND, "ns does not exist");
        };
        let options = change_options(&collection, &changes)?;
        let mut reply = Vec::new();
        let mut out = DocWriter::new(&mut reply);
        let mut next = collection.with_indexes(collection.indexes.to_vec());
        next.validator = options.condition()?;
        next.options = options;
        if let Some(change) = changes.index {
            next.indexes = change_index(&collection, change, &mut out)?;
        }
        out.finish();
        ddl.put(next)?;
        ddl.finish()?;
        Ok(DocBuf::from_bytes(reply)?)
    }
}

fn change_options(collection: &Collection, changes: &CollMod<'_>) -> Result<CollectionOptions> {
    let view = collection.is_view();
    if !view && changes.view_on.is_some() {
        bail!(Code::INVALID_OPTIONS, "'viewOn' option only supported on a view");
    }
    if !view && changes.pipeline.is_some() {
        bail!(Code::INVALID_OPTIONS, "'pipeline' option only supported on a view");
    }
    let of_collection = [
        ("index", changes.index.is_some()),
        ("validator", changes.validator.is_some()),
        ("validationLevel", changes.validation_level.is_some()),
        ("validationAction", changes.validation_action.is_some()),
    ];
    if view && let Some((name, _)) = of_collection.iter().find(|(_, given)| *given) {
        bail!(Code::INVALID_OPTIONS, "option not supported on a view: {name}");
    }
    let new: [(&str, Option<Value<'_>>); 5] = [
        ("validator", changes.validator.map(Value::Doc)),
        ("validationLevel", changes.validation_level.map(Value::String)),
        ("validationAction", changes.validation_action.map(Value::String)),
        ("viewOn", changes.view_on.map(Value::String)),
        ("pipeline", changes.pipeline.map(Value::Array)),
    ];
    let doc = DocBuf::build(|w| {
        for element in collection.options.doc.as_doc() {
            let changed =
                new.iter().any(|(name, value)| *name == element.name() && value.is_some());
            if !changed {
                w.put(element.name(), element.value());
            }
        }
        for (name, value) in new {
            w.put(name, value.unwrap_or(Value::Missing));
        }
    });
    CollectionOptions::parse(doc.as_doc(), &collection.namespace)
}

fn change_index(
    collection: &Collection,
    change: Doc<'_>,
    out: &mut DocWriter<'_>,
) -> Result<Box<[Arc<Index>]>> {
    let index = match (change.get("name"), change.get("keyPattern")) {
        (Value::String(_), Value::Doc(_)) => {
            bail!(Code::INVALID_OPTIONS, "Cannot specify both key pattern and name.")
        }
        (Value::String(name), _) => match collection.index(name) {
            Some(index) => Arc::clone(index),
            None => bail!(
                Code::INDEX_NOT_FOUND,
                "cannot find index {name} for ns {}",
                collection.namespace
            ),
        },
        (_, Value::Doc(key)) => find_by_key(collection, key)?,
        _ => bail!(Code::INVALID_OPTIONS, "Must specify either index name or key pattern"),
    };
    let mut spec = index.spec.clone();
    let mut any = false;
    for element in change {
        let value = element.value();
        match element.name() {
            "name" | "keyPattern" => continue,
            "expireAfterSeconds" => {
                let Some(seconds) = number::truncate_to_i64(value) else {
                    bail!(Code::INVALID_OPTIONS, "expireAfterSeconds field must be a number");
                };
                if index.spec.key.len() != 1 || index.spec.is_id() {
                    bail!(Code::INVALID_OPTIONS, "TTL indexes are single-field indexes");
                }
                if let Some(old) = spec.expire_after_seconds {
                    out.put("expireAfterSeconds_old", old);
                }
                out.put("expireAfterSeconds_new", seconds);
                spec = spec.with_option("expireAfterSeconds", Some(Value::Int64(seconds)));
            }
            "hidden" => {
                if index.spec.is_id() {
                    bail!(Code::BAD_VALUE, "can't hide _id index");
                }
                let hidden = value.is_truthy();
                if spec.hidden != hidden {
                    out.put("hidden_old", spec.hidden);
                    out.put("hidden_new", hidden);
                }
                spec = spec.with_option("hidden", hidden.then_some(Value::Bool(true)));
            }
            name @ ("unique" | "prepareUnique") => bail!(
                Code::COMMAND_NOT_SUPPORTED,
                "collMod: changing '{name}' of an index is not supported yet"
            ),
            name => bail!(
                Code::IDL_UNKNOWN_FIELD,
                "BSON field 'collMod.index.{name}' is an unknown field."
            ),
        }
        any = true;
    }
    if !any {
        bail!(
            Code::INVALID_OPTIONS,
            "no expireAfterSeconds, hidden, unique, or prepareUnique field"
        );
    }
    let changed = Index::new(spec, index.ready, index.ident, Arc::clone(&index.multikey))?;
    let changed = Arc::new(changed);
    let swap = |old: &Arc<Index>| match old.ident == index.ident {
        true => Arc::clone(&changed),
        false => Arc::clone(old),
    };
    Ok(collection.indexes.iter().map(swap).collect())
}

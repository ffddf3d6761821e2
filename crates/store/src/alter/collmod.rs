//! `collMod`: new options for a collection, an index or a view.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, DocWriter, Element, Value, ValueBuf, number};
use nagi_error::{Code, Error, Result, bail};

use crate::{Index, IndexSpec, Namespace, RecordId, Store, index::EXPIRE_SECONDS_MAX};
use crate::{
    catalog::{CollMod, Collection, CollectionOptions, view_graph},
    store::{
        ddl::{Ddl, find_by_key},
        time_series,
    },
};

/// Limit of the groups of documents with equal keys that are listed.
const VIOLATION_COUNT_MAX: usize = 1000;
/// Keys between two interrupt checks.
const ASK_EACH: u64 = 64;

impl Store {
    /// `collMod`. Returns the fields of the reply (`*_old`, `*_new`). Codes 26, 27, 72, 12587.
    pub fn coll_mod(&self, namespace: &Namespace, changes: CollMod<'_>) -> Result<DocBuf> {
        let checked = self.check_unique_first(namespace, &changes)?;
        let mut ddl = Ddl::changing(self, &|catalog| {
            let collection = catalog.collection(namespace);
            let other = collection.and_then(|found| time_series::other_half(catalog, found));
            collection.cloned().into_iter().chain(other).collect()
        })?;
        ddl.catalog.check_uuid(namespace, changes.uuid)?;
        let Some(collection) = ddl.collection(namespace) else {
            bail!(Code::NAMESPACE_NOT_FOUND, "ns does not exist");
        };
        collection.refuse_while_building()?;
        let mut options = change_options(&collection, &changes)?;
        let longer = changed_series(&collection, changes.timeseries)?;
        if let Some(longer) = &longer {
            options = with_series(&options, longer, namespace)?;
        }
        if let Some(view) = &options.view {
            view_graph::check(&ddl.catalog, namespace, view, options.collation)?;
        }
        if changes.validator.is_some() {
            options.check_place(namespace, collection.uuid)?;
        }
        let mut reply = Vec::new();
        let mut out = DocWriter::new(&mut reply);
        let mut next = collection.with_indexes(collection.indexes.to_vec());
        next.validator = options.condition()?;
        next.options = options;
        if let Some(change) = changes.index {
            next.indexes = change_index(&collection, change, checked.as_ref(), &mut out)?;
        }
        out.finish();
        if !changes.dry_run {
            let buckets = ddl.put_modified(next)?;
            if let (Some(longer), Some(view)) = (&longer, ddl.other_half(&buckets)) {
                let mut next = view.with_indexes(view.indexes.to_vec());
                next.options = time_series::changed_view(&view, longer)?;
                ddl.put(next)?;
            }
            ddl.finish()?;
        }
        Ok(DocBuf::from_bytes(reply)?)
    }

    /// If an index is to become unique, reads all of it before the DDL lock is taken. Returns the index if it has
    /// no duplicates; 359 if it has. Other errors are reported later.
    fn check_unique_first(
        &self,
        namespace: &Namespace,
        changes: &CollMod<'_>,
    ) -> Result<Option<Arc<Index>>> {
        let flag =
            |value: Value<'_>| value == Value::Bool(true) || value.is_number() && value.is_truthy();
        let wanted = changes.index.filter(|change| flag(change.get("unique")));
        let (Some(change), Some(collection)) = (wanted, self.collection(namespace)) else {
            return Ok(None);
        };
        collection.refuse_while_building()?;
        let Ok(index) = find_index(&collection, change) else { return Ok(None) };
        if index.spec.unique || !index.spec.prepare_unique {
            return Ok(None);
        }
        // Writers that do not know yet that new duplicates are refused.
        collection.state.wait_for_earlier();
        refuse_duplicates(self, &collection, &index, changes.interrupt)?;
        Ok(Some(index))
    }
}

/// The options of the time series after `collMod`; none if they stay the same.
fn changed_series(
    collection: &Collection,
    changes: Option<Doc<'_>>,
) -> Result<Option<nagi_timeseries::Options>> {
    let Some(changes) = changes else { return Ok(None) };
    match &collection.options.timeseries {
        Some(series) => series.change(changes),
        None => bail!(
            Code::INVALID_OPTIONS,
            "'timeseries' is only supported on a time-series collection"
        ),
    }
}

fn with_series(
    options: &CollectionOptions,
    series: &nagi_timeseries::Options,
    namespace: &Namespace,
) -> Result<CollectionOptions> {
    let doc = DocBuf::build(|out| {
        for element in options.doc.as_doc() {
            match element.name() {
                "timeseries" => out.put("timeseries", &series.to_doc()),
                _ => out.put_element(element),
            }
        }
    });
    CollectionOptions::parse(doc.as_doc(), namespace)
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
        ("changeStreamPreAndPostImages", changes.pre_images.is_some()),
    ];
    if view && let Some((name, _)) = of_collection.iter().find(|(_, given)| *given) {
        bail!(Code::INVALID_OPTIONS, "option not supported on a view: {name}");
    }
    let capped = changes.capped_size.is_some() || changes.capped_max.is_some();
    if capped && !collection.options.capped {
        bail!(Code::INVALID_OPTIONS, "Collection must be capped.");
    }
    if changes.expire_after_seconds.is_some() && collection.options.clustered.is_none() {
        bail!(
            Code::INVALID_OPTIONS,
            "'expireAfterSeconds' is only supported on a time-series collection or a clustered \
             collection"
        );
    }
    if changes.expire_after_seconds.is_some_and(|seconds| seconds.is_number())
        && collection.options.encrypted_fields.is_some()
    {
        return Err(IndexSpec::ttl_of_encrypted());
    }
    let images = changes.pre_images.map(|doc| match doc.get("enabled").is_truthy() {
        true => Value::Doc(doc),
        false => Value::Missing,
    });
    let new: [(&str, Option<Value<'_>>); 9] = [
        ("changeStreamPreAndPostImages", images),
        ("validator", changes.validator.map(Value::Doc)),
        ("validationLevel", changes.validation_level.map(Value::String)),
        ("validationAction", changes.validation_action.map(Value::String)),
        ("viewOn", changes.view_on.map(Value::String)),
        ("pipeline", changes.pipeline.map(Value::Array)),
        ("size", changes.capped_size.map(Value::Int64)),
        ("max", changes.capped_max.map(Value::Int64)),
        ("expireAfterSeconds", changes.expire_after_seconds),
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

/// The index that a change refers to.
fn find_index(collection: &Collection, change: Doc<'_>) -> Result<Arc<Index>> {
    match (change.get("name"), change.get("keyPattern")) {
        (Value::String(_), Value::Doc(_)) => {
            bail!(Code::INVALID_OPTIONS, "Cannot specify both key pattern and name.")
        }
        (Value::String(name), _) => match collection.index(name) {
            Some(index) => Ok(Arc::clone(index)),
            None => bail!(
                Code::INDEX_NOT_FOUND,
                "cannot find index {name} for ns {}",
                collection.namespace
            ),
        },
        (_, Value::Doc(key)) => find_by_key(collection, key),
        _ => bail!(Code::INVALID_OPTIONS, "Must specify either index name or key pattern"),
    }
}

/// `checked`: an index without duplicates, which also gets no new ones.
fn change_index(
    collection: &Collection,
    change: Doc<'_>,
    checked: Option<&Arc<Index>>,
    out: &mut DocWriter<'_>,
) -> Result<Box<[Arc<Index>]>> {
    let index = find_index(collection, change)?;
    if collection.options.encrypted_fields.is_some()
        && !change.get("expireAfterSeconds").is_nullish()
    {
        return Err(IndexSpec::ttl_of_encrypted());
    }
    let is_checked = checked.is_some_and(|checked| Arc::ptr_eq(checked, &index));
    let mut spec = index.spec.clone();
    let mut any = false;
    for element in change {
        // Null counts as missing, as in other commands.
        if matches!(element.name(), "name" | "keyPattern") || element.value().is_nullish() {
            continue;
        }
        spec = change_option(&index, spec, element, is_checked, out)?;
        any = true;
    }
    if !any {
        bail!(
            Code::INVALID_OPTIONS,
            "no expireAfterSeconds, hidden, unique, or prepareUnique field"
        );
    }
    let changed = Arc::new(index.changed(spec, index.ready)?);
    let swap = |old: &Arc<Index>| match old.ident == index.ident {
        true => Arc::clone(&changed),
        false => Arc::clone(old),
    };
    Ok(collection.indexes.iter().map(swap).collect())
}

/// Refuses strings and documents, because they would count as true: `hidden: "false"` would hide the index.
fn check_flag(option: Element<'_>) -> Result<()> {
    let value = option.value();
    if matches!(value, Value::Bool(_)) || value.is_number() {
        return Ok(());
    }
    bail!(
        Code::TYPE_MISMATCH,
        "BSON field 'collMod.index.{}' is the wrong type '{}', expected types '[bool, long, int, \
         decimal, double]'",
        option.name(),
        value.kind().name()
    )
}

/// Changes one option of an index, and writes its old and its new value.
fn change_option(
    index: &Index,
    spec: IndexSpec,
    option: Element<'_>,
    is_checked: bool,
    out: &mut DocWriter<'_>,
) -> Result<IndexSpec> {
    let value = option.value();
    if matches!(option.name(), "hidden" | "prepareUnique" | "unique") {
        check_flag(option)?;
    }
    let truthy = value.is_truthy();
    let flag = truthy.then_some(Value::Bool(true));
    match option.name() {
        "expireAfterSeconds" => {
            let seconds = expire_after(value)?;
            // That of buckets has both ends of the time.
            let of_series =
                index.spec.expire_after_seconds.is_some() && index.spec.original.is_some();
            if (index.spec.key.len() != 1 && !of_series) || index.spec.is_id() {
                bail!(Code::INVALID_OPTIONS, "TTL indexes are single-field indexes");
            }
            if let Some(old) = spec.expire_after_seconds {
                out.put("expireAfterSeconds_old", old);
            }
            out.put("expireAfterSeconds_new", seconds);
            Ok(spec.with_option("expireAfterSeconds", Some(Value::Int64(seconds))))
        }
        "hidden" => {
            if index.spec.is_id() {
                bail!(Code::BAD_VALUE, "can't hide _id index");
            }
            if spec.hidden != truthy {
                out.put("hidden_old", spec.hidden);
                out.put("hidden_new", truthy);
            }
            Ok(spec.with_option("hidden", flag))
        }
        "prepareUnique" => {
            if spec.prepare_unique != truthy {
                out.put("prepareUnique_old", spec.prepare_unique);
                out.put("prepareUnique_new", truthy);
            }
            Ok(spec.with_option("prepareUnique", flag))
        }
        "unique" => {
            if !truthy {
                bail!(
                    Code::BAD_VALUE,
                    "collMod does not support converting an index to non-unique"
                );
            }
            if spec.unique {
                return Ok(spec);
            }
            if !index.spec.prepare_unique {
                bail!(
                    Code::INVALID_OPTIONS,
                    "Cannot make index unique with 'prepareUnique=false'. Run collMod to set it \
                     first."
                );
            }
            if !is_checked {
                bail!(
                    Code::CONFLICTING_OPERATION_IN_PROGRESS,
                    "index '{}' was changed by another operation; run collMod again",
                    index.name()
                );
            }
            out.put("unique_new", true);
            Ok(spec.with_option("prepareUnique", None).with_option("unique", flag))
        }
        name => {
            bail!(Code::IDL_UNKNOWN_FIELD, "BSON field 'collMod.index.{name}' is an unknown field.")
        }
    }
}

/// Reads the whole index; 359 with the `_id`s of records that share a key.
fn refuse_duplicates(
    store: &Store,
    collection: &Collection,
    index: &Index,
    interrupt: Option<&dyn Fn() -> Result<()>>,
) -> Result<()> {
    let snapshot = store.snapshot()?;
    let reader = snapshot.reader();
    let mut cursor = reader.index_cursor(index, true, &[], &[])?;
    let mut groups: Vec<Vec<RecordId>> = Vec::new();
    let (mut key, mut ids) = (Vec::new(), Vec::new());
    let mut seen = 0;
    while cursor.advance()? && groups.len() < VIOLATION_COUNT_MAX {
        seen += 1;
        if seen % ASK_EACH == 0
            && let Some(interrupt) = interrupt
        {
            interrupt()?;
        }
        if cursor.key() != key {
            key = cursor.key().to_vec();
            groups.extend((ids.len() > 1).then(|| std::mem::take(&mut ids)));
            ids.clear();
        }
        ids.push(cursor.record_id().to_id());
    }
    groups.extend((ids.len() > 1).then_some(ids));
    if groups.is_empty() {
        return Ok(());
    }
    let mut violations = Vec::new();
    let mut buf = crate::RecordBuf::default();
    for group in groups {
        let mut found = Vec::new();
        for id in group {
            if let Some(doc) = reader.record(collection, id.key(), &mut buf)? {
                found.push(ValueBuf::new(doc.get("_id")));
            }
        }
        violations.push(found);
    }
    let info = DocBuf::build(|w| {
        w.array("violations", |w| {
            for ids in &violations {
                w.doc(|w| w.array("ids", |w| ids.iter().for_each(|id| w.push(id.value()))));
            }
        });
    });
    let message = "Cannot convert the index to unique. Please resolve conflicting documents \
                   before running collMod again.";
    Err(Error::new(Code::CANNOT_CONVERT_INDEX_TO_UNIQUE, message).with_info(info))
}

/// The TTL of an index in seconds. As in `createIndexes`, NaN means never.
fn expire_after(value: Value<'_>) -> Result<i64> {
    let Some(seconds) = number::truncate_to_i64(value) else {
        bail!(Code::INVALID_OPTIONS, "expireAfterSeconds field must be a number");
    };
    if number::as_f64(value).is_some_and(f64::is_nan) {
        return Ok(EXPIRE_SECONDS_MAX);
    }
    if seconds < 0 {
        bail!(Code::INVALID_OPTIONS, "TTL index 'expireAfterSeconds' option cannot be less than 0");
    }
    if seconds > EXPIRE_SECONDS_MAX {
        bail!(
            Code::INVALID_OPTIONS,
            "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a \
             different value"
        );
    }
    Ok(seconds)
}

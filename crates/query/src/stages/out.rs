//! `$out`: the documents replace the contents of a collection.
//!
//! They are written to a temporary collection with the target's options and indexes, which is then renamed over the
//! target. So readers see either the old collection or the complete new one.
//!
//! If the target is a time series collection, or becomes one by the option `timeseries`, then the temporary collection
//! is one of buckets, which takes the place of the target's buckets.

use std::sync::Arc;

use nagi_bson::ValueBuf;
use nagi_store::{
    BuildOptions, Collection, Durability, Namespace, Store, TargetFacts, WriteOptions,
};
use nagi_timeseries::Options;

use super::prelude::*;
use crate::write::{InsertStatement, insert_measurements};

pub(super) static OUT: StageSpec = StageSpec {
    name: "$out",
    shape: How::Same,
    place: Place::Last,
    parse,
    accumulates: super::Accumulates::Nowhere,
    facts: StageFacts {
        in_transaction: false,
        writes: true,
        in_view: false,
        ..StageFacts::ORDINARY
    },
};

/// Documents written in one transaction.
const BATCH_COUNT: usize = 500;
/// Approximate bytes written in one transaction: at a commit the engine holds several copies of them.
const BATCH_BYTES: usize = 1 << 20;

#[derive(Clone)]
struct Out {
    target: Namespace,
    series: Option<Arc<Options>>,
    bypass_validation: bool,
    text: ValueBuf,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let (database, collection, series) = match spec {
        Value::String(name) => (cx.namespace.database(), name, Value::Missing),
        Value::Doc(doc) => {
            for element in doc {
                if !matches!(element.name(), "db" | "coll" | "timeseries") {
                    bail!(
                        Code::IDL_UNKNOWN_FIELD,
                        "BSON field '$out.{}' is an unknown field.",
                        element.name()
                    );
                }
            }
            let (Value::String(db), Value::String(coll)) = (doc.get("db"), doc.get("coll")) else {
                bail!(
                    Code::Location(16994),
                    "If an object is passed to $out it must have exactly 2 fields: 'db' and 'coll'"
                );
            };
            (db, coll, doc.get("timeseries"))
        }
        _ => bail!(
            Code::Location(16990),
            "$out only supports a string or object argument, but found {}",
            spec.kind().name()
        ),
    };
    let target = Namespace::new(database, collection)?;
    if !cx.for_access {
        refuse_internal("$out to", &target, Code::Location(31321))?;
        if target.is_system() {
            bail!(Code::Location(17385), "Can't $out to special collection: {collection}");
        }
    }
    let series = match series {
        Value::Missing => None,
        Value::Doc(series) => Some(Arc::new(Options::parse_in("$out", series, target.as_str())?)),
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field '$out.timeseries' is the wrong type '{}', expected type 'object'",
            other.kind().name()
        ),
    };
    let bypass_validation = cx.bypass_validation;
    Ok(Box::new(Out { target, series, bypass_validation, text: ValueBuf::new(spec) }))
}

/// Refuses the server's internal databases.
pub(super) fn refuse_internal(what: &str, target: &Namespace, code: Code) -> Result<()> {
    match target.database() {
        db @ ("admin" | "config" | "local") => {
            bail!(code, "Cannot {what} internal database: {db}")
        }
        _ => Ok(()),
    }
}

impl Out {
    /// The options of the time series that the target is, or is going to be; none for an ordinary collection.
    ///
    /// # Errors
    /// 7268700, 7268703, 7406103 if the target exists, and the option `timeseries` is not that of the target.
    fn series(&self, store: &Store) -> Result<Option<Arc<Options>>> {
        let present = store.buckets_of(&self.target);
        let present = present.and_then(|buckets| buckets.options.timeseries.clone());
        let Some(asked) = &self.series else { return Ok(present) };
        match (&present, store.collection(&self.target)) {
            (Some(present), _) if present != asked => bail!(
                Code::Location(7_406_103),
                "Time series options inputted must match the existing time series collection. Received: {} \
                 Found: {}",
                asked.to_doc().as_doc(),
                present.to_doc().as_doc()
            ),
            (None, Some(view)) if view.is_view() => bail!(
                Code::Location(7_268_703),
                "Cannot create a time series collection from a view: {}",
                self.target
            ),
            (None, Some(_)) => bail!(
                Code::Location(7_268_700),
                "Cannot create a time series collection from a non time series collection: {}",
                self.target
            ),
            _ => Ok(Some(Arc::clone(asked))),
        }
    }
}

impl Stage for Out {
    fn check_target(&self, store: &Store) -> Result<()> {
        self.series(store).map(drop)
    }

    fn touches(&self, out: &mut Vec<super::Touch>) {
        for usage in [super::Use::Insert, super::Use::Remove] {
            out.push(super::Touch { namespace: self.target.clone(), usage });
        }
    }

    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running { input, out: self.clone(), done: false })
    }

    fn writes(&self) -> bool {
        true
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$out", self.text.value());
    }
}

struct Running {
    input: Box<dyn Source>,
    out: Out,
    done: bool,
}

/// Inserts documents in one transaction.
pub(super) fn insert_all(
    store: &Store,
    collection: &Collection,
    docs: &[Doc<'_>],
    bypass_validation: bool,
    cx: &Cx<'_>,
) -> Result<()> {
    let check = || cx.env.interrupt().check();
    let options =
        WriteOptions { interrupt: Some(&check), bypass_validation, ..WriteOptions::default() };
    store.write(options, &mut |txn| {
        docs.iter().try_for_each(|doc| txn.insert(collection, *doc).map(|_| ()))
    })?;
    Ok(())
}

/// Inserts measurements in one transaction.
fn insert_all_measurements(
    buckets: &Arc<Collection>,
    docs: &[Doc<'_>],
    bypass_validation: bool,
    cx: &Cx<'_>,
) -> Result<()> {
    let statement = InsertStatement {
        encryption: None,
        docs,
        ordered: true,
        done: &[],
        statement: None,
        durability: Durability::Buffered,
        bypass_validation,
        keep_empty_timestamps: false,
    };
    let outcome = insert_measurements(cx.store, buckets, &statement, cx.env)?;
    outcome.errors.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
}

impl Running {
    /// The name of the temporary collection.
    fn temporary(&self, cx: &Cx<'_>) -> Result<Namespace> {
        let id = cx.store.new_object_id();
        let mut name = String::from("tmp.agg_out.");
        id.iter().for_each(|byte| name.push_str(&format!("{byte:02x}")));
        Namespace::new(self.out.target.database(), &name)
    }

    /// Creates the temporary collection. Returns what the target is.
    fn prepare(&self, temporary: &Namespace, cx: &Cx<'_>) -> Result<TargetFacts> {
        let target = cx.store.collection(&self.out.target);
        if let Some(target) = &target {
            if target.is_view() {
                bail!(
                    Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                    "Namespace {} is a view, not a collection",
                    self.out.target
                );
            }
            if target.options.capped {
                bail!(
                    Code::Location(17152),
                    "namespace '{}' is capped so it can't be used for $out",
                    self.out.target
                );
            }
        }
        let facts = TargetFacts::of(target.as_deref());
        let options = DocBuf::build(|w| {
            w.extend(facts.options());
            w.put("temp", true);
        });
        cx.store.create_collection(temporary, options.as_doc())?;
        let specs: Vec<Doc<'_>> = facts.indexes().collect();
        if !specs.is_empty() {
            cx.store.create_indexes(temporary, &specs, BuildOptions::default())?;
        }
        Ok(facts)
    }

    /// Passes all documents to `insert`, those of one transaction at a time.
    fn drain(
        &mut self,
        cx: &mut Cx<'_>,
        insert: &dyn Fn(&[Doc<'_>], &Cx<'_>) -> Result<()>,
    ) -> Result<()> {
        let insert_all = |docs: &mut Vec<DocBuf>, cx: &Cx<'_>| {
            if docs.is_empty() {
                return Ok(());
            }
            let borrowed: Vec<Doc<'_>> = docs.iter().map(DocBuf::as_doc).collect();
            let inserted = insert(&borrowed, cx);
            docs.clear();
            inserted
        };
        let mut docs: Vec<DocBuf> = Vec::new();
        let mut bytes = 0;
        while self.input.advance(cx)? {
            let doc = self.input.doc();
            if doc.len() >= BATCH_BYTES {
                insert_all(&mut docs, cx)?;
                // Not copied.
                insert(&[doc], cx)?;
                bytes = 0;
                continue;
            }
            bytes += doc.len();
            docs.push(doc.to_buf());
            if docs.len() >= BATCH_COUNT || bytes >= BATCH_BYTES {
                insert_all(&mut docs, cx)?;
                bytes = 0;
            }
        }
        insert_all(&mut docs, cx)
    }

    fn fill(&mut self, temporary: &Namespace, cx: &mut Cx<'_>) -> Result<()> {
        let facts = self.prepare(temporary, cx)?;
        let collection = cx.store.collection_or_create(temporary)?;
        let bypass = self.out.bypass_validation;
        self.drain(cx, &|docs, cx| insert_all(cx.store, &collection, docs, bypass, cx))?;
        cx.store.replace_collection(temporary, &self.out.target, &facts)
    }

    /// The same for a time series.
    fn fill_buckets(
        &mut self,
        temporary: &Namespace,
        series: &Options,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        let (buckets, facts) = cx.store.spare_buckets(&self.out.target, temporary, series)?;
        let bypass = self.out.bypass_validation;
        self.drain(cx, &|docs, cx| insert_all_measurements(&buckets, docs, bypass, cx))?;
        cx.store.replace_buckets(temporary, &self.out.target, &facts)
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(false);
        }
        let mut temporary = self.temporary(cx)?;
        let filled = match self.out.series(cx.store)? {
            Some(series) => {
                temporary = temporary.buckets()?;
                self.fill_buckets(&temporary, &series, cx)
            }
            None => self.fill(&temporary, cx),
        };
        if let Err(error) = filled {
            // This error is more informative than one of the clean-up.
            let _ = cx.store.drop_collection(&temporary);
            return Err(error);
        }
        Ok(false)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::EMPTY
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }
}

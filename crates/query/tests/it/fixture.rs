//! A store in memory with one collection, and requests as text.

use std::sync::Arc;

use nagi_bson::{Array, Doc, DocBuf, Value, json};
use nagi_error::Result;
use nagi_kv::{Durability, Engine, Space, TxnOptions};
use nagi_lang::collation::Asked;
use nagi_query::limits::{QueryOptions, StageMemory};
use nagi_query::{
    AggregateRequest, Env, Execution, Explained, FindRequest, Interrupt, Take, Verbosity,
    aggregate, explain, find,
};
use nagi_store::{BuildOptions, Namespace, Store, WriteOptions};

pub(crate) struct Fixture {
    pub(crate) store: Arc<Store>,
    pub(crate) ns: Namespace,
}

pub(crate) fn doc(text: &str) -> DocBuf {
    json::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(crate) const NOW_MS: i64 = 1_700_000_000_000;

impl Fixture {
    pub(crate) fn new() -> Fixture {
        let engine = crate::engine();
        let store = Store::open(engine, crate::options()).unwrap();
        Fixture { store, ns: Namespace::new("test", "c").unwrap() }
    }

    /// Creates it with `docs` documents. The order of `k` is not that of insertion, and one document in fifty has
    /// `long` characters more.
    pub(crate) fn with_long_ones(docs: i64, long: usize) -> Fixture {
        let fixture = Fixture::new();
        let collection = fixture.store.collection_or_create(&fixture.ns).unwrap();
        for first in (0..docs).step_by(1000) {
            let all = fixture.store.write(WriteOptions::default(), &mut |txn| {
                (first..docs.min(first + 1000)).try_for_each(|n| {
                    let more = "x".repeat(if n % 50 == 7 { long } else { 0 });
                    let text = format!("{{_id: {n}, k: {}, s: 'text{more}'}}", (n * 7919) % 30_011);
                    txn.insert(&collection, doc(&text).as_doc()).map(drop)
                })
            });
            all.unwrap();
        }
        fixture
    }

    /// Creates it with a clustered collection. `older`: in the earlier format, with records under numbers.
    pub(crate) fn clustered(older: bool) -> Fixture {
        let engine: Arc<dyn Engine> = crate::engine();
        let store = Store::open(Arc::clone(&engine), crate::options()).unwrap();
        let ns = Namespace::new("test", "c").unwrap();
        let options = doc("{clusteredIndex: {key: {_id: 1}, unique: true}}");
        store.create_collection(&ns, options.as_doc()).unwrap();
        if !older {
            return Fixture { store, ns };
        }
        drop(store);
        let mut txn = engine.begin(TxnOptions::default()).unwrap();
        let mut cursor = engine.latest().cursor(Space::Catalog, &[2], &[3]).unwrap();
        assert!(cursor.seek(&[2]).unwrap());
        let entry = DocBuf::build(|w| {
            let fields = Doc::parse(cursor.value()).unwrap();
            let kept = fields.iter().filter(|field| field.name() != "layout");
            kept.for_each(|field| w.put(field.name(), field.value()));
        });
        txn.put(Space::Catalog, cursor.key(), entry.as_bytes()).unwrap();
        txn.commit(Durability::Buffered).unwrap();
        Fixture { store: Store::open(engine, crate::options()).unwrap(), ns }
    }

    /// One in four has a clustered collection, and one in eight a clustered one in the earlier format.
    pub(crate) fn of_kind(number: u64) -> Fixture {
        match number % 8 {
            1 | 6 => Fixture::clustered(false),
            3 => Fixture::clustered(true),
            _ => Fixture::new(),
        }
    }

    pub(crate) fn insert(&self, text: &str) -> Result<()> {
        self.insert_doc("c", doc(text).as_doc())
    }

    pub(crate) fn insert_doc(&self, name: &str, doc: Doc<'_>) -> Result<()> {
        let ns = Namespace::new("test", name)?;
        let collection = self.store.collection_or_create(&ns)?;
        let options = WriteOptions::default();
        self.store.write(options, &mut |txn| txn.insert(&collection, doc).map(|_| ()))?;
        Ok(())
    }

    /// Creates a collection or a view.
    pub(crate) fn create(&self, name: &str, options: Doc<'_>) -> Result<()> {
        let ns = Namespace::new("test", name)?;
        self.store.create_collection(&ns, options).map(|_| ())
    }

    pub(crate) fn try_index(&self, text: &str) -> Result<()> {
        let spec = doc(text);
        self.store.create_indexes(&self.ns, &[spec.as_doc()], BuildOptions::default()).map(|_| ())
    }

    pub(crate) fn index(&self, text: &str) {
        self.try_index(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    pub(crate) fn find(&self, request: &FindRequest<'_>) -> Result<Vec<DocBuf>> {
        let env = Env::new(&(), NOW_MS);
        drain(find(&self.store, request, &env)?, usize::MAX)
    }

    pub(crate) fn aggregate(&self, pipeline: &str) -> Result<Vec<DocBuf>> {
        self.aggregate_in(pipeline, nagi_query::limits::SORT_MEMORY_BYTES_MAX)
    }

    pub(crate) fn aggregate_in(&self, pipeline: &str, memory: usize) -> Result<Vec<DocBuf>> {
        let wrapped = doc(&format!("{{p: {pipeline}}}"));
        let Value::Array(stages) = wrapped.get("p") else { panic!("{pipeline}: no array") };
        let request = AggregateRequest {
            options: QueryOptions { memory: StageMemory::all(memory), ..QueryOptions::DEFAULT },
            ..AggregateRequest::new(&self.ns, stages)
        };
        let env = Env::new(&(), NOW_MS);
        drain(aggregate(&self.store, &request, &env)?, usize::MAX)
    }

    pub(crate) fn aggregate_under(
        &self,
        collation: Doc<'_>,
        stages: Array<'_>,
    ) -> Result<Vec<DocBuf>> {
        let request = AggregateRequest {
            collation: Asked::parse(Some(collation))?,
            ..AggregateRequest::new(&self.ns, stages)
        };
        let env = Env::new(&(), NOW_MS);
        drain(aggregate(&self.store, &request, &env)?, usize::MAX)
    }

    pub(crate) fn aggregate_without_disk(
        &self,
        pipeline: &str,
        memory: usize,
    ) -> Result<Vec<DocBuf>> {
        let wrapped = doc(&format!("{{p: {pipeline}}}"));
        let Value::Array(stages) = wrapped.get("p") else { panic!("{pipeline}: no array") };
        let request = AggregateRequest {
            options: QueryOptions {
                memory: StageMemory::all(memory),
                allow_disk_use: false,
                ..QueryOptions::DEFAULT
            },
            ..AggregateRequest::new(&self.ns, stages)
        };
        let env = Env::new(&(), NOW_MS);
        drain(aggregate(&self.store, &request, &env)?, usize::MAX)
    }

    /// The winning plan of a find: names of stages and indexes from the top.
    pub(crate) fn plan(&self, request: &FindRequest<'_>) -> String {
        let out = self.try_explain(&Explained::Find(*request), Verbosity::QueryPlanner).unwrap();
        stages(out.get("queryPlanner").as_doc().unwrap().get("winningPlan"))
    }

    pub(crate) fn try_explain(
        &self,
        explained: &Explained<'_>,
        verbosity: Verbosity,
    ) -> Result<DocBuf> {
        let env = Env::new(&(), NOW_MS);
        let mut outcome = Ok(());
        let out = DocBuf::build(|out| {
            outcome = explain(&self.store, explained, verbosity, &env, &|| 0, out);
        });
        outcome.map(|()| out)
    }
}

/// Limits the number of records that are read ahead.
pub(crate) struct Ahead(pub(crate) usize);

impl Interrupt for Ahead {
    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn records_ahead_max(&self) -> usize {
        self.0
    }
}

/// Reads an execution in batches of `batch`, parked between them.
pub(crate) fn drain(mut execution: Execution, batch: usize) -> Result<Vec<DocBuf>> {
    let mut out: Vec<DocBuf> = Vec::new();
    loop {
        let mut taken = 0;
        // Small batches are combined with small and varying read-ahead.
        let ahead = Ahead(if batch > 100 { 256 } else { 1 + (batch + out.len()) % 5 });
        let more = execution.batch(&ahead, &mut |doc| {
            if taken == batch {
                return Ok(Take::Refused);
            }
            taken += 1;
            out.push(doc.to_buf());
            Ok(if taken == batch && batch.is_multiple_of(2) { Take::Last } else { Take::More })
        })?;
        if !more {
            return Ok(out);
        }
        execution.save();
    }
}

/// Names of the stages of a plan from the top, with index names.
pub(crate) fn stages(plan: Value<'_>) -> String {
    let mut out = Vec::new();
    collect(plan, &mut out);
    out.join(" < ")
}

fn collect(plan: Value<'_>, out: &mut Vec<String>) {
    match plan {
        Value::Array(plans) => plans.iter().for_each(|plan| collect(plan, out)),
        Value::Doc(plan) => {
            if let Some(stage) = plan.get("stage").as_str() {
                let index = plan.get("indexName").as_str().unwrap_or("");
                out.push(format!("{stage} {index}").trim().to_owned());
            }
            collect(plan.get("inputStage"), out);
            collect(plan.get("inputStages"), out);
        }
        _ => {}
    }
}

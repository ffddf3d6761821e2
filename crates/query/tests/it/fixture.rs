//! A store in memory with one collection, and requests as text.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value, json};
use nagi_error::Result;
use nagi_query::{
    AggregateRequest, Env, Execution, Explained, FindRequest, Take, Verbosity, aggregate, explain,
    find,
};
use nagi_store::{
    BuildOptions, Collection, Durability, Namespace, Store, StoreOptions, WriteOptions,
};

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
        let engine = Arc::new(nagi_kv::Memory::new());
        let store = Store::open(engine, StoreOptions::default()).unwrap();
        Fixture { store, ns: Namespace::new("test", "c").unwrap() }
    }

    pub(crate) fn with(docs: &[&str], indexes: &[&str]) -> Fixture {
        let fixture = Fixture::new();
        for index in indexes {
            fixture.index(index);
        }
        for text in docs {
            fixture.insert(text).unwrap();
        }
        fixture
    }

    pub(crate) fn collection(&self) -> Arc<Collection> {
        self.store.collection_or_create(&self.ns).unwrap()
    }

    pub(crate) fn insert(&self, text: &str) -> Result<()> {
        self.insert_doc(&self.ns, doc(text).as_doc())
    }

    pub(crate) fn insert_into(&self, name: &str, text: &str) {
        let ns = Namespace::new("test", name).unwrap();
        self.insert_doc(&ns, doc(text).as_doc()).unwrap();
    }

    fn insert_doc(&self, ns: &Namespace, doc: Doc<'_>) -> Result<()> {
        let collection = self.store.collection_or_create(ns)?;
        let options = WriteOptions { durability: Durability::Buffered, ..Default::default() };
        self.store.write(options, &mut |txn| txn.insert(&collection, doc).map(|_| ()))
    }

    /// Creates an index; the name is its key pattern's text.
    pub(crate) fn index(&self, text: &str) {
        let spec = doc(text);
        self.store
            .create_indexes(&self.ns, &[spec.as_doc()], BuildOptions::default())
            .unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    pub(crate) fn find(&self, request: &FindRequest<'_>) -> Result<Vec<DocBuf>> {
        let env = Env::new(&(), NOW_MS);
        drain(find(&self.store, request, &env)?, usize::MAX)
    }

    pub(crate) fn find_text(&self, filter: &str, sort: &str, projection: &str) -> String {
        let (filter, sort, projection) = (doc(filter), doc(sort), doc(projection));
        let found = self.find(&FindRequest {
            filter: filter.as_doc(),
            sort: sort.as_doc(),
            projection: projection.as_doc(),
            ..FindRequest::new(&self.ns)
        });
        text(found)
    }

    pub(crate) fn aggregate(&self, pipeline: &str) -> String {
        let wrapped = doc(&format!("{{p: {pipeline}}}"));
        let Value::Array(stages) = wrapped.get("p") else { panic!("{pipeline}: no array") };
        let request = AggregateRequest::new(&self.ns, stages);
        let env = Env::new(&(), NOW_MS);
        text(aggregate(&self.store, &request, &env).and_then(|e| drain(e, usize::MAX)))
    }

    /// The winning plan of a find: names of stages and indexes from the top.
    pub(crate) fn plan(&self, request: &FindRequest<'_>) -> String {
        let out = self.explain(&Explained::Find(*request), Verbosity::QueryPlanner);
        stages(out.get("queryPlanner").as_doc().unwrap().get("winningPlan"))
    }

    pub(crate) fn plan_of(&self, filter: &str, sort: &str, projection: &str) -> String {
        let (filter, sort, projection) = (doc(filter), doc(sort), doc(projection));
        self.plan(&FindRequest {
            filter: filter.as_doc(),
            sort: sort.as_doc(),
            projection: projection.as_doc(),
            ..FindRequest::new(&self.ns)
        })
    }

    pub(crate) fn explain(&self, explained: &Explained<'_>, verbosity: Verbosity) -> DocBuf {
        let env = Env::new(&(), NOW_MS);
        let mut outcome = Ok(());
        let out = DocBuf::build(|out| {
            outcome = explain(&self.store, explained, verbosity, &env, &|| 0, out);
        });
        outcome.unwrap();
        out
    }
}

/// Reads an execution in batches of `batch`, parked between them.
pub(crate) fn drain(mut execution: Execution, batch: usize) -> Result<Vec<DocBuf>> {
    let mut out: Vec<DocBuf> = Vec::new();
    loop {
        let mut taken = 0;
        let more = execution.batch(&(), &mut |doc| {
            if taken == batch {
                return Ok(Take::Refused);
            }
            taken += 1;
            out.push(doc.to_buf());
            Ok(if taken == batch && batch % 2 == 0 { Take::Last } else { Take::More })
        })?;
        if !more {
            return Ok(out);
        }
        execution.save();
    }
}

pub(crate) fn text(found: Result<Vec<DocBuf>>) -> String {
    match found {
        Ok(docs) => docs.iter().map(|doc| format!("{doc:?}")).collect::<Vec<_>>().join("\n"),
        Err(error) => format!("error {error}"),
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

//! A pipeline as text in shell notation, run over a small collection of the memory engine. A second line may
//! contain a filter: a find with that filter, by any plan, must fail only if the aggregation fails too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nagi_bson::{Value, json};
use nagi_query::{AggregateRequest, Env, Execution, FindRequest, Take, aggregate, find, writes};
use nagi_store::{BuildOptions, Namespace, Store, StoreOptions, WriteOptions};
use std::sync::{Arc, OnceLock};

const DOCUMENTS: &str = r#"[{_id: 1, a: 5, b: "x", l: [1, 2, 3]}, {_id: 2, a: 5.5, b: null, l: []}, {_id: 3, a: -1,
    d: {e: [{f: 1}, {f: 2}]}, g: [1, 2]}, {_id: 4, a: [1, 7], b: ISODate("2024-02-29"), l: 3,
    g: {type: "Polygon", coordinates: [[[0, 0], [3, 0], [0, 3], [0, 0]]]}}, {_id: 5, b: "y x y"}]"#;
const INDEXES: [&str; 3] = [
    r#"{key: {a: 1, b: -1}, name: "a_1_b_-1"}"#,
    r#"{key: {b: "text"}, name: "b_text"}"#,
    r#"{key: {g: "2dsphere"}, name: "g_2dsphere"}"#,
];
/// Limit of results: a pipeline of nested unwinds grows quickly.
const RESULTS_MAX: usize = 2_000;

fn world() -> &'static (Arc<Store>, Namespace) {
    static WORLD: OnceLock<(Arc<Store>, Namespace)> = OnceLock::new();
    WORLD.get_or_init(|| {
        let engine = Arc::new(nagi_kv::Memory::new());
        let store = Store::open(engine, StoreOptions::default()).expect("memory");
        let namespace = Namespace::new("test", "c").expect("a good name");
        let collection = store.collection_or_create(&namespace).expect("created");
        let documents = json::parse_value(DOCUMENTS).expect("good text");
        let Value::Array(documents) = documents.value() else { unreachable!("an array") };
        for document in documents.iter() {
            let Value::Doc(document) = document else { unreachable!("documents") };
            let mut insert =
                |txn: &mut nagi_store::WriteTxn<'_>| txn.insert(&collection, document).map(|_| ());
            store.write(WriteOptions::default(), &mut insert).expect("inserted");
        }
        let indexes = INDEXES.map(|index| json::parse(index).expect("good text"));
        let indexes = indexes.each_ref().map(|index| index.as_doc());
        store.create_indexes(&namespace, &indexes, BuildOptions::default()).expect("built");
        (store, namespace)
    })
}

fuzz_target!(|data: &str| {
    let (pipeline, filter) = data.split_once('\n').unwrap_or((data, "{}"));
    let (Ok(pipeline), Ok(filter)) = (json::parse_value(pipeline), json::parse(filter)) else { return };
    let Value::Array(stages) = pipeline.value() else { return };
    let (store, namespace) = world();
    let env = Env::new(&(), 0);
    if !writes(stages) {
        if let Ok(execution) = aggregate(store, &AggregateRequest::new(namespace, stages), &env) {
            drain(execution);
        }
    }
    let request = FindRequest { filter: filter.as_doc(), ..FindRequest::new(namespace) };
    if let Ok(execution) = find(store, &request, &env) {
        drain(execution);
    }
});

fn drain(mut execution: Execution) {
    let mut count = 0;
    let _ = execution.batch(&(), &mut |doc| {
        assert!(doc.as_bytes().len() >= 5);
        count += 1;
        Ok(if count < RESULTS_MAX { Take::More } else { Take::Last })
    });
}

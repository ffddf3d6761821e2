//! Questions that nodes ask each other: all living ones answer, nothing is left of them, and a node that is gone is not
//! waited for.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nagi_bson::{Binary, DocBuf, Value, doc};
use nagi_error::Code;
use nagi_kv::{Durability, Engine, Minimal, Space, TxnOptions};
use nagi_store::{NODE_ANSWER_BYTES_MAX, QUESTION_BYTES_MAX, Store};

use crate::{changes::Mortal, several::open};

const LONG: Duration = Duration::from_secs(30);

/// The keys of questions and answers.
fn left(engine: &Minimal) -> usize {
    let mut cursor = engine.latest().cursor(Space::Catalog, &[17], &[19]).unwrap();
    let (mut count, mut found) = (0, cursor.seek(&[17]).unwrap());
    while found {
        count += 1;
        found = cursor.next().unwrap();
    }
    count
}

/// Answers with its name and what was asked.
fn echo(store: &Store, name: &'static str) {
    store.on_question(move |question| {
        DocBuf::build(|w| {
            w.put("by", name);
            w.put("of", question.get("n"));
        })
    });
}

fn ask(store: &Store, n: i32) -> Vec<(String, Option<DocBuf>)> {
    let answers = store.ask_nodes(doc! { "n": n }.as_doc(), LONG, &|| Ok(())).unwrap();
    answers.into_iter().map(|one| (one.name, one.answer)).collect()
}

#[test]
fn all_other_nodes_answer_and_nothing_is_left() {
    let engine = Arc::new(Minimal::new());
    let first = open(&engine, 0);
    assert_eq!(ask(&first, 0), [], "there is no other");
    let others = [open(&engine, 1), open(&engine, 2)];
    others[1].describe_node(doc! { "host": "second:1" }.as_doc()).unwrap();
    echo(&first, "a");
    echo(&others[0], "b");
    let answer = |by: &str, n: i32| Some(doc! { "by": by, "of": n });
    let (one, two) = ("node 1".to_owned(), "node 2".to_owned());
    // The last one has no server yet.
    assert_eq!(ask(&first, 1), [(one, answer("b", 1)), (two.clone(), Some(doc! {}))]);
    echo(&others[1], "c");
    assert_eq!(ask(&others[0], 2), [("node 0".to_owned(), answer("a", 2)), (two, answer("c", 2))]);
    let told = first.ask_nodes(doc! { "n": 3 }.as_doc(), LONG, &|| Ok(())).unwrap();
    assert_eq!(told[1].about.get("host").as_str(), Some("second:1"));
    assert_eq!(left(&engine), 0);
    let alone =
        Store::open(Arc::new(nagi_kv::Memory::new()), nagi_store::StoreOptions::default()).unwrap();
    assert_eq!(ask(&alone, 1), []);
}

/// Several clients ask at each node at once: none gets the answer to another's question, and none waits for another.
#[test]
fn questions_at_once_get_their_own_answers() {
    let engine = Arc::new(Minimal::new());
    let nodes = [open(&engine, 0), open(&engine, 1), open(&engine, 2)];
    nodes.iter().for_each(|node| echo(node, "x"));
    thread::scope(|scope| {
        for n in 0..9 {
            let node = &nodes[n as usize % 3];
            scope.spawn(move || {
                for round in 0..3 {
                    let of = n * 10 + round;
                    let answers: Vec<_> = ask(node, of).into_iter().map(|one| one.1).collect();
                    assert_eq!(answers, vec![Some(doc! { "by": "x", "of": of }); 2]);
                }
            });
        }
    });
    assert_eq!(left(&engine), 0);
}

#[test]
fn a_node_that_does_not_answer_is_told_and_one_that_has_died_is_left_out() {
    let engine = Arc::new(Minimal::new());
    let living = open(&engine, 0);
    let dying = Mortal::open(&engine, "dying");
    echo(&dying.store, "d");
    assert_eq!(ask(&living, 1).len(), 1);
    dying.kill();
    let short = Duration::from_millis(50);
    let answers = living.ask_nodes(doc! {}.as_doc(), short, &|| Ok(())).unwrap();
    assert!(answers.iter().all(|one| one.name == "dying" && one.answer.is_none()), "{answers:?}");
    // Its lease ends, of three seconds.
    let begun = Instant::now();
    assert_eq!(ask(&living, 2), []);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_eq!(left(&engine), 0);
}

#[test]
fn the_client_ends_the_wait_and_lengths_are_bounded() {
    let engine = Arc::new(Minimal::new());
    let nodes = [open(&engine, 0), open(&engine, 1)];
    let ended = || Err(nagi_error::Error::new(Code::INTERRUPTED, "killed"));
    let other = Mortal::open(&engine, "slow");
    other.kill();
    let error = nodes[0].ask_nodes(doc! {}.as_doc(), LONG, &ended).unwrap_err();
    assert_eq!(error.code(), Code::INTERRUPTED);
    assert_eq!(left(&engine), 0);

    let bytes = vec![0; QUESTION_BYTES_MAX];
    let long = doc! { "b": (Value::Binary(Binary { subtype: 0, bytes: &bytes })) };
    let error = nodes[0].ask_nodes(long.as_doc(), LONG, &|| Ok(())).unwrap_err();
    assert_eq!(error.code(), Code::BSON_OBJECT_TOO_LARGE);

    let length = |bytes: usize| {
        nodes[1].on_question(move |_| {
            let bytes = vec![7; bytes];
            doc! { "b": (Value::Binary(Binary { subtype: 0, bytes: &bytes })) }
        });
        let answers = nodes[0].ask_nodes(doc! {}.as_doc(), Duration::from_secs(5), &|| Ok(()));
        let answers = answers.unwrap();
        let answer = answers.iter().find(|one| one.name == "node 1").unwrap();
        answer.answer.as_ref().unwrap().as_bytes().len()
    };
    assert_eq!(length(NODE_ANSWER_BYTES_MAX - 13), NODE_ANSWER_BYTES_MAX);
    assert_eq!(length(NODE_ANSWER_BYTES_MAX), 5, "as good as none");
}

/// Of a node that died while it waited.
#[test]
fn the_steward_removes_questions_that_are_left_over() {
    let engine = Arc::new(Minimal::new());
    let nodes = [open(&engine, 0), open(&engine, 1)];
    nodes.iter().for_each(|node| echo(node, "x"));
    let question = DocBuf::build(|w| {
        w.put("v", 1);
        w.put("node", Value::Binary(Binary { subtype: 4, bytes: &[9; 16] }));
        w.put("asked", Value::Timestamp(1 << 32));
        w.doc("question", |_| ());
    });
    let mut txn = engine.begin(TxnOptions::default()).unwrap();
    let key = [&[17][..], &0_u64.to_be_bytes()].concat();
    txn.put(Space::Catalog, &key, question.as_bytes()).unwrap();
    txn.put(Space::Catalog, &[&[18][..], &key[1..], &[0, 1]].concat(), question.as_bytes())
        .unwrap();
    txn.commit(Durability::Synced).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while left(&engine) > 0 {
        assert!(Instant::now() < until, "it is still there");
        ask(&nodes[1], 1);
        thread::yield_now();
    }
}

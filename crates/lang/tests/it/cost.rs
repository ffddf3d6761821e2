//! The costs of filters and updates: allocations, and a running time that is linear and not quadratic in the input.
//! With a quadratic algorithm, the large inputs below would take minutes.

use bumpalo::Bump;
use nagi_bson::{ArrayBuf, DocBuf, Value, json};
use nagi_error::{Code, Result};
use nagi_lang::expr::{Eval, Expr, ParseCx, Vars};
use nagi_lang::filter::{Filter, MatchCx, MatchInfo};
use nagi_lang::project::Projection;
use nagi_lang::sort::SortSpec;
use nagi_lang::update::{Applied, Update, UpdateCx};
use nagi_testkit::{CountingAllocator, count_allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const MANY: i32 = 30_000;

fn parsed(text: &str) -> DocBuf {
    json::parse(text).expect("valid notation")
}

fn matches(filter: &Filter, doc: &DocBuf) -> bool {
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    filter.matches(doc.as_doc(), &MatchCx::new(&vars, &arena, 0)).expect("cannot fail")
}

fn apply(spec: &DocBuf, doc: &DocBuf) -> Result<(Applied, Vec<u8>)> {
    let update = Update::parse(Value::Doc(spec.as_doc()), &[], &mut ParseCx::new())?;
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    let cx = UpdateCx::new(&vars, &arena, 0, &|| 0);
    let mut out = Vec::new();
    let applied = update.apply(doc.as_doc(), MatchInfo::default(), &cx, &mut out)?;
    Ok((applied, out))
}

#[test]
fn matching_allocates_nothing() {
    let doc = parsed(
        r#"{_id: 7, age: 33, name: "user", tags: ["a", "b"], items: [{sku: "x"}, {sku: "y", n: 5}],
            address: {city: "Paris"}}"#,
    );
    let filters = [
        "{_id: 7}",
        "{age: {$gt: 30, $lte: 33}, name: 'user'}",
        r#"{"address.city": "Paris", tags: "b"}"#,
        r#"{"items.sku": {$in: ["z", "y"]}}"#,
        "{items: {$elemMatch: {sku: 'y', n: {$gte: 5}}}}",
        "{$or: [{age: 1}, {tags: {$size: 2}}]}",
        "{missing: null, age: {$not: {$type: 'string'}}}",
        "{name: /^us/}",
    ];
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    let cx = MatchCx::new(&vars, &arena, 0);
    for text in filters {
        let filter = Filter::parse(parsed(text).as_doc(), &mut ParseCx::new()).expect("valid");
        let run = || filter.matches(doc.as_doc(), &cx).expect("cannot fail");
        assert!(run(), "{text}");
        let (_, spent) = count_allocations(run);
        assert_eq!(spent.calls, 0, "{text}");
    }
}

#[test]
fn a_sort_key_without_arrays_allocates_nothing() {
    let doc = parsed("{_id: 7, a: {b: 33}, c: 'x'}");
    let spec = SortSpec::parse(parsed(r#"{"a.b": 1, c: -1}"#).as_doc()).expect("valid");
    let mut key = Vec::with_capacity(256);
    let ((), spent) = count_allocations(|| spec.key(doc.as_doc(), &mut key).expect("no arrays"));
    assert_eq!(spent.calls, 0);
}

/// One allocation for the children of the root and one for the path in messages; none per field of the document.
#[test]
fn an_update_of_one_field_allocates_twice() {
    let doc = parsed("{_id: 7, a: 1, b: {c: [1, 2, 3]}, d: 'x'}");
    let spec = parsed("{$inc: {a: 1}}");
    let update = Update::parse(Value::Doc(spec.as_doc()), &[], &mut ParseCx::new()).expect("valid");
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    let cx = UpdateCx::new(&vars, &arena, 0, &|| 0);
    let mut out = Vec::with_capacity(1024);
    let (applied, spent) = count_allocations(|| {
        update.apply(doc.as_doc(), MatchInfo::default(), &cx, &mut out).expect("a number")
    });
    assert_eq!((applied, spent.calls), (Applied::Modified, 2));
}

#[test]
fn large_filters_are_linear() {
    let fields = DocBuf::build(|out| (0..MANY).for_each(|n| out.put(&format!("f{n}"), n)));
    let filter = Filter::parse(fields.as_doc(), &mut ParseCx::new()).expect("valid").normalize();
    assert!(!matches(&filter, &DocBuf::new()));
    let update =
        Update::parse(Value::Doc(parsed("{$set: {z: 1}}").as_doc()), &[], &mut ParseCx::new());
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    let cx = UpdateCx::new(&vars, &arena, 0, &|| 0);
    let mut out = Vec::new();
    update.expect("valid").upsert_document(&filter, &[1; 12], &cx, &mut out).expect("fits");
    assert_eq!(DocBuf::from_bytes(out).expect("valid").as_doc().count(), MANY as usize + 2);
}

#[test]
fn one_path_is_shared_by_its_conditions() {
    let path = "p".repeat(100_000);
    let values = ArrayBuf::build(|out| (0..MANY).for_each(|n| out.push(n)));
    let filter = DocBuf::build(|out| out.doc(&path, |out| out.put("$all", &values)));
    let (filter, spent) =
        count_allocations(|| Filter::parse(filter.as_doc(), &mut ParseCx::new()).expect("valid"));
    assert!(spent.bytes < 100_000_000, "{} bytes", spent.bytes);
    assert!(!matches(&filter, &DocBuf::new()));
}

#[test]
fn large_updates_are_linear() {
    let doc = DocBuf::build(|out| {
        out.put("_id", 1);
        (0..MANY).rev().for_each(|n| out.put(&format!("f{n}"), n));
    });
    let spec = DocBuf::build(|out| {
        out.doc("$inc", |out| {
            (0..MANY).rev().for_each(|n| out.put(&format!("f{n}"), 1));
            (0..MANY).rev().for_each(|n| out.put(&format!("g{n}"), 1));
        });
    });
    let (applied, out) = apply(&spec, &doc).expect("fits");
    assert_eq!(applied, Applied::Modified);
    assert_eq!(DocBuf::from_bytes(out).expect("valid").as_doc().count(), 2 * MANY as usize + 1);
}

#[test]
fn large_sets_of_values_are_linear() {
    let array = ArrayBuf::build(|out| (0..MANY).for_each(|n| out.push(n)));
    let doc = DocBuf::build(|out| {
        out.put("_id", 1);
        out.put("a", &array);
    });
    let more = ArrayBuf::build(|out| (MANY / 2..2 * MANY).for_each(|n| out.push(f64::from(n))));
    let add = DocBuf::build(|out| {
        out.doc("$addToSet", |out| out.doc("a", |out| out.put("$each", &more)))
    });
    let (_, out) = apply(&add, &doc).expect("fits");
    let out = DocBuf::from_bytes(out).expect("valid");
    assert_eq!(out.get("a").as_array().map(|a| a.count()), Some(2 * MANY as usize));
    let pull = DocBuf::build(|out| out.doc("$pullAll", |out| out.put("a", &more)));
    let (_, out) = apply(&pull, &doc).expect("fits");
    let out = DocBuf::from_bytes(out).expect("valid");
    assert_eq!(out.get("a").as_array().map(|a| a.count()), Some(MANY as usize / 2));
}

#[test]
fn large_projections_are_linear() {
    let doc = DocBuf::build(|out| (0..MANY).for_each(|n| out.put(&format!("f{n}"), n)));
    let spec = DocBuf::build(|out| (0..MANY).for_each(|n| out.put(&format!("f{n}"), 1)));
    let projection = Projection::parse_find(spec.as_doc(), None, &mut ParseCx::new());
    assert!(projection.expect("valid").included_paths().is_some());
    let sort = SortSpec::parse(spec.as_doc()).expect_err("too many parts");
    assert_eq!(sort.code(), Code::Location(13103));
    drop(doc);
}

#[test]
fn updates_stay_within_what_can_be_stored() {
    let deep = vec!["a"; 5_000].join(".");
    let spec = DocBuf::build(|out| out.doc("$set", |out| out.put(&deep, 1)));
    assert_eq!(apply(&spec, &parsed("{_id: 1}")).expect_err("too deep").code(), Code::OVERFLOW);
    let nested = (0..190).fold(DocBuf::new(), |inner, _| DocBuf::build(|out| out.put("a", &inner)));
    let spec = DocBuf::build(|out| out.doc("$set", |out| out.put("x", &nested)));
    assert_eq!(apply(&spec, &parsed("{_id: 1}")).expect_err("too deep").code(), Code::OVERFLOW);
    // Many padded arrays: the update fails before they fill the memory.
    let doc = DocBuf::build(|out| {
        out.put("_id", 1);
        (0..2_000).for_each(|n| out.put(&format!("f{n}"), &ArrayBuf::build(|_| ())));
    });
    let spec = DocBuf::build(|out| {
        out.doc("$set", |out| (0..2_000).for_each(|n| out.put(&format!("f{n}.1400000"), 1)));
    });
    let (outcome, spent) = count_allocations(|| apply(&spec, &doc));
    assert_eq!(outcome.expect_err("too large").code(), Code::Location(17419));
    assert!(spent.bytes < 400_000_000, "{} bytes", spent.bytes);
}

/// All matches in a text of 4 MB, and the matches in a text whose result does not fit into memory.
#[test]
fn matches_in_a_long_text_are_linear() {
    let spec = parsed("{s: {$size: {$regexFindAll: {input: '$t', regex: 'x', options: 'i'}}}}");
    let expr = Expr::parse(spec.as_doc().get("s"), &mut ParseCx::new()).expect("valid");
    let count = |text: &str| {
        let doc = DocBuf::build(|out| out.put("t", text));
        let (arena, vars) = (Bump::new(), Vars::EMPTY);
        let value = expr.eval(&Eval::new(doc.as_doc(), &vars, &arena, 0))?;
        Ok::<_, nagi_error::Error>(nagi_bson::number::as_f64(value))
    };
    assert_eq!(count(&"\u{e9}\u{e9}x\u{e9}".repeat(1 << 19)).expect("fits"), Some(524_288.0));
    let error = count(&"x".repeat(4 << 20)).expect_err("240 MB of matches");
    assert_eq!(error.code(), Code::BSON_OBJECT_TOO_LARGE);
}

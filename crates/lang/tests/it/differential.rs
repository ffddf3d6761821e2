//! Differential tests: equivalent requests must have equal results. They compare filters with `$expr`, the projection
//! of `find` with `$project`, and update operators with update pipelines. The two sides of each pair have separate
//! implementations.
//!
//! Each test runs 2,000 cases; `NAGI_CASES` sets another number (`make differential`).

use bumpalo::Bump;
use nagi_bson::{ArrayBuf, Binary, Decimal128, DocBuf, DocWriter, Value, ValueBuf, json};
use nagi_error::Code;
use nagi_lang::expr::{Eval, ParseCx, Vars};
use nagi_lang::filter::{Filter, MatchCx, MatchInfo};
use nagi_lang::project::{AggProjection, Projection};
use nagi_lang::update::{Applied, Update, UpdateCx};
use proptest::prelude::*;

const NOW_MS: i64 = 1_700_000_000_000;

fn config() -> ProptestConfig {
    let cases = std::env::var("NAGI_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(2000),
        max_global_rejects: 1 << 20,
        failure_persistence: None,
        ..Default::default()
    }
}

/// A value of every type that filters compare without special rules (no regex, no MinKey and MaxKey).
fn scalar() -> BoxedStrategy<ValueBuf> {
    let double = prop_oneof![Just(1.5), Just(-0.0), Just(2.0), Just(f64::NAN), Just(f64::INFINITY)];
    let decimal = prop_oneof![Just("1"), Just("1.50"), Just("NaN"), Just("-Infinity"), Just("-0")];
    prop_oneof![
        3 => (-2..4i32).prop_map(|n| Value::Int32(n).into()),
        2 => (-2..4i64).prop_map(|n| Value::Int64(n).into()),
        2 => double.prop_map(|n| Value::Double(n).into()),
        1 => decimal.prop_map(|n| {
            Value::Decimal128(Decimal128::parse(n).expect("a number")).into()
        }),
        2 => "[ab]{0,2}".prop_map(|s| Value::String(&s).into()),
        1 => any::<bool>().prop_map(|b| Value::Bool(b).into()),
        2 => Just(Value::Null.into()),
        1 => (0..3i64).prop_map(|n| Value::DateTime(n).into()),
        1 => (0..3u64).prop_map(|n| Value::Timestamp(n).into()),
        1 => (0..3u8).prop_map(|n| Value::ObjectId(&[n; 12]).into()),
        1 => (0..2u8).prop_map(|n| Value::Binary(Binary { subtype: n, bytes: &[n] }).into()),
        1 => Just(Value::Code("f").into()),
    ]
    .boxed()
}

fn name() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("b"), Just("c")]
}

fn object(fields: &[(&str, ValueBuf)]) -> DocBuf {
    DocBuf::build(|out| {
        let mut seen = Vec::new();
        for (name, value) in fields.iter().filter(|(name, _)| !name.is_empty()) {
            if !seen.contains(name) {
                seen.push(name);
                out.put(name, value.value());
            }
        }
    })
}

fn value(arrays: bool) -> impl Strategy<Value = ValueBuf> {
    scalar().prop_recursive(3, 12, 3, move |inner| {
        let doc = proptest::collection::vec((name(), inner.clone()), 0..3)
            .prop_map(|fields| Value::Doc(object(&fields).as_doc()).into());
        let array = proptest::collection::vec(inner, 0..3).prop_map(|items| {
            let array = ArrayBuf::build(|out| items.iter().for_each(|v| out.push(v.value())));
            Value::Array(array.as_array()).into()
        });
        if arrays { prop_oneof![array, doc].boxed() } else { doc.boxed() }
    })
}

fn document(arrays: bool) -> impl Strategy<Value = DocBuf> {
    (0..9i32, proptest::collection::vec((name(), value(arrays)), 0..4)).prop_map(|(id, fields)| {
        DocBuf::build(|out| {
            out.put("_id", id);
            out.extend(object(&fields).as_doc());
        })
    })
}

fn path() -> impl Strategy<Value = String> {
    proptest::collection::vec(name(), 1..4).prop_map(|parts| parts.join("."))
}

/// The text of a value in Extended JSON.
fn text(value: &ValueBuf) -> String {
    let doc = DocBuf::build(|out| out.put("v", value.value()));
    let text = json::to_canonical(doc.as_doc());
    text["{\"v\":".len()..text.len() - 1].to_owned()
}

fn parsed(text: &str) -> DocBuf {
    json::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn matches(filter: &DocBuf, doc: &DocBuf) -> bool {
    let filter = Filter::parse(filter.as_doc(), &mut ParseCx::new())
        .unwrap_or_else(|error| panic!("{error}: {filter:?}"));
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    let cx = MatchCx::new(&vars, &arena, NOW_MS);
    filter.matches(doc.as_doc(), &cx).unwrap_or_else(|error| panic!("{error}: {filter}"))
}

/// Converts `{path: {operator: operand}}` to an expression: at least one value at the path satisfies the comparison.
/// The path leads through documents and through the documents of arrays. A value at its end is compared and, if it is
/// an array, each of its elements too. Only values of the same class are ordered, and NaN equals only itself.
fn as_expression(path: &str, operator: &str, operand: &str) -> String {
    let mut found = "[\"$$ROOT\"]".to_owned();
    for (at, name) in path.split('.').enumerate() {
        // The documents among the values found so far.
        let holders = if at == 0 {
            found
        } else {
            format!(
                "{{$reduce: {{input: {found}, initialValue: [], in: {{$concatArrays: [\"$$value\", \
                 {{$cond: [{{$isArray: [\"$$this\"]}}, \"$$this\", [\"$$this\"]]}}]}}}}}}"
            )
        };
        found = format!(
            "{{$map: {{input: {{$filter: {{input: {holders}, cond: {{$eq: [{{$type: \"$$this\"}}, \
             \"object\"]}}}}}}, in: {{$getField: {{field: \"{name}\", input: \"$$this\"}}}}}}}}"
        );
    }
    let values = format!(
        "{{$reduce: {{input: {found}, initialValue: {found}, in: {{$concatArrays: [\"$$value\", \
         {{$cond: [{{$isArray: [\"$$this\"]}}, \"$$this\", []]}}]}}}}}}"
    );
    let v = format!("{{$literal: {operand}}}");
    let nan =
        |x: &str| format!("{{$and: [{{$isNumber: {x}}}, {{$eq: [{{$toString: {x}}}, \"NaN\"]}}]}}");
    let (negated, operator) = if operator == "$ne" { (true, "$eq") } else { (false, operator) };
    let class = "{$or: [{$and: [{$isNumber: \"$$x\"}, {$isNumber: \"$$v\"}]}, \
                 {$eq: [{$type: \"$$x\"}, {$type: \"$$v\"}]}]}";
    let (nan_x, nan_v) = (nan("$$x"), nan("$$v"));
    let nan_x = nan_x.replace("$$x", "\"$$x\"");
    let nan_v = nan_v.replace("$$v", "\"$$v\"");
    let both = if operator.contains("te") || operator == "$eq" {
        format!("{{$and: [{nan_x}, {nan_v}]}}")
    } else {
        "false".to_owned()
    };
    let compare = format!(
        "{{$let: {{vars: {{x: \"$$this\", v: {v}}}, in: {{$cond: [{{$or: [{nan_x}, {nan_v}]}}, \
         {both}, {{$and: [{class}, {{{operator}: [\"$$x\", \"$$v\"]}}]}}]}}}}}}"
    );
    let any = format!("{{$anyElementTrue: [{{$map: {{input: {values}, in: {compare}}}}}]}}");
    if negated { format!("{{$not: [{any}]}}") } else { any }
}

fn apply(spec: Value<'_>, doc: &DocBuf) -> nagi_error::Result<DocBuf> {
    let update = Update::parse(spec, &[], &mut ParseCx::new())?;
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    let cx = UpdateCx::new(&vars, &arena, NOW_MS, &|| 1);
    let mut out = Vec::new();
    Ok(match update.apply(doc.as_doc(), MatchInfo::default(), &cx, &mut out)? {
        Applied::NoOp => doc.clone(),
        Applied::Modified => DocBuf::from_bytes(out).expect("valid BSON"),
    })
}

/// The pipeline that is equivalent to an update operator, if the field has a type that the operator supports.
fn as_pipeline(operator: &str, path: &str, v: &str) -> String {
    let (old, v) = (format!("\"${path}\""), format!("{{$literal: {v}}}"));
    let set = |value: String| format!("[{{$set: {{\"{path}\": {value}}}}}]");
    let there = format!("{{$ne: [{{$type: {old}}}, \"missing\"]}}");
    let list = format!("{{$ifNull: [{old}, []]}}");
    match operator {
        "$set" => set(v),
        "$unset" => format!("[{{$unset: \"{path}\"}}]"),
        "$inc" => set(format!("{{$cond: [{there}, {{$add: [{old}, {v}]}}, {v}]}}")),
        "$mul" => set(format!("{{$multiply: [{old}, {v}]}}")),
        "$min" => {
            set(format!("{{$cond: [{{$and: [{there}, {{$lte: [{old}, {v}]}}]}}, {old}, {v}]}}"))
        }
        "$max" => {
            set(format!("{{$cond: [{{$and: [{there}, {{$gte: [{old}, {v}]}}]}}, {old}, {v}]}}"))
        }
        "$push" => set(format!("{{$concatArrays: [{list}, [{v}]]}}")),
        "$addToSet" => set(format!(
            "{{$cond: [{{$in: [{v}, {list}]}}, {list}, {{$concatArrays: [{list}, [{v}]]}}]}}"
        )),
        "$pull" => set(format!("{{$filter: {{input: {old}, cond: {{$ne: [\"$$this\", {v}]}}}}}}")),
        other => panic!("{other}"),
    }
}

const UPDATES: &[&str] =
    &["$set", "$unset", "$inc", "$mul", "$min", "$max", "$push", "$addToSet", "$pull"];

/// The value at a path through documents; none if the path leads through another value or an array.
fn at<'d>(doc: &'d DocBuf, path: &str) -> Option<Value<'d>> {
    path.split('.').try_fold(Value::Doc(doc.as_doc()), |value, name| match value {
        Value::Doc(doc) => Some(doc.get(name)),
        Value::Missing => Some(Value::Missing),
        _ => None,
    })
}

fn project(spec: &DocBuf, doc: &DocBuf) -> [Result<Vec<u8>, Code>; 2] {
    let find = Projection::parse_find(spec.as_doc(), None, &mut ParseCx::new());
    let agg = AggProjection::parse(spec.as_doc().into(), &mut ParseCx::new());
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    let eval = Eval::new(doc.as_doc(), &vars, &arena, NOW_MS);
    let mut found = Vec::new();
    let mut out = DocWriter::new(&mut found);
    let find = find.as_ref().map_err(|e| e.code()).and_then(|p| {
        p.apply(doc.as_doc(), MatchInfo::default(), &eval, &mut out).map_err(|e| e.code())
    });
    out.finish();
    let mut projected = Vec::new();
    let mut out = DocWriter::new(&mut projected);
    let agg = agg
        .as_ref()
        .map_err(|e| e.code())
        .and_then(|p| p.apply(&eval, &mut out).map_err(|e| e.code()));
    out.finish();
    [find.map(|_| found), agg.map(|_| projected)]
}

/// A projection: paths with their values.
fn projection() -> impl Strategy<Value = DocBuf> {
    let including = prop_oneof![
        4 => Just("1".to_owned()),
        1 => Just("true".to_owned()),
        1 => path().prop_map(|p| format!("\"${p}\"")),
        1 => scalar().prop_map(|v| format!("{{$literal: {}}}", text(&v))),
        1 => path().prop_map(|p| format!("{{$size: {{$ifNull: [[\"${p}\"], []]}}}}")),
    ];
    let id = prop_oneof![2 => Just(""), 1 => Just("_id: 0,"), 1 => Just("_id: 1,")];
    let fields = prop_oneof![
        2 => proptest::collection::vec((path(), including), 1..4),
        1 => proptest::collection::vec((path(), Just("0".to_owned())), 1..4),
    ];
    (id, fields).prop_map(|(id, fields)| {
        let fields: Vec<String> = fields.iter().map(|(p, v)| format!("\"{p}\": {v}")).collect();
        parsed(&format!("{{{id} {}}}", fields.join(", ")))
    })
}

proptest! {
    #![proptest_config(config())]

    /// A comparison in a filter is equivalent to the `$expr` that spells out its rules.
    #[test]
    fn filters_are_expressions(
        path in path(),
        operator in prop_oneof![
            Just("$eq"), Just("$ne"), Just("$gt"), Just("$gte"), Just("$lt"), Just("$lte")
        ],
        operand in value(true),
        doc in document(true),
    ) {
        // Comparisons with null have special rules (see the golden cases of $eq).
        prop_assume!(operand.value() != Value::Null);
        let v = text(&operand);
        let filter = parsed(&format!("{{\"{path}\": {{{operator}: {v}}}}}"));
        let expr = parsed(&format!("{{$expr: {}}}", as_expression(&path, operator, &v)));
        prop_assert_eq!(matches(&filter, &doc), matches(&expr, &doc), "{:?} of {:?}", filter, doc);
    }

    /// The projection of a find and `$project` write the same bytes, or fail with the same code.
    #[test]
    fn projections_are_one(spec in projection(), doc in document(true)) {
        let [find, agg] = project(&spec, &doc);
        if find != agg {
            let shown = |r: &Result<Vec<u8>, Code>| match r {
                Ok(bytes) => format!("{:?}", DocBuf::from_bytes(bytes.clone()).expect("BSON")),
                Err(code) => format!("error {}", code.name()),
            };
            prop_assert!(false, "{:?} of {:?}: {} and {}", spec, doc, shown(&find), shown(&agg));
        }
    }

    /// An update operator on a document without arrays on its path is equivalent to a pipeline.
    #[test]
    fn updates_are_pipelines(
        operator in proptest::sample::select(UPDATES),
        path in path(),
        operand in value(true),
        doc in document(true),
    ) {
        let number = matches!(operand.value(), Value::Int32(_) | Value::Int64(_) | Value::Double(_));
        prop_assume!(!matches!(operator, "$inc" | "$mul") || number);
        // A document or a regular expression as the operand of `$pull` is a condition.
        prop_assume!(operator != "$pull" || !matches!(operand.value(), Value::Doc(_)));
        let v = text(&operand);
        let spec = parsed(&format!("{{{operator}: {{\"{path}\": {v}}}}}"));
        let Some(old) = at(&doc, &path) else { return Ok(()) };
        // `$pull` without an array does nothing, and 0 times a number is a 0 of the number's type.
        prop_assume!(!matches!(operator, "$pull" | "$mul") || !old.is_missing());
        let Ok(new) = apply(Value::Doc(spec.as_doc()), &doc) else { return Ok(()) };
        let pipeline = format!("{{p: {}}}", as_pipeline(operator, &path, &v));
        let pipeline = parsed(&pipeline);
        let by_pipeline = apply(pipeline.get("p"), &doc);
        let by_pipeline = by_pipeline.unwrap_or_else(|error| panic!("{error}: {pipeline:?}"));
        prop_assert_eq!(&new, &by_pipeline, "{:?} on {:?}", spec, doc);
    }
}

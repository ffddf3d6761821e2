//! Memory limits: the operators whose results grow fastest fail with 146 at the limit of the request, before they
//! have used much more memory.

use bumpalo::Bump;
use nagi_bson::{DocBuf, DocWriter, Value, json};
use nagi_error::{Code, Result, bail};
use nagi_lang::expr::{Eval, Expr, Pace, ParseCx, Vars};
use nagi_lang::filter::Filter;
use nagi_lang::project::AggProjection;
use nagi_lang::update::Update;
use nagi_testkit::{held_bytes, peak_bytes};

const MIB: usize = 1 << 20;
/// The memory limit of a request.
const LIMIT: usize = 2 * MIB;
/// The maximal memory of a request at its limit. An arena allocates its next chunk of twice the size without a check,
/// so an operator may use this much before the check fails.
const PEAK_MAX: usize = 3 * LIMIT;

/// The memory checks of a request with a limit.
#[derive(Debug)]
struct Limited {
    begin: i64,
}

impl Pace for Limited {
    fn step(&self) -> Result<()> {
        self.check_memory(0)
    }

    fn check_memory(&self, more: usize) -> Result<()> {
        if held_bytes() - self.begin + more as i64 > LIMIT as i64 {
            bail!(Code::EXCEEDED_MEMORY_LIMIT, "no more memory");
        }
        Ok(())
    }
}

#[test]
fn lists_of_values_are_asked_for_before_they_are_copied() {
    let budget = nagi_budget::Budget::new(8 * MIB as u64);
    let list = || DocBuf::build(|out| out.array("l", |out| (0..300_000).for_each(|n| out.push(n))));
    let filter = DocBuf::build(|out| out.doc("x", |out| out.put("$in", list().get("l"))));
    let update = |name: &str, each: bool| {
        DocBuf::build(|out| {
            out.doc(name, |out| match each {
                true => out.doc("x", |out| out.put("$each", list().get("l"))),
                false => out.put("x", list().get("l")),
            });
        })
    };
    let parse = |spec: &DocBuf| Update::parse(Value::Doc(spec.as_doc()), &[], &mut ParseCx::new());
    for spec in [update("$addToSet", true), update("$push", true), update("$pullAll", false)] {
        parse(&spec).expect("no request, no limit");
        let _request = nagi_budget::Metering::begin(&budget);
        let begin = held_bytes();
        let error = parse(&spec).expect_err("refused");
        assert_eq!(error.code(), Code::EXCEEDED_MEMORY_LIMIT, "{error}");
        assert!(held_bytes() - begin < MIB as i64);
    }
    let _request = nagi_budget::Metering::begin(&budget);
    let error = Filter::parse(filter.as_doc(), &mut ParseCx::new()).expect_err("refused");
    assert_eq!(error.code(), Code::EXCEEDED_MEMORY_LIMIT, "{error}");
}

/// A document with an array of ints and a string, of `bytes` each, and a document with as many fields.
fn root(bytes: usize) -> DocBuf {
    DocBuf::build(|out| {
        out.array("a", |out| {
            for n in 0.. {
                if out.len() > bytes {
                    break;
                }
                out.push(n);
            }
        });
        out.put("t", &*"ab".repeat(bytes / 2));
        out.doc("d", |out| {
            for n in 0.. {
                if out.len() > bytes {
                    break;
                }
                out.put(&n.to_string(), Value::Null);
            }
        });
        out.array("pairs", |out| {
            for n in 0..1000_i32 {
                out.array(|out| {
                    out.push(&*n.to_string());
                    out.push(&*"x".repeat(2 * LIMIT / 1000));
                });
            }
        });
    })
}

/// The error of an expression, and its peak memory.
fn outcome(spec: &str, root: &DocBuf) -> (Option<Code>, usize) {
    let spec = json::parse(&format!("{{e: {spec}}}")).expect(spec);
    let expr = Expr::parse(spec.get("e"), &mut ParseCx::new()).expect("an expression");
    let (result, peak) = peak_bytes(|| {
        let pace = Limited { begin: held_bytes() };
        let (arena, vars) = (Bump::new(), Vars::EMPTY.with_pace(&pace));
        let cx = Eval::new(root.as_doc(), &vars, &arena, 0);
        expr.eval(&cx).map(|_| ()).map_err(|error| error.code())
    });
    (result.err(), usize::try_from(peak).unwrap_or(0))
}

fn ends_in_time(spec: &str, root: &DocBuf) {
    let (code, peak) = outcome(spec, root);
    assert_eq!(code, Some(Code::EXCEEDED_MEMORY_LIMIT), "{spec}");
    assert!(peak <= PEAK_MAX, "{spec} took {peak} bytes");
}

#[test]
fn loops_that_double_end_at_the_limit() {
    let root = root(100);
    for (seed, body) in [
        ("\"$a\"", "{$concatArrays: [\"$$value\", \"$$value\"]}"),
        ("\"$t\"", "{$concat: [\"$$value\", \"$$value\"]}"),
        ("\"$a\"", "{$map: {input: [1, 2], in: \"$$value\"}}"),
        ("\"$a\"", "[\"$$value\", \"$$value\"]"),
        ("{x: \"$a\"}", "{x: \"$$value\", y: \"$$value\"}"),
        (
            "{x: \"$a\"}",
            "{$setField: {field: \"x\", input: \"$$value\", value: [\"$$value\", \"$$value\"]}}",
        ),
        ("{x: \"$a\"}", "{$mergeObjects: [{x: \"$$value\"}, {y: \"$$value\"}]}"),
        ("\"$t\"", "{$replaceAll: {input: \"$$value\", find: \"a\", replacement: \"aaaa\"}}"),
        ("\"$a\"", "{$zip: {inputs: [[\"$$value\", \"$$value\"], [\"$$value\", \"$$value\"]]}}"),
        ("\"$a\"", "{$let: {vars: {v: \"$$value\"}, in: {$concatArrays: [\"$$v\", \"$$v\"]}}}"),
    ] {
        let spec = format!(
            "{{$reduce: {{input: {{$range: [0, 60]}}, initialValue: {seed}, in: {body}}}}}"
        );
        ends_in_time(&spec, &root);
    }
}

#[test]
fn operators_over_what_is_long_end_at_the_limit() {
    // The document nearly fills the limit, so an operator has no memory for a copy, a list or a set of its values.
    let root = root(LIMIT - LIMIT / 8);
    for spec in [
        "{$concatArrays: [\"$a\", \"$a\"]}",
        "{$reverseArray: \"$a\"}",
        "{$slice: [\"$a\", 10000000]}",
        "{$firstN: {n: 10000000, input: \"$a\"}}",
        "{$lastN: {n: 10000000, input: \"$a\"}}",
        "{$maxN: {n: 10000000, input: \"$a\"}}",
        "{$minN: {n: 10000000, input: \"$a\"}}",
        "{$sortArray: {input: \"$a\", sortBy: -1}}",
        "{$setUnion: [\"$a\", [1]]}",
        "{$setIntersection: [\"$a\", \"$a\"]}",
        "{$setDifference: [\"$a\", []]}",
        "{$setEquals: [\"$a\", \"$a\"]}",
        "{$setIsSubset: [\"$a\", \"$a\"]}",
        "{$zip: {inputs: [\"$a\", \"$a\"]}}",
        "{$filter: {input: \"$a\", cond: true}}",
        "{$map: {input: \"$a\", in: [\"$$this\"]}}",
        "{$objectToArray: \"$d\"}",
        "{$arrayToObject: \"$pairs\"}",
        "{$mergeObjects: [\"$d\", {x: \"$a\"}]}",
        "{x: \"$a\", y: \"$t\"}",
        "[\"$a\", \"$t\"]",
        "{$split: [\"$t\", \"a\"]}",
        "{$regexFindAll: {input: \"$t\", regex: \"a\"}}",
        "{$concat: [\"$t\", \"$t\"]}",
        "{$toUpper: [{$concat: [\"$t\", \"\"]}]}",
        "{$replaceAll: {input: \"$t\", find: \"a\", replacement: \"bb\"}}",
        "{$replaceOne: {input: \"$t\", find: \"a\", replacement: \"bb\"}}",
        "{$toString: \"$a\"}",
        "{$serializeEJSON: {input: \"$a\"}}",
        "{$convert: {input: \"$t\", to: {type: \"binData\", subtype: 0}, format: \"hex\"}}",
        "{$percentile: {input: \"$a\", p: [0.5], method: \"approximate\"}}",
        "{$setField: {field: \"x\", input: \"$d\", value: \"$a\"}}",
        "{$range: [0, 500000]}",
        "{$dateToString: {date: ISODate(\"2024-01-01T00:00:00Z\"), format: {$replaceAll: {input: {$substrBytes: \
         [\"$t\", 0, 400000]}, find: \"ab\", replacement: \"%Y\"}}}}",
    ] {
        ends_in_time(spec, &root);
    }
}

#[test]
fn what_fits_is_not_refused() {
    let root = root(20_000);
    for spec in
        ["{$reverseArray: \"$a\"}", "{$setUnion: [\"$a\", \"$a\"]}", "{$split: [\"$t\", \"a\"]}"]
    {
        let (code, peak) = outcome(spec, &root);
        assert!(code.is_none() && peak < 2 * MIB, "{spec}: {code:?}, {peak}");
    }
}

#[test]
fn a_projection_that_copies_what_is_long_ends_at_the_limit() {
    let root = root(LIMIT / 4);
    let spec = json::parse("{x: \"$a\", y: [\"$a\", \"$a\"], z: \"$t\", w: {v: [\"$a\", \"$t\"]}}")
        .expect("JSON");
    let projection =
        AggProjection::parse(Value::Doc(spec.as_doc()), &mut ParseCx::new()).expect("valid");
    let (result, peak) = peak_bytes(|| {
        let pace = Limited { begin: held_bytes() };
        let (arena, vars) = (Bump::new(), Vars::EMPTY.with_pace(&pace));
        let cx = Eval::new(root.as_doc(), &vars, &arena, 0);
        let mut out = Vec::new();
        projection.apply(&cx, &mut DocWriter::new(&mut out))
    });
    assert_eq!(result.expect_err("too large").code(), Code::EXCEEDED_MEMORY_LIMIT);
    assert!(peak as usize <= PEAK_MAX, "{peak}");
}

//! Every operator with arguments of every type, by number and by name: a result or an error, but no panic.

use bumpalo::Bump;
use nagi_bson::{DocBuf, Value, doc, json};
use nagi_lang::expr::{Eval, Expr, ParseCx, Vars, operator_names};

/// One value of each kind, and numbers that are edge cases of arithmetic.
const VALUES: &[&str] = &[
    "null",
    "undefined",
    "true",
    "0",
    "-1",
    "2147483647",
    "-2147483648",
    "1.5",
    "NaN",
    "-Infinity",
    "1e308",
    "NumberLong(\"9223372036854775807\")",
    "NumberLong(\"-9223372036854775808\")",
    "NumberDecimal(\"1E+6000\")",
    "NumberDecimal(\"NaN\")",
    "NumberDecimal(\"-0.5\")",
    "\"\"",
    "\"day\"",
    "\"2018-07-03T10:00:00Z\"",
    "\"\u{e9}\u{4e2d}\u{1f600}\"",
    "\"America/New_York\"",
    "\"%Y\"",
    "ObjectId(\"5a7c1f00aa00bb00cc00dd01\")",
    "{\"$date\": {\"$numberLong\": \"0\"}}",
    "{\"$date\": {\"$numberLong\": \"9223372036854775807\"}}",
    "{\"$date\": {\"$numberLong\": \"-9223372036854775808\"}}",
    "Timestamp(4294967295, 1)",
    "BinData(0, \"AAEC\")",
    "/a(b)?/i",
    "MinKey",
    "MaxKey",
    "{}",
    "{a: 1, b: [1, {c: 2}]}",
    "[]",
    "[1, null, \"x\", [2], {k: \"a\", v: 1}]",
    "[[\"k\", 1]]",
    "[{k: \"a\", v: 2}]",
];

/// The argument names of operators.
const NAMES: &[&str] = &[
    "input",
    "date",
    "startDate",
    "endDate",
    "unit",
    "amount",
    "timezone",
    "format",
    "dateString",
    "n",
    "sortBy",
    "field",
    "value",
    "find",
    "replacement",
    "regex",
    "options",
    "chars",
    "to",
    "year",
    "month",
    "isoWeekYear",
    "isoWeek",
    "binSize",
    "startOfWeek",
    "onError",
    "onNull",
    "inputs",
    "cond",
    "in",
    "initialValue",
    "if",
    "then",
    "else",
    "iso8601",
    "vars",
    "branches",
];

fn evaluate(spec: &DocBuf, root: &DocBuf) {
    let Ok(expr) = Expr::parse(spec.as_doc().into(), &mut ParseCx::new()) else {
        return;
    };
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    let cx = Eval::new(root.as_doc(), &vars, &arena, 0);
    if let Ok(value) = expr.eval(&cx) {
        let doc = DocBuf::build(|out| out.put("v", value));
        DocBuf::from_bytes(doc.into_bytes()).expect("results are valid BSON");
    }
}

/// Documents whose fields `a`, `b`, `c` have all combinations of neighbouring values.
fn roots() -> Vec<DocBuf> {
    let values: Vec<_> =
        VALUES.iter().map(|text| json::parse_value(text).expect("readable")).collect();
    let mut roots = Vec::new();
    for (at, a) in values.iter().enumerate() {
        for step in 0..values.len() {
            let b = &values[(at + step) % values.len()];
            let c = &values[(at + 7 * step + 3) % values.len()];
            roots.push(DocBuf::build(|out| {
                out.put("a", a.value());
                out.put("b", b.value());
                out.put("c", c.value());
            }));
        }
    }
    roots
}

#[test]
fn strict_operators_take_anything() {
    let roots = roots();
    for name in operator_names() {
        for args in
            [vec!["$a"], vec!["$a", "$b"], vec!["$a", "$b", "$c"], vec!["$a", "$b", "$c", "$a"]]
        {
            let spec = DocBuf::build(|out| {
                out.array(name, |out| args.iter().for_each(|arg| out.push(*arg)));
            });
            if Expr::parse(spec.as_doc().into(), &mut ParseCx::new()).is_ok() {
                roots.iter().step_by(3).for_each(|root| evaluate(&spec, root));
            }
        }
    }
}

/// The parameters of an operator: those that it does not report as unknown.
fn parameters(operator: &str) -> Vec<&'static str> {
    let known = |name: &&&str| {
        let spec = DocBuf::build(|out| out.doc(operator, |out| out.put(name, "$a")));
        match Expr::parse(spec.as_doc().into(), &mut ParseCx::new()) {
            Ok(_) => true,
            Err(error) => {
                let text = error.message().to_lowercase();
                !text.contains("unrecognized") && !text.contains("unknown")
            }
        }
    };
    NAMES.iter().filter(known).copied().collect()
}

#[test]
fn named_arguments_take_anything() {
    let roots = roots();
    for operator in operator_names() {
        let names = parameters(operator);
        if names.is_empty() || names.len() == NAMES.len() {
            continue;
        }
        for rotation in 0..names.len() {
            let spec = DocBuf::build(|out| {
                out.doc(operator, |out| {
                    for (at, name) in names.iter().enumerate() {
                        out.put(name, ["$a", "$b", "$c"][(at + rotation) % 3]);
                    }
                });
            });
            roots.iter().step_by(3).for_each(|root| evaluate(&spec, root));
        }
    }
}

/// The stack size of a connection in bytes; see the network layer.
const STACK_BYTES: usize = 1 << 20;

#[test]
fn deep_nesting_fits_a_small_stack() {
    let nested = |wrap: fn(&DocBuf) -> DocBuf| {
        let mut spec = doc! { "$not": true };
        for _ in 0..90 {
            spec = wrap(&spec);
        }
        spec
    };
    let specs = [
        nested(|inner| doc! { "$not": [Value::Doc(inner.as_doc())] }),
        nested(|inner| doc! { "$and": [Value::Doc(inner.as_doc())] }),
        nested(|inner| doc! { "$trim": { "input": inner } }),
        nested(|inner| doc! { "$let": { "vars": { "x": inner }, "in": "$$x" } }),
        nested(|inner| doc! { "$map": { "input": [1], "in": inner } }),
        nested(|inner| doc! { "a": [inner] }),
    ];
    let work = move || specs.iter().for_each(|spec| evaluate(spec, &DocBuf::new()));
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work);
    thread.expect("a thread starts").join().expect("the stack is large enough");
}

//! What evaluating costs, in nanoseconds a document: `cargo bench -p nagi-lang --bench expr`.
//!
//! A document of twelve fields, one of them an array of ten documents; each line is an expression, a
//! projection or an accumulator over it. Figures are the best of five rounds.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::hint::black_box;
use std::time::Instant;

use bumpalo::Bump;
use nagi_bson::{DocBuf, DocWriter, json};
use nagi_lang::accum::AccumSpec;
use nagi_lang::expr::{Eval, Expr, ParseCx, Vars};
use nagi_lang::project::{AddFields, AggProjection};

const ROUNDS: usize = 5;
const RUNS: u32 = 100_000;

fn document() -> DocBuf {
    let items: Vec<String> =
        (0..10).map(|n| format!("{{sku: \"p{n}\", qty: {n}, price: {}.5}}", n * 3)).collect();
    let text = format!(
        "{{_id: 1, name: \"Ada Lovelace\", age: 36, city: \"London\", a: 5, b: 7.5, c: \"x\", \
         d: {{e: {{f: 1}}}}, tags: [\"x\", \"y\"], when: ISODate(\"2024-05-06T07:08:09Z\"), \
         long: NumberLong(5), items: [{}]}}",
        items.join(", ")
    );
    json::parse(&text).expect("the document is readable")
}

fn measure(name: &str, mut run: impl FnMut()) {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        (0..RUNS).for_each(|_| run());
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(RUNS));
    }
    println!("{best:9.1} ns  {name}");
}

fn main() {
    let doc = document();
    let expressions = [
        "\"$age\"",
        "\"$items.qty\"",
        "{$add: [\"$a\", \"$b\", 1]}",
        "{$cond: [{$gt: [\"$age\", 30]}, \"$name\", \"young\"]}",
        "{$concat: [\"$name\", \" of \", \"$city\"]}",
        "{$sum: \"$items.qty\"}",
        "{$map: {input: \"$items\", as: \"i\", in: {$multiply: [\"$$i.qty\", \"$$i.price\"]}}}",
        "{$filter: {input: \"$items\", cond: {$gt: [\"$$this.qty\", 4]}}}",
        "{$dateToString: {date: \"$when\", format: \"%Y-%m-%d\", timezone: \"Europe/Paris\"}}",
        "{$regexMatch: {input: \"$name\", regex: \"love\", options: \"i\"}}",
        "{$in: [\"$city\", [\"Paris\", \"Rome\", \"London\"]]}",
    ];
    let mut arena = Bump::new();
    let vars = Vars::new(&[]);
    for text in expressions {
        let spec = json::parse_value(text).expect("readable");
        let expr = Expr::parse(spec.value(), &mut ParseCx::new()).expect("an expression");
        measure(text, || {
            let cx = Eval::new(doc.as_doc(), &vars, &arena, 0);
            black_box(expr.eval(&cx).expect("it evaluates"));
            arena.reset();
        });
    }
    let mut out = Vec::new();
    let spec = json::parse("{name: 1, \"d.e\": 1, total: {$add: [\"$a\", \"$b\"]}}").expect("json");
    let project =
        AggProjection::parse(spec.as_doc().into(), &mut ParseCx::new()).expect("a projection");
    measure("$project of three fields", || {
        out.clear();
        let cx = Eval::new(doc.as_doc(), &vars, &arena, 0);
        project.apply(&cx, &mut DocWriter::new(&mut out)).expect("it applies");
        black_box(&out);
    });
    let spec = json::parse("{total: {$add: [\"$a\", \"$b\"]}}").expect("json");
    let add = AddFields::parse(spec.as_doc().into(), "$set", &mut ParseCx::new()).expect("fields");
    measure("$set of one field", || {
        out.clear();
        let cx = Eval::new(doc.as_doc(), &vars, &arena, 0);
        add.apply(&cx, &mut DocWriter::new(&mut out)).expect("it applies");
        black_box(&out);
    });
    let spec = json::parse("{$sum: \"$b\"}").expect("json");
    let sum = AccumSpec::parse_field("t", spec.as_doc().into(), &mut ParseCx::new()).expect("sum");
    let mut state = sum.new_state();
    measure("$sum of a double", || {
        let cx = Eval::new(doc.as_doc(), &vars, &arena, 0);
        state.add(sum.argument().eval(&cx).expect("a value")).expect("it adds");
    });
}

//! Expressions, by family. The answer is the document `{r: value}`.

use bson::{Bson, DateTime, doc};
use bumpalo::Bump;
use nagi_bson::{Doc, DocWriter, json};
use nagi_lang::expr::{Eval, Expr, ParseCx, Vars};

use crate::measure::{Row, Side};
use crate::owned::{compute, int, items, number, pattern, text};

fn ours(spec: &str) -> Side {
    let spec = json::parse_value(spec).expect("valid notation");
    let expr = Expr::parse(spec.value(), &mut ParseCx::new()).expect("an expression");
    let mut arena = Bump::new();
    Box::new(move |bytes, out| {
        let vars = Vars::EMPTY;
        let cx = Eval::new(Doc::trusted(bytes), &vars, &arena, 0);
        let mut writer = DocWriter::new(out);
        writer.put("r", expr.eval(&cx).expect("it evaluates"));
        writer.finish();
        arena.reset();
    })
}

fn row(family: &str, spec: &str, owned: Side) -> Row {
    Row::new(&format!("{family} {spec}"), ours(spec), owned)
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = scalars();
    rows.extend(texts());
    rows.extend(arrays());
    rows.extend(objects_and_dates());
    rows
}

fn scalars() -> Vec<Row> {
    vec![
        row(
            "arithmetic",
            "{$add: ['$a', {$multiply: ['$flags', 2]}, 1]}",
            compute(|doc| int(doc, "a") + int(doc, "flags") * 2 + 1),
        ),
        row(
            "boolean",
            "{$and: [{$gt: ['$age', 20]}, {$ne: ['$city', 'Rome']}]}",
            compute(|doc| int(doc, "age") > 20 && text(doc, "city") != "Rome"),
        ),
        row(
            "conditional",
            "{$switch: {branches: [{case: {$lt: ['$age', 21]}, then: 'young'}, \
             {case: {$lt: ['$age', 30]}, then: '$city'}], default: '$level'}}",
            compute(|doc| match int(doc, "age") {
                ..21 => "young".to_owned(),
                21..30 => text(doc, "city").to_owned(),
                _ => text(doc, "level").to_owned(),
            }),
        ),
        row(
            "rounding",
            "{$round: [{$divide: ['$balance', 3]}, 2]}",
            compute(|doc| {
                (doc.get_f64("balance").expect("a double") / 3.0 * 100.0).round() / 100.0
            }),
        ),
        row(
            "trigonometry",
            "{$sin: {$degreesToRadians: '$balance'}}",
            compute(|doc| doc.get_f64("balance").expect("a double").to_radians().sin()),
        ),
        row(
            "bitwise",
            "{$bitXor: ['$flags', {$bitAnd: ['$a', 6]}]}",
            compute(|doc| int(doc, "flags") ^ (int(doc, "a") & 6)),
        ),
        row(
            "conversion",
            "{$toString: '$visits'}",
            compute(|doc| doc.get_i64("visits").expect("a long").to_string()),
        ),
        row(
            "folded",
            "{$add: ['$a', {$multiply: [60, 60, 24, {$strLenBytes: 'seconds'}]}]}",
            compute(|doc| int(doc, "a") + 60 * 60 * 24 * 7),
        ),
    ]
}

fn texts() -> Vec<Row> {
    let pattern = pattern("lace 1");
    vec![
        row(
            "string",
            "{$concat: ['$name', ' of ', '$city']}",
            compute(|doc| format!("{} of {}", text(doc, "name"), text(doc, "city"))),
        ),
        row("string", "{$toUpper: '$name'}", compute(|doc| text(doc, "name").to_ascii_uppercase())),
        row(
            "string",
            "{$arrayElemAt: [{$split: ['$email', '@']}, 0]}",
            compute(|doc| text(doc, "email").split('@').next().expect("one at least").to_owned()),
        ),
        row(
            "regex",
            "{$regexMatch: {input: '$name', regex: 'lace 1', options: 'i'}}",
            compute(move |doc| pattern.is_match(text(doc, "name").as_bytes()).expect("few steps")),
        ),
    ]
}

fn arrays() -> Vec<Row> {
    vec![
        row(
            "array",
            "{$filter: {input: '$items', cond: {$gt: ['$$this.qty', 3]}}}",
            compute(|doc| {
                items(doc)
                    .filter(|i| int(i, "qty") > 3)
                    .cloned()
                    .map(Bson::Document)
                    .collect::<Vec<_>>()
            }),
        ),
        row(
            "array",
            "{$map: {input: '$items', as: 'i', in: {$multiply: ['$$i.qty', '$$i.price']}}}",
            compute(|doc| {
                let product = |i: &bson::Document| {
                    Bson::Double(f64::from(int(i, "qty")) * i.get_f64("price").expect("a double"))
                };
                items(doc).map(product).collect::<Vec<_>>()
            }),
        ),
        row(
            "array",
            "{$reduce: {input: '$scores', initialValue: 0, in: {$add: ['$$value', '$$this']}}}",
            compute(|doc| {
                doc.get_array("scores")
                    .expect("an array")
                    .iter()
                    .filter_map(Bson::as_i32)
                    .sum::<i32>()
            }),
        ),
        row(
            "array",
            "{$slice: ['$scores', 1, 3]}",
            compute(|doc| doc.get_array("scores").expect("an array")[1..4].to_vec()),
        ),
        row(
            "accumulating",
            "{$sum: '$items.price'}",
            compute(|doc| items(doc).filter_map(|i| i.get("price")).map(number).sum::<f64>()),
        ),
        row(
            "set",
            "{$setIsSubset: [['x', 'red'], '$tags']}",
            compute(|doc| {
                let tags = doc.get_array("tags").expect("an array");
                ["x", "red"].iter().all(|name| tags.iter().any(|tag| tag.as_str() == Some(name)))
            }),
        ),
        row(
            "set",
            "{$in: ['$city', ['Paris', 'Oslo', 'Rome']]}",
            compute(|doc| ["Paris", "Oslo", "Rome"].contains(&text(doc, "city"))),
        ),
    ]
}

fn objects_and_dates() -> Vec<Row> {
    let millis =
        |doc: &bson::Document| doc.get_datetime("created").expect("a date").timestamp_millis();
    vec![
        row(
            "object",
            "{$mergeObjects: ['$address', {zip: '$level', a: '$a'}]}",
            compute(|doc| {
                let mut out = doc.get_document("address").expect("a document").clone();
                out.insert("zip", text(doc, "level"));
                out.insert("a", int(doc, "a"));
                out
            }),
        ),
        row(
            "object",
            "{street: '$address.street', first: {$first: '$tags'}}",
            compute(|doc| {
                let address = doc.get_document("address").expect("a document");
                let tags = doc.get_array("tags").expect("an array");
                doc! {"street": text(address, "street"), "first": tags[0].clone()}
            }),
        ),
        row(
            "date",
            "{$dateToString: {date: '$created', format: '%Y-%m-%d %H:%M'}}",
            compute(move |doc| {
                let at = jiff::Timestamp::from_millisecond(millis(doc)).expect("within range");
                let at = at.to_zoned(jiff::tz::TimeZone::UTC);
                at.strftime("%Y-%m-%d %H:%M").to_string()
            }),
        ),
        row(
            "date",
            "{$dateAdd: {startDate: '$created', unit: 'hour', amount: '$a'}}",
            compute(move |doc| {
                DateTime::from_millis(millis(doc) + i64::from(int(doc, "a")) * 3_600_000)
            }),
        ),
        row("date", "{$dayOfMonth: {date: '$created', timezone: 'Europe/Paris'}}", {
            let paris = jiff::tz::TimeZone::get("Europe/Paris").expect("a zone");
            compute(move |doc| {
                let at = jiff::Timestamp::from_millisecond(millis(doc)).expect("within range");
                i32::from(at.to_zoned(paris.clone()).day())
            })
        }),
    ]
}

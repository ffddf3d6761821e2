//! Projections of find, and the stages that reshape documents.

use bson::{Bson, Document};
use bumpalo::Bump;
use nagi_bson::{Doc, DocWriter, json};
use nagi_lang::expr::{Eval, ParseCx, Vars};
use nagi_lang::filter::MatchInfo;
use nagi_lang::project::{AddFields, AggProjection, Projection};

use crate::measure::{Row, Side};
use crate::owned::{change, include, int, items, shape, text};

fn find(spec: &str) -> Side {
    let spec = json::parse(spec).expect("valid notation");
    let projection = Projection::parse_find(spec.as_doc(), None, &mut ParseCx::new());
    let projection = projection.expect("a projection");
    let mut arena = Bump::new();
    Box::new(move |bytes, out| {
        let (vars, doc) = (Vars::EMPTY, Doc::trusted(bytes));
        let cx = Eval::new(doc, &vars, &arena, 0);
        let mut writer = DocWriter::new(out);
        projection.apply(doc, MatchInfo::default(), &cx, &mut writer).expect("it applies");
        writer.finish();
        arena.reset();
    })
}

fn project(spec: &str) -> Side {
    let spec = json::parse(spec).expect("valid notation");
    let projection = AggProjection::parse(spec.as_doc().into(), &mut ParseCx::new());
    stage(projection.expect("a projection"), AggProjection::apply)
}

fn unset(names: &str) -> Side {
    let spec = json::parse_value(names).expect("valid notation");
    let projection = AggProjection::parse_unset(spec.value()).expect("names");
    stage(projection, AggProjection::apply)
}

fn add_fields(spec: &str) -> Side {
    let spec = json::parse(spec).expect("valid notation");
    let fields = AddFields::parse(spec.as_doc().into(), "$set", &mut ParseCx::new());
    stage(fields.expect("fields"), AddFields::apply)
}

fn stage<S: 'static>(
    stage: S,
    apply: for<'a> fn(&'a S, &Eval<'a>, &mut DocWriter<'_>) -> nagi_error::Result<()>,
) -> Side {
    let mut arena = Bump::new();
    Box::new(move |bytes, out| {
        let vars = Vars::EMPTY;
        let cx = Eval::new(Doc::trusted(bytes), &vars, &arena, 0);
        let mut writer = DocWriter::new(out);
        apply(&stage, &cx, &mut writer).expect("it applies");
        writer.finish();
        arena.reset();
    })
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = of_find();
    rows.extend(stages());
    rows
}

const FIVE: &str = "{name: 1, age: 1, city: 1, a: 1, level: 1, _id: 0}";
const FIVE_NAMES: &[&str] = &["name", "age", "city", "a", "level"];

fn of_find() -> Vec<Row> {
    let row = |spec: &str, owned| Row::new(&format!("find {spec}"), find(spec), owned);
    vec![
        row(FIVE, shape(|doc| include(doc, FIVE_NAMES))).within(400.0),
        row("{name: 1, b: 1}", shape(|doc| include(doc, &["_id", "name", "b"]))),
        row(
            "{note: 0, email: 0}",
            change(|doc| {
                doc.remove("note");
                doc.remove("email");
            }),
        ),
        row(
            "{'address.zip': 1, 'items.sku': 1, _id: 0}",
            shape(|doc| {
                let address = doc.get_document("address").expect("a document").clone();
                let skus = items(&doc).map(|item| Bson::Document(include(item.clone(), &["sku"])));
                let mut out = Document::new();
                let skus: Vec<Bson> = skus.collect();
                out.insert("address", include(address, &["zip"]));
                out.insert("items", skus);
                out
            }),
        ),
        row(
            "{scores: {$slice: 2}, name: 1, _id: 0}",
            shape(|doc| {
                let mut out = include(doc, &["name", "scores"]);
                out.get_array_mut("scores").expect("an array").truncate(2);
                out
            }),
        ),
    ]
}

fn stages() -> Vec<Row> {
    vec![
        Row::new(&format!("$project {FIVE}"), project(FIVE), shape(|doc| include(doc, FIVE_NAMES)))
            .within(400.0),
        Row::new(
            "$project {name: 1, zip: '$address.zip', sum: {$add: ['$a', '$flags']}}",
            project("{name: 1, zip: '$address.zip', sum: {$add: ['$a', '$flags']}}"),
            shape(|doc| {
                let address = doc.get_document("address").expect("a document");
                let zip = text(address, "zip").to_owned();
                let sum = int(&doc, "a") + int(&doc, "flags");
                let mut out = include(doc, &["_id", "name"]);
                out.insert("zip", zip);
                out.insert("sum", sum);
                out
            }),
        ),
        Row::new(
            "$set {total: {$add: ['$a', '$flags']}, city: 'Bonn'}",
            add_fields("{total: {$add: ['$a', '$flags']}, city: 'Bonn'}"),
            change(|doc| {
                let total = int(doc, "a") + int(doc, "flags");
                doc.insert("city", "Bonn");
                doc.insert("total", total);
            }),
        ),
        Row::new(
            "$unset ['note', 'items']",
            unset("['note', 'items']"),
            change(|doc| {
                doc.remove("note");
                doc.remove("items");
            }),
        ),
    ]
}

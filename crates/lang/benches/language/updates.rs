//! Updates: operators, a pipeline, a replacement.

use bson::{Bson, doc};
use bumpalo::Bump;
use nagi_bson::{Doc, json};
use nagi_lang::expr::{ParseCx, Vars};
use nagi_lang::filter::MatchInfo;
use nagi_lang::update::{Applied, Update, UpdateCx};

use crate::measure::{Row, Side};
use crate::owned::{change, int, shape};

fn ours(spec: &str) -> Side {
    let spec = json::parse_value(spec).expect("valid notation");
    let update = Update::parse(spec.value(), &[], &mut ParseCx::new()).expect("an update");
    let mut arena = Bump::new();
    Box::new(move |bytes, out| {
        let vars = Vars::EMPTY;
        let cx = UpdateCx::new(&vars, &arena, 0, &|| 0);
        let doc = Doc::trusted(bytes);
        let applied = update.apply(doc, MatchInfo::default(), &cx, out).expect("it applies");
        if applied == Applied::NoOp {
            out.extend_from_slice(bytes);
        }
        arena.reset();
    })
}

fn row(spec: &str, owned: Side) -> Row {
    Row::new(spec, ours(spec), owned)
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = fields();
    rows.extend(arrays());
    rows.extend(whole());
    rows
}

fn fields() -> Vec<Row> {
    vec![
        row(
            "{$set: {city: 'Bonn', level: 'tin'}}",
            change(|doc| {
                doc.insert("city", "Bonn");
                doc.insert("level", "tin");
            }),
        ),
        row("{$set: {city: 'Rome'}}", change(|doc| drop(doc.insert("city", "Rome")))),
        row(
            "{$set: {'address.geo.lat': 1.5, fresh: true}}",
            change(|doc| {
                let address = doc.get_document_mut("address").expect("a document");
                address.get_document_mut("geo").expect("a document").insert("lat", 1.5);
                doc.insert("fresh", true);
            }),
        ),
        row(
            "{$inc: {a: 1, visits: NumberLong(2)}}",
            change(|doc| {
                *doc.get_i32_mut("a").expect("an int") += 1;
                *doc.get_i64_mut("visits").expect("a long") += 2;
            }),
        ),
        row(
            "{$unset: {note: '', rank: ''}}",
            change(|doc| {
                doc.remove("note");
                doc.remove("rank");
            }),
        ),
        row(
            "{$max: {a: 4}, $rename: {level: 'grade'}}",
            change(|doc| {
                let a = int(doc, "a").max(4);
                doc.insert("a", a);
                let level = doc.remove("level").expect("there");
                doc.insert("grade", level);
            }),
        ),
    ]
}

fn arrays() -> Vec<Row> {
    vec![
        row(
            "{$push: {tags: 'new'}}",
            change(|doc| doc.get_array_mut("tags").expect("an array").push("new".into())),
        ),
        row(
            "{$push: {scores: {$each: [5, 1], $sort: 1, $slice: 4}}}",
            change(|doc| {
                let scores = doc.get_array_mut("scores").expect("an array");
                scores.extend([Bson::Int32(5), Bson::Int32(1)]);
                scores.sort_by_key(|score| score.as_i32());
                scores.truncate(4);
            }),
        ),
        row(
            "{$addToSet: {tags: 'red'}, $pull: {scores: {$gt: 40}}}",
            change(|doc| {
                let tags = doc.get_array_mut("tags").expect("an array");
                if !tags.iter().any(|tag| tag.as_str() == Some("red")) {
                    tags.push("red".into());
                }
                let scores = doc.get_array_mut("scores").expect("an array");
                scores.retain(|score| score.as_i32().is_none_or(|n| n <= 40));
            }),
        ),
        row(
            "{$inc: {'items.$[].qty': 1}}",
            change(|doc| {
                for item in doc.get_array_mut("items").expect("an array") {
                    let item = item.as_document_mut().expect("a document");
                    *item.get_i32_mut("qty").expect("an int") += 1;
                }
            }),
        ),
    ]
}

fn whole() -> Vec<Row> {
    vec![
        row(
            "[{$set: {total: {$add: ['$a', '$flags']}}}, {$unset: 'note'}]",
            change(|doc| {
                let total = int(doc, "a") + int(doc, "flags");
                doc.insert("total", total);
                doc.remove("note");
            }),
        ),
        row(
            "{name: 'Ada', a: 5, tags: ['x', 'y']}",
            shape(|old| {
                let id = old.get("_id").expect("an id").clone();
                doc! {"_id": id, "name": "Ada", "a": 5, "tags": ["x", "y"]}
            }),
        ),
    ]
}

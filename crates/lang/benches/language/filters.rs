//! Filters: match or no match, on fields at the beginning and end of documents, with and without a collation.

use bson::Bson;
use bumpalo::Bump;
use nagi_bson::{Doc, json};
use nagi_lang::collation::Collation;
use nagi_lang::expr::{ParseCx, Vars};
use nagi_lang::filter::{Filter, MatchCx};

use crate::measure::{Row, Side};
use crate::owned::{int, items, number, pattern, test, text};

/// A filter, with the collation of `collation` if it names one.
fn ours(spec: &str, collation: &str) -> Side {
    let spec = json::parse(spec).expect("valid notation");
    let collation = json::parse(collation).expect("valid notation");
    let collation = Collation::parse(collation.as_doc()).expect("a collation");
    let mut cx = ParseCx::new().collated(collation);
    let filter = Filter::parse(spec.as_doc(), &mut cx).expect("a filter").normalize();
    let mut arena = Bump::new();
    Box::new(move |bytes, out| {
        let vars = Vars::EMPTY;
        let cx = MatchCx::new(&vars, &arena, 0);
        out.push(u8::from(filter.matches(Doc::trusted(bytes), &cx).expect("it evaluates")));
        arena.reset();
    })
}

fn plain(spec: &str, owned: Side) -> Row {
    Row::new(spec, ours(spec, "{locale: 'simple'}"), owned)
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = scalars();
    rows.extend(below());
    rows.extend(collated());
    rows
}

fn scalars() -> Vec<Row> {
    vec![
        plain("{a: {$gt: 3}, b: 'y'}", test(|doc| int(doc, "a") > 3 && text(doc, "b") == "y"))
            .within(150.0),
        plain("{name: 'nobody'}", test(|doc| text(doc, "name") == "nobody")),
        plain("{b: 'y'}", test(|doc| text(doc, "b") == "y")),
        plain(
            "{city: {$in: ['Oslo', 'Rome', 'Paris', 'Bonn', 'Kyiv']}}",
            test(|doc| ["Oslo", "Rome", "Paris", "Bonn", "Kyiv"].contains(&text(doc, "city"))),
        ),
        plain(
            "{$or: [{age: {$lt: 20}}, {visits: {$gte: 9000}}, {level: 'silver'}]}",
            test(|doc| {
                int(doc, "age") < 20
                    || doc.get_i64("visits").expect("a long") >= 9000
                    || text(doc, "level") == "silver"
            }),
        ),
        plain(
            "{created: {$gte: ISODate('2024-05-10T00:00:00Z'), $lt: ISODate('2024-05-20T00:00:00Z')}}",
            test(|doc| {
                let created = doc.get_datetime("created").expect("a date").timestamp_millis();
                let day = |n: i64| 1_714_521_600_000 + (n - 1) * 86_400_000;
                (day(10)..day(20)).contains(&created)
            }),
        ),
        regex("name", "lace 1"),
        regex("note", "one Kilobytes"),
        plain("{$expr: {$gt: ['$flags', '$a']}}", test(|doc| int(doc, "flags") > int(doc, "a"))),
        plain(
            "{active: true, city: 'Rome', age: {$gte: 21, $lt: 40}, level: {$ne: 'tin'}, parent: null}",
            test(|doc| {
                doc.get_bool("active").expect("a bool")
                    && text(doc, "city") == "Rome"
                    && (21..40).contains(&int(doc, "age"))
                    && text(doc, "level") != "tin"
                    && matches!(doc.get("parent"), None | Some(Bson::Null))
            }),
        ),
    ]
}

fn regex(field: &'static str, text_of_pattern: &str) -> Row {
    let pattern = pattern(text_of_pattern);
    plain(
        &format!("{{{field}: /{text_of_pattern}/i}}"),
        test(move |doc| pattern.is_match(text(doc, field).as_bytes()).expect("few steps")),
    )
}

fn below() -> Vec<Row> {
    vec![
        plain(
            "{'address.geo.lat': {$gt: 51}}",
            test(|doc| {
                let address = doc.get_document("address").expect("a document");
                let geo = address.get_document("geo").expect("a document");
                geo.get_f64("lat").expect("a double") > 51.0
            }),
        ),
        plain(
            "{tags: 't1'}",
            test(|doc| {
                let tags = doc.get_array("tags").expect("an array");
                tags.iter().any(|tag| tag.as_str() == Some("t1"))
            }),
        ),
        plain("{'items.qty': {$gt: 5}}", test(|doc| items(doc).any(|item| int(item, "qty") > 5))),
        plain(
            "{items: {$elemMatch: {qty: {$gt: 4}, price: {$lt: 9}}}}",
            test(|doc| {
                items(doc).any(|item| {
                    int(item, "qty") > 4 && number(item.get("price").expect("there")) < 9.0
                })
            }),
        ),
        plain(
            "{scores: {$size: 6}, tags: {$all: ['x', 'red']}}",
            test(|doc| {
                let tags = doc.get_array("tags").expect("an array");
                let has = |name| tags.iter().any(|tag| tag.as_str() == Some(name));
                doc.get_array("scores").expect("an array").len() == 6 && has("x") && has("red")
            }),
        ),
    ]
}

/// The same condition without a collation, with the simple collation, and with one that compares letters.
fn collated() -> Vec<Row> {
    let spec = "{city: 'Rome', level: {$gte: 'g'}}";
    let owned = || test(|doc| text(doc, "city") == "Rome" && text(doc, "level") >= "g");
    let plain_parse = {
        let spec = json::parse(spec).expect("valid notation");
        let filter = Filter::parse(spec.as_doc(), &mut ParseCx::new()).expect("a filter");
        let filter = filter.normalize();
        let mut arena = Bump::new();
        let side: Side = Box::new(move |bytes, out| {
            let vars = Vars::EMPTY;
            let cx = MatchCx::new(&vars, &arena, 0);
            out.push(u8::from(filter.matches(Doc::trusted(bytes), &cx).expect("it evaluates")));
            arena.reset();
        });
        side
    };
    let name = |what: &str| format!("{spec}, {what}");
    vec![
        Row::new(&name("no collation"), plain_parse, owned()),
        Row::new(&name("collation simple"), ours(spec, "{locale: 'simple'}"), owned()),
        Row::new(
            &name("collation en, strength 2"),
            ours(spec, "{locale: 'en', strength: 2}"),
            test(|doc| {
                text(doc, "city").eq_ignore_ascii_case("rome")
                    && text(doc, "level").to_ascii_lowercase().as_str() >= "g"
            }),
        ),
    ]
}

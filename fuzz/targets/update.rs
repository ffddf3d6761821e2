//! An update (operators, replacement or pipeline) and a document, as text in shell notation, one per line. A
//! third line may contain array filters. The result must be a document that may be stored.
#![no_main]

use bumpalo::Bump;
use libfuzzer_sys::fuzz_target;
use nagi_bson::{Doc, Value, json};
use nagi_lang::expr::{ParseCx, Vars};
use nagi_lang::filter::MatchInfo;
use nagi_lang::update::{Applied, Update, UpdateCx};

fuzz_target!(|data: &str| {
    let mut lines = data.split('\n');
    let mut next = |otherwise| lines.next().unwrap_or(otherwise);
    let (update, doc, filters) = (next("{}"), next("{}"), next("[]"));
    let (Ok(update), Ok(doc)) = (json::parse_value(update), json::parse(doc)) else { return };
    let Ok(filters) = json::parse_value(filters) else { return };
    let filters: Vec<Doc<'_>> = match filters.value() {
        Value::Array(items) => {
            items.iter().filter_map(|v| if let Value::Doc(d) = v { Some(d) } else { None }).collect()
        }
        _ => Vec::new(),
    };
    let Ok(update) = Update::parse(update.value(), &filters, &mut ParseCx::new()) else { return };
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    let cx = UpdateCx::new(&vars, &arena, 0, 1);
    let mut out = Vec::new();
    let info = MatchInfo { position: Some(0) };
    match update.apply(doc.as_doc(), info, &cx, &mut out) {
        Ok(Applied::Modified) => {
            Doc::parse(&out).expect("an updated document is valid");
        }
        Ok(Applied::NoOp) => assert!(out.is_empty()),
        Err(_) => {}
    }
});

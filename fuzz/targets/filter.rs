//! A filter and a document, as text in shell notation, one per line. Text mutates into valid documents far more
//! often than bytes with lengths do.
#![no_main]

use bumpalo::Bump;
use libfuzzer_sys::fuzz_target;
use nagi_bson::json;
use nagi_lang::expr::{ParseCx, Vars};
use nagi_lang::filter::{Filter, MatchCx};

fuzz_target!(|data: &str| {
    let (filter, doc) = data.split_once('\n').unwrap_or((data, "{}"));
    // These are random: two evaluations may differ.
    if filter.contains("sampleRate") || filter.contains("rand") {
        return;
    }
    let (Ok(filter), Ok(doc)) = (json::parse(filter), json::parse(doc)) else { return };
    let Ok(filter) = Filter::parse(filter.as_doc(), &mut ParseCx::new()) else { return };
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    let cx = MatchCx::new(&vars, &arena, 0);
    let first = filter.matches(doc.as_doc(), &cx);
    let position = filter.matches_with_position(doc.as_doc(), &cx);
    if let (Ok(matches), Ok(position)) = (first, position) {
        assert_eq!(matches, position.is_some());
    }
});

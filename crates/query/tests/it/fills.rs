//! `$fill` and `$densify`, compared with naive implementations on lists in memory, one partition after another.
//!
//! Documents are generated from a seed: groups, integer sort keys with gaps, and values that are often null or
//! missing.

use nagi_bson::{Doc, DocBuf, Value, number};

use crate::any_plan::Random;
use crate::fixture::Fixture;

const COLLECTIONS: u64 = 12;
const DOCS: usize = 40;
const GROUPS: usize = 3;

/// One document: `_id`, `g`, `t` (none: missing) and `v` (none: missing or null).
#[derive(Clone, Copy)]
struct Row {
    id: i64,
    group: usize,
    time: Option<i64>,
    value: Option<f64>,
}

/// Documents with sort keys, distinct within each group if `different`. If `gaps`, some lack the key.
fn generate(random: &mut Random, fixture: &Fixture, different: bool, gaps: bool) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for id in 0..DOCS as i64 {
        let group = random.below(GROUPS);
        let time = random.below(90) as i64 - 20;
        if different && rows.iter().any(|row| row.group == group && row.time == Some(time)) {
            continue;
        }
        let time = (!gaps || random.below(9) > 0).then_some(time);
        let value = (random.below(3) > 0).then(|| random.below(1000) as f64 / 8.0);
        let mut text = format!("{{_id: {id}, g: {group}");
        if let Some(time) = time {
            text += &format!(", t: {time}");
        }
        match value {
            Some(value) => text += &format!(", v: {value:?}"),
            None if random.below(2) == 0 => text += ", v: null",
            None => {}
        }
        fixture.insert(&(text + "}")).unwrap();
        rows.push(Row { id, group, time, value });
    }
    rows
}

fn whole(doc: Doc<'_>, name: &str) -> Option<i64> {
    number::as_i64_exact(doc.get(name))
}

/// The values of `v` by `_id`, from the stage's output.
fn values(found: &[DocBuf]) -> Vec<(i64, Option<f64>)> {
    let mut out: Vec<(i64, Option<f64>)> = found
        .iter()
        .map(|doc| (whole(doc.as_doc(), "_id").unwrap(), number::as_f64(doc.get("v"))))
        .collect();
    out.sort_unstable_by_key(|(id, _)| *id);
    out
}

/// The rows of each group in the order of their keys.
fn partitions(rows: &[Row]) -> Vec<Vec<Row>> {
    let mut out = vec![Vec::new(); GROUPS];
    rows.iter().for_each(|row| out[row.group].push(*row));
    out.iter_mut().for_each(|rows: &mut Vec<Row>| rows.sort_by_key(|row| (row.time, row.id)));
    out
}

#[test]
fn fill_carries_the_last_value_on() {
    let mut random = Random(61);
    for _ in 0..COLLECTIONS {
        let fixture = Fixture::new();
        let rows = generate(&mut random, &fixture, false, false);
        let stage = "[{$fill: {partitionBy: '$g', sortBy: {t: 1, _id: 1}, \
                     output: {v: {method: 'locf'}}}}]";
        let found = values(&fixture.aggregate(stage).unwrap());
        let mut expected = Vec::new();
        for rows in partitions(&rows) {
            for (at, row) in rows.iter().enumerate() {
                let known = rows[..=at].iter().rev().find_map(|row| row.value);
                expected.push((row.id, known));
            }
        }
        expected.sort_unstable_by_key(|(id, _)| *id);
        assert_eq!(found, expected);
    }
}

#[test]
fn fill_draws_lines_between_known_values() {
    let mut random = Random(62);
    for _ in 0..COLLECTIONS {
        let fixture = Fixture::new();
        let rows = generate(&mut random, &fixture, true, false);
        let stage = "[{$fill: {partitionByFields: ['g'], sortBy: {t: 1}, \
                     output: {v: {method: 'linear'}}}}]";
        let found = values(&fixture.aggregate(stage).unwrap());
        let mut expected = Vec::new();
        for rows in partitions(&rows) {
            for (at, row) in rows.iter().enumerate() {
                expected.push((row.id, row.value.or_else(|| on_line(&rows, at))));
            }
        }
        expected.sort_unstable_by_key(|(id, _)| *id);
        assert_eq!(found.len(), expected.len());
        for ((id, found), (_, expected)) in found.iter().zip(&expected) {
            let near = match (found, expected) {
                (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * (1.0 + b.abs()),
                (a, b) => a == b,
            };
            assert!(near, "{id}: {found:?}, not {expected:?}");
        }
    }
}

/// The interpolated value at a row, between the nearest known values before and after it.
fn on_line(rows: &[Row], at: usize) -> Option<f64> {
    let point = |row: &Row| Some((row.time? as f64, row.value?));
    let (x1, y1) = rows[..at].iter().rev().find_map(point)?;
    let (x2, y2) = rows[at..].iter().find_map(point)?;
    let x = rows[at].time? as f64;
    Some(y1 + (y2 - y1) * (x - x1) / (x2 - x1))
}

/// The output of `$densify`: group, key and `_id` of each document; generated ones have no `_id`.
fn densified(found: &[DocBuf]) -> Vec<(Option<i64>, Option<i64>, Option<i64>)> {
    let mut out: Vec<_> = found
        .iter()
        .map(|doc| (whole(doc.as_doc(), "g"), whole(doc.as_doc(), "t"), whole(doc.as_doc(), "_id")))
        .collect();
    out.sort_unstable();
    out
}

#[test]
fn densify_makes_the_steps_that_are_not_there() {
    let mut random = Random(63);
    for round in 0..COLLECTIONS * 3 {
        let fixture = Fixture::new();
        let rows = generate(&mut random, &fixture, false, true);
        let step = 1 + random.below(6) as i64;
        let low = random.below(60) as i64 - 30;
        let high = low + random.below(80) as i64;
        let bounds = match round % 3 {
            0 => "'full'".to_owned(),
            1 => "'partition'".to_owned(),
            _ => format!("[{low}, {high}]"),
        };
        let stage = format!(
            "[{{$densify: {{field: 't', partitionByFields: ['g'], \
             range: {{step: {step}, bounds: {bounds}}}}}}}]"
        );
        let found = densified(&fixture.aggregate(&stage).unwrap());
        let mut expected: Vec<_> =
            rows.iter().map(|row| (Some(row.group as i64), row.time, Some(row.id))).collect();
        let times = |rows: &[Row]| rows.iter().filter_map(|row| row.time).collect::<Vec<i64>>();
        let all = times(&rows);
        for group in 0..GROUPS {
            let of_group: Vec<Row> = rows.iter().filter(|r| r.group == group).copied().collect();
            let own = times(&of_group);
            let (Some(least), Some(largest)) = (own.iter().min(), own.iter().max()) else {
                continue;
            };
            let (from, to) = match round % 3 {
                0 => (*all.iter().min().unwrap(), *all.iter().max().unwrap() + 1),
                1 => (*least, *largest),
                _ => (low, high),
            };
            let mut at = from;
            while at < to {
                if !own.contains(&at) {
                    expected.push((Some(group as i64), Some(at), None));
                }
                at += step;
            }
        }
        expected.sort_unstable();
        assert_eq!(found, expected, "{stage}");
    }
}

#[test]
fn values_that_are_no_numbers_end_a_fill() {
    let fixture = Fixture::new();
    fixture.insert("{_id: 1, t: 1, v: 'x'}").unwrap();
    fixture.insert("{_id: 2, t: 2}").unwrap();
    let linear = "[{$fill: {sortBy: {t: 1}, output: {v: {method: 'linear'}}}}]";
    assert!(fixture.aggregate(linear).is_err());
    let carried = "[{$fill: {sortBy: {t: 1}, output: {v: {method: 'locf'}}}}]";
    let found = fixture.aggregate(carried).unwrap();
    assert_eq!(found[1].get("v"), Value::String("x"));
}

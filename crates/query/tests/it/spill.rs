//! Sorts and groups that exceed their memory give the same result as in memory.

use nagi_bson::DocBuf;

use crate::fixture::Fixture;

fn filled() -> Fixture {
    let fixture = Fixture::new();
    for n in 0..800 {
        let text = format!("{{_id: {n}, k: {}, g: {}, s: '{}'}}", (n * 7919) % 1000, n % 37, n);
        fixture.insert(&text).unwrap();
    }
    fixture
}

fn check(pipeline: &str) {
    let fixture = filled();
    let expected = fixture.aggregate(pipeline).unwrap();
    assert!(!expected.is_empty());
    let found = fixture.aggregate_in(pipeline, 20_000).unwrap();
    assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{pipeline}");
}

#[test]
fn a_sort_on_disk_yields_the_same_order() {
    check("[{$sort: {k: 1}}]");
    check("[{$sort: {g: -1, k: 1}}]");
    check("[{$project: {k: 1, g: 1}}, {$sort: {g: 1}}, {$skip: 5}, {$limit: 300}]");
}

#[test]
fn a_facet_reads_more_than_its_memory() {
    check(
        "[{$facet: {all: [{$count: 'n'}], few: [{$match: {g: 3}}, {$project: {s: 1}}], \
         by: [{$group: {_id: '$g', n: {$sum: 1}}}, {$sort: {_id: 1}}]}}]",
    );
}

#[test]
fn a_group_on_disk_yields_the_same_groups() {
    check(
        "[{$group: {_id: '$g', n: {$sum: 1}, avg: {$avg: '$k'}, first: {$first: '$_id'}, \
         all: {$push: '$s'}}}, {$sort: {_id: 1}}]",
    );
    check("[{$group: {_id: '$_id', m: {$max: '$k'}}}, {$sort: {_id: 1}}]");
}

#[test]
fn buckets_on_disk_are_the_same_buckets() {
    check(
        "[{$bucketAuto: {groupBy: '$k', buckets: 7, output: {n: {$sum: 1}, avg: {$avg: '$g'}, \
         none: {$push: '$none'}, all: {$push: '$_id'}}}}]",
    );
    check("[{$bucketAuto: {groupBy: {$add: ['$_id', 1]}, buckets: 9, granularity: 'R5'}}]");
}

/// A value of some type, the same for the same number; some values of different types are equal.
fn value(n: u64) -> String {
    let mixed = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    let small = mixed / 16 % 40;
    match mixed % 12 {
        0 | 1 => format!("{small}"),
        2 => format!("{{$numberLong: '{small}'}}"),
        3 => format!("{{$numberDouble: '{small}.0'}}"),
        4 => format!("{{$numberDecimal: '{small}.50'}}"),
        5 => format!("'text {}'", "x".repeat(small as usize)),
        6 => "null".to_owned(),
        7 => "{$numberDouble: 'NaN'}".to_owned(),
        8 => "{$numberDouble: '-0.0'}".to_owned(),
        9 => format!("[{}, 'a']", small % 5),
        10 => format!("{{a: {}, b: null}}", small % 5),
        _ => "{$numberLong: '9223372036854775807'}".to_owned(),
    }
}

/// Every memory limit gives the result of unlimited memory, whatever the types.
#[test]
fn groups_of_any_values_on_disk_are_those_in_memory() {
    let fixture = Fixture::new();
    for n in 0..1500u64 {
        // Some documents have no key, and some no value.
        let key = if n % 17 == 0 { String::new() } else { format!(", k: {}", value(n)) };
        let of = if n % 13 == 0 { String::new() } else { format!(", v: {}", value(n + 10_000)) };
        fixture.insert(&format!("{{_id: {n}, i: {}, d: {}.5{key}{of}}}", n % 7, n % 3)).unwrap();
    }
    for key in ["'$k'", "{a: '$k', b: '$i'}", "'$_id'", "{$mod: ['$_id', 3]}"] {
        let pipeline = format!(
            "[{{$group: {{_id: {key}, n: {{$count: {{}}}}, s: {{$sum: '$v'}}, i: {{$sum: '$i'}}, \
             d: {{$sum: '$d'}}, a: {{$avg: '$v'}}, lo: {{$min: '$v'}}, hi: {{$max: '$v'}}, \
             f: {{$first: '$v'}}, l: {{$last: '$v'}}, p: {{$push: '$v'}}, \
             two: {{$firstN: {{input: '$v', n: 2}}}}, sd: {{$max: '$d'}}}}}}]"
        );
        let sorted = |found: Vec<DocBuf>| {
            let mut texts: Vec<_> = found.iter().map(|doc| format!("{doc:?}")).collect();
            texts.sort();
            texts
        };
        let expected = sorted(fixture.aggregate(&pipeline).unwrap());
        for limit in [3_000, 20_000, 77_000, 300_000] {
            let found = sorted(fixture.aggregate_in(&pipeline, limit).unwrap());
            assert_eq!(found, expected, "{key} in {limit}");
        }
    }
}

/// There are enough runs for several merge passes: ties stay in the order of the input.
#[test]
fn a_sort_of_more_runs_than_are_merged_at_once_keeps_its_order() {
    let fixture = Fixture::new();
    for n in 0..3000u64 {
        let text = format!("{{_id: {n}, k: {}, s: '{}'}}", n * 7919 % 10, "x".repeat(50));
        fixture.insert(&text).unwrap();
    }
    for pipeline in [
        "[{$sort: {k: 1}}]",
        "[{$sort: {k: -1}}, {$project: {_id: 1}}]",
        "[{$group: {_id: '$_id', n: {$sum: '$k'}}}, {$sort: {n: 1, _id: 1}}]",
    ] {
        let expected = fixture.aggregate(pipeline).unwrap();
        // A few hundred bytes, so that a run has a handful of entries.
        for limit in [600, 2_000, 9_000] {
            let found = fixture.aggregate_in(pipeline, limit).unwrap();
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{pipeline} in {limit}");
        }
    }
}

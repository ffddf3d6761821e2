//! Sorts and groups that do not fit in memory give what they give in memory.

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

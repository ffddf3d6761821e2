//! The key that divides an index for two threads.

use nagi_bson::doc;
use nagi_store::{WriteOptions, WriteTxn};

use crate::support::Fixture;

const DOCS: u64 = 24_000;

/// The share of an index over these texts, in percent, that is before the key that divides it.
fn part_of(text: &dyn Fn(u64) -> String) -> Option<usize> {
    let f = Fixture::new();
    f.index("{key: {s: 1}, name: 's'}").unwrap();
    let collection = f.collection();
    let fill = &mut |txn: &mut WriteTxn<'_>| {
        (0..DOCS).try_for_each(|n| {
            let doc = doc! { "_id": (n as i64), "s": (text(n).as_str()) };
            txn.insert(&collection, doc.as_doc()).map(drop)
        })
    };
    f.store.write(WriteOptions::default(), fill).unwrap();
    let collection = f.collection();
    let index = collection.index("s").unwrap();
    let middle = f.store.middle_of_index(index, &[], &[]).unwrap()?;
    let snapshot = f.store.snapshot().unwrap();
    let mut cursor = snapshot.reader().index_cursor(index, true, &[], &middle).unwrap();
    let mut before = 0;
    while cursor.advance().unwrap() {
        before += 1;
    }
    Some(before * 100 / DOCS as usize)
}

#[test]
fn keys_are_divided_wherever_they_are_dense() {
    let even =
        part_of(&|n| format!("{:06} and forty more characters behind the number", n * 37 % DOCS));
    assert!(even.is_some_and(|part| (40..=60).contains(&part)), "{even:?}");
    // A long text that nearly all have in common, and a few far away.
    let common = "a text that is longer than the number that the search uses";
    let outliers = part_of(&|n| match n {
        0..5 => format!("{n}"),
        5..10 => format!("z{n}"),
        _ => format!("{common} {n:06}"),
    });
    assert!(outliers.is_some_and(|part| (40..=60).contains(&part)), "{outliers:?}");
    let words = part_of(&|n| {
        let word = ["like", "post", "view"][n as usize % 3];
        format!("{word} with forty more characters behind it, for length")
    });
    assert!(words.is_some_and(|part| (30..=70).contains(&part)), "{words:?}");
    // The entries of one value differ in their records.
    let one = part_of(&|_| format!("{common} again"));
    assert!(one.is_some_and(|part| (40..=60).contains(&part)), "{one:?}");
    assert_eq!(part_of(&|n| format!("{n}")), None, "too little");
}

//! The documents: twenty fields of all usual types, about 1 KB.

use nagi_bson::{DocBuf, json};

/// The number of documents. They have the same fields with different values, so that branches are not always taken in
/// the same way.
const COUNT: usize = 32;

const CITIES: [&str; 4] = ["London", "Paris", "Rome", "New York"];

pub(crate) fn set() -> Vec<DocBuf> {
    (0..COUNT).map(document).collect()
}

fn document(n: usize) -> DocBuf {
    let items: Vec<String> = (0..5)
        .map(|i| format!("{{sku: \"sku-{n}-{i}\", qty: {}, price: {}.5}}", (n + i) % 7, i * 3 + n))
        .collect();
    let note = "so that the record has the usual size of one kilobyte, ".repeat(4);
    let text = format!(
        "{{_id: ObjectId(\"5f2b3c4d5e6f7a8b9c0d{n:04x}\"), name: \"Ada Lovelace {n}\", \
         email: \"ada.{n}@example.org\", age: {age}, city: \"{city}\", active: {active}, \
         balance: {n}1.25, a: {a}, visits: NumberLong({visits}), \
         created: ISODate(\"2024-05-{day:02}T07:08:09.123Z\"), tags: [\"x\", \"red\", \"t{tag}\"], \
         address: {{street: \"St James Square {n}\", zip: \"SW1Y {n}\", geo: {{lat: 51.5, \
         lon: -0.13}}}}, items: [{items}], scores: [{s0}, 7, 12, 3, 44, {s1}], level: \"gold\", \
         flags: {n}, parent: null, note: \"{note}\", rank: {rank}.75, b: \"{b}\"}}",
        age = 18 + n,
        city = CITIES[n % CITIES.len()],
        active = n.is_multiple_of(2),
        a = n % 8,
        visits = n * 1000,
        day = 1 + n % 28,
        tag = n % 3,
        items = items.join(", "),
        s0 = n,
        s1 = 100 - n,
        rank = n % 5,
        b = if n % 4 == 3 { "n" } else { "y" },
    );
    json::parse(&text).expect("the document is readable")
}

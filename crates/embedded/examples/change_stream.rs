//! One thread writes, another one sees each change.
//!
//!   cargo run -p nagi --example change_stream
#![allow(clippy::print_stdout)] // an example

use std::time::Duration;

use nagi::{Database, Options, doc, to_json};

fn main() -> nagi::Result<()> {
    let db = Database::in_memory_with(Options::new().replica_set("rs0"))?;
    let stock = db.database("shop").collection("stock");
    let mut changes = stock.watch_with(
        [doc! { "$match": { "operationType": { "$in": ["insert", "update"] } } }],
        doc! { "fullDocument": "updateLookup" },
    )?;
    let writer = std::thread::spawn(move || -> nagi::Result<()> {
        stock.insert_one(doc! { "_id": "tea", "n": 10 })?;
        stock.update_one(doc! { "_id": "tea" }, doc! { "$inc": { "n": -1 } })?;
        stock.delete_one(doc! { "_id": "tea" })?;
        Ok(())
    });
    let mut seen = 0;
    for event in changes.events_within(Duration::from_secs(1)) {
        let event = event?;
        println!("{}", to_json(event.as_doc()));
        seen += 1;
    }
    if let Err(panic) = writer.join().map(|written| written.map_err(|error| error.to_string())) {
        std::panic::resume_unwind(panic);
    }
    assert_eq!(seen, 2);
    db.close()
}

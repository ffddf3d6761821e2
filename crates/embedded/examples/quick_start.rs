//! Opens a folder, writes, reads, aggregates, closes.
//!
//!   cargo run -p nagi --example quick_start -- FOLDER
#![allow(clippy::print_stdout)] // an example

use nagi::{Database, Options, doc, from_json, to_json};

fn main() -> nagi::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "quick-start.nagi".to_owned());
    let db = Database::open(folder, Options::new().cache_mb(64))?;
    let orders = db.database("shop").collection("orders");
    orders.drop()?;
    orders.create_index(doc! { "item": 1, "n": -1 })?;

    orders.insert_many([
        doc! { "item": "tea", "n": 2, "price": 4.5 },
        doc! { "item": "coffee", "n": 1, "price": 9.0 },
        from_json(r#"{"item": "tea", "n": 5, "price": {"$numberDecimal": "3.99"}}"#)?,
    ])?;
    orders.update_many(doc! { "item": "tea" }, doc! { "$set": { "hot": true } })?;

    for order in orders.find_with(doc! { "item": "tea" }, doc! { "sort": { "n": 1 } })? {
        println!("{}", to_json(order?.as_doc()));
    }
    let totals = orders.aggregate([
        doc! { "$group": { "_id": "$item", "pieces": { "$sum": "$n" } } },
        doc! { "$sort": { "pieces": -1 } },
    ])?;
    for total in totals {
        println!("{}", to_json(total?.as_doc()));
    }
    println!("{} orders", orders.count(doc! {})?);
    db.close()
}

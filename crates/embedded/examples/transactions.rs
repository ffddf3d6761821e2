//! Moves money between accounts from four threads: the sum stays the same.
//!
//!   cargo run -p nagi --example transactions
#![allow(clippy::print_stdout)] // an example

use nagi::{Database, Options, Value, doc};

fn main() -> nagi::Result<()> {
    let db = Database::in_memory_with(Options::new().replica_set("rs0"))?;
    let accounts = db.database("bank").collection("accounts");
    accounts.insert_many((0..10).map(|id| doc! { "_id": id, "amount": 100 }))?;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                let db = &db;
                scope.spawn(move || -> nagi::Result<()> {
                    let mut session = db.start_session();
                    for round in 0..25 {
                        let (from, to) = ((worker + round) % 10, (worker * 3 + round + 1) % 10);
                        session.with_transaction(|transaction| {
                            let accounts = transaction.database("bank").collection("accounts");
                            accounts.update_one(
                                doc! { "_id": from },
                                doc! { "$inc": { "amount": -1 } },
                            )?;
                            accounts
                                .update_one(doc! { "_id": to }, doc! { "$inc": { "amount": 1 } })?;
                            Ok(())
                        })?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    let sum = [doc! { "$group": { "_id": null, "sum": { "$sum": "$amount" } } }];
    for row in accounts.aggregate(sum)? {
        let row = row?;
        println!("sum: {}", row.get("sum"));
        assert_eq!(row.get("sum"), Value::Int32(1000));
    }
    db.close()
}

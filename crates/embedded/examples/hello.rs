//! The smallest program, to measure the size of its binary and the time to open a folder.
//!
//!   cargo run --release -p nagi --example hello -- FOLDER
#![allow(clippy::print_stdout)] // a measurement tool

use std::time::Instant;

use nagi::{Database, Options, doc};

fn main() -> nagi::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "hello.nagi".to_owned());
    let begin = Instant::now();
    let db = Database::open(folder, Options::new())?;
    let opened = begin.elapsed();
    let greetings = db.database("test").collection("greetings");
    greetings.insert_one(doc! { "text": "hello" })?;
    let done = begin.elapsed();
    println!("{} documents", greetings.count(doc! {})?);
    let begin = Instant::now();
    db.close()?;
    println!("open {opened:?}, first write after {done:?}, close {:?}", begin.elapsed());
    Ok(())
}

//! Structs as documents, with serde and the crate `bson`.
//!
//!   cargo run -p nagi --features bson --example typed
#![allow(clippy::print_stdout)] // an example

use bson::{doc, oid::ObjectId};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Person {
    #[serde(rename = "_id")]
    id: ObjectId,
    name: String,
    tags: Vec<String>,
    born: Option<bson::DateTime>,
}

fn main() -> nagi::Result<()> {
    let db = nagi::Database::in_memory()?;
    let people = db.database("app").collection("people").typed::<Person>();
    let ada = Person {
        id: ObjectId::new(),
        name: "Ada".to_owned(),
        tags: vec!["mathematics".to_owned(), "engines".to_owned()],
        born: Some(bson::DateTime::from_millis(-4_857_494_400_000)),
    };
    people.insert_one(&ada)?;
    people.raw().create_index(nagi::doc! { "tags": 1 })?;
    let found: Vec<Person> = people.find(doc! { "tags": "engines" })?.collect::<Result<_, _>>()?;
    assert_eq!(found, [ada]);
    println!("{found:?}");
    let reply: bson::Document = nagi::from_doc(db.run_command("admin", doc! { "ping": 1 })?)?;
    println!("{reply}");
    db.close()
}

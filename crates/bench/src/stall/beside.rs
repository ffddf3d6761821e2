//! Work of another client, beside which the stalls are measured (`--beside`).
use crate::args::{Args, Outcome};
use crate::breadth::data::{DATABASE, load};
use crate::client::Connection;
use nagi_bson::{DocBuf, doc};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const COLLECTION: &str = "beside";
const SILENCE_MAX: Duration = Duration::from_secs(1800);

/// A kind of work over many documents.
#[derive(Clone, Copy)]
pub(super) struct Beside {
    name: &'static str,
    documents: u64,
    turn: fn(&mut Connection, u64) -> Outcome,
}

type Turn = fn(&mut Connection, u64) -> Outcome;

static KINDS: &[(&str, Turn)] =
    &[("updateMany", update_many), ("deleteMany", delete_many), ("index", index), ("dump", dump)];

impl Beside {
    /// The work that the options name; none without `--beside`.
    pub(super) fn parse(args: &Args) -> Outcome<Option<Beside>> {
        let documents = args.number_in("beside-documents", 1_000_000, 1..=1_000_000_000)?;
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.0).collect();
        let chosen = args.word("beside", "", &names)?;
        let kind = KINDS.iter().find(|kind| kind.0 == chosen);
        Ok(kind.map(|(name, turn)| Beside { name, documents, turn: *turn }))
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn fill(&self, target: &str) -> Outcome {
        let mut connection = Connection::open(target)?;
        connection.be_patient(SILENCE_MAX)?;
        // An earlier run on the same data may have left it.
        connection.expect(doc! { "dropDatabase": 1, "$db": DATABASE }.as_doc())?;
        load(&mut connection, self.name, COLLECTION, self.documents)
    }

    /// Works until `done`, at least once. Returns how often the whole collection was processed.
    pub(super) fn work(&self, target: &str, done: &AtomicBool) -> Outcome<u64> {
        let mut connection = Connection::open(target)?;
        connection.be_patient(SILENCE_MAX)?;
        let mut turns = 0;
        while turns == 0 || !done.load(Ordering::Relaxed) {
            (self.turn)(&mut connection, self.documents)?;
            turns += 1;
        }
        Ok(turns)
    }
}

fn update_many(connection: &mut Connection, _: u64) -> Outcome {
    let change = doc! { "$inc": { "count": 1 } };
    let statement = doc! { "q": {}, "u": (change.as_doc()), "multi": true };
    run(
        connection,
        doc! { "update": COLLECTION, "updates": [(statement.as_doc())], "$db": DATABASE },
    )
}

/// Deletes everything; it is inserted again before the next turn.
fn delete_many(connection: &mut Connection, documents: u64) -> Outcome {
    let statement = doc! { "q": {}, "limit": 0 };
    let delete = doc! { "delete": COLLECTION, "deletes": [(statement.as_doc())], "$db": DATABASE };
    run(connection, delete)?;
    load(connection, "again", COLLECTION, documents)
}

fn index(connection: &mut Connection, _: u64) -> Outcome {
    let spec = doc! { "key": { "name": 1, "random": 1 }, "name": "built" };
    let build = doc! { "createIndexes": COLLECTION, "indexes": [(spec.as_doc())], "$db": DATABASE };
    run(connection, build)?;
    run(connection, doc! { "dropIndexes": COLLECTION, "index": "built", "$db": DATABASE })
}

fn dump(connection: &mut Connection, _: u64) -> Outcome {
    let find = doc! { "find": COLLECTION, "$db": DATABASE };
    connection.each(find.as_doc(), COLLECTION, |_| Ok(())).map(drop)
}

fn run(connection: &mut Connection, command: DocBuf) -> Outcome {
    connection.expect(command.as_doc()).map(drop)
}

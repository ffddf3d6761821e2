//! `godinsert`: inserts a document without the checks of an insert. For tests.

use nagi_store::WriteOptions;

use crate::commands::common::{namespace, refuse_view};
use crate::core::command::prelude::*;

pub(in crate::commands) static GODINSERT: Command = Command {
    facts: Facts {
        name: "godinsert",
        help: "Inserts a document (for tests).",
        write: true,
        test_only: true,
        on_collection: true,
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::Insert]),
    run,
    ..Command::ROW
};

args! { "godinsert" => Args {
    collection: Name<'a> = "godinsert",
    obj:        Doc<'a>  = "obj",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    refuse_view(cx, &ns)?;
    let _writing = cx.begin_write(req.db)?;
    let check = || cx.check();
    let options = WriteOptions {
        interrupt: Some(&check),
        bypass_validation: true,
        ..WriteOptions::default()
    };
    let collection = cx.store().collection_or_create(&ns)?;
    cx.write(options, &mut |txn| txn.insert(&collection, args.obj).map(drop))
}

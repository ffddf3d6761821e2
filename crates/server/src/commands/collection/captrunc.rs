//! `captrunc`: removes the newest documents of a capped collection. For tests.

use nagi_store::RecordId;

use super::emptycapped::capped;
use crate::core::command::prelude::*;

pub(in crate::commands) static CAPTRUNC: Command = Command {
    facts: Facts {
        name: "captrunc",
        help: "Removes the newest documents of a capped collection (for tests).",
        write: true,
        test_only: true,
        on_collection: true,
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::Remove]),
    run,
    ..Command::ROW
};

args! { "captrunc" => Args {
    collection: Name<'a>     = "captrunc",
    n:          Truncated          = "n",
    inc:        Option<bool> = "inc",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let collection = capped(cx, req.db, args.collection.0, "captrunc")?;
    let Ok(count) = usize::try_from(args.n.0) else {
        bail!(Code::BAD_VALUE, "'n' must not be negative");
    };
    let snapshot = cx.store().snapshot()?;
    let mut scan = snapshot.reader().scan(&collection, false)?;
    let (mut last, mut kept) = (None, None);
    for _ in 0..=count {
        cx.check()?;
        if !scan.advance()? {
            bail!(
                Code::ILLEGAL_OPERATION,
                "invalid n, the collection has not more than {count} documents"
            );
        }
        last = Some(scan.id().to_id());
    }
    if args.inc == Some(true) {
        // With `inc` the document is removed as well, so the last one that is kept lies before it.
        kept = scan.advance()?.then(|| scan.id().to_id());
    } else {
        kept = last.or(kept);
    }
    drop(scan);
    let _writing = cx.begin_write(req.db)?;
    cx.store().truncate_capped_after(&collection, kept.as_ref().map(RecordId::key), &|| cx.check())
}

//! `convertToCapped`: makes a collection capped where it stands.

use crate::command::prelude::*;
use crate::commands::common::namespace;

pub(in crate::commands) static CONVERT_TO_CAPPED: Command = Command {
    name: "convertToCapped",
    help: "Makes a collection capped; drops its indexes other than _id.",
    write: true,
    on_collection: true,
    run,
    ..Command::ROW
};

args! { "convertToCapped" => Args {
    collection: Name<'a>     = "convertToCapped",
    size:       i64          = "size",
    temp:       Option<bool> = "temp",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    refuse_temp(args.temp)?;
    let options = capped_options(args.size)?;
    cx.server.fsync.wait(&|| cx.check())?;
    cx.store().convert_to_capped(&ns, options.as_doc(), &|| cx.check())
}

/// The options of a capped collection of this size (72).
pub(super) fn capped_options(size: i64) -> Result<DocBuf> {
    if size <= 0 {
        bail!(Code::INVALID_OPTIONS, "Capped collection size must be greater than zero");
    }
    Ok(DocBuf::build(|w| {
        w.put("capped", true);
        w.put("size", size);
    }))
}

/// `temp` marks collections of the server's own work, which disappear at a start.
pub(super) fn refuse_temp(temp: Option<bool>) -> Result<()> {
    if temp == Some(true) {
        bail!(
            Code::INVALID_OPTIONS,
            "Temporary collections are the server's own: 'temp' cannot be set"
        );
    }
    Ok(())
}

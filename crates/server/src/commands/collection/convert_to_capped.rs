//! `convertToCapped`: replaces a collection by a capped copy.

use crate::commands::common::namespace;
use crate::core::command::prelude::*;

pub(in crate::commands) static CONVERT_TO_CAPPED: Command = Command {
    facts: Facts {
        name: "convertToCapped",
        help: "Makes a collection capped; drops its indexes other than _id.",
        write: true,
        on_collection: true,
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::ConvertToCapped]),
    run,
    ..Command::ROW
};

args! { "convertToCapped" => Args {
    collection: Name<'a>     = "convertToCapped",
    size:       Truncated          = "size",
    temp:       Option<bool> = "temp",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    if ns.is_system() && !ns.is_buckets() {
        bail!(Code::INVALID_NAMESPACE, "cannot write to '{ns}'");
    }
    let options = capped_options(args.size.0, args.temp)?;
    let _writing = cx.begin_write(req.db)?;
    cx.store().convert_to_capped(&ns, options.as_doc(), &|| cx.check())
}

/// The options of a capped collection of `size` bytes (72 if the size is not positive).
pub(in crate::commands) fn capped_options(size: i64, temp: Option<bool>) -> Result<DocBuf> {
    if size <= 0 {
        bail!(Code::INVALID_OPTIONS, "Capped collection size must be greater than zero");
    }
    Ok(DocBuf::build(|w| {
        w.put("capped", true);
        w.put("size", size);
        if temp == Some(true) {
            w.put("temp", true);
        }
    }))
}

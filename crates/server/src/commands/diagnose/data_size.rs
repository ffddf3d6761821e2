//! `dataSize`: bytes and documents of a collection, or of a range of a key.

use nagi_store::Namespace;

use crate::clock;
use crate::command::prelude::*;

pub(in crate::commands) static DATA_SIZE: Command = Command {
    name: "dataSize",
    aliases: &["datasize"],
    help: "Bytes and number of documents of a collection.",
    run,
    ..Command::ROW
};

args! { "dataSize" => Args {
    namespace:   Option<&'a str>  = "dataSize",
    old_name:    Option<&'a str>  = "datasize",
    key_pattern: Option<Doc<'a>>  = "keyPattern",
    min:         Option<Doc<'a>>  = "min",
    max:         Option<Doc<'a>>  = "max",
    estimate:    Option<bool>     = "estimate",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    if args.min.is_some() || args.max.is_some() {
        bail!(Code::NOT_IMPLEMENTED, "dataSize of a range is not implemented yet");
    }
    let ns = Namespace::parse(args.namespace.or(args.old_name).unwrap_or(""))?;
    let collection = cx.store().collection(&ns);
    let (bytes, count) = collection.map_or((0, 0), |c| (c.data_bytes(), c.count()));
    out.put("size", bytes);
    out.put("numObjects", count);
    out.put("millis", (clock::micros_since(cx.started) / 1000) as i32);
    out.put("estimate", false);
    Ok(())
}

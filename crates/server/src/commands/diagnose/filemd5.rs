//! `filemd5`: the checksum of a file that GridFS keeps in chunks.

use md5::{Digest, Md5};
use nagi_bson::text::Hex;
use nagi_query::{FindRequest, Take};
use nagi_store::Namespace;

use crate::command::prelude::*;

pub(in crate::commands) static FILEMD5: Command = Command {
    name: "filemd5",
    help: "The MD5 checksum of a file in GridFS.",
    access: Access::By(access),
    run,
    ..Command::ROW
};

args! { "filemd5" => Args {
    id:         Value<'a>        = "filemd5",
    root:       Option<&'a str>  = "root",
    partial_ok: Option<bool>     = "partialOk",
    state:      Value<'a>        = "md5state",
}}

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let root = Args::parse(req)?.root.unwrap_or("fs");
    Ok(asking.on_collection(req.db, &format!("{root}.chunks"), Action::Find))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    cx.end_with_client();
    if !args.state.is_nullish() {
        bail!(Code::COMMAND_NOT_SUPPORTED, "filemd5 cannot go on from an earlier state");
    }
    let ns = Namespace::new(req.db, &format!("{}.chunks", args.root.unwrap_or("fs")))?;
    let filter = DocBuf::build(|w| w.put("files_id", args.id));
    let sort = nagi_bson::doc! { "files_id": 1, "n": 1 };
    let request = FindRequest {
        filter: filter.as_doc(),
        sort: sort.as_doc(),
        memory_bytes_max: cx.server.stage_memory(),
        ..FindRequest::new(&ns)
    };
    let partial = args.partial_ok == Some(true);
    let watch = cx.watch();
    let mut found = nagi_query::find(cx.store(), &request, &cx.env(&watch))?;
    let (mut hash, mut count) = (Md5::new(), 0_i64);
    found.batch(&watch, &mut |chunk| {
        let n = crate::args::truncate(chunk.get("n"));
        if n != Some(count) {
            if partial {
                return Ok(Take::Last);
            }
            bail!(Code::Location(10040), "chunks out of order");
        }
        let Value::Binary(data) = chunk.get("data") else {
            bail!(
                Code::Location(50849),
                "The element that calls binDataClean() must be type of \
                  BinData, but type of {} found.",
                chunk.get("data").kind().name()
            );
        };
        hash.update(data.bytes);
        count += 1;
        Ok(Take::More)
    })?;
    out.put("numChunks", count as i32);
    out.put("md5", Hex(&hash.finalize()).to_string().as_str());
    Ok(())
}

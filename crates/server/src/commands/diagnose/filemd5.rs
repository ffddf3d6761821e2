//! `filemd5`: the MD5 checksum of a GridFS file.

use md5::{Digest, Md5};
use nagi_bson::text::Hex;
use nagi_query::{FindRequest, Take};
use nagi_store::Namespace;

use crate::core::command::prelude::*;

pub(in crate::commands) static FILEMD5: Command = Command {
    facts: Facts { name: "filemd5", help: "The MD5 checksum of a file in GridFS.", ..Facts::ROW },
    access: Access::By(access),
    run,
    ..Command::ROW
};

args! { "filemd5" => Args {
    id:         Value<'a>        = "filemd5",
    root:       Value<'a>        = "root",
    partial_ok: Truthy           = "partialOk",
    state:      Value<'a>        = "md5state",
    start_at:   Value<'a>        = "startAt",
}}

/// The size of a state: two counts, four words of the checksum, and the incomplete block.
const STATE_BYTES: usize = 88;

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let chunks = Args::parse(req)?.chunks()?;
    Ok(asking.on_collection(req.db, &chunks, Action::Find))
}

impl Args<'_> {
    /// The name of the collection of chunks.
    fn chunks(&self) -> Result<String> {
        match self.root {
            Value::Missing | Value::String("") => Ok("fs.chunks".to_owned()),
            Value::String(root) => Ok(format!("{root}.chunks")),
            _ => bail!(Code::INVALID_NAMESPACE, "'root' must be of type String"),
        }
    }

    /// Refuses `md5state`, because a checksum cannot be continued from an earlier state. The errors for
    /// malformed states are MongoDB's.
    fn check_state(&self) -> Result<()> {
        match self.state {
            Value::Missing => Ok(()),
            Value::Binary(state) if state.bytes.len() != STATE_BYTES => {
                bail!(Code::Location(16247), "md5 state not correct size")
            }
            Value::Binary(_) => {
                bail!(Code::COMMAND_NOT_SUPPORTED, "filemd5 cannot continue from an earlier state")
            }
            other => Err(not_binary(50847, other)),
        }
    }
}

fn not_binary(code: i32, value: Value<'_>) -> nagi_error::Error {
    nagi_error::err!(
        Code::Location(code),
        "The element that calls binDataClean() must be type of BinData, but type of {} found.",
        value.kind().name()
    )
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    cx.end_with_client();
    args.check_state()?;
    let ns = Namespace::new(req.db, &args.chunks()?)?;
    let filter = DocBuf::build(|w| w.put("files_id", args.id));
    let sort = nagi_bson::doc! { "files_id": 1, "n": 1 };
    let request = FindRequest {
        filter: filter.as_doc(),
        sort: sort.as_doc(),
        options: cx.server.query_options(None),
        ..FindRequest::new(&ns)
    };
    let partial = args.partial_ok.0;
    let watch = cx.watch();
    let mut found =
        nagi_query::find(cx.store(), &request, &cx.env(&watch).with_scans_refused(true))?;
    let (mut hash, mut count) = (Md5::new(), 0_i64);
    found.batch(&watch, &mut |chunk| {
        let n = crate::number::truncate(chunk.get("n"));
        if n != Some(count) {
            if partial {
                return Ok(Take::Last);
            }
            bail!(Code::Location(10040), "chunks out of order");
        }
        let data = match chunk.get("data") {
            Value::Binary(data) => data,
            // The error text, with its misspelling, is MongoDB's.
            Value::Missing => bail!(
                Code::Location(50848),
                "The element that calls binDataClean() must be type of BinData, but type of misisng \
                 found. Field name is required"
            ),
            other => return Err(not_binary(50849, other)),
        };
        hash.update(data.bytes);
        count += 1;
        Ok(Take::More)
    })?;
    out.put("numChunks", count as i32);
    out.put("md5", Hex(&hash.finalize()).to_string().as_str());
    Ok(())
}

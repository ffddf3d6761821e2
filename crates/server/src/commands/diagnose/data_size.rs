//! `dataSize`: bytes and documents of a collection, or of a range of a key.

use nagi_query::{FindRequest, Hint, Take};
use nagi_store::Namespace;

use crate::clock;
use crate::command::prelude::*;

pub(in crate::commands) static DATA_SIZE: Command = Command {
    name: "dataSize",
    aliases: &["datasize"],
    help: "Bytes and number of documents of a collection.",
    access: Access::By(access),
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

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    let ns = Namespace::parse(args.namespace.or(args.old_name).unwrap_or(""))?;
    Ok(asking.on_collection(ns.database(), ns.collection(), Action::Find))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    cx.end_with_client();
    let ns = Namespace::parse(args.namespace.or(args.old_name).unwrap_or(""))?;
    let collection = cx.store().collection(&ns);
    let whole = collection.as_ref().map_or((0, 0), |c| (c.data_bytes(), c.count()));
    let range = args.min.is_some() || args.max.is_some();
    let estimate = args.estimate == Some(true);
    let (bytes, count) = match collection {
        Some(_) if range => {
            let (bytes, count) = range_size(cx, &ns, &args)?;
            // An estimate takes every document for an average one.
            let average = if whole.1 > 0 { whole.0 / whole.1 } else { 0 };
            (if estimate { average * count } else { bytes }, count)
        }
        _ => whole,
    };
    out.put("size", bytes);
    out.put("numObjects", count);
    out.put("millis", (clock::micros_since(cx.started) / 1000) as i32);
    out.put("estimate", estimate);
    Ok(())
}

/// Bytes and number of the documents whose keys lie within `min` and `max`.
fn range_size(cx: &Context<'_>, ns: &Namespace, args: &Args<'_>) -> Result<(i64, i64)> {
    let (Some(min), Some(max)) = (args.min, args.max) else {
        bail!(Code::BAD_VALUE, "only one of min or max specified");
    };
    let pattern = match args.key_pattern {
        Some(pattern) => pattern.to_buf(),
        None => DocBuf::build(|w| min.iter().for_each(|e| w.put(e.name(), 1))),
    };
    let request =
        FindRequest { hint: Some(Hint::Key(pattern.as_doc())), min, max, ..FindRequest::new(ns) };
    let watch = cx.watch();
    let found = nagi_query::find(cx.store(), &request, &cx.env(&watch));
    let mut found = found.map_err(|error| match error.code() {
        Code::BAD_VALUE => {
            err!(Code::OPERATION_FAILED, "couldn't find valid index containing key pattern")
        }
        _ => error,
    })?;
    let (mut bytes, mut count) = (0, 0);
    found.batch(&watch, &mut |doc| {
        bytes += doc.len() as i64;
        count += 1;
        Ok(Take::More)
    })?;
    Ok((bytes, count))
}

//! `dataSize`: the bytes and documents of a collection, or of a range of keys.

use nagi_query::{FindRequest, Hint, Take};
use nagi_store::Namespace;

use crate::args::NonNegative;
use crate::clock;
use crate::core::command::prelude::*;

pub(in crate::commands) static DATA_SIZE: Command = Command {
    facts: Facts {
        name: "dataSize",
        aliases: &["datasize"],
        help: "Bytes and number of documents of a collection.",
        ..Facts::ROW
    },
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
    max_size:    Option<NonNegative> = "maxSize",
    max_objects: Option<NonNegative> = "maxObjects",
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
    // Of a time series, the buckets are what is stored.
    let ns = cx.store().buckets_of(&ns).map_or(ns, |buckets| buckets.namespace.clone());
    let collection = cx.store().collection(&ns);
    let counts = collection.as_ref().map(|collection| cx.store().counts(collection)).transpose()?;
    let whole = counts.map_or((0, 0), |(count, bytes)| (bytes, count));
    let range = args.min.is_some() || args.max.is_some();
    let estimate = args.estimate == Some(true);
    let bounded = args.max_size.is_some() || args.max_objects.is_some();
    let found = match collection {
        Some(_) if range || (bounded && !estimate) => {
            // An estimate counts each document with the average size.
            let average = estimate.then(|| if whole.1 > 0 { whole.0 / whole.1 } else { 0 });
            counted(cx, &ns, &args, average)?
        }
        _ => Counted { bytes: whole.0, count: whole.1, is_cut: false },
    };
    out.put("size", found.bytes);
    out.put("numObjects", found.count);
    if found.is_cut {
        out.put("maxReached", true);
    }
    out.put("millis", (clock::micros_since(cx.started) / 1000) as i32);
    out.put("estimate", estimate);
    Ok(())
}

/// The result of a count.
struct Counted {
    bytes: i64,
    count: i64,
    /// True if `maxSize` or `maxObjects` was exceeded.
    is_cut: bool,
}

/// Counts the documents with keys between `min` and `max`, or all documents, until a limit is exceeded. Each
/// document counts with `size` if that is given, else with its own size.
fn counted(
    cx: &Context<'_>,
    ns: &Namespace,
    args: &Args<'_>,
    size: Option<i64>,
) -> Result<Counted> {
    let pattern = match (args.min, args.max) {
        (None, None) => None,
        (Some(min), Some(_)) => Some(match args.key_pattern {
            Some(pattern) => pattern.to_buf(),
            None => DocBuf::build(|w| min.iter().for_each(|e| w.put(e.name(), 1))),
        }),
        _ => bail!(Code::BAD_VALUE, "only one of min or max specified"),
    };
    let request = match (&pattern, args.min, args.max) {
        (Some(pattern), Some(min), Some(max)) => FindRequest {
            hint: Some(Hint::Key(pattern.as_doc())),
            min,
            max,
            ..FindRequest::new(ns)
        },
        _ => FindRequest::new(ns),
    };
    let watch = cx.watch();
    let found = nagi_query::find(cx.store(), &request, &cx.env(&watch));
    let mut found = found.map_err(|error| match error.code() {
        Code::BAD_VALUE => {
            err!(Code::OPERATION_FAILED, "couldn't find valid index containing key pattern")
        }
        _ => error,
    })?;
    // Zero means no limit.
    let limit = |limit: Option<NonNegative>| limit.map_or(0, |limit| limit.0);
    let passed = |found: i64, limit: i64| limit > 0 && found > limit;
    let (bytes_max, count_max) = (limit(args.max_size), limit(args.max_objects));
    let mut counted = Counted { bytes: 0, count: 0, is_cut: false };
    found.batch(&watch, &mut |doc| {
        counted.bytes += size.unwrap_or(doc.len() as i64);
        counted.count += 1;
        counted.is_cut = passed(counted.bytes, bytes_max) || passed(counted.count, count_max);
        Ok(if counted.is_cut { Take::Last } else { Take::More })
    })?;
    Ok(counted)
}

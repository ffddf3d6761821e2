//! `createIndexes`: builds the indexes that do not exist yet.

use std::collections::BTreeSet;

use nagi_store::{BuildOptions, Collection, Namespace};

use crate::commands::common::{namespace, refuse_view};
use crate::core::command::prelude::*;
use crate::upkeep::pace::Pace;

pub(in crate::commands) static CREATE_INDEXES: Command = Command {
    facts: Facts {
        name: "createIndexes",
        help: "Creates indexes on a collection.",
        write: true,
        api_v1: true,
        on_collection: true,
        in_transaction: true,
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::CreateIndex]),
    run,
    ..Command::ROW
};

args! { "createIndexes" => Args {
    collection:     Name<'a>     = "createIndexes",
    indexes:        Docs<'a>     = "indexes",
    commit_quorum:  Value<'a>    = "commitQuorum",
    ignore_unknown: Option<bool> = "ignoreUnknownIndexOptions",
    internal:       Option<bool> = "isTimeseriesNamespace",
    background:     Value<'a>    = "background",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    let specs = args.indexes.iter().collect::<Result<Vec<_>>>()?;
    specs.iter().try_for_each(|spec| check_once(*spec))?;
    if specs.is_empty() {
        bail!(Code::BAD_VALUE, "Must specify at least one index to create");
    }
    let own = cx.store().collection(&ns).filter(|_| ns.is_buckets());
    let direct = own.is_some_and(|own| own.options.timeseries.is_some());
    if ns.is_system() && ns.collection() != "system.js" && !direct {
        bail!(Code::INVALID_NAMESPACE, "cannot write to '{ns}'");
    }
    let buckets = match direct {
        true => cx.store().collection(&ns),
        false => cx.store().buckets_of(&ns),
    };
    if buckets.is_none() {
        refuse_view(cx, &ns)?;
    }
    if !args.commit_quorum.is_nullish() {
        if !cx.server.is_replicated() {
            bail!(Code::BAD_VALUE, "Standalones can't specify commitQuorum");
        }
        super::set_index_commit_quorum::check_quorum(args.commit_quorum)?;
    }
    if args.internal == Some(true) {
        bail!(Code::NAMESPACE_NOT_FOUND, "no time-series buckets collection {ns}");
    }
    let of_buckets = match &buckets {
        Some(buckets) => converted(buckets, (&ns, direct), &specs)?,
        None => Vec::new(),
    };
    let (ns, specs) = match &buckets {
        Some(buckets) => {
            (buckets.namespace.clone(), of_buckets.iter().map(DocBuf::as_doc).collect())
        }
        None => (ns, specs),
    };
    let _writing = cx.begin_write(req.db)?;
    let pace = Pace::new(&cx.server.metrics);
    let check = || {
        pace.rest();
        cx.pause_write()?;
        cx.check()
    };
    let progress = |phase, done, total| cx.op.set_progress(phase, done, total);
    let most = || super::most_builds(cx.server);
    let options = BuildOptions {
        interrupt: Some(&check),
        progress: Some(&progress),
        memory_bytes: Some(super::build_memory(cx.server)),
        ignore_unknown: args.ignore_unknown == Some(true),
        most: Some(&most),
    };
    let created = cx.store().create_indexes(&ns, &specs, options)?;
    if created.after > created.before {
        cx.server.metrics.index_builds.increment();
    }
    out.put("numIndexesBefore", created.before as i32);
    out.put("numIndexesAfter", created.after as i32);
    if created.before == created.after && !created.created_collection {
        out.put("note", "all indexes already exist");
        return Ok(());
    }
    out.put("createdCollectionAutomatically", created.created_collection);
    if cx.server.is_replicated() {
        let given = Some(args.commit_quorum).filter(|quorum| !quorum.is_nullish());
        out.put("commitQuorum", given.unwrap_or(Value::String("votingMembers")));
    }
    Ok(())
}

/// The specifications for the buckets of a time series; `direct`: these are given.
fn converted(
    buckets: &Collection,
    (ns, direct): (&Namespace, bool),
    specs: &[Doc<'_>],
) -> Result<Vec<DocBuf>> {
    let Some(series) = &buckets.options.timeseries else { return Ok(Vec::new()) };
    let collation = buckets.options.collation;
    let one = |spec: &Doc<'_>| {
        check_ns(spec.get("ns"), ns)?;
        match direct {
            true => nagi_query::bucket_index(series, collation, *spec),
            false => nagi_query::series_index(series, collation, *spec),
        }
    };
    specs.iter().map(one).collect()
}

/// Refuses the name of another collection in a specification. That for the buckets has none.
fn check_ns(given: Value<'_>, ns: &Namespace) -> Result<()> {
    match given {
        Value::String(given) if !given.is_empty() && given != ns.as_str() => bail!(
            Code::BAD_VALUE,
            "The value of the field 'ns' ({given}) doesn't match the namespace '{ns}'"
        ),
        _ => Ok(()),
    }
}

/// Refuses a specification that contains a field twice, because it would be ambiguous.
pub(in crate::commands) fn check_once(spec: Doc<'_>) -> Result<()> {
    let mut seen = BTreeSet::new();
    match spec.iter().map(|element| element.name()).find(|name| !seen.insert(*name)) {
        None => Ok(()),
        Some(name) => bail!(
            Code::IDL_DUPLICATE_FIELD,
            "BSON field 'createIndexes.indexes.{name}' is a duplicate field"
        ),
    }
}

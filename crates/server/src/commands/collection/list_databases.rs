//! `listDatabases`: the databases with their sizes.

use nagi_lang::expr::ParseCx;
use nagi_lang::filter::Filter;

use crate::core::command::prelude::*;
use crate::observe::filtering;
use crate::router::SHARD;

pub(in crate::commands) static LIST_DATABASES: Command = Command {
    facts: Facts {
        name: "listDatabases",
        help: "Lists the databases.",
        admin_only: true,
        api_v1: true,
        ..Facts::ROW
    },
    access: Access::LoggedIn,
    run,
    ..Command::ROW
};

/// Databases that every server has, even before they contain data.
const SERVER_DATABASES: [&str; 3] = ["admin", "config", "local"];

args! { "listDatabases" => Args {
    one:        Value<'a>       = "listDatabases",
    filter:     Option<Doc<'a>> = "filter",
    name_only:  Option<bool>    = "nameOnly",
    authorized: Option<bool>    = "authorizedDatabases",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let name_only = args.name_only == Some(true);
    let filter = match args.filter {
        Some(filter) => Some(Filter::parse(filter, &mut ParseCx::new())?),
        None => None,
    };
    let asking = cx.asking();
    let all = match (args.authorized, asking.on_cluster(Action::ListDatabases)) {
        (Some(false), false) => return Err(crate::core::access::refusal(req)),
        (Some(true), _) => false,
        (_, allowed) => allowed,
    };
    let catalog = cx.store().catalog();
    let mut total_bytes = 0;
    out.array("databases", |list| -> Result<()> {
        let own = SERVER_DATABASES
            .iter()
            .copied()
            .filter(|name| !catalog.databases().any(|n| n == *name));
        let mut names: Vec<&str> = catalog.databases().chain(own).collect();
        names.sort_unstable();
        for name in names {
            if !all && !asking.any_in_database(name) {
                continue;
            }
            let bytes = if name_only { 0 } else { size_on_disk(cx, name)? };
            let doc = DocBuf::build(|w| {
                w.put("name", name);
                if !name_only {
                    w.put("sizeOnDisk", bytes);
                    let empty = catalog.database(name).next().is_none();
                    w.put("empty", empty && !SERVER_DATABASES.contains(&name));
                    if cx.server.router.is_some() {
                        w.doc("shards", |shards| shards.put(SHARD, bytes));
                    }
                }
            });
            if filtering::matches(filter.as_ref(), doc.as_doc())? {
                total_bytes += bytes;
                list.push_doc(doc.as_doc());
            }
        }
        Ok(())
    })?;
    if !name_only {
        out.put("totalSize", total_bytes);
        out.put("totalSizeMb", total_bytes / (1024 * 1024));
    }
    Ok(())
}

fn size_on_disk(cx: &Context<'_>, db: &str) -> Result<i64> {
    let catalog = cx.store().catalog();
    let collections: Vec<_> =
        catalog.database(db).filter(|one| !one.is_view()).map(|one| &**one).collect();
    let stats = cx.store().stats_of(&collections)?;
    Ok(stats.iter().map(|one| one.storage_bytes + one.indexes_bytes()).sum())
}

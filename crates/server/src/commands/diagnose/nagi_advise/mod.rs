//! `nagiAdvise`: advice on indexes, compression and the size of the caches, each with its evidence.
//!
//! ```text
//!   slow shapes since the start -- crate::advice --> ways to answer each -- tried on a sample (ways.rs) --> the best
//!       -- crate::advice --> merged indexes -- tried on a sample (trial.rs) --> createIndex, with the gain
//!   indexes of all collections -- crate::advice --> prefixes of others, unused ones --> dropIndex
//!   documents of all collections -- Store::shrunk on a sample --> compress
//!   a sample of the reads of the caches (kv::reuse) -- crate::advice --> cacheSize
//! ```
//!
//! The program `nagi advise` and the console's page Advice print the reply; the reasoning is only here. It changes
//! nothing: neither indexes nor plan caches.
//!
//! Who may: the caller needs the right to read the log (`getLog`), because shapes are what its lines of slow operations
//! tell. An index is measured only if the caller may also run the operation and read the collection; indexes and sizes
//! of a collection are reported only to those who may see its statistics, caches to those who may see `serverStatus`.

mod cache;
mod compress;
mod create;
mod drop;
mod trial;
mod ways;

use crate::clock;
use crate::core::command::prelude::*;

pub(in crate::commands) static NAGI_ADVISE: Command = Command {
    facts: Facts {
        name: "nagiAdvise",
        help: "Advice on indexes, compression and caches, with evidence.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::GetLog]),
    run,
    ..Command::ROW
};

args! { "nagiAdvise" => Args {
    one:            Value<'a>           = "nagiAdvise",
    measure:        Option<bool>        = "measure",
    database:       Option<&'a str>     = "database",
    unused_seconds: Option<NonNegative> = "unusedSeconds",
    least_bytes:    Option<NonNegative> = "minCompressBytes",
}}

/// An index without uses for this time is called unused.
const UNUSED_SECONDS: i64 = 86_400;
/// Smaller collections get no advice on compression.
const COMPRESS_BYTES_MIN: i64 = 64 << 20;

/// What is advised on.
struct Scope<'a> {
    /// Only on this database.
    database: Option<&'a str>,
    /// Indexes and compression are tried on samples.
    measures: bool,
    unused_ms: i64,
    compress_bytes_min: i64,
}

impl Scope<'_> {
    /// True for the collections of users, in the chosen databases.
    fn has(&self, db: &str, collection: &str) -> bool {
        self.database.is_none_or(|wanted| wanted == db)
            && !matches!(db, "admin" | "config" | "local")
            && !collection.starts_with("system.")
    }
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    cx.end_with_client();
    let number = |given: Option<NonNegative>, default: i64| given.map_or(default, |given| given.0);
    let scope = Scope {
        database: args.database,
        measures: args.measure.unwrap_or(true),
        unused_ms: number(args.unused_seconds, UNUSED_SECONDS).saturating_mul(1000),
        compress_bytes_min: number(args.least_bytes, COMPRESS_BYTES_MIN),
    };
    if let Some(database) = scope.database
        && !matches!(database, "admin" | "config" | "local")
        && !cx.store().catalog().iter().any(|found| found.namespace.database() == database)
    {
        bail!(Code::NAMESPACE_NOT_FOUND, "database {database} does not exist");
    }
    let uptime_seconds = clock::micros_since(cx.server.identity.started) / 1_000_000;
    out.put("uptimeSeconds", i64::try_from(uptime_seconds).unwrap_or(i64::MAX));
    out.put("slowms", cx.server.settings.profile.slow_ms());
    let found = create::find(cx, req, &scope)?;
    found.write_counts(out);
    let useless = drop::find(cx, &scope)?;
    let shrinkable = compress::find(cx, &scope)?;
    let caches = cache::find(cx, &scope);
    caches.write_known(out);
    out.array("advice", |list| {
        found.advice.iter().for_each(|advice| list.doc(|out| advice.write(out)));
        useless.iter().for_each(|advice| list.doc(|out| advice.write(out)));
        shrinkable.iter().for_each(|advice| list.doc(|out| advice.write(out)));
        caches.advice.iter().for_each(|advice| list.doc(|out| advice.write(out)));
    });
    out.array("notAdvised", |list| {
        found.not_advised.iter().for_each(|row| list.doc(|out| row.write(out)));
    });
    Ok(())
}

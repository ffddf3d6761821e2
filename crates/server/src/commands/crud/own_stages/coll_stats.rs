//! `$collStats` as the first stage on a collection: adds the figures that only the server has.

use nagi_query::CollStatsSpec;

use super::OwnStage;
use crate::commands::crud::aggregate::Args;
use crate::core::command::prelude::*;

pub(super) static COLL_STATS: OwnStage = OwnStage {
    name: "$collStats",
    applies: |_, args| matches!(args.collection, Value::String(_)),
    check_api,
    docs,
    ..OwnStage::ROW
};

fn check_api(spec: Value<'_>) -> Result<()> {
    let spec = spec.as_doc().unwrap_or(Doc::EMPTY);
    match spec.iter().all(|field| field.name() == "count") {
        true => Ok(()),
        false => bail!(
            Code::API_STRICT_ERROR,
            "only the 'count' field of $collStats is allowed with 'apiStrict: true' in API \
             Version 1"
        ),
    }
}

fn docs(
    cx: &Context<'_>,
    req: &Request<'_>,
    args: &Args<'_>,
    spec: Value<'_>,
) -> Result<Vec<DocBuf>> {
    coll_stats(cx, req, args, spec).map(|doc| vec![doc])
}

fn coll_stats(
    cx: &Context<'_>,
    req: &Request<'_>,
    args: &Args<'_>,
    spec: Value<'_>,
) -> Result<DocBuf> {
    let ns = args.namespace(req.db)?;
    let asked = CollStatsSpec::parse(spec)?;
    let mut bytes = Vec::new();
    let mut out = DocWriter::new(&mut bytes);
    out.put("ns", ns.as_str());
    if cx.server.router.is_some() {
        out.put("shard", crate::router::SHARD);
    }
    out.put("host", &cx.server.host_and_port());
    out.put("localTime", Value::DateTime(crate::clock::wall_ms()));
    if let Some(histograms) = asked.latency_histograms {
        let (db, collection) = (ns.database(), ns.collection());
        out.doc("latencyStats", |doc| cx.server.top.write_latency(db, collection, histograms, doc));
    }
    nagi_query::write_coll_stats(cx.store(), &ns, asked, &|| cx.check(), &mut out)?;
    if asked.exec {
        let scans = cx.server.top.collection_scans(ns.database(), ns.collection());
        out.doc("queryExecStats", |doc| {
            doc.doc("collectionScans", |doc| {
                doc.put("total", scans.0 as i64);
                doc.put("nonTailable", scans.1 as i64);
            });
        });
    }
    drop(out);
    Ok(Doc::trusted(&bytes).to_buf())
}

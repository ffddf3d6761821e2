//! `$collStats`: statistics of the collection, in one document.
//!
//! As the first stage of a request's own pipeline it is answered by the server, which has the latencies. This
//! implementation serves inner pipelines and explain.

use super::prelude::*;
use nagi_store::Namespace;

use crate::storage_stats::{CollStatsSpec, write_no_storage_stats, write_storage_stats};

pub(super) static COLL_STATS: StageSpec = StageSpec {
    name: "$collStats",
    place: Place::First,
    parse,
    facts: StageFacts { in_transaction: false, rejectable: false, ..StageFacts::ORDINARY },
    ..StageSpec::ROW
};

#[derive(Clone)]
struct CollStats {
    namespace: Namespace,
    host: Box<str>,
    asked: CollStatsSpec,
    text: DocBuf,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    Ok(Box::new(CollStats {
        namespace: cx.namespace.clone(),
        host: cx.host.into(),
        asked: CollStatsSpec::parse(spec)?,
        text: spec.as_doc().map(|doc| doc.to_buf()).unwrap_or_default(),
    }))
}

impl Stage for CollStats {
    fn begins_with(&self) -> Option<super::Use> {
        Some(super::Use::CollStats)
    }

    fn open(&self, _: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running { spec: self.clone(), out: Vec::new(), done: false })
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$collStats", &self.text);
    }

    fn step(&self) -> Step<'_> {
        Step::Begins
    }
}

struct Running {
    spec: CollStats,
    out: Vec<u8>,
    done: bool,
}

impl Running {
    fn write(&mut self, cx: &Cx<'_>) -> Result<()> {
        let CollStats { namespace, host, asked, .. } = &self.spec;
        if asked.latency_histograms.is_some() || asked.exec {
            bail!(
                Code::COMMAND_NOT_SUPPORTED,
                "$collStats in an inner pipeline has no latencyStats and no queryExecStats"
            );
        }
        let mut out = DocWriter::new(&mut self.out);
        out.put("ns", namespace.as_str());
        out.put("host", &**host);
        out.put("localTime", Value::DateTime(cx.env.now_ms()));
        write_coll_stats(cx.store, namespace, *asked, &|| cx.env.interrupt().check(), &mut out)
    }
}

/// Writes `storageStats` and `count`, if they are requested. `check` is called while documents are counted that no
/// counter has; that costs a scan.
pub fn write_coll_stats(
    store: &nagi_store::Store,
    namespace: &Namespace,
    asked: CollStatsSpec,
    check: &dyn Fn() -> Result<()>,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let collection = store.buckets_of(namespace).or_else(|| store.collection(namespace));
    if collection.as_ref().is_some_and(|c| c.is_view())
        && (asked.storage_scale.is_some() || asked.count)
    {
        bail!(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "Namespace {namespace} is a view, not a collection"
        );
    }
    if let Some(scale) = asked.storage_scale {
        out.doc("storageStats", |out| match &collection {
            Some(collection) => write_storage_stats(store, collection, scale, out),
            None => {
                write_no_storage_stats(scale, out);
                Ok(())
            }
        })?;
    }
    if asked.count {
        let Some(collection) = &collection else {
            bail!(
                Code::Location(40481),
                "Unable to retrieve count in $collStats stage: Collection [{namespace}] not found."
            );
        };
        let count = match collection.is_pre_images() {
            true => scanned(store, collection, check)?,
            false => store.counts(collection)?.0,
        };
        match i32::try_from(count) {
            Ok(count) => out.put("count", count),
            Err(_) => out.put("count", count),
        }
    }
    Ok(())
}

/// Counts documents by a scan.
fn scanned(
    store: &nagi_store::Store,
    collection: &nagi_store::Collection,
    check: &dyn Fn() -> Result<()>,
) -> Result<i64> {
    let snapshot = store.snapshot()?;
    let mut cursor = snapshot.reader().scan(collection, true)?;
    let mut count = 0;
    while cursor.advance()? {
        check()?;
        count += 1;
    }
    Ok(count)
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(false);
        }
        self.write(cx)?;
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }
}

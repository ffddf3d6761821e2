//! Which collections would take less space with zstd.

use nagi_query::SampleLimits;
use nagi_store::{Namespace, Shrunk};

use super::Scope;
use crate::clock;
use crate::core::command::prelude::*;

/// Documents that are compressed for each collection.
const LIMITS: SampleLimits = SampleLimits { documents: 2_000, bytes: 4 << 20, millis: 1_000 };
/// Limit of the collections that are tried, the largest first.
const COLLECTIONS_MAX: usize = 20;
/// The least saving, in percent of the present size.
const PERCENT_MIN: f64 = 15.0;

/// A collection that would be smaller.
pub(super) struct Advice {
    ns: Namespace,
    shrunk: Shrunk,
    storage_bytes: i64,
    sample: DocBuf,
}

/// Tries the large collections that the caller may read.
pub(super) fn find(cx: &Context<'_>, scope: &Scope<'_>) -> Result<Vec<Advice>> {
    if !scope.measures {
        return Ok(Vec::new());
    }
    let catalog = cx.store().catalog();
    let mut large = Vec::new();
    for collection in catalog.iter() {
        cx.check()?;
        let ns = &collection.namespace;
        let may = |action| cx.asking().on_collection(ns.database(), ns.collection(), action);
        if scope.has(ns.database(), ns.collection())
            && !collection.is_view()
            && collection.data_bytes() >= scope.compress_bytes_min
            && may(Action::Find)
            && may(Action::CollStats)
        {
            large.push(collection);
        }
    }
    large.sort_by_key(|collection| std::cmp::Reverse(collection.data_bytes()));
    large.truncate(COLLECTIONS_MAX);
    let watch = cx.watch();
    let env = cx.env(&watch).with_scans_refused(false);
    let started = cx.started;
    let clock_ms = || (clock::micros_since(started) / 1000) as i64;
    let mut found = Vec::new();
    for collection in large {
        cx.check()?;
        let with = (&env, &clock_ms as &dyn Fn() -> i64);
        let sampled = nagi_query::sample_documents(cx.store(), collection, LIMITS, with);
        let (docs, sample) = sampled?;
        let Some(shrunk) = cx.store().shrunk(collection, &docs) else { continue };
        if percent(&shrunk) >= PERCENT_MIN {
            let storage_bytes = cx.store().stats(collection)?.storage_bytes;
            let sample = DocBuf::build(|out| sample.write(out));
            found.push(Advice { ns: collection.namespace.clone(), shrunk, storage_bytes, sample });
        }
    }
    Ok(found)
}

/// The saving in percent of the present size.
fn percent(shrunk: &Shrunk) -> f64 {
    let saved = shrunk.present_bytes.saturating_sub(shrunk.zstd_bytes);
    saved as f64 * 100.0 / shrunk.present_bytes.max(1) as f64
}

impl Advice {
    pub(super) fn write(&self, out: &mut DocWriter<'_>) {
        let shrunk = &self.shrunk;
        let saved = percent(shrunk);
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        out.put("kind", "compress");
        out.put("ns", self.ns.as_str());
        out.put("compressor", "zstd");
        out.put("presentCompressor", shrunk.compressor);
        let text = format!(
            "its documents would take {saved:.0} % less space with zstd than with {}; copy them into a \
             collection that is created with block_compressor=zstd",
            shrunk.compressor
        );
        out.put("reason", text.as_str());
        out.put("savedPercent", (saved * 10.0).round() / 10.0);
        out.put("storageSizeBytes", self.storage_bytes);
        out.put("savedBytes", (self.storage_bytes as f64 * saved / 100.0) as i64);
        out.doc("measured", |out| {
            out.extend(self.sample.as_doc());
            out.put("uncompressedBytes", number(shrunk.bytes));
            out.put("presentBytes", number(shrunk.present_bytes));
            out.put("zstdBytes", number(shrunk.zstd_bytes));
        });
    }
}

//! `$planCacheStats`: one document for each entry of the collection's plan cache.

use std::sync::Arc;

use nagi_store::Namespace;

use super::prelude::*;
use crate::plan::{CacheEntry, PlanCache};

pub(super) static PLAN_CACHE_STATS: StageSpec = StageSpec {
    name: "$planCacheStats",
    place: Place::First,
    parse,
    facts: StageFacts::OF_SERVER,
    ..StageSpec::ROW
};

struct PlanCacheStats {
    namespace: Namespace,
    host: Box<str>,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let Value::Doc(options) = spec else {
        bail!(
            Code::FAILED_TO_PARSE,
            "$planCacheStats value must be an object. Found: {}",
            spec.kind().name()
        );
    };
    for option in options {
        if option.name() != "allHosts" {
            bail!(
                Code::FAILED_TO_PARSE,
                "$planCacheStats parameters object may contain only 'allHosts' field. Found: {}",
                option.name()
            );
        }
        let Value::Bool(all) = option.value() else {
            bail!(
                Code::FAILED_TO_PARSE,
                "allHosts must be a boolean. Found type: {}",
                option.value().kind().name()
            );
        };
        if all {
            bail!(
                Code::Location(4_503_200),
                "$planCacheStats stage supports allHosts parameter only for sharded clusters"
            );
        }
    }
    Ok(Box::new(PlanCacheStats { namespace: cx.namespace.clone(), host: cx.host.into() }))
}

impl Stage for PlanCacheStats {
    fn begins_with(&self) -> Option<super::Use> {
        Some(super::Use::PlanCache)
    }

    fn open(&self, _: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running {
            namespace: self.namespace.clone(),
            host: self.host.clone(),
            entries: None,
            out: Vec::new(),
        })
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$planCacheStats", Doc::EMPTY);
    }

    fn step(&self) -> Step<'_> {
        Step::Begins
    }
}

struct Running {
    namespace: Namespace,
    host: Box<str>,
    /// The remaining entries; none before the first `advance`.
    entries: Option<Vec<Arc<CacheEntry>>>,
    out: Vec<u8>,
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        cx.tick()?;
        if self.entries.is_none() {
            let Some(collection) = cx.store.collection(&self.namespace) else {
                bail!(Code::Location(50933), "collection '{}' does not exist", self.namespace);
            };
            let cache = collection.version_annotations.get::<PlanCache>();
            self.entries = Some(cache.map(PlanCache::entries).unwrap_or_default());
        }
        let Some(entry) = self.entries.as_mut().and_then(Vec::pop) else { return Ok(false) };
        self.out.clear();
        entry.write(&self.host, &mut DocWriter::new(&mut self.out));
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }
}

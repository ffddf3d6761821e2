//! `$indexStats`: one document for each index of the collection.

use super::{is_empty_object, prelude::*};
use nagi_store::{Index, Namespace};

pub(super) static INDEX_STATS: StageSpec = StageSpec {
    name: "$indexStats",
    place: Place::First,
    parse,
    facts: StageFacts { of_buckets: true, ..StageFacts::OF_SERVER },
    ..StageSpec::ROW
};

struct IndexStats {
    namespace: Namespace,
    host: Box<str>,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    if !is_empty_object(spec) {
        bail!(Code::Location(28803), "The $indexStats stage specification must be an empty object");
    }
    Ok(Box::new(IndexStats { namespace: cx.namespace.clone(), host: cx.host.into() }))
}

impl Stage for IndexStats {
    fn begins_with(&self) -> Option<super::Use> {
        Some(super::Use::IndexStats)
    }

    fn open(&self, _: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running {
            namespace: self.namespace.clone(),
            host: self.host.clone(),
            next: 0,
            out: Vec::new(),
        })
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$indexStats", Doc::EMPTY);
    }

    fn step(&self) -> Step<'_> {
        Step::Begins
    }
}

struct Running {
    namespace: Namespace,
    host: Box<str>,
    next: usize,
    out: Vec<u8>,
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        cx.tick()?;
        let buckets = cx.store.buckets_of(&self.namespace);
        let series = buckets.as_ref().and_then(|buckets| buckets.options.timeseries.clone());
        let collection = buckets.or_else(|| cx.store.collection(&self.namespace));
        let Some(collection) = collection else { return Ok(false) };
        // The specification that clients of a time series know; none for an index that they do not.
        let of_clients = |index: &Index| match &series {
            Some(_) if index.spec.is_id() => None,
            Some(series) => series.index_of_clients(index.spec.doc.as_doc()),
            None => Some(index.spec.doc.clone()),
        };
        let (index, spec) = loop {
            let Some(index) = collection.named_indexes().nth(self.next) else { return Ok(false) };
            self.next += 1;
            if let Some(spec) = of_clients(index) {
                break (index, spec);
            }
        };
        self.out.clear();
        let mut out = DocWriter::new(&mut self.out);
        out.put("name", index.name());
        match series.is_some() {
            true => out.put("key", spec.get("key")),
            false => out.put("key", index.spec.key_pattern.as_doc()),
        }
        out.put("host", &*self.host);
        let (count, since_ms) = index.uses();
        out.doc("accesses", |out| {
            out.put("ops", count as i64);
            out.put("since", Value::DateTime(since_ms));
        });
        out.put("spec", spec.as_doc());
        if !index.ready {
            out.put("building", true);
        }
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        &mut []
    }
}

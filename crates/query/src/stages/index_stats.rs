//! `$indexStats`: one document for each index of the collection.

use super::{is_empty_object, prelude::*};
use nagi_store::Namespace;

pub(super) static INDEX_STATS: StageSpec = StageSpec {
    name: "$indexStats",
    place: Place::First,
    parse,
    facts: StageFacts::OF_SERVER,
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
        let Some(collection) = cx.store.collection(&self.namespace) else { return Ok(false) };
        let Some(index) = collection.named_indexes().nth(self.next) else { return Ok(false) };
        self.next += 1;
        self.out.clear();
        let mut out = DocWriter::new(&mut self.out);
        out.put("name", index.name());
        out.put("key", index.spec.key_pattern.as_doc());
        out.put("host", &*self.host);
        let (count, since_ms) = index.uses();
        out.doc("accesses", |out| {
            out.put("ops", count as i64);
            out.put("since", Value::DateTime(since_ms));
        });
        out.put("spec", index.spec.doc.as_doc());
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

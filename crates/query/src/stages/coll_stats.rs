//! `$collStats`: figures of the collection, one document.

use super::prelude::*;
use nagi_store::Namespace;

pub(super) static COLL_STATS: StageSpec =
    StageSpec { name: "$collStats", place: Place::First, parse };

#[derive(Clone)]
struct CollStats {
    namespace: Namespace,
    host: Box<str>,
    /// The scale of `storageStats`, if it is asked for.
    storage: Option<i64>,
    count: bool,
    text: DocBuf,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let Value::Doc(doc) = spec else {
        bail!(
            Code::Location(40166),
            "$collStats must take a nested object but found: $collStats: {spec}"
        );
    };
    let mut out = CollStats {
        namespace: cx.namespace.clone(),
        host: cx.host.into(),
        storage: None,
        count: false,
        text: doc.to_buf(),
    };
    for element in doc {
        let name = element.name();
        if !matches!(name, "storageStats" | "count" | "latencyStats" | "queryExecStats") {
            bail!(Code::Location(40168), "unrecognized option to $collStats: {name}");
        }
        let Value::Doc(options) = element.value() else {
            bail!(
                Code::Location(40167),
                "{name} argument must be an object, but got {name}: {} of type {}",
                element.value(),
                element.kind().name()
            );
        };
        match name {
            "count" => out.count = true,
            "storageStats" => {
                let scale = match options.get("scale") {
                    Value::Missing => 1,
                    scale => super::numbers::whole(scale).unwrap_or(0),
                };
                if scale < 1 {
                    bail!(Code::Location(51024), "BSON field 'scale' value must be >= 1");
                }
                out.storage = Some(scale);
            }
            other => bail!(
                Code::COMMAND_NOT_SUPPORTED,
                "$collStats with '{other}' is not supported by this server"
            ),
        }
    }
    Ok(Box::new(out))
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
        let spec = &self.spec;
        let collection = cx.store.collection(&spec.namespace);
        if collection.as_ref().is_some_and(|c| c.is_view()) {
            bail!(
                Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                "Namespace {} is a view, not a collection",
                spec.namespace
            );
        }
        let Some(collection) = collection else {
            bail!(
                Code::Location(40481),
                "Unable to retrieve count in $collStats stage: Collection [{}] not found.",
                spec.namespace
            );
        };
        let stats = cx.store.stats(&collection)?;
        let mut out = DocWriter::new(&mut self.out);
        out.put("ns", spec.namespace.as_str());
        out.put("host", &*spec.host);
        out.put("localTime", Value::DateTime(cx.env.now_ms()));
        if let Some(scale) = spec.storage {
            let indexes: i64 = stats.index_bytes.iter().map(|(_, bytes)| bytes).sum();
            out.doc("storageStats", |out| {
                out.put("size", stats.data_bytes / scale);
                out.put("count", stats.count);
                if stats.count > 0 {
                    out.put("avgObjSize", stats.data_bytes / stats.count);
                }
                out.put("storageSize", stats.storage_bytes / scale);
                out.put("capped", collection.options.capped);
                out.doc("wiredTiger", |table| {
                    table.doc("metadata", |metadata| metadata.put("formatVersion", 1));
                    table.put("creationString", cx.store.creation_string(&collection).as_str());
                    table.put("type", "file");
                });
                out.put("nindexes", stats.index_bytes.len() as i32);
                out.put("totalIndexSize", indexes / scale);
                out.put("totalSize", (stats.storage_bytes + indexes) / scale);
                out.doc("indexSizes", |out| {
                    for (name, bytes) in &stats.index_bytes {
                        out.put(name, bytes / scale);
                    }
                });
                out.put("scaleFactor", scale);
            });
        }
        if spec.count {
            match i32::try_from(stats.count) {
                Ok(count) => out.put("count", count),
                Err(_) => out.put("count", stats.count),
            }
        }
        Ok(())
    }
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

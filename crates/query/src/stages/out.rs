//! `$out`: the documents replace the contents of a collection.
//!
//! They are written to a temporary collection with the target's options and indexes, which is then renamed over the
//! target. So readers see either the old collection or the complete new one.

use nagi_bson::ValueBuf;
use nagi_store::{BuildOptions, Collection, Namespace, Rename, Store, WriteOptions};

use super::prelude::*;

pub(super) static OUT: StageSpec = StageSpec {
    name: "$out",
    shape: How::Same,
    place: Place::Last,
    parse,
    facts: StageFacts {
        in_transaction: false,
        writes: true,
        in_view: false,
        ..StageFacts::ORDINARY
    },
};

/// Documents written in one transaction.
const BATCH_COUNT: usize = 500;
/// Approximate bytes written in one transaction: at a commit the engine holds several copies of them.
const BATCH_BYTES: usize = 1 << 20;

#[derive(Clone)]
struct Out {
    target: Namespace,
    bypass_validation: bool,
    text: ValueBuf,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let (database, collection) = match spec {
        Value::String(name) => (cx.namespace.database(), name),
        Value::Doc(doc) => {
            for element in doc {
                if !matches!(element.name(), "db" | "coll") {
                    bail!(
                        Code::IDL_UNKNOWN_FIELD,
                        "BSON field '$out.{}' is an unknown field.",
                        element.name()
                    );
                }
            }
            let (Value::String(db), Value::String(coll)) = (doc.get("db"), doc.get("coll")) else {
                bail!(
                    Code::Location(16994),
                    "If an object is passed to $out it must have exactly 2 fields: 'db' and 'coll'"
                );
            };
            (db, coll)
        }
        _ => bail!(
            Code::Location(16990),
            "$out only supports a string or object argument, but found {}",
            spec.kind().name()
        ),
    };
    let target = Namespace::new(database, collection)?;
    refuse_internal("$out to", &target, Code::Location(31321))?;
    if target.is_system() {
        bail!(Code::Location(17385), "Can't $out to special collection: {collection}");
    }
    let bypass_validation = cx.bypass_validation;
    Ok(Box::new(Out { target, bypass_validation, text: ValueBuf::new(spec) }))
}

/// Refuses the server's internal databases.
pub(super) fn refuse_internal(what: &str, target: &Namespace, code: Code) -> Result<()> {
    match target.database() {
        db @ ("admin" | "config" | "local") => {
            bail!(code, "Cannot {what} internal database: {db}")
        }
        _ => Ok(()),
    }
}

impl Stage for Out {
    fn touches(&self, out: &mut Vec<super::Touch>) {
        for usage in [super::Use::Insert, super::Use::Remove] {
            out.push(super::Touch { namespace: self.target.clone(), usage });
        }
    }

    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        let bypass_validation = self.bypass_validation;
        Box::new(Running { input, target: self.target.clone(), bypass_validation, done: false })
    }

    fn writes(&self) -> bool {
        true
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$out", self.text.value());
    }
}

struct Running {
    input: Box<dyn Source>,
    target: Namespace,
    bypass_validation: bool,
    done: bool,
}

/// Inserts documents in one transaction.
pub(super) fn insert_all(
    store: &Store,
    collection: &Collection,
    docs: &[DocBuf],
    bypass_validation: bool,
    cx: &Cx<'_>,
) -> Result<()> {
    let check = || cx.env.interrupt().check();
    let options =
        WriteOptions { interrupt: Some(&check), bypass_validation, ..WriteOptions::default() };
    store.write(options, &mut |txn| {
        docs.iter().try_for_each(|doc| txn.insert(collection, doc.as_doc()).map(|_| ()))
    })?;
    Ok(())
}

impl Running {
    /// Creates the temporary collection.
    fn prepare(&self, cx: &Cx<'_>) -> Result<Namespace> {
        let target = cx.store.collection(&self.target);
        if let Some(target) = &target {
            if target.is_view() {
                bail!(
                    Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                    "Namespace {} is a view, not a collection",
                    self.target
                );
            }
            if target.options.capped {
                bail!(
                    Code::Location(17152),
                    "namespace '{}' is capped so it can't be used for $out",
                    self.target
                );
            }
        }
        let id = cx.store.new_object_id();
        let mut name = String::from("tmp.agg_out.");
        id.iter().for_each(|byte| name.push_str(&format!("{byte:02x}")));
        let temporary = Namespace::new(self.target.database(), &name)?;
        let options = target.as_ref().map_or(Doc::EMPTY, |c| c.options.doc.as_doc());
        let options = DocBuf::build(|w| {
            w.extend(options);
            w.put("temp", true);
        });
        cx.store.create_collection(&temporary, options.as_doc())?;
        let specs: Vec<Doc<'_>> = target
            .iter()
            .flat_map(|c| c.indexes.iter())
            .filter(|index| !index.spec.is_id())
            .map(|index| index.spec.doc.as_doc())
            .collect();
        if !specs.is_empty() {
            cx.store.create_indexes(&temporary, &specs, BuildOptions::default())?;
        }
        Ok(temporary)
    }

    fn fill(&mut self, temporary: &Namespace, cx: &mut Cx<'_>) -> Result<()> {
        let collection = cx.store.collection_or_create(temporary)?;
        let mut docs: Vec<DocBuf> = Vec::new();
        let mut bytes = 0;
        while self.input.advance(cx)? {
            let doc = self.input.doc().to_buf();
            bytes += doc.as_bytes().len();
            docs.push(doc);
            if docs.len() >= BATCH_COUNT || bytes >= BATCH_BYTES {
                insert_all(cx.store, &collection, &docs, self.bypass_validation, cx)?;
                docs.clear();
                bytes = 0;
            }
        }
        insert_all(cx.store, &collection, &docs, self.bypass_validation, cx)?;
        cx.store.rename_collection(
            temporary,
            &self.target,
            Rename { drop_target: true, ..Rename::default() },
            &|| Ok(()),
        )
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(false);
        }
        let temporary = self.prepare(cx)?;
        if let Err(error) = self.fill(&temporary, cx) {
            // This error is more informative than one of the clean-up.
            let _ = cx.store.drop_collection(&temporary);
            return Err(error);
        }
        Ok(false)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::EMPTY
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }
}

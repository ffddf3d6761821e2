//! `dbHash`: a checksum of each collection of a database, to compare two servers.

use std::sync::Arc;

use md5::{Digest, Md5};
use nagi_bson::text::Hex;
use nagi_query::{FindRequest, Take};
use nagi_store::Collection;

use crate::clock;
use crate::core::command::prelude::*;

pub(in crate::commands) static DB_HASH: Command = Command {
    facts: Facts {
        name: "dbHash",
        aliases: &["dbhash"],
        help: "Checksums of the collections of a database.",
        ..Facts::ROW
    },
    access: Access::Database(&[Action::DbHash]),
    run,
    ..Command::ROW
};

args! { "dbHash" => Args {
    one:         Value<'a>         = "dbHash",
    old_name:    Value<'a>         = "dbhash",
    collections: Option<Array<'a>> = "collections",
    skip_temp:   Option<bool>      = "skipTempCollections",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    cx.end_with_client();
    let mut wanted = Vec::new();
    for name in args.collections.into_iter().flat_map(|names| names.iter()) {
        match name {
            Value::String(name) => wanted.push(name),
            _ => bail!(Code::BAD_VALUE, "collections entries have to be strings"),
        }
    }
    let skips_temp = args.skip_temp == Some(true);
    let catalog = cx.store().catalog();
    let chosen: Vec<&Arc<Collection>> = catalog
        .database(req.db)
        .filter(|c| !c.is_view() && c.namespace.collection() != "system.profile")
        .filter(|c| wanted.is_empty() || wanted.contains(&c.namespace.collection()))
        .filter(|c| !(skips_temp && c.options.is_temporary()))
        .collect();
    let mut hashes = Vec::new();
    let mut all = Md5::new();
    for collection in &chosen {
        let hash = hash(cx, collection)?;
        all.update(collection.namespace.collection().as_bytes());
        all.update(hash.as_bytes());
        hashes.push(hash);
    }
    out.put("host", &cx.server.host_and_port());
    out.doc("collections", |doc| {
        for (collection, hash) in chosen.iter().zip(&hashes) {
            doc.put(collection.namespace.collection(), hash.as_str());
        }
    });
    out.array("capped", |list| {
        let capped = chosen.iter().filter(|c| c.options.capped);
        capped.for_each(|c| list.push(c.namespace.collection()));
    });
    out.doc("uuids", |doc| {
        for collection in &chosen {
            let bytes = &collection.uuid.0;
            let uuid = Value::Binary(nagi_bson::Binary { subtype: 4, bytes });
            doc.put(collection.namespace.collection(), uuid);
        }
    });
    out.put("md5", Hex(&all.finalize()).to_string().as_str());
    out.put("timeMillis", (clock::micros_since(cx.started) / 1000) as i32);
    Ok(())
}

/// The checksum of all documents in the order of their `_id`; in natural order for a capped collection.
fn hash(cx: &Context<'_>, collection: &Collection) -> Result<String> {
    let by_id = nagi_bson::doc! { "_id": 1 };
    let natural = nagi_bson::doc! { "$natural": 1 };
    let sort = if collection.options.capped { natural.as_doc() } else { by_id.as_doc() };
    let request = FindRequest { sort, ..FindRequest::new(&collection.namespace) };
    let watch = cx.watch();
    let mut found = nagi_query::find(cx.store(), &request, &cx.env(&watch))?;
    let mut hash = Md5::new();
    found.batch(&watch, &mut |doc| {
        hash.update(doc.as_bytes());
        Ok(Take::More)
    })?;
    Ok(Hex(&hash.finalize()).to_string())
}

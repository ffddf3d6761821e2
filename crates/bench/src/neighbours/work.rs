//! The steps of a run: inserting documents, scanning all of them, and emptying the page cache in between.
use super::Plan;
use crate::args::{Outcome, Problem, failed};
use crate::client::{Connection, integer};
use crate::progress::Progress;
use crate::random::Random;
use nagi_bson::{DocBuf, Value, doc};
use std::fs;
use std::path::Path;

const DATABASE: &str = "nagi_neighbours";
const COLLECTION: &str = "big";
/// Documents per insert.
const BATCH: u64 = 10;
/// 64 characters: each carries six random bits, and no two stretches are alike.
const ALPHABET: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-";

pub(super) fn insert(connection: &mut Connection, plan: &Plan) -> Outcome {
    let mut random = Random::new(3);
    let mut progress = Progress::new("load", plan.documents);
    for start in (0..plan.documents).step_by(BATCH as usize) {
        let end = (start + BATCH).min(plan.documents);
        let body = DocBuf::build(|out| {
            out.put("insert", COLLECTION);
            out.array("documents", |list| {
                for id in start..end {
                    let text = text(plan, &mut random);
                    let one = doc! { "_id": (id as i64), "text": (text.as_str()) };
                    list.push(Value::Doc(one.as_doc()));
                }
            });
            out.put("$db", DATABASE);
        });
        connection.expect(body.as_doc())?;
        progress.at(end);
    }
    Ok(())
}

fn text(plan: &Plan, random: &mut Random) -> String {
    if !plan.random {
        let mut text = "0123456789".repeat(plan.characters / 10 + 1);
        text.truncate(plan.characters);
        return text;
    }
    let mut text = String::with_capacity(plan.characters + 8);
    while text.len() < plan.characters {
        let mut bits = random.next();
        for _ in 0..8 {
            text.push(ALPHABET[(bits & 63) as usize].into());
            bits >>= 6;
        }
    }
    text.truncate(plan.characters);
    text
}

/// Finds by a filter that matches no document, on a field without an index, so that every document is read.
pub(super) fn scan(connection: &mut Connection) -> Outcome {
    let find = doc! {
        "find": COLLECTION, "filter": { "other": "nothing" }, "$db": DATABASE
    };
    let mut reply = connection.expect(find.as_doc())?;
    loop {
        let Value::Doc(cursor) = reply.get("cursor") else {
            return Err(Problem::Failed("a reply without a cursor".to_owned()));
        };
        for batch in ["firstBatch", "nextBatch"] {
            if matches!(cursor.get(batch), Value::Array(docs) if docs.count() > 0) {
                return Err(Problem::Failed("the scan found something".to_owned()));
            }
        }
        let id = integer(cursor.get("id")).unwrap_or(0);
        if id == 0 {
            return Ok(());
        }
        let more = doc! { "getMore": (id), "collection": COLLECTION, "$db": DATABASE };
        reply = connection.expect(more.as_doc())?;
    }
}

/// Drops the folder's files from the page cache: pages left by the load are not part of the scan.
pub(super) fn forget(folder: &Path) -> Outcome {
    let doing = "dropping the data from the page cache";
    for entry in fs::read_dir(folder).map_err(failed(doing))? {
        let entry = entry.map_err(failed(doing))?;
        let kind = entry.file_type().map_err(failed(doing))?;
        if kind.is_dir() {
            forget(&entry.path())?;
        } else if kind.is_file() {
            let file = match fs::File::open(entry.path()) {
                Ok(file) => file,
                // A running server removes files.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => return Err(failed(doing)(e)),
            };
            // Only clean pages can be dropped.
            file.sync_all().map_err(failed(doing))?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
                .map_err(failed(doing))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_their_length() {
        for kind in ["digits", "random"] {
            let args = ["--text", kind, "--characters", "1003"];
            let plan = Plan::parse(&crate::table::args("neighbours", &args).unwrap()).unwrap();
            assert_eq!(text(&plan, &mut Random::new(1)).len(), 1003);
        }
    }
}

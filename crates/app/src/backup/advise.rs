//! `nagi advise`: prints the advice of a running server. The server has the reasons: see its command `nagiAdvise`.

use std::process::ExitCode;

use nagi_bson::{Doc, DocBuf, Value, json, number, text};

use super::flags::Flags;
use super::{ADVISE_FLAGS, finish, refuse};
use crate::remote::client::Client;
use crate::shown;

/// Runs `nagi advise ARGS...`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let flags = match Flags::parse(args, ADVISE_FLAGS) {
        Ok(flags) => flags,
        Err(text) => return refuse("advise", &text),
    };
    finish(advise(&flags))
}

fn advise(flags: &Flags) -> Result<String, String> {
    let mut client = Client::connect(&flags.address()?, flags.password_file.as_deref())?;
    let command = DocBuf::build(|out| {
        out.put("nagiAdvise", 1);
        out.put("measure", !flags.no_measure);
        if let Some(database) = &flags.database {
            out.put("database", database.as_str());
        }
        if let Some(hours) = flags.unused_hours {
            out.put("unusedSeconds", i64::try_from(hours.saturating_mul(3600)).unwrap_or(i64::MAX));
        }
        out.put("$db", "admin");
    });
    let reply = client.run(command.as_doc())?;
    if flags.json {
        return Ok(json::to_relaxed(without_envelope(reply.as_doc()).as_doc()));
    }
    Ok(report(reply.as_doc()).iter().map(|line| shown::of(line)).collect::<Vec<_>>().join("\n"))
}

/// The reply without the fields that every reply has.
fn without_envelope(reply: Doc<'_>) -> DocBuf {
    let is_own = |name: &str| !matches!(name, "ok" | "$clusterTime" | "operationTime");
    DocBuf::build(|out| {
        reply.iter().filter(|e| is_own(e.name())).for_each(|e| out.put_element(e));
    })
}

/// The reply as text.
fn report(reply: Doc<'_>) -> Vec<String> {
    let slow = reply.get("slowOperations").as_doc().unwrap_or(Doc::EMPTY);
    let mut lines = vec![format!(
        "{} slow operations of {} shapes in {:.1} hours (slower than {} ms).",
        whole(slow, "operations"),
        whole(slow, "shapes"),
        whole(reply, "uptimeSeconds") as f64 / 3600.0,
        whole(reply, "slowms"),
    )];
    lines.extend(docs(reply.get("caches")).into_iter().map(cache));
    let advice = docs(reply.get("advice"));
    if advice.is_empty() {
        lines.push("No advice.".to_owned());
    }
    for (at, advice) in advice.iter().enumerate() {
        lines.push(String::new());
        lines.extend(one(at + 1, *advice));
    }
    let others = docs(reply.get("notAdvised"));
    if !others.is_empty() {
        lines.push(String::new());
        lines.push("Slow operations without advice:".to_owned());
        for other in others {
            lines.push(format!("  {} on {}", of_shape(other), string(other, "ns")));
            lines.push(format!("    {}.", string(other, "reason")));
        }
    }
    lines
}

/// What is known of a cache.
fn cache(size: Doc<'_>) -> String {
    let name = match string(size, "cache").as_str() {
        "records" => "documents".to_owned(),
        other => other.to_owned(),
    };
    let rate = number::as_f64(size.get("hitRate")).unwrap_or(0.0);
    let goal = match whole(size, "bytesFor99Percent") {
        0 => "no size up to 8 times this one is expected to answer 99 %".to_owned(),
        enough => format!("99 % need {}", bytes(enough)),
    };
    format!(
        "The cache of {name} ({}) answers about {:.1} % of its reads; {goal} (from {} sampled reads).",
        bytes(whole(size, "limitBytes")),
        rate * 100.0,
        whole(size, "sampledReads"),
    )
}

/// One piece of advice.
fn one(number: usize, advice: Doc<'_>) -> Vec<String> {
    let ns = string(advice, "ns");
    let name = string(advice, "name");
    let key = advice.get("key").as_doc().map(text::doc_text).unwrap_or_default();
    let title = match string(advice, "kind").as_str() {
        "createIndex" => format!("Create the index {key} on {ns}"),
        "dropIndex" => format!("Drop the index {name} of {ns}"),
        "compress" => format!("Compress {ns} with {}", string(advice, "compressor")),
        "cacheSize" => format!("Enlarge the cache of {}", string(advice, "cache")),
        other => format!("{other} on {ns}"),
    };
    let mut lines = vec![format!("{number}. {title}"), format!("   {}.", string(advice, "reason"))];
    lines.extend(measured(advice).map(|line| format!("   {line}")));
    if let Value::String(why) = advice.get("notMeasured") {
        lines.push(format!("   Not measured: {why}."));
    }
    let size = whole(advice, "sizeBytes");
    if size > 0 {
        lines.push(format!("   It has {}.", bytes(size)));
    }
    let saved = whole(advice, "savedBytes");
    if saved > 0 {
        lines.push(format!(
            "   About {} of {} would be saved.",
            bytes(saved),
            bytes(whole(advice, "storageSizeBytes"))
        ));
    }
    lines.extend(cache_sizes(advice).into_iter().map(|line| format!("   {line}")));
    for shape in docs(advice.get("shapes")) {
        lines.push(format!("   - {}", of_shape(shape)));
    }
    let database = ns.split('.').next().unwrap_or("");
    for (field, before) in [("tryFirst", "first hide it: "), ("command", "")] {
        if let Value::Doc(command) = advice.get(field) {
            let command = json::to_relaxed(command);
            lines.push(format!("   {before}db.getSiblingDB(\"{database}\").runCommand({command})"));
        }
    }
    lines
}

/// The expected hits by size of a cache, and the option that sets the size; none for other advice.
fn cache_sizes(advice: Doc<'_>) -> Vec<String> {
    let Some(measured) = advice.get("measured").as_doc() else { return Vec::new() };
    let sizes = docs(measured.get("sizes"));
    if sizes.is_empty() {
        return Vec::new();
    }
    let figure = |doc: Doc<'_>, name: &str| number::as_f64(doc.get(name)).unwrap_or(0.0);
    let one = |size: &Doc<'_>| {
        format!("{:.1} % with {}", figure(*size, "hitRate") * 100.0, bytes(whole(*size, "bytes")))
    };
    let list = sizes.iter().map(one).collect::<Vec<_>>().join(", ");
    let sampled = whole(measured, "sampledReads");
    let mut lines = vec![format!("Expected from {sampled} sampled reads: {list}.")];
    if let Value::String(option) = advice.get("option") {
        let (present, wanted) =
            (figure(advice, "presentCacheSizeGB"), figure(advice, "cacheSizeGB"));
        lines.push(format!("{option}: {wanted} instead of {present}"));
    }
    lines
}

/// The figures of an index that was tried.
fn measured(advice: Doc<'_>) -> Option<String> {
    let measured = advice.get("measured").as_doc()?;
    let sample = measured.get("sample").as_doc()?;
    let tried = format!(
        "Measured on {} of {} documents",
        whole(sample, "documents"),
        whole(sample, "ofDocuments")
    );
    let (Value::Doc(present), Value::Doc(with)) =
        (measured.get("present"), measured.get("withIndex"))
    else {
        return Some(format!("{tried}."));
    };
    let examined = |side: Doc<'_>| {
        whole(side, "totalKeysExamined").saturating_add(whole(side, "totalDocsExamined"))
    };
    let sorts = |side: Doc<'_>| match side.get("sortsInMemory").is_truthy() {
        true => ", with a sort in memory",
        false => "",
    };
    Some(format!(
        "{tried}: an operation examines {} keys and documents now{}, and {} with the index{}. The index would have \
         about {}.",
        examined(present),
        sorts(present),
        examined(with),
        sorts(with),
        bytes(whole(measured, "expectedSizeBytes")),
    ))
}

fn of_shape(shape: Doc<'_>) -> String {
    let count = whole(shape, "count");
    format!(
        "{} {}: {count} times, {} ms on average, {} keys and {} documents examined, {} returned",
        string(shape, "operation"),
        string(shape, "shape"),
        whole(shape, "totalMillis") / count.max(1),
        whole(shape, "keysExamined"),
        whole(shape, "docsExamined"),
        whole(shape, "nReturned"),
    )
}

fn bytes(count: i64) -> String {
    match count {
        ..10_000 => format!("{count} bytes"),
        10_000..10_000_000 => format!("{} KB", count / 1000),
        10_000_000..10_000_000_000 => format!("{} MB", count / 1_000_000),
        _ => format!("{} GB", count / 1_000_000_000),
    }
}

fn docs<'d>(value: Value<'d>) -> Vec<Doc<'d>> {
    match value {
        Value::Array(list) => list.iter().filter_map(|item| item.as_doc()).collect(),
        _ => Vec::new(),
    }
}

fn string(doc: Doc<'_>, name: &str) -> String {
    doc.get(name).as_str().unwrap_or("").to_owned()
}

fn whole(doc: Doc<'_>, name: &str) -> i64 {
    number::truncate_to_i64(doc.get(name)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_advice_evidence_and_command() {
        let reply = json::parse(
            "{uptimeSeconds: 7200, slowms: 100, slowOperations: {shapes: 2, operations: 9}, advice: [
              {kind: 'createIndex', ns: 'shop.o', name: 'a_1', key: {a: 1}, reason: 'why', command: {x: 1},
               measured: {sample: {documents: 10, ofDocuments: 90}, expectedSizeBytes: 20000,
                 present: {totalKeysExamined: 0, totalDocsExamined: 90, sortsInMemory: true},
                 withIndex: {totalKeysExamined: 2, totalDocsExamined: 2, sortsInMemory: false}},
               shapes: [{operation: 'find', shape: '{ a: ? }', count: 3, totalMillis: 600}]},
              {kind: 'dropIndex', ns: 'shop.o', name: 'b_1', key: {b: 1}, reason: 'unused', sizeBytes: 5,
               tryFirst: {y: 1}, command: {z: 1}},
              {kind: 'cacheSize', cache: 'blocks', reason: 'too few hits', option: 'storage.x', presentCacheSizeGB: 1,
               cacheSizeGB: 2.5, measured: {sampledReads: 2000, sizes: [
                 {times: 1, bytes: 1000000000, hitRate: 0.8}, {times: 2, bytes: 2000000000, hitRate: 0.991}]}}],
              caches: [
                {cache: 'records', limitBytes: 50000000, hitRate: 0.5, sampledReads: 1500},
                {cache: 'blocks', limitBytes: 900000000, hitRate: 0.8, bytesFor99Percent: 1900000000,
                 sampledReads: 2000}],
              notAdvised: [{ns: 'shop.p', operation: 'count', shape: '{ }', count: 1, reason: 'no filter'}]}",
        );
        let lines = report(reply.unwrap().as_doc()).join("\n");
        for part in [
            "9 slow operations of 2 shapes in 2.0 hours (slower than 100 ms).",
            "1. Create the index { a: 1 } on shop.o\n   why.",
            "Measured on 10 of 90 documents: an operation examines 90 keys and documents now, with a sort in memory, \
             and 4 with the index. The index would have about 20 KB.",
            "- find { a: ? }: 3 times, 200 ms on average",
            "2. Drop the index b_1 of shop.o",
            "first hide it: db.getSiblingDB(\"shop\").runCommand({\"y\":1})",
            "count { }: 1 times",
            "The cache of documents (50 MB) answers about 50.0 % of its reads; no size up to 8 times this one",
            "The cache of blocks (900 MB) answers about 80.0 % of its reads; 99 % need 1900 MB (from 2000 sampled \
             reads).",
            "3. Enlarge the cache of blocks\n   too few hits.\n   Expected from 2000 sampled reads: 80.0 % with \
             1000 MB, 99.1 % with 2000 MB.\n   storage.x: 2.5 instead of 1",
        ] {
            assert!(lines.contains(part), "{part}\n---\n{lines}");
        }
        let none = json::parse("{advice: []}").unwrap();
        assert!(report(none.as_doc()).contains(&"No advice.".to_owned()));
    }
}

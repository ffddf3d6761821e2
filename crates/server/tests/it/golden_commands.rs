//! Golden cases of the commands, one file per command.
//!
//! Verbs: `run` runs on database `test`, `admin` on database `admin`, `wire` on `test` without added fields;
//! `shape` and `shape_admin` print names and types instead of values, for replies that change between runs. `set`
//! continues with a fresh server: `{initiated: true}` is a member of replica set `rs`, `{initiated: false}` a member
//! before `replSetInitiate`, `{javascript: false}` a server without scripts, and `{router: true}` a router.

use nagi_bson::{Doc, DocBuf, Value, json};
use nagi_testkit::golden;

use crate::client::{Client, member, router, server, server_on, server_without_scripts};

/// Fields whose value changes between runs, at any depth.
const VOLATILE: &[&str] = &[
    "_data",
    "uuid",
    "uri",
    "uuids",
    "localTime",
    "processId",
    "connectionId",
    "lsid",
    "currentTime",
    "localUpdateWallClockTime",
    "nonce",
    "oidMachine",
    "millis",
    "time",
    "timeMillis",
    "executionTimeMillis",
    "executionTimeMillisEstimate",
    "optimizationTimeMillis",
    "workingTimeMillis",
    "ts",
    "date",
    "lastWriteDate",
    "majorityWriteDate",
    "optimeDate",
    "electionDate",
    "electionTime",
    "lastAppliedWallTime",
    "lastCommittedWallTime",
    "lastDurableWallTime",
    "lastStableRecoveryTimestamp",
    "replicaSetId",
    "atClusterTime",
    "updateOpTime",
    "updateWallClockTime",
    "clusterParameterTime",
    "userId",
    "salt",
    "storedKey",
    "serverKey",
    "payload",
];

#[test]
fn commands() {
    let mut client = Client::new(&server());
    let mut cursor = 0;
    golden::run_files(&golden::dir("commands"), &mut |_, verb, input| {
        if verb == "begin" {
            client = Client::new(&server());
            return String::new();
        }
        if verb == "set" {
            let engine = std::sync::Arc::new(nagi_kv::Memory::new());
            client = Client::new(&match input.trim() {
                "{javascript: false}" => server_without_scripts(),
                "{initiated: true}" => member(),
                "{router: true}" => router(),
                _ => server_on(engine, Some("rs")),
            });
            return "ok".to_owned();
        }
        let text = input.replace("$CURSOR", &format!("NumberLong(\"{cursor}\")"));
        let body = match json::parse(&text) {
            Ok(body) => body,
            Err(error) => return format!("bad input: {error}"),
        };
        let db = if matches!(verb, "admin" | "shape_admin") { "admin" } else { "test" };
        let reply = client.run(db, body.as_doc());
        if let Some(Value::Int64(id)) = reply.get("cursor").as_doc().map(|c| c.get("id"))
            && id != 0
        {
            cursor = id;
        }
        match verb {
            "shape" | "shape_admin" => shape(reply.as_doc()),
            _ => print(&reply),
        }
    });
}

pub(crate) fn print(reply: &DocBuf) -> String {
    if !reply.get("ok").is_truthy() {
        let extra = DocBuf::build(|w| {
            for element in reply.as_doc() {
                let known = ["ok", "errmsg", "code", "codeName", "topologyVersion"];
                if !known.contains(&element.name()) && !TIMES.contains(&element.name()) {
                    w.put(element.name(), element.value());
                }
            }
        });
        let text = |name: &str| reply.get(name).as_str().unwrap_or("").to_owned();
        let code = reply.get("code");
        let errmsg = golden::without_uuids(&text("errmsg"));
        let mut line = format!("error {code} {}: {errmsg}", text("codeName"));
        if !extra.as_doc().is_empty() {
            line.push_str(&format!("\n{}", json::to_relaxed(extra.as_doc())));
        }
        return line;
    }
    json::to_relaxed(masked(reply.as_doc()).as_doc())
}

/// The document with changing values replaced.
fn masked(doc: Doc<'_>) -> DocBuf {
    DocBuf::build(|w| {
        for element in doc.iter().filter(|element| !TIMES.contains(&element.name())) {
            let name = element.name();
            match element.value() {
                _ if VOLATILE.contains(&name) => w.put(name, "..."),
                // The name of this machine, unlike a name from a case.
                Value::String(host) if name == "host" && !host.starts_with("localhost") => {
                    w.put(name, "...");
                }
                Value::Int64(id) if name == "id" && id != 0 => w.put(name, "..."),
                Value::Doc(inner) => w.put(name, &masked(inner)),
                Value::Array(items) => w.array(name, |list| {
                    for item in items.iter() {
                        match item {
                            Value::Doc(inner) => list.push(&masked(inner)),
                            other => list.push(other),
                        }
                    }
                }),
                other => w.put(name, other),
            }
        }
    })
}

/// Fields at the end of a member's replies.
const TIMES: &[&str] = &["$clusterTime", "operationTime"];

fn shape(doc: Doc<'_>) -> String {
    let field = |e: nagi_bson::Element<'_>| format!("{}: {}", e.name(), e.kind().name());
    doc.iter().map(field).collect::<Vec<_>>().join(", ")
}

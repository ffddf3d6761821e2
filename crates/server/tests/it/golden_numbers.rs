//! Golden cases of numbers at the limits of their types, for all arguments that take a number.
//!
//! A case is a command with `$NUMBER` in it. It runs once for each value of [`VALUES`], each time on a fresh
//! collection `c` with three documents; values with the same reply share a line. Verbs: `number` runs on
//! database `test`, `admin` on database `admin`, `member` on a member of a replica set. `accepts` prints only
//! whether the command succeeds, for replies that change between runs.

use nagi_bson::json;

use crate::client::{Client, member, server};
use crate::golden_commands::print;

/// The printed form of a value, and its extended JSON.
const VALUES: &[(&str, &str)] = &[
    ("0", "0"),
    ("1", "1"),
    ("2", "2"),
    ("-1", "-1"),
    ("1L", r#"{"$numberLong": "1"}"#),
    ("1.0", r#"{"$numberDouble": "1.0"}"#),
    ("-0.0", r#"{"$numberDouble": "-0.0"}"#),
    ("0.5", r#"{"$numberDouble": "0.5"}"#),
    ("-0.5", r#"{"$numberDouble": "-0.5"}"#),
    ("1.5", r#"{"$numberDouble": "1.5"}"#),
    ("NaN", r#"{"$numberDouble": "NaN"}"#),
    ("Infinity", r#"{"$numberDouble": "Infinity"}"#),
    ("-Infinity", r#"{"$numberDouble": "-Infinity"}"#),
    ("2^31", r#"{"$numberLong": "2147483648"}"#),
    ("2^63-1", r#"{"$numberLong": "9223372036854775807"}"#),
    ("-2^63", r#"{"$numberLong": "-9223372036854775808"}"#),
    ("2^63", r#"{"$numberDouble": "9223372036854775808"}"#),
    ("1e300", r#"{"$numberDouble": "1e300"}"#),
    ("dec 1", r#"{"$numberDecimal": "1"}"#),
    ("dec 0.5", r#"{"$numberDecimal": "0.5"}"#),
    ("dec NaN", r#"{"$numberDecimal": "NaN"}"#),
    ("dec 1E+400", r#"{"$numberDecimal": "1E+400"}"#),
    ("\"1\"", r#""1""#),
    ("null", "null"),
    ("true", "true"),
];

#[test]
fn numbers() {
    nagi_testkit::golden::run_files(
        &nagi_testkit::golden::dir("numbers"),
        &mut |_, verb, input| {
            if verb == "begin" {
                return String::new();
            }
            let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
            for (shown, value) in VALUES {
                let reply = run(verb, &input.replace("$NUMBER", value));
                match lines.iter_mut().find(|(other, _)| *other == reply) {
                    Some((_, values)) => values.push(shown),
                    None => lines.push((reply, vec![shown])),
                }
            }
            let lines =
                lines.iter().map(|(reply, values)| format!("{}: {reply}", values.join(", ")));
            lines.collect::<Vec<_>>().join("\n")
        },
    );
}

fn run(verb: &str, text: &str) -> String {
    let mut client = Client::new(&if verb == "member" { member() } else { server() });
    let documents =
        "{insert: \"c\", documents: [{_id: 1, a: [1, 2, 3], n: 5}, {_id: 2}, {_id: 3}]}";
    client.run("test", json::parse(documents).expect("the documents parse").as_doc());
    let body = match json::parse(text) {
        Ok(body) => body,
        Err(error) => return format!("bad input: {error}"),
    };
    let reply = client.run(if verb == "admin" { "admin" } else { "test" }, body.as_doc());
    match verb {
        "accepts" if reply.get("ok").is_truthy() => "ok".to_owned(),
        _ => print(&reply).replace('\n', " "),
    }
}

//! `redactClientLogData`: no value of a client is in the log, whatever it does and whatever is logged.

use nagi_bson::{DocBuf, Value};

use crate::process::{Client, Folder, Server};

/// In every value that the commands below send, and in none of the names of collections and fields.
const MARKER: &str = "5ecretMarker";

/// Commands that succeed and fail in many ways, each with the marker in its values.
const COMMANDS: &[&str] = &[
    "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a_1', unique: true}, {key: {g: '2dsphere'}, name: 'g'}]}",
    "{insert: 'c', documents: [{_id: '5ecretMarker', a: '5ecretMarker1'}, {_id: 2, a: 5}]}",
    "{insert: 'c', documents: [{_id: '5ecretMarker'}]}",
    "{insert: 'c', documents: [{a: '5ecretMarker1'}]}",
    "{insert: 'c', documents: [{g: {type: '5ecretMarker', coordinates: ['5ecretMarker']}}]}",
    "{find: 'c', filter: {a: {$gte: '5ecretMarker', $lt: '5ecretMarker2'}}, comment: '5ecretMarker'}",
    "{find: 'c', filter: {a: {$regex: '5ecretMarker('}}}",
    "{find: 'c', filter: {$where: 'throw new Error(\"5ecretMarker\")'}}",
    "{find: 'c', filter: {a: {$in: [['5ecretMarker'], {b: '5ecretMarker'}]}}, sort: {a: 1}, hint: 'a_1'}",
    "{find: 'c', filter: {a: {$noOperator: '5ecretMarker'}}}",
    "{find: 'c', filter: {$expr: {$toInt: '5ecretMarker'}}}",
    "{explain: {find: 'c', filter: {a: '5ecretMarker1'}}}",
    "{update: 'c', updates: [{q: {a: '5ecretMarker1'}, u: {$set: {b: '5ecretMarker'}}}]}",
    "{update: 'c', updates: [{q: {a: 5}, u: {$set: {a: '5ecretMarker1'}}}]}",
    "{update: 'c', updates: [{q: {a: 5}, u: {$push: {a: '5ecretMarker'}}}]}",
    "{findAndModify: 'c', query: {a: '5ecretMarker1'}, update: {$inc: {b: '5ecretMarker'}}}",
    "{delete: 'c', deletes: [{q: {a: '5ecretMarker9'}, limit: 0}]}",
    "{aggregate: 'c', pipeline: [{$match: {a: '5ecretMarker1'}}, {$project: {x: {$concat: ['$a', '5ecretMarker']}}}], \
      cursor: {batchSize: 0}}",
    "{aggregate: 'c', pipeline: [{$project: {x: {$dateFromString: {dateString: '5ecretMarker'}}}}], cursor: {}}",
    "{aggregate: 'c', pipeline: [{$noStage: '5ecretMarker'}], cursor: {}}",
    "{distinct: 'c', key: 'a', query: {a: '5ecretMarker'}}",
    "{count: 'c', query: {a: '5ecretMarker'}, hint: '5ecretMarker'}",
    "{mapReduce: 'c', map: 'function() { emit(\"5ecretMarker\", 1) }', reduce: 'function(k, v) { return 1 }', \
      out: {inline: 1}}",
    "{create: 'v', validator: {a: {$ne: '5ecretMarker1'}}, validationAction: 'warn'}",
    "{insert: 'v', documents: [{a: '5ecretMarker1'}]}",
    "{validate: 'v'}",
    "{collMod: 'v', validationAction: 'error'}",
    "{insert: 'v', documents: [{a: '5ecretMarker1'}]}",
    "{createIndexes: 'c', indexes: [{key: {b: 1}, name: 'b_1', partialFilterExpression: {b: '5ecretMarker'}}]}",
    "{createIndexes: 'c', indexes: [{key: {z: '5ecretMarker'}, name: 'z'}]}",
    "{createUser: 'u', pwd: '5ecretMarker', roles: ['read'], customData: {x: '5ecretMarker'}}",
    "{createRole: 'r', roles: ['5ecretMarker'], privileges: []}",
    "{saslStart: 1, mechanism: 'SCRAM-SHA-256', payload: '5ecretMarker'}",
    "{getMore: {$numberLong: '5'}, collection: 'c', comment: '5ecretMarker'}",
    "{killOp: 1, op: '5ecretMarker'}",
    "{noCommand: '5ecretMarker'}",
    "{hello: '5ecretMarker', x: ['5ecretMarker']}",
    "{setParameter: 1, noParameter: '5ecretMarker'}",
];

fn lines(client: &mut Client) -> Vec<String> {
    let reply = client.try_run_on("admin", "{getLog: 'global'}").unwrap();
    let Value::Array(lines) = reply.get("log") else { panic!("{reply:?}") };
    lines.iter().filter_map(|line| line.as_str().map(str::to_owned)).collect()
}

/// The lines that contain the marker after all commands, and whether a slow operation was among the lines.
fn run(client: &mut Client) -> (Vec<String>, bool) {
    let (mut found, mut slow) = (Vec::new(), false);
    for command in COMMANDS {
        let _: Option<DocBuf> = client.try_run(command);
        let _ = client.try_run_on("admin", command);
        for line in lines(client) {
            slow |= line.contains("\"Slow query\"") && line.contains("\"ns\":\"test.c\"");
            if line.contains(MARKER) && !found.contains(&line) {
                found.push(line);
            }
        }
    }
    (found, slow)
}

#[test]
fn the_log_has_no_values_of_clients() {
    let folder = Folder::new("redacted");
    let loud = ["--redactClientLogData", "-vvvvv"];
    let server = Server::start_with(&folder.data(), &loud);
    let mut client = server.client();
    client.run("{profile: 0, slowms: -1}");
    let (found, slow) = run(&mut client);
    assert!(slow, "nothing was logged");
    assert!(found.is_empty(), "{found:#?}");

    // The control: without redaction the same commands are readable.
    client.try_run_on("admin", "{setParameter: 1, redactClientLogData: false}").unwrap();
    let (found, _) = run(&mut client);
    assert!(found.len() > 20, "{found:#?}");
}

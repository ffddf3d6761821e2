//! Each boolean argument of each command is given a string and a document. They are refused as MongoDB refuses
//! them, or count as true where MongoDB does not check the type. The table must contain each boolean that a
//! struct of arguments declares.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nagi_bson::json;

use crate::client::{Client, is_ok, member, router};

/// How a value of the wrong type is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Numbers are accepted as well (`safeBool`).
    Number,
    /// Only booleans are accepted (`bool`).
    Strict,
    /// Only booleans are accepted, with another error text (`optionalBool`).
    Switch,
    /// An argument of a stage with an error text of its own (9).
    Stage,
    /// An option of an index (14).
    Option,
    /// Any type is accepted; MongoDB does not check it.
    Any,
}
use Kind::*;

/// The path of the argument in error texts, and a command with `@` in place of the value. If the command is
/// empty, it is the first word of the path, on collection `c`, with this argument only.
const TABLE: &[(&str, Kind, &str)] = &[
    ("autoCompact.autoCompact", Number, "{autoCompact: @}"),
    ("autoCompact.runOnce", Number, "{autoCompact: true, runOnce: @}"),
    ("compact.force", Number, ""),
    ("compact.dryRun", Number, ""),
    ("fsync.lock", Number, ""),
    ("fsync.async", Number, ""),
    ("fsync.forBackup", Number, ""),
    ("fsync.allowFsyncFailure", Number, ""),
    ("getDefaultRWConcern.inMemory", Strict, ""),
    ("setFeatureCompatibilityVersion.confirm", Number, "{setFeatureCompatibilityVersion: '8.0', confirm: @}"),
    (
        "setFeatureCompatibilityVersion.fromConfigServer",
        Number,
        "{setFeatureCompatibilityVersion: '8.0', fromConfigServer: @}",
    ),
    (
        "setAuditConfig.auditAuthorizationSuccess",
        Strict,
        "{setAuditConfig: 1, filter: {}, auditAuthorizationSuccess: @}",
    ),
    (
        "OIDCIdentityProviderConfig.useAuthorizationClaim",
        Number,
        "{setParameter: 1, oidcIdentityProviders: [{issuer: 'https://i', audience: 'a', authNamePrefix: 'p', \
         clientId: 'c', authorizationClaim: 'g', useAuthorizationClaim: @}]}",
    ),
    (
        "OIDCIdentityProviderConfig.supportsHumanFlows",
        Number,
        "{setParameter: 1, oidcIdentityProviders: [{issuer: 'https://i', audience: 'a', authNamePrefix: 'p', \
         clientId: 'c', authorizationClaim: 'g', supportsHumanFlows: @}]}",
    ),
    ("nagiAdvise.measure", Number, "{nagiAdvise: 1, measure: @}"),
    ("setUserWriteBlockMode.global", Strict, "{setUserWriteBlockMode: 1, global: @}"),
    ("shutdown.force", Number, ""),
    ("shardCollection.unique", Strict, "{shardCollection: 'test.s', key: {k: 1}, unique: @}"),
    (
        "shardCollection.presplitHashedZones",
        Strict,
        "{shardCollection: 'test.s', key: {k: 1}, presplitHashedZones: @}",
    ),
    (
        "shardCollection.enforceUniquenessCheck",
        Strict,
        "{shardCollection: 'test.s', key: {k: 1}, enforceUniquenessCheck: @}",
    ),
    (
        "shardCollection.implicitlyCreateIndex",
        Strict,
        "{shardCollection: 'test.s', key: {k: 1}, implicitlyCreateIndex: @}",
    ),
    ("captrunc.inc", Number, "{captrunc: 'c', n: 1, inc: @}"),
    ("cloneCollectionAsCapped.temp", Number, "{cloneCollectionAsCapped: 'c', toCollection: 'd', size: 1, temp: @}"),
    ("collMod.dryRun", Number, ""),
    ("convertToCapped.temp", Number, "{convertToCapped: 'c', size: 1, temp: @}"),
    ("create.capped", Number, ""),
    ("create.autoIndexId", Number, ""),
    ("create.temp", Number, ""),
    ("create.recordIdsReplicated", Strict, ""),
    (
        "changeStreamPreAndPostImages.enabled",
        Strict,
        "{create: 'd', changeStreamPreAndPostImages: {enabled: @}}",
    ),
    (
        "changeStreamPreAndPostImages.enabled",
        Strict,
        "{collMod: 'c', changeStreamPreAndPostImages: {enabled: @}}",
    ),
    ("listCollections.nameOnly", Number, ""),
    ("listCollections.authorizedCollections", Number, ""),
    ("listDatabases.nameOnly", Number, ""),
    ("listDatabases.authorizedDatabases", Number, ""),
    ("renameCollection.stayTemp", Number, "{renameCollection: 'test.c', to: 'test.d', stayTemp: @}"),
    ("aggregate.allowDiskUse", Switch, "{aggregate: 'c', pipeline: [], cursor: {}, allowDiskUse: @}"),
    (
        "aggregate.bypassDocumentValidation",
        Number,
        "{aggregate: 'c', pipeline: [], cursor: {}, bypassDocumentValidation: @}",
    ),
    ("aggregate.needsMerge", Switch, "{aggregate: 'c', pipeline: [], cursor: {}, needsMerge: @}"),
    ("aggregate.fromMongos", Switch, "{aggregate: 'c', pipeline: [], cursor: {}, fromMongos: @}"),
    (
        "aggregate.$_requestResumeToken",
        Switch,
        "{aggregate: 'c', pipeline: [], cursor: {}, $_requestResumeToken: @}",
    ),
    (
        "aggregate.includeQueryStatsMetrics",
        Strict,
        "{aggregate: 'c', pipeline: [], cursor: {}, includeQueryStatsMetrics: @}",
    ),
    ("bulkWrite.ordered", Strict, "{bulkWrite: 1, ops: [], nsInfo: [], ordered: @}"),
    ("bulkWrite.errorsOnly", Strict, "{bulkWrite: 1, ops: [], nsInfo: [], errorsOnly: @}"),
    (
        "bulkWrite.bypassDocumentValidation",
        Number,
        "{bulkWrite: 1, ops: [], nsInfo: [], bypassDocumentValidation: @}",
    ),
    (
        "bulkWrite.bypassEmptyTsReplacement",
        Number,
        "{bulkWrite: 1, ops: [], nsInfo: [], bypassEmptyTsReplacement: @}",
    ),
    (
        "bulkWrite.ops.multi",
        Strict,
        "{bulkWrite: 1, ops: [{update: 0, filter: {}, updateMods: {$set: {a: 1}}, multi: @}],
          nsInfo: [{ns: 'test.c'}]}",
    ),
    (
        "bulkWrite.ops.upsert",
        Strict,
        "{bulkWrite: 1, ops: [{update: 0, filter: {}, updateMods: {$set: {a: 1}}, upsert: @}],
          nsInfo: [{ns: 'test.c'}]}",
    ),
    (
        "bulkWrite.ops.upsertSupplied",
        Number,
        "{bulkWrite: 1, ops: [{update: 0, filter: {}, updateMods: {$set: {a: 1}}, upsertSupplied: @}],
          nsInfo: [{ns: 'test.c'}]}",
    ),
    (
        "bulkWrite.ops.multi",
        Strict,
        "{bulkWrite: 1, ops: [{delete: 0, filter: {}, multi: @}], nsInfo: [{ns: 'test.c'}]}",
    ),
    ("delete.ordered", Strict, "{delete: 'c', deletes: [], ordered: @}"),
    ("delete.bypassDocumentValidation", Number, "{delete: 'c', deletes: [], bypassDocumentValidation: @}"),
    ("find.singleBatch", Switch, ""),
    ("find.returnKey", Switch, ""),
    ("find.showRecordId", Switch, ""),
    ("find.tailable", Switch, ""),
    ("find.awaitData", Switch, ""),
    ("find.noCursorTimeout", Switch, ""),
    ("find.allowPartialResults", Switch, ""),
    ("find.oplogReplay", Switch, ""),
    ("find.allowDiskUse", Switch, ""),
    ("find.$_requestResumeToken", Switch, ""),
    ("find.includeQueryStatsMetrics", Strict, ""),
    ("find.readOnce", Switch, ""),
    ("findAndModify.remove", Number, ""),
    ("findAndModify.new", Number, ""),
    ("findAndModify.upsert", Number, ""),
    ("findAndModify.bypassDocumentValidation", Number, ""),
    ("findAndModify.bypassEmptyTsReplacement", Number, ""),
    (
        "getMore.includeQueryStatsMetrics",
        Strict,
        "{getMore: NumberLong(1), collection: 'c', includeQueryStatsMetrics: @}",
    ),
    ("insert.ordered", Strict, "{insert: 'c', documents: [{}], ordered: @}"),
    ("insert.bypassDocumentValidation", Number, "{insert: 'c', documents: [{}], bypassDocumentValidation: @}"),
    ("insert.bypassEmptyTsReplacement", Number, "{insert: 'c', documents: [{}], bypassEmptyTsReplacement: @}"),
    ("mapReduce.jsMode", Number, "{mapReduce: 'c', map: '', reduce: '', out: {inline: 1}, jsMode: @}"),
    ("mapReduce.verbose", Number, "{mapReduce: 'c', map: '', reduce: '', out: {inline: 1}, verbose: @}"),
    (
        "mapReduce.bypassDocumentValidation",
        Number,
        "{mapReduce: 'c', map: '', reduce: '', out: {inline: 1}, bypassDocumentValidation: @}",
    ),
    (
        "$querySettings.showDebugQueryShape",
        Number,
        "{aggregate: 1, pipeline: [{$querySettings: {showDebugQueryShape: @}}], cursor: {}}",
    ),
    (
        "$listLocalSessions.allUsers",
        Strict,
        "{aggregate: 1, pipeline: [{$listLocalSessions: {allUsers: @}}], cursor: {}}",
    ),
    ("idleConnections", Stage, "{aggregate: 1, pipeline: [{$currentOp: {idleConnections: @}}], cursor: {}}"),
    ("idleCursors", Stage, "{aggregate: 1, pipeline: [{$currentOp: {idleCursors: @}}], cursor: {}}"),
    ("idleSessions", Stage, "{aggregate: 1, pipeline: [{$currentOp: {idleSessions: @}}], cursor: {}}"),
    ("allUsers", Stage, "{aggregate: 1, pipeline: [{$currentOp: {allUsers: @}}], cursor: {}}"),
    ("truncateOps", Stage, "{aggregate: 1, pipeline: [{$currentOp: {truncateOps: @}}], cursor: {}}"),
    ("targetAllNodes", Stage, "{aggregate: 1, pipeline: [{$currentOp: {targetAllNodes: @}}], cursor: {}}"),
    ("localOps", Stage, "{aggregate: 1, pipeline: [{$currentOp: {localOps: @}}], cursor: {}}"),
    ("backtrace", Stage, "{aggregate: 1, pipeline: [{$currentOp: {backtrace: @}}], cursor: {}}"),
    ("update.ordered", Strict, "{update: 'c', updates: [], ordered: @}"),
    ("update.bypassDocumentValidation", Number, "{update: 'c', updates: [], bypassDocumentValidation: @}"),
    ("update.bypassEmptyTsReplacement", Number, "{update: 'c', updates: [], bypassEmptyTsReplacement: @}"),
    ("update.updates.multi", Strict, "{update: 'c', updates: [{q: {}, u: {$set: {a: 1}}, multi: @}]}"),
    ("update.updates.upsert", Strict, "{update: 'c', updates: [{q: {}, u: {$set: {a: 1}}, upsert: @}]}"),
    (
        "update.updates.upsertSupplied",
        Number,
        "{update: 'c', updates: [{q: {}, u: {$set: {a: 1}}, upsertSupplied: @}]}",
    ),
    (
        "update.updates.allowShardKeyUpdatesWithoutFullShardKeyInQuery",
        Number,
        "{update: 'c', updates: [{q: {}, u: {$set: {a: 1}}, allowShardKeyUpdatesWithoutFullShardKeyInQuery: @}]}",
    ),
    ("collStats.verbose", Number, ""),
    ("collStats.waitForLock", Number, ""),
    ("collStats.numericOnly", Number, ""),
    ("connectionStatus.showPrivileges", Number, ""),
    ("currentOp.$all", Any, ""),
    ("currentOp.$ownOps", Any, ""),
    ("currentOp.$truncateOps", Any, ""),
    ("dataSize.estimate", Number, "{dataSize: 'test.c', estimate: @}"),
    ("dbHash.skipTempCollections", Number, ""),
    ("features.oidReset", Any, ""),
    ("filemd5.partialOk", Any, "{filemd5: 1, root: 'fs', partialOk: @}"),
    ("getParameter.showDetails", Strict, "{getParameter: {showDetails: @}, quiet: 1}"),
    ("getParameter.allParameters", Strict, "{getParameter: {allParameters: @}}"),
    ("serverStatus.none", Any, ""),
    ("serverStatus.repl", Any, ""),
    ("validate.full", Any, ""),
    ("validate.repair", Any, ""),
    ("validate.metadata", Any, ""),
    ("validate.scandata", Any, ""),
    ("validate.background", Any, ""),
    ("validate.checkBSONConformance", Any, ""),
    ("validate.enforceFastCount", Any, ""),
    ("validate.fixMultikey", Any, ""),
    ("hello.helloOk", Number, ""),
    ("hello.loadBalanced", Number, ""),
    (
        "createIndexes.ignoreUnknownIndexOptions",
        Number,
        "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a'}], ignoreUnknownIndexOptions: @}",
    ),
    (
        "createIndexes.isTimeseriesNamespace",
        Number,
        "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a'}], isTimeseriesNamespace: @}",
    ),
    ("unique", Option, "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a', unique: @}]}"),
    ("sparse", Option, "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a', sparse: @}]}"),
    ("hidden", Option, "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a', hidden: @}]}"),
    ("background", Option, "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a', background: @}]}"),
    ("prepareUnique", Option, "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a', prepareUnique: @}]}"),
    ("hidden", Option, "{collMod: 'c', index: {name: 'b', hidden: @}}"),
    ("unique", Option, "{collMod: 'c', index: {name: 'b', unique: @}}"),
    ("prepareUnique", Option, "{collMod: 'c', index: {name: 'b', prepareUnique: @}}"),
    ("listIndexes.includeBuildUUIDs", Number, ""),
    ("listIndexes.includeIndexBuildInfo", Number, ""),
    ("getLastError.j", Any, ""),
    ("getLastError.fsync", Any, ""),
    ("replSetGetConfig.commitmentStatus", Number, ""),
    ("replSetReconfig.force", Number, "{replSetReconfig: {}, force: @}"),
    ("replSetStepDown.force", Number, "{replSetStepDown: 1, force: @}"),
    ("createUser.digestPassword", Number, "{createUser: 'u', pwd: 'p', roles: [], digestPassword: @}"),
    ("updateUser.digestPassword", Number, "{updateUser: 'u', pwd: 'p', digestPassword: @}"),
    ("_mergeAuthzCollections.drop", Strict, "{_mergeAuthzCollections: 1, db: '', drop: @}"),
    (
        "resource.cluster",
        Strict,
        "{createRole: 'r', roles: [], privileges: [{resource: {cluster: @}, actions: ['inprog']}]}",
    ),
    (
        "resource.anyResource",
        Strict,
        "{createRole: 'r', roles: [], privileges: [{resource: {anyResource: @}, actions: ['inprog']}]}",
    ),
    ("rolesInfo.showBuiltinRoles", Number, ""),
    ("rolesInfo.showAuthenticationRestrictions", Number, ""),
    ("usersInfo.showCredentials", Number, ""),
    ("usersInfo.showCustomData", Number, ""),
    ("usersInfo.showPrivileges", Number, ""),
    ("usersInfo.showAuthenticationRestrictions", Number, ""),
    (
        "setQuerySettings.settings.reject",
        Number,
        "{setQuerySettings: {find: 'c', $db: 'test'}, settings: {reject: @}}",
    ),
    ("writeConcern.j", Number, "{insert: 'c', documents: [{}], writeConcern: {j: @}}"),
    ("writeConcern.fsync", Number, "{insert: 'c', documents: [{}], writeConcern: {fsync: @}}"),
];

/// The expected code and text for a value of type `found`; code 0 if any type is accepted.
fn expected(path: &str, kind: Kind, found: &str) -> (i32, String) {
    let field = path.rsplit('.').next().unwrap();
    match kind {
        Number => {
            let text = format!(
                "BSON field '{path}' is the wrong type '{found}', expected types '[bool, long, int, decimal, double]'"
            );
            (14, text)
        }
        Strict => {
            (14, format!("BSON field '{path}' is the wrong type '{found}', expected type 'bool'"))
        }
        Switch => (14, format!("Field '{field}' should be a boolean value, but found: {found}")),
        Stage => {
            let text = format!(
                "The '{field}' parameter of the $currentOp stage must be a boolean value, but found: {found}"
            );
            (9, text)
        }
        Option => (14, field.to_owned()),
        Any => (0, String::new()),
    }
}

#[test]
fn a_boolean_is_no_string_and_no_document() {
    let mut client = Client::new(&member());
    let mut of_router = Client::new(&router());
    client.shell("{createIndexes: 'c', indexes: [{key: {b: 1}, name: 'b'}]}");
    for (path, kind, command) in TABLE {
        let (name, field) = path.split_once('.').unwrap_or(("", path));
        let command = match *command {
            "" => format!("{{{name}: 'c', {field}: @}}"),
            given => given.to_owned(),
        };
        let client = if name == "shardCollection" { &mut of_router } else { &mut client };
        for (value, found) in [("'x'", "string"), ("{}", "object")] {
            let asked = json::parse(&command.replace('@', value)).unwrap();
            let mut reply = client.run("test", asked.as_doc());
            let text = |reply: &nagi_bson::DocBuf| {
                reply.get("errmsg").as_str().unwrap_or_default().to_owned()
            };
            if text(&reply).contains("'admin' database") || text(&reply).contains("admin database")
            {
                reply = client.run("admin", asked.as_doc());
            }
            let (code, expect) = expected(path, *kind, found);
            let answered = (reply.get("code"), text(&reply));
            if *kind == Any {
                assert_ne!(answered.0, nagi_bson::Value::Int32(14), "{asked:?}: {answered:?}");
                continue;
            }
            assert!(!is_ok(&reply), "{asked:?} was taken");
            assert_eq!(answered.0, nagi_bson::Value::Int32(code), "{asked:?}: {answered:?}");
            assert!(answered.1.contains(&expect), "{asked:?}: {answered:?}");
        }
    }
}

#[test]
fn the_privileges_of_roles_have_two_forms() {
    let mut client = Client::new(&member());
    let mut answer = |value: &str| {
        let reply = client.shell(&format!("{{rolesInfo: 'r', showPrivileges: {value}}}"));
        match reply.get("code") {
            nagi_bson::Value::Int32(code) => Some(code),
            _ => None,
        }
    };
    assert_eq!(answer("'x'"), Some(2));
    assert_eq!(answer("{}"), Some(14));
    assert_eq!(answer("1"), None);
    assert_eq!(answer("'asUserFragment'"), None);
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => rust_files(&path, found),
            false => found.push(path),
        }
    }
}

#[test]
fn every_declared_boolean_is_in_the_table() {
    let mut files = Vec::new();
    rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let listed: BTreeSet<&str> = TABLE.iter().map(|(path, ..)| *path).collect();
    let (mut missing, mut count) = (Vec::new(), 0);
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        let mut command = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("args! { \"") {
                command = rest.split('"').next();
            } else if line.starts_with("}}") {
                command = None;
            }
            let (Some(command), Some((declared, key))) = (command, line.split_once(" = \"")) else {
                continue;
            };
            let kind = declared.rsplit(':').next().unwrap().trim();
            let kind = kind.trim_start_matches("Option<").trim_end_matches('>');
            if ["bool", "StrictBool", "Switch", "Truthy"].contains(&kind) {
                count += 1;
                let path = format!("{command}.{}", key.split('"').next().unwrap());
                if !listed.contains(path.as_str()) {
                    missing.push(path);
                }
            }
        }
    }
    assert!(count > 90, "only {count} booleans were found: how they are declared has changed");
    assert!(missing.is_empty(), "not in the table: {missing:?}");
}

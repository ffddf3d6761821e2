//! The audit log: its messages, their results, its filter, its rotation, and its configuration at run time.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value, json};
use nagi_server::{AuditDestination, AuditFormat, AuditOptions, Peer, Server};
use nagi_store::{Oplog, Store, StoreOptions};
use nagi_testkit::Scratch;

use crate::client::{Client, builder_over, is_ok};
use crate::login::log_in;

fn scratch() -> (Scratch, PathBuf) {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path()).unwrap();
    let path = scratch.path().join("audit.json");
    (scratch, path)
}

fn options(path: &Path) -> AuditOptions {
    AuditOptions {
        destination: AuditDestination::File { path: path.to_owned(), reopen: false },
        format: AuditFormat::Json,
        ocsf: false,
        filter: DocBuf::new(),
        runtime: false,
    }
}

/// A server with this audit log; with authorization it has a root user with password "pwd".
fn audited(options: &AuditOptions, set: Option<&str>, authorization: bool) -> Arc<Server> {
    let change_log = set.map(|_| Arc::new(Oplog::default()) as _);
    let store = StoreOptions { change_log, ..StoreOptions::default() };
    let store = Store::open(Arc::new(nagi_kv::Memory::new()), store).unwrap();
    audited_on(store, options, set, authorization)
}

fn audited_on(
    store: Arc<Store>,
    options: &AuditOptions,
    set: Option<&str>,
    authorization: bool,
) -> Arc<Server> {
    let builder = builder_over(store, set, authorization, false);
    let server = builder.audit(options).unwrap().start().unwrap();
    if authorization {
        let reply = Client::new(&server).run(
            "admin",
            nagi_bson::doc! { "createUser": "root", "pwd": "swordfish", "roles": ["root"],
            "mechanisms": ["SCRAM-SHA-256"] }
            .as_doc(),
        );
        assert!(is_ok(&reply), "{reply:?}");
    }
    server
}

/// The messages in a file, after the server has written all.
fn messages(server: &Server, path: &Path) -> Vec<DocBuf> {
    server.close_audit_log();
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| json::parse(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// `atype param result` of messages of these kinds.
fn told(messages: &[DocBuf], kinds: &[&str]) -> Vec<String> {
    let kept = messages.iter().filter(|m| kinds.contains(&m.get("atype").as_str().unwrap_or("")));
    kept.map(|message| {
        let (atype, result) = (message.get("atype"), message.get("result"));
        let param = json::to_relaxed(message.get("param").as_doc().unwrap());
        format!("{} {param} {result}", atype.as_str().unwrap())
    })
    .collect()
}

fn admin(client: &mut Client, text: &str) -> DocBuf {
    client.run("admin", json::parse(text).unwrap().as_doc())
}

#[test]
fn logins_and_their_ends() {
    let (_scratch, path) = scratch();
    let server = audited(&options(&path), None, true);
    let mut client = Client::new(&server);
    log_in(&mut client, "admin", "root", "wrong");
    log_in(&mut client, "admin", "nobody", "x");
    client.shell("{saslStart: 1, mechanism: 'PLAIN', payload: 'AHgAeA=='}");
    assert!(is_ok(&log_in(&mut client, "admin", "root", "swordfish")));
    assert!(is_ok(&admin(&mut client, "{logout: 1}")));
    assert!(is_ok(&log_in(&mut client, "admin", "root", "swordfish")));
    drop(client);
    let mut half = Client::new(&server);
    half.shell("{saslStart: 1, mechanism: 'SCRAM-SHA-256', payload: 'biwsbj1yb290LHI9eA=='}");
    drop(half);
    let all = messages(&server, &path);
    let root = "\"user\":\"root\",\"db\":\"admin\"";
    let scram = "\"mechanism\":\"SCRAM-SHA-256\"";
    assert_eq!(
        told(&all, &["authenticate", "logout"]),
        [
            format!("authenticate {{{root},{scram}}} 18"),
            format!("authenticate {{\"user\":\"nobody\",\"db\":\"admin\",{scram}}} 18"),
            "authenticate {\"user\":\"\",\"db\":\"test\",\"mechanism\":\"PLAIN\"} 334".to_owned(),
            format!("authenticate {{{root},{scram}}} 0"),
            format!(
                "logout {{\"reason\":\"Explicit logout from admin\",\"initialUsers\":[{{{root}}}],\
                 \"updatedUsers\":[]}} 0"
            ),
            format!("authenticate {{{root},{scram}}} 0"),
            format!(
                "logout {{\"reason\":\"Implicit logout due to client connection closure\",\
                 \"initialUsers\":[{{{root}}}],\"updatedUsers\":[]}} 0"
            ),
            format!("authenticate {{\"user\":\"root\",\"db\":\"test\",{scram}}} 337"),
        ]
    );
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("swordfish") && !text.contains("biws"), "{text}");
}

#[test]
fn a_message_has_mongodbs_fields() {
    let (_scratch, path) = scratch();
    let server = audited(&options(&path), None, true);
    let mut client = Client::new(&server);
    log_in(&mut client, "admin", "root", "swordfish");
    admin(&mut client, "{logApplicationMessage: 'one \u{e4}'}");
    let long = format!("{{logApplicationMessage: '{}'}}", "x".repeat(1025));
    assert_eq!(admin(&mut client, &long).get("code"), Value::Int32(2));
    server.close_audit_log();
    let text = fs::read_to_string(&path).unwrap();
    let line = text.lines().last().unwrap();
    let (head, tail) = line.split_once("\"local\" : ").unwrap();
    assert!(
        head.starts_with("{ \"atype\" : \"applicationMessage\", \"ts\" : { \"$date\" : \"20"),
        "{line}"
    );
    assert!(head.ends_with("\", \"$type\" : \"04\" }, "), "{line}");
    assert!(head.contains("+00:00\" }, \"uuid\" : { \"$binary\" : \""), "{line}");
    assert_eq!(
        tail,
        "{\"ip\":\"127.0.0.1\",\"port\":27017}, \"remote\" : {\"ip\":\"127.0.0.1\",\"port\":50000}, \
         \"users\" : [{\"user\":\"root\",\"db\":\"admin\"}], \
         \"roles\" : [{\"role\":\"root\",\"db\":\"admin\"}], \
         \"param\" : {\"msg\":\"one \u{e4}\"}, \"result\" : 0 }"
    );
}

#[test]
fn a_client_on_a_unix_socket() {
    let (_scratch, path) = scratch();
    let server = audited(&options(&path), None, false);
    let mut client = Client::new(&server);
    let address = "anonymous unix socket".to_owned();
    client.connection = server.connect(Peer { address, unix_socket: true, local: None }).unwrap();
    admin(&mut client, "{logApplicationMessage: 'x'}");
    server.close_audit_log();
    let text = fs::read_to_string(&path).unwrap();
    let shown =
        "\"local\" : {\"unix\":\"/tmp/mongodb-27017.sock\"}, \"remote\" : {\"unix\":\"anonymous\"}";
    assert!(text.lines().last().unwrap().contains(shown), "{text}");
}

#[test]
fn refused_and_allowed_commands() {
    let (_scratch, path) = scratch();
    let server = audited(&options(&path), None, true);
    let mut stranger = Client::new(&server);
    stranger.shell("{find: 'c'}");
    let mut client = Client::new(&server);
    log_in(&mut client, "admin", "root", "swordfish");
    client.shell("{createUser: 'u', pwd: 'swordfish', roles: ['read']}");
    let mut user = Client::new(&server);
    log_in(&mut user, "test", "u", "swordfish");
    user.shell("{find: 'c', filter: {a: 1}}");
    user.shell("{insert: 'c', documents: [{a: 1}]}");
    user.shell("{createUser: 'v', pwd: 'swordfish', roles: []}");
    admin(&mut client, "{setParameter: 1, auditAuthorizationSuccess: true}");
    user.shell("{find: 'c', filter: {a: 2}}");
    user.shell("{drop: 'c'}");
    admin(&mut client, "{setParameter: 1, auditAuthorizationSuccess: false}");
    user.shell("{find: 'c', filter: {a: 3}}");
    let all = messages(&server, &path);
    let told = told(&all, &["authCheck"]);
    assert_eq!(told.len(), 6, "{told:#?}");
    for (line, (command, ns, result)) in told.iter().zip([
        ("find", "test.c", 13),
        ("insert", "test.c", 13),
        ("createUser", "test", 13),
        ("setParameter", "admin", 0),
        ("find", "test.c", 0),
        ("drop", "test.c", 13),
    ]) {
        let head = format!("authCheck {{\"command\":\"{command}\",\"ns\":\"{ns}\",\"args\":{{");
        assert!(line.starts_with(&head) && line.ends_with(&format!(" {result}")), "{line}");
    }
    assert!(
        told[4].contains("\"filter\":{\"a\":2}") && told[2].contains("\"pwd\":\"xxx\""),
        "{told:?}"
    );
    assert!(!fs::read_to_string(&path).unwrap().contains("swordfish"));
}

const USER_COMMANDS: &[(&str, &str)] = &[
    (
        "{createRole: 'r', roles: [], privileges: [{resource: {db: 'test', collection: ''}, actions: ['find']}]}",
        "{\"role\":\"r\",\"db\":\"test\",\"roles\":[],\"privileges\":[{\"resource\":{\"db\":\"test\",\
         \"collection\":\"\"},\"actions\":[\"find\"]}]} 0",
    ),
    ("{updateRole: 'r', roles: ['read']}", "{\"role\":\"r\",\"db\":\"test\",\"roles\":[READ]} 0"),
    (
        "{grantRolesToRole: 'r', roles: ['read']}",
        "{\"role\":\"r\",\"db\":\"test\",\"roles\":[READ]} 0",
    ),
    (
        "{revokeRolesFromRole: 'r', roles: ['read']}",
        "{\"role\":\"r\",\"db\":\"test\",\"roles\":[READ]} 0",
    ),
    (
        "{grantPrivilegesToRole: 'r', privileges: [{resource: {db: 'test', collection: 'c'}, actions: ['insert']}]}",
        "{\"role\":\"r\",\"db\":\"test\",\"privileges\":[{\"resource\":{\"db\":\"test\",\"collection\":\"c\"},\
         \"actions\":[\"insert\"]}]} 0",
    ),
    (
        "{revokePrivilegesFromRole: 'r', privileges: [{resource: {db: 'test', collection: 'c'}, actions: ['insert']}]}",
        "{\"role\":\"r\",\"db\":\"test\",\"privileges\":[{\"resource\":{\"db\":\"test\",\"collection\":\"c\"},\
         \"actions\":[\"insert\"]}]} 0",
    ),
    (
        "{createUser: 'u', pwd: 'swordfish', customData: {n: 1}, roles: ['read']}",
        "{\"user\":\"u\",\"db\":\"test\",\"customData\":{\"n\":1},\"roles\":[READ]} 0",
    ),
    (
        "{createUser: 'u', pwd: 'swordfish', roles: []}",
        "{\"user\":\"u\",\"db\":\"test\",\"roles\":[]} 51003",
    ),
    (
        "{updateUser: 'u', pwd: 'swordfish'}",
        "{\"user\":\"u\",\"db\":\"test\",\"passwordChanged\":true} 0",
    ),
    (
        "{grantRolesToUser: 'u', roles: ['read']}",
        "{\"user\":\"u\",\"db\":\"test\",\"roles\":[READ]} 0",
    ),
    (
        "{revokeRolesFromUser: 'u', roles: ['read']}",
        "{\"user\":\"u\",\"db\":\"test\",\"roles\":[READ]} 0",
    ),
    ("{dropUser: 'u'}", "{\"user\":\"u\",\"db\":\"test\"} 0"),
    ("{dropUser: 'u'}", "{\"user\":\"u\",\"db\":\"test\"} 11"),
    ("{dropRole: 'r'}", "{\"role\":\"r\",\"db\":\"test\"} 0"),
    ("{dropAllUsersFromDatabase: 1}", "{\"db\":\"test\"} 0"),
    ("{dropAllRolesFromDatabase: 1}", "{\"db\":\"test\"} 0"),
];

#[test]
fn changes_of_users_and_roles() {
    let (_scratch, path) = scratch();
    let server = audited(&options(&path), None, false);
    let mut client = Client::new(&server);
    for (command, _) in USER_COMMANDS {
        client.shell(command);
    }
    let direct = "{insert: 'system.users', documents: [{_id: 'test.w', user: 'w', db: 'test', roles: [], \
                  credentials: {x: {storedKey: 'swordfish'}}}]}";
    assert!(is_ok(&admin(&mut client, direct)));
    let all = messages(&server, &path);
    let kinds: Vec<String> =
        USER_COMMANDS.iter().map(|(c, _)| c[1..].split(':').next().unwrap().to_owned()).collect();
    let names: Vec<&str> = kinds.iter().map(String::as_str).collect();
    let wanted: Vec<String> = kinds
        .iter()
        .zip(USER_COMMANDS)
        .map(|(kind, (_, param))| {
            format!("{kind} {}", param.replace("READ", "{\"role\":\"read\",\"db\":\"test\"}"))
        })
        .collect();
    assert_eq!(told(&all, &names), wanted);
    let direct = told(&all, &["directAuthMutation"]);
    assert_eq!(direct.len(), 1, "{direct:?}");
    assert!(
        direct[0].contains("\"credentials\":\"xxx\"") && direct[0].contains("admin.system.users")
    );
    assert!(!fs::read_to_string(&path).unwrap().contains("swordfish"));
}

#[test]
fn changes_of_collections_and_indexes() {
    let (_scratch, path) = scratch();
    let server = audited(&options(&path), Some("rs"), false);
    let mut client = Client::new(&server);
    assert!(is_ok(&admin(&mut client, "{replSetInitiate: 1}")));
    client.shell("{insert: 'c', documents: [{a: 1}, {a: 1}]}");
    client.shell("{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a_1'}]}");
    client.shell("{createIndexes: 'c', indexes: [{key: {a: -1}, name: 'u', unique: true}]}");
    client.shell("{create: 'v', viewOn: 'c', pipeline: [{$match: {a: 1}}]}");
    client.shell("{dropIndexes: 'c', index: 'a_1'}");
    admin(&mut client, "{renameCollection: 'test.c', to: 'test.d'}");
    client.shell("{drop: 'none'}");
    client.shell("{drop: 'v'}");
    client.shell("{dropDatabase: 1}");
    let lsid = "lsid: {id: {$binary: {base64: 'AAAAAAAAAAAAAAAAAAAAAA==', subType: '04'}}}, \
                txnNumber: {$numberLong: '1'}, autocommit: false";
    let begin = format!("{{insert: 't', documents: [{{a: 1}}], {lsid}, startTransaction: true}}");
    assert!(is_ok(&client.shell(&begin)));
    assert!(is_ok(&admin(&mut client, &format!("{{commitTransaction: 1, {lsid}}}"))));
    let retryable = "{insert: 'r', documents: [{a: 1}], txnNumber: {$numberLong: '1'}, \
                     lsid: {id: {$binary: {base64: 'AQAAAAAAAAAAAAAAAAAAAA==', subType: '04'}}}}";
    assert!(is_ok(&client.shell(retryable)));
    client.shell("{aggregate: 'r', pipeline: [{$out: 'o'}], cursor: {}}");
    let all = messages(&server, &path);
    let own: Vec<DocBuf> = all
        .into_iter()
        .filter(|message| {
            let param = json::to_relaxed(message.get("param").as_doc().unwrap_or(Doc::EMPTY));
            ["\"test\"", "\"test.", "\"old\""].iter().any(|part| param.contains(part))
        })
        .collect();
    let kinds = [
        "createDatabase",
        "createCollection",
        "createIndex",
        "dropIndex",
        "renameCollection",
        "dropCollection",
        "dropDatabase",
    ];
    let shown = told(&own, &kinds).into_iter().map(without_spec);
    // The collection that `$out` writes before it renames it has a random name.
    let (temporary, shown): (Vec<_>, Vec<_>) = shown.partition(|line| line.contains("tmp.agg_out"));
    assert!(temporary.last().unwrap().ends_with("\"new\":\"test.o\"} 0"), "{temporary:?}");
    assert_eq!(shown, DDL.trim().lines().collect::<Vec<_>>(), "{}", shown.join("\n"));
}

/// A message without the specification of an index.
fn without_spec(line: String) -> String {
    match (line.find(",\"indexSpec\""), line.find(",\"indexBuildState\"")) {
        (Some(from), Some(to)) => format!("{}{}", &line[..from], &line[to..]),
        _ => line,
    }
}

const DDL: &str = r#"
createDatabase {"ns":"test"} 0
createCollection {"ns":"test.c"} 0
createIndex {"ns":"test.c","indexName":"_id_","indexBuildState":"IndexBuildStarted"} 0
createIndex {"ns":"test.c","indexName":"_id_","indexBuildState":"IndexBuildSucceeded"} 0
createIndex {"ns":"test.c","indexName":"a_1","indexBuildState":"IndexBuildStarted"} 0
createIndex {"ns":"test.c","indexName":"a_1","indexBuildState":"IndexBuildSucceeded"} 0
createIndex {"ns":"test.c","indexName":"u","indexBuildState":"IndexBuildStarted"} 0
createIndex {"ns":"test.c","indexName":"u","indexBuildState":"IndexBuildAborted"} 276
createCollection {"ns":"test.v","viewOn":"test.c","pipeline":[{"$match":{"a":1}}]} 0
dropIndex {"ns":"test.c","indexName":"a_1"} 0
renameCollection {"old":"test.c","new":"test.d"} 0
dropCollection {"ns":"test.none"} 26
dropCollection {"ns":"test.v","viewOn":"test.c","pipeline":[{"$match":{"a":1}}]} 0
dropCollection {"ns":"test.d"} 0
dropCollection {"ns":"test.system.views"} 0
dropDatabase {"ns":"test"} 0
createDatabase {"ns":"test"} 0
createCollection {"ns":"test.t"} 0
createIndex {"ns":"test.t","indexName":"_id_","indexBuildState":"IndexBuildStarted"} 0
createIndex {"ns":"test.t","indexName":"_id_","indexBuildState":"IndexBuildSucceeded"} 0
createCollection {"ns":"test.r"} 0
createIndex {"ns":"test.r","indexName":"_id_","indexBuildState":"IndexBuildStarted"} 0
createIndex {"ns":"test.r","indexName":"_id_","indexBuildState":"IndexBuildSucceeded"} 0
"#;

#[test]
fn a_filter_selects_messages() {
    let (_scratch, path) = scratch();
    let filter =
        "{atype: {$in: ['createCollection', 'authenticate']}, 'param.ns': {$not: /^test\\.x/}}";
    let filter = nagi_server::check_audit_filter(filter).unwrap();
    let server = audited(&AuditOptions { filter, ..options(&path) }, None, false);
    let mut client = Client::new(&server);
    for name in ["a", "x1", "b"] {
        client.shell(&format!("{{create: '{name}'}}"));
    }
    let status = admin(&mut client, "{serverStatus: 1}");
    let audit = status.get("nagi").as_doc().unwrap().get("audit").as_doc().unwrap();
    assert!(matches!(audit.get("filtered"), Value::Int64(n) if n > 3), "{audit:?}");
    let mut charged = status.as_doc();
    for name in ["nagi", "memory", "pools", "audit"] {
        charged = charged.get(name).as_doc().unwrap();
    }
    assert_eq!(charged.get("usedBytes"), Value::Int64(16 << 20), "the queue is charged");
    let all = messages(&server, &path);
    let kinds: Vec<&str> = all.iter().filter_map(|m| m.get("atype").as_str()).collect();
    assert_eq!(kinds, ["createCollection", "createCollection"]);
    for bad in
        ["{$where: '1'}", "{$text: {$search: 'x'}}", "{a: {$foo: 1}}", "[", "{a: {$near: [1, 1]}}"]
    {
        assert!(nagi_server::check_audit_filter(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_configuration_changes_at_run_time() {
    let (_scratch, path) = scratch();
    let store = Store::open(Arc::new(nagi_kv::Memory::new()), StoreOptions::default()).unwrap();
    let runtime = AuditOptions { runtime: true, ..options(&path) };
    let server = audited_on(store.clone(), &runtime, None, false);
    let mut client = Client::new(&server);
    let set = "{setAuditConfig: 1, filter: {atype: 'applicationMessage'}, auditAuthorizationSuccess: true}";
    assert!(is_ok(&admin(&mut client, "{logApplicationMessage: 'one'}")));
    assert!(is_ok(&admin(&mut client, set)));
    client.shell("{create: 'c'}");
    assert!(is_ok(&admin(&mut client, "{logApplicationMessage: 'two'}")));
    for bad in [
        "{setParameter: 1, auditAuthorizationSuccess: false}",
        "{setAuditConfig: 1, filter: {a: {$foo: 1}}, auditAuthorizationSuccess: true}",
        "{setAuditConfig: 1, filter: {}, auditAuthorizationSuccess: 1}",
        "{setAuditConfig: 1, filter: {}}",
        "{setClusterParameter: {auditConfig: {filter: {}, other: 1}}}",
    ] {
        assert!(!is_ok(&admin(&mut client, bad)), "{bad}");
    }
    let config = admin(&mut client, "{getAuditConfig: 1}");
    assert_eq!(
        json::to_relaxed(config.get("filter").as_doc().unwrap()),
        "{\"atype\":\"applicationMessage\"}"
    );
    assert_eq!(config.get("auditAuthorizationSuccess"), Value::Bool(true));
    let all = messages(&server, &path);
    assert_eq!(
        told(&all, &["applicationMessage", "createCollection"]),
        ["applicationMessage {\"msg\":\"one\"} 0", "applicationMessage {\"msg\":\"two\"} 0"]
    );
    // The stored configuration applies to the next start.
    drop((client, server));
    let server = audited_on(store, &runtime, None, false);
    let mut client = Client::new(&server);
    let config = admin(&mut client, "{getAuditConfig: 1}");
    assert_eq!(config.get("auditAuthorizationSuccess"), Value::Bool(true));
    let open =
        "{setClusterParameter: {auditConfig: {filter: {}, auditAuthorizationSuccess: false}}}";
    assert!(is_ok(&admin(&mut client, open)));
    client.shell("{create: 'd'}");
    let all = messages(&server, &path);
    assert_eq!(
        told(&all, &["createCollection"]).last().unwrap(),
        "createCollection {\"ns\":\"test.d\"} 0"
    );
    assert_eq!(told(&all, &["auditConfigure"]).len(), 1);
}

#[test]
fn without_an_audit_log_or_its_configuration() {
    let mut client = Client::new(&crate::client::server());
    let set = "{setAuditConfig: 1, filter: {}, auditAuthorizationSuccess: true}";
    let parameter =
        "{setClusterParameter: {auditConfig: {filter: {}, auditAuthorizationSuccess: false}}}";
    for command in ["{getAuditConfig: 1}", set, parameter, "{logApplicationMessage: 'x'}"] {
        assert_eq!(admin(&mut client, command).get("code"), Value::Int32(344), "{command}");
    }
    assert_eq!(admin(&mut client, "{logRotate: 'audit'}").get("code"), Value::Int32(2));
    let (_scratch, path) = scratch();
    let mut client = Client::new(&audited(&options(&path), None, false));
    for command in [set, parameter] {
        assert_eq!(admin(&mut client, command).get("code"), Value::Int32(345), "{command}");
    }
    assert!(is_ok(&admin(&mut client, "{getAuditConfig: 1}")));
}

#[test]
fn a_rotation_begins_a_file() {
    let (scratch, path) = scratch();
    let server = audited(&options(&path), None, false);
    let mut client = Client::new(&server);
    for (which, files) in [("'server'", 1), ("'audit'", 2), ("1", 3)] {
        assert!(is_ok(&admin(&mut client, &format!("{{logRotate: {which}}}"))));
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), files, "{which}");
    }
    let all = messages(&server, &path);
    assert_eq!(all[0].get("atype"), Value::String("rotateLog"));
    let aside = all[0].get("param").as_doc().unwrap().get("logRotationStatus").as_doc().unwrap();
    assert!(Path::new(aside.get("rotatedLogPath").as_str().unwrap()).exists());
}

#[test]
fn bson_and_ocsf() {
    let (_scratch, path) = scratch();
    let bson = AuditOptions { format: AuditFormat::Bson, ..options(&path) };
    let server = audited(&bson, None, false);
    admin(&mut Client::new(&server), "{logApplicationMessage: 'x'}");
    server.close_audit_log();
    let bytes = fs::read(&path).unwrap();
    let (mut rest, mut kinds) = (bytes.as_slice(), Vec::new());
    while let Some(len) = rest.first_chunk::<4>() {
        let (doc, others) = rest.split_at(u32::from_le_bytes(*len) as usize);
        let doc = DocBuf::from_bytes(doc.to_vec()).unwrap();
        kinds.push(doc.get("atype").as_str().unwrap().to_owned());
        assert!(matches!(doc.get("ts"), Value::DateTime(_)));
        rest = others;
    }
    assert_eq!(kinds, ["startup", "applicationMessage"]);
    fs::remove_file(&path).unwrap();
    let server = audited(&AuditOptions { ocsf: true, ..options(&path) }, None, true);
    let mut client = Client::new(&server);
    log_in(&mut client, "admin", "root", "swordfish");
    Client::new(&server).shell("{find: 'c'}");
    let all = messages(&server, &path);
    let of = |uid: i32| all.iter().find(|m| m.get("type_uid") == Value::Int32(uid)).unwrap();
    let login = json::to_relaxed(of(300_201).as_doc());
    assert!(login.contains("\"user\":{\"type_id\":1,\"name\":\"admin.root\"}"), "{login}");
    assert!(login.contains("\"groups\":[{\"name\":\"admin.root\"}]"), "{login}");
    assert!(login.contains("\"auth_protocol\":\"SCRAM-SHA-256\""), "{login}");
    let refused = json::to_relaxed(of(600_300).as_doc());
    assert!(refused.contains("\"response\":{\"code\":13,\"error\":\"Unauthorized\"}"), "{refused}");
    assert_eq!(
        (of(300_101).get("class_uid"), of(100_701).get("category_uid")),
        (Value::Int32(3001), Value::Int32(1))
    );
}

/// Each way to change the collections of users and roles past their commands, and the collections that it changes.
const DIRECT: &[(&str, &[&str])] = &[
    ("{insert: 'system.users', documents: [DOC]}", &["users"]),
    (
        "{update: 'system.users', updates: [{q: {user: 'w'}, u: {$set: {customData: {}}}}]}",
        &["users"],
    ),
    (
        "{findAndModify: 'system.users', query: {user: 'w'}, update: {$set: {customData: {a: 1}}}}",
        &["users"],
    ),
    ("{delete: 'system.users', deletes: [{q: {user: 'w'}, limit: 0}]}", &["users"]),
    (
        "{bulkWrite: 1, ops: [{insert: 0, document: DOC}], nsInfo: [{ns: 'admin.system.users'}]}",
        &["users"],
    ),
    (
        "{bulkWrite: 1, ops: [{update: 0, filter: {user: 'w'}, updateMods: {$set: {customData: {b: 1}}}}, \
         {insert: 1, document: {_id: 'admin.r', role: 'r', db: 'admin', privileges: [], roles: []}}], \
         nsInfo: [{ns: 'admin.system.users'}, {ns: 'admin.system.roles'}]}",
        &["users", "roles"],
    ),
    (
        "{bulkWrite: 1, ops: [{delete: 0, filter: {user: 'w'}}], nsInfo: [{ns: 'admin.system.users'}]}",
        &["users"],
    ),
    ("{applyOps: [{op: 'i', ns: 'admin.system.users', o: DOC}]}", &["users"]),
    (
        "{applyOps: [{op: 'c', ns: 'admin.$cmd', o: {applyOps: [{op: 'd', ns: 'admin.system.users', \
         o: {_id: 'test.w'}}]}}]}",
        &["users"],
    ),
    ("{insert: 'temp', documents: [DOC]}", &[]),
    (
        "{_mergeAuthzCollections: 1, tempUsersCollection: 'admin.temp', drop: false, db: ''}",
        &["users"],
    ),
    // Nothing is written.
    ("{insert: 'system.users', documents: [DOC]}", &[]),
    ("{update: 'system.users', updates: [{q: {user: 'none'}, u: {$set: {a: 1}}}]}", &[]),
    ("{find: 'system.users'}", &[]),
    ("{applyOps: [{op: 'c', ns: 'admin.$cmd', o: {drop: 'system.roles'}}]}", &["roles"]),
    ("{applyOps: [{op: 'c', ns: 'admin.$cmd', o: {create: 'system.roles'}}]}", &["roles"]),
    (
        "{applyOps: [{op: 'c', ns: 'admin.$cmd', o: {renameCollection: 'admin.temp', \
         to: 'admin.system.users', dropTarget: true}}]}",
        &["users"],
    ),
];

const DOC: &str = "{_id: 'test.w', user: 'w', db: 'test', roles: [], \
                   credentials: {'SCRAM-SHA-256': {storedKey: 'swordfish'}}}";

/// Whatever command reaches the collections of users and roles, the audit log tells of it.
#[test]
fn direct_changes_of_users_by_any_command() {
    let (_scratch, path) = scratch();
    let server = audited(&options(&path), Some("rs"), false);
    let mut client = Client::new(&server);
    assert!(is_ok(&admin(&mut client, "{replSetInitiate: 1}")));
    assert!(is_ok(&admin(&mut client, "{createRole: 'first', privileges: [], roles: []}")));
    let mut wanted = Vec::new();
    for (command, changed) in DIRECT {
        let command = command.replace("DOC", DOC);
        let reply = admin(&mut client, &command);
        assert!(is_ok(&reply), "{command}: {reply:?}");
        let name = command[1..].split(':').next().unwrap().to_owned();
        wanted.extend(changed.iter().map(|kind| (name.clone(), format!("admin.system.{kind}"))));
    }
    let lsid = "lsid: {id: {$binary: {base64: 'AAAAAAAAAAAAAAAAAAAAAA==', subType: '04'}}}, \
                txnNumber: {$numberLong: '1'}, autocommit: false";
    let other = DOC.replace("test.w", "test.t");
    let begin =
        format!("{{insert: 'system.users', documents: [{other}], {lsid}, startTransaction: true}}");
    let begun = admin(&mut client, &begin);
    if is_ok(&begun) {
        assert!(is_ok(&admin(&mut client, &format!("{{commitTransaction: 1, {lsid}}}"))));
        for name in ["insert", "commitTransaction"] {
            wanted.push((name.to_owned(), "admin.system.users".to_owned()));
        }
    }
    let all = messages(&server, &path);
    let found: Vec<(String, String)> = all
        .iter()
        .filter(|message| message.get("atype").as_str() == Some("directAuthMutation"))
        .map(|message| {
            let param = message.get("param").as_doc().unwrap();
            let text = |name: &str| param.get(name).as_str().unwrap().to_owned();
            assert!(!param.get("document").is_missing());
            (text("operation"), text("ns"))
        })
        .collect();
    assert_eq!(found, wanted);
    assert!(!fs::read_to_string(&path).unwrap().contains("swordfish"));
}

/// Neither of requests that are allowed nor of others, on any database.
#[test]
fn the_key_of_query_statistics_is_not_told() {
    let (_scratch, path) = scratch();
    let server = audited(&options(&path), None, true);
    let mut root = Client::new(&server);
    log_in(&mut root, "admin", "root", "swordfish");
    admin(&mut root, "{setParameter: 1, auditAuthorizationSuccess: true}");
    admin(&mut root, "{createUser: 'weak', pwd: 'p', roles: []}");
    let mut weak = Client::new(&server);
    log_in(&mut weak, "admin", "weak", "p");
    let stage = "{aggregate: 1, cursor: {}, pipeline: [{$queryStats: {transformIdentifiers: {algorithm: \
                 'hmac-sha-256', hmacKey: {$binary: {base64: 'c3dvcmRmaXNo', subType: '08'}}}}}]}";
    for db in ["admin", "test"] {
        root.run(db, json::parse(stage).unwrap().as_doc());
        weak.run(db, json::parse(stage).unwrap().as_doc());
    }
    let told = told(&messages(&server, &path), &["authCheck"]).join("\n");
    assert!(told.matches("$queryStats").count() >= 3, "{told}");
    assert!(told.contains("hmacKey") && told.contains("xxx"), "{told}");
    for form in ["c3dvcmRmaXNo", "73776F726466697368", "73776f726466697368"] {
        assert!(!told.contains(form), "{told}");
    }
}

//! `txnNumber`, `autocommit` and `startTransaction` on every command, with and without a login, on a member of a
//! replica set and on a server that is none. The expected errors are MongoDB's, in its order: those of commands that
//! need no login, of the session, of the fields beside each other, and of the command's own kind.

use nagi_bson::{DocBuf, Value, json};

use crate::client::{Client, is_ok, member, server};
use crate::login::{guarded_member, log_in};

/// Commands that run within a transaction.
const IN_TRANSACTION: &[&str] = &[
    "abortTransaction",
    "aggregate",
    "bulkWrite",
    "commitTransaction",
    "create",
    "createIndexes",
    "delete",
    "distinct",
    "find",
    "findAndModify",
    "getMore",
    "insert",
    "killCursors",
    "update",
];
/// Commands that may have a transaction number alone.
const RETRYABLE: &[&str] = &["bulkWrite", "delete", "findAndModify", "insert", "update"];
/// Each error of the checks has one of these texts.
const TEXTS: &[&str] = &[
    "This command is not supported in transactions",
    "It is illegal to provide a txnNumber for this command",
    "requires a session ID to also be specified",
    "are only allowed on a replica set member or mongos",
    "Transaction number cannot be negative",
    "requires a transaction number to also be specified",
    "Specifying autocommit=true is not allowed.",
    "requires 'autocommit' field to also be specified",
    "Specifying startTransaction=false is not allowed.",
    "in a multi-document transaction.",
    "Cannot start a transaction with",
    "is not a retryable write command.",
];

/// The fields of a command that concern transactions.
#[derive(Debug, Clone, Copy, Default)]
struct Fields {
    lsid: bool,
    number: Option<i64>,
    autocommit: Option<bool>,
    start: Option<bool>,
}

/// All combinations of them.
fn combinations() -> Vec<Fields> {
    let switches = [None, Some(false), Some(true)];
    let mut all = Vec::new();
    for lsid in [false, true] {
        for number in [None, Some(-1), Some(1)] {
            for autocommit in switches {
                for start in switches {
                    let fields = Fields { lsid, number, autocommit, start };
                    if number.is_some() || autocommit.is_some() || start.is_some() {
                        all.push(fields);
                    }
                }
            }
        }
    }
    all
}

impl Fields {
    fn text(self) -> String {
        let mut text = String::new();
        if self.lsid {
            text += ", lsid: {id: UUID(\"00112233-4455-6677-8899-aabbccddeeff\")}";
        }
        if let Some(number) = self.number {
            text += &format!(", txnNumber: NumberLong({number})");
        }
        if let Some(autocommit) = self.autocommit {
            text += &format!(", autocommit: {autocommit}");
        }
        if let Some(start) = self.start {
            text += &format!(", startTransaction: {start}");
        }
        text
    }
}

/// A command as `listCommands` shows it.
struct Listed {
    name: String,
    needs_login: bool,
    admin_only: bool,
}

fn listed(client: &mut Client) -> Vec<Listed> {
    let reply = client.shell("{listCommands: 1}");
    assert!(is_ok(&reply), "{reply:?}");
    let commands = reply.get("commands").as_doc().unwrap();
    let listed = |name: &str, facts: Value<'_>| {
        let facts = facts.as_doc().unwrap();
        Listed {
            name: name.to_owned(),
            needs_login: facts.get("requiresAuth") == Value::Bool(true),
            admin_only: facts.get("adminOnly") == Value::Bool(true),
        }
    };
    commands.iter().map(|element| listed(element.name(), element.value())).collect()
}

/// The kind of server and client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    Standalone,
    Member,
    /// A member with authorization.
    LoggedIn,
    NotLoggedIn,
}

/// The error that the checks answer, by MongoDB's code and text; none if the command gets to its own checks.
fn expected(command: &Listed, fields: Fields, setting: Setting) -> Option<(i32, String)> {
    let name = command.name.as_str();
    let error = |code: i32, text: &str| Some((code, text.to_owned()));
    if !command.needs_login && fields.autocommit.is_some() {
        return error(263, "This command is not supported in transactions");
    }
    if !command.needs_login && fields.number.is_some() {
        return error(50889, "It is illegal to provide a txnNumber for this command");
    }
    if setting == Setting::NotLoggedIn {
        return match command.needs_login {
            true => Some((13, format!("Command {name} requires authentication"))),
            false => None,
        };
    }
    let Fields { lsid, number, autocommit, start } = fields;
    if number.is_some() && !lsid {
        return error(72, "Transaction number requires a session ID to also be specified");
    }
    if number.is_some() && setting == Setting::Standalone {
        return error(20, "Transaction numbers are only allowed on a replica set member or mongos");
    }
    if number.is_some_and(|number| number < 0) {
        return error(72, "Transaction number cannot be negative");
    }
    if number.is_none() && autocommit.is_some() {
        return error(72, "'autocommit' field requires a transaction number to also be specified");
    }
    if autocommit == Some(true) {
        return error(72, "Specifying autocommit=true is not allowed.");
    }
    if autocommit.is_none() && start.is_some() {
        return error(
            72,
            "'startTransaction' field requires 'autocommit' field to also be specified",
        );
    }
    if start == Some(false) {
        return error(72, "Specifying startTransaction=false is not allowed.");
    }
    if autocommit.is_some() {
        return refused_in_transaction(name, start.is_some());
    }
    if number.is_some() && !RETRYABLE.contains(&name) {
        return Some((
            50768,
            format!(
                "txnNumber may only be provided for multi-document transactions and retryable write commands. \
                 autocommit:false was not provided, and {name} is not a retryable write command."
            ),
        ));
    }
    None
}

fn refused_in_transaction(name: &str, starts: bool) -> Option<(i32, String)> {
    let advice = match name {
        "count" => {
            " Please see http://dochub.mongodb.org/core/transaction-count for a recommended alternative."
        }
        _ => "",
    };
    if !IN_TRANSACTION.contains(&name) {
        return Some((
            263,
            format!("Cannot run '{name}' in a multi-document transaction.{advice}"),
        ));
    }
    let begins = match name {
        "killCursors" => {
            "Cannot run killCursors as the first operation in a multi-document transaction."
        }
        "commitTransaction" => "Cannot start a transaction with a commit",
        "abortTransaction" => "Cannot start a transaction with an abort",
        _ => return None,
    };
    starts.then(|| (263, begins.to_owned()))
}

/// Checks one command with all combinations. Returns how many of them were refused by the checks.
fn check(client: &mut Client, command: &Listed, setting: Setting) -> usize {
    let db = if command.admin_only { "admin" } else { "test" };
    let mut refused = 0;
    for fields in combinations() {
        let text = format!("{{{}: 'c'{}}}", command.name, fields.text());
        let reply = client.run(db, json::parse(&text).unwrap().as_doc());
        let seen = reply.get("errmsg").as_str().unwrap_or_default();
        match expected(command, fields, setting) {
            Some((code, errmsg)) => {
                assert_eq!(
                    (seen, reply.get("code")),
                    (errmsg.as_str(), Value::Int32(code)),
                    "{text}"
                );
                refused += 1;
            }
            None => assert!(!TEXTS.iter().any(|text| seen.contains(text)), "{text}: {reply:?}"),
        }
    }
    refused
}

#[test]
fn every_command_has_mongodbs_errors() {
    for (setting, server) in [(Setting::Standalone, server()), (Setting::Member, member())] {
        let mut client = Client::new(&server);
        let all = listed(&mut client);
        assert!(all.len() > 100 && all.iter().any(|command| !command.needs_login));
        let refused: usize = all.iter().map(|command| check(&mut client, command, setting)).sum();
        assert!(refused > all.len() * 40, "{refused} of {}", all.len());
    }
}

/// A session needs a user. Commands that need no login ignore the one of a client without a user, but not a
/// number of a transaction.
#[test]
fn a_login_gives_a_session() {
    let server = guarded_member();
    let mut client = Client::new(&server);
    let all = listed(&mut client);
    for command in &all {
        check(&mut client, command, Setting::NotLoggedIn);
    }
    let mut client = Client::new(&server);
    assert!(is_ok(&log_in(&mut client, "admin", "root", "pwd")));
    // The privileges of others depend on arguments that are missing here; `logout` would end the login.
    let checked = ["hello", "ping", "buildInfo", "insert", "find", "count", "killCursors"];
    let checked = all.iter().filter(|command| checked.contains(&command.name.as_str()));
    assert_eq!(checked.map(|command| check(&mut client, command, Setting::LoggedIn)).count(), 7);
}

/// The first user is created by a client without a login, whose driver may send a session: it is ignored.
#[test]
fn the_first_user_needs_no_session() {
    let server =
        crate::client::server_with(std::sync::Arc::new(nagi_kv::Memory::new()), Some("rs"), true);
    let mut client = Client::new(&server);
    let run = |client: &mut Client, text: &str| -> DocBuf {
        client.run("admin", json::parse(text).unwrap().as_doc())
    };
    assert!(is_ok(&run(&mut client, "{replSetInitiate: 1}")));
    let fields = Fields { lsid: true, number: Some(1), ..Fields::default() }.text();
    let created = format!("{{createUser: 'root', pwd: 'pwd', roles: ['root']{fields}}}");
    let reply = run(&mut client, &created);
    assert!(is_ok(&reply), "{reply:?}");
}

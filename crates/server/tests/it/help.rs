//! `help: true` returns the help text of a command and does nothing else.

use nagi_bson::{DocBuf, Value, doc};

use crate::client::{Client, is_ok, member};
use crate::legacy::query;
use crate::login::guarded_member;

/// The names of all commands with their help texts.
fn commands(client: &mut Client) -> Vec<(String, String)> {
    let reply = client.run("admin", doc! { "listCommands": 1 }.as_doc());
    let list = reply.get("commands").as_doc().unwrap();
    let text = |field: nagi_bson::Element<'_>| {
        field.value().as_doc().unwrap().get("help").as_str().unwrap().to_owned()
    };
    list.iter().map(|field| (field.name().to_owned(), text(field))).collect()
}

/// Asks for the help of a command, with arguments that it does not have and on a database of its users.
fn help(client: &mut Client, name: &str, value: Value<'_>) -> DocBuf {
    let body = DocBuf::build(|out| {
        out.put(name, "c");
        out.put("help", value);
        out.put("writeConcern", &doc! { "w": 1 });
        out.put("noSuchArgument", 1);
    });
    client.run("test", body.as_doc())
}

/// Neither a login nor the database `admin` is needed, and no command runs: not even `shutdown`.
#[test]
fn every_command_has_help() {
    let server = guarded_member();
    let mut client = Client::new(&server);
    let commands = commands(&mut client);
    assert!(commands.len() > 130, "{}", commands.len());
    for (name, text) in &commands {
        assert!(text.ends_with('.') && text.len() > 10, "{name}: {text}");
        let reply = help(&mut client, name, Value::Bool(true));
        assert_eq!(reply, doc! { "help": format!("help for: {name} {text}").as_str(), "ok": 1.0 });
    }
    assert_eq!(help(&mut client, "noSuchCommand", Value::Bool(true)).get("code"), Value::Int32(59));
}

#[test]
fn only_true_asks_for_help() {
    let server = member();
    let mut client = Client::new(&server);
    assert!(is_ok(&client.shell("{insert: 'c', documents: [{_id: 1}], help: false}")));
    assert!(is_ok(&client.shell("{insert: 'c', documents: [{_id: 2}], help: null}")));
    for truthy in ["true", "1", "NumberLong(1)", "'x'", "{}"] {
        let reply = client
            .shell(&format!("{{delete: 'c', deletes: [{{q: {{}}, limit: 0}}], help: {truthy}}}"));
        assert_eq!(
            reply.get("help").as_str(),
            Some("help for: delete Removes documents from a collection."),
            "{truthy}"
        );
    }
    assert_eq!(client.shell("{count: 'c', help: 0}").get("n"), Value::Int32(2));
    // An alias has the help of its command.
    let reply = client.shell("{findandmodify: 'c', help: true}");
    assert!(
        reply.get("help").as_str().unwrap().starts_with("help for: findAndModify "),
        "{reply:?}"
    );
    let refused = client.shell("{insert: 'c', help: true, help: true}");
    assert!(!is_ok(&refused), "{refused:?}");
    let strict = client.shell("{serverStatus: 1, help: true, apiVersion: '1', apiStrict: true}");
    assert_eq!(strict.get("code"), Value::Int32(323));
}

/// As in MongoDB it is no operation.
#[test]
fn help_is_not_counted() {
    let server = member();
    let mut client = Client::new(&server);
    let counted = |client: &mut Client| {
        let status = client.run("admin", doc! { "serverStatus": 1 }.as_doc());
        let metrics = status.get("metrics").as_doc().unwrap();
        let insert = metrics.get("commands").as_doc().unwrap().get("insert");
        let total = insert.as_doc().unwrap().get("total").to_string();
        (status.get("opcounters").as_doc().unwrap().get("insert").to_string(), total)
    };
    let before = counted(&mut client);
    client.shell("{insert: 'c', documents: [{_id: 1}], help: true}");
    assert_eq!(counted(&mut client), before);
}

/// Commands by OP_QUERY run for the oldest drivers, and so their help is answered, with and without a wrapper.
#[test]
fn legacy_commands_have_the_same_help() {
    let server = guarded_member();
    let mut client = Client::new(&server);
    for command in
        [doc! { "insert": "c", "help": true }, doc! { "$query": { "insert": "c", "help": true } }]
    {
        let (_, _, docs) = query(&mut client, "test.$cmd", -1, &command);
        let text = docs[0].get("help").as_str();
        assert_eq!(text, Some("help for: insert Stores documents in a collection."), "{docs:?}");
        let last = doc! { "getLastError": 1, "help": 1 };
        let (_, _, docs) = query(&mut client, "test.$cmd", -1, &last);
        assert!(docs[0].get("help").as_str().is_some_and(|text| text.contains("getLastError")));
    }
    let (_, _, docs) = query(&mut client, "test.$cmd", -1, &doc! { "count": "c", "help": false });
    assert_eq!(docs[0].get("code"), Value::Int32(13), "{docs:?}");
}

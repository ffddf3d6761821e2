//! The form of commands in logs, errors, currentOp, profiles and audit messages: secrets are hidden, large commands
//! truncated.
//!
//! | where                                          | hidden                                                |
//! |------------------------------------------------|-------------------------------------------------------|
//! | commands whose rows say so                     | the arguments of [`SECRETS`]                          |
//! | `createUser`, `updateUser`, also within others | every field that is not one of [`SHOWN_OF_USERS`]     |
//! | commands that may contain documents of users   | fields of [`SECRETS_OF_USERS`], however deep          |
//! | commands with a pipeline                       | the same in a stage `$queryStats`: it has a key       |

use nagi_bson::{Array, ArrayWriter, Doc, DocBuf, DocWriter, Value};

use crate::beginning::{NAME_BYTES_MAX, TRUNCATED, put_beginning, put_pipeline};
use crate::limits::OP_COMMAND_BYTES_MAX;

/// Arguments that hold secrets, in commands whose rows declare them.
const SECRETS: &[&str] = &[
    "cleanupTokens",
    "compactionTokens",
    "key",
    "ldapQueryPassword",
    "nonce",
    "payload",
    "pwd",
    "speculativeAuthenticate",
];

/// Fields that are secrets wherever they are: in documents of users, and in commands within `applyOps`.
const SECRETS_OF_USERS: &[&str] = &[
    "credentials",
    // Of `$queryStats`.
    "hmacKey",
    "ldapQueryPassword",
    "payload",
    "pwd",
    // Of a difference in the oplog, where the name of a changed document begins with an s.
    "scredentials",
    "serverKey",
    "speculativeAuthenticate",
    "storedKey",
];

/// What is shown of the commands that have passwords, and arguments with a dollar sign. A password under a name that is
/// misspelt is one, too.
const SHOWN_OF_USERS: &[&str] = &[
    "apiDeprecationErrors",
    "apiStrict",
    "apiVersion",
    "authenticationRestrictions",
    "comment",
    "createUser",
    "customData",
    "digestPassword",
    "lsid",
    "maxTimeMS",
    "mechanisms",
    "roles",
    "updateUser",
    "writeConcern",
];

const HIDDEN: &str = "xxx";

/// The stage with a secret, in `hmacKey`.
const QUERY_STATS: &str = "$queryStats";

/// Tells if a command's arguments hold secrets, which are never logged or shown.
#[derive(Clone, Copy)]
pub(crate) enum Secret {
    No,
    Yes,
    /// It has a password.
    Password,
    /// A stage of its argument `pipeline` may have a secret.
    Pipeline,
    /// The argument with this name carries another command; the function finds the `Secret` of that command's row by
    /// its name.
    Carried(&'static str, fn(&str) -> Secret),
}

/// A command as messages may show it: truncated if it is large, secret arguments hidden.
pub(crate) fn printable(command: Doc<'_>, secret: Secret) -> DocBuf {
    if command.len() > OP_COMMAND_BYTES_MAX {
        let mut cut = Vec::new();
        write_cut(&mut cut, command);
        let cut = DocBuf::from_bytes(cut).unwrap_or_default();
        return hide_secrets(cut.as_doc(), secret);
    }
    hide_secrets(command, secret)
}

/// The name of a command and its target, without its arguments.
pub(crate) fn without_arguments(command: Doc<'_>) -> DocBuf {
    DocBuf::build(|out| {
        if let Some(first) = command.first() {
            match first.value() {
                Value::Doc(_) | Value::Array(_) => out.put(first.name(), "xxx"),
                _ => out.put_element(first),
            }
        }
        if let Some(db) = command.element("$db") {
            out.put_element(db);
        }
    })
}

fn hide_secrets(command: Doc<'_>, secret: Secret) -> DocBuf {
    if matches!(secret, Secret::No) {
        return command.to_buf();
    }
    let inner = |name: &str, value: Doc<'_>| match secret {
        Secret::Carried(at, secret_of) if at == name => {
            secret_of(value.first().map_or("", |first| first.name()))
        }
        _ => Secret::No,
    };
    DocBuf::build(|out| {
        if matches!(secret, Secret::Password) {
            return write_password_command(command, out);
        }
        for element in command {
            let name = element.name();
            match element.value() {
                _ if SECRETS.contains(&name) => out.put(name, HIDDEN),
                Value::Doc(carried) if !matches!(inner(name, carried), Secret::No) => {
                    out.put(name, hide_secrets(carried, inner(name, carried)).as_doc());
                }
                value if matches!(secret, Secret::Yes) => put_hidden(name, value, out),
                value if matches!(secret, Secret::Pipeline) => put_stages(name, value, out),
                _ => out.put_element(element),
            }
        }
    })
}

/// A command that may contain documents of users, or other commands: the same without their secrets, truncated if it
/// is large; `None` if it is to be shown as it is.
pub(crate) fn without_users_secrets(command: Doc<'_>) -> Option<DocBuf> {
    if command.len() <= OP_COMMAND_BYTES_MAX {
        return has_users_secrets(command).then(|| DocBuf::build(|out| write_hidden(command, out)));
    }
    let mut cut = Vec::new();
    write_cut(&mut cut, command);
    let cut = DocBuf::from_bytes(cut).unwrap_or_default();
    Some(DocBuf::build(|out| write_hidden(cut.as_doc(), out)))
}

fn has_users_secrets(doc: Doc<'_>) -> bool {
    fn within(value: Value<'_>) -> bool {
        match value {
            Value::Doc(doc) => has_users_secrets(doc),
            Value::Array(items) => items.iter().any(within),
            _ => false,
        }
    }
    is_password_command(doc)
        || doc.iter().any(|field| is_users_secret(field.name()) || within(field.value()))
}

/// Also "credentials.SCRAM-SHA-256.storedKey".
fn is_users_secret(name: &str) -> bool {
    name.split('.').any(|part| SECRETS_OF_USERS.contains(&part))
}

fn is_password_command(doc: Doc<'_>) -> bool {
    let first = doc.iter().find(|field| field.name() != TRUNCATED);
    first.is_some_and(|first| ["createUser", "updateUser"].contains(&first.name()))
}

/// Copies a document without the secrets of users.
pub(crate) fn write_hidden(doc: Doc<'_>, out: &mut DocWriter<'_>) {
    match is_password_command(doc) {
        true => write_password_command(doc, out),
        false => doc.iter().for_each(|field| put_hidden(field.name(), field.value(), out)),
    }
}

fn write_password_command(command: Doc<'_>, out: &mut DocWriter<'_>) {
    let mut is_first = true;
    for field in command {
        let name = field.name();
        let is_name = name != TRUNCATED && std::mem::take(&mut is_first);
        let is_shown = SHOWN_OF_USERS.contains(&name) || name.starts_with('$');
        match field.value() {
            // What is not a name may be anything.
            Value::Doc(_) | Value::Array(_) if is_name => out.put(name, HIDDEN),
            value if is_shown => put_hidden(name, value, out),
            _ => out.put(name, HIDDEN),
        }
    }
}

/// Writes a field without the secrets of users.
pub(crate) fn put_hidden(name: &str, value: Value<'_>, out: &mut DocWriter<'_>) {
    match value {
        _ if is_users_secret(name) => out.put(name, HIDDEN),
        Value::Doc(inner) => out.doc(name, |out| write_hidden(inner, out)),
        Value::Array(items) => out.array(name, |out| push_hidden(items, out)),
        other => out.put(name, other),
    }
}

fn push_hidden(items: Array<'_>, out: &mut ArrayWriter<'_>) {
    for item in items.iter() {
        match item {
            Value::Doc(inner) => out.doc(|out| write_hidden(inner, out)),
            Value::Array(items) => out.array(|out| push_hidden(items, out)),
            other => out.push(other),
        }
    }
}

/// True if the pipeline of a command has a stage with a secret.
pub(crate) fn has_secret_stage(command: Doc<'_>) -> bool {
    fn within(value: Value<'_>) -> bool {
        match value {
            Value::Doc(doc) => {
                doc.iter().any(|field| field.name() == QUERY_STATS || within(field.value()))
            }
            Value::Array(items) => items.iter().any(within),
            _ => false,
        }
    }
    within(command.get("pipeline"))
}

/// Writes a field without the secrets of stages in it. Fields of other stages may have any name.
fn put_stages(name: &str, value: Value<'_>, out: &mut DocWriter<'_>) {
    match value {
        _ if name == QUERY_STATS => put_hidden(name, value, out),
        Value::Doc(inner) => out.doc(name, |out| write_stages(inner, out)),
        Value::Array(items) => out.array(name, |out| push_stages(items, out)),
        other => out.put(name, other),
    }
}

fn write_stages(doc: Doc<'_>, out: &mut DocWriter<'_>) {
    doc.iter().for_each(|field| put_stages(field.name(), field.value(), out));
}

fn push_stages(items: Array<'_>, out: &mut ArrayWriter<'_>) {
    for item in items.iter() {
        match item {
            Value::Doc(inner) => out.doc(|out| write_stages(inner, out)),
            Value::Array(items) => out.array(|out| push_stages(items, out)),
            other => out.push(other),
        }
    }
}

/// Writes the small fields of a large command, and the beginnings of others with the names of the first stages, so that
/// it can still be recognized. Commands with passwords have only their small fields.
pub(crate) fn write_cut(out: &mut Vec<u8>, command: Doc<'_>) {
    let mut writer = DocWriter::new(out);
    writer.put(TRUNCATED, true);
    let is_shown = !is_password_command(command);
    for element in command {
        let name = element.name();
        let small = element.value_bytes().len() <= 256;
        match element.value() {
            _ if writer.len() > OP_COMMAND_BYTES_MAX => break,
            _ if name.len() > NAME_BYTES_MAX => {
                let name = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
                writer.put(&format!("{name}..."), "...");
            }
            value if small => writer.put(name, value),
            Value::Array(stages) if name == "pipeline" => {
                put_pipeline("pipeline", stages, &mut writer);
            }
            _ if is_shown => put_beginning(element, &mut writer),
            Value::Array(_) => writer.put(name, "[...]"),
            _ => writer.put(name, "..."),
        }
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::doc;

    use super::*;

    #[test]
    fn a_command_that_is_cut_is_small_and_has_no_password() {
        let large = "x".repeat(6000);
        let user = doc! { "user": "x", "password": "S3" };
        let commands = [
            doc! { "createUser": &user, "customData": doc! { "x": &large } },
            doc! { "updateUser": Value::Array(doc! { "0": "S3" }.as_doc().as_array()), "c": &large },
            doc! { "createUser": "x", "pwd": "S3", "roles": &large, "password": "S3" },
        ];
        for command in commands {
            let shown = without_users_secrets(command.as_doc()).unwrap();
            let shown = shown.as_doc().to_string();
            assert!(!shown.contains("S3") && shown.contains("User"), "{shown}");
        }
        let named = DocBuf::build(|out| {
            out.put("ping", 1);
            out.put(&"n".repeat(10 << 20), 1);
            out.put(&"m".repeat(10 << 20), large.as_str());
        });
        let mut cut = Vec::new();
        write_cut(&mut cut, named.as_doc());
        assert!(cut.len() < 1000, "{}", cut.len());
        let cut = DocBuf::from_bytes(cut).unwrap();
        assert_eq!((cut.get("ping"), cut.as_doc().iter().count()), (Value::Int32(1), 4));
    }
}

//! The form of commands in logs, errors and currentOp: secrets are hidden, large commands truncated.

use nagi_bson::{Doc, DocBuf, DocWriter, Value};

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

/// Tells if a command's arguments hold secrets, which are never logged or shown.
#[derive(Clone, Copy)]
pub(crate) enum Secret {
    No,
    Yes,
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
        for element in command {
            let name = element.name();
            match element.value() {
                _ if SECRETS.contains(&name) => out.put(name, "xxx"),
                Value::Doc(carried) if !matches!(inner(name, carried), Secret::No) => {
                    out.put(name, hide_secrets(carried, inner(name, carried)).as_doc());
                }
                _ => out.put_element(element),
            }
        }
    })
}

/// Writes the small fields of a large command, so that it can still be recognized.
pub(crate) fn write_cut(out: &mut Vec<u8>, command: Doc<'_>) {
    let mut writer = DocWriter::new(out);
    writer.put("$truncated", true);
    for element in command {
        let small = element.value_bytes().len() <= 256 && element.name().len() <= 64;
        match element.value() {
            _ if writer.len() > OP_COMMAND_BYTES_MAX => break,
            value if small => writer.put(element.name(), value),
            Value::Array(_) => writer.put(element.name(), "[...]"),
            _ => writer.put(element.name(), "..."),
        }
    }
}

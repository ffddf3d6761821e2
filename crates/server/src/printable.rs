//! Commands as logs, errors and currentOp show them.

use nagi_bson::{Doc, DocBuf, DocWriter, Value};

use crate::limits::OP_COMMAND_BYTES_MAX;

/// Arguments that hold secrets, in commands whose rows say so.
const SECRETS: &[&str] = &["key", "nonce", "payload", "pwd", "speculativeAuthenticate"];

/// Whether a command's arguments hold secrets: those are never logged or shown.
#[derive(Clone, Copy)]
pub(crate) enum Secret {
    No,
    Yes,
    /// It carries another command, in the argument of this name: that one's row decides, which the function finds.
    Carried(&'static str, fn(&str) -> Secret),
}

/// A command as messages may show it: cut if it is large, secret arguments hidden.
pub(crate) fn printable(command: Doc<'_>, secret: Secret) -> DocBuf {
    if command.len() > OP_COMMAND_BYTES_MAX {
        let mut cut = Vec::new();
        write_cut(&mut cut, command);
        let cut = DocBuf::from_bytes(cut).unwrap_or_default();
        return hide_secrets(cut.as_doc(), secret);
    }
    hide_secrets(command, secret)
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

/// The small fields of a large command, so that one still sees what it is.
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

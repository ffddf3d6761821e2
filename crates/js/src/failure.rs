//! Converts exceptions of scripts to errors with MongoDB's texts: `TypeError: text :\n@:line:column\n`.

use std::fmt::Write as _;

use nagi_error::{Code, Error};
use rquickjs::{Ctx, Object, Value};

use crate::from_js::{Failure, utf8};
use crate::host::Shared;

/// Longer texts are truncated.
const TEXT_BYTES_MAX: usize = 4096;

/// The error of a failed call. An interruption from outside (time limit, kill) takes precedence over the exception.
pub(crate) fn error(ctx: &Ctx<'_>, shared: &Shared, failure: Failure) -> Error {
    let error = match failure {
        Failure::Limit(error) => error,
        Failure::Script(rquickjs::Error::Exception) => {
            let thrown = ctx.catch();
            Error::new(Code::JS_INTERPRETER_FAILURE, cut(describe(&thrown)))
        }
        Failure::Script(rquickjs::Error::Allocation) => {
            Error::new(Code::JS_INTERPRETER_FAILURE, "InternalError: out of memory")
        }
        Failure::Script(other) => {
            Error::new(Code::JS_INTERPRETER_FAILURE, cut(format!("Error: {other}")))
        }
    };
    shared.pace.stopped().unwrap_or(error)
}

fn describe(thrown: &Value<'_>) -> String {
    let object = thrown.as_object().filter(|_| thrown.is_error());
    let Some(object) = object else {
        // When memory is used up, QuickJS may be unable to create an exception object.
        return match thrown.is_null() || thrown.is_undefined() {
            true => format!(
                "uncaught exception: {}",
                if thrown.is_null() { "null" } else { "undefined" }
            ),
            false => format!("uncaught exception: {}", shown(thrown)),
        };
    };
    let mut out = match (field(object, "name"), field(object, "message")) {
        (Some(name), Some(message)) if !message.is_empty() => format!("{name}: {message}"),
        (Some(name), _) => name,
        (None, message) => message.unwrap_or_default(),
    };
    out.push_str(" :\n");
    for line in field(object, "stack").unwrap_or_default().lines() {
        if let Some((name, place)) = frame(line) {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{name}@{place}");
        }
    }
    out
}

/// Parses a line of a stack, `    at name (file:line:column)`, to the name and `:line:column`.
fn frame(line: &str) -> Option<(&str, &str)> {
    let line = line.trim().strip_prefix("at ")?;
    let (name, place) = match line.split_once(" (") {
        Some((name, place)) => (name, place.strip_suffix(')')?),
        None => ("", line),
    };
    let name = if name == "<anonymous>" || name == "<eval>" { "" } else { name };
    // The file name is removed; native functions have no position.
    let at = place.find(':')?;
    Some((name, &place[at..]))
}

fn field(object: &Object<'_>, name: &str) -> Option<String> {
    let value: Value<'_> = object.get(name).ok()?;
    text(&value)
}

fn text(value: &Value<'_>) -> Option<String> {
    utf8(value.as_string()?).ok()
}

fn shown(value: &Value<'_>) -> String {
    let coerced = value.get::<rquickjs::convert::Coerced<String>>();
    coerced.map_or_else(|_| "an object".to_owned(), |text| text.0)
}

fn cut(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

//! The form of messages: a line of JSON or a document of BSON, with the fields of MongoDB or of OCSF.

use nagi_bson::json::{base64_encode, write_relaxed, write_string};
use nagi_bson::{Binary, Doc, Value};

use super::ocsf;
use super::options::{AuditFormat, AuditOptions};
use crate::clock;

#[derive(Clone, Copy)]
pub(super) struct Encoding {
    format: AuditFormat,
    ocsf: bool,
}

impl Encoding {
    pub(super) fn of(options: &AuditOptions) -> Encoding {
        Encoding { format: options.format, ocsf: options.ocsf }
    }

    /// Appends a message.
    pub(super) fn write(self, message: Doc<'_>, out: &mut Vec<u8>) {
        let translated = self.ocsf.then(|| ocsf::translate(message));
        let shown = translated.as_ref().map_or(message, |doc| doc.as_doc());
        match self.format {
            AuditFormat::Bson => out.extend_from_slice(shown.as_bytes()),
            AuditFormat::Json => {
                out.extend_from_slice(line(shown).as_bytes());
                out.push(b'\n');
            }
        }
    }
}

/// One line: MongoDB's older forms of dates and UUIDs at the top level, relaxed extended JSON below.
fn line(message: Doc<'_>) -> String {
    let mut line = String::with_capacity(2 * message.len());
    let mut before = "{ ";
    for element in message {
        line.push_str(before);
        before = ", ";
        write_string(&mut line, element.name());
        line.push_str(" : ");
        match element.value() {
            Value::DateTime(ms) => {
                line.push_str("{ \"$date\" : \"");
                clock::write_iso(&mut line, ms);
                line.push_str("\" }");
            }
            Value::Binary(Binary { subtype: 4, bytes }) => {
                line.push_str("{ \"$binary\" : \"");
                base64_encode(&mut line, bytes);
                line.push_str("\", \"$type\" : \"04\" }");
            }
            value => write_relaxed(&mut line, value),
        }
    }
    line.push_str(" }");
    line
}

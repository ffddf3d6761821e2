//! The format of one log line: its fields, padding and attributes.

use std::fmt::Write;

use nagi_bson::Value;
use nagi_bson::json::{JsonWriter, Spacing, write_relaxed, write_string};

use super::Stamp;
use super::truncate::{Attributes, Limits};
use crate::clock;

/// The severity, field `s` of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Fatal,
    Error,
    Warning,
    Info,
    /// Debug level 1-5.
    Debug(u8),
}

impl Severity {
    pub(super) fn from_level(level: log::Level) -> Severity {
        match level {
            log::Level::Error => Severity::Error,
            log::Level::Warn => Severity::Warning,
            log::Level::Info => Severity::Info,
            log::Level::Debug => Severity::Debug(1),
            log::Level::Trace => Severity::Debug(3),
        }
    }

    pub(super) fn level(self) -> log::Level {
        match self {
            Severity::Fatal | Severity::Error => log::Level::Error,
            Severity::Warning => log::Level::Warn,
            Severity::Debug(1 | 2) => log::Level::Debug,
            Severity::Debug(_) => log::Level::Trace,
            _ => log::Level::Info,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Severity::Fatal => "F",
            Severity::Error => "E",
            Severity::Warning => "W",
            Severity::Info => "I",
            Severity::Debug(1) => "D1",
            Severity::Debug(2) => "D2",
            Severity::Debug(3) => "D3",
            Severity::Debug(4) => "D4",
            Severity::Debug(_) => "D5",
        }
    }
}

/// The fixed part of a line.
pub(super) struct Head<'a> {
    pub(super) severity: Severity,
    pub(super) component: &'a str,
    pub(super) id: i64,
    pub(super) context: &'a str,
    pub(super) message: &'a str,
}

/// Appends a line without its line feed. The padding aligns the columns as MongoDB does.
pub(super) fn write(
    out: &mut String,
    stamp: Option<&Stamp>,
    head: &Head<'_>,
    attributes: &Attributes,
    tags: &[&str],
) {
    out.push_str("{\"t\":{\"$date\":\"");
    write_time(out, stamp, clock::wall_ms());
    let severity = format!("\"{}\",", head.severity.text());
    let _ = write!(out, "\"}},\"s\":{severity:<6}");
    let component = format!("\"{}\",", head.component);
    let id = format!("{},", head.id);
    let _ = write!(out, "\"c\":{component:<12}\"id\":{id:<9}\"svc\":\"-\", \"ctx\":");
    write_string(out, head.context);
    out.push_str(",\"msg\":");
    write_string(out, head.message);
    if !attributes.text.is_empty() {
        out.push_str(",\"attr\":");
        out.push_str(&attributes.text);
    }
    if !tags.is_empty() {
        out.push_str(",\"tags\":");
        JsonWriter::new(out, Spacing::Spaced).array(|w| tags.iter().for_each(|tag| w.string(tag)));
    }
    if let Some((truncated, sizes)) = &attributes.cut {
        for (name, doc) in [("truncated", truncated), ("size", sizes)] {
            let _ = write!(out, ",\"{name}\":");
            write_relaxed(out, Value::Doc(doc.as_doc()));
        }
    }
    out.push('}');
}

fn write_time(out: &mut String, stamp: Option<&Stamp>, ms: i64) {
    let seconds = match stamp {
        None => 0,
        Some(Stamp::Local(zone)) => zone.offset_at(ms),
        Some(Stamp::Utc) => {
            clock::write_iso(out, ms);
            out.truncate(out.len() - "+00:00".len());
            return out.push('Z');
        }
    };
    clock::write_iso(out, ms + seconds * 1000);
    if seconds != 0 {
        out.truncate(out.len() - "+00:00".len());
        let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
        let _ = write!(out, "{sign}{:02}:{:02}", minutes / 60, minutes % 60);
    }
}

/// Takes the keys of a `log` record: `id` apart, the rest as attributes of the line.
pub(super) struct Keys {
    pub(super) id: i64,
    pub(super) startup_warning: bool,
    pub(super) attributes: Attributes,
    pub(super) limits: Limits,
}

impl<'kvs> log::kv::VisitSource<'kvs> for Keys {
    fn visit_pair(
        &mut self,
        key: log::kv::Key<'kvs>,
        value: log::kv::Value<'kvs>,
    ) -> Result<(), log::kv::Error> {
        match key.as_str() {
            "id" => self.id = value.to_i64().unwrap_or(0),
            "startup_warning" => self.startup_warning = true,
            name => {
                let mut put = |value| self.attributes.put(name, value, self.limits);
                if let Some(b) = value.to_bool() {
                    put(Value::Bool(b));
                } else if let Some(n) = value.to_i64() {
                    put(Value::Int64(n));
                } else if let Some(n) = value.to_f64().filter(|n| n.is_finite()) {
                    put(Value::Double(n));
                } else {
                    put(Value::String(&value.to_string()));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_local_or_utc() {
        let shown = |stamp: Option<Stamp>| {
            let mut out = String::new();
            write_time(&mut out, stamp.as_ref(), 0);
            out
        };
        let zone = |name| Some(Stamp::Local(nagi_lang::time::Zone::parse(name).unwrap()));
        assert_eq!(shown(None), "1970-01-01T00:00:00.000+00:00");
        assert_eq!(shown(Some(Stamp::Utc)), "1970-01-01T00:00:00.000Z");
        assert_eq!(shown(zone("America/New_York")), "1969-12-31T19:00:00.000-05:00");
        assert_eq!(shown(zone("Asia/Kolkata")), "1970-01-01T05:30:00.000+05:30");
    }

    #[test]
    fn has_mongodbs_shape() {
        let head = Head {
            severity: Severity::Info,
            component: "NETWORK",
            id: 22943,
            context: "listener",
            message: "Connection \"accepted\"",
        };
        let mut out = String::new();
        let attributes = Attributes { text: "{\"n\":1}".to_owned(), cut: None };
        write(&mut out, None, &head, &attributes, &["startupWarnings"]);
        let tail = out.split_once("\"},").map(|(_, tail)| tail).unwrap();
        assert_eq!(
            tail,
            "\"s\":\"I\",  \"c\":\"NETWORK\",  \"id\":22943,   \"svc\":\"-\", \"ctx\":\"listener\",\
             \"msg\":\"Connection \\\"accepted\\\"\",\"attr\":{\"n\":1},\"tags\":[\"startupWarnings\"]}"
        );
    }
}

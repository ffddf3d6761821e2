//! What is told about an alert, in the formats of the receivers.

use std::sync::Arc;

use nagi_bson::json;
use nagi_bson::{DocBuf, DocWriter, Value};

use super::rule::{Rule, amount};

/// What happened to an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Began,
    /// It still lasts.
    Lasts,
    Ended,
}

impl What {
    pub(super) fn name(self) -> &'static str {
        match self {
            What::Began => "firing",
            What::Lasts => "reminder",
            What::Ended => "resolved",
        }
    }
}

/// An alert began, lasts or ended.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(super) rule: Arc<Rule>,
    pub(super) what: What,
    pub(super) at_ms: i64,
    /// Since when the figure is or was beyond its bound.
    pub(super) since_ms: i64,
    /// The time between the two, whatever happened to the clock of dates.
    pub(super) lasted_ms: i64,
    /// `None`: it is not known any more.
    pub(super) value: Option<f64>,
    /// No action was told, nor the log.
    pub(super) silenced: bool,
}

impl Event {
    /// One line for people.
    pub(super) fn text(&self, host: &str) -> String {
        let rule = &self.rule;
        let value = self.value.map_or("unknown".to_owned(), |value| amount(value, rule.unit()));
        let lead = match self.what {
            What::Began => rule.severity.name().to_uppercase(),
            What::Lasts => format!("{} (still)", rule.severity.name().to_uppercase()),
            What::Ended => "RESOLVED".to_owned(),
        };
        format!("{lead} {host}: {} - {value} ({})", rule.name, rule.condition())
    }

    /// Writes it for the JSON interface, the log and webhooks.
    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        let rule = &self.rule;
        out.put("alert", rule.name.as_str());
        out.put("state", self.what.name());
        out.put("severity", rule.severity.name());
        out.put("value", self.value.map_or(Value::Null, Value::Double));
        out.put("unit", rule.unit());
        out.put("condition", rule.condition().as_str());
        out.put("sinceMs", self.since_ms);
        out.put("atMs", self.at_ms);
        out.put("silenced", self.silenced);
    }

    /// The body of a webhook. `text` is what chat programs show.
    pub(super) fn message(&self, host: &str) -> String {
        let body = DocBuf::build(|out| {
            out.put("text", self.text(host).as_str());
            out.put("version", 1);
            out.put("host", host);
            self.write(out);
            out.put("advice", self.rule.advice.as_str());
        });
        json::to_relaxed(body.as_doc())
    }
}

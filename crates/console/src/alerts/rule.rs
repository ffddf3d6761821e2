//! A rule: what is measured, its bound, and how long it must be beyond.

use super::measure::{Measure, Measured};
use super::span;

const DAY_SECS: f64 = 86_400.0;
const HOUR_SECS: f64 = 3600.0;

/// How bad it is, for those who filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    Info,
    Warning,
    Critical,
}

impl Severity {
    pub(super) const ALL: [(&'static str, Severity); 3] = [
        ("info", Severity::Info),
        ("warning", Severity::Warning),
        ("critical", Severity::Critical),
    ];

    pub(super) fn name(self) -> &'static str {
        Severity::ALL.iter().find(|row| row.1 == self).map_or("", |row| row.0)
    }
}

/// The bound of a rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound {
    Above(f64),
    Below(f64),
}

impl Bound {
    pub(super) fn name(self) -> &'static str {
        if matches!(self, Bound::Above(_)) { "above" } else { "below" }
    }

    pub(super) fn value(self) -> f64 {
        match self {
            Bound::Above(value) | Bound::Below(value) => value,
        }
    }

    fn is_beyond(self, measured: Measured) -> bool {
        match self {
            Bound::Above(bound) => measured.value > bound,
            // A growth is small at first, because the time is short.
            Bound::Below(bound) => measured.value < bound && measured.is_complete,
        }
    }
}

/// A rule.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rule {
    pub(super) name: String,
    pub(super) severity: Severity,
    pub(super) measure: Measure,
    pub(super) bound: Bound,
    /// For this long it must be beyond its bound before it is an alert, and within before the alert ends.
    pub(super) lasts_ms: i64,
    /// Positions in the list of actions.
    pub(super) actions: Vec<usize>,
    /// What an operator should do.
    pub(super) advice: String,
    pub(super) is_built_in: bool,
}

impl Rule {
    pub(super) fn holds(&self, measured: Measured) -> bool {
        self.bound.is_beyond(measured)
    }

    /// The unit of bound and value: `share` is a part of 1.
    pub(super) fn unit(&self) -> &'static str {
        match self.measure {
            Measure::Share { .. } => "share",
            // The growth of one for each of another's is no part of it, if it may be more.
            Measure::GrowthShare { .. } if self.bound.value() <= 1.0 => "share",
            _ => self.measure.unit(),
        }
    }

    /// The condition in words.
    pub(super) fn condition(&self) -> String {
        let (measure, bound) = (self.measure.shown(), self.bound);
        let lasts = match self.lasts_ms {
            0 => String::new(),
            ms => format!(" for {}", span::shown(ms)),
        };
        format!("{measure} {} {}{lasts}", bound.name(), amount(bound.value(), self.unit()))
    }
}

/// A number with its unit, short. The unit `share` is a part of 1, which is shown in per cent.
pub(super) fn amount(value: f64, unit: &str) -> String {
    match unit {
        "share" => return format!("{} %", plain(value * 100.0)),
        // Bounds of times are whole seconds and minutes.
        "us" if value.abs() >= 1e6 => return amount(value / 1e6, "s"),
        "us" if value.abs() >= 1e3 => return format!("{} ms", plain(value / 1e3)),
        "s" if value.abs() >= DAY_SECS => return format!("{} d", plain(value / DAY_SECS)),
        "s" if value.abs() >= HOUR_SECS => return format!("{} h", plain(value / HOUR_SECS)),
        _ => {}
    }
    const STEPS: [(&str, f64); 4] = [
        ("TiB", 1_099_511_627_776.0),
        ("GiB", 1_073_741_824.0),
        ("MiB", 1_048_576.0),
        ("KiB", 1024.0),
    ];
    let step = STEPS.iter().find(|(_, step)| unit == "bytes" && value.abs() >= *step);
    if let Some((name, step)) = step {
        return format!("{:.1} {name}", value / step);
    }
    let text = plain(value);
    if unit.is_empty() { text } else { format!("{text} {unit}") }
}

/// At most three digits behind the point, and no zeros at the end.
fn plain(value: f64) -> String {
    if value.abs() >= 1000.0 {
        return format!("{value:.0}");
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short() {
        let shown = |value, unit| amount(value, unit);
        assert_eq!(shown(5.0, ""), "5");
        assert_eq!(shown(0.93, ""), "0.93");
        assert_eq!(shown(0.05, "share"), "5 %");
        assert_eq!(shown(1.0, "share"), "100 %");
        assert_eq!(shown(0.9995, "share"), "99.95 %");
        assert_eq!(shown(30e6, "us"), "30 s");
        assert_eq!(shown(1500.0, "us"), "1.5 ms");
        assert_eq!(shown(20.0, "us"), "20 us");
        assert_eq!(shown(2.0 * 86_400.0, "s"), "2 d");
        assert_eq!(shown(5400.0, "s"), "1.5 h");
        assert_eq!(shown(1234.5, "ms"), "1234 ms");
        assert_eq!(shown(3.0 * 1_073_741_824.0, "bytes"), "3.0 GiB");
        assert_eq!(shown(1.5 * 1_099_511_627_776.0, "bytes"), "1.5 TiB");
        assert_eq!(shown(-2048.0, "bytes"), "-2.0 KiB");
    }

    #[test]
    fn a_short_growth_is_never_below() {
        let short = Measured { value: 0.0, is_complete: false };
        assert!(!Bound::Below(1.0).is_beyond(short));
        assert!(Bound::Below(1.0).is_beyond(Measured { is_complete: true, ..short }));
        assert!(Bound::Above(-1.0).is_beyond(short));
    }
}

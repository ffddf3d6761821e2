//! What a rule compares: a figure, its growth, a share of another, or where its line leads.

use crate::figures::{FIGURES, Kind};
use crate::history::History;
use crate::sample::Sample;

/// A line through less than this says nothing about days.
const LINE_MS_MIN: i64 = 3_600_000;

/// One or several figures, which are added. All have the same kind.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sum(pub(super) Vec<usize>);

impl Sum {
    fn of(&self, sample: &Sample) -> f64 {
        self.0.iter().map(|at| sample.values[*at]).sum()
    }

    fn growth(&self, from: &Sample, to: &Sample) -> f64 {
        self.of(to) - self.of(from)
    }

    pub(super) fn is_counter(&self) -> bool {
        self.0.iter().any(|at| FIGURES[*at].kind == Kind::Counter)
    }

    fn shown(&self) -> String {
        let names: Vec<_> = self.0.iter().map(|at| FIGURES[*at].name).collect();
        names.join(" + ")
    }
}

/// What is measured.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Measure {
    /// The newest value.
    Value(Sum),
    /// The growth within a time.
    Growth { of: Sum, over_ms: i64 },
    /// The newest value of one as a share of another's.
    Share { part: Sum, whole: Sum },
    /// The growth of one as a share of another's. Not known while the other has grown by less than `least`.
    GrowthShare { part: Sum, whole: Sum, over_ms: i64, least: f64 },
    /// The value after a time, if it continues on the line through the last hours.
    Forecast { of: usize, after_ms: i64 },
    /// The longest time of an operation in the stalls of the last time, in milliseconds.
    Stall { over_ms: i64 },
}

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    pub(super) value: f64,
    /// The history covers the whole time of the rule: a growth can no longer be small only because it is short.
    pub(super) is_complete: bool,
}

impl Measure {
    /// Measures; `None` if it is not known.
    pub(super) fn measure(&self, history: &History, now: &Sample) -> Option<Measured> {
        let complete = |value: f64| Measured { value, is_complete: true };
        let measured = match self {
            Measure::Value(sum) => complete(sum.of(now)),
            Measure::Share { part, whole } => complete(part.of(now) / whole.of(now)),
            Measure::Growth { of, over_ms } => {
                let from = history.before(now, *over_ms)?;
                let value = of.growth(&from, now);
                Measured { value, is_complete: covers(&from, now, *over_ms) }
            }
            Measure::GrowthShare { part, whole, over_ms, least } => {
                let from = history.before(now, *over_ms)?;
                let all = whole.growth(&from, now);
                // Also false if it is not known.
                if !(all >= *least && all > 0.0) {
                    return None;
                }
                complete(part.growth(&from, now) / all)
            }
            Measure::Forecast { of, after_ms } => {
                complete(forecast(&history.line(*of), *after_ms as f64)?)
            }
            Measure::Stall { over_ms } => {
                let since = now.steady_ms - over_ms;
                let stalls = history.stalls();
                let recent = stalls.iter().filter(|stall| stall.to_steady_ms >= since);
                complete(recent.map(|stall| stall.longest_us).max().unwrap_or(0) as f64 / 1000.0)
            }
        };
        measured.value.is_finite().then_some(measured)
    }

    /// The unit of what is measured.
    pub(super) fn unit(&self) -> &'static str {
        match self {
            Measure::Value(sum) | Measure::Growth { of: sum, .. } => FIGURES[sum.0[0]].unit,
            Measure::Share { .. } | Measure::GrowthShare { .. } => "",
            Measure::Forecast { of, .. } => FIGURES[*of].unit,
            Measure::Stall { .. } => "ms",
        }
    }

    /// In words, for messages.
    pub(super) fn shown(&self) -> String {
        use super::span::shown;
        match self {
            Measure::Value(sum) => sum.shown(),
            Measure::Growth { of, over_ms } => {
                format!("growth of {} in {}", of.shown(), shown(*over_ms))
            }
            Measure::Share { part, whole } => format!("({}) / ({})", part.shown(), whole.shown()),
            Measure::GrowthShare { part, whole, over_ms, .. } => {
                format!("({}) / ({}) in {}", part.shown(), whole.shown(), shown(*over_ms))
            }
            Measure::Forecast { of, after_ms } => {
                format!("forecast of {} in {}", FIGURES[*of].name, shown(*after_ms))
            }
            Measure::Stall { over_ms } => {
                format!("longest operation of a stall in {}", shown(*over_ms))
            }
        }
    }
}

/// Two samples are never exactly as far apart as a rule says.
fn covers(from: &Sample, now: &Sample, over_ms: i64) -> bool {
    now.steady_ms - from.steady_ms >= over_ms - crate::sample::EVERY_MS / 2
}

/// The value of the line by least squares through points `(ms, value)`, `after_ms` behind the last one.
fn forecast(points: &[(i64, f64)], after_ms: f64) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    if last.0 - first.0 < LINE_MS_MIN {
        return None;
    }
    let count = points.len() as f64;
    let ms = |point: &(i64, f64)| (point.0 - first.0) as f64;
    let mean_ms = points.iter().map(ms).sum::<f64>() / count;
    let mean = points.iter().map(|point| point.1).sum::<f64>() / count;
    let above: f64 = points.iter().map(|point| (ms(point) - mean_ms) * (point.1 - mean)).sum();
    let below: f64 = points.iter().map(|point| (ms(point) - mean_ms).powi(2)).sum();
    // From the newest value, not from the line: what was freed a minute ago is free.
    Some(last.1 + above / below * after_ms)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::figures::position;
    use crate::latencies::Ended;
    use crate::stalls::Stall;

    fn at(at_ms: i64, set: &[(&str, f64)]) -> Arc<Sample> {
        let mut values = vec![0.0; FIGURES.len()].into_boxed_slice();
        for (name, value) in set {
            values[position(name)] = *value;
        }
        Arc::new(Sample { at_ms, steady_ms: at_ms, values, paused_ms: 0, ended: Ended::default() })
    }

    fn sum(names: &[&str]) -> Sum {
        Sum(names.iter().map(|name| position(name)).collect())
    }

    fn value(measure: &Measure, history: &History, now: &Sample) -> Option<f64> {
        measure.measure(history, now).map(|measured| measured.value)
    }

    #[test]
    fn values_growths_and_shares() {
        let history = History::default();
        for second in 0..=120 {
            let n = second as f64;
            history.add(&at(
                second * 1000,
                &[("cache.hits", n * 90.0), ("cache.misses", n * 10.0), ("sessions", n)],
            ));
        }
        let now = history.samples(false).last().unwrap().clone();
        assert_eq!(value(&Measure::Value(sum(&["sessions"])), &history, &now), Some(120.0));
        let growth = |over_ms| Measure::Growth { of: sum(&["cache.hits"]), over_ms };
        assert_eq!(value(&growth(60_000), &history, &now), Some(5400.0));
        // Longer than the history: what is there, but it is not complete.
        let short = growth(600_000).measure(&history, &now).unwrap();
        assert_eq!((short.value, short.is_complete), (10_800.0, false));
        assert!(growth(120_000).measure(&history, &now).unwrap().is_complete);
        let share = |least| Measure::GrowthShare {
            part: sum(&["cache.hits"]),
            whole: sum(&["cache.hits", "cache.misses"]),
            over_ms: 60_000,
            least,
        };
        assert_eq!(value(&share(6000.0), &history, &now), Some(0.9));
        assert_eq!(value(&share(6001.0), &history, &now), None);
        let nothing = Measure::Share { part: sum(&["sessions"]), whole: sum(&["cursors.open"]) };
        assert_eq!(value(&nothing, &history, &now), None);
    }

    #[test]
    fn a_forecast_needs_an_hour_and_begins_at_the_newest_value() {
        let line = |minutes: i64| -> Vec<_> {
            (0..=minutes).map(|m| (m * 60_000, 1000.0 - m as f64)).collect()
        };
        assert_eq!(forecast(&line(59), 60_000.0), None);
        let next = forecast(&line(60), 60_000.0).unwrap();
        assert!((next - 939.0).abs() < 1e-6, "{next}");
        let mut freed = line(600);
        freed.last_mut().unwrap().1 = 5000.0;
        assert!(forecast(&freed, 60_000.0).unwrap() > 4990.0);
        assert_eq!(forecast(&[], 1.0), None);
    }

    #[test]
    fn stalls_of_the_last_time() {
        let history = History::default();
        let measure = Measure::Stall { over_ms: 60_000 };
        assert_eq!(value(&measure, &history, &at(5000, &[])), Some(0.0));
        history.add_stall(Stall {
            from_ms: 1,
            // The clock was set back since.
            to_ms: 2_000_000,
            to_steady_ms: 2000,
            longest_us: 1_500_000,
            ..Stall::default()
        });
        assert_eq!(value(&measure, &history, &at(62_000, &[])), Some(1500.0));
        assert_eq!(value(&measure, &history, &at(62_001, &[])), Some(0.0));
    }

    #[test]
    fn what_is_not_known_is_not_measured() {
        let history = History::default();
        let unknown = at(1000, &[("host.stalled.io", f64::NAN)]);
        history.add(&unknown);
        assert_eq!(value(&Measure::Value(sum(&["host.stalled.io"])), &history, &unknown), None);
    }
}

//! The state of one rule over time.

use super::measure::Measured;
use super::rule::Rule;
use crate::sample::Moment;

/// A rule that has no time of its own ends only after this, so that a figure at its bound does not make an alert each
/// second.
const ENDS_AFTER_MS: i64 = 10_000;

/// Where a rule stands.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) enum State {
    #[default]
    Ok,
    /// Beyond its bound, but not long enough yet.
    Pending { since: Moment },
    Firing {
        since: Moment,
        /// Since when it is within its bound again.
        within: Option<Moment>,
    },
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Pending { .. } => "pending",
            State::Firing { .. } => "firing",
        }
    }

    pub(super) fn since(self) -> Option<Moment> {
        match self {
            State::Ok => None,
            State::Pending { since } | State::Firing { since, .. } => Some(since),
        }
    }

    /// The state after a measurement. What is not known is not beyond a bound.
    pub(super) fn after(self, rule: &Rule, measured: Option<Measured>, now: Moment) -> State {
        let beyond = measured.is_some_and(|measured| rule.holds(measured));
        match (self, beyond) {
            (State::Ok | State::Pending { .. }, false) => State::Ok,
            (State::Ok, true) => State::Pending { since: now }.grown(rule, now),
            (State::Pending { .. }, true) => self.grown(rule, now),
            (State::Firing { since, .. }, true) => State::Firing { since, within: None },
            (State::Firing { since, within }, false) => {
                let within = within.unwrap_or(now);
                match now.since(within) >= rule.lasts_ms.max(ENDS_AFTER_MS) {
                    true => State::Ok,
                    false => State::Firing { since, within: Some(within) },
                }
            }
        }
    }

    fn grown(self, rule: &Rule, now: Moment) -> State {
        match self {
            State::Pending { since } if now.since(since) >= rule.lasts_ms => {
                State::Firing { since, within: None }
            }
            state => state,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::{Measure, Sum};
    use super::super::rule::{Bound, Severity};
    use super::*;

    fn rule(lasts_ms: i64) -> Rule {
        Rule {
            name: "r".to_owned(),
            severity: Severity::Warning,
            measure: Measure::Value(Sum(vec![0])),
            bound: Bound::Above(10.0),
            lasts_ms,
            actions: Vec::new(),
            advice: String::new(),
            is_built_in: false,
        }
    }

    fn run(rule: &Rule, values: &[(i64, f64)]) -> Vec<&'static str> {
        let mut state = State::Ok;
        let measured =
            |value: f64| (!value.is_nan()).then_some(Measured { value, is_complete: true });
        values
            .iter()
            .map(|(second, value)| {
                let (wall_ms, steady_ms) = (second * 1000, second * 1000);
                state = state.after(rule, measured(*value), Moment { wall_ms, steady_ms });
                state.name()
            })
            .collect()
    }

    #[test]
    fn it_fires_after_its_time_and_ends_after_it() {
        let values = [
            (0, 11.0),
            (59, 11.0),
            (60, 11.0),
            (70, 9.0),
            (80, 11.0),
            (90, 9.0),
            (149, 9.0),
            (150, 9.0),
        ];
        let states = ["pending", "pending", "firing", "firing", "firing", "firing", "firing", "ok"];
        assert_eq!(run(&rule(60_000), &values), states);
    }

    #[test]
    fn without_a_time_it_fires_at_once_and_does_not_flutter() {
        let values = [(0, 11.0), (1, 9.0), (2, 11.0), (3, f64::NAN), (12, 9.0), (13, 9.0)];
        assert_eq!(
            run(&rule(0), &values),
            ["firing", "firing", "firing", "firing", "firing", "ok"]
        );
    }

    #[test]
    fn a_value_within_restarts_the_time() {
        let values = [(0, 11.0), (50, 10.0), (60, 11.0), (110, 11.0), (120, 11.0)];
        assert_eq!(run(&rule(60_000), &values), ["pending", "ok", "pending", "pending", "firing"]);
    }

    /// The clock of dates jumps by a day with each measurement, forwards and backwards.
    #[test]
    fn a_clock_that_is_set_changes_nothing() {
        let values = [(0, 11.0), (59, 11.0), (60, 11.0), (70, 9.0), (129, 9.0), (130, 9.0)];
        let mut state = State::Ok;
        let mut names = Vec::new();
        for (at, (second, value)) in values.iter().enumerate() {
            let day_ms = if at % 2 == 0 { 86_400_000 } else { -86_400_000 };
            let now = Moment { wall_ms: second * 1000 + day_ms, steady_ms: second * 1000 };
            let measured = Measured { value: *value, is_complete: true };
            state = state.after(&rule(60_000), Some(measured), now);
            names.push(state.name());
        }
        assert_eq!(names, ["pending", "pending", "firing", "firing", "firing", "ok"]);
    }
}

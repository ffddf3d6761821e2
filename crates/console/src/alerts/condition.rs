//! The state of one rule over time.

use super::measure::Measured;
use super::rule::Rule;

/// A rule that has no time of its own ends only after this, so that a figure at its bound does not make an alert each
/// second.
const ENDS_AFTER_MS: i64 = 10_000;

/// Where a rule stands.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) enum State {
    #[default]
    Ok,
    /// Beyond its bound, but not long enough yet.
    Pending { since_ms: i64 },
    Firing {
        since_ms: i64,
        /// Since when it is within its bound again.
        within_ms: Option<i64>,
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

    pub(super) fn since_ms(self) -> Option<i64> {
        match self {
            State::Ok => None,
            State::Pending { since_ms } | State::Firing { since_ms, .. } => Some(since_ms),
        }
    }

    /// The state after a measurement. What is not known is not beyond a bound.
    pub(super) fn after(self, rule: &Rule, measured: Option<Measured>, now_ms: i64) -> State {
        let beyond = measured.is_some_and(|measured| rule.holds(measured));
        // A clock that was set back must not hold a state for ever.
        let since = |ms: i64| ms.min(now_ms);
        match (self, beyond) {
            (State::Ok, false) => State::Ok,
            (State::Pending { .. }, false) => State::Ok,
            (State::Ok, true) => State::Pending { since_ms: now_ms }.grown(rule, now_ms),
            (State::Pending { since_ms }, true) => {
                State::Pending { since_ms: since(since_ms) }.grown(rule, now_ms)
            }
            (State::Firing { since_ms, .. }, true) => {
                State::Firing { since_ms: since(since_ms), within_ms: None }
            }
            (State::Firing { since_ms, within_ms }, false) => {
                let within = since(within_ms.unwrap_or(now_ms));
                match now_ms - within >= rule.lasts_ms.max(ENDS_AFTER_MS) {
                    true => State::Ok,
                    false => State::Firing { since_ms: since(since_ms), within_ms: Some(within) },
                }
            }
        }
    }

    fn grown(self, rule: &Rule, now_ms: i64) -> State {
        match self {
            State::Pending { since_ms } if now_ms - since_ms >= rule.lasts_ms => {
                State::Firing { since_ms, within_ms: None }
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
                state = state.after(rule, measured(*value), second * 1000);
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

    #[test]
    fn a_clock_that_was_set_back_ends_nothing_and_holds_nothing() {
        let values = [(1000, 11.0), (1060, 11.0), (10, 9.0), (69, 9.0), (70, 9.0)];
        assert_eq!(run(&rule(60_000), &values), ["pending", "firing", "firing", "firing", "ok"]);
    }
}

//! Applies all rules to each sample; keeps states, silences and history.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nagi_bson::{DocWriter, Value};
use parking_lot::Mutex;

use super::condition::State;
use super::event::{Event, What};
use super::rule::Rule;
use super::{Alerts, Teller};
use crate::history::History;
use crate::sample::{Moment, Sample};

/// Events that are kept.
const EVENTS_MAX: usize = 500;
/// The longest silence: 30 days.
pub(crate) const SILENCE_SECS_MAX: i64 = 30 * 86_400;

/// A rule with its state.
struct Watched {
    rule: Arc<Rule>,
    state: State,
    value: Option<f64>,
    /// When its actions were told last that it holds, by the steady clock.
    told_ms: Option<i64>,
    /// By the steady clock.
    silent_until_ms: i64,
}

struct Seen {
    rules: Vec<Watched>,
    events: VecDeque<Event>,
}

/// All rules of a server.
pub(crate) struct Watch {
    seen: Mutex<Seen>,
    /// Held while the silences are stored, so that the newest ones are stored last. True: they are not stored yet.
    keeping: Mutex<bool>,
    teller: Teller,
    repeat_ms: i64,
}

/// A rule, for those who show it.
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) is_firing: bool,
}

impl Watch {
    pub(crate) fn new(alerts: Alerts, teller: Teller) -> Watch {
        let watched = |rule| Watched {
            rule,
            state: State::Ok,
            value: None,
            told_ms: None,
            silent_until_ms: i64::MIN,
        };
        let rules = alerts.rules.into_iter().map(watched).collect();
        let seen = Mutex::new(Seen { rules, events: VecDeque::new() });
        Watch { seen, keeping: Mutex::new(false), teller, repeat_ms: alerts.repeat_ms }
    }

    /// Applies the rules to the newest sample, which `history` has. Tells the actions, and returns what happened.
    pub(crate) fn observe(&self, history: &History, now: &Sample) -> Vec<Event> {
        let mut happened = Vec::new();
        let mut seen = self.seen.lock();
        for watched in &mut seen.rules {
            let measured = watched.rule.measure.measure(history, now);
            watched.value = measured.map(|measured| measured.value);
            let before = watched.state;
            watched.state = before.after(&watched.rule, measured, now.moment());
            happened.extend(watched.event(before, now.moment(), self.repeat_ms));
        }
        for event in &happened {
            if seen.events.len() == EVENTS_MAX {
                seen.events.pop_front();
            }
            seen.events.push_back(event.clone());
        }
        drop(seen);
        happened.iter().filter(|event| !event.silenced).for_each(|event| self.teller.tell(event));
        happened
    }

    /// Silences a rule for some seconds, or ends its silence with 0. False if there is no such rule.
    pub(crate) fn silence(&self, name: &str, now: Moment, secs: i64) -> bool {
        let mut seen = self.seen.lock();
        let found = seen.rules.iter_mut().find(|watched| watched.rule.name == name);
        found.map(|watched| watched.silent_until_ms = now.steady_ms + secs * 1000).is_some()
    }

    /// Silences rules again that were silent when the server stopped: names, and when the silence ends, in milliseconds
    /// since 1970.
    pub(crate) fn restore(&self, silences: &[(String, i64)], now: Moment) {
        for (name, until_ms) in silences {
            let secs = (until_ms.saturating_sub(now.wall_ms) / 1000).min(SILENCE_SECS_MAX);
            if secs > 0 {
                self.silence(name, now, secs);
            }
        }
    }

    /// Stores the silences if `store` has returned false for them.
    pub(crate) fn keep_late_silences(
        &self,
        now: Moment,
        store: impl FnOnce(&[(String, i64)]) -> bool,
    ) {
        let is_late = *self.keeping.lock();
        if is_late {
            self.keep_silences(now, store);
        }
    }

    /// Stores the silences that last, as [`Watch::restore`] wants them. If `store` returns false, they are to be stored
    /// later.
    pub(crate) fn keep_silences(&self, now: Moment, store: impl FnOnce(&[(String, i64)]) -> bool) {
        let mut is_late = self.keeping.lock();
        let seen = self.seen.lock();
        let silent = seen
            .rules
            .iter()
            .filter_map(|watched| Some((watched.rule.name.clone(), watched.silent_until(now)?)));
        let silent: Vec<_> = silent.collect();
        drop(seen);
        *is_late = !store(&silent);
    }

    /// Each rule, for `/metrics`.
    pub(crate) fn known(&self) -> Vec<Known> {
        let known = |watched: &Watched| Known {
            name: watched.rule.name.clone(),
            is_firing: matches!(watched.state, State::Firing { .. }),
        };
        self.seen.lock().rules.iter().map(known).collect()
    }

    /// Writes rules, actions and history for the JSON interface.
    pub(crate) fn write(&self, now: Moment, out: &mut DocWriter<'_>) {
        let seen = self.seen.lock();
        let named: Vec<_> = self.teller.actions().map(|(name, ..)| name).collect();
        out.array("rules", |list| {
            for watched in &seen.rules {
                list.doc(|one| watched.write(now, &named, one));
            }
        });
        out.array("actions", |list| {
            for (name, kind, told) in self.teller.actions() {
                list.doc(|one| {
                    one.put("name", name);
                    one.put("kind", kind);
                    one.put("delivered", told.delivered.load(Ordering::Relaxed) as i64);
                    one.put("failed", told.failed.load(Ordering::Relaxed) as i64);
                    one.put("dropped", told.dropped.load(Ordering::Relaxed) as i64);
                });
            }
        });
        out.array("history", |list| {
            seen.events.iter().for_each(|event| list.doc(|one| event.write(one)));
        });
    }

    /// Ends the threads of the actions.
    pub(crate) fn stop(&self) {
        self.teller.stop();
    }
}

impl Watched {
    /// What is to be told after a change of the state, or because it lasts.
    fn event(&mut self, before: State, now: Moment, repeat_ms: i64) -> Option<Event> {
        let silenced = now.steady_ms < self.silent_until_ms;
        let was = matches!(before, State::Firing { .. });
        let State::Firing { since, .. } = self.state else {
            // An end is told to those who know of the beginning.
            let told = self.told_ms.take().is_some();
            return was.then(|| self.told(What::Ended, before.since()?, now, !told || silenced))?;
        };
        let what = match self.told_ms {
            _ if !was => What::Began,
            // It was silenced, and is not any more.
            None if !silenced => What::Began,
            Some(told) if repeat_ms > 0 && !silenced && now.steady_ms - told >= repeat_ms => {
                What::Lasts
            }
            _ => return None,
        };
        if !silenced {
            self.told_ms = Some(now.steady_ms);
        }
        self.told(what, since, now, silenced)
    }

    fn told(&self, what: What, since: Moment, now: Moment, silenced: bool) -> Option<Event> {
        Some(Event {
            rule: self.rule.clone(),
            what,
            at_ms: now.wall_ms,
            since_ms: since.wall_ms,
            lasted_ms: now.since(since),
            value: self.value,
            silenced,
        })
    }

    /// When its silence ends, in milliseconds since 1970.
    fn silent_until(&self, now: Moment) -> Option<i64> {
        let left_ms = self.silent_until_ms.saturating_sub(now.steady_ms);
        (left_ms > 0).then(|| now.wall_ms + left_ms)
    }

    fn write(&self, now: Moment, actions: &[&str], out: &mut DocWriter<'_>) {
        let rule = &self.rule;
        let or_null = |ms: Option<i64>| ms.map_or(Value::Null, Value::Int64);
        out.put("name", rule.name.as_str());
        out.put("severity", rule.severity.name());
        out.put("state", self.state.name());
        out.put("condition", rule.condition().as_str());
        out.put("value", self.value.map_or(Value::Null, Value::Double));
        out.put("unit", rule.unit());
        out.put("bound", rule.bound.value());
        out.put("sinceMs", or_null(self.state.since().map(|since| since.wall_ms)));
        out.put("silentUntilMs", or_null(self.silent_until(now)));
        out.put("advice", rule.advice.as_str());
        out.put("builtIn", rule.is_built_in);
        out.array("actions", |list| {
            rule.actions.iter().filter_map(|at| actions.get(*at)).for_each(|name| list.push(*name));
        });
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::{DocBuf, json};

    use super::*;
    use crate::figures::{FIGURES, position};
    use crate::latencies::Ended;

    fn watch(text: &str) -> Watch {
        let alerts = Alerts::parse(json::parse(text).unwrap().as_doc()).unwrap();
        Watch::new(alerts, Teller::default())
    }

    fn moment(ms: i64) -> Moment {
        Moment { wall_ms: ms, steady_ms: ms }
    }

    /// What happened in each second with this number of sessions.
    fn run(
        watch: &Watch,
        history: &History,
        from: i64,
        sessions: &[f64],
    ) -> Vec<(&'static str, bool)> {
        let mut happened = Vec::new();
        for (at, value) in sessions.iter().enumerate() {
            let mut values = vec![0.0; FIGURES.len()].into_boxed_slice();
            values[position("sessions")] = *value;
            let sample = Arc::new(Sample {
                at_ms: (from + at as i64) * 1000,
                steady_ms: (from + at as i64) * 1000,
                values,
                paused_ms: 0,
                ended: Ended::default(),
            });
            history.add(&sample);
            let events = watch.observe(history, &sample);
            happened.extend(events.iter().map(|event| (event.what.name(), event.silenced)));
        }
        happened
    }

    const RULE: &str =
        "{builtIn: false, repeat: '1m', rules: [{name: 'many', figure: 'sessions', above: 5}]}";

    #[test]
    fn a_beginning_reminders_and_an_end() {
        let (watch, history) = (watch(RULE), History::default());
        let happened = run(&watch, &history, 0, &[6.0; 130]);
        assert_eq!(happened, [("firing", false), ("reminder", false), ("reminder", false)]);
        assert_eq!(run(&watch, &history, 130, &[1.0; 12]), [("resolved", false)]);
        let body = DocBuf::build(|out| watch.write(moment(142_000), out));
        assert_eq!(body.as_doc().get("history").as_array().unwrap().iter().count(), 4);
    }

    #[test]
    fn nothing_is_told_during_a_silence() {
        let (watch, history) = (watch(RULE), History::default());
        assert!(watch.silence("many", moment(0), 30));
        assert!(!watch.silence("other", moment(0), 30));
        // Begins in silence, is told when the silence ends.
        assert_eq!(run(&watch, &history, 0, &[6.0; 31]), [("firing", true), ("firing", false)]);
        assert!(watch.silence("many", moment(31_000), 1000));
        assert_eq!(run(&watch, &history, 31, &[6.0; 100]), []);
        assert_eq!(run(&watch, &history, 131, &[1.0; 12]), [("resolved", true)]);
    }

    /// Reminders and silences follow the steady clock: here the other one stands still, a day behind.
    #[test]
    fn a_clock_that_is_set_changes_nothing() {
        let (watch, history) = (watch(RULE), History::default());
        let mut happened = Vec::new();
        for second in 0..130 {
            let mut values = vec![0.0; FIGURES.len()].into_boxed_slice();
            values[position("sessions")] = 6.0;
            let (at_ms, steady_ms) = (-86_400_000, second * 1000);
            let sample = Arc::new(Sample {
                at_ms,
                steady_ms,
                values,
                paused_ms: 0,
                ended: Ended::default(),
            });
            history.add(&sample);
            happened.extend(
                watch
                    .observe(&history, &sample)
                    .iter()
                    .map(|event| (event.what.name(), event.silenced, event.at_ms, event.lasted_ms)),
            );
            if second == 10 {
                assert!(watch.silence("many", sample.moment(), 80));
            }
        }
        let at_ms = -86_400_000;
        let expected = [("firing", false, at_ms, 0), ("reminder", false, at_ms, 90_000)];
        assert_eq!(happened, expected);
    }

    #[test]
    fn silences_that_could_not_be_stored_are_stored_later() {
        let watch = watch(RULE);
        let late = |stored: bool| {
            let mut tried = 0;
            watch.keep_late_silences(moment(6000), |_| {
                tried += 1;
                stored
            });
            tried
        };
        assert_eq!(late(true), 0);
        watch.keep_silences(moment(5000), |_| false);
        assert_eq!([late(false), late(true), late(true)], [1, 1, 0]);
    }

    #[test]
    fn silences_are_kept() {
        let first = watch(RULE);
        assert!(first.silence("many", moment(5000), 3600));
        let kept = |watch: &Watch, now| {
            let mut all = Vec::new();
            watch.keep_silences(now, |silences| {
                all = silences.to_vec();
                true
            });
            all
        };
        let now = Moment { wall_ms: 1_000_000, steady_ms: 65_000 };
        let silences = kept(&first, now);
        assert_eq!(silences, [("many".to_owned(), 1_000_000 + 3_540_000)]);
        // The steady clock of the next run begins anew; its other clock is ten minutes ahead.
        let next = watch(RULE);
        let later = Moment { wall_ms: 1_600_000, steady_ms: 10 };
        next.restore(&silences, later);
        assert_eq!(kept(&next, later), silences);
        assert_eq!(kept(&next, Moment { wall_ms: 4_540_000, steady_ms: 2_940_010 }), []);
        // Forged and old ones, and those of rules that are gone.
        let forged = [("many".to_owned(), i64::MAX), ("gone".to_owned(), 9_000_000)];
        let other = watch(RULE);
        other.restore(&[("many".to_owned(), 1_599_000)], later);
        assert_eq!(kept(&other, later), []);
        other.restore(&forged, later);
        let longest = later.wall_ms + SILENCE_SECS_MAX * 1000;
        assert_eq!(kept(&other, later), [("many".to_owned(), longest)]);
    }

    #[test]
    fn the_history_is_bounded() {
        let (watch, history) = (watch(RULE), History::default());
        for round in 0..300 {
            let mut values = vec![6.0];
            values.extend([1.0; 12]);
            run(&watch, &history, round * 20, &values);
        }
        assert_eq!(watch.seen.lock().events.len(), EVENTS_MAX);
    }
}

//! The rules as an operator writes them: a document, which the server reads from a file.

use std::sync::Arc;

use nagi_bson::{Doc, Value, number};

use super::action::{Action, TEXT_BYTES_MAX};
use super::built_in;
use super::measure::{Measure, Sum};
use super::rule::{Bound, Rule, Severity};
use super::span;
use crate::figures::{self, FIGURES, Kind};

const RULES_MAX: usize = 100;
const ACTIONS_MAX: usize = 8;
const NAME_CHARS_MAX: usize = 100;
/// The sum of so many figures.
const FIGURES_MAX: usize = 10;
/// The history of each second has ten minutes, the sparse one six hours.
const OVER_MS_MAX: i64 = 6 * 3_600_000;
/// A reminder, unless the file says otherwise.
const REPEAT_MS: i64 = 4 * 3_600_000;
const REPEAT_MS_MIN: i64 = 60_000;

/// Rules and actions, checked.
#[derive(Debug, Clone)]
pub struct Alerts {
    pub(super) rules: Vec<Arc<Rule>>,
    pub(super) actions: Vec<Action>,
    /// After this time an alert that lasts is told again; 0: never.
    pub(super) repeat_ms: i64,
}

impl Default for Alerts {
    /// The built-in rules; the log is told.
    fn default() -> Alerts {
        let rules = built_in::rules().into_iter().map(Arc::new).collect();
        Alerts { rules, actions: Vec::new(), repeat_ms: REPEAT_MS }
    }
}

impl Alerts {
    /// Reads the document of a file.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse(doc: Doc<'_>) -> Result<Alerts, String> {
        only(doc, "the file", &["actions", "builtIn", "defaultActions", "repeat", "rules"])?;
        let actions = actions(doc.get("actions"))?;
        let usual = chosen(doc.get("defaultActions"), &actions)
            .map_err(|why| format!("defaultActions: {why}"))?;
        let usual = usual.unwrap_or_default();
        let repeat_ms = match doc.get("repeat") {
            Value::Missing => REPEAT_MS,
            value => span::parse(value).map_err(|why| format!("repeat: {why}"))?,
        };
        if repeat_ms != 0 && repeat_ms < REPEAT_MS_MIN {
            return Err("repeat: at least 1m, or 0 for never".to_owned());
        }
        let mut rules = built_ins(doc.get("builtIn"), &actions, &usual)?;
        for value in list("rules", doc.get("rules"))? {
            let own = value.as_doc().ok_or("rules: each rule is a map with a name")?;
            let rule = rule(own, &actions, &usual)?;
            if rules.iter().any(|known| known.name == rule.name) {
                return Err(format!("rule '{}': there is another one of this name", rule.name));
            }
            rules.push(rule);
        }
        if rules.len() > RULES_MAX {
            return Err(format!("there are more than {RULES_MAX} rules"));
        }
        let rules = rules.into_iter().map(Arc::new).collect();
        Ok(Alerts { rules, actions, repeat_ms })
    }

    /// True if the rules of the document run a program.
    #[must_use]
    pub fn runs_commands(&self) -> bool {
        self.actions.iter().any(Action::is_command)
    }
}

/// Whether a rule or an action may have this name.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().count() <= NAME_CHARS_MAX && !name.contains(char::is_control)
}

/// Refuses names that mean nothing: a misspelt one would be a rule that is never told.
fn only(doc: Doc<'_>, place: &str, known: &[&str]) -> Result<(), String> {
    match doc.iter().find(|field| !known.contains(&field.name())) {
        Some(field) => {
            let name: String = field.name().chars().take(NAME_CHARS_MAX).collect();
            Err(format!("{place}: unknown name '{name}'; known are {}", known.join(", ")))
        }
        None => Ok(()),
    }
}

fn list<'d>(place: &str, value: Value<'d>) -> Result<Vec<Value<'d>>, String> {
    match value {
        Value::Missing | Value::Null => Ok(Vec::new()),
        Value::Array(array) => Ok(array.iter().collect()),
        _ => Err(format!("{place}: expected a list")),
    }
}

fn texts(place: &str, value: Value<'_>) -> Result<Vec<String>, String> {
    let text = |value: &Value<'_>| value.as_str().map(str::to_owned);
    let all = list(place, value)?.iter().map(text).collect::<Option<Vec<_>>>();
    all.ok_or_else(|| format!("{place}: expected a list of texts"))
}

fn actions(value: Value<'_>) -> Result<Vec<Action>, String> {
    let doc = match value {
        Value::Missing | Value::Null => return Ok(Vec::new()),
        value => value.as_doc().ok_or("actions: expected a map of names")?,
    };
    if doc.iter().count() > ACTIONS_MAX {
        return Err(format!("there are more than {ACTIONS_MAX} actions"));
    }
    doc.iter()
        .map(|field| {
            let failed = |why: String| format!("action '{}': {why}", field.name());
            if !is_name(field.name()) {
                return Err(format!("actions: a name has 1 to {NAME_CHARS_MAX} characters"));
            }
            let own = field.value().as_doc();
            let own = own.ok_or_else(|| failed("expected a map".to_owned()))?;
            let (webhook, command) = (own.get("webhook"), own.get("command"));
            match (webhook.is_missing(), command.is_missing()) {
                (false, true) => {
                    only(own, "it", &["caFile", "headers", "webhook"]).map_err(failed)?;
                    webhook_of(field.name(), own).map_err(failed)
                }
                (true, false) => {
                    only(own, "it", &["command"]).map_err(failed)?;
                    let argv = texts("command", command).map_err(failed)?;
                    Action::command(field.name(), argv).map_err(failed)
                }
                _ => Err(failed("it has either 'webhook' or 'command'".to_owned())),
            }
        })
        .collect()
}

fn webhook_of(name: &str, own: Doc<'_>) -> Result<Action, String> {
    let address = own.get("webhook");
    let address = address.as_str().ok_or("webhook: expected an address")?;
    let ca_file = match own.get("caFile") {
        Value::Missing => None,
        value => Some(value.as_str().ok_or("caFile: expected a path")?.to_owned()),
    };
    let mut headers = Vec::new();
    if let Some(map) = own.get("headers").as_doc() {
        for field in map.iter() {
            let value = field.value();
            let value = value.as_str().ok_or("headers: expected a map of names and texts")?;
            headers.push((field.name().to_owned(), value.to_owned()));
        }
    } else if !own.get("headers").is_missing() {
        return Err("headers: expected a map of names and texts".to_owned());
    }
    Action::webhook(name, address, headers, ca_file)
}

/// The positions of named actions; `None` if none are named.
fn chosen(value: Value<'_>, actions: &[Action]) -> Result<Option<Vec<usize>>, String> {
    if value.is_missing() {
        return Ok(None);
    }
    let mut chosen = Vec::new();
    for name in texts("it", value)? {
        let at = actions.iter().position(|action| action.name() == name);
        let at = at.ok_or_else(|| format!("there is no action '{name}'"))?;
        if !chosen.contains(&at) {
            chosen.push(at);
        }
    }
    Ok(Some(chosen))
}

/// The built-in rules, as far as they are wanted: `true`, `false`, or a map with changes to some of them.
fn built_ins(value: Value<'_>, actions: &[Action], usual: &[usize]) -> Result<Vec<Rule>, String> {
    let changes = match value {
        Value::Missing | Value::Bool(true) => None,
        Value::Bool(false) => return Ok(Vec::new()),
        value => Some(value.as_doc().ok_or("builtIn: expected true, false or a map of rules")?),
    };
    let mut rules = built_in::rules();
    rules.iter_mut().for_each(|rule| rule.actions = usual.to_vec());
    for field in changes.iter().flat_map(Doc::iter) {
        let name = field.name();
        let Some(at) = rules.iter().position(|rule| rule.name == name) else {
            let known: Vec<_> = built_in::rules().iter().map(|rule| rule.name.clone()).collect();
            return Err(format!(
                "builtIn: there is no rule '{name}'; there are {}",
                known.join(", ")
            ));
        };
        match field.value() {
            Value::Bool(true) => {}
            Value::Bool(false) => drop(rules.remove(at)),
            value => {
                let failed = |why: String| format!("builtIn '{name}': {why}");
                let own =
                    value.as_doc().ok_or_else(|| failed("expected true, false or a map".into()))?;
                change(&mut rules[at], own, actions).map_err(failed)?;
            }
        }
    }
    Ok(rules)
}

fn change(rule: &mut Rule, own: Doc<'_>, actions: &[Action]) -> Result<(), String> {
    only(own, "it", &["above", "actions", "below", "for", "severity"])?;
    if let Some(bound) = bound(own)? {
        if bound.name() != rule.bound.name() {
            return Err(format!("it has a bound '{}'", rule.bound.name()));
        }
        rule.bound = bound;
    }
    common(rule, own, actions)
}

/// What own rules and changes of built-in ones have.
fn common(rule: &mut Rule, own: Doc<'_>, actions: &[Action]) -> Result<(), String> {
    if let Some(chosen) =
        chosen(own.get("actions"), actions).map_err(|why| format!("actions: {why}"))?
    {
        rule.actions = chosen;
    }
    if !own.get("for").is_missing() {
        rule.lasts_ms = span::parse(own.get("for")).map_err(|why| format!("for: {why}"))?;
    }
    if !own.get("severity").is_missing() {
        let severity = own.get("severity");
        let known = Severity::ALL.iter().find(|row| Some(row.0) == severity.as_str());
        rule.severity = known.ok_or("severity: it is info, warning or critical")?.1;
    }
    Ok(())
}

fn bound(own: Doc<'_>) -> Result<Option<Bound>, String> {
    let number = |name: &str| match own.get(name) {
        Value::Missing => Ok(None),
        value => match number::as_f64(value).filter(|n| n.is_finite()) {
            Some(number) => Ok(Some(number)),
            None => Err(format!("{name}: expected a number")),
        },
    };
    match (number("above")?, number("below")?) {
        (Some(bound), None) => Ok(Some(Bound::Above(bound))),
        (None, Some(bound)) => Ok(Some(Bound::Below(bound))),
        (None, None) => Ok(None),
        _ => Err("it has both 'above' and 'below'".to_owned()),
    }
}

fn rule(own: Doc<'_>, actions: &[Action], usual: &[usize]) -> Result<Rule, String> {
    let name = own.get("name");
    let name = name.as_str().filter(|name| is_name(name));
    let name = name.ok_or_else(|| {
        format!("rules: each rule has a name of 1 to {NAME_CHARS_MAX} characters")
    })?;
    let read = || -> Result<Rule, String> {
        let known = [
            "above", "actions", "advice", "below", "figure", "for", "forecast", "least", "name",
            "of", "over", "severity",
        ];
        only(own, "it", &known)?;
        let bound = bound(own)?.ok_or("it has neither 'above' nor 'below'")?;
        let advice = match own.get("advice") {
            Value::Missing => "",
            Value::String(text) if text.len() <= TEXT_BYTES_MAX => text,
            Value::String(_) => return Err(format!("advice: at most {TEXT_BYTES_MAX} bytes")),
            _ => return Err("advice: expected a text".to_owned()),
        };
        let mut rule = Rule {
            name: name.to_owned(),
            severity: Severity::Warning,
            measure: measure(own)?,
            bound,
            lasts_ms: 0,
            actions: usual.to_vec(),
            advice: advice.to_owned(),
            is_built_in: false,
        };
        common(&mut rule, own, actions)?;
        Ok(rule)
    };
    read().map_err(|why| format!("rule '{name}': {why}"))
}

fn measure(own: Doc<'_>) -> Result<Measure, String> {
    let time = |name: &str| match own.get(name) {
        Value::Missing => Ok(None),
        value => span::parse(value).map(Some).map_err(|why| format!("{name}: {why}")),
    };
    let (over, forecast) = (time("over")?, time("forecast")?);
    if over.is_some_and(|ms| !(1000..=OVER_MS_MAX).contains(&ms)) {
        return Err("over: at least 1s and at most 6h".to_owned());
    }
    let least = match own.get("least") {
        Value::Missing => None,
        value => {
            Some(number::as_f64(value).filter(|n| *n >= 0.0).ok_or("least: expected a number")?)
        }
    };
    let whole = (!own.get("of").is_missing()).then(|| sum("of", own.get("of"))).transpose()?;
    if own.get("figure").as_str() == Some("stall") {
        let over_ms = over.filter(|_| forecast.is_none() && whole.is_none() && least.is_none());
        let over_ms = over_ms
            .ok_or("the figure 'stall' has 'over', and none of 'of', 'least', 'forecast'")?;
        return Ok(Measure::Stall { over_ms });
    }
    let of = sum("figure", own.get("figure"))?;
    if least.is_some() && (whole.is_none() || over.is_none()) {
        return Err("'least' belongs to 'of' with 'over'".to_owned());
    }
    if whole.as_ref().is_some_and(|whole| whole.is_counter() != of.is_counter()) {
        return Err("'figure' and 'of' must both be counters, or both be gauges".to_owned());
    }
    match (forecast, over, whole) {
        (Some(after_ms), None, None) => match of.0[..] {
            [at] if FIGURES[at].kind == Kind::Gauge => Ok(Measure::Forecast { of: at, after_ms }),
            _ => Err("a forecast needs one gauge".to_owned()),
        },
        (Some(_), ..) => Err("a forecast has neither 'over' nor 'of'".to_owned()),
        (None, Some(over_ms), None) => Ok(Measure::Growth { of, over_ms }),
        (None, None, None) if of.is_counter() => {
            Err("a counter grows since the start: it needs 'over'".to_owned())
        }
        (None, None, None) => Ok(Measure::Value(of)),
        (None, Some(over_ms), Some(whole)) => {
            Ok(Measure::GrowthShare { part: of, whole, over_ms, least: least.unwrap_or(1.0) })
        }
        (None, None, Some(_)) if of.is_counter() => {
            Err("counters grow since the start: they need 'over'".to_owned())
        }
        (None, None, Some(whole)) => Ok(Measure::Share { part: of, whole }),
    }
}

/// One figure, or a list of figures that are added.
fn sum(place: &str, value: Value<'_>) -> Result<Sum, String> {
    let names = match value {
        Value::String(name) => vec![name.to_owned()],
        Value::Missing => return Err(format!("'{place}' is missing")),
        value => texts(place, value)?,
    };
    if names.is_empty() || names.len() > FIGURES_MAX {
        return Err(format!("{place}: 1 to {FIGURES_MAX} figures"));
    }
    let mut all = Vec::new();
    for name in &names {
        let at = FIGURES.iter().position(|figure| figure.name == name);
        let at = at.ok_or_else(|| unknown(place, name))?;
        if FIGURES[at].kind != FIGURES[*all.first().unwrap_or(&at)].kind {
            return Err(format!("{place}: counters and gauges cannot be added"));
        }
        all.push(at);
    }
    Ok(Sum(all))
}

fn unknown(place: &str, name: &str) -> String {
    let short: String = name.chars().take(NAME_CHARS_MAX).collect();
    let lead = name.split('.').next().unwrap_or_default();
    let near: Vec<_> = figures::FIGURES
        .iter()
        .map(|figure| figure.name)
        .filter(|known| known.starts_with(lead))
        .collect();
    let near = match near.is_empty() {
        true => "GET /api/figures of the web console lists them".to_owned(),
        false => format!("there are {}", near.join(", ")),
    };
    format!("{place}: there is no figure '{short}'; {near}")
}

#[cfg(test)]
mod tests {
    use nagi_bson::json;

    use super::*;

    fn parse(text: &str) -> Result<Alerts, String> {
        Alerts::parse(json::parse(text).unwrap().as_doc())
    }

    fn measure_of(fields: &str) -> Result<Measure, String> {
        let all = parse(&format!("{{builtIn: false, rules: [{{name: 'r', {fields}}}]}}"))?;
        Ok(all.rules[0].measure.clone())
    }

    #[test]
    fn an_empty_file_has_the_built_in_rules() {
        let all = parse("{}").unwrap();
        assert_eq!(all.rules.len(), Alerts::default().rules.len());
        assert_eq!(all.repeat_ms, REPEAT_MS);
        assert!(parse("{builtIn: false}").unwrap().rules.is_empty());
    }

    #[test]
    fn kinds_of_rules() {
        use crate::figures::position;
        let one = |name| Sum(vec![position(name)]);
        assert_eq!(measure_of("figure: 'sessions', above: 5"), Ok(Measure::Value(one("sessions"))));
        let growth = Measure::Growth { of: one("ops.insert"), over_ms: 60_000 };
        assert_eq!(measure_of("figure: 'ops.insert', over: '1m', below: 1"), Ok(growth));
        let share = Measure::Share { part: one("disk.free"), whole: one("disk.total") };
        assert_eq!(measure_of("figure: 'disk.free', of: 'disk.total', below: 0.1"), Ok(share));
        let whole = Sum(vec![position("cache.hits"), position("cache.misses")]);
        let share =
            Measure::GrowthShare { part: one("cache.hits"), whole, over_ms: 300_000, least: 50.0 };
        let text = "figure: 'cache.hits', of: ['cache.hits', 'cache.misses'], over: '5m', least: 50, below: 0.9";
        assert_eq!(measure_of(text), Ok(share));
        let forecast = Measure::Forecast { of: position("disk.free"), after_ms: 86_400_000 };
        assert_eq!(measure_of("figure: 'disk.free', forecast: '1d', below: 0"), Ok(forecast));
        let stall = Measure::Stall { over_ms: 60_000 };
        assert_eq!(measure_of("figure: 'stall', over: '1m', above: 100"), Ok(stall));
    }

    #[test]
    fn built_in_rules_are_changed() {
        let all = parse(
            "{actions: {a: {command: ['/bin/true']}, b: {webhook: 'http://127.0.0.1:1/x'}}, 
              defaultActions: ['b'], repeat: 0,
              builtIn: {stall: {above: 200, for: '5s', actions: ['a'], severity: 'critical'}, connections: false}}",
        )
        .unwrap();
        let stall = all.rules.iter().find(|rule| rule.name == "stall").unwrap();
        assert_eq!((stall.bound, stall.lasts_ms), (Bound::Above(200.0), 5000));
        assert_eq!((&stall.actions[..], stall.severity), (&[0][..], Severity::Critical));
        assert!(all.rules.iter().all(|rule| rule.name != "connections"));
        assert!(
            all.rules.iter().filter(|rule| rule.name != "stall").all(|rule| rule.actions == [1])
        );
        assert!(all.runs_commands());
        assert_eq!(all.repeat_ms, 0);
    }

    #[test]
    fn texts_have_limits() {
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        let advice =
            format!("{{rules: [{{name: 'r', figure: 'sessions', above: 1, advice: '{long}'}}]}}");
        assert!(parse(&advice).unwrap_err().contains("advice: at most 4096 bytes"));
        let header =
            format!("{{actions: {{a: {{webhook: 'https://x/', headers: {{a: '{long}'}}}}}}}}");
        assert!(parse(&header).unwrap_err().contains("longer than 4096 bytes"));
        let name = format!("{{actions: {{{long}: {{command: ['/bin/true']}}}}}}");
        assert!(parse(&name).unwrap_err().contains("actions: a name has"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            ("{rule: []}", "unknown name 'rule'"),
            ("{rules: {}}", "expected a list"),
            ("{rules: [{}]}", "has a name"),
            (
                "{rules: [{name: 'r', figure: 'sessions'}]}",
                "rule 'r': it has neither 'above' nor 'below'",
            ),
            ("{rules: [{name: 'r', figure: 'sessions', above: 1, below: 2}]}", "both"),
            ("{rules: [{name: 'r', figure: 'sessions', above: 'x'}]}", "above: expected a number"),
            ("{rules: [{name: 'r', above: 1}]}", "'figure' is missing"),
            ("{rules: [{name: 'r', figure: 'ops.inserts', above: 1}]}", "there are ops.insert, "),
            ("{rules: [{name: 'r', figure: 'x', above: 1}]}", "/api/figures"),
            ("{rules: [{name: 'r', figure: 'ops.insert', above: 1}]}", "needs 'over'"),
            (
                "{rules: [{name: 'r', figure: 'ops.insert', of: 'ops.query', above: 1}]}",
                "need 'over'",
            ),
            (
                "{rules: [{name: 'r', figure: ['ops.insert', 'sessions'], over: '1m', above: 1}]}",
                "cannot be added",
            ),
            (
                "{rules: [{name: 'r', figure: 'ops.insert', of: 'sessions', over: '1m', above: 1}]}",
                "both be counters",
            ),
            ("{rules: [{name: 'r', figure: 'sessions', over: '7h', above: 1}]}", "at most 6h"),
            (
                "{rules: [{name: 'r', figure: 'ops.insert', forecast: '1h', above: 1}]}",
                "needs one gauge",
            ),
            ("{rules: [{name: 'r', figure: 'sessions', least: 4, above: 1}]}", "'least' belongs"),
            ("{rules: [{name: 'r', figure: 'stall', above: 1}]}", "has 'over'"),
            (
                "{rules: [{name: 'r', figure: 'sessions', above: 1, for: 'soon'}]}",
                "for: expected a time",
            ),
            ("{rules: [{name: 'r', figure: 'sessions', above: 1, severity: 'bad'}]}", "severity"),
            (
                "{rules: [{name: 'r', figure: 'sessions', above: 1, actions: ['x']}]}",
                "no action 'x'",
            ),
            (
                "{rules: [{name: 'stall', figure: 'sessions', above: 1}]}",
                "another one of this name",
            ),
            ("{builtIn: {stal: false}}", "there are disk full, "),
            ("{builtIn: {stall: {below: 5}}}", "it has a bound 'above'"),
            ("{builtIn: {stall: {figure: 'sessions'}}}", "unknown name 'figure'"),
            ("{actions: {a: {}}}", "either 'webhook' or 'command'"),
            ("{actions: {a: {command: ['/bin/true'], webhook: 'http://localhost/'}}}", "either"),
            ("{actions: {a: {command: ['true']}}}", "absolute"),
            ("{actions: {a: {command: []}}}", "absolute"),
            ("{actions: {a: {command: '/bin/true'}}}", "expected a list"),
            ("{actions: {a: {webhook: 'ftp://x/'}}}", "http"),
            ("{actions: {a: {webhook: 'https://x/', header: {}}}}", "unknown name 'header'"),
            ("{actions: {a: {webhook: 'https://x/', headers: {a: 5}}}}", "headers"),
            ("{actions: {a: {command: ['/etc/passwd']}}}", "Permission denied"),
            ("{actions: {a: {webhook: 'http://x:99999/'}}}", "expected an address"),
            (
                "{actions: {a: {webhook: 'https://x/', headers: {'Content-Length': '1'}}}}",
                "'content-length' is not for the file",
            ),
            ("{actions: {'': {command: ['/bin/true']}}}", "actions: a name has"),
            ("{repeat: '1s'}", "at least 1m"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}

//! Expressions whose value stays the same for a while when a date rises, such as the hour in which it is.
//!
//! ```text
//!   {hour: {$dateTrunc: {date: "$t", unit: "hour"}}, site: "$m.site"}     stepwise in `t`
//!   {$hour: "$t"}                                                         not: it comes again every day
//! ```

use nagi_bson::Value;

use super::forms::Form;
use super::named::NamedCall;
use super::{Deps, Expr};

/// Operators whose result does not fall when the date, their first argument, rises; without a time zone, because the
/// clocks of a zone are set back.
const RISING: [&str; 2] = ["$dateTrunc", "$year"];

/// An operator whose text names a period if its format does.
const FORMATTED: &str = "$dateToString";

/// The parts of a date in formats, each of them a part of the one before.
const PARTS: &str = "YmdHMSL";

impl Expr {
    /// True if it has the same value at all dates between two dates at which it has the same value, if only the date at
    /// the top-level `path` changes.
    pub fn is_stepwise_in(&self, path: &str) -> bool {
        if !self.reads(path) {
            return true;
        }
        match self {
            Expr::Path(own) => own.dotted() == path,
            Expr::Object(fields) => fields.iter().all(|(_, field)| field.is_stepwise_in(path)),
            Expr::Array(items) => items.iter().all(|item| item.is_stepwise_in(path)),
            // The key of a group that is an object of one field: these are not missing if the date is there.
            Expr::Call(operator, args) if operator.name == super::MISSING_TO_NULL => {
                match &**args {
                    [arg @ (Expr::Path(_) | Expr::Form(_))] => arg.is_stepwise_in(path),
                    _ => false,
                }
            }
            Expr::Form(form) => match &**form {
                Form::Named(call) => call.is_stepwise_in(path),
                _ => false,
            },
            _ => false,
        }
    }

    fn reads(&self, path: &str) -> bool {
        let mut deps = Deps::default();
        self.deps(&mut deps);
        let below = |other: &String| other.split('.').next() == Some(path);
        deps.whole || deps.random || deps.paths.iter().any(below)
    }
}

impl NamedCall {
    fn is_stepwise_in(&self, path: &str) -> bool {
        let [Some(Expr::Path(date)), rest @ ..] = &*self.args else { return false };
        let is_known = |(arg, (name, _)): (&Option<Expr>, &(&str, Option<i32>))| match arg {
            None => true,
            Some(arg) => *name != "timezone" && arg.as_const().is_some(),
        };
        date.dotted() == path
            && rest.iter().zip(&self.row.params[1..]).all(is_known)
            && (RISING.contains(&self.row.name)
                || self.row.name == FORMATTED && self.format().is_some_and(names_period))
    }

    fn format(&self) -> Option<&str> {
        match self.args.get(1)?.as_ref()?.as_const()? {
            Value::String(format) => Some(format),
            _ => None,
        }
    }
}

/// True if dates with equal texts are in the same year, month and so on down to the smallest part of the format.
fn names_period(format: &str) -> bool {
    let parts = || format.split('%').skip(1).map(|part| part.chars().next().unwrap_or('%'));
    let count = PARTS.chars().take_while(|part| parts().any(|other| other == *part)).count();
    count > 0 && parts().all(|part| PARTS[..count].contains(part))
}

#[cfg(test)]
mod tests {
    use nagi_bson::json;

    use super::super::ParseCx;
    use super::*;

    fn is_stepwise(text: &str) -> bool {
        let spec = json::parse(&format!("{{\"e\": {text}}}")).unwrap();
        let expr = Expr::parse(spec.as_doc().get("e"), &mut ParseCx::new()).unwrap();
        expr.is_stepwise_in("t")
    }

    #[test]
    fn periods_are_told_from_what_comes_again() {
        for text in [
            r#""$t""#,
            r#""$m.t""#,
            "5",
            r#"{"$year": "$t"}"#,
            r#"{"$dateTrunc": {"date": "$t", "unit": "hour", "binSize": 6}}"#,
            r#"{"a": {"$dateTrunc": {"date": "$t", "unit": "week"}}, "b": "$m", "c": ["$m"]}"#,
            r#"{"$dateToString": {"date": "$t", "format": "%d.%m.%Y %H"}}"#,
        ] {
            assert!(is_stepwise(text), "{text}");
        }
        for text in [
            r#""$t.a""#,
            r#"{"$hour": "$t"}"#,
            r#"{"$year": {"date": "$t", "timezone": "Europe/Berlin"}}"#,
            r#"{"$dateTrunc": {"date": "$t", "unit": "$u"}}"#,
            r#"{"$dateTrunc": {"date": "$t", "unit": "hour", "timezone": "Europe/Berlin"}}"#,
            r#"{"$dateTrunc": {"date": {"$min": ["$t", "$u"]}, "unit": "hour"}}"#,
            r#"{"$dateToString": {"date": "$t", "format": "%Y-%d"}}"#,
            r#"{"$dateToString": {"date": "$t", "format": "%m"}}"#,
            r#"{"$dateToString": {"date": "$t"}}"#,
            r#"{"$add": ["$t", 5]}"#,
            r#"{"a": "$$ROOT"}"#,
        ] {
            assert!(!is_stepwise(text), "{text}");
        }
    }
}

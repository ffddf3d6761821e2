//! How long the value of an expression surely stays the same when a date changes.
//!
//! ```text
//!   {hour: {$dateTrunc: {date: "$t", unit: "hour"}}, site: "$m.site"}     an hour
//!   {$cond: [{$lt: [{$hour: "$t"}, 12]}, {$dayOfWeek: "$t"}, "$m"]}       an hour
//!   {$add: ["$t", 1]}                                                     a millisecond
//! ```
//!
//! All parts of dates change only at multiples of their own length since 1970, or at the moments of a time zone.

use nagi_bson::Value;

use super::forms::Form;
use super::named::NamedCall;
use super::{Deps, Expr, Variable};

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// In seconds from 1970, when the clocks of all time zones began to differ by whole minutes (Liberia was the last).
const WHOLE_MINUTES_SINCE: i64 = 63_593_070;

/// Operators whose result depends only on one part of a date.
const PARTS: &[(&str, i64)] = &[
    ("$dayOfMonth", DAY),
    ("$dayOfWeek", DAY),
    ("$dayOfYear", DAY),
    ("$hour", HOUR),
    ("$isoDayOfWeek", DAY),
    ("$isoWeek", DAY),
    ("$isoWeekYear", DAY),
    ("$minute", MINUTE),
    ("$month", DAY),
    ("$second", SECOND),
    ("$week", DAY),
    ("$year", DAY),
];

/// The units of `$dateTrunc`.
const UNITS: &[(&str, i64)] = &[
    ("year", DAY),
    ("quarter", DAY),
    ("month", DAY),
    ("week", DAY),
    ("day", DAY),
    ("hour", HOUR),
    ("minute", MINUTE),
    ("second", SECOND),
];

/// The specifiers of `$dateToString`.
const SPECIFIERS: &[(&str, i64)] =
    &[("dGjmuUVYbBw", DAY), ("H", HOUR), ("M", MINUTE), ("S", SECOND), ("L", 1), ("zZ", DAY)];

/// How long a value stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granule {
    ms: i64,
    /// True if it depends on a time zone.
    zoned: bool,
}

impl Granule {
    const ALWAYS: Granule = Granule { ms: i64::MAX, zoned: false };

    fn of(ms: i64) -> Granule {
        Granule { ms, zoned: false }
    }

    fn and(self, other: Granule) -> Granule {
        Granule { ms: self.ms.min(other.ms), zoned: self.zoned || other.zoned }
    }

    /// Milliseconds between which the value is that at a date: the begin, and the end, which is not part of them.
    pub fn around(self, date: i64) -> (i64, i64) {
        let zone = if date >= WHOLE_MINUTES_SINCE * SECOND { MINUTE } else { SECOND };
        let ms = if self.zoned { self.ms.min(zone) } else { self.ms };
        let begin = date.saturating_sub(date.rem_euclid(ms));
        let end = begin.saturating_add(ms);
        match self.zoned && date >= WHOLE_MINUTES_SINCE * SECOND {
            // The first of the whole minutes did not begin at one.
            true => (begin.max(WHOLE_MINUTES_SINCE * SECOND), end),
            false => (begin, end),
        }
    }
}

impl Expr {
    /// How long the value stays the same if only the date at the top-level `path` changes. The expression may use
    /// neither the whole document nor random numbers.
    pub fn granule(&self, path: &str) -> Granule {
        let mut deps = Deps::default();
        self.deps(&mut deps);
        if !deps.paths.iter().any(|other| other.split('.').next() == Some(path)) {
            return Granule::ALWAYS;
        }
        match self {
            Expr::Path(_) | Expr::Var(Variable::Root, _) => Granule::of(1),
            Expr::Form(form) => match &**form {
                Form::Named(call) => call.granule(path).unwrap_or_else(|| self.of_operands(path)),
                _ => self.of_operands(path),
            },
            _ => self.of_operands(path),
        }
    }

    fn of_operands(&self, path: &str) -> Granule {
        let mut granule = Granule::ALWAYS;
        self.for_each_child(&mut |child| granule = granule.and(child.granule(path)));
        granule
    }
}

impl NamedCall {
    /// That of an operator which is known to take only a part of the date, its first argument.
    fn granule(&self, path: &str) -> Option<Granule> {
        let [Some(Expr::Path(date)), rest @ ..] = &*self.args else { return None };
        if date.dotted() != path {
            return None;
        }
        let find = |rows: &[(&str, i64)], name: &str| {
            rows.iter().find(|(row, _)| *row == name).map(|(_, ms)| *ms)
        };
        let text = |at: usize| match rest.get(at)?.as_ref()?.as_const()? {
            Value::String(text) => Some(text),
            _ => None,
        };
        let ms = match self.row.name {
            "$dateTrunc" => find(UNITS, text(0)?)?,
            "$dateToString" => of_format(text(0)?)?,
            name => find(PARTS, name)?,
        };
        let params = self.row.params[1..].iter().zip(rest);
        let zoned = params.clone().any(|((name, _), arg)| *name == "timezone" && arg.is_some());
        let others = rest.iter().flatten().map(|arg| arg.granule(path));
        Some(others.fold(Granule { ms, zoned }, Granule::and))
    }
}

fn of_format(format: &str) -> Option<i64> {
    let parts = format.split('%').skip(1);
    parts
        .map(|part| {
            let row = SPECIFIERS.iter().find(|(all, _)| part.starts_with(|c| all.contains(c)));
            row.map(|(_, ms)| *ms)
        })
        .try_fold(DAY, |least, ms| Some(least.min(ms?)))
}

#[cfg(test)]
mod tests {
    use nagi_bson::json;

    use super::super::ParseCx;
    use super::*;

    fn granule(text: &str) -> Granule {
        let spec = json::parse(&format!("{{\"e\": {text}}}")).unwrap();
        Expr::parse(spec.as_doc().get("e"), &mut ParseCx::new()).unwrap().granule("t")
    }

    #[test]
    fn the_smallest_part_of_a_date_counts() {
        for (text, ms) in [
            (r#""$t""#, 1),
            (r#""$t.a""#, 1),
            (r#""$$ROOT.t""#, 1),
            (r#""$m.t""#, i64::MAX),
            ("5", i64::MAX),
            (r#"{"$year": "$t"}"#, DAY),
            (r#"{"$dateTrunc": {"date": "$t", "unit": "hour", "binSize": 6}}"#, HOUR),
            (r#"{"$dateTrunc": {"date": "$t", "unit": "$u"}}"#, 1),
            (
                r#"{"$dateTrunc": {"date": "$t", "unit": "hour", "binSize": {"$second": "$t"}}}"#,
                SECOND,
            ),
            (
                r#"{"a": {"$dateTrunc": {"date": "$t", "unit": "week"}}, "b": [{"$hour": "$t"}]}"#,
                HOUR,
            ),
            (r#"{"$dateToString": {"date": "$t", "format": "%d.%m.%Y %H"}}"#, HOUR),
            (r#"{"$dateToString": {"date": "$t", "format": "100%%"}}"#, 1),
            (r#"{"$dateToString": {"date": "$t"}}"#, 1),
            (r#"{"$cond": [{"$lt": [{"$hour": "$t"}, 12]}, {"$minute": "$t"}, "$m"]}"#, MINUTE),
            (r#"{"$let": {"vars": {"x": "$t"}, "in": {"$hour": "$$x"}}}"#, 1),
            (r#"{"$add": [{"$hour": {"$add": ["$t", 1]}}, 5]}"#, 1),
        ] {
            assert_eq!(granule(text), Granule::of(ms), "{text}");
        }
        let zoned = granule(r#"{"$hour": {"date": "$t", "timezone": "Europe/Berlin"}}"#);
        assert_eq!(zoned, Granule { ms: HOUR, zoned: true });
    }

    #[test]
    fn granules_begin_at_their_multiples() {
        assert_eq!(Granule::of(HOUR).around(2 * HOUR + 5), (2 * HOUR, 3 * HOUR));
        assert_eq!(Granule::of(HOUR).around(-1), (-HOUR, 0));
        assert_eq!(Granule::of(1).around(7), (7, 8));
        let zoned = Granule { ms: HOUR, zoned: true };
        assert_eq!(zoned.around(1_767_225_605_123), (1_767_225_600_000, 1_767_225_660_000));
        assert_eq!(zoned.around(-1_500), (-2_000, -1_000));
        for date in [i64::MIN, i64::MIN + 1, 0, i64::MAX] {
            for granule in [Granule::ALWAYS, Granule::of(DAY), zoned] {
                let (begin, end) = granule.around(date);
                assert!(begin <= date && (date < end || date == i64::MAX), "{granule:?} {date}");
            }
        }
    }
}

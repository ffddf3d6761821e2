//! The options of a time series collection: `timeseries` of `create` and `collMod`.
//!
//! | granularity | rounding | span |
//! |---|---|---|
//! | seconds | 1 minute | 1 hour |
//! | minutes | 1 hour | 1 day |
//! | hours | 1 day | 30 days |
//!
//! A bucket begins at its first measurement's time, rounded down, and contains the times of one span. Instead of a
//! granularity, both may be given in seconds; they must be equal then.

use nagi_bson::{Doc, DocBuf, Type, Value, number};
use nagi_error::{Code, Result, bail};

/// The longest span and rounding, in seconds: a year.
const SECONDS_MAX: i64 = 365 * 86_400;

/// How far apart measurements usually are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Granularity {
    Seconds,
    Minutes,
    Hours,
}

use Granularity::{Hours, Minutes, Seconds};

impl Granularity {
    const ALL: [Granularity; 3] = [Seconds, Minutes, Hours];

    /// The name in the options.
    pub const fn name(self) -> &'static str {
        match self {
            Seconds => "seconds",
            Minutes => "minutes",
            Hours => "hours",
        }
    }

    /// The span of a bucket in seconds.
    pub const fn span(self) -> i32 {
        match self {
            Seconds => 3600,
            Minutes => 86_400,
            Hours => 30 * 86_400,
        }
    }

    /// The unit in seconds to which the begin of a bucket is rounded.
    pub const fn rounding(self) -> i32 {
        match self {
            Seconds => 60,
            Minutes => 3600,
            Hours => 86_400,
        }
    }
}

/// The options of a time series collection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    pub time_field: Box<str>,
    pub meta_field: Option<Box<str>>,
    /// None if span and rounding were given in seconds.
    pub granularity: Option<Granularity>,
    /// The span of a bucket in seconds.
    pub span: i32,
    /// The unit in seconds to which the begin of a bucket is rounded.
    pub rounding: i32,
}

/// The fields of the option `timeseries` that both commands have.
#[derive(Default)]
struct Bucketing {
    granularity: Option<Granularity>,
    span: Option<i32>,
    rounding: Option<i32>,
}

impl Options {
    /// Parses the option of `create` for the collection `namespace`.
    ///
    /// # Errors
    /// 2, 14, 72, 40414, 40415.
    pub fn parse(options: Doc<'_>, namespace: &str) -> Result<Options> {
        Options::parse_in("create", options, namespace)
    }

    /// The same for an option of something else, whose name errors have: `$out`.
    ///
    /// # Errors
    /// Those of [`Options::parse`].
    pub fn parse_in(what: &str, options: Doc<'_>, namespace: &str) -> Result<Options> {
        let (mut time, mut meta) = (None, None);
        let mut bucketing = Bucketing::default();
        for element in options {
            match element.name() {
                "timeField" => time = Some(text(what, "timeField", element.value())?),
                "metaField" if element.value().is_nullish() => {}
                "metaField" => meta = Some(text(what, "metaField", element.value())?),
                name => bucketing.field(what, name, element.value())?,
            }
        }
        let Some(time) = time else {
            bail!(
                Code::IDL_FAILED_TO_PARSE,
                "BSON field '{what}.timeseries.timeField' is missing but a required field"
            )
        };
        check_fields(time, meta, namespace)?;
        let bucketing = match bucketing {
            Bucketing { granularity: None, span: None, rounding: None } => {
                Bucketing { granularity: Some(Seconds), ..Bucketing::default() }
            }
            given => given,
        };
        let (granularity, span, rounding) = bucketing.resolve()?;
        Ok(Options {
            time_field: time.into(),
            meta_field: meta.map(Into::into),
            granularity,
            span,
            rounding,
        })
    }

    /// Applies the option of `collMod`. None if it changes nothing.
    ///
    /// # Errors
    /// 2, 14, 40415; 72 if buckets would become shorter.
    pub fn change(&self, changes: Doc<'_>) -> Result<Option<Options>> {
        let mut bucketing = Bucketing::default();
        for element in changes {
            bucketing.field("collMod", element.name(), element.value())?;
        }
        if matches!(bucketing, Bucketing { granularity: None, span: None, rounding: None }) {
            return Ok(None);
        }
        let (granularity, span, rounding) = bucketing.resolve()?;
        if let (Some(old), Some(new)) = (self.granularity, granularity)
            && new < old
        {
            bail!(
                Code::INVALID_OPTIONS,
                "Invalid transition for timeseries.granularity. Can only transition from 'seconds' \
                 to 'minutes' or 'minutes' to 'hours'."
            )
        }
        if (self.span, self.rounding) == (span, rounding) {
            return Ok(None);
        }
        for (name, old, new) in [
            ("bucketMaxSpanSeconds", self.span, span),
            ("bucketRoundingSeconds", self.rounding, rounding),
        ] {
            if old > new {
                bail!(
                    Code::INVALID_OPTIONS,
                    "Timeseries '{name}' needs to be equal or greater to transition"
                )
            }
        }
        Ok(Some(Options { granularity, span, rounding, ..self.clone() }))
    }

    /// The options as they are stored and listed.
    pub fn to_doc(&self) -> DocBuf {
        DocBuf::build(|out| {
            out.put("timeField", &*self.time_field);
            if let Some(meta) = &self.meta_field {
                out.put("metaField", &**meta);
            }
            match self.granularity {
                Some(granularity) => out.put("granularity", granularity.name()),
                None => out.put("bucketRoundingSeconds", self.rounding),
            }
            out.put("bucketMaxSpanSeconds", self.span);
        })
    }

    /// The begin of the bucket of a time in milliseconds: rounded down, also before 1970.
    pub fn begin(&self, time: i64) -> i64 {
        let unit = i64::from(self.rounding) * 1000;
        time.checked_sub(time.rem_euclid(unit)).unwrap_or(i64::MIN)
    }

    /// True if a bucket that begins at `begin` may contain `time`.
    pub fn spans(&self, begin: i64, time: i64) -> bool {
        let span = i64::from(self.span) * 1000;
        time >= begin && time.checked_sub(begin).is_some_and(|distance| distance < span)
    }
}

impl Bucketing {
    fn field(&mut self, command: &str, name: &str, value: Value<'_>) -> Result<()> {
        if !matches!(name, "granularity" | "bucketMaxSpanSeconds" | "bucketRoundingSeconds") {
            bail!(
                Code::IDL_UNKNOWN_FIELD,
                "BSON field '{command}.timeseries.{name}' is an unknown field."
            )
        }
        if value.is_nullish() {
            return Ok(());
        }
        match name {
            "granularity" => self.granularity = Some(granularity(command, value)?),
            "bucketMaxSpanSeconds" => self.span = Some(seconds(command, name, value)?),
            _ => self.rounding = Some(seconds(command, name, value)?),
        }
        Ok(())
    }

    /// Granularity, span and rounding, of which the latter two must agree with the first.
    fn resolve(&self) -> Result<(Option<Granularity>, i32, i32)> {
        if let Some(granularity) = self.granularity {
            if self.span.is_some_and(|span| span != granularity.span()) {
                bail!(
                    Code::INVALID_OPTIONS,
                    "Timeseries 'bucketMaxSpanSeconds' is not configurable to a value other than \
                     the default for the provided granularity"
                )
            }
            if self.rounding.is_some() {
                bail!(
                    Code::INVALID_OPTIONS,
                    "Timeseries 'bucketRoundingSeconds' is not configurable alongside the \
                     granularity parameter"
                )
            }
            return Ok((Some(granularity), granularity.span(), granularity.rounding()));
        }
        match (self.span, self.rounding) {
            (Some(span), Some(rounding)) if span == rounding => Ok((None, span, rounding)),
            (Some(_), Some(_)) => bail!(
                Code::INVALID_OPTIONS,
                "Timeseries 'bucketRoundingSeconds' needs to be equal to 'bucketMaxSpanSeconds'"
            ),
            _ => bail!(
                Code::INVALID_OPTIONS,
                "Timeseries 'bucketMaxSpanSeconds' and 'bucketRoundingSeconds' need to be set \
                 alongside each other"
            ),
        }
    }
}

fn wrong_type(command: &str, name: &str, found: Type, expected: &str) -> nagi_error::Error {
    nagi_error::err!(
        Code::TYPE_MISMATCH,
        "BSON field '{command}.timeseries.{name}' is the wrong type '{}', expected type{expected}",
        found.name()
    )
}

fn text<'a>(what: &str, name: &str, value: Value<'a>) -> Result<&'a str> {
    match value {
        Value::String(text) if text.contains('\0') => {
            bail!(Code::BAD_VALUE, "The '{name}' of a time-series collection contains a null byte")
        }
        Value::String(text) => Ok(text),
        other => Err(wrong_type(what, name, other.kind(), " 'string'")),
    }
}

fn granularity(command: &str, value: Value<'_>) -> Result<Granularity> {
    let Value::String(given) = value else {
        return Err(wrong_type(command, "granularity", value.kind(), " 'string'"));
    };
    match Granularity::ALL.into_iter().find(|granularity| granularity.name() == given) {
        Some(granularity) => Ok(granularity),
        None => bail!(
            Code::BAD_VALUE,
            "Enumeration value '{given}' for field '{command}.timeseries.granularity' is not a \
             valid value."
        ),
    }
}

fn seconds(command: &str, name: &str, value: Value<'_>) -> Result<i32> {
    let Some(given) = number::truncate_to_i64(value) else {
        let expected = "s '[long, int, decimal, double]'";
        return Err(wrong_type(command, name, value.kind(), expected));
    };
    let bound = match given {
        ..1 => ">= 1".to_owned(),
        1..=SECONDS_MAX => return Ok(given as i32),
        _ => format!("<= {SECONDS_MAX}"),
    };
    bail!(Code::BAD_VALUE, "BSON field '{name}' value must be {bound}, actual value '{given}'")
}

fn check_fields(time: &str, meta: Option<&str>, namespace: &str) -> Result<()> {
    let top_level = |name: &str, field: &str| match field.contains('.') {
        true => bail!(
            Code::INVALID_OPTIONS,
            "{namespace}: '{name}' must be a top-level field and not contain a '.'"
        ),
        false => Ok(()),
    };
    top_level("timeField", time)?;
    let Some(meta) = meta else { return Ok(()) };
    if meta == "_id" {
        bail!(Code::INVALID_OPTIONS, "'metaField' cannot be \"_id\"")
    }
    if meta == time {
        bail!(Code::INVALID_OPTIONS, "'metaField' cannot be the same as 'timeField'")
    }
    top_level("metaField", meta)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_bson::json;

    fn doc(text: &str) -> DocBuf {
        json::parse(text).expect("valid JSON")
    }

    fn listed(text: &str) -> String {
        match Options::parse(doc(text).as_doc(), "db.c") {
            Ok(options) => options.to_doc().as_doc().to_string(),
            Err(error) => format!("{}: {}", error.code().0, error.message()),
        }
    }

    #[test]
    fn options_are_listed_in_full() {
        let cases = [
            (
                "{timeField: 't'}",
                "{ timeField: \"t\", granularity: \"seconds\", bucketMaxSpanSeconds: 3600 }",
            ),
            (
                "{timeField: 't', metaField: 'm', granularity: 'hours', bucketMaxSpanSeconds: 2592000}",
                "{ timeField: \"t\", metaField: \"m\", granularity: \"hours\", bucketMaxSpanSeconds: 2592000 }",
            ),
            (
                "{timeField: 't', bucketMaxSpanSeconds: 60.5, bucketRoundingSeconds: 60}",
                "{ timeField: \"t\", bucketRoundingSeconds: 60, bucketMaxSpanSeconds: 60 }",
            ),
        ];
        for (given, expected) in cases {
            assert_eq!(listed(given), expected);
            // What is listed may be given to `create` again, as `mongorestore` does.
            let options = Options::parse(doc(given).as_doc(), "db.c").unwrap();
            assert_eq!(Options::parse(options.to_doc().as_doc(), "db.c").unwrap(), options);
        }
    }

    #[test]
    fn wrong_options_are_refused() {
        let cases = [
            ("{}", "40414: BSON field 'create.timeseries.timeField' is missing"),
            (
                "{timeField: 1}",
                "14: BSON field 'create.timeseries.timeField' is the wrong type 'int'",
            ),
            (
                "{timeField: 't', x: 1}",
                "40415: BSON field 'create.timeseries.x' is an unknown field.",
            ),
            ("{timeField: 'a.b'}", "72: db.c: 'timeField' must be a top-level field"),
            (
                "{timeField: 't', metaField: 'a.b'}",
                "72: db.c: 'metaField' must be a top-level field",
            ),
            ("{timeField: 't', metaField: 't'}", "72: 'metaField' cannot be the same"),
            ("{timeField: 't', metaField: '_id'}", "72: 'metaField' cannot be \"_id\""),
            ("{timeField: 't', granularity: 'days'}", "2: Enumeration value 'days' for field"),
            (
                "{timeField: 't', bucketMaxSpanSeconds: 0}",
                "2: BSON field 'bucketMaxSpanSeconds' value must be >= 1",
            ),
            (
                "{timeField: 't', bucketMaxSpanSeconds: 31536001}",
                "2: BSON field 'bucketMaxSpanSeconds' value must be <= 31536000",
            ),
            (
                "{timeField: 't', bucketMaxSpanSeconds: 10}",
                "72: Timeseries 'bucketMaxSpanSeconds' and",
            ),
            (
                "{timeField: 't', bucketMaxSpanSeconds: 10, bucketRoundingSeconds: 9}",
                "72: Timeseries 'bucketRoundingSeconds' needs to be equal",
            ),
            (
                "{timeField: 't', granularity: 'minutes', bucketMaxSpanSeconds: 3600}",
                "72: Timeseries 'bucketMaxSpanSeconds' is not configurable",
            ),
            (
                "{timeField: 't', granularity: 'seconds', bucketRoundingSeconds: 60}",
                "72: Timeseries 'bucketRoundingSeconds' is not configurable",
            ),
        ];
        for (given, expected) in cases {
            let found = listed(given);
            assert!(found.starts_with(expected), "{given}: {found}");
        }
        let nul = nagi_bson::doc! { "timeField": "a\0b" };
        assert_eq!(Options::parse(nul.as_doc(), "db.c").unwrap_err().code().0, 2);
    }

    #[test]
    fn buckets_may_only_become_longer() {
        let change = |from: &str, change: &str| {
            let options = Options::parse(doc(from).as_doc(), "db.c").unwrap();
            match options.change(doc(change).as_doc()) {
                Ok(None) => "same".to_owned(),
                Ok(Some(new)) => format!("{:?} {} {}", new.granularity, new.span, new.rounding),
                Err(error) => error.code().0.to_string(),
            }
        };
        let (seconds, hours) = ("{timeField: 't'}", "{timeField: 't', granularity: 'hours'}");
        let own = "{timeField: 't', bucketMaxSpanSeconds: 200, bucketRoundingSeconds: 200}";
        let both = |n: i32| format!("{{bucketMaxSpanSeconds: {n}, bucketRoundingSeconds: {n}}}");
        let cases = [
            (seconds, "{}".to_owned(), "same"),
            (seconds, "{granularity: 'seconds'}".to_owned(), "same"),
            (seconds, "{granularity: 'hours'}".to_owned(), "Some(Hours) 2592000 86400"),
            (hours, "{granularity: 'minutes'}".to_owned(), "72"),
            (hours, both(86_400), "72"),
            (hours, both(2_592_001), "None 2592001 2592001"),
            (hours, "{bucketMaxSpanSeconds: 2592000}".to_owned(), "72"),
            (own, "{granularity: 'minutes'}".to_owned(), "Some(Minutes) 86400 3600"),
            (own, "{granularity: 'seconds'}".to_owned(), "72"),
            (own, "{timeField: 'x'}".to_owned(), "40415"),
        ];
        for (from, to, expected) in cases {
            assert_eq!(change(from, &to), expected, "{from} {to}");
        }
    }

    #[test]
    fn times_are_rounded_down() {
        let options = Options::parse(doc("{timeField: 't'}").as_doc(), "db.c").unwrap();
        assert_eq!(options.begin(119_999), 60_000);
        assert_eq!(options.begin(-1), -60_000);
        assert_eq!(options.begin(-60_000), -60_000);
        assert_eq!(options.begin(i64::MIN), i64::MIN);
        assert!(options.spans(60_000, 60_000 + 3_599_999));
        assert!(!options.spans(60_000, 60_000 + 3_600_000));
        assert!(!options.spans(60_000, 59_999));
        assert!(!options.spans(i64::MIN, i64::MAX));
    }
}

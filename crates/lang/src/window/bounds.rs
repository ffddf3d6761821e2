//! Window bounds: the extent of a window, in documents or in values of the sort key.

use nagi_bson::{Array, Doc, Value, ValueBuf, compare, number};
use nagi_error::{Code, Result, bail};

use crate::expr::{Expr, ParseCx};
use crate::sort::SortSpec;
use crate::time::{self, Unit, Zone};

/// One end of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound<T> {
    /// The end of the partition.
    Unbounded,
    /// The current document.
    Current,
    /// A distance from the current document; negative values are before it.
    By(T),
}

/// The documents of the partition that belong to a document's window.
#[derive(Debug, Clone)]
pub enum Bounds {
    /// Bounds by position; both ends are inclusive.
    Documents(Bound<i64>, Bound<i64>),
    /// Bounds by the value of the sort key.
    Range(RangeBounds),
}

/// A window over the values of the sort key: numbers, or dates with a unit.
#[derive(Debug, Clone)]
pub struct RangeBounds {
    pub lower: Bound<ValueBuf>,
    pub upper: Bound<ValueBuf>,
    pub unit: Option<Unit>,
}

impl Bounds {
    /// The whole partition.
    pub const WHOLE: Bounds = Bounds::Documents(Bound::Unbounded, Bound::Unbounded);

    /// Parses `{documents: [..]}` or `{range: [..], unit}`.
    ///
    /// # Errors
    /// 9 for the wrong form, 5339900 for a lower bound above the upper bound, 5339901 and 5339902 if the bounds need
    /// a sort that is missing or has several fields.
    pub(super) fn parse(
        window: Value<'_>,
        sort: Option<&SortSpec>,
        cx: &mut ParseCx<'_>,
    ) -> Result<Bounds> {
        let Value::Doc(window) = window else {
            bail!(Code::FAILED_TO_PARSE, "'window' field must be an object");
        };
        for element in window {
            if !matches!(element.name(), "documents" | "range" | "unit") {
                bail!(
                    Code::FAILED_TO_PARSE,
                    "'window' field can only contain 'documents' as the only argument or 'range' \
                     with an optional 'unit' field, but found: {}",
                    element.name()
                );
            }
        }
        let has = |name: &str| window.element(name).is_some();
        match (has("documents"), has("range")) {
            (true, true) => bail!(
                Code::FAILED_TO_PARSE,
                "Window bounds can specify either 'documents' or 'range', not both."
            ),
            (false, false) => bail!(
                Code::FAILED_TO_PARSE,
                "'window' field must specify either 'documents' or 'range' bounds"
            ),
            (true, false) if has("unit") => bail!(
                Code::FAILED_TO_PARSE,
                "Window bounds can specify either 'documents' or 'unit', not both."
            ),
            (true, false) => documents(window, sort, cx),
            (false, true) => range(window, sort, cx),
        }
    }

    /// Returns true if documents leave the window while it moves.
    pub(super) fn forgets(&self) -> bool {
        match self {
            Bounds::Documents(lower, _) => *lower != Bound::Unbounded,
            Bounds::Range(range) => range.lower != Bound::Unbounded,
        }
    }

    /// Returns true if the window of every document is the whole partition.
    pub fn is_whole(&self) -> bool {
        match self {
            Bounds::Documents(lower, upper) => {
                (lower, upper) == (&Bound::Unbounded, &Bound::Unbounded)
            }
            Bounds::Range(range) => {
                (&range.lower, &range.upper) == (&Bound::Unbounded, &Bound::Unbounded)
            }
        }
    }

    /// Returns true if the window of a document always includes the document itself.
    pub(super) fn holds_current(&self) -> bool {
        let zero = Value::Int32(0);
        match self {
            Bounds::Documents(lower, upper) => {
                !matches!(lower, Bound::By(n) if *n > 0) && !matches!(upper, Bound::By(n) if *n < 0)
            }
            Bounds::Range(range) => {
                let against = |by: &ValueBuf| number::compare(by.value(), zero);
                !matches!(&range.lower, Bound::By(by) if against(by).is_gt())
                    && !matches!(&range.upper, Bound::By(by) if against(by).is_lt())
            }
        }
    }
}

impl RangeBounds {
    /// Checks the sort key of a document. It must be a number, or a date if there is a `unit`.
    ///
    /// # Errors
    /// 5429413, 5429414 and 5429513 for another type.
    pub fn check(&self, key: Value<'_>) -> Result<()> {
        match (self.unit, key) {
            (Some(_), Value::DateTime(_)) => Ok(()),
            (Some(_), key) => bail!(
                Code::Location(5_429_513),
                "Invalid range: Expected the sortBy field to be a Date, but it was {}",
                key.kind().name()
            ),
            (None, Value::DateTime(_)) => bail!(
                Code::Location(5_429_413),
                "Invalid range: For windows that involve date or time ranges, a unit must be \
                 provided."
            ),
            (None, key) if key.is_number() => Ok(()),
            (None, key) => bail!(
                Code::Location(5_429_414),
                "Invalid range: Expected the sortBy field to be a number, but it was {}",
                key.kind().name()
            ),
        }
    }

    /// The end of the window of a document with the sort key `key`, which must have passed [`RangeBounds::check`].
    ///
    /// # Errors
    /// 15 if a date leaves the range of dates.
    pub fn end(&self, key: Value<'_>, by: &ValueBuf) -> Result<ValueBuf> {
        let Value::DateTime(ms) = key else {
            return Ok(ValueBuf::new(number::add(key, by.value())));
        };
        let unit = self.unit.unwrap_or(Unit::Millisecond);
        let amount = number::as_i64_exact(by.value()).unwrap_or(0);
        match time::add(ms, unit, amount, &Zone::Utc) {
            Some(ms) => Ok(ValueBuf::new(Value::DateTime(ms))),
            None => bail!(Code::OVERFLOW, "a window bound is beyond the range of dates"),
        }
    }
}

fn both<'w>(name: &str, bounds: Value<'w>) -> Result<Array<'w>> {
    match bounds {
        Value::Array(array) if array.count() == 2 => Ok(array),
        other => {
            bail!(Code::FAILED_TO_PARSE, "Window bounds must be a 2-element array: {name}: {other}")
        }
    }
}

fn bound<T>(
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
    number: impl Fn(Value<'_>) -> Result<T>,
) -> Result<Bound<T>> {
    match value {
        Value::String("unbounded") => Ok(Bound::Unbounded),
        Value::String("current") => Ok(Bound::Current),
        Value::String(_) => bail!(
            Code::FAILED_TO_PARSE,
            "Window bounds must be 'unbounded', 'current', or a number."
        ),
        value => {
            let expr = Expr::parse(value, cx)?;
            let Some(constant) = expr.as_const() else {
                bail!(Code::FAILED_TO_PARSE, "Window bounds expression must be a constant.");
            };
            Ok(Bound::By(number(constant)?))
        }
    }
}

fn backwards(bounds: Array<'_>) -> nagi_error::Error {
    nagi_error::err!(
        Code::Location(5_339_900),
        "Lower bound must not exceed upper bound: {}",
        Value::Array(bounds)
    )
}

fn documents(window: Doc<'_>, sort: Option<&SortSpec>, cx: &mut ParseCx<'_>) -> Result<Bounds> {
    let bounds = both("documents", window.get("documents"))?;
    let whole = |value: Value<'_>| match number::as_i64_exact(value) {
        Some(n) if i32::try_from(n).is_ok() => Ok(n),
        _ => bail!(Code::FAILED_TO_PARSE, "Numeric document-based bounds must be an integer"),
    };
    let lower = bound(bounds.get(0), cx, whole)?;
    let upper = bound(bounds.get(1), cx, whole)?;
    let at = |bound: &Bound<i64>| match bound {
        Bound::Unbounded => None,
        Bound::Current => Some(0),
        Bound::By(n) => Some(*n),
    };
    if let (Some(lower), Some(upper)) = (at(&lower), at(&upper))
        && lower > upper
    {
        return Err(backwards(bounds));
    }
    let parsed = Bounds::Documents(lower, upper);
    if !parsed.is_whole() && sort.is_none() {
        bail!(Code::Location(5_339_901), "Document-based bounds require a sortBy");
    }
    Ok(parsed)
}

fn range(window: Doc<'_>, sort: Option<&SortSpec>, cx: &mut ParseCx<'_>) -> Result<Bounds> {
    let bounds = both("range", window.get("range"))?;
    let unit = match window.get("unit") {
        Value::Missing => None,
        Value::String(name) => Some(unit_named(name)?),
        _ => bail!(Code::FAILED_TO_PARSE, "'unit' must be a string"),
    };
    let number = |value: Value<'_>| match unit {
        _ if !value.is_number() => {
            bail!(Code::FAILED_TO_PARSE, "Range-based bounds expression must be a number")
        }
        Some(_) if number::as_i64_exact(value).is_none() => {
            bail!(Code::FAILED_TO_PARSE, "With 'unit', range-based bounds must be an integer")
        }
        _ => Ok(ValueBuf::new(value)),
    };
    let lower = bound(bounds.get(0), cx, number)?;
    let upper = bound(bounds.get(1), cx, number)?;
    let zero = ValueBuf::new(Value::Int32(0));
    let at = |bound: &Bound<ValueBuf>| match bound {
        Bound::Unbounded => None,
        Bound::Current => Some(zero.clone()),
        Bound::By(by) => Some(by.clone()),
    };
    if let (Some(lower), Some(upper)) = (at(&lower), at(&upper))
        && compare::values(lower.value(), upper.value()).is_gt()
    {
        return Err(backwards(bounds));
    }
    match sort.map(|sort| sort.parts()) {
        Some([part]) if !part.descending => {}
        Some([_]) => {
            bail!(Code::Location(8_947_401), "Range-based bounds require an ascending sortBy")
        }
        _ => bail!(Code::Location(5_339_902), "Range-based bounds require sortBy a single field"),
    }
    Ok(Bounds::Range(RangeBounds { lower, upper, unit }))
}

/// Parses the name of a unit.
pub(super) fn unit_named(name: &str) -> Result<Unit> {
    match Unit::parse(name) {
        Some(unit) => Ok(unit),
        None => bail!(Code::FAILED_TO_PARSE, "unknown time unit value: {name}"),
    }
}

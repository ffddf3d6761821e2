//! The parser of an output of `$setWindowFields`: `{$sum: "$price", window: {documents: [-1, 1]}}`.

use nagi_bson::{Decimal128, Doc, Value, ValueBuf, number};
use nagi_error::{Code, Result, bail};

use super::bounds::unit_named;
use super::calculus::{Derivative, Integral};
use super::covariance::Covariance;
use super::fill::{LastKnown, LinearFill};
use super::folded::Folded;
use super::growing::Growing;
use super::moving_average::MovingAverage;
use super::ranks::{Counting, Ranks};
use super::scaler::Scaler;
use super::shift::Shift;
use super::{Bound, Bounds, NewWindowState, WindowState};
use crate::accum::AccumSpec;
use crate::expr::{Expr, ParseCx, parse_field_path};
use crate::sort::SortSpec;
use crate::time::Unit;

/// The value that a state receives for each document.
#[derive(Debug)]
pub enum Argument {
    /// The value of an expression.
    Expr(Expr),
    /// The document's sort key, as a document.
    SortKey,
}

/// One output of `$setWindowFields`.
pub struct WindowFunction {
    name: &'static str,
    argument: Argument,
    bounds: Bounds,
    new_state: NewWindowState,
}

impl std::fmt::Debug for WindowFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{{{}: {:?}, window: {:?}}}", self.name, self.argument, self.bounds)
    }
}

/// The parts of an output in the specification.
struct Call<'c> {
    name: &'static str,
    value: Value<'c>,
    /// `Missing` without a window.
    window: Value<'c>,
    sort: Option<&'c SortSpec>,
}

/// A parsed output without its name.
struct Parsed {
    argument: Argument,
    bounds: Bounds,
    new_state: NewWindowState,
}

/// A window function and its parser.
struct Row {
    name: &'static str,
    parse: fn(&Call<'_>, &mut ParseCx<'_>) -> Result<Parsed>,
}

/// All window functions, sorted by name.
static ROWS: &[Row] = &[
    Row { name: "$addToSet", parse: accumulator },
    Row { name: "$avg", parse: accumulator },
    Row { name: "$bottom", parse: accumulator },
    Row { name: "$bottomN", parse: accumulator },
    Row { name: "$concatArrays", parse: accumulator },
    Row { name: "$count", parse: count },
    Row { name: "$covariancePop", parse: covariance },
    Row { name: "$covarianceSamp", parse: covariance },
    Row { name: "$denseRank", parse: rank },
    Row { name: "$derivative", parse: derivative },
    Row { name: "$documentNumber", parse: rank },
    Row { name: "$expMovingAvg", parse: moving_average },
    Row { name: "$first", parse: accumulator },
    Row { name: "$firstN", parse: accumulator },
    Row { name: "$integral", parse: integral },
    Row { name: "$last", parse: accumulator },
    Row { name: "$lastN", parse: accumulator },
    Row { name: "$linearFill", parse: linear_fill },
    Row { name: "$locf", parse: last_known },
    Row { name: "$max", parse: accumulator },
    Row { name: "$maxN", parse: accumulator },
    Row { name: "$median", parse: accumulator },
    Row { name: "$min", parse: accumulator },
    Row { name: "$minMaxScaler", parse: scaler },
    Row { name: "$minN", parse: accumulator },
    Row { name: "$percentile", parse: accumulator },
    Row { name: "$push", parse: accumulator },
    Row { name: "$rank", parse: rank },
    Row { name: "$setUnion", parse: accumulator },
    Row { name: "$shift", parse: shift },
    Row { name: "$stdDevPop", parse: accumulator },
    Row { name: "$stdDevSamp", parse: accumulator },
    Row { name: "$sum", parse: accumulator },
    Row { name: "$top", parse: accumulator },
    Row { name: "$topN", parse: accumulator },
];

/// The names of all window functions, sorted.
pub fn window_function_names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}

impl WindowFunction {
    /// Parses the output `field`; `sort` is the `sortBy` of the stage.
    ///
    /// # Errors
    /// 9 for the wrong form and for unknown functions, the errors of each function, and those of [`Bounds`].
    pub fn parse(
        field: &str,
        value: Value<'_>,
        sort: Option<&SortSpec>,
        cx: &mut ParseCx<'_>,
    ) -> Result<WindowFunction> {
        let Value::Doc(spec) = value else {
            bail!(
                Code::FAILED_TO_PARSE,
                "The field '{field}' must be an object that specifies a window function"
            );
        };
        let row = row_of(spec)?;
        let (mut function, mut window) = (Value::Missing, Value::Missing);
        for element in spec {
            match element.name() {
                name if name == row.name && function.is_missing() => function = element.value(),
                name if name.starts_with('$') => bail!(
                    Code::FAILED_TO_PARSE,
                    "Cannot specify two functions in window function spec"
                ),
                "window" if window.is_missing() => window = element.value(),
                "window" => bail!(
                    Code::FAILED_TO_PARSE,
                    "There can be only one 'window' field for {}",
                    row.name
                ),
                name => bail!(
                    Code::FAILED_TO_PARSE,
                    "Window function {} found an unknown argument: {name}",
                    row.name
                ),
            }
        }
        let call = Call { name: row.name, value: function, window, sort };
        let Parsed { argument, bounds, new_state } = (row.parse)(&call, cx)?;
        Ok(WindowFunction { name: row.name, argument, bounds, new_state })
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The value to pass to [`WindowState::add`] for each document.
    pub fn argument(&self) -> &Argument {
        &self.argument
    }

    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// An empty state for the next partition.
    pub fn new_state(&self) -> Box<dyn WindowState> {
        (self.new_state)()
    }
}

fn row_of(spec: Doc<'_>) -> Result<&'static Row> {
    if let Some(element) = spec.iter().find(|element| element.name().starts_with('$')) {
        return match ROWS.iter().find(|row| row.name == element.name()) {
            Some(row) => Ok(row),
            None => {
                bail!(Code::FAILED_TO_PARSE, "Unrecognized window function, {}", element.name())
            }
        };
    }
    match spec.first() {
        Some(element) => bail!(
            Code::FAILED_TO_PARSE,
            "Expected a $-prefixed window function, {}",
            element.name()
        ),
        None => bail!(Code::FAILED_TO_PARSE, "Expected a $-prefixed window function"),
    }
}

fn boxed<S: WindowState + 'static>(new: impl Fn() -> S + Send + Sync + 'static) -> NewWindowState {
    Box::new(move || Box::new(new()))
}

impl Call<'_> {
    fn bounds(&self, cx: &mut ParseCx<'_>) -> Result<Bounds> {
        match self.window {
            Value::Missing => Ok(Bounds::WHOLE),
            window => Bounds::parse(window, self.sort, cx),
        }
    }

    fn refuse_window(&self) -> Result<()> {
        if !self.window.is_missing() {
            bail!(Code::FAILED_TO_PARSE, "'window' field is not allowed in {}", self.name);
        }
        Ok(())
    }

    fn require_sort(&self) -> Result<()> {
        if self.sort.is_none() {
            bail!(Code::FAILED_TO_PARSE, "{} requires a sortBy", self.name);
        }
        Ok(())
    }

    /// The expression of the sort key, if the sort has a single field.
    fn sort_key(&self) -> Option<Result<Expr>> {
        let [part] = self.sort?.parts() else { return None };
        Some(parse_field_path(part.path.as_str()).map(Expr::Path))
    }

    fn arguments(&self) -> Result<Doc<'_>> {
        match self.value {
            Value::Doc(doc) => Ok(doc),
            _ => bail!(Code::FAILED_TO_PARSE, "Argument to {} must be an object", self.name),
        }
    }

    fn unknown(&self, name: &str) -> nagi_error::Error {
        nagi_error::err!(Code::FAILED_TO_PARSE, "{} got unexpected argument: {name}", self.name)
    }

    fn no_input(&self) -> nagi_error::Error {
        nagi_error::err!(Code::FAILED_TO_PARSE, "{} requires an 'input' expression", self.name)
    }
}

/// Parses an accumulator of `$group`.
fn accumulator(call: &Call<'_>, cx: &mut ParseCx<'_>) -> Result<Parsed> {
    let bounds = call.bounds(cx)?;
    let spec = AccumSpec::parse_over_window(call.name, call.value, cx)?;
    let (argument, new_state, new_sliding) = spec.into_parts();
    let new_state = match new_sliding {
        Some(new_sliding) if bounds.forgets() => new_sliding,
        _ => boxed(move || Growing(new_state())),
    };
    Ok(Parsed { argument: Argument::Expr(argument), bounds, new_state })
}

fn count(call: &Call<'_>, cx: &mut ParseCx<'_>) -> Result<Parsed> {
    if !call.value.as_doc().is_some_and(|doc| doc.is_empty()) {
        bail!(Code::FAILED_TO_PARSE, "$count only accepts an empty object as input");
    }
    accumulator(call, cx)
}

fn covariance(call: &Call<'_>, cx: &mut ParseCx<'_>) -> Result<Parsed> {
    let bounds = call.bounds(cx)?;
    let argument = Argument::Expr(Expr::parse(call.value, cx)?);
    let sample = call.name == "$covarianceSamp";
    let grows = !bounds.forgets();
    let new_state = boxed(move || {
        let state = Folded::new(Covariance::new(sample));
        if grows { state.growing() } else { state }
    });
    Ok(Parsed { argument, bounds, new_state })
}

fn rank(call: &Call<'_>, cx: &mut ParseCx<'_>) -> Result<Parsed> {
    if !call.window.is_missing() {
        bail!(Code::Location(5_371_601), "Rank style window functions take no other arguments");
    }
    if !call.value.as_doc().is_some_and(|doc| doc.is_empty()) {
        bail!(
            Code::Location(5_371_603),
            "{} must be specified with '{{}}' as the value",
            call.name
        );
    }
    if call.sort.is_none_or(|sort| sort.parts().len() != 1) {
        bail!(
            Code::Location(5_371_602),
            "{} must be specified with a top level sortBy expression with exactly one element",
            call.name
        );
    }
    let counting = match call.name {
        "$rank" => Counting::Rank,
        "$denseRank" => Counting::Dense,
        _ => Counting::Documents,
    };
    let own = cx.collation();
    let new_state = boxed(move || Ranks::new(counting, own));
    Ok(Parsed { argument: Argument::SortKey, bounds: UP_TO_CURRENT, new_state })
}

/// The window of functions whose result depends on all documents up to the current one.
const UP_TO_CURRENT: Bounds = Bounds::Documents(Bound::Unbounded, Bound::Current);

/// Parses the pair `[sort key, input]` of `$derivative` and `$integral`, and the milliseconds of their unit.
fn over_key(call: &Call<'_>, cx: &mut ParseCx<'_>) -> Result<(Argument, Option<i64>)> {
    call.require_sort()?;
    let Some(key) = call.sort_key() else {
        bail!(Code::FAILED_TO_PARSE, "{} requires a non-compound sortBy", call.name);
    };
    let Value::Doc(arguments) = call.value else {
        bail!(Code::FAILED_TO_PARSE, "{} expects an object", call.name);
    };
    let (mut input, mut unit) = (None, None);
    for element in arguments {
        match (element.name(), element.value()) {
            ("input", value) => input = Some(Expr::parse(value, cx)?),
            ("unit", Value::String(name)) => unit = Some(unit_ms(name)?),
            ("unit", _) => bail!(Code::FAILED_TO_PARSE, "'unit' must be a string"),
            (other, _) => return Err(call.unknown(other)),
        }
    }
    let input = input.ok_or_else(|| call.no_input())?;
    Ok((Argument::Expr(Expr::Array(Box::new([key?, input]))), unit))
}

fn unit_ms(name: &str) -> Result<i64> {
    Ok(match unit_named(name)? {
        Unit::Millisecond => 1,
        Unit::Second => 1000,
        Unit::Minute => 60_000,
        Unit::Hour => 3_600_000,
        Unit::Day => 86_400_000,
        Unit::Week => 604_800_000,
        _ => bail!(Code::Location(5_490_710), "unit must be 'week' or smaller"),
    })
}

fn derivative(call: &Call<'_>, cx: &mut ParseCx<'_>) -> Result<Parsed> {
    let (argument, unit) = over_key(call, cx)?;
    if call.window.is_missing() {
        bail!(Code::FAILED_TO_PARSE, "$derivative requires explicit window bounds");
    }
    let bounds = call.bounds(cx)?;
    let grows = !bounds.forgets();
    Ok(Parsed { argument, bounds, new_state: boxed(move || Derivative::new(unit, grows)) })
}

fn integral(call: &Call<'_>, cx: &mut ParseCx<'_>) -> Result<Parsed> {
    let (argument, unit) = over_key(call, cx)?;
    let bounds = call.bounds(cx)?;
    let grows = !bounds.forgets();
    Ok(Parsed { argument, bounds, new_state: boxed(move || Integral::new(unit, grows)) })
}

fn linear_fill(call: &Call<'_>, cx: &mut ParseCx<'_>) -> Result<Parsed> {
    let Some(key) = call.sort_key() else {
        bail!(
            Code::Location(605_001),
            "$linearFill must be specified with a top level sortBy expression with exactly one \
             element"
        );
    };
    call.refuse_window()?;
    let argument = Expr::Array(Box::new([key?, Expr::parse(call.value, cx)?]));
    let new_state = boxed(LinearFill::default);
    Ok(Parsed { argument: Argument::Expr(argument), bounds: UP_TO_CURRENT, new_state })
}

fn last_known(call: &Call<'_>, cx: &mut ParseCx<'_>) -> Result<Parsed> {
    call.refuse_window()?;
    let argument = Argument::Expr(Expr::parse(call.value, cx)?);
    Ok(Parsed { argument, bounds: UP_TO_CURRENT, new_state: boxed(LastKnown::default) })
}

fn shift(call: &Call<'_>, cx: &mut ParseCx<'_>) -> Result<Parsed> {
    call.refuse_window()?;
    call.require_sort()?;
    let (mut output, mut by, mut default) = (None, None, ValueBuf::new(Value::Null));
    for element in call.arguments()? {
        match element.name() {
            "output" => output = Some(Expr::parse(element.value(), cx)?),
            "by" => by = Some(places(element.value())?),
            "default" => {
                let expr = Expr::parse(element.value(), cx)?;
                let Some(value) = expr.as_const() else {
                    bail!(
                        Code::FAILED_TO_PARSE,
                        "'$shift:default' expression must yield a constant value."
                    );
                };
                default = ValueBuf::new(value);
            }
            other => bail!(Code::FAILED_TO_PARSE, "Unknown argument in $shift: {other}"),
        }
    }
    let Some(output) = output else {
        bail!(Code::FAILED_TO_PARSE, "$shift requires an 'output' expression.");
    };
    let Some(by) = by else {
        bail!(Code::FAILED_TO_PARSE, "$shift requires 'by' as an integer value.");
    };
    Ok(Parsed {
        argument: Argument::Expr(output),
        bounds: Bounds::Documents(Bound::By(by), Bound::By(by)),
        new_state: boxed(move || Shift::new(default.clone())),
    })
}

fn places(value: Value<'_>) -> Result<i64> {
    match number::as_i64_exact(value) {
        Some(by) if i32::try_from(by).is_ok() => Ok(by),
        _ => {
            bail!(Code::FAILED_TO_PARSE, "'$shift:by' field must be an integer, but found {value}")
        }
    }
}

fn moving_average(call: &Call<'_>, cx: &mut ParseCx<'_>) -> Result<Parsed> {
    let (true, Value::Doc(arguments)) = (call.window.is_missing(), call.value) else {
        bail!(
            Code::FAILED_TO_PARSE,
            "$expMovingAvg must have exactly one argument that is an object"
        );
    };
    if call.sort.is_none() {
        bail!(Code::FAILED_TO_PARSE, "$expMovingAvg requires an explicit 'sortBy'");
    }
    let (mut input, mut alpha, mut count) = (None, None, 0);
    for element in arguments {
        count += 1;
        match element.name() {
            "input" => input = Some(Expr::parse(element.value(), cx)?),
            "N" => alpha = Some(alpha_of_count(element.value())?),
            "alpha" => alpha = Some(alpha_of(element.value())?),
            other => {
                bail!(Code::FAILED_TO_PARSE, "Got unrecognized field in $expMovingAvg: {other}")
            }
        }
    }
    let (Some(input), Some(alpha), 2) = (input, alpha, count) else {
        bail!(
            Code::FAILED_TO_PARSE,
            "$expMovingAvg sub object must have exactly two fields: An 'input' field, and either \
             an 'N' field or an 'alpha' field"
        );
    };
    let new_state = boxed(move || MovingAverage::new(alpha));
    Ok(Parsed { argument: Argument::Expr(input), bounds: UP_TO_CURRENT, new_state })
}

fn alpha_of_count(value: Value<'_>) -> Result<Decimal128> {
    let whole = number::as_i64_exact(value).filter(|n| i32::try_from(*n).is_ok());
    let Some(n) = whole else {
        bail!(
            Code::FAILED_TO_PARSE,
            "'N' field must be an integer, but found type {}. To use a non-integer, use the \
             'alpha' argument instead",
            value.kind().name()
        );
    };
    if n <= 0 {
        bail!(Code::FAILED_TO_PARSE, "'N' must be greater than zero. Got {n}");
    }
    Ok(Decimal128::from_i64(2).div(Decimal128::from_i64(n + 1)))
}

fn alpha_of(value: Value<'_>) -> Result<Decimal128> {
    let Some(alpha) = number::as_decimal(value) else {
        bail!(
            Code::FAILED_TO_PARSE,
            "'alpha' must be a number, but found type {}",
            value.kind().name()
        );
    };
    let share = number::as_f64(value).unwrap_or(f64::NAN);
    if !(share > 0.0 && share < 1.0) {
        bail!(
            Code::FAILED_TO_PARSE,
            "'alpha' must be between 0 and 1 (exclusive), found alpha: {value}"
        );
    }
    Ok(alpha)
}

fn scaler(call: &Call<'_>, cx: &mut ParseCx<'_>) -> Result<Parsed> {
    let bounds = call.bounds(cx)?;
    let mut input = None;
    let (mut low, mut high) = (Value::Missing, Value::Missing);
    for element in call.arguments()? {
        match element.name() {
            "input" => input = Some(Expr::parse(element.value(), cx)?),
            "min" => low = element.value(),
            "max" => high = element.value(),
            other => return Err(call.unknown(other)),
        }
    }
    let input = input.ok_or_else(|| call.no_input())?;
    if low.is_missing() != high.is_missing() {
        bail!(
            Code::FAILED_TO_PARSE,
            "$minMaxScaler requires both 'min' and 'max', or neither of them"
        );
    }
    let (low, high) = match (constant(low, cx)?, constant(high, cx)?) {
        (Some(low), Some(high)) => (low, high),
        _ => (ValueBuf::new(Value::Int32(0)), ValueBuf::new(Value::Int32(1))),
    };
    if !number::compare(low.value(), high.value()).is_lt() {
        bail!(
            Code::FAILED_TO_PARSE,
            "$minMaxScaler requires 'max' to be strictly greater than 'min'"
        );
    }
    if !bounds.holds_current() {
        bail!(
            Code::FAILED_TO_PARSE,
            "$minMaxScaler requires window bounds that include the current document"
        );
    }
    let new_state = boxed(move || Scaler::new(low.clone(), high.clone()));
    Ok(Parsed { argument: Argument::Expr(input), bounds, new_state })
}

/// Parses a limit of `$minMaxScaler`: a constant number.
fn constant(value: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Option<ValueBuf>> {
    if value.is_missing() {
        return Ok(None);
    }
    let expr = Expr::parse(value, cx)?;
    match expr.as_const() {
        Some(number) if number.is_number() => Ok(Some(ValueBuf::new(number))),
        _ => bail!(
            Code::FAILED_TO_PARSE,
            "$minMaxScaler requires 'min' and 'max' to be constant numbers, found {value}"
        ),
    }
}

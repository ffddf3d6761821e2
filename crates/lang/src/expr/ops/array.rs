//! Array operators: elements, slices, membership, construction.
use super::prelude::*;

pub(super) static OPS: &[Operator] = &[
    strict("$arrayElemAt", Args::Exactly(2), element_at),
    row("$concatArrays", Args::Any, concat),
    unary("$first", |_, args| Ok(array("$first", args[0])?.get(0))),
    row("$in", Args::Exactly(2), contains),
    row("$indexOfArray", Args::Between(2, 4), index_of),
    row("$isArray", Args::Exactly(1), |_, args| {
        Ok(Value::Bool(matches!(args[0], Value::Array(_))))
    }),
    unary("$last", |_, args| Ok(array("$last", args[0])?.iter().last().unwrap_or(Value::Missing))),
    row("$range", Args::Between(2, 3), range),
    unary("$reverseArray", reverse),
    row("$size", Args::Exactly(1), size),
    strict("$slice", Args::Between(2, 3), slice),
];

/// The maximal memory, in bytes of values, for an array built by `$range`.
const RANGE_BYTES_MAX: i64 = 100 * 1024 * 1024;

fn array<'a>(name: &str, value: Value<'a>) -> Result<Array<'a>> {
    match value {
        Value::Array(items) => Ok(items),
        other => bail!(
            Code::Location(28689),
            "{name}'s argument must be an array, but is {}",
            type_name(other)
        ),
    }
}

/// The value of a number of any type that is representable as an int32.
pub(super) fn int32(value: Value<'_>) -> Option<i32> {
    number::as_i64_exact(value).and_then(|n| i32::try_from(n).ok())
}

fn element_at<'a>(_: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let Value::Array(items) = args[0] else {
        bail!(
            Code::Location(28689),
            "$arrayElemAt's first argument must be an array, but is {}",
            type_name(args[0])
        );
    };
    if !args[1].is_number() {
        bail!(
            Code::Location(28690),
            "$arrayElemAt's second argument must be a numeric value, but is {}",
            type_name(args[1])
        );
    }
    let Some(index) = int32(args[1]) else {
        bail!(
            Code::Location(28691),
            "$arrayElemAt's second argument must be representable as a 32-bit integer: {}",
            args[1]
        );
    };
    match usize::try_from(index) {
        Ok(index) => Ok(items.get(index)),
        Err(_) => {
            let from_end = index.unsigned_abs() as usize;
            let count = items.count();
            Ok(count.checked_sub(from_end).map_or(Value::Missing, |at| items.get(at)))
        }
    }
}

fn concat<'a>(cx: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    for arg in args {
        match *arg {
            Value::Array(_) => {}
            value if value.is_nullish() => return Ok(Value::Null),
            other => bail!(
                Code::Location(28664),
                "$concatArrays only supports arrays, not {}",
                type_name(other)
            ),
        }
    }
    cx.array(|out| {
        for items in args.iter().filter_map(Value::as_array) {
            check_size(out.len() + items.as_bytes().len())?;
            cx.check_work(2 * (out.len() + items.as_bytes().len()))?;
            items.iter().for_each(|v| out.push(v));
        }
        Ok(())
    })
}

fn contains<'a>(cx: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let Value::Array(items) = args[1] else {
        bail!(
            Code::Location(40081),
            "$in requires an array as a second argument, found: {}",
            type_name(args[1])
        );
    };
    Ok(Value::Bool(items.iter().any(|v| collation::expr_values(v, args[0], cx.collation).is_eq())))
}

/// A bound of a search; `default` if it is absent.
pub(super) fn bound(
    name: &str,
    which: &str,
    value: Option<&Value<'_>>,
    default: usize,
) -> Result<usize> {
    let Some(value) = value else {
        return Ok(default);
    };
    let Some(n) = int32(*value) else {
        bail!(
            Code::Location(40096),
            "{name} requires an integral {which} index, found a value of type: {}, with value: \
             {value}",
            type_name(*value)
        );
    };
    match usize::try_from(n) {
        Ok(n) => Ok(n),
        Err(_) => {
            bail!(Code::Location(40097), "{name} requires a nonnegative {which} index, found: {n}")
        }
    }
}

fn index_of<'a>(cx: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let items = match args[0] {
        Value::Array(items) => items,
        value if value.is_nullish() => return Ok(Value::Null),
        other => bail!(
            Code::Location(40090),
            "$indexOfArray requires an array as a first argument, found: {}",
            type_name(other)
        ),
    };
    let start = bound("$indexOfArray", "starting", args.get(2), 0)?;
    let end = bound("$indexOfArray", "ending", args.get(3), usize::MAX)?;
    let found = items
        .iter()
        .enumerate()
        .take(end)
        .skip(start)
        .find(|(_, value)| collation::expr_values(*value, args[1], cx.collation).is_eq());
    Ok(Value::Int32(found.map_or(-1, |(at, _)| at as i32)))
}

fn range_part(value: Value<'_>, what: &str, codes: [i32; 2]) -> Result<i64> {
    if !value.is_number() {
        bail!(
            Code::Location(codes[0]),
            "$range requires a numeric {what} value, found value of type: {}",
            type_name(value)
        );
    }
    match int32(value) {
        Some(n) => Ok(i64::from(n)),
        None => bail!(
            Code::Location(codes[1]),
            "$range requires a {what} value that can be represented as a 32-bit integer, found \
             value: {value}"
        ),
    }
}

fn range<'a>(cx: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let start = range_part(args[0], "starting", [34443, 34444])?;
    let end = range_part(args[1], "ending", [34445, 34446])?;
    let step = match args.get(2) {
        Some(step) => range_part(*step, "step", [34447, 34448])?,
        None => 1,
    };
    if step == 0 {
        bail!(Code::Location(34449), "$range requires a non-zero step value");
    }
    let count = ((end - start) / step).max(0);
    if count.saturating_mul(size_of::<Value<'_>>() as i64) > RANGE_BYTES_MAX {
        bail!(
            Code::EXCEEDED_MEMORY_LIMIT,
            "$range would use too much memory and cannot spill to disk. Memory limit: \
             {RANGE_BYTES_MAX} bytes"
        );
    }
    cx.array(|out| {
        let mut at = start;
        while (step > 0 && at < end) || (step < 0 && at > end) {
            out.push(Value::Int32(at as i32));
            cx.check_written(out.len())?;
            at += step;
        }
        Ok(())
    })
}

fn reverse<'a>(cx: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let Value::Array(items) = args[0] else {
        bail!(
            Code::Location(34435),
            "The argument to $reverseArray must be an array, but was of type: {}",
            type_name(args[0])
        );
    };
    let mut values = cx.list(items)?;
    values.reverse();
    cx.array_of(&values)
}

fn size<'a>(_: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match args[0] {
        Value::Array(items) => Ok(Value::Int32(items.count() as i32)),
        other => bail!(
            Code::Location(17124),
            "The argument to $size must be an array, but was of type: {}",
            type_name(other)
        ),
    }
}

fn slice<'a>(cx: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let Value::Array(items) = args[0] else {
        bail!(
            Code::Location(28724),
            "First argument to $slice must be an array, but is of type: {}",
            type_name(args[0])
        );
    };
    let second = slice_part(args[1], "Second", [28725, 28726])?;
    let count = items.count() as i64;
    // Negative positions count from the end; all positions are limited to the array.
    let place = |n: i64| if n < 0 { (count + n).max(0) } else { n.min(count) };
    let (start, end) = match args.get(2) {
        None if second < 0 => (place(second), count),
        None => (0, place(second)),
        Some(third) => {
            let wanted = slice_part(*third, "Third", [28727, 28728])?;
            if wanted <= 0 {
                bail!(Code::Location(28729), "Third argument to $slice must be positive: {wanted}");
            }
            let start = place(second);
            (start, (start + wanted).min(count))
        }
    };
    cx.array(|out| {
        let part = items.iter().take(end as usize).skip(start as usize);
        for item in part {
            out.push(cx.fitting(out.len(), item)?);
            cx.check_written(out.len())?;
        }
        Ok(())
    })
}

fn slice_part(value: Value<'_>, which: &str, codes: [i32; 2]) -> Result<i64> {
    if !value.is_number() {
        bail!(
            Code::Location(codes[0]),
            "{which} argument to $slice must be numeric, but is of type: {}",
            type_name(value)
        );
    }
    match int32(value) {
        Some(n) => Ok(i64::from(n)),
        None => bail!(
            Code::Location(codes[1]),
            "{which} argument to $slice can't be represented as a 32-bit integer: {value}"
        ),
    }
}

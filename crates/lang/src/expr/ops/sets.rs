//! Set operators: arrays whose order and repetitions are ignored. Results are sorted in BSON order.
use super::prelude::*;
use crate::expr::Expr;
use crate::ordered::order_slowly;

pub(super) static OPS: &[Operator] = &[
    row("$allElementsTrue", Args::Exactly(1), |_, args| {
        let items = truth_items("$allElementsTrue", 17040, args[0])?;
        Ok(Value::Bool(items.iter().all(|v| v.is_truthy())))
    }),
    row("$anyElementTrue", Args::Exactly(1), |_, args| {
        let items = truth_items("$anyElementTrue", 17041, args[0])?;
        Ok(Value::Bool(items.iter().any(|v| v.is_truthy())))
    }),
    row("$setDifference", Args::Exactly(2), difference),
    row("$setEquals", Args::Any, equals),
    row("$setIntersection", Args::Any, intersection),
    row("$setIsSubset", Args::Exactly(2), |cx, args| is_subset(cx, args, 17046)),
    row("$setUnion", Args::Any, union),
];

fn truth_items<'a>(name: &str, code: i32, value: Value<'a>) -> Result<Array<'a>> {
    match value {
        Value::Array(items) => Ok(items),
        other => bail!(
            Code::Location(code),
            "{name}'s argument must be an array, but is {}",
            type_name(other)
        ),
    }
}

type Items<'a> = Vec<Value<'a>>;

/// The distinct values in sorted order. Of equal values the first one is kept.
fn sorted<'a>(cx: &Eval<'a>, items: Array<'a>) -> Result<Items<'a>> {
    unlike(cx, cx.list(items)?)
}

fn unlike<'a>(cx: &Eval<'a>, mut values: Items<'a>) -> Result<Items<'a>> {
    let compare = |a: &Value<'a>, b: &Value<'a>| collation::values(*a, *b, cx.collation);
    cx.check_work(values.len() * size_of::<Value<'_>>())?;
    order_slowly(&mut values, &compare, &mut || cx.vars.step())?;
    values.dedup_by(|a, b| collation::equal(*a, *b, cx.collation));
    Ok(values)
}

fn position(cx: &Eval<'_>, set: &[Value<'_>], value: Value<'_>) -> Result<Option<usize>> {
    cx.vars.step()?;
    Ok(set.binary_search_by(|other| collation::values(*other, value, cx.collation)).ok())
}

fn holds(cx: &Eval<'_>, set: &[Value<'_>], value: Value<'_>) -> Result<bool> {
    position(cx, set, value).map(|at| at.is_some())
}

fn not_array(name: &str, code: i32, value: Value<'_>) -> Error {
    err!(
        Code::Location(code),
        "All operands of {name} must be arrays. One argument is of type: {}",
        type_name(value)
    )
}

fn operand_not_array(name: &str, which: &str, code: i32, value: Value<'_>) -> Error {
    err!(
        Code::Location(code),
        "both operands of {name} must be arrays. {which} argument is of type: {}",
        type_name(value)
    )
}

fn difference<'a>(cx: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    if args.iter().any(Value::is_nullish) {
        return Ok(Value::Null);
    }
    let Value::Array(left) = args[0] else {
        return Err(operand_not_array("$setDifference", "First", 17048, args[0]));
    };
    let Value::Array(right) = args[1] else {
        return Err(operand_not_array("$setDifference", "Second", 17049, args[1]));
    };
    let right = sorted(cx, right)?;
    // The result keeps the order of the first array.
    let mut kept: Items<'a> = Vec::new();
    let unlike = sorted(cx, left)?;
    cx.check_work(left.count() * 2 * size_of::<Value<'_>>())?;
    let mut taken = vec![false; unlike.len()];
    for value in left.iter() {
        if holds(cx, &right, value)? {
            continue;
        }
        if let Some(at) = position(cx, &unlike, value)?
            && !std::mem::replace(&mut taken[at], true)
        {
            kept.push(value);
        }
    }
    cx.array_of(&kept)
}

fn equals<'a>(cx: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    if args.len() < 2 {
        bail!(Code::Location(17045), "$setEquals needs at least two arguments had: {}", args.len());
    }
    let mut first: Option<Items<'a>> = None;
    let mut same = true;
    for arg in args {
        let Value::Array(items) = *arg else {
            return Err(not_array("$setEquals", 17044, *arg));
        };
        let set = sorted(cx, items)?;
        same &= first.as_ref().is_none_or(|first| {
            first.len() == set.len()
                && first.iter().zip(&set).all(|(a, b)| collation::equal(*a, *b, cx.collation))
        });
        first.get_or_insert(set);
    }
    Ok(Value::Bool(same))
}

fn intersection<'a>(cx: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let mut common: Option<Items<'a>> = None;
    for arg in args {
        let items = match *arg {
            Value::Array(items) => items,
            value if value.is_nullish() => return Ok(Value::Null),
            other => return Err(not_array("$setIntersection", 17047, other)),
        };
        let set = sorted(cx, items)?;
        common = Some(match common {
            None => set,
            Some(common) => {
                cx.check_work(2 * common.len() * size_of::<Value<'_>>())?;
                let mut both = Vec::new();
                for value in common {
                    if holds(cx, &set, value)? {
                        both.push(value);
                    }
                }
                both
            }
        });
    }
    cx.array_of(common.as_deref().unwrap_or(&[]))
}

/// `$setIsSubset` of a constant set; its errors have separate codes.
static IS_SUBSET_OF_CONSTANT: Operator =
    row("$setIsSubset", Args::Exactly(2), |cx, args| is_subset(cx, args, 17310));

/// Replaces the row of `$setIsSubset` by the row for constant sets if the second operand is a constant.
///
/// # Errors
/// 17311 at parse time if the constant is not an array.
pub(in crate::expr) fn prepare_subset(expr: &mut Expr) -> Result<()> {
    let Expr::Call(operator, args) = expr else { return Ok(()) };
    if operator.name != "$setIsSubset" {
        return Ok(());
    }
    let Expr::Const(set) = &args[1] else { return Ok(()) };
    if !matches!(set.value(), Value::Array(_)) {
        return Err(operand_not_array("$setIsSubset", "Second", 17311, set.value()));
    }
    *operator = &IS_SUBSET_OF_CONSTANT;
    Ok(())
}

fn is_subset<'a>(cx: &Eval<'a>, args: &[Value<'a>], first_code: i32) -> Result<Value<'a>> {
    let Value::Array(left) = args[0] else {
        return Err(operand_not_array("$setIsSubset", "First", first_code, args[0]));
    };
    let Value::Array(right) = args[1] else {
        return Err(operand_not_array("$setIsSubset", "Second", 17042, args[1]));
    };
    let right = sorted(cx, right)?;
    for value in left.iter() {
        if !holds(cx, &right, value)? {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn union<'a>(cx: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let mut all: Items<'a> = Vec::new();
    for arg in args {
        match *arg {
            Value::Array(items) => cx.extend(&mut all, items)?,
            value if value.is_nullish() => return Ok(Value::Null),
            other => return Err(not_array("$setUnion", 17043, other)),
        }
    }
    cx.array_of(&unlike(cx, all)?)
}

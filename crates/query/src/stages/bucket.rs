//! `$bucket`: groups by ranges between given boundaries.
//!
//! It is a `$group` whose key is a `$switch` over the ranges, followed by a `$sort` on that key.

use nagi_bson::{DocWriter, ValueBuf, compare};
use nagi_lang::{
    collation::{self, Collation},
    expr::Expr,
};

use super::{group::GROUP, prelude::*, sort::SORT};

pub(super) static BUCKET: StageSpec = StageSpec {
    name: "$bucket",
    accumulates: super::Accumulates::Outputs,
    parse,
    ..StageSpec::ROW
};

struct Bucket {
    group: Box<dyn Stage>,
    sort: Box<dyn Stage>,
    text: ValueBuf,
}

/// The checked options.
struct Options<'v> {
    group_by: Value<'v>,
    boundaries: Vec<ValueBuf>,
    default: Option<ValueBuf>,
    output: Option<Doc<'v>>,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let options = options(spec, cx)?;
    let group = DocBuf::build(|out| write_group(&options, out));
    let sort = nagi_bson::doc! { "_id": 1 };
    Ok(Box::new(Bucket {
        group: (GROUP.parse)(Value::Doc(group.as_doc()), cx)?,
        sort: (SORT.parse)(Value::Doc(sort.as_doc()), cx)?,
        text: ValueBuf::new(spec),
    }))
}

fn options<'v>(spec: Value<'v>, cx: &PipelineCx<'_>) -> Result<Options<'v>> {
    let Value::Doc(doc) = spec else {
        bail!(
            Code::Location(40201),
            "Argument to $bucket stage must be an object, but found type: {}.",
            spec.kind().name()
        );
    };
    let mut group_by = Value::Missing;
    let mut boundaries = None;
    let (mut default, mut output) = (None, None);
    for element in doc {
        let value = element.value();
        match element.name() {
            "groupBy" => {
                if !is_expression(value) {
                    bail!(
                        Code::Location(40202),
                        "The $bucket 'groupBy' field must be defined as a $-prefixed path or an \
                         expression, but found: {value}."
                    );
                }
                group_by = value;
            }
            "boundaries" => boundaries = Some(self::boundaries(value, cx)?),
            "default" => default = Some(self::default(value, cx)?),
            "output" => match value {
                Value::Doc(fields) => output = Some(fields),
                other => bail!(
                    Code::Location(40196),
                    "The $bucket 'output' field must be an object, but found type: {}.",
                    other.kind().name()
                ),
            },
            name => bail!(Code::Location(40197), "Unrecognized option to $bucket: {name}."),
        }
    }
    let (false, Some(boundaries)) = (group_by.is_missing(), boundaries) else {
        bail!(
            Code::Location(40198),
            "$bucket requires 'groupBy' and 'boundaries' to be specified."
        );
    };
    if let Some(default) = &default {
        check_outside(default, &boundaries, cx.collation)?;
    }
    Ok(Options { group_by, boundaries, default, output })
}

/// Returns true for a path or an expression in an object.
pub(super) fn is_expression(value: Value<'_>) -> bool {
    match value {
        Value::String(text) => text.starts_with('$'),
        Value::Doc(_) => true,
        _ => false,
    }
}

fn constant(value: Value<'_>, cx: &PipelineCx<'_>) -> Result<Option<ValueBuf>> {
    Ok(Expr::parse(value, &mut cx.lang())?.as_const().map(ValueBuf::new))
}

fn boundaries(value: Value<'_>, cx: &PipelineCx<'_>) -> Result<Vec<ValueBuf>> {
    let Value::Array(items) = value else {
        bail!(
            Code::Location(40200),
            "The $bucket 'boundaries' field must be an array, but found type: {}.",
            value.kind().name()
        );
    };
    let mut found = Vec::new();
    for item in items.iter() {
        match constant(item, cx)? {
            Some(boundary) => found.push(boundary),
            None => bail!(
                Code::Location(40191),
                "The $bucket 'boundaries' field must be an array of constant values, but found \
                 value: {item}."
            ),
        }
    }
    if found.len() < 2 {
        bail!(
            Code::Location(40192),
            "The $bucket 'boundaries' field must have at least 2 values, but found {} value(s).",
            found.len()
        );
    }
    for (at, pair) in found.windows(2).enumerate() {
        let (lower, upper) = (pair[0].value(), pair[1].value());
        if compare::class(lower) != compare::class(upper) {
            bail!(
                Code::Location(40193),
                "All values in the the 'boundaries' option to $bucket must have the same type. \
                 Found conflicting types {} and {}.",
                lower.kind().name(),
                upper.kind().name()
            );
        }
        if collation::values(lower, upper, cx.collation).is_ge() {
            bail!(
                Code::Location(40194),
                "The 'boundaries' option to $bucket must be sorted, but elements {at} and {} are \
                 not in ascending order ({lower} is not less than {upper}).",
                at + 1
            );
        }
    }
    Ok(found)
}

fn default(value: Value<'_>, cx: &PipelineCx<'_>) -> Result<ValueBuf> {
    match constant(value, cx)? {
        Some(default) => Ok(default),
        None => bail!(
            Code::Location(40195),
            "The $bucket 'default' field must be a constant expression, but found: {value}."
        ),
    }
}

/// Checks that the key of the documents outside is not a value inside the ranges.
fn check_outside(
    default: &ValueBuf,
    boundaries: &[ValueBuf],
    own: Option<&Collation>,
) -> Result<()> {
    let (Some(lowest), Some(highest)) = (boundaries.first(), boundaries.last()) else {
        return Ok(());
    };
    let (value, lowest, highest) = (default.value(), lowest.value(), highest.value());
    let inside = compare::class(value) == compare::class(lowest)
        && collation::values(value, lowest, own).is_ge()
        && collation::values(value, highest, own).is_lt();
    if inside {
        bail!(
            Code::Location(40199),
            "The $bucket 'default' field must be less than the lowest boundary or greater than or \
             equal to the highest boundary."
        );
    }
    Ok(())
}

/// The equivalent `$group`; the grouping value is computed once, as a variable.
fn write_group(options: &Options<'_>, out: &mut DocWriter<'_>) {
    out.doc("_id", |id| {
        id.doc("$let", |bound| {
            bound.doc("vars", |vars| vars.put("value", options.group_by));
            bound.doc("in", |body| {
                body.doc("$switch", |switch| write_switch(options, switch));
            });
        });
    });
    match options.output {
        Some(fields) => out.extend(fields),
        None => out.doc("count", |count| count.put("$sum", 1)),
    }
}

fn write_switch(options: &Options<'_>, out: &mut DocWriter<'_>) {
    out.array("branches", |branches| {
        // Ascending ranges: the branch of the first upper boundary above the value applies, after a check that the
        // lowest boundary is not above the value.
        for pair in options.boundaries.windows(2) {
            branches.doc(|branch| {
                branch.doc("case", |case| {
                    case.array("$and", |both| {
                        both.doc(|ge| write_pair(ge, "$gte", pair[0].value()));
                        both.doc(|lt| write_pair(lt, "$lt", pair[1].value()));
                    });
                });
                branch.doc("then", |then| then.put("$literal", pair[0].value()));
            });
        }
    });
    if let Some(default) = &options.default {
        out.doc("default", |literal| literal.put("$literal", default.value()));
    }
}

fn write_pair(out: &mut DocWriter<'_>, operator: &str, boundary: Value<'_>) {
    out.array(operator, |pair| {
        pair.push("$$value");
        pair.doc(|literal| literal.put("$literal", boundary));
    });
}

impl Stage for Bucket {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        self.sort.open(self.group.open(input))
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$bucket", self.text.value());
    }

    fn needs(&self, deps: &mut nagi_lang::expr::Deps) -> bool {
        self.group.needs(deps)
    }
}

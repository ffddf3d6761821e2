//! `$setWindowFields`: computes fields from the documents around each document.
//!
//! It is parsed into a sort by partition and `sortBy`, which a plan may take over, and a stage over the sorted
//! documents (`windows.rs`). A partition key that is not a path is first computed into a hidden field.

use std::sync::Arc;

use nagi_bson::ValueBuf;
use nagi_lang::{
    apart::{ApartPaths, conflict},
    collation::{self, Collation},
    expr::{Eval, Expr, Vars, parse_field_path},
    project::AddFields,
    sort::SortSpec,
    window::{Bounds, WindowFunction},
};

use super::{add_fields, prelude::*, several::Several, sort, windows::Running};

pub(super) static SET_WINDOW_FIELDS: StageSpec = StageSpec {
    name: "$setWindowFields",
    shape: How::Fields(&[("sortBy", How::Sort)]),
    accumulates: super::Accumulates::Windows,
    parse,
    ..StageSpec::ROW
};

/// The hidden field for the partition key between the sort and the stage.
const HIDDEN: &str = "__internal_setWindowFields_partition_key";

/// The parameters of the stage.
pub(super) struct Plan {
    pub(super) partition: PartitionBy,
    pub(super) sort: Option<Arc<SortSpec>>,
    /// The single sort key, for windows over its values.
    pub(super) key: Option<Expr>,
    pub(super) functions: Vec<WindowFunction>,
    /// Puts the results, given as variables, into a document.
    fields: AddFields,
    pub(super) allow_disk_use: bool,
    pub(super) memory_bytes_max: usize,
    /// Collation of string partition keys.
    collation: Option<&'static Collation>,
}

/// The partitioning of the documents.
pub(super) enum PartitionBy {
    /// All documents are one partition.
    Nothing,
    Path(Expr),
    /// By the hidden field.
    Hidden,
}

/// The parts of the specification.
#[derive(Default)]
pub(super) struct Parts<'s> {
    pub(super) partition_by: Option<Value<'s>>,
    pub(super) sort_by: Option<Doc<'s>>,
    pub(super) output: Doc<'s>,
}

struct SetWindowFields {
    plan: Arc<Plan>,
    text: DocBuf,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let Value::Doc(spec) = spec else {
        bail!(
            Code::FAILED_TO_PARSE,
            "the $setWindowFields stage specification must be an object, found {}",
            spec.kind().name()
        );
    };
    let mut parts = Parts::default();
    let mut output = None;
    for element in spec {
        match (element.name(), element.value()) {
            ("partitionBy", value) => parts.partition_by = Some(value),
            ("sortBy", Value::Doc(keys)) => parts.sort_by = Some(keys),
            ("output", Value::Doc(fields)) => output = Some(fields),
            (name @ ("sortBy" | "output"), other) => bail!(
                Code::TYPE_MISMATCH,
                "BSON field '$setWindowFields.{name}' is the wrong type '{}', expected type 'object'",
                other.kind().name()
            ),
            (name, _) => bail!(
                Code::Location(40415),
                "BSON field '$setWindowFields.{name}' is an unknown field."
            ),
        }
    }
    let Some(output) = output else {
        bail!(
            Code::Location(40414),
            "BSON field '$setWindowFields.output' is missing but a required field"
        );
    };
    Ok(Several::boxed(assemble(&Parts { output, ..parts }, cx)?))
}

/// The stages of a specification: the hidden field, the sort, the windows, as far as they are needed.
pub(super) fn assemble(parts: &Parts<'_>, cx: &mut PipelineCx<'_>) -> Result<Vec<Arc<dyn Stage>>> {
    let sort_by = parts.sort_by.filter(|keys| !keys.is_empty());
    let sort = sort_by.map(|keys| sort::parse_keys(keys, cx)).transpose()?.map(Arc::new);
    let functions = functions(parts.output, sort.as_deref(), cx)?;
    let fields = output_fields(parts.output)?;
    let mut stages: Vec<Arc<dyn Stage>> = Vec::new();
    let partition = partition(parts.partition_by, &mut stages, cx)?;
    let first = match &partition {
        PartitionBy::Nothing => None,
        PartitionBy::Path(Expr::Path(path)) => Some(path.dotted()),
        _ => Some(HIDDEN.to_owned()),
    };
    let order = DocBuf::build(|out| {
        if let Some(first) = &first {
            out.put(first, 1);
        }
        for key in sort_by.unwrap_or(Doc::EMPTY) {
            // Within a partition the partition key is constant.
            if first.as_deref() != Some(key.name()) {
                out.put_element(key);
            }
        }
    });
    if !order.as_doc().is_empty() {
        let spec = Arc::new(sort::parse_keys(order.as_doc(), cx)?);
        stages.push(Arc::new(sort::Sort::new(spec, order, cx)));
    }
    let text = explained(parts, &partition);
    let key = match sort.as_deref().map(SortSpec::parts) {
        Some([part]) => Some(Expr::Path(parse_field_path(part.path.as_str())?)),
        _ => None,
    };
    let plan = Plan {
        partition,
        sort,
        key,
        functions,
        fields,
        allow_disk_use: cx.options.allow_disk_use,
        memory_bytes_max: cx.options.memory.set_window_fields,
        collation: cx.collation,
    };
    stages.push(Arc::new(SetWindowFields { plan: Arc::new(plan), text }));
    Ok(stages)
}

fn functions(
    output: Doc<'_>,
    sort: Option<&SortSpec>,
    cx: &PipelineCx<'_>,
) -> Result<Vec<WindowFunction>> {
    let mut names = ApartPaths::default();
    let mut functions = Vec::new();
    for element in output {
        let name = element.name();
        parse_field_path(name)?;
        if !names.insert(name) {
            let others = output.iter().map(|element| element.name());
            let other = others.into_iter().find(|other| conflict(name, other)).unwrap_or("");
            bail!(
                Code::Location(6_307_900),
                "$setWindowFields 'output' specification contains two conflicting paths. Cannot \
                 specify both '{other}' and '{name}'"
            );
        }
        functions.push(WindowFunction::parse(name, element.value(), sort, &mut cx.lang())?);
    }
    Ok(functions)
}

/// The outputs as fields whose values are variables, in the order of the functions.
fn output_fields(output: Doc<'_>) -> Result<AddFields> {
    let names: Vec<Box<str>> = (0..output.count()).map(|at| format!("output{at}").into()).collect();
    let spec = DocBuf::build(|out| {
        for (element, name) in output.iter().zip(&names) {
            out.put(element.name(), format!("$${name}").as_str());
        }
    });
    let mut cx = nagi_lang::expr::ParseCx::with_let(&names);
    if spec.as_doc().is_empty() {
        return Ok(AddFields::empty());
    }
    AddFields::parse(Value::Doc(spec.as_doc()), "$setWindowFields", &mut cx)
}

/// Determines the partitioning; adds the stage that computes a key which is not a path.
fn partition(
    by: Option<Value<'_>>,
    stages: &mut Vec<Arc<dyn Stage>>,
    cx: &mut PipelineCx<'_>,
) -> Result<PartitionBy> {
    let Some(by) = by else { return Ok(PartitionBy::Nothing) };
    match Expr::parse(by, &mut cx.lang())? {
        expr if expr.as_const().is_some() => {
            expr.as_const().map_or(Ok(()), check_key)?;
            Ok(PartitionBy::Nothing)
        }
        path @ Expr::Path(_) => Ok(PartitionBy::Path(path)),
        _ => {
            let spec = DocBuf::build(|out| out.put(HIDDEN, by));
            stages.push(add_fields::parse("$set", Value::Doc(spec.as_doc()), cx)?.into());
            Ok(PartitionBy::Hidden)
        }
    }
}

fn check_key(key: Value<'_>) -> Result<()> {
    if let Value::Array(_) = key {
        bail!(
            Code::TYPE_MISMATCH,
            "An expression used to partition cannot evaluate to value of type array"
        );
    }
    Ok(())
}

fn explained(parts: &Parts<'_>, partition: &PartitionBy) -> DocBuf {
    DocBuf::build(|out| {
        match partition {
            PartitionBy::Nothing => {}
            PartitionBy::Path(_) => {
                out.put("partitionBy", parts.partition_by.unwrap_or(Value::Null))
            }
            PartitionBy::Hidden => out.put("partitionBy", format!("${HIDDEN}").as_str()),
        }
        if let Some(keys) = parts.sort_by {
            out.put("sortBy", keys);
        }
        out.put("output", parts.output);
    })
}

impl PartitionBy {
    /// The partition key of a document; null and missing are the same.
    ///
    /// # Errors
    /// 14 for an array.
    pub(super) fn key<'a>(&'a self, eval: &Eval<'a>) -> Result<Value<'a>> {
        let key = match self {
            PartitionBy::Nothing => Value::Null,
            PartitionBy::Path(path) => path.eval(eval)?,
            PartitionBy::Hidden => eval.root.get(HIDDEN),
        };
        check_key(key)?;
        Ok(if key.is_missing() { Value::Null } else { key })
    }

    /// Writes the document without the hidden field.
    pub(super) fn copy(&self, doc: Doc<'_>, out: &mut Vec<u8>) {
        out.clear();
        match self {
            PartitionBy::Hidden => {
                let mut out = DocWriter::new(out);
                doc.iter().filter(|e| e.name() != HIDDEN).for_each(|e| out.put_element(e));
            }
            _ => out.extend_from_slice(doc.as_bytes()),
        }
    }
}

impl Plan {
    /// Returns true if two keys belong to the same partition.
    pub(super) fn same_partition(&self, a: &ValueBuf, b: Value<'_>) -> bool {
        collation::equal(a.value(), b, self.collation)
    }

    /// Returns true if any window is over the values of the sort key.
    pub(super) fn has_ranges(&self) -> bool {
        self.functions.iter().any(|function| matches!(function.bounds(), Bounds::Range(_)))
    }

    /// Writes `doc` with the results, one for each function.
    pub(super) fn write(
        &self,
        doc: Doc<'_>,
        results: &[Value<'_>],
        arena: &Bump,
        now_ms: i64,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        out.clear();
        let vars = Vars::new(results);
        let eval = Eval::new(doc, &vars, arena, now_ms);
        self.fields.apply(&eval, &mut DocWriter::new(out))
    }
}

impl Stage for SetWindowFields {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Running::boxed(input, self.plan.clone())
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$_internalSetWindowFields", &self.text);
    }
}

//! `$densify`: inserts documents for missing values of a field.
//!
//! ```text
//!   values   0 ......... 5 .... 8        step 2, bounds "full"
//!   output   0 [2] [4]   5 [6]  8        [..] is generated
//! ```
//!
//! It is parsed into a sort by the field (after the partition's fields, unless bounds are "full") and a stage that
//! generates the steps. Steps are counted from the bound or the least value. A document on a step takes its place,
//! and determines the type of the later steps.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use nagi_bson::{ArrayBuf, NameTag, ValueBuf, compare, number};
use nagi_lang::{
    collation::Collation,
    expr::{Eval, ExprPath},
    time::{self, Unit, Zone},
};

use super::{densify_spec, prelude::*, several::Several, sort};
use crate::source::{document, metadata, serialize};

pub(super) static DENSIFY: StageSpec = StageSpec {
    name: "$densify",
    shape: How::Fields(&[("field", How::Same), ("partitionByFields", How::Same)]),
    parse,
    ..StageSpec::ROW
};

/// A parsed `$densify`.
pub(super) struct Plan {
    pub(super) field: ExprPath,
    pub(super) partition: Vec<ExprPath>,
    pub(super) step: ValueBuf,
    pub(super) unit: Option<Unit>,
    pub(super) range: Range,
    /// Collation of strings in partition keys.
    pub(super) collation: Option<&'static Collation>,
    /// Limit of generated documents.
    pub(super) docs_max: u64,
}

/// The range of the steps.
pub(super) enum Range {
    /// From the least to the greatest value of all documents.
    Full,
    /// The same for each partition.
    Partition,
    /// From the first value, inclusive, to the second, exclusive.
    Between(ValueBuf, ValueBuf),
}

struct Densify {
    plan: Arc<Plan>,
    memory_bytes_max: usize,
    text: DocBuf,
}

fn parse(spec: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let plan = densify_spec::parse(spec, cx)?;
    let order = DocBuf::build(|out| {
        if !matches!(plan.range, Range::Full) {
            plan.partition.iter().for_each(|path| out.put(&path.dotted(), 1));
        }
        out.put(&plan.field.dotted(), 1);
    });
    let keys = Arc::new(sort::parse_keys(order.as_doc(), cx)?);
    let text = spec.as_doc().unwrap_or(Doc::EMPTY).to_buf();
    Ok(Several::boxed(vec![
        Arc::new(sort::Sort::new(keys, order, cx)),
        Arc::new(Densify {
            plan: Arc::new(plan),
            memory_bytes_max: cx.options.memory.densify,
            text,
        }),
    ]))
}

impl Stage for Densify {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running {
            input,
            plan: self.plan.clone(),
            memory_bytes_max: self.memory_bytes_max,
            partitions: BTreeMap::new(),
            partitions_bytes: 0,
            newest: None,
            least: None,
            largest: None,
            walks: VecDeque::new(),
            pending: None,
            ended: false,
            generated: 0,
            out: Vec::new(),
            arena: Bump::new(),
        })
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$_internalDensify", &self.text);
    }
}

/// The partition's values, in the order of its fields; null for missing. With a collation strings are replaced by
/// their collation keys.
struct Key(ArrayBuf);

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        compare::arrays(self.0.as_array(), other.0.as_array())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

/// State of a partition.
#[derive(Clone)]
struct Steps {
    /// The partition fields of its documents; missing ones are left out.
    values: Arc<[ValueBuf]>,
    /// The next step.
    next: ValueBuf,
}

/// Documents that are to be generated.
struct Walk {
    steps: Steps,
    end: ValueBuf,
    /// True if a document at `end` is generated, too.
    inclusive: bool,
    /// The partition to which the remaining steps return.
    back_to: Option<Key>,
}

/// The bytes of a document that is held back, with its value and partition.
type Pending = (Vec<u8>, Option<(ValueBuf, Key)>);

struct Running {
    input: Box<dyn Source>,
    plan: Arc<Plan>,
    memory_bytes_max: usize,
    partitions: BTreeMap<Key, Steps>,
    partitions_bytes: usize,
    /// The partition of the last input document, if the documents of a partition are adjacent.
    newest: Option<Key>,
    least: Option<ValueBuf>,
    largest: Option<ValueBuf>,
    walks: VecDeque<Walk>,
    /// A document, with its metadata, that is passed on after the walks, with its value and partition.
    pending: Option<Pending>,
    /// True if the input is exhausted.
    ended: bool,
    generated: u64,
    out: Vec<u8>,
    arena: Bump,
}

impl Plan {
    /// The value one step further.
    fn after(&self, value: Value<'_>) -> Result<ValueBuf> {
        let Value::DateTime(ms) = value else {
            return Ok(ValueBuf::new(number::add(value, self.step.value())));
        };
        let unit = self.unit.unwrap_or(Unit::Millisecond);
        let amount = number::as_i64_exact(self.step.value()).unwrap_or(1);
        match time::add(ms, unit, amount, &Zone::Utc) {
            Some(ms) => Ok(ValueBuf::new(Value::DateTime(ms))),
            None => bail!(Code::OVERFLOW, "a step of $densify is beyond the range of dates"),
        }
    }

    /// Returns true if documents are to be generated up to this value; false for null and missing.
    fn check(&self, value: Value<'_>) -> Result<bool> {
        match value {
            value if value.is_nullish() => Ok(false),
            Value::DateTime(_) if self.unit.is_none() => bail!(
                Code::Location(6_053_600),
                "Encountered date densify value in collection when step does not have a date unit."
            ),
            Value::DateTime(_) => Ok(true),
            value if !value.is_number() => {
                bail!(Code::Location(5_733_201), "Densify field type must be numeric or a date")
            }
            _ if self.unit.is_some() => bail!(
                Code::Location(6_053_600),
                "Encountered numeric densify value in collection when step has a date unit."
            ),
            _ => Ok(true),
        }
    }

    fn key<'a>(&'a self, eval: &Eval<'a>) -> (Key, Arc<[ValueBuf]>) {
        let values: Vec<ValueBuf> =
            self.partition.iter().map(|path| ValueBuf::new(path.of_doc(eval.root, eval))).collect();
        let key = ArrayBuf::build(|out| {
            for value in &values {
                let keyed = self.collation.and_then(|own| own.keyed(value.value()));
                out.push(keyed.as_ref().unwrap_or(value).value());
            }
        });
        (Key(key), values.into())
    }

    /// Writes the document of a step.
    fn write(&self, steps: &Steps, out: &mut Vec<u8>) {
        let paths = self.partition.iter().chain([&self.field]).map(ExprPath::parts);
        let values = steps.values.iter().chain([&steps.next]).map(ValueBuf::value);
        let fields: Vec<(PathParts<'_>, Value<'_>)> =
            paths.zip(values).filter(|(_, value)| !value.is_missing()).collect();
        out.clear();
        nest(&fields, &mut DocWriter::new(out));
    }
}

type PathParts<'p> = &'p [(NameTag, Box<str>)];

/// Writes values at their paths, in the order of the paths.
fn nest(fields: &[(PathParts<'_>, Value<'_>)], out: &mut DocWriter<'_>) {
    for (at, (path, value)) in fields.iter().enumerate() {
        let Some((part, rest)) = path.split_first() else { continue };
        let name = &part.1;
        if rest.is_empty() {
            out.put(name, *value);
        } else if !fields[..at].iter().any(|(other, _)| other.first() == Some(part)) {
            let inner: Vec<(PathParts<'_>, Value<'_>)> = fields
                .iter()
                .filter(|(other, _)| other.first() == Some(part))
                .map(|(other, value)| (&other[1..], *value))
                .collect();
            out.doc(name, |out| nest(&inner, out));
        }
    }
}

fn before(a: &ValueBuf, b: &ValueBuf) -> bool {
    compare::values(a.value(), b.value()).is_lt()
}

impl Running {
    /// Reads the next document of the input and determines the documents that come before it.
    fn read(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        if !self.input.advance(cx)? {
            self.ended = true;
            return self.finish();
        }
        let plan = self.plan.clone();
        let doc = self.input.doc();
        let eval = cx.eval(doc, &self.arena);
        let value = plan.field.of_doc(doc, &eval);
        let here = match plan.check(value)? {
            false => None,
            true => {
                let (key, values) = plan.key(&eval);
                Some((ValueBuf::new(value), key, values))
            }
        };
        let mut bytes = Vec::new();
        serialize(&*self.input, &mut bytes);
        renew(&mut self.arena);
        let Some((value, key, values)) = here else {
            self.pending = Some((bytes, None));
            return Ok(());
        };
        self.leave_others(&key)?;
        let start = match &plan.range {
            Range::Between(lower, _) => lower,
            Range::Partition => &value,
            Range::Full => self.least.get_or_insert_with(|| value.clone()),
        };
        let steps = match self.partitions.remove(&key) {
            Some(steps) => steps,
            None => {
                self.partitions_bytes += key.0.as_array().as_bytes().len() * 2 + 128;
                Steps { values, next: start.clone() }
            }
        };
        if self.partitions_bytes > self.memory_bytes_max {
            bail!(
                Code::Location(6_007_200),
                "$densify exceeded memory limit of {}",
                self.memory_bytes_max
            );
        }
        let end = match &plan.range {
            Range::Between(_, upper) if before(upper, &value) => upper.clone(),
            _ => value.clone(),
        };
        let back_to = Some(Key(key.0.clone()));
        self.walks.push_back(Walk { steps, end, inclusive: false, back_to });
        self.largest = Some(value.clone());
        self.pending = Some((bytes, Some((value, key))));
        Ok(())
    }

    /// Finishes the partition before `key`'s, if documents are ordered by partition.
    fn leave_others(&mut self, key: &Key) -> Result<()> {
        if matches!(self.plan.range, Range::Full) || self.newest.as_ref() == Some(key) {
            return Ok(());
        }
        // Arrays sort by one of their elements, so documents of their partitions may be interleaved.
        let apart = !key.0.as_array().iter().any(|value| matches!(value, Value::Array(_)));
        let newest = if apart { Some(Key(key.0.clone())) } else { None };
        if let Some(old) = std::mem::replace(&mut self.newest, newest)
            && let Some(steps) = self.partitions.remove(&old)
        {
            self.partitions_bytes -= old.0.as_array().as_bytes().len() * 2 + 128;
            self.end_partition(steps);
        }
        Ok(())
    }

    /// Generates the documents after the last document of a partition.
    fn end_partition(&mut self, steps: Steps) {
        let (end, inclusive) = match &self.plan.range {
            Range::Partition => return,
            Range::Between(_, upper) => (upper.clone(), false),
            Range::Full => match &self.largest {
                Some(largest) => (largest.clone(), true),
                None => return,
            },
        };
        self.walks.push_back(Walk { steps, end, inclusive, back_to: None });
    }

    /// Generates the documents after the last document of the input.
    fn finish(&mut self) -> Result<()> {
        for (_, steps) in std::mem::take(&mut self.partitions) {
            self.end_partition(steps);
        }
        // Without documents there is one partition, unless partition fields were given.
        if let Range::Between(lower, _) = &self.plan.range
            && self.largest.is_none()
            && self.plan.partition.is_empty()
        {
            let steps = Steps { values: Arc::new([]), next: lower.clone() };
            self.end_partition(steps);
        }
        Ok(())
    }

    /// Generates the next document. Returns false if none is due.
    fn walk(&mut self, cx: &Cx<'_>) -> Result<bool> {
        while let Some(mut walk) = self.walks.pop_front() {
            let order = compare::values(walk.steps.next.value(), walk.end.value());
            if order.is_lt() || (walk.inclusive && order.is_eq()) {
                cx.tick()?;
                self.generated += 1;
                if self.generated > self.plan.docs_max {
                    bail!(
                        Code::Location(5_897_900),
                        "Generated {} documents in $densify, which is over the limit of \
                         {}. Increase the 'internalQueryMaxAllowedDensifyDocs' parameter to allow \
                         more generated documents",
                        self.generated,
                        self.plan.docs_max
                    );
                }
                self.plan.write(&walk.steps, &mut self.out);
                walk.steps.next = self.plan.after(walk.steps.next.value())?;
                self.walks.push_front(walk);
                return Ok(true);
            }
            if let Some(key) = walk.back_to {
                self.partitions.insert(key, walk.steps);
            }
        }
        Ok(false)
    }

    /// Passes on the input document.
    fn pass(&mut self) -> Result<bool> {
        let Some((doc, here)) = self.pending.take() else { return Ok(false) };
        if let Some((value, key)) = here
            && let Some(steps) = self.partitions.get_mut(&key)
            && compare::equal(steps.next.value(), value.value())
        {
            steps.next = self.plan.after(value.value())?;
        }
        self.out.clear();
        self.out.extend_from_slice(&doc);
        Ok(true)
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        loop {
            if self.walk(cx)? || self.pass()? {
                return Ok(true);
            }
            if self.ended {
                return Ok(false);
            }
            self.read(cx)?;
        }
    }

    fn doc(&self) -> Doc<'_> {
        document(&self.out)
    }

    fn meta(&self) -> Doc<'_> {
        metadata(&self.out)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }
}

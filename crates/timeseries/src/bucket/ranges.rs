//! The least and the greatest value of each field: `control.min` and `control.max`.
//!
//! Documents and arrays have a range for each of their fields, so the range of `{a: {b: 1}}` and `{a: {b: 5, c: 2}}` is
//! from `{a: {b: 1, c: 2}}` to `{a: {b: 5, c: 2}}`. All values of one path are of one class of the order of values
//! (numbers, dates, documents, ...): a measurement with another class begins another bucket, which is called a change
//! of schema.

use nagi_bson::{
    Doc, DocBuf, DocWriter, Element, Elements, KeptValue, Type, Value, ValueSlot, compare,
};

use super::fields::{Fields, Once};

/// The memory of a field of documents, beside its names and what its range has allocated.
const FIELD_OVERHEAD: usize = 256;

/// The range of one path.
#[derive(Clone, Debug)]
enum Range {
    Values { min: KeptValue, max: KeptValue },
    Fields { kind: Type, fields: Fields<Range> },
}

/// The ranges of the fields of measurements.
#[derive(Clone, Debug)]
pub(super) struct Ranges(Fields<Range>);

/// The fields of a document or an array.
fn elements(value: Value<'_>) -> Option<Elements<'_>> {
    match value {
        Value::Doc(doc) => Some(doc.iter()),
        Value::Array(array) => Some(array.elements()),
        _ => None,
    }
}

impl Range {
    fn new(value: Value<'_>) -> Range {
        match elements(value) {
            Some(elements) => {
                let mut fields = Fields::new();
                add(&mut fields, elements);
                Range::Fields { kind: value.kind(), fields }
            }
            None => Range::Values { min: KeptValue::new(value), max: KeptValue::new(value) },
        }
    }

    /// True if the value has the class of the values of this path, and the same holds for its fields.
    fn accepts(&self, value: Value<'_>) -> bool {
        match (self, elements(value)) {
            (Range::Values { min, .. }, None) => {
                compare::class(min.value()) == compare::class(value)
            }
            (Range::Fields { kind, fields }, Some(elements)) => {
                *kind == value.kind() && accepts(fields, elements)
            }
            _ => false,
        }
    }

    fn add(&mut self, value: Value<'_>) {
        match (self, elements(value)) {
            (Range::Values { min, max }, _) => {
                if compare::values(value, min.value()).is_lt() {
                    *min = KeptValue::new(value);
                }
                if compare::values(value, max.value()).is_gt() {
                    *max = KeptValue::new(value);
                }
            }
            (Range::Fields { fields, .. }, Some(elements)) => add(fields, elements),
            // Not accepted.
            (Range::Fields { .. }, None) => {}
        }
    }

    fn heap_bytes(&self) -> usize {
        match self {
            Range::Values { min, max } => min.heap_bytes() + max.heap_bytes(),
            Range::Fields { fields, .. } => {
                let inner = fields
                    .iter()
                    .map(|(name, range)| FIELD_OVERHEAD + 2 * name.len() + range.heap_bytes());
                inner.sum()
            }
        }
    }

    fn put(&self, end: End, slot: ValueSlot<'_>) {
        match self {
            Range::Values { min, max } => {
                slot.put(if end == End::Min { min.value() } else { max.value() });
            }
            Range::Fields { kind: Type::Array, fields } => slot.array(|out| {
                fields.iter().for_each(|(_, range)| range.put(end, out.slot()));
            }),
            Range::Fields { fields, .. } => slot.doc(|out| {
                fields.iter().for_each(|(name, range)| range.put(end, out.slot(name)));
            }),
        }
    }

    /// The range between two values of `control`; none if they are not of one class.
    fn between(min: Value<'_>, max: Value<'_>) -> Option<Range> {
        match (elements(min), elements(max)) {
            (None, None) if compare::class(min) == compare::class(max) => {
                Some(Range::Values { min: KeptValue::new(min), max: KeptValue::new(max) })
            }
            (Some(mins), Some(maxes)) if min.kind() == max.kind() => {
                Some(Range::Fields { kind: min.kind(), fields: fields_between(mins, maxes)? })
            }
            _ => None,
        }
    }
}

/// Adds fields. Of a name that occurs twice, the first value counts, as for `Doc::get`.
fn add<'a>(fields: &mut Fields<Range>, elements: impl Iterator<Item = Element<'a>>) {
    let mut once = Once::default();
    for (at, element) in elements.enumerate() {
        let (name, value) = (element.name(), element.value());
        let mut is_new = false;
        let position = fields.entry_at(name, at, || {
            is_new = true;
            Range::new(value)
        });
        if once.is_first(Some(position), at) && !is_new {
            fields.at_mut(position).add(value);
        }
    }
}

/// True if each of the fields has the class of the values of its path.
fn accepts<'a>(fields: &Fields<Range>, elements: impl Iterator<Item = Element<'a>>) -> bool {
    let mut once = Once::default();
    elements.enumerate().all(|(at, element)| {
        let position = fields.find(element.name(), at);
        let is_first = once.is_first(position, at);
        position.is_none_or(|at| !is_first || fields.at(at).accepts(element.value()))
    })
}

fn fields_between(mins: Elements<'_>, maxes: Elements<'_>) -> Option<Fields<Range>> {
    let mut fields = Fields::new();
    let mut maxes = maxes;
    for (at, min) in mins.enumerate() {
        let max = maxes.next()?;
        if min.name() != max.name() {
            return None;
        }
        let range = Range::between(min.value(), max.value())?;
        fields.entry(min.name(), at, || range);
    }
    maxes.next().is_none().then_some(fields)
}

/// Which end of the ranges.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Min,
    Max,
}

impl Ranges {
    pub(super) fn new() -> Ranges {
        Ranges(Fields::new())
    }

    /// The ranges of a stored bucket; none if they are not of one class for each field, so that it takes no more
    /// measurements.
    pub(super) fn between(min: Doc<'_>, max: Doc<'_>) -> Option<Ranges> {
        fields_between(min.iter(), max.iter()).map(Ranges)
    }

    /// The number of fields of measurements.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// True if the field has a range.
    pub(super) fn has(&self, name: &str, at: usize) -> bool {
        self.0.get(name, at).is_some()
    }

    /// True if the fields of a measurement do not change the schema.
    pub(super) fn accept<'a>(&self, fields: impl Iterator<Item = Element<'a>>) -> bool {
        accepts(&self.0, fields)
    }

    /// Adds the fields of a measurement.
    pub(super) fn add<'a>(&mut self, fields: impl Iterator<Item = Element<'a>>) {
        add(&mut self.0, fields);
    }

    /// The memory that they use, approximately, beside that of the fields of measurements themselves.
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.iter().map(|(_, range)| range.heap_bytes()).sum()
    }

    /// The size of both ends as documents.
    pub(super) fn bytes(&self) -> usize {
        let end = |end| DocBuf::build(|out| self.write(end, "", 0, out)).as_bytes().len();
        end(End::Min) + end(End::Max)
    }

    /// Writes one end of each range, except that `time` is written for the field `time_field`.
    pub(super) fn write(&self, end: End, time_field: &str, time: i64, out: &mut DocWriter<'_>) {
        for (name, range) in self.0.iter() {
            match name == time_field {
                true => out.put(name, Value::DateTime(time)),
                false => range.put(end, out.slot(name)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_bson::json;

    fn shown(ranges: &Ranges, end: End) -> String {
        DocBuf::build(|out| ranges.write(end, "", 0, out)).as_doc().to_string()
    }

    fn ranges(docs: &[&str]) -> Ranges {
        let mut ranges = Ranges::new();
        for text in docs {
            let doc = json::parse(text).unwrap();
            assert!(ranges.accept(doc.as_doc().iter()), "{text}");
            ranges.add(doc.as_doc().iter());
        }
        ranges
    }

    #[test]
    fn each_path_has_a_range() {
        let found = ranges(&[
            "{a: 5, b: {c: 'x', d: [1, {e: 2}]}}",
            "{b: {c: 'b', d: [0, {e: 3}, true]}, a: 2.5}",
            "{a: 7, z: null, b: {c: 'y', d: []}}",
        ]);
        assert_eq!(
            shown(&found, End::Min),
            "{ a: 2.5, b: { c: \"b\", d: [ 0, { e: 2 }, true ] }, z: null }"
        );
        assert_eq!(
            shown(&found, End::Max),
            "{ a: 7, b: { c: \"y\", d: [ 1, { e: 3 }, true ] }, z: null }"
        );
        let (min, max) = (
            DocBuf::build(|out| found.write(End::Min, "", 0, out)),
            DocBuf::build(|out| found.write(End::Max, "", 0, out)),
        );
        let again = Ranges::between(min.as_doc(), max.as_doc()).unwrap();
        assert_eq!(shown(&again, End::Max), shown(&found, End::Max));
        assert!(Ranges::between(min.as_doc(), json::parse("{a: 'x'}").unwrap().as_doc()).is_none());
    }

    #[test]
    fn the_first_value_of_a_name_counts() {
        let twice = |a: i32, b: Value<'_>| {
            let inner = DocBuf::build(|out| {
                out.put("x", a);
                out.put("x", b);
            });
            DocBuf::build(|out| {
                out.put("n", a);
                out.put("d", &inner);
                out.put("n", b);
            })
        };
        let mut found = Ranges::new();
        for (a, b) in [(3, Value::String("y")), (5, Value::Int32(9)), (4, Value::Null)] {
            let doc = twice(a, b);
            assert!(found.accept(doc.as_doc().iter()));
            found.add(doc.as_doc().iter());
        }
        assert_eq!(shown(&found, End::Min), "{ n: 3, d: { x: 3 } }");
        assert_eq!(shown(&found, End::Max), "{ n: 5, d: { x: 5 } }");
    }

    #[test]
    fn another_class_changes_the_schema() {
        let found = ranges(&["{a: 5, b: {c: 1}, d: [1]}"]);
        let accepts = |text: &str| {
            let doc = json::parse(text).unwrap();
            found.accept(doc.as_doc().iter())
        };
        for same in ["{a: 1.5}", "{x: 'new'}", "{b: {}}", "{b: {c: 2, d: 'x'}}", "{d: [2, 'x']}"] {
            assert!(accepts(same), "{same}");
        }
        for other in ["{a: 'x'}", "{a: null}", "{b: 1}", "{b: {c: 'x'}}", "{d: {}}", "{d: ['x']}"] {
            assert!(!accepts(other), "{other}");
        }
    }
}

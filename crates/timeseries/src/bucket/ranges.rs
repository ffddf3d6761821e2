//! The least and the greatest value of each field: `control.min` and `control.max`.
//!
//! Documents and arrays have a range for each of their fields, so the range of `{a: {b: 1}}` and `{a: {b: 5, c: 2}}` is
//! from `{a: {b: 1, c: 2}}` to `{a: {b: 5, c: 2}}`. All values of one path are of one class of the order of values
//! (numbers, dates, documents, ...): a measurement with another class begins another bucket, which is called a change
//! of schema.

use nagi_bson::{Doc, DocBuf, DocWriter, Elements, KeptValue, Type, Value, ValueSlot, compare};

use super::fields::Fields;

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
                for (at, element) in elements.enumerate() {
                    add(&mut fields, element.name(), at, element.value());
                }
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
                *kind == value.kind()
                    && elements.enumerate().all(|(at, element)| {
                        let range = fields.get(element.name(), at);
                        range.is_none_or(|range| range.accepts(element.value()))
                    })
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
            (Range::Fields { fields, .. }, Some(elements)) => {
                for (at, element) in elements.enumerate() {
                    add(fields, element.name(), at, element.value());
                }
            }
            // Not accepted: a repeated name in one document.
            (Range::Fields { .. }, None) => {}
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

fn add(fields: &mut Fields<Range>, name: &str, at: usize, value: Value<'_>) {
    let mut is_new = false;
    let range = fields.entry(name, at, || {
        is_new = true;
        Range::new(value)
    });
    if !is_new {
        range.add(value);
    }
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

    /// True if the field has a range.
    pub(super) fn has(&self, name: &str, at: usize) -> bool {
        self.0.get(name, at).is_some()
    }

    /// True if the value does not change the schema.
    pub(super) fn accepts(&self, name: &str, at: usize, value: Value<'_>) -> bool {
        self.0.get(name, at).is_none_or(|range| range.accepts(value))
    }

    pub(super) fn add(&mut self, name: &str, at: usize, value: Value<'_>) {
        add(&mut self.0, name, at, value);
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
            for (at, element) in doc.as_doc().iter().enumerate() {
                assert!(ranges.accepts(element.name(), at, element.value()), "{text}");
                ranges.add(element.name(), at, element.value());
            }
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
    fn another_class_changes_the_schema() {
        let found = ranges(&["{a: 5, b: {c: 1}, d: [1]}"]);
        let accepts = |text: &str| {
            let doc = json::parse(text).unwrap();
            doc.as_doc().iter().all(|e| found.accepts(e.name(), 0, e.value()))
        };
        for same in ["{a: 1.5}", "{x: 'new'}", "{b: {}}", "{b: {c: 2, d: 'x'}}", "{d: [2, 'x']}"] {
            assert!(accepts(same), "{same}");
        }
        for other in ["{a: 'x'}", "{a: null}", "{b: 1}", "{b: {c: 'x'}}", "{d: {}}", "{d: ['x']}"] {
            assert!(!accepts(other), "{other}");
        }
    }
}

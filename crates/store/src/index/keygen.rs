//! Generates the keys of a document in an index: follows paths and expands arrays.
//!
//! Paths without arrays take a fast path: one traversal per field, and one key. An array anywhere makes the index
//! multikey, with one key per element. All fields that lead through the same array are expanded together; two
//! different arrays in one document cannot be indexed together (171).
//!
//!   {a: [{b: 1, c: 2}, {b: 3}]}  under {"a.b": 1, "a.c": 1}:   (1, 2)  (3, null)
//!   {a: []} under {a: 1}: undefined       {a: []} or {a: 5} under {"a.b": 1}: null
//!
//! Keys are built in one buffer, then sorted and deduplicated. Except for arrays there is no allocation once the
//! buffers have grown.

use nagi_bson::{Array, Doc, Value, ValueBuf};
use nagi_error::{Code, Error, Result, bail, err};

use super::{IndexSpec, KeyPart, hash_value};
use crate::keystring::{self, TypeBits};
use crate::memory;

/// Limit of the keys of a document in an index.
pub(super) const KEY_COUNT_MAX: usize = 100_000;

/// The error of a document that has more.
pub(super) fn too_many_keys() -> Error {
    err!(
        Code::CANNOT_BUILD_INDEX_KEYS,
        "Index keys cannot exceed {KEY_COUNT_MAX} for a single document"
    )
}

/// The keys of one document in one index: sorted, distinct, without record ids.
#[derive(Default)]
pub(crate) struct KeySink {
    bytes: Vec<u8>,
    /// Start of key, end of key (start of type bits), end of type bits.
    keys: Vec<(u32, u32, u32)>,
    bits: TypeBits,
    /// For each field, the path components that were arrays.
    pub(crate) multikey: Vec<u64>,
}

impl KeySink {
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Key string and type bits.
    pub(crate) fn key(&self, at: usize) -> (&[u8], &[u8]) {
        let (start, middle, end) = self.keys[at];
        let at = |at: u32| at as usize;
        (&self.bytes[at(start)..at(middle)], &self.bytes[at(middle)..at(end)])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.len()).map(|at| self.key(at))
    }

    /// The type bits of a key, if the document has the key.
    pub(crate) fn find(&self, key: &[u8]) -> Option<&[u8]> {
        let at = self.keys.partition_point(|(start, middle, _)| {
            &self.bytes[*start as usize..*middle as usize] < key
        });
        (at < self.len()).then(|| self.key(at)).filter(|(found, _)| *found == key).map(|(_, b)| b)
    }

    /// Memory in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.keys.capacity() * size_of::<(u32, u32, u32)>()
    }

    pub(crate) fn is_multikey(&self) -> bool {
        self.multikey.iter().any(|components| *components != 0)
    }

    pub(crate) fn reset(&mut self, field_count: usize) {
        self.bytes.clear();
        self.keys.clear();
        self.multikey.clear();
        self.multikey.resize(field_count, 0);
    }

    pub(super) fn push(&mut self, spec: &IndexSpec, values: &[Value<'_>]) -> Result<()> {
        let start = self.begin()?;
        for (part, value) in spec.key.iter().zip(values) {
            self.value(spec, part, *value);
        }
        self.end(start);
        Ok(())
    }

    /// Adds a key of a wildcard index: `value` with its path, in the place of the field `at`.
    pub(super) fn push_at_path(
        &mut self,
        spec: &IndexSpec,
        others: &[Value<'_>],
        (at, path): (usize, &str),
        value: Value<'_>,
    ) -> Result<()> {
        let start = self.begin()?;
        for (field, (part, other)) in spec.key.iter().zip(others).enumerate() {
            if field == at {
                let path = Value::String(path);
                keystring::append_typed(path, false, &mut self.bytes, &mut self.bits);
                self.value(spec, part, value);
            } else {
                self.value(spec, part, *other);
            }
        }
        self.end(start);
        Ok(())
    }

    fn begin(&mut self) -> Result<u32> {
        if self.keys.len() == KEY_COUNT_MAX {
            return Err(too_many_keys());
        }
        // A buffer that grows is copied to one of twice its length.
        memory::check(2 * self.bytes.len(), "the index keys of one document")?;
        self.bits.clear();
        let Ok(start) = u32::try_from(self.bytes.len()) else {
            bail!(
                Code::EXCEEDED_MEMORY_LIMIT,
                "Exceeded memory limit: the index keys of one document have more than 4 GB"
            );
        };
        Ok(start)
    }

    fn value(&mut self, spec: &IndexSpec, part: &KeyPart, value: Value<'_>) {
        let keyed = spec.collation.and_then(|collation| collation.keyed(value));
        let value = keyed.as_ref().map_or(value, ValueBuf::value);
        let value = if part.is_hashed() { Value::Int64(hash_value(value)) } else { value };
        keystring::append_typed(value, part.descending, &mut self.bytes, &mut self.bits);
    }

    fn end(&mut self, start: u32) {
        let middle = self.bytes.len() as u32;
        self.bytes.extend_from_slice(self.bits.as_bytes());
        self.keys.push((start, middle, self.bytes.len() as u32));
    }

    pub(super) fn sort(&mut self) {
        let bytes = &self.bytes;
        let key = |at: &(u32, u32, u32)| &bytes[at.0 as usize..at.1 as usize];
        self.keys.sort_by(|a, b| key(a).cmp(key(b)));
        self.keys.dedup_by(|a, b| key(a) == key(b));
    }
}

/// Fills `sink` with the keys of `doc`; none for a document that a sparse index leaves out. The caller checks
/// partial filters.
pub(crate) fn keys(spec: &IndexSpec, doc: Doc<'_>, sink: &mut KeySink) -> Result<()> {
    (spec.kind.facts().keys)(spec, doc, sink)
}

/// The keys of kinds whose keys have the values at the paths of the key pattern, or their hashes.
pub(super) fn of_values(spec: &IndexSpec, doc: Doc<'_>, sink: &mut KeySink) -> Result<()> {
    sink.reset(spec.key.len());
    let mut values = [Value::Missing; 32];
    let values = &mut values[..spec.key.len()];
    for (part, value) in spec.key.iter().zip(values.iter_mut()) {
        match scalar(doc, &part.path) {
            Some(found) => *value = found,
            None => return expand(spec, doc, sink),
        }
    }
    if spec.sparse && values.iter().all(Value::is_missing) {
        return Ok(());
    }
    sink.push(spec, values)
}

/// The value at a path without arrays; none if there is an array.
pub(super) fn scalar<'d>(doc: Doc<'d>, path: &str) -> Option<Value<'d>> {
    let mut doc = doc;
    let mut rest = path;
    loop {
        let (head, tail) = rest.split_once('.').unwrap_or((rest, ""));
        match (doc.get(head), tail) {
            (Value::Array(_), _) => return None,
            (value, "") => return Some(value),
            (Value::Doc(inner), _) => doc = inner,
            _ => return Some(Value::Missing),
        }
        rest = tail;
    }
}

/// The state of one field during the expansion of arrays.
#[derive(Clone, Copy)]
struct Field<'d, 's> {
    /// The rest of the path; empty when `value` is final.
    rest: &'s str,
    value: Value<'d>,
    /// Number of components followed.
    depth: u32,
}

fn expand(spec: &IndexSpec, doc: Doc<'_>, sink: &mut KeySink) -> Result<()> {
    let fields: Vec<Field<'_, '_>> = spec
        .key
        .iter()
        .map(|part| Field { rest: &part.path, value: Value::Doc(doc), depth: 0 })
        .collect();
    let done = vec![false; fields.len()];
    walk(spec, &fields, &done, sink)?;
    sink.sort();
    Ok(())
}

/// Follows each unfinished field to its value or to the first array, and expands the array if there is one.
fn walk(
    spec: &IndexSpec,
    fields: &[Field<'_, '_>],
    done: &[bool],
    sink: &mut KeySink,
) -> Result<()> {
    let mut fields = fields.to_vec();
    let mut done = done.to_vec();
    let mut common: Option<(Array<'_>, &str)> = None;
    let mut through = vec![false; fields.len()];
    for (at, field) in fields.iter_mut().enumerate() {
        if done[at] {
            continue;
        }
        let name = descend(field);
        let Value::Array(array) = field.value else {
            done[at] = true;
            continue;
        };
        match common {
            Some((other, other_name)) if other.as_bytes().as_ptr() != array.as_bytes().as_ptr() => {
                bail!(
                    Code::CANNOT_INDEX_PARALLEL_ARRAYS,
                    "cannot index parallel arrays [{name}] [{other_name}]"
                );
            }
            _ => common = Some((array, name)),
        }
        through[at] = true;
    }
    let Some((array, _)) = common else {
        let mut values = [Value::Missing; 32];
        values.iter_mut().zip(&fields).for_each(|(value, field)| *value = field.value);
        let values = &values[..fields.len()];
        if spec.sparse && values.iter().all(Value::is_missing) {
            return Ok(());
        }
        return sink.push(spec, values);
    };
    if spec.key.iter().zip(&through).any(|(part, through)| part.is_hashed() && *through) {
        bail!(Code::Location(16766), "Error: hashed indexes do not currently support array values");
    }
    elements(spec, &Expansion { fields: &fields, done: &done, through: &through, array }, sink)
}

/// Moves a field along its path, to the end or to an array. Returns the last name.
fn descend<'s>(field: &mut Field<'_, 's>) -> &'s str {
    let mut last = "";
    if matches!(field.value, Value::Array(_)) {
        return last;
    }
    while !field.rest.is_empty() {
        let Value::Doc(doc) = field.value else {
            field.value = Value::Missing;
            field.rest = "";
            break;
        };
        let (head, tail) = field.rest.split_once('.').unwrap_or((field.rest, ""));
        last = head;
        field.value = doc.get(head);
        field.rest = tail;
        field.depth += 1;
        if matches!(field.value, Value::Array(_)) {
            break;
        }
    }
    last
}

/// The common data of an expansion.
struct Expansion<'f, 'd, 's> {
    fields: &'f [Field<'d, 's>],
    done: &'f [bool],
    /// The fields that have reached the array.
    through: &'f [bool],
    array: Array<'d>,
}

/// Continues once for each element of the array that the `through` fields have reached.
fn elements(spec: &IndexSpec, at: &Expansion<'_, '_, '_>, sink: &mut KeySink) -> Result<()> {
    let mut positions = vec![None; at.fields.len()];
    for (index, field) in at.fields.iter().enumerate().filter(|(i, _)| at.through[*i]) {
        positions[index] = position(field.rest, at.array)?;
        if positions[index].is_none() {
            sink.multikey[index] |= 1u64.checked_shl(field.depth - 1).unwrap_or(1 << 63);
        }
    }
    if at.array.is_empty() {
        return element(spec, at, &positions, None, sink);
    }
    // If all components are positions, every element would give the same key.
    let fixed = at.through.iter().zip(&positions).all(|(through, at)| !through || at.is_some());
    let count = if fixed { 1 } else { usize::MAX };
    for value in at.array.iter().take(count) {
        element(spec, at, &positions, Some(value), sink)?;
    }
    Ok(())
}

/// Continues with one element of the array; none stands for an empty array.
fn element<'d, 's>(
    spec: &IndexSpec,
    at: &Expansion<'_, 'd, 's>,
    positions: &[Option<(Value<'d>, &'s str)>],
    value: Option<Value<'d>>,
    sink: &mut KeySink,
) -> Result<()> {
    let mut fields = at.fields.to_vec();
    let mut done = at.done.to_vec();
    for (index, field) in fields.iter_mut().enumerate().filter(|(i, _)| at.through[*i]) {
        if let Some((value, rest)) = positions[index] {
            *field = Field { value, rest, depth: field.depth + 1 };
            continue;
        }
        (field.value, field.rest, done[index]) = match value {
            // The end of the path: the element itself, or undefined for an empty array.
            _ if field.rest.is_empty() => (value.unwrap_or(Value::Undefined), "", true),
            Some(Value::Doc(doc)) => (Value::Doc(doc), field.rest, false),
            _ => (Value::Missing, "", true),
        };
    }
    walk(spec, &fields, &done, sink)
}

/// If the next component is a number and the array has an element at that position: the element, and the rest of
/// the path. If an element also has a field of that name, the path is ambiguous.
pub(super) fn position<'d, 's>(
    rest: &'s str,
    array: Array<'d>,
) -> Result<Option<(Value<'d>, &'s str)>> {
    let (head, tail) = rest.split_once('.').unwrap_or((rest, ""));
    let canonical = head == "0" || !head.starts_with('0');
    let digits = !head.is_empty() && head.bytes().all(|byte| byte.is_ascii_digit());
    let Some(index) = head.parse::<usize>().ok().filter(|_| canonical && digits) else {
        return Ok(None);
    };
    let Some(value) = array.iter().nth(index) else { return Ok(None) };
    let named = |v: Value<'_>| v.as_doc().is_some_and(|doc| doc.element(head).is_some());
    if array.iter().any(named) {
        bail!(
            Code::Location(16746),
            "Ambiguous field name found in array (do not use numeric field names in embedded \
             elements in an array), field: '{head}' for array: {}",
            Value::Array(array)
        );
    }
    Ok(Some((value, tail)))
}

#[cfg(test)]
mod tests {
    use nagi_bson::{DocBuf, json, text::doc_text};

    use super::*;
    use crate::Namespace;

    fn check(pattern: &str, options: &str, doc: &str, expected: &str) {
        let spec = format!("{{key: {pattern}, name: 'x'{options}}}");
        let spec = json::parse(&spec).unwrap();
        let namespace = Namespace::parse("d.c").unwrap();
        let spec = IndexSpec::parse(spec.as_doc(), &namespace).unwrap();
        let mut sink = KeySink::default();
        let result = match keys(&spec, json::parse(doc).unwrap().as_doc(), &mut sink) {
            Err(error) => error.to_string(),
            Ok(()) => {
                let keys = sink.iter().map(|(key, bits)| {
                    let fields = spec.key.iter().map(|part| (&*part.path, part.descending));
                    let doc = DocBuf::build(|w| {
                        keystring::decode(key, bits, fields, w).unwrap();
                    });
                    doc_text(doc.as_doc())
                });
                let keys: Vec<_> = keys.collect();
                let multikey: Vec<_> = sink.multikey.iter().map(u64::to_string).collect();
                format!("{} | {}", keys.join(" "), multikey.join(" "))
            }
        };
        assert_eq!(result, expected, "{pattern} on {doc}");
    }

    #[test]
    fn keys_of_one_document_are_asked_for() {
        let spec = json::parse("{key: {a: 1}, name: 'x'}").unwrap();
        let spec = IndexSpec::parse(spec.as_doc(), &Namespace::parse("d.c").unwrap()).unwrap();
        let doc = DocBuf::build(|out| {
            let text = |n: i32| format!("{n}{}", "x".repeat(1000));
            out.array("a", |out| (0..9000).for_each(|n| out.push(text(n).as_str())));
        });
        let budget = nagi_budget::Budget::new(8 << 20);
        let request = nagi_budget::Metering::begin(&budget);
        let error = keys(&spec, doc.as_doc(), &mut KeySink::default()).unwrap_err();
        assert_eq!(error.code(), Code::EXCEEDED_MEMORY_LIMIT, "{error}");
        drop(request);
        assert_eq!(budget.demand(), 0);
        keys(&spec, doc.as_doc(), &mut KeySink::default()).unwrap();
    }

    #[test]
    fn plain_paths_give_one_key() {
        check("{a: 1}", "", "{_id: 1, a: 5}", "{ a: 5 } | 0");
        check("{'a.b': 1, c: -1}", "", "{a: {b: 'x'}, c: 2}", "{ a.b: \"x\", c: 2 } | 0 0");
        check("{a: 1}", "", "{}", "{} | 0");
        check("{a: 1}", "", "{a: null}", "{ a: null } | 0");
        check("{a: 1, b: 1}", ", sparse: true", "{c: 1}", " | 0 0");
        check("{a: 1, b: 1}", ", sparse: true", "{b: 1}", "{ b: 1 } | 0 0");
    }

    #[test]
    fn arrays_expand() {
        check("{a: 1}", "", "{a: [2, 1, 2, 1.0]}", "{ a: 1 } { a: 2 } | 1");
        check("{a: 1}", "", "{a: []}", "{ a: undefined } | 1");
        check("{'a.b': 1}", "", "{a: []}", "{} | 1");
        check(
            "{'a.b': 1}",
            "",
            "{a: [{b: 1}, {b: [2, 3]}, 5, [{b: 9}]]}",
            "{} { a.b: 1 } { a.b: 2 } { a.b: 3 } | 3",
        );
        check("{a: 1}", "", "{a: [[1, 2]]}", "{ a: [ 1, 2 ] } | 1");
    }

    #[test]
    fn fields_through_one_array_expand_together() {
        check(
            "{'a.b': 1, 'a.c': 1}",
            "",
            "{a: [{b: 1, c: 2}, {b: 3}]}",
            "{ a.b: 1, a.c: 2 } { a.b: 3 } | 1 1",
        );
        check(
            "{a: 1, b: 1}",
            "",
            "{a: [1], b: [2]}",
            "171 CannotIndexParallelArrays: cannot index parallel arrays [b] [a]",
        );
        check("{a: 1, b: 1}", "", "{a: [1, 2], b: 7}", "{ a: 1, b: 7 } { a: 2, b: 7 } | 1 0");
    }

    #[test]
    fn numeric_components_address_positions() {
        check("{'a.1': 1}", "", "{a: [5, 6, 7]}", "{ a.1: 6 } | 0");
        check("{'a.1': 1}", "", "{a: [5]}", "{} | 1");
        check("{'a.0.b': 1}", "", "{a: [{b: 4}, {b: 5}]}", "{ a.0.b: 4 } | 0");
        check("{'a.0.b': 1}", "", "{a: [[{b: 1}, {b: 2}]]}", "{ a.0.b: 1 } { a.0.b: 2 } | 2");
    }

    #[test]
    fn hashed_arrays_are_refused() {
        check(
            "{a: 'hashed'}",
            "",
            "{a: [1]}",
            "16766 Location16766: Error: hashed indexes do not currently support array values",
        );
    }
}

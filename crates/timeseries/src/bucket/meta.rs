//! Metadata: what the measurements of a bucket have in common.

use nagi_bson::{ArrayWriter, DocWriter, Element, Value, ValueBuf, ValueSlot};

/// Metadata in the form in which it is stored and compared: the fields of documents are sorted by name, because many
/// clients write them in any order.
pub fn normalized(meta: Value<'_>) -> ValueBuf {
    let mut bytes = Vec::new();
    let mut writer = DocWriter::new(&mut bytes);
    put(meta, writer.slot("m"));
    writer.finish();
    ValueBuf::new(nagi_bson::Doc::trusted(&bytes).get("m"))
}

/// The recursion is bounded by the nesting that validation accepts.
fn put(value: Value<'_>, slot: ValueSlot<'_>) {
    match value {
        Value::Doc(doc) => slot.doc(|out| {
            let mut fields: Vec<Element<'_>> = doc.iter().collect();
            fields.sort_by(|a, b| a.name().cmp(b.name()));
            fields.iter().for_each(|field| put(field.value(), out.slot(field.name())));
        }),
        Value::Array(array) => slot.array(|out: &mut ArrayWriter<'_>| {
            array.iter().for_each(|value| put(value, out.slot()));
        }),
        other => slot.put(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_bson::json;

    #[test]
    fn fields_of_documents_are_sorted() {
        let doc = json::parse("{m: {c: 1, b: {f: [{z: 1, y: 2}, 3], d: 0}}}").unwrap();
        let sorted = normalized(doc.get("m"));
        assert_eq!(sorted.value().to_string(), "{ b: { d: 0, f: [ { y: 2, z: 1 }, 3 ] }, c: 1 }");
        for same in [Value::Missing, Value::Null, Value::Int32(1)] {
            assert_eq!(normalized(same).value(), same);
        }
    }
}

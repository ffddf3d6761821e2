//! The text cases of `tests/golden/keys`.
//!
//!   encode VALUE            key string and type bits, in hexadecimal
//!   descending VALUE        the same, descending
//!   keys [SPEC, DOCUMENT]   the index's entries for the document, and its multikey paths

use std::fmt::Write;

use nagi_bson::{Doc, DocBuf, Value, json, text::doc_text};
use nagi_store::{
    Namespace,
    keystring::{self, TypeBits},
};

use crate::support::Fixture;

#[test]
fn key_strings_are_as_recorded() {
    nagi_testkit::golden::run(&nagi_testkit::golden::dir("keys"), &mut |verb, input| match verb {
        "encode" => encode(input, false),
        "descending" => encode(input, true),
        "keys" => keys(input).unwrap_or_else(|error| format!("error {error}")),
        _ => String::new(),
    });
}

#[test]
fn every_kind_of_index_has_a_case_file() {
    let files = nagi_testkit::rows::Files::default();
    let names: Vec<&str> = nagi_store::IndexKind::all().map(|kind| kind.facts().name).collect();
    nagi_testkit::rows::check("keys", names, &files);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn encode(input: &str, descending: bool) -> String {
    let value = json::parse_value(input).unwrap();
    let (mut key, mut bits) = (Vec::new(), TypeBits::new());
    keystring::append_typed(value.value(), descending, &mut key, &mut bits);
    format!("{} {}", hex(&key), hex(bits.as_bytes())).trim_end().to_owned()
}

fn keys(input: &str) -> nagi_error::Result<String> {
    let is_wild = input.contains("$**") || input.contains("wildcard");
    let of_buckets = input.contains("originalSpec");
    let input = json::parse_value(input).unwrap();
    let Value::Array(parts) = input.value() else { return Ok("not an array".into()) };
    let mut f = Fixture::new();
    if of_buckets {
        f.namespace = Namespace::parse("d.system.buckets.c")?;
        f.store.create_collection(&f.namespace, Doc::EMPTY)?;
    }
    // The shell's text form has no quotes around `$**` and dotted names.
    let text = |at| {
        let doc = parts.get(at).as_doc().unwrap();
        if is_wild || of_buckets { json::to_relaxed(doc) } else { doc_text(doc) }
    };
    f.index(&text(0))?;
    f.insert(&text(1))?;
    let collection = f.collection();
    let index = &collection.indexes[1];
    let snapshot = f.store.snapshot()?;
    let mut cursor = snapshot.reader().index_cursor(index, true, &[], &[])?;
    let mut out = String::new();
    while cursor.advance()? {
        let fields = index.spec.key_fields();
        let mut bytes = Vec::new();
        let mut writer = nagi_bson::DocWriter::new(&mut bytes);
        keystring::decode(cursor.key(), cursor.type_bits(), fields, &mut writer)?;
        writer.finish();
        let _ = writeln!(out, "{}", doc_text(DocBuf::from_bytes(bytes)?.as_doc()));
    }
    if is_wild {
        let _ = write!(out, "multikey {}", index.is_multikey());
        return Ok(out);
    }
    let multikey: Vec<String> =
        (0..index.spec.key.len()).map(|at| index.multikey_components(at).to_string()).collect();
    let _ = write!(out, "multikey {}", multikey.join(" "));
    Ok(out)
}

//! The `settings` argument of `setQuerySettings`: checked, merged with existing settings, simplified.

use nagi_bson::{Array, Doc, DocBuf, Value, number};
use nagi_error::{Code, Result, bail};
use nagi_store::{IndexSpec, Namespace};

use crate::args::args;

args! { "setQuerySettings.settings" => Spec {
    index_hints:     Value<'a>        = "indexHints",
    query_framework: Option<&'a str>  = "queryFramework",
    reject:          Option<bool>     = "reject",
    comment:         Value<'a>        = "comment",
}}

args! { "setQuerySettings.settings.indexHints" => HintSpec {
    ns:      Doc<'a>   = "ns",
    allowed: Array<'a> = "allowedIndexes",
}}

args! { "setQuerySettings.settings.indexHints.ns" => NsSpec {
    db:   Option<&'a str> = "db",
    coll: Option<&'a str> = "coll",
}}

/// Merges `given` into existing settings. Omitted fields keep their values; fields with default values are removed.
///
/// # Errors
/// 8727502 if `given` is empty, 7746604 if the result is empty, and those of each field.
pub(super) fn merge(old: Option<Doc<'_>>, given: Doc<'_>) -> Result<DocBuf> {
    if given.is_empty() {
        bail!(
            Code::Location(8_727_502),
            "settings field in setQuerySettings command cannot be empty"
        );
    }
    let spec = Spec::parse_doc(given)?;
    let old = old.unwrap_or(Doc::EMPTY);
    let hints = match spec.index_hints {
        Value::Missing => old.get("indexHints").as_array().map(|list| list.to_buf()),
        given => hints(given)?,
    };
    let framework = match spec.query_framework {
        Some(name @ ("classic" | "sbe")) => Some(name),
        Some(other) => bail!(
            Code::BAD_VALUE,
            "Enumeration value '{other}' for field 'setQuerySettings.settings.queryFramework' is not \
             a valid value."
        ),
        None => old.get("queryFramework").as_str(),
    };
    let reject = spec.reject.unwrap_or_else(|| old.get("reject").is_truthy());
    if hints.is_none() && framework.is_none() && !reject {
        bail!(
            Code::Location(7_746_604),
            "the resulting settings cannot be empty or contain only default values"
        );
    }
    let comment = match spec.comment {
        Value::Missing => old.get("comment"),
        given => given,
    };
    Ok(DocBuf::build(|out| {
        if let Some(hints) = &hints {
            out.put("indexHints", hints);
        }
        if let Some(framework) = framework {
            out.put("queryFramework", framework);
        }
        if reject {
            out.put("reject", true);
        }
        if !comment.is_missing() {
            out.put("comment", comment);
        }
    }))
}

/// Checks one hint or an array of hints and returns an array; `None` if none of them allows an index.
fn hints(given: Value<'_>) -> Result<Option<nagi_bson::ArrayBuf>> {
    let one;
    let list: Vec<Doc<'_>> = match given {
        Value::Doc(doc) => {
            one = doc;
            vec![one]
        }
        Value::Array(list) => {
            let docs = list.iter().map(|hint| hint.as_doc().ok_or(hint));
            match docs.collect::<std::result::Result<_, _>>() {
                Ok(docs) => docs,
                Err(other) => return wrong_hint(other),
            }
        }
        other => return wrong_hint(other),
    };
    let mut kept: Vec<(Namespace, Doc<'_>, Array<'_>)> = Vec::new();
    for doc in list {
        let hint = HintSpec::parse_doc(doc)?;
        let ns = NsSpec::parse_doc(hint.ns)?;
        let Some(db) = ns.db else {
            bail!(Code::Location(8_727_500), "invalid index hint: 'ns.db' field is missing");
        };
        let Some(coll) = ns.coll else {
            bail!(Code::Location(8_727_501), "invalid index hint: 'ns.coll' field is missing");
        };
        hint.allowed.iter().try_for_each(check_index)?;
        let namespace = Namespace::new(db, coll)?;
        if let Some((_, first, _)) = kept.iter().find(|(on, ..)| *on == namespace) {
            bail!(
                Code::Location(7_746_608),
                "Collection '{}' has already index hints specified",
                nagi_bson::text::doc_text(*first)
            );
        }
        kept.push((namespace, doc, hint.allowed));
    }
    kept.retain(|(_, _, allowed)| !allowed.is_empty());
    Ok((!kept.is_empty()).then(|| {
        nagi_bson::ArrayBuf::build(|out| {
            for (namespace, _, allowed) in &kept {
                out.doc(|out| {
                    out.doc("ns", |out| {
                        out.put("db", namespace.database());
                        out.put("coll", namespace.collection());
                    });
                    out.put("allowedIndexes", *allowed);
                });
            }
        })
    }))
}

fn wrong_hint<T>(found: Value<'_>) -> Result<T> {
    bail!(
        Code::TYPE_MISMATCH,
        "BSON field 'setQuerySettings.settings.indexHints' is the wrong type '{}', expected types \
         '[array, object]'",
        found.kind().name()
    )
}

/// Checks an index given by name, by key pattern, or as `{$natural: 1}`.
fn check_index(index: Value<'_>) -> Result<()> {
    let key = match index {
        Value::String(_) => return Ok(()),
        Value::Doc(key) => key,
        _ => bail!(Code::FAILED_TO_PARSE, "Hint must be a string or an object"),
    };
    if key.is_empty() {
        bail!(Code::Location(9_646_000), "key pattern index can't be empty");
    }
    if let Some(natural) = key.element("$natural") {
        let direction = number::as_f64(natural.value());
        if key.count() != 1 || !matches!(direction, Some(1.0 | -1.0)) {
            bail!(Code::BAD_VALUE, "$natural hint cannot be set to a value other than -1 or 1.");
        }
        return Ok(());
    }
    let spec = DocBuf::build(|out| {
        out.put("key", key);
        out.put("name", "hint");
        out.put("v", 2);
    });
    let namespace = Namespace::new("hint", "hint")?;
    match IndexSpec::parse(spec.as_doc(), &namespace) {
        Ok(_) => Ok(()),
        Err(error) => bail!(
            Code::Location(9_646_001),
            "invalid index key pattern hint :: caused by :: {}",
            error.message()
        ),
    }
}

//! Properties of generated documents, filters and updates.
//!
//! There are only a few field names and values, so that paths often meet arrays, documents and scalars.

use bumpalo::Bump;
use nagi_bson::{ArrayBuf, Doc, DocBuf, Value, ValueBuf, compare};
use nagi_lang::expr::{ParseCx, Vars};
use nagi_lang::filter::{Filter, MatchCx, MatchInfo};
use nagi_lang::sort::SortSpec;
use nagi_lang::update::{Applied, Update, UpdateCx};
use proptest::prelude::*;

const NOW_MS: i64 = 1_700_000_000_000;

fn scalar() -> impl Strategy<Value = ValueBuf> {
    prop_oneof![
        (-2..4i32).prop_map(|n| ValueBuf::new(Value::Int32(n))),
        (-2..4i64).prop_map(|n| ValueBuf::new(Value::Int64(n))),
        prop_oneof![Just(1.5), Just(-0.0), Just(2.0), Just(f64::NAN), Just(f64::INFINITY)]
            .prop_map(|n| ValueBuf::new(Value::Double(n))),
        "[ab]{0,2}".prop_map(|s| ValueBuf::new(Value::String(&s))),
        any::<bool>().prop_map(|b| ValueBuf::new(Value::Bool(b))),
        Just(ValueBuf::new(Value::Null)),
        (0..3i64).prop_map(|n| ValueBuf::new(Value::DateTime(n))),
    ]
}

fn name() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("b"), Just("c"), Just("0"), Just("1")]
}

fn object(fields: &[(&str, ValueBuf)]) -> DocBuf {
    DocBuf::build(|out| {
        let mut seen = Vec::new();
        for (name, value) in fields {
            if !seen.contains(name) {
                seen.push(name);
                out.put(name, value.value());
            }
        }
    })
}

fn value() -> impl Strategy<Value = ValueBuf> {
    scalar().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(|items| {
                let array = ArrayBuf::build(|out| items.iter().for_each(|v| out.push(v.value())));
                ValueBuf::new(Value::Array(array.as_array()))
            }),
            proptest::collection::vec((name(), inner), 0..3)
                .prop_map(|fields| ValueBuf::new(Value::Doc(object(&fields).as_doc()))),
        ]
    })
}

fn document() -> impl Strategy<Value = DocBuf> {
    (0..9i32, proptest::collection::vec((name(), value()), 0..4)).prop_map(|(id, fields)| {
        DocBuf::build(|out| {
            out.put("_id", id);
            out.extend(object(&fields).as_doc());
        })
    })
}

fn path() -> impl Strategy<Value = String> {
    proptest::collection::vec(name(), 1..4).prop_map(|parts| parts.join("."))
}

fn leaf() -> impl Strategy<Value = DocBuf> {
    let operator = prop_oneof![
        Just("$eq"),
        Just("$ne"),
        Just("$gt"),
        Just("$gte"),
        Just("$lt"),
        Just("$lte"),
        Just("$exists"),
    ];
    (path(), operator, value()).prop_map(|(path, operator, operand)| {
        DocBuf::build(|out| out.doc(&path, |out| out.put(operator, operand.value())))
    })
}

fn filter() -> impl Strategy<Value = DocBuf> {
    leaf().prop_recursive(3, 10, 3, |inner| {
        let logical = prop_oneof![Just("$and"), Just("$or"), Just("$nor")];
        (logical, proptest::collection::vec(inner, 1..3)).prop_map(|(name, parts)| {
            DocBuf::build(|out| {
                out.array(name, |out| parts.iter().for_each(|p| out.push_doc(p.as_doc())));
            })
        })
    })
}

fn parsed(filter: &DocBuf) -> Filter {
    Filter::parse(filter.as_doc(), &mut ParseCx::new()).expect("generated filters are valid")
}

fn matches(filter: &Filter, doc: Doc<'_>) -> bool {
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    filter.matches(doc, &MatchCx::new(&vars, &arena, NOW_MS)).expect("nothing that can fail")
}

fn update() -> impl Strategy<Value = DocBuf> {
    let operator = prop_oneof![
        Just("$set"),
        Just("$unset"),
        Just("$min"),
        Just("$max"),
        Just("$push"),
        Just("$addToSet"),
        Just("$pull"),
        Just("$pop"),
        Just("$inc"),
        Just("$mul"),
    ];
    proptest::collection::vec((operator, path(), value()), 1..4).prop_map(|changes| {
        DocBuf::build(|out| {
            for (operator, path, operand) in &changes {
                out.doc(operator, |out| match *operator {
                    "$pop" => out.put(path, 1),
                    "$inc" | "$mul" => out.put(path, 2),
                    _ => out.put(path, operand.value()),
                });
            }
        })
    })
}

fn apply(spec: &DocBuf, doc: &DocBuf) -> nagi_error::Result<(Applied, Vec<u8>)> {
    let update = Update::parse(Value::Doc(spec.as_doc()), &[], &mut ParseCx::new())?;
    let (arena, vars) = (Bump::new(), Vars::EMPTY);
    let cx = UpdateCx::new(&vars, &arena, NOW_MS, &|| 1);
    let mut out = b"before".to_vec();
    let applied = update.apply(doc.as_doc(), MatchInfo::default(), &cx, &mut out)?;
    assert!(out.starts_with(b"before"));
    Ok((applied, out.split_off(6)))
}

/// Names of which some have a common prefix; a document may contain some of them twice.
fn long_name() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just(""),
        Just("a"),
        Just("abcdefg"),
        Just("abcdefgh"),
        Just("abcdefghi"),
        Just("abcdefgh.x"),
        Just("abcdefghj"),
        Just("z"),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Conditions whose fields are found in one scan give the same results as each condition alone.
    #[test]
    fn parts_together_mean_what_parts_alone_mean(
        fields in proptest::collection::vec((long_name(), value()), 0..9),
        parts in proptest::collection::vec((long_name(), 0..4i32, any::<bool>()), 2..11),
    ) {
        let doc = DocBuf::build(|out| fields.iter().for_each(|(name, v)| out.put(name, v.value())));
        let parts: Vec<Filter> = parts
            .iter()
            .map(|(name, least, exists)| parsed(&DocBuf::build(|out| {
                out.doc(name, |out| match exists {
                    true => out.put("$exists", least % 2 == 0),
                    false => out.put("$gte", *least - 2),
                });
            })))
            .collect();
        let alone: Vec<bool> = parts.iter().map(|part| matches(part, doc.as_doc())).collect();
        let (all, any) = (alone.iter().all(|m| *m), alone.contains(&true));
        prop_assert_eq!(matches(&Filter::And(parts.clone()), doc.as_doc()), all);
        prop_assert_eq!(matches(&Filter::Or(parts.clone()), doc.as_doc()), any);
        prop_assert_eq!(matches(&Filter::Nor(parts), doc.as_doc()), !any);
    }

    /// The normal form and the filter that explain prints select the same documents.
    #[test]
    fn normal_forms_mean_the_same(filter in filter(), doc in document()) {
        let plain = parsed(&filter);
        let normal = plain.clone().normalize();
        let printed = parsed(&normal.to_doc());
        let expected = matches(&plain, doc.as_doc());
        prop_assert_eq!(matches(&normal, doc.as_doc()), expected, "{}", normal);
        prop_assert_eq!(matches(&printed, doc.as_doc()), expected, "{}", normal.to_doc().as_doc());
    }

    /// `$nor` and `$not` are negations; `$ne` is the negation of `$eq`.
    #[test]
    fn negations_negate(leaf in leaf(), doc in document()) {
        let negated = DocBuf::build(|out| {
            out.array("$nor", |out| out.push_doc(leaf.as_doc()));
        });
        let (yes, no) = (parsed(&leaf), parsed(&negated));
        prop_assert_ne!(matches(&yes, doc.as_doc()), matches(&no, doc.as_doc()));
    }

    /// For fields that are scalars of one class, a filter and `$expr` give the same result.
    #[test]
    fn filters_agree_with_expressions(
        a in scalar(),
        b in scalar(),
        operator in prop_oneof![Just("$eq"), Just("$gt"), Just("$gte"), Just("$lt"), Just("$lte")],
    ) {
        let nan = nagi_bson::number::is_nan(a.value()) || nagi_bson::number::is_nan(b.value());
        if nan || compare::class(a.value()) != compare::class(b.value()) {
            return Ok(());
        }
        let doc = DocBuf::build(|out| out.put("a", a.value()));
        let filter = DocBuf::build(|out| out.doc("a", |out| out.put(operator, b.value())));
        let expr = DocBuf::build(|out| out.doc("$expr", |out| out.array(operator, |out| {
            out.push("$a");
            out.doc(|out| out.put("$literal", b.value()));
        })));
        prop_assert_eq!(
            matches(&parsed(&filter), doc.as_doc()),
            matches(&parsed(&expr), doc.as_doc())
        );
    }

    /// An update writes valid BSON, keeps `_id` first, reports correctly if it changed the document, and leaves the
    /// output unchanged if it fails.
    #[test]
    fn updates_write_documents(spec in update(), doc in document()) {
        if let Ok((applied, bytes)) = apply(&spec, &doc) {
            match applied {
                Applied::NoOp => prop_assert!(bytes.is_empty()),
                Applied::Modified => {
                    let new = DocBuf::from_bytes(bytes).expect("valid BSON");
                    // These operators may count as a change although the document stays the same (`$currentDate`,
                    // `$push`, NaN).
                    let counts = ["$currentDate", "$inc", "$mul", "$push"];
                    if !spec.as_doc().iter().any(|element| counts.contains(&element.name())) {
                        prop_assert_ne!(new.as_doc().as_bytes(), doc.as_doc().as_bytes());
                    }
                    let first = new.as_doc().first().expect("not empty");
                    prop_assert_eq!(first.name(), "_id");
                    prop_assert!(first.value().same_bytes(&doc.get("_id")));
                }
            }
        }
    }

    /// Setting or removing a field twice has the same result as once.
    #[test]
    fn sets_are_idempotent(path in path(), value in value(), doc in document(), unset in any::<bool>()) {
        let operator = if unset { "$unset" } else { "$set" };
        let spec = DocBuf::build(|out| out.doc(operator, |out| out.put(&path, value.value())));
        if let Ok((Applied::Modified, bytes)) = apply(&spec, &doc) {
            let new = DocBuf::from_bytes(bytes).expect("valid BSON");
            let again = apply(&spec, &new).expect("works again");
            prop_assert_eq!(again.0, Applied::NoOp, "{:?} {:?}", new, again.1);
        }
    }

    /// Sort keys are totally ordered, and comparisons in both directions agree.
    #[test]
    fn sort_keys_order(a in document(), b in document(), path in path()) {
        let spec = DocBuf::build(|out| {
            out.put(&path, 1);
            out.put("_id", -1);
        });
        let spec = SortSpec::parse(spec.as_doc()).expect("valid");
        if let (Ok(ab), Ok(ba)) = (
            spec.compare_docs(a.as_doc(), b.as_doc()),
            spec.compare_docs(b.as_doc(), a.as_doc()),
        ) {
            prop_assert_eq!(ab, ba.reverse());
        }
    }
}

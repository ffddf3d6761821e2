//! Values printed as canonical Extended JSON are parsed back byte for byte.

use nagi_bson::{Decimal128, DocBuf, Value, json};
use proptest::prelude::*;

use crate::generate::tree;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn canonical_text_round_trips(tree in tree()) {
        let value = tree.to_value();
        let doc = DocBuf::build(|w| w.put("v", value.value()));
        // NaN has many bit patterns but one text, and a name that is a tag makes an object another value.
        prop_assume!(!format!("{doc:?}").to_ascii_lowercase().contains("nan"));
        let text = json::to_canonical(doc.as_doc());
        let back = json::parse(&text).map_err(|e| TestCaseError::fail(format!("{e}: {text}")))?;
        prop_assert_eq!(back.as_bytes(), doc.as_bytes(), "{}", text);
        json::to_relaxed(doc.as_doc());
    }

    #[test]
    fn doubles_read_back(n in any::<f64>()) {
        let text = json::shortest_double(n);
        let back = json::parse_value(&text).map_err(TestCaseError::fail)?;
        prop_assert!(matches!(back.value(), Value::Double(m) if m == n || m.is_nan() && n.is_nan()));
    }

    #[test]
    fn decimals_read_back(bytes in any::<[u8; 16]>()) {
        let n = Decimal128::from_bytes(bytes);
        let back = Decimal128::parse(&n.to_string()).expect("printed by us");
        prop_assert_eq!(back.compare(n), std::cmp::Ordering::Equal);
        prop_assert_eq!(back.to_string(), n.to_string());
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[\\[\\]{}:,'\"a$/\\\\0-9.eE+\\- ()A-Z]{0,40}") {
        let _ = json::parse(&text);
        let _ = json::parse_value(&text);
    }
}

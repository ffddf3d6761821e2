//! Headers that operators write.

/// The headers that say where a request goes and how long it is.
const OWN: [&str; 6] =
    ["connection", "content-length", "host", "te", "transfer-encoding", "upgrade"];

/// Whether a file may set a header of this name: those of the request itself are not for it.
#[must_use]
pub fn may_be_set(name: &str) -> bool {
    !OWN.iter().any(|own| own.eq_ignore_ascii_case(name))
}

#[test]
fn own_headers_are_not_for_a_file() {
    assert!(may_be_set("Authorization") && may_be_set("content-type"));
    assert!(!may_be_set("Host") && !may_be_set("transfer-encoding"));
}

//! Distinguished names as text (RFC 2253), as MongoDB shows subjects and names the users of certificates.

use std::fmt::Write;

use der::asn1::ObjectIdentifier;
use der::{Encode, Tag, Tagged};
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::name::Name;

/// The short names of attribute types that OpenSSL shows.
#[rustfmt::skip]
const TYPES: &[(&str, &str)] = &[
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.2.840.113549.1.9.2", "unstructuredName"),
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.15", "businessCategory"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.45", "x500UniqueIdentifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.97", "organizationIdentifier"),
];

/// The name as text, the last component first: `CN=x,OU=y,O=z`.
pub(crate) fn text(name: &Name) -> String {
    let mut out = String::new();
    for rdn in name.iter_rdn().collect::<Vec<_>>().into_iter().rev() {
        for (index, attribute) in rdn.iter().collect::<Vec<_>>().into_iter().rev().enumerate() {
            if !out.is_empty() {
                out.push(if index == 0 { ',' } else { '+' });
            }
            write_attribute(attribute, &mut out);
        }
    }
    out
}

fn write_attribute(attribute: &AttributeTypeAndValue, out: &mut String) {
    match short(&attribute.oid).zip(value(attribute)) {
        Some((name, value)) => {
            out.push_str(name);
            out.push('=');
            escape(&value, out);
        }
        None => {
            // A type without a name, or a value that is no text: its DER in hexadecimal.
            let _ = write!(out, "{}=#", attribute.oid);
            for byte in attribute.value.to_der().unwrap_or_default() {
                let _ = write!(out, "{byte:02X}");
            }
        }
    }
}

fn short(oid: &ObjectIdentifier) -> Option<&'static str> {
    let dotted = oid.to_string();
    TYPES.iter().find(|(known, _)| *known == dotted).map(|(_, name)| *name)
}

/// The text of an attribute; `None` if its value is no string.
pub(crate) fn value(attribute: &AttributeTypeAndValue) -> Option<String> {
    let bytes = attribute.value.value();
    match attribute.value.tag() {
        Tag::Utf8String
        | Tag::PrintableString
        | Tag::Ia5String
        | Tag::VisibleString
        | Tag::NumericString => String::from_utf8(bytes.to_vec()).ok(),
        // Latin-1, whatever the standard says.
        Tag::TeletexString => Some(bytes.iter().map(|byte| char::from(*byte)).collect()),
        Tag::BmpString => {
            let units = bytes.chunks(2).map(|two| match two {
                [high, low] => u16::from_be_bytes([*high, *low]),
                _ => 0xFFFF,
            });
            String::from_utf16(&units.collect::<Vec<_>>()).ok()
        }
        _ => None,
    }
}

/// Escapes as RFC 2253 asks: separators and quotes by a backslash, a leading or trailing space and a leading '#', and
/// control characters by their code. Characters beyond ASCII stay.
fn escape(value: &str, out: &mut String) {
    let last = value.chars().count().saturating_sub(1);
    for (index, c) in value.chars().enumerate() {
        match c {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => out.extend(['\\', c]),
            ' ' if index == 0 || index == last => out.push_str("\\ "),
            '#' if index == 0 => out.push_str("\\#"),
            '\0'..='\x1F' | '\x7F' => {
                let _ = write!(out, "\\{:02X}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_as_openssl_does_it() {
        let escaped = |value: &str| {
            let mut out = String::new();
            escape(value, &mut out);
            out
        };
        assert_eq!(escaped("plain text=1"), "plain text=1");
        assert_eq!(escaped("a,b+c\"\\<>;"), "a\\,b\\+c\\\"\\\\\\<\\>\\;");
        assert_eq!(escaped(" both "), "\\ both\\ ");
        assert_eq!(escaped("#1#"), "\\#1#");
        assert_eq!(escaped("a\nb\u{e9}"), "a\\0Ab\u{e9}");
    }
}

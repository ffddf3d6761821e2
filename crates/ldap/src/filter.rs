//! Search filters (RFC 4515) with places for arguments.
//!
//! A filter is parsed once, when the configuration is read. An argument is a part of a value in the parsed filter, and
//! becomes bytes of that value in the request. It is never a part of a text that is parsed, so whatever a client calls
//! itself, the filter keeps its shape.

use crate::ber::{self, OCTETS};
use crate::dn::Piece;
use crate::placeholder::{self, Names};

/// How deep filters may be nested.
const DEPTH_MAX: usize = 20;

/// A filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Filter {
    /// All of them, or any of them: the tag tells.
    Several(u8, Vec<Filter>),
    Not(Box<Filter>),
    Present(String),
    /// A comparison of a value; the tag tells which.
    Compare(u8, String, Value),
    Substrings(String, Vec<(u8, Value)>),
    Extensible(Extensible),
}

/// `attribute:dn:rule:=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extensible {
    attribute: String,
    rule: String,
    of_name: bool,
    value: Value,
}

/// A value: bytes, and places for arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Bytes(Vec<u8>),
    Argument(usize),
}

const AND: u8 = 0xA0;
const OR: u8 = 0xA1;
const NOT: u8 = 0xA2;
const EQUAL: u8 = 0xA3;
const SUBSTRINGS: u8 = 0xA4;
const GREATER: u8 = 0xA5;
const LESS: u8 = 0xA6;
const PRESENT: u8 = 0x87;
const APPROXIMATE: u8 = 0xA8;
const EXTENSIBLE: u8 = 0xA9;

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// A text for the user.
    pub(crate) fn parse(text: &str, names: Names<'_>) -> Result<Filter, String> {
        let mut parser = Parser { rest: text.trim(), names };
        // The outer parentheses may be missing, as OpenLDAP's tools allow.
        let filter = match parser.rest.starts_with('(') {
            true => parser.filter(0)?,
            false => return item(parser.rest, names),
        };
        match parser.rest {
            "" => Ok(filter),
            rest => Err(format!("'{rest}' follows the end of the filter")),
        }
    }

    /// True if it depends on an argument.
    pub(crate) fn has_arguments(&self) -> bool {
        match self {
            Filter::Several(_, all) => all.iter().any(Filter::has_arguments),
            Filter::Not(one) => one.has_arguments(),
            Filter::Present(_) => false,
            Filter::Compare(_, _, value) => value.has_arguments(),
            Filter::Substrings(_, parts) => parts.iter().any(|(_, value)| value.has_arguments()),
            Filter::Extensible(one) => one.value.has_arguments(),
        }
    }

    /// Appends the filter with these arguments.
    pub(crate) fn encode(&self, arguments: &[&str], out: &mut Vec<u8>) {
        match self {
            Filter::Several(tag, all) => {
                ber::nested(out, *tag, |out| all.iter().for_each(|one| one.encode(arguments, out)));
            }
            Filter::Not(one) => ber::nested(out, NOT, |out| one.encode(arguments, out)),
            Filter::Present(attribute) => ber::element(out, PRESENT, attribute.as_bytes()),
            Filter::Compare(tag, attribute, value) => ber::nested(out, *tag, |out| {
                ber::element(out, OCTETS, attribute.as_bytes());
                value.encode(OCTETS, arguments, out);
            }),
            Filter::Substrings(attribute, parts) => ber::nested(out, SUBSTRINGS, |out| {
                ber::element(out, OCTETS, attribute.as_bytes());
                ber::nested(out, ber::SEQUENCE, |out| {
                    parts.iter().for_each(|(tag, value)| value.encode(*tag, arguments, out));
                });
            }),
            Filter::Extensible(one) => ber::nested(out, EXTENSIBLE, |out| {
                for (tag, text) in [(0x81, &one.rule), (0x82, &one.attribute)] {
                    if !text.is_empty() {
                        ber::element(out, tag, text.as_bytes());
                    }
                }
                one.value.encode(0x83, arguments, out);
                if one.of_name {
                    ber::element(out, 0x84, &[0xFF]);
                }
            }),
        }
    }
}

impl Value {
    fn encode(&self, tag: u8, arguments: &[&str], out: &mut Vec<u8>) {
        ber::nested(out, tag, |out| {
            for part in &self.0 {
                match part {
                    Part::Bytes(bytes) => out.extend_from_slice(bytes),
                    Part::Argument(index) => {
                        out.extend_from_slice(arguments.get(*index).unwrap_or(&"").as_bytes());
                    }
                }
            }
        });
    }

    fn has_arguments(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Argument(_)))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

struct Parser<'t> {
    rest: &'t str,
    names: Names<'t>,
}

impl Parser<'_> {
    /// Reads a filter in parentheses. Recursion is bounded by [`DEPTH_MAX`].
    fn filter(&mut self, depth: usize) -> Result<Filter, String> {
        if depth == DEPTH_MAX {
            return Err(format!("the filter is nested more than {DEPTH_MAX} levels deep"));
        }
        self.take('(')?;
        let filter = match self.rest.chars().next() {
            Some(sign @ ('&' | '|')) => {
                self.take(sign)?;
                let mut all = Vec::new();
                while self.rest.trim_start().starts_with('(') {
                    self.rest = self.rest.trim_start();
                    all.push(self.filter(depth + 1)?);
                }
                self.rest = self.rest.trim_start();
                Filter::Several(if sign == '&' { AND } else { OR }, all)
            }
            Some('!') => {
                self.take('!')?;
                self.rest = self.rest.trim_start();
                let inner = self.filter(depth + 1)?;
                self.rest = self.rest.trim_start();
                Filter::Not(Box::new(inner))
            }
            _ => {
                let end = self.rest.find(['(', ')']).unwrap_or(self.rest.len());
                let (text, rest) = self.rest.split_at(end);
                self.rest = rest;
                item(text, self.names)?
            }
        };
        self.take(')')?;
        Ok(filter)
    }

    fn take(&mut self, sign: char) -> Result<(), String> {
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(format!("'{sign}' is missing before '{}' in the filter", self.rest)),
        }
    }
}

/// Reads `attribute=value` and the other comparisons.
fn item(text: &str, names: Names<'_>) -> Result<Filter, String> {
    let (left, right) = text
        .split_once('=')
        .ok_or_else(|| format!("'{text}' is not a comparison in the filter"))?;
    let (tag, left) = match left.as_bytes().last() {
        Some(b'>') => (GREATER, &left[..left.len() - 1]),
        Some(b'<') => (LESS, &left[..left.len() - 1]),
        Some(b'~') => (APPROXIMATE, &left[..left.len() - 1]),
        Some(b':') => {
            return extensible(&left[..left.len() - 1], value(right, names)?);
        }
        _ => (EQUAL, left),
    };
    let attribute = attribute(left)?;
    if tag != EQUAL || !right.contains('*') {
        return Ok(Filter::Compare(tag, attribute, value(right, names)?));
    }
    if right == "*" {
        return Ok(Filter::Present(attribute));
    }
    let texts: Vec<&str> = right.split('*').collect();
    let last = texts.len() - 1;
    let mut parts = Vec::new();
    for (index, text) in texts.into_iter().enumerate() {
        let part = value(text, names)?;
        let tag = match index {
            0 => 0x80,
            index if index == last => 0x82,
            _ => 0x81,
        };
        if !part.is_empty() {
            parts.push((tag, part));
        }
    }
    Ok(Filter::Substrings(attribute, parts))
}

/// `left` is `attribute`, `attribute:dn`, `attribute:rule`, `attribute:dn:rule`, `:rule` or `:dn:rule`.
fn extensible(left: &str, value: Value) -> Result<Filter, String> {
    let mut parts = left.split(':');
    let name = parts.next().unwrap_or("");
    let mut next = parts.next();
    let of_name = next.is_some_and(|part| part.eq_ignore_ascii_case("dn"));
    if of_name {
        next = parts.next();
    }
    let rule = match next {
        Some(rule) => attribute(rule)?,
        None => String::new(),
    };
    let name = if name.is_empty() { String::new() } else { attribute(name)? };
    if parts.next().is_some() || (name.is_empty() && rule.is_empty()) {
        return Err(format!("'{left}:=' is not a comparison in the filter"));
    }
    Ok(Filter::Extensible(Extensible { attribute: name, rule, of_name, value }))
}

/// Checks the name of an attribute, or a rule's, with options: `cn`, `cn;lang-de`, `2.5.4.3`.
pub(crate) fn attribute(text: &str) -> Result<String, String> {
    let known = |c: char| c.is_ascii_alphanumeric() || ".-;_".contains(c);
    match !text.is_empty() && text.chars().all(known) {
        true => Ok(text.to_owned()),
        false => Err(format!("'{text}' is not the name of an attribute")),
    }
}

/// Reads a value: `\2a` is the byte 0x2A.
fn value(text: &str, names: Names<'_>) -> Result<Value, String> {
    let mut parts = Vec::new();
    for piece in placeholder::split(text, names)? {
        parts.push(match piece {
            Piece::Argument(index) => Part::Argument(index),
            Piece::Text(text) => Part::Bytes(unescape(&text)?),
        });
    }
    Ok(Value(parts))
}

fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            return Err(format!("'\\' is not followed by two hexadecimal digits in '{text}'"));
        };
        out.push((high * 16 + low) as u8);
        rest = &after[2..];
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ber::Reader;

    fn names(name: &str) -> Option<usize> {
        name.parse().ok().filter(|n| *n < 3)
    }

    fn encoded(text: &str, arguments: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        Filter::parse(text, &names).unwrap().encode(arguments, &mut out);
        out
    }

    #[test]
    fn filters_of_all_kinds() {
        for good in [
            "(cn=a)",
            "cn=a",
            "(cn=*)",
            "(cn=a*b*c)",
            "(cn=*b)",
            "(&(objectClass=group)(member:1.2.840.113556.1.4.1941:={0}))",
            "(|(cn=a)(!(sn~=b))(age>=3)(age<=4))",
            "(& (cn=a) (cn=b) )",
            "(:dn:2.5.13.5:=x)",
            "(cn:dn:=x)",
            r"(cn=a\2a\28b)",
            "(cn;lang-de=x)",
            "(&)",
        ] {
            assert!(Filter::parse(good, &names).is_ok(), "{good}");
        }
        for bad in [
            "",
            "(",
            ")",
            "(cn)",
            "(cn=a",
            "(cn=a))",
            "(=a)",
            "(c n=a)",
            "(!(cn=a)(cn=b))",
            "(cn={9})",
            r"(cn=\2)",
            "(:=x)",
            "(cn={USER)",
            "(a:dn:r:x:=1)",
            "({0}=a)",
        ] {
            assert!(Filter::parse(bad, &names).is_err(), "{bad}");
        }
        let deep = format!("{}(cn=a){}", "(!".repeat(30), ")".repeat(30));
        assert!(Filter::parse(&deep, &names).unwrap_err().contains("levels deep"));
    }

    /// The bytes of OpenLDAP's `ldapsearch` for the same filter, but for the form of lengths.
    #[test]
    fn bytes_of_a_comparison() {
        let bytes = encoded("(uid=b)", &[]);
        let mut reader = Reader::new(&bytes);
        let mut inner = Reader::new(reader.expect(0xA3).unwrap());
        assert_eq!(inner.expect(OCTETS).unwrap(), b"uid");
        assert_eq!(inner.expect(OCTETS).unwrap(), b"b");
        let bytes = encoded("(cn:dn:2.5.13.5:=x)", &[]);
        let mut reader = Reader::new(&bytes);
        let mut inner = Reader::new(reader.expect(0xA9).unwrap());
        assert_eq!(inner.expect(0x81).unwrap(), b"2.5.13.5");
        assert_eq!(inner.expect(0x82).unwrap(), b"cn");
        assert_eq!(inner.expect(0x83).unwrap(), b"x");
        assert_eq!(inner.expect(0x84).unwrap(), [0xFF]);
    }

    /// The shape of an encoded filter: its tags, without the values.
    fn shape(bytes: &[u8]) -> Vec<u8> {
        let mut tags = Vec::new();
        let mut reader = Reader::new(bytes);
        while let Ok((tag, contents)) = reader.next() {
            tags.push(tag);
            if tag & 0x20 != 0 {
                tags.extend(shape(contents));
            }
        }
        tags
    }

    proptest! {
        /// Whatever a client calls itself, the filter has the template's shape, and the value is the client's text.
        #[test]
        fn an_argument_stays_a_value(user in "[()*&|!=\\\\,\0a-z\u{e9}]{0,40}") {
            let template = "(&(objectClass=person)(|(uid={0})(cn=x*{0}*)))";
            let bytes = encoded(template, &[&user]);
            prop_assert_eq!(shape(&bytes), shape(&encoded(template, &["ann"])));
            let needle = user.as_bytes();
            prop_assert!(bytes.windows(needle.len().max(1)).any(|part| part == needle) || needle.is_empty());
        }

        /// Any text is a filter or is refused.
        #[test]
        fn any_text(text in "[(){}&|!*=:<>~\\\\a0d ]{0,40}") {
            if let Ok(filter) = Filter::parse(&text, &names) {
                filter.encode(&["a", "b", "c"], &mut Vec::new());
            }
        }
    }
}

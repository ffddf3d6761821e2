//! Distinguished names as text (RFC 4514): values of users within templates.
//!
//! A template such as `uid={0},ou=people` puts a text of a user after an equals sign, where it is escaped, so it stays
//! one value. A template that begins a name with the text, such as `{USER}`, takes it as a whole name.

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    /// The argument with this number.
    Argument(usize),
}

/// A name with places for arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

impl Template {
    pub(crate) fn new(pieces: Vec<Piece>) -> Template {
        Template(pieces)
    }

    /// The numbers of the arguments.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = usize> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Argument(index) => Some(*index),
            Piece::Text(_) => None,
        })
    }

    /// The name with these arguments. A missing one is empty.
    pub(crate) fn fill(&self, arguments: &[&str]) -> String {
        let mut out = String::new();
        let mut in_value = false;
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => {
                    in_value = is_in_value(in_value, text);
                    out.push_str(text);
                }
                Piece::Argument(index) => {
                    let argument = arguments.get(*index).copied().unwrap_or("");
                    match in_value {
                        true => escape(argument, &mut out),
                        false => out.push_str(argument),
                    }
                }
            }
        }
        out
    }
}

/// Returns true if the text after `text` belongs to a value, rather than to the name of an attribute.
fn is_in_value(before: bool, text: &str) -> bool {
    let mut in_value = before;
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'=' => in_value = true,
            b',' | b'+' | b';' => in_value = false,
            _ => {}
        }
    }
    in_value
}

/// Appends a text as an attribute value, or as a part of one.
pub(crate) fn escape(text: &str, out: &mut String) {
    let last = text.chars().count().saturating_sub(1);
    for (index, c) in text.chars().enumerate() {
        match c {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' | '=' => {
                out.push('\\');
                out.push(c);
            }
            ' ' | '#' if index == 0 || index == last => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_ascii_control() => out.push_str(&format!("\\{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
}

/// Returns true if `name` is the name `base`, or that of an entry `levels` below it at least and at most. Only values
/// are compared, and without regard to case, outer spaces and the way characters are escaped: servers write the names
/// of attributes in several ways (`uid`, `userid`, a number).
pub(crate) fn is_below(name: &str, base: &str, levels: std::ops::RangeInclusive<usize>) -> bool {
    // `<GUID=...>` of Active Directory names an entry whose name it does not tell.
    if base.trim_start().starts_with('<') {
        return true;
    }
    let (name, base) = (values(name), values(base));
    let Some(depth) = name.len().checked_sub(base.len()) else { return false };
    levels.contains(&depth) && name[depth..] == base[..]
}

/// The values of each part of a name, sorted within the part, in a form that can be compared.
fn values(name: &str) -> Vec<Vec<String>> {
    if name.trim().is_empty() {
        return Vec::new();
    }
    split(name, b",;")
        .into_iter()
        .map(|part| {
            let mut values: Vec<String> = split(part, b"+").into_iter().map(value).collect();
            values.sort_unstable();
            values
        })
        .collect()
}

/// Splits a text at the characters `at` that are not escaped.
fn split<'t>(text: &'t str, at: &[u8]) -> Vec<&'t str> {
    let (mut parts, mut from, mut escaped) = (Vec::new(), 0, false);
    for (index, byte) in text.bytes().enumerate() {
        if !escaped && at.contains(&byte) {
            parts.push(&text[from..index]);
            from = index + 1;
        }
        escaped = byte == b'\\' && !escaped;
    }
    parts.push(&text[from..]);
    parts
}

/// The value of `attribute=value`, without escapes, in lower case, with single spaces.
fn value(part: &str) -> String {
    let text = part.split_once('=').map_or(part, |(_, value)| value).as_bytes();
    let (mut bytes, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let escaped = text[at] == b'\\';
        let pair = text.get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) if escaped => {
                bytes.push(byte);
                at += 3;
            }
            _ => {
                // The character behind a backslash stands for itself.
                at += usize::from(escaped);
                bytes.extend(text.get(at));
                at += 1;
            }
        }
    }
    let text = String::from_utf8_lossy(&bytes).to_lowercase();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn template() -> Template {
        Template::new(vec![
            Piece::Text("uid=".into()),
            Piece::Argument(0),
            Piece::Text(",ou=people".into()),
        ])
    }

    #[test]
    fn values_are_escaped_and_names_are_not() {
        for (user, name) in [
            ("ann", "uid=ann,ou=people"),
            ("a,ou=admins", r"uid=a\,ou\=admins,ou=people"),
            ("a+cn=root", r"uid=a\+cn\=root,ou=people"),
            (" a ", r"uid=\ a\ ,ou=people"),
            ("#a", r"uid=\#a,ou=people"),
            ("a\0b", r"uid=a\00b,ou=people"),
            (r"a\,b", r"uid=a\\\,b,ou=people"),
            ("\u{e9}", "uid=\u{e9},ou=people"),
        ] {
            assert_eq!(template().fill(&[user]), name);
        }
        let whole = Template::new(vec![Piece::Argument(0), Piece::Text(",dc=org".into())]);
        assert_eq!(whole.fill(&["cn=ann,ou=x"]), "cn=ann,ou=x,dc=org");
        let second = Template::new(vec![Piece::Text("cn=a,".into()), Piece::Argument(0)]);
        assert_eq!(second.fill(&["dc=x"]), "cn=a,dc=x");
    }

    #[test]
    fn entries_below_a_base() {
        let base = "OU=Groups, dc=example,DC=org";
        for (name, below) in [
            ("cn=a,ou=groups,dc=example,dc=org", true),
            ("CN=a\\2Cb+SN=x,ou=Groups,DC=Example,dc=ORG", true),
            ("ou=groups,dc=example,dc=org", true),
            ("cn=a,organizationalUnitName=groups,dc=example,dc=org", true),
            ("cn=a,ou=people,dc=example,dc=org", false),
            ("dc=example,dc=org", false),
            ("cn=a\\,ou=groups,dc=example,dc=org", false),
            ("", false),
        ] {
            assert_eq!(is_below(name, base, 0..=usize::MAX), below, "{name}");
        }
        assert!(is_below("cn=a,dc=x", "", 0..=usize::MAX) && is_below("cn=a", "<GUID=1>", 0..=0));
        assert!(!is_below("cn=a,dc=x", "dc=x", 0..=0) && is_below("cn=a,dc=x", "dc=x", 1..=1));
        assert!(is_below(r"cn=\c3\a9 b,dc=x", "cn=\u{e9}  B,dc=x", 0..=0));
    }

    /// Splits a name at the commas that are not escaped.
    fn parts(name: &str) -> usize {
        let (mut count, mut escaped) = (1, false);
        for c in name.chars() {
            count += usize::from(c == ',' && !escaped);
            escaped = c == '\\' && !escaped;
        }
        count
    }

    fn unescape(text: &str) -> String {
        let mut bytes = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let mut utf8 = [0; 4];
            if c != '\\' {
                bytes.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes());
                continue;
            }
            let first = chars.next().unwrap();
            match first.to_digit(16) {
                Some(high) => {
                    let low = chars.next().unwrap().to_digit(16).unwrap();
                    bytes.push((high * 16 + low) as u8);
                }
                None => bytes.extend_from_slice(first.encode_utf8(&mut utf8).as_bytes()),
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    proptest! {
        /// Whatever a client calls itself, the name has the template's parts, and the value is the client's text.
        #[test]
        fn a_user_stays_one_value(user in any::<String>()) {
            let name = template().fill(&[&user]);
            prop_assert_eq!(parts(&name), 2);
            let value = name.strip_prefix("uid=").unwrap().strip_suffix(",ou=people").unwrap();
            prop_assert_eq!(unescape(value), user);
        }
    }
}

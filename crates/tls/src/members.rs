//! Which certificates are those of members of the same cluster: their subjects have the same organization (O),
//! organizational units (OU) and domain components (DC) as the server's own certificate.

use std::collections::BTreeSet;

/// The values of O, OU and DC in a subject.
pub(crate) type Attributes = BTreeSet<(String, String)>;

/// Reads a subject in the syntax of RFC 2253. Text that is no distinguished name has no attributes.
pub(crate) fn attributes(subject: &str) -> Attributes {
    let mut all = Attributes::new();
    for component in components(subject) {
        let Some((kind, value)) = component.split_once('=') else { return Attributes::new() };
        let kind = kind.trim().to_ascii_uppercase();
        if ["O", "OU", "DC"].contains(&kind.as_str()) {
            all.insert((kind, unescaped(value)));
        }
    }
    all
}

/// Splits at separators without a backslash before them.
fn components(subject: &str) -> Vec<&str> {
    let (mut all, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in subject.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' | '+' | ';' => {
                all.push(&subject[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    all.push(&subject[start..]);
    all
}

fn unescaped(value: &str) -> String {
    let bytes = value.trim_start().as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    let digit = |at: usize| {
        let byte = bytes.get(at).copied()?;
        char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
    };
    while let Some(byte) = bytes.get(at) {
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'\\', Some(high), Some(low)) => {
                out.push(high << 4 | low);
                at += 3;
            }
            (b'\\', ..) => {
                out.extend(bytes.get(at + 1));
                at += 2;
            }
            (byte, ..) => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_compared_by_their_organization() {
        let own = attributes("CN=a,OU=Kernel,OU=Databases,O=Nagi\\, Inc.,DC=example");
        assert_eq!(own, attributes("DC=example,O=Nagi\\2C Inc.,OU=Databases+OU=Kernel,CN=b"));
        assert_ne!(own, attributes("CN=a,OU=Kernel,O=Nagi\\, Inc.,DC=example"));
        assert_ne!(own, attributes("CN=a,OU=kernel,OU=Databases,O=Nagi\\, Inc.,DC=example"));
        for none in ["", "CN=only", "no name", "O=x,broken", "\\"] {
            assert!(attributes(none).is_empty(), "{none}");
        }
        assert_eq!(attributes("O=\\").len(), 1);
    }
}

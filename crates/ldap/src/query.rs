//! Queries in the form of LDAP URLs (RFC 4516) without their host: `base?attributes?scope?filter`.

use crate::dn::{self, Template};
use crate::filter::{self, Filter};
use crate::placeholder::{self, Names};

/// How much of the tree below the base a search covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Base = 0,
    One = 1,
    Sub = 2,
}

/// A query with places for arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Query {
    base: Template,
    /// Empty if the names of the entries are wanted, and no attributes.
    attributes: Vec<String>,
    scope: Scope,
    filter: Filter,
}

/// A query with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Search {
    pub(crate) base: String,
    pub(crate) attributes: Vec<String>,
    pub(crate) scope: Scope,
    /// In BER.
    pub(crate) filter: Vec<u8>,
    /// The base depends on an argument, so the entry may be missing because there is no such user.
    pub(crate) is_of_user: bool,
}

impl Query {
    /// Reads a query. Without a scope it is the base's, without a filter it finds every entry, as the RFC has it.
    ///
    /// # Errors
    /// A text for the user.
    pub(crate) fn parse(text: &str, names: Names<'_>) -> Result<Query, String> {
        let mut parts = text.split('?');
        let mut part = || parts.next().unwrap_or("").trim();
        let (base, attributes, scope, filter) = (part(), part(), part(), part());
        if parts.any(|rest| !rest.is_empty()) {
            return Err(format!("'{text}' has extensions, which are not supported"));
        }
        let base = Template::new(placeholder::split(&decode(base)?, names)?);
        let attributes = attributes.split(',').map(str::trim).filter(|name| !name.is_empty());
        let attributes = attributes.map(filter::attribute).collect::<Result<Vec<_>, _>>()?;
        let scope = match scope {
            "" | "base" => Scope::Base,
            "one" => Scope::One,
            "sub" => Scope::Sub,
            other => return Err(format!("'{other}' is no scope: base, one or sub")),
        };
        let filter = match decode(filter)?.as_str() {
            "" => Filter::parse("(objectClass=*)", names)?,
            text => Filter::parse(text, names)?,
        };
        Ok(Query { base, attributes, scope, filter })
    }

    /// True if it depends on an argument: otherwise it finds the same for everyone.
    pub(crate) fn has_arguments(&self) -> bool {
        self.base.arguments().next().is_some() || self.filter.has_arguments()
    }

    /// The search with these arguments.
    pub(crate) fn fill(&self, arguments: &[&str]) -> Search {
        let mut filter = Vec::new();
        self.filter.encode(arguments, &mut filter);
        Search {
            base: self.base.fill(arguments),
            attributes: self.attributes.clone(),
            scope: self.scope,
            filter,
            is_of_user: self.base.arguments().next().is_some(),
        }
    }
}

impl Search {
    /// Returns true if an entry may be an answer to this search. A server that follows aliases, or merges directories,
    /// may answer with entries of elsewhere.
    pub(crate) fn covers(&self, entry: &str) -> bool {
        let levels = match self.scope {
            Scope::Base => 0..=0,
            Scope::One => 1..=1,
            Scope::Sub => 0..=usize::MAX,
        };
        dn::is_below(entry, &self.base, levels)
    }

    /// Returns true if an attribute of an answer is one that was asked for: `memberOf;range=0-1499`, too. A server may
    /// know an attribute by a number and answer with its name.
    pub(crate) fn asks_for(&self, attribute: &str) -> bool {
        let name = attribute.split(';').next().unwrap_or("");
        self.attributes.iter().any(|asked| {
            asked.starts_with(|c: char| c.is_ascii_digit() || c == '*' || c == '+')
                || asked.split(';').next().unwrap_or("").eq_ignore_ascii_case(name)
        })
    }
}

/// Decodes `%2C`. A `%` that no digits follow stays: filters of Active Directory are copied without encoding.
fn decode(text: &str) -> Result<String, String> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            _ => out.push(*first),
        }
    }
    String::from_utf8(out).map_err(|_| format!("'{text}' is not UTF-8 when it is decoded"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(name: &str) -> Option<usize> {
        ["USER", "PROVIDED_USER"].iter().position(|known| *known == name)
    }

    fn parse(text: &str) -> Result<Query, String> {
        Query::parse(text, &names)
    }

    #[test]
    fn answers_to_a_search() {
        let search = parse("dc=x?memberOf?one").unwrap().fill(&[]);
        assert!(
            search.covers("cn=a, DC=X") && !search.covers("dc=x") && !search.covers("cn=a,dc=y")
        );
        assert!(search.asks_for("memberof") && search.asks_for("memberOf;range=0-1499"));
        assert!(!search.asks_for("description") && !search.asks_for("member"));
        assert!(parse("dc=x?1.2.840?sub").unwrap().fill(&[]).asks_for("memberOf"));
    }

    #[test]
    fn queries_without_arguments_are_told_apart() {
        for (text, has) in [
            ("ou=groups,dc=x??sub?(objectClass=groupOfNames)", false),
            ("ou=groups,dc=x??sub?(&(a=b)(!(member=*))(c=d*e))", false),
            ("ou=groups,dc=x??sub?(&(a=b)(|(member={USER})))", true),
            ("ou=groups,dc=x??sub?(!(a=x{PROVIDED_USER}*))", true),
            ("ou=groups,dc=x??sub?(member:1.2:={USER})", true),
            ("{USER}?memberOf", true),
        ] {
            assert_eq!(parse(text).unwrap().has_arguments(), has, "{text}");
        }
    }

    #[test]
    fn queries_of_the_documentation() {
        let groups =
            "DC=example,DC=com??sub?(&(objectClass=group)(member:1.2.840.113556.1.4.1941:={USER}))";
        let search = parse(groups).unwrap().fill(&["cn=ann,dc=x", "ann"]);
        assert_eq!((search.base.as_str(), search.scope), ("DC=example,DC=com", Scope::Sub));
        assert!(search.attributes.is_empty() && !search.is_of_user);
        let member = parse("{USER}?memberOf?base").unwrap().fill(&["cn=ann,dc=x", "ann"]);
        assert_eq!((member.base.as_str(), member.scope), ("cn=ann,dc=x", Scope::Base));
        assert!(member.attributes == ["memberOf"] && member.is_of_user);
        let value = parse("cn={PROVIDED_USER},dc=x?memberOf").unwrap();
        assert_eq!(value.fill(&["", "a,b"]).base, r"cn=a\,b,dc=x");
        assert_eq!(parse("ou=a%2Cb%20c").unwrap().fill(&[]).base, "ou=a,b c");
        for bad in ["a??all", "a?b c", "a??sub?(", "{X}", "a??sub?(a=b)?ext", "%ff"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}

//! `userToDNMapping`: from the name by which a user logs in to a distinguished name of the directory.
//!
//! ```text
//!   [{match: "(.+)@EXAMPLE.ORG", substitution: "uid={0},ou=people,dc=example,dc=org"},
//!    {match: "(.+)", ldapQuery: "dc=example,dc=org??sub?(uid={0})"}]
//! ```
//! The first rule whose expression matches the whole name decides. Without rules a user's name is the distinguished
//! name.

use nagi_bson::{Doc, Value, json};
use nagi_lang::regex::Pattern;

use crate::dn::Template;
use crate::placeholder;
use crate::query::{Query, Search};

/// The number of rules.
const RULES_MAX: usize = 100;
/// The length of a user's name, in bytes. It limits the work of the expressions.
pub(crate) const NAME_BYTES_MAX: usize = 1024;

/// All rules, in their order.
#[derive(Debug, Default)]
pub(crate) struct Mapping(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    pattern: Pattern,
    target: Target,
}

#[derive(Debug)]
enum Target {
    Name(Template),
    Query(Query),
}

/// What a user's name is mapped to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mapped {
    Name(String),
    /// The directory knows the name: that of the only entry which the search finds.
    Search(Search),
}

impl Mapping {
    /// Reads the rules: an array in JSON. An empty text or array has no rules.
    ///
    /// # Errors
    /// A text for the user.
    pub(crate) fn parse(text: &str) -> Result<Mapping, String> {
        if text.trim().is_empty() {
            return Ok(Mapping::default());
        }
        let parsed = json::parse_value(text).map_err(|why| format!("it is not JSON: {why}"))?;
        let Value::Array(list) = parsed.value() else {
            return Err("it is not an array of documents".to_owned());
        };
        let mut rules = Vec::new();
        for value in list.iter() {
            let Value::Doc(doc) = value else {
                return Err("it is not an array of documents".to_owned());
            };
            if rules.len() == RULES_MAX {
                return Err(format!("it has more than {RULES_MAX} documents"));
            }
            rules.push(Rule::parse(doc)?);
        }
        Ok(Mapping(rules))
    }

    /// Maps the name of a user.
    ///
    /// # Errors
    /// A text for the log, if no rule matches.
    pub(crate) fn apply(&self, user: &str) -> Result<Mapped, String> {
        if user.len() > NAME_BYTES_MAX {
            return Err(format!("the name of the user is longer than {NAME_BYTES_MAX} bytes"));
        }
        if self.0.is_empty() {
            return Ok(Mapped::Name(user.to_owned()));
        }
        for rule in &self.0 {
            let mut matches = rule.pattern.matches(user);
            if !matches.advance().map_err(|error| error.message().to_owned())? {
                continue;
            }
            let groups: Vec<&str> =
                (1..=matches.groups()).map(|at| matches.group(at).unwrap_or("")).collect();
            return Ok(match &rule.target {
                Target::Name(template) => Mapped::Name(template.fill(&groups)),
                Target::Query(query) => Mapped::Search(query.fill(&groups)),
            });
        }
        Err("no document of userToDNMapping matches the name of the user".to_owned())
    }
}

impl Rule {
    fn parse(doc: Doc<'_>) -> Result<Rule, String> {
        let (mut pattern, mut name, mut query) = (None, None, None);
        for element in doc {
            let place = match element.name() {
                "match" => &mut pattern,
                "substitution" => &mut name,
                "ldapQuery" => &mut query,
                other => return Err(format!("the field '{other}' is unknown")),
            };
            let Some(text) = element.value().as_str() else {
                return Err(format!("the field '{}' is not a string", element.name()));
            };
            *place = Some(text);
        }
        let pattern = pattern.ok_or("a document has no field 'match'")?;
        let whole = format!(r"\A(?:{pattern})\z");
        let compiled = Pattern::new(&whole, "")
            .map_err(|error| format!("the expression '{pattern}': {}", error.message()))?;
        let group_count = compiled.matches("").groups();
        let names = |name: &str| name.parse().ok().filter(|n| *n < group_count);
        let target = match (name, query) {
            (Some(name), None) => Target::Name(Template::new(placeholder::split(name, &names)?)),
            (None, Some(query)) => Target::Query(Query::parse(query, &names)?),
            _ => {
                return Err(
                    "a document must have one of the fields 'substitution' and 'ldapQuery'".into(),
                );
            }
        };
        Ok(Rule { pattern: compiled, target })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULES: &str = r#"[
        {match: "(.+)@(ENG)\\.EXAMPLE", substitution: "cn={0},ou={1},dc=example"},
        {"match": "(.+)@DBA", "ldapQuery": "ou=dba,dc=example??one?(user={0})"},
        {match: "root|boss", substitution: "cn=root"}]"#;

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = Mapping::parse(RULES).unwrap();
        let name = |text: &str| Mapped::Name(text.to_owned());
        assert_eq!(rules.apply("ann@ENG.EXAMPLE"), Ok(name("cn=ann,ou=ENG,dc=example")));
        assert_eq!(rules.apply("a,b@ENG.EXAMPLE"), Ok(name(r"cn=a\,b,ou=ENG,dc=example")));
        assert!(matches!(rules.apply("ann@DBA"), Ok(Mapped::Search(_))));
        assert_eq!(rules.apply("boss"), Ok(name("cn=root")));
        // The whole name must match, with alternatives, too.
        for other in ["xroot", "bossy", "ann@ENG.EXAMPLE\n", "", "ann@ENG.EXAMPLE.ORG"] {
            assert!(rules.apply(other).is_err(), "{other}");
        }
        assert_eq!(Mapping::parse("[]").unwrap().apply("cn=a"), Ok(name("cn=a")));
        assert_eq!(Mapping::parse("").unwrap().apply("cn=a"), Ok(name("cn=a")));
        assert!(rules.apply(&"a".repeat(NAME_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn rules_are_checked() {
        for bad in [
            "{}",
            "[1]",
            "x",
            "[{}]",
            r#"[{match: "a"}]"#,
            r#"[{match: "(", substitution: "a"}]"#,
            r#"[{match: "a", substitution: "{0}"}]"#,
            r#"[{match: "(a)", substitution: "{1}"}]"#,
            r#"[{match: "(a)", substitution: "a", ldapQuery: "a"}]"#,
            r#"[{match: "(a)", ldapQuery: "a??x"}]"#,
            r#"[{match: "(a)", other: "a"}]"#,
            r#"[{match: 1, substitution: "a"}]"#,
        ] {
            assert!(Mapping::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_name_is_mapped_or_refused(user in any::<String>()) {
            let rules = Mapping::parse(RULES).unwrap();
            if let Ok(Mapped::Name(name)) = rules.apply(&user) {
                prop_assert!(name == "cn=root" || name.ends_with(",ou=ENG,dc=example"));
            }
        }
    }
}

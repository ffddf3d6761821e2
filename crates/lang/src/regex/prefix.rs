//! The literal prefix of all texts that a pattern matches, for index bounds and to skip most calls of PCRE2.

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Prefix {
    None,
    /// Every matching text begins with this.
    Begins(Box<str>),
    /// A text matches exactly if it begins with this.
    Exact(Box<str>),
}

impl Prefix {
    /// Reads the literal text after `^` or `\A`, including `\Q...\E`, up to the first special character.
    pub(super) fn find(pattern: &str, options: &str) -> Prefix {
        if options.contains(['i', 'x']) || pattern.contains('|') {
            return Prefix::None;
        }
        let rest = match (pattern.strip_prefix("\\A"), pattern.strip_prefix('^')) {
            (Some(rest), _) => rest,
            (_, Some(rest)) if !options.contains('m') => rest,
            _ => return Prefix::None,
        };
        let mut text = String::new();
        let mut quoted = false;
        let mut exact = true;
        let mut chars = rest.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some('Q') if !quoted => quoted = true,
                    Some('E') if quoted => quoted = false,
                    Some(escaped)
                        if !quoted && !escaped.is_ascii_alphanumeric() && escaped != '\0' =>
                    {
                        text.push(escaped);
                    }
                    Some(other) if quoted => {
                        text.push('\\');
                        text.push(other);
                    }
                    _ => {
                        exact = false;
                        break;
                    }
                },
                c if quoted => text.push(c),
                '*' | '?' | '{' => {
                    text.pop();
                    exact = false;
                    break;
                }
                '^' | '$' | '.' | '[' | '(' | ')' | '+' => {
                    exact = false;
                    break;
                }
                c => text.push(c),
            }
        }
        match (text.is_empty(), exact) {
            (true, _) => Prefix::None,
            (false, true) => Prefix::Exact(text.into()),
            (false, false) => Prefix::Begins(text.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::regex::Pattern;

    fn prefix(pattern: &str, options: &str) -> Option<(String, bool)> {
        let pattern = Pattern::new(pattern, options).expect("compiles");
        pattern.prefix().map(|(text, exact)| (text.to_owned(), exact))
    }

    #[test]
    fn finds_literal_prefixes() {
        assert_eq!(prefix("^abc", ""), Some(("abc".into(), true)));
        assert_eq!(prefix("^abc.*", ""), Some(("abc".into(), false)));
        assert_eq!(prefix("^abc*", ""), Some(("ab".into(), false)));
        assert_eq!(prefix("^ab+", ""), Some(("ab".into(), false)));
        assert_eq!(prefix("^a\\.b$", ""), Some(("a.b".into(), false)));
        assert_eq!(prefix("\\Aab", "m"), Some(("ab".into(), true)));
        assert_eq!(prefix("^\\Qa.b\\Ec", ""), Some(("a.bc".into(), true)));
        assert_eq!(prefix("^ab", "i"), None);
        assert_eq!(prefix("^ab", "m"), None);
        assert_eq!(prefix("^ab|c", ""), None);
        assert_eq!(prefix("^a\\d", ""), Some(("a".into(), false)));
    }
}

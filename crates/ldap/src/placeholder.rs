//! Places for arguments in a template: `{0}`, `{USER}`.

use crate::dn::Piece;

/// The names of the arguments of a template, and the number of each.
pub(crate) type Names<'n> = &'n dyn Fn(&str) -> Option<usize>;

/// Splits a text into its fixed parts and its places for arguments.
///
/// # Errors
/// A text for the user, if a brace has no partner or a name is unknown.
pub(crate) fn split(text: &str, names: Names<'_>) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        let Some((name, after)) = from.strip_prefix('{').and_then(|inner| inner.split_once('}'))
        else {
            return Err(format!("a brace has no partner in '{text}'"));
        };
        let index = names(name).ok_or_else(|| format!("'{{{name}}}' is unknown in '{text}'"))?;
        if !before.is_empty() {
            pieces.push(Piece::Text(before.to_owned()));
        }
        pieces.push(Piece::Argument(index));
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_arguments() {
        let names = |name: &str| name.parse().ok().filter(|n| *n < 2);
        let text = |text: &str| Piece::Text(text.to_owned());
        assert_eq!(split("", &names), Ok(vec![]));
        assert_eq!(split("a{0}b", &names), Ok(vec![text("a"), Piece::Argument(0), text("b")]));
        assert_eq!(split("{0}{1}", &names), Ok(vec![Piece::Argument(0), Piece::Argument(1)]));
        for bad in ["{2}", "{", "a}", "{0", "{}", "{USER}", "{{0}}"] {
            assert!(split(bad, &names).is_err(), "{bad}");
        }
    }
}

//! Removes case and diacritics, character by character.
//!
//! Folding maps one character to at most one character.

use icu_casemap::{CaseMapper, CaseMapperBorrowed};
use icu_normalizer::properties::{CanonicalDecompositionBorrowed, Decomposed};
use icu_properties::{CodePointSetData, props::Diacritic};

/// The rules for folding case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Folding {
    /// True if all letters are folded; false for ASCII only, as in indexes before version 3.
    pub(super) unicode: bool,
    /// True if the lower case of `I` is the dotless i.
    pub(super) turkish: bool,
}

/// A character in the case that all its forms share.
pub(super) fn fold_char(c: char, folding: Folding) -> char {
    const MAPPER: CaseMapperBorrowed<'static> = CaseMapper::new();
    match c {
        'I' if folding.turkish && folding.unicode => '\u{131}',
        _ if c.is_ascii() => c.to_ascii_lowercase(),
        _ if !folding.unicode => c,
        _ if folding.turkish => MAPPER.simple_fold_turkic(c),
        _ => MAPPER.simple_fold(c),
    }
}

/// A character without its diacritics; none if it is itself a diacritic.
pub(super) fn strip_char(c: char) -> Option<char> {
    const DECOMPOSITION: CanonicalDecompositionBorrowed<'static> =
        CanonicalDecompositionBorrowed::new();
    if c.is_ascii() {
        return Some(c);
    }
    let is_mark = |c: char| CodePointSetData::new::<Diacritic>().contains(c);
    let mut base = c;
    loop {
        match DECOMPOSITION.decompose(base) {
            Decomposed::Expansion(first, mark) if is_mark(mark) => base = first,
            Decomposed::Singleton(other) if other != base => base = other,
            _ => break,
        }
    }
    (!is_mark(base)).then_some(base)
}

/// Appends a string without its diacritics.
pub(super) fn strip_into(text: &str, out: &mut String) {
    match text.is_ascii() {
        true => out.push_str(text),
        false => out.extend(text.chars().filter_map(strip_char)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip(text: &str) -> String {
        let mut out = String::new();
        strip_into(text, &mut out);
        out
    }

    #[test]
    fn diacritics_go() {
        assert_eq!(strip("caf\u{e9} na\u{ef}ve \u{1ed9} e\u{301}"), "cafe naive o e");
        assert_eq!(strip("\u{ac00}"), "\u{ac00}");
    }

    #[test]
    fn case_is_folded_by_language() {
        let plain = Folding { unicode: true, turkish: false };
        let turkish = Folding { unicode: true, turkish: true };
        let old = Folding { unicode: false, turkish: false };
        assert_eq!(fold_char('\u{c9}', plain), '\u{e9}');
        assert_eq!(fold_char('\u{3c2}', plain), '\u{3c3}');
        assert_eq!(fold_char('I', plain), 'i');
        assert_eq!(fold_char('I', turkish), '\u{131}');
        assert_eq!(fold_char('\u{130}', turkish), 'i');
        assert_eq!((fold_char('\u{c9}', old), fold_char('E', old)), ('\u{c9}', 'e'));
    }
}

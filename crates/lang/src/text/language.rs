//! The languages of text search: names, stemmers, stop words.

use std::{collections::HashSet, sync::OnceLock};

use waken_snowball::Algorithm;

use super::fold::{Folding, fold_char};

/// The names of a language and its stemmer.
struct Row {
    name: &'static str,
    /// The ISO 639-1 code, which is an alternative name and the key of its stop words.
    code: &'static str,
    stemmer: Option<Algorithm>,
}

impl Row {
    fn stop_words(&self) -> &'static [&'static str] {
        match self.code {
            "en" => super::stop_words::ENGLISH,
            "nb" => stop_words::lookup("no").unwrap_or_default(),
            code => stop_words::lookup(code).unwrap_or_default(),
        }
    }
}

const fn row(name: &'static str, code: &'static str, stemmer: Algorithm) -> Row {
    Row { name, code, stemmer: Some(stemmer) }
}

/// All languages, sorted by name.
static LANGUAGES: &[Row] = &[
    row("danish", "da", Algorithm::Danish),
    row("dutch", "nl", Algorithm::DutchPorter),
    row("english", "en", Algorithm::English),
    row("finnish", "fi", Algorithm::Finnish),
    row("french", "fr", Algorithm::French),
    row("german", "de", Algorithm::German),
    row("hungarian", "hu", Algorithm::Hungarian),
    row("italian", "it", Algorithm::Italian),
    Row { name: "none", code: "none", stemmer: None },
    row("norwegian", "nb", Algorithm::Norwegian),
    row("portuguese", "pt", Algorithm::Portuguese),
    row("romanian", "ro", Algorithm::Romanian),
    row("russian", "ru", Algorithm::Russian),
    row("spanish", "es", Algorithm::Spanish),
    row("swedish", "sv", Algorithm::Swedish),
    row("turkish", "tr", Algorithm::Turkish),
];

const ENGLISH: u8 = 2;
const NONE: u8 = 8;
const TURKISH: u8 = 15;
/// The length in bytes of the longest word that is stemmed; real words are shorter.
const STEMMED_BYTES_MAX: usize = 1000;

/// A language of text search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Language(u8);

impl Language {
    /// The default of an index.
    pub const ENGLISH: Language = Language(ENGLISH);
    /// No language: words are not changed.
    pub const NONE: Language = Language(NONE);

    /// The language with a name or a code, in any case.
    pub fn named(name: &str) -> Option<Language> {
        let is =
            |row: &Row| row.name.eq_ignore_ascii_case(name) || row.code.eq_ignore_ascii_case(name);
        Some(Language(LANGUAGES.iter().position(is)? as u8))
    }

    /// The language with a name, by the rules of an index version. The first version knows names only in lower case,
    /// and treats other names as [`Language::NONE`].
    pub fn of_version(name: &str, version: u8) -> Option<Language> {
        match version {
            1 => {
                let known = LANGUAGES.iter().position(|row| row.name == name || row.code == name);
                Some(known.map_or(Language::NONE, |at| Language(at as u8)))
            }
            _ => Language::named(name),
        }
    }

    /// The full name.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    fn row(self) -> &'static Row {
        &LANGUAGES[usize::from(self.0)]
    }

    /// Returns true if an apostrophe is part of a word.
    pub(super) fn keeps_apostrophes(self) -> bool {
        self == Language::ENGLISH
    }

    /// Returns true if `I` is the capital of the dotless i.
    pub(super) fn is_turkish(self) -> bool {
        self.0 == TURKISH
    }

    /// Returns true if a folded word is a stop word and so not a term.
    pub(super) fn is_stop_word(self, word: &str) -> bool {
        static WORDS: [OnceLock<HashSet<String, foldhash::fast::RandomState>>; 16] =
            [const { OnceLock::new() }; 16];
        if self == Language::NONE {
            return false;
        }
        let words = WORDS[usize::from(self.0)].get_or_init(|| {
            let listed = self.row().stop_words();
            let folding = Folding { unicode: true, turkish: self.is_turkish() };
            listed
                .iter()
                .map(|word| word.chars().map(|c| fold_char(c, folding)).collect())
                .collect()
        });
        words.contains(word)
    }

    /// The stem of a word.
    pub(super) fn stem(self, word: &str) -> std::borrow::Cow<'_, str> {
        match self.row().stemmer {
            Some(stemmer) if word.len() <= STEMMED_BYTES_MAX => waken_snowball::stem(stemmer, word),
            _ => word.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_constants_fit() {
        assert!(LANGUAGES.is_sorted_by_key(|row| row.name));
        assert_eq!(Language::ENGLISH.name(), "english");
        assert_eq!(Language::NONE.name(), "none");
        assert_eq!(Language(TURKISH).name(), "turkish");
    }

    #[test]
    fn every_language_has_stop_words() {
        for (at, row) in LANGUAGES.iter().enumerate().filter(|(_, row)| row.name != "none") {
            let words = row.stop_words();
            assert!(words.len() > 30, "{}: {}", row.name, words.len());
            assert!(Language(at as u8).is_stop_word(&words[0].to_lowercase()), "{}", row.name);
        }
    }

    #[test]
    fn english_drops_the_words_that_mongodb_drops() {
        let listed = super::super::stop_words::ENGLISH;
        assert!(listed.is_sorted());
        assert_eq!(listed.len(), 174);
        let is_stop_word = |word| Language::ENGLISH.is_stop_word(word);
        for word in ["a", "i", "the", "ought", "can't", "yourselves"] {
            assert!(is_stop_word(word), "{word}");
        }
        for word in ["d", "s", "t", "m", "o", "y", "ma", "will", "just", "now", "don"] {
            assert!(!is_stop_word(word), "{word}");
        }
    }

    #[test]
    fn names_and_codes_are_taken_in_any_case() {
        assert_eq!(Language::named("English"), Some(Language::ENGLISH));
        assert_eq!(Language::named("EN"), Some(Language::ENGLISH));
        assert_eq!(Language::named("klingon"), None);
        assert_eq!(Language::of_version("klingon", 1), Some(Language::NONE));
        assert_eq!(Language::of_version("English", 1), Some(Language::NONE));
    }
}

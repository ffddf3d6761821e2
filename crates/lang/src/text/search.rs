//! The parser of the text of `$search`.
//!
//! ```text
//!   fox "brown dog" -cat -"black bird"
//! ```
//!
//! Words are alternatives: one of them must occur. Phrases in quotes must all occur, and their words count as words
//! too. Words and phrases after a minus must not occur. A minus inside of a word separates it into two words, like a
//! space.

use std::collections::BTreeSet;

use nagi_error::Result;

use super::{
    Language, Sensitivity,
    tokens::{Terms, is_delimiter},
};
use crate::memory;

/// A parsed search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    pub language: Language,
    pub sensitivity: Sensitivity,
    /// The version of the index for which it was parsed.
    pub version: u8,
    /// The terms to look up, folded like those of the index.
    pub terms: BTreeSet<String>,
    /// The same words with the sensitivity of the search.
    pub(super) wanted: BTreeSet<String>,
    /// With the sensitivity of the search.
    pub negated_terms: BTreeSet<String>,
    pub phrases: Vec<String>,
    pub negated_phrases: Vec<String>,
}

impl Search {
    /// Parses `text`.
    ///
    /// # Errors
    /// 146 if there is not enough memory for the words.
    pub fn parse(
        text: &str,
        language: Language,
        sensitivity: Sensitivity,
        version: u8,
    ) -> Result<Search> {
        let mut search = Search {
            language,
            sensitivity,
            version,
            terms: BTreeSet::new(),
            wanted: BTreeSet::new(),
            negated_terms: BTreeSet::new(),
            phrases: Vec::new(),
            negated_phrases: Vec::new(),
        };
        let mut words = Words {
            folded: Terms::new(language, version, Sensitivity::default()),
            told: Terms::new(language, version, sensitivity),
        };
        search.read(text, &mut words)?;
        Ok(search)
    }

    /// Returns true if the search has no terms and finds nothing.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Parses the text. A minus after white space (or at the beginning) negates the words and phrases up to the next
    /// white space: `-red-brown` negates both words, `- red` none. The text after an unclosed quote is parsed as
    /// plain words.
    fn read(&mut self, text: &str, words: &mut Words) -> Result<()> {
        let mut rest = text;
        // `fresh` is true if the character is the first one or follows white space.
        let (mut negated, mut fresh) = (false, true);
        while let Some(c) = rest.chars().next() {
            if c.is_whitespace() {
                (fresh, rest) = (true, &rest[c.len_utf8()..]);
                continue;
            }
            negated = if c == '-' { negated || fresh } else { negated && !fresh };
            fresh = false;
            if c == '"' {
                let inside = &rest[1..];
                let Some(end) = inside.find('"') else {
                    if !negated {
                        let all = super::tokens::words(inside, self.language);
                        for word in all {
                            self.word(word, false, words)?;
                        }
                    }
                    return Ok(());
                };
                self.phrase(&inside[..end], negated, words)?;
                rest = &inside[end + 1..];
            } else if is_delimiter(c, self.language) {
                rest = &rest[c.len_utf8()..];
            } else {
                let is_end = |c: char| c == '"' || is_delimiter(c, self.language);
                let (word, behind) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
                self.word(word, negated, words)?;
                rest = behind;
            }
        }
        Ok(())
    }

    fn word(&mut self, word: &str, negated: bool, words: &mut Words) -> Result<()> {
        if negated {
            self.negated_terms.extend(words.told.term(word).map(str::to_owned));
            return memory::check();
        }
        self.terms.extend(words.folded.term(word).map(str::to_owned));
        self.wanted.extend(words.told.term(word).map(str::to_owned));
        memory::check()
    }

    fn phrase(&mut self, phrase: &str, negated: bool, words: &mut Words) -> Result<()> {
        if phrase.is_empty() {
            return Ok(());
        }
        if negated {
            self.negated_phrases.push(phrase.to_owned());
            return memory::check();
        }
        for word in super::tokens::words(phrase, self.language) {
            self.word(word, false, words)?;
        }
        self.phrases.push(phrase.to_owned());
        Ok(())
    }
}

struct Words {
    folded: Terms,
    told: Terms,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let search = Search::parse(text, Language::ENGLISH, Sensitivity::default(), 3).unwrap();
        format!(
            "{:?} -{:?} {:?} -{:?}",
            search.terms, search.negated_terms, search.phrases, search.negated_phrases
        )
    }

    #[test]
    fn searches_are_taken_apart() {
        assert_eq!(shown("the Foxes -Dogs"), r#"{"fox"} -{"dog"} [] -[]"#);
        assert_eq!(
            shown(r#"a "brown dog" -"black bird""#),
            r#"{"brown", "dog"} -{} ["brown dog"] -["black bird"]"#
        );
        assert_eq!(shown("pre-market - dog"), r#"{"dog", "market", "pre"} -{} [] -[]"#);
        assert_eq!(shown(r#""unclosed cat"#), r#"{"cat", "unclos"} -{} [] -[]"#);
        assert_eq!(shown(r#"dog"cat"-bird"#), r#"{"bird", "cat", "dog"} -{} ["cat"] -[]"#);
        assert_eq!(shown(r#"dog -"cat"-bird cow"#), r#"{"cow", "dog"} -{"bird"} [] -["cat"]"#);
        assert_eq!(
            shown(r#"dog -red.brown-fox cow"#),
            r#"{"cow", "dog"} -{"brown", "fox", "red"} [] -[]"#
        );
        assert_eq!(shown("dog --fox"), r#"{"dog"} -{"fox"} [] -[]"#);
        assert_eq!(shown(r#"dog - "fox""#), r#"{"dog", "fox"} -{} ["fox"] -[]"#);
        assert_eq!(shown(r#"dog -"open fox"#), r#"{"dog"} -{} [] -[]"#);
        assert_eq!(shown(r#"dog "open -fox"#), r#"{"dog", "fox", "open"} -{} [] -[]"#);
        assert_eq!(shown(""), "{} -{} [] -[]");
    }
}

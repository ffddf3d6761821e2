//! Splits strings into words, and converts words to terms.

use icu_properties::{
    CodePointSetData,
    props::{Dash, Hyphen, PatternSyntax, QuotationMark, TerminalPunctuation, WhiteSpace},
};

use super::{
    Language,
    fold::{Folding, fold_char, strip_into},
};

/// The differences that a search does not ignore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sensitivity {
    /// True if upper and lower case differ.
    pub case: bool,
    /// True if letters with and without diacritics differ.
    pub diacritic: bool,
}

/// Returns true if a character separates words.
pub(super) fn is_delimiter(c: char, language: Language) -> bool {
    if c.is_ascii() {
        return match c {
            '\'' => !language.keeps_apostrophes(),
            '_' => false,
            '\t'..='\r' => true,
            _ => !c.is_ascii_alphanumeric() && !c.is_ascii_control(),
        };
    }
    CodePointSetData::new::<PatternSyntax>().contains(c)
        || CodePointSetData::new::<WhiteSpace>().contains(c)
        || CodePointSetData::new::<TerminalPunctuation>().contains(c)
        || CodePointSetData::new::<QuotationMark>().contains(c)
        || CodePointSetData::new::<Dash>().contains(c)
        || CodePointSetData::new::<Hyphen>().contains(c)
}

/// The words of a string.
pub(super) fn words(text: &str, language: Language) -> impl Iterator<Item = &str> {
    text.split(move |c| is_delimiter(c, language)).filter(|word| !word.is_empty())
}

/// Converts words to terms; it reuses its buffers.
#[derive(Debug)]
pub(super) struct Terms {
    language: Language,
    folding: Folding,
    sensitivity: Sensitivity,
    folded: String,
    term: String,
}

impl Terms {
    /// Creates a converter for an index of `version` (1 to 3) with a sensitivity. Indexes before version 3 always
    /// distinguish diacritics.
    pub(super) fn new(language: Language, version: u8, sensitivity: Sensitivity) -> Terms {
        let unicode = version >= 3;
        Terms {
            language,
            folding: Folding { unicode, turkish: language.is_turkish() },
            sensitivity: Sensitivity {
                diacritic: sensitivity.diacritic || !unicode,
                ..sensitivity
            },
            folded: String::new(),
            term: String::new(),
        }
    }

    /// The term of a word; none for a stop word.
    pub(super) fn term(&mut self, word: &str) -> Option<&str> {
        self.folded.clear();
        self.folded.extend(word.chars().map(|c| fold_char(c, self.folding)));
        if self.language.is_stop_word(&self.folded) {
            return None;
        }
        let word = if self.sensitivity.case { word } else { &self.folded };
        // Stemmers need the diacritics, so they are removed after stemming.
        let stem = self.language.stem(word);
        self.term.clear();
        match self.sensitivity.diacritic {
            true => self.term.push_str(&stem),
            false => strip_into(&stem, &mut self.term),
        }
        (!self.term.is_empty()).then_some(&self.term)
    }

    /// Appends a whole string in the form in which phrases are compared: folded, but neither split nor stemmed.
    pub(super) fn flatten(&self, text: &str, out: &mut String) {
        // The fast path for ASCII, which most texts are: a loop over letters would cost more than reading the
        // document.
        let is_turkish = self.folding.turkish && self.folding.unicode;
        if text.is_ascii() && (self.sensitivity.case || !is_turkish) {
            let start = out.len();
            out.push_str(text);
            if !self.sensitivity.case {
                out[start..].make_ascii_lowercase();
            }
            return;
        }
        let plain: String = match self.sensitivity.case {
            true => text.to_owned(),
            false => text.chars().map(|c| fold_char(c, self.folding)).collect(),
        };
        match self.sensitivity.diacritic {
            true => out.push_str(&plain),
            false => strip_into(&plain, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn terms(text: &str, language: &str) -> Vec<String> {
        let language = Language::named(language).expect("a language");
        let mut terms = Terms::new(language, 3, Sensitivity::default());
        words(text, language).filter_map(|word| terms.term(word).map(str::to_owned)).collect()
    }

    #[test]
    fn words_become_terms() {
        assert_eq!(
            terms("The quick brown Foxes are running!", "english"),
            ["quick", "brown", "fox", "run"]
        );
        assert_eq!(terms("John's caf\u{e9}-noir_x", "english"), ["john", "cafe", "noir_x"]);
        assert_eq!(terms("Die H\u{e4}user der Stadt", "german"), ["haus", "stadt"]);
        assert_eq!(terms("l'amour toujours", "french"), ["amour", "toujour"]);
        assert_eq!(terms("The Foxes", "none"), ["the", "foxes"]);
        assert_eq!(terms("IRMAK \u{130}zmir", "turkish"), ["\u{131}rmak", "izmir"]);
    }

    proptest! {
        /// The result for a text is the same with or without non-ASCII letters beside it.
        #[test]
        fn plain_letters_are_flattened_like_others(text in "[ -~]{0,40}", which in 0..12_usize) {
            let language = Language::named(["english", "turkish", "none"][which % 3]).expect("one");
            let sensitivity = Sensitivity { case: which % 2 == 1, diacritic: which >= 6 };
            let terms = Terms::new(language, 3, sensitivity);
            let (mut alone, mut beside) = (String::new(), String::new());
            terms.flatten(&text, &mut alone);
            terms.flatten(&format!("{text}\u{4e2d}"), &mut beside);
            prop_assert_eq!(format!("{alone}\u{4e2d}"), beside);
        }

        /// Stemmers neither fail nor loop on any text.
        #[test]
        fn any_text_is_taken(text in "\\PC{0,60}|[a-z'\u{e0}-\u{ff}\u{131}\u{430}-\u{44f}]{0,40}") {
            for name in ["da", "nl", "en", "fi", "fr", "de", "hu", "it", "none", "nb", "pt", "ro",
                "ru", "es", "sv", "tr"]
            {
                terms(&text, name);
            }
        }
    }
}

//! Comparison and keys of long texts with bounded memory and time.
//!
//! The library has two costs that matter for long texts. It keeps eight bytes for each element of both texts until
//! they differ in a base letter. And it collects all consecutive combining marks and removes them one at a time from
//! the front, so that a million marks take minutes.
//!
//! Texts longer than [`LONG_BYTES`] are therefore handled as follows:
//! - At most [`MARKS_MAX`] marks follow each other. After that many, a COMBINING GRAPHEME JOINER is inserted. It has
//!   no weight and ends the canonical reordering, as in Unicode's stream-safe text format.
//! - Texts are compared by the first bytes of their keys and, if these are equal, by the whole keys.
//! - A whole key is computed only if the request has the memory for it.

use std::{borrow::Cow, cmp::Ordering};

use icu_collator::{CollationKeySink, CollatorBorrowed};
use icu_normalizer::properties::CanonicalCombiningClassMapBorrowed;
use nagi_budget::meter;

/// Shorter texts are passed to the library as they are; it needs a few hundred kilobytes at most.
pub(super) const LONG_BYTES: usize = 16 << 10;
/// The maximal number of consecutive marks; letters of real languages have less than ten.
const MARKS_MAX: usize = 1024;
/// The combining grapheme joiner.
const JOINER: char = '\u{34f}';
/// The memory for computing a key, per byte of the text: the key itself and its levels before they are joined, in
/// buffers that double.
const KEY_COST: usize = 8;
/// The additional memory for a character that stands for a whole word.
const WORD_COST: usize = 100;
/// The length of the prefixes of two keys that are compared first.
const FIRST_BYTES: usize = 4 << 10;

static CLASSES: CanonicalCombiningClassMapBorrowed<'static> =
    CanonicalCombiningClassMapBorrowed::new();

/// Compares two texts of which at least one is long.
#[cold]
pub(super) fn compare(collator: &CollatorBorrowed<'static>, a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    let (Some(left), Some(right)) = (divided(a), divided(b)) else { return a.cmp(b) };
    let common = left.bytes().zip(right.bytes()).take_while(|(x, y)| x == y).count();
    if left.len().max(right.len()) - common <= LONG_BYTES {
        return collator.compare(&left, &right);
    }
    if !meter::must_fit(cost(&left) + cost(&right)) {
        return a.cmp(b);
    }
    let (x, y) = (first(collator, &left), first(collator, &right));
    if x != y || x.len() < FIRST_BYTES {
        return x.cmp(&y);
    }
    let (mut x, mut y) = (Vec::new(), Vec::new());
    let Ok(()) = collator.write_sort_key_to(&left, &mut x);
    let Ok(()) = collator.write_sort_key_to(&right, &mut y);
    x.cmp(&y)
}

/// [`super::Collation::key`] for a long text.
#[cold]
pub(super) fn key(collator: &CollatorBorrowed<'static>, text: &str, out: &mut String) {
    let Some(text) = divided(text) else { return };
    // The key also exists as a text at the same time.
    if !meter::must_fit(cost(&text) + KEY_COST / 2 * text.len()) {
        return;
    }
    let mut bytes = Vec::new();
    let Ok(()) = collator.write_sort_key_to(&text, &mut bytes);
    out.reserve(bytes.len() + bytes.iter().filter(|byte| !byte.is_ascii()).count());
    out.extend(bytes.into_iter().map(char::from));
}

/// The maximal memory in bytes for computing the key of a text.
fn cost(text: &str) -> usize {
    // Arabic ligatures (one of them stands for eighteen letters) and squared words.
    let is_word = |c: &char| matches!(c, '\u{fb50}'..='\u{fdff}' | '\u{3200}'..='\u{33ff}');
    let words = if text.is_ascii() { 0 } else { text.chars().filter(is_word).count() };
    KEY_COST * text.len() + WORD_COST * words
}

/// The text with joiners inserted where necessary; none if there is not enough memory.
fn divided(text: &str) -> Option<Cow<'_, str>> {
    let Some(mut at) = division(text) else { return Some(Cow::Borrowed(text)) };
    let room = text.len() + text.len() / 512;
    if !meter::must_fit(room) {
        return None;
    }
    let mut made = String::with_capacity(room);
    let mut rest = text;
    loop {
        let (before, behind) = rest.split_at(at);
        made.push_str(before);
        made.push(JOINER);
        rest = behind;
        match division(rest) {
            Some(next) => at = next,
            None => break,
        }
    }
    made.push_str(rest);
    Some(Cow::Owned(made))
}

/// The position of the first joiner: after [`MARKS_MAX`] marks, if another mark follows.
fn division(text: &str) -> Option<usize> {
    if text.is_ascii() {
        return None;
    }
    let mut marks = 0;
    for (at, c) in text.char_indices() {
        // There are no marks below U+0300.
        if c < '\u{300}' || !is_mark(c) {
            marks = 0;
        } else if marks == MARKS_MAX {
            return Some(at);
        } else {
            marks += 1;
        }
    }
    None
}

/// Returns true if the library collects the character together with the marks before it. This includes some
/// characters without a combining class that decompose into marks.
fn is_mark(c: char) -> bool {
    CLASSES.get_u8(c) != 0
        || matches!(
            c,
            '\u{340}' | '\u{341}' | '\u{343}' | '\u{344}' | '\u{f73}' | '\u{f75}' | '\u{f81}'
        )
}

/// The first bytes of a key.
fn first(collator: &CollatorBorrowed<'static>, text: &str) -> Vec<u8> {
    let mut sink = First(Vec::with_capacity(FIRST_BYTES));
    // Stopping early is not an error.
    let _ = collator.write_sort_key_to(text, &mut sink);
    sink.0
}

/// A sink for the first bytes of a key.
struct First(Vec<u8>);

impl CollationKeySink for First {
    type Error = Enough;
    type State = ();
    type Output = ();

    fn write(&mut self, (): &mut (), bytes: &[u8]) -> Result<(), Enough> {
        let room = FIRST_BYTES - self.0.len();
        self.0.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        if self.0.len() < FIRST_BYTES { Ok(()) } else { Err(Enough) }
    }

    fn finish(&mut self, (): ()) -> Result<(), Enough> {
        Ok(())
    }
}

struct Enough;

#[cfg(test)]
mod tests {
    use nagi_bson::DocBuf;
    use nagi_budget::{Budget, Metering};

    use super::super::Collation;
    use super::*;

    fn collation(strength: i32) -> &'static Collation {
        let spec = DocBuf::build(|out| {
            out.put("locale", "fr");
            out.put("strength", strength);
        });
        Collation::parse(spec.as_doc()).unwrap().unwrap()
    }

    fn key_of(collation: &Collation, text: &str) -> String {
        let mut key = String::new();
        collation.key(text, &mut key);
        key
    }

    #[test]
    fn long_texts_have_the_order_that_the_library_gives_them() {
        const WORDS: [&str; 9] = [
            "a",
            "B",
            "\u{e9}t\u{e9}",
            "e\u{301}\u{316}",
            "\u{fdfa}",
            "10",
            " ",
            "\u{6c34}",
            "c\u{f73}h",
        ];
        let mut state = 1_u64;
        let mut draw = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for round in 0..20 {
            let text: String = (0..8000).map(|_| WORDS[draw(WORDS.len())]).collect();
            let change = text.ceil_char_boundary(draw(text.len()));
            let other = match round % 3 {
                0 => text.to_uppercase(),
                1 => text[..change].to_owned() + WORDS[draw(WORDS.len())] + &text[change..],
                _ => (0..8000).map(|_| WORDS[draw(WORDS.len())]).collect(),
            };
            let collation = collation(1 + round % 5);
            assert!(text.len() > LONG_BYTES && division(&text).is_none());
            let expected = collation.collator.compare(&text, &other);
            assert_eq!(collation.compare(&text, &other), expected, "round {round}");
            assert_eq!(collation.compare(&other, &text), expected.reverse(), "round {round}");
            assert_eq!(key_of(collation, &text).cmp(&key_of(collation, &other)), expected);
        }
    }

    #[test]
    fn runs_of_marks_take_no_minutes_and_order_as_their_keys() {
        let texts = [
            "e".to_owned() + &"\u{301}".repeat(60_000),
            "e".to_owned() + &"\u{300}".repeat(60_000),
            "e".to_owned() + &"\u{300}".repeat(30_000) + &"\u{316}".repeat(30_000),
            "\u{f73}".repeat(20_000),
            "E".to_owned(),
            "e".to_owned(),
        ];
        let collation = collation(3);
        let keys: Vec<String> = texts.iter().map(|text| key_of(collation, text)).collect();
        for (a, x) in texts.iter().zip(&keys) {
            for (b, y) in texts.iter().zip(&keys) {
                assert_eq!(collation.compare(a, b), x.cmp(y));
            }
        }
    }

    #[test]
    fn runs_of_marks_are_divided_and_nothing_else() {
        let short = "e".to_owned() + &"\u{301}".repeat(MARKS_MAX) + "x";
        assert!(matches!(divided(&short), Some(Cow::Borrowed(_))));
        let long = "e".to_owned() + &"\u{301}".repeat(2 * MARKS_MAX + 1);
        let made = divided(&long).unwrap();
        assert_eq!(made.matches(JOINER).count(), 2);
        assert_eq!(made.replace(JOINER, ""), long);
    }

    #[test]
    fn without_memory_the_request_ends() {
        let budget = Budget::new(16 << 20);
        let text = "\u{e9}".repeat(4_000_000);
        let other = "\u{e8}".repeat(4_000_000);
        let _request = Metering::begin(&budget);
        assert_eq!(collation(3).compare(&text, &text), Ordering::Equal);
        assert!(!meter::check_refused());
        assert_eq!(collation(3).compare(&text, &other), text.cmp(&other));
        assert!(meter::is_refusal_pending());
        assert_eq!(key_of(collation(3), &text), "");
        assert!(!meter::fits(0), "whatever it does next ends it");
    }
}

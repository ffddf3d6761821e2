//! Texts so long that comparing them takes memory that matters.
//!
//! The library keeps eight bytes for each element of both texts until they differ in a base letter, and all
//! combining marks that follow each other, from which it takes one at a time at the front: a million of them
//! take minutes. So beyond [`LONG_BYTES`]
//! - no more than [`MARKS_MAX`] marks follow each other: behind so many stands a COMBINING GRAPHEME JOINER,
//!   which has no weight and ends their canonical order, as in Unicode's stream-safe text,
//! - texts are compared by the first bytes of their keys and, if these are equal, by their keys,
//! - which are made if the request has memory for them.

use std::{borrow::Cow, cmp::Ordering};

use icu_collator::{CollationKeySink, CollatorBorrowed};
use icu_normalizer::properties::CanonicalCombiningClassMapBorrowed;
use nagi_budget::meter;

/// What is not longer is left to the library: a few hundred kilobytes at most.
pub(super) const LONG_BYTES: usize = 16 << 10;
/// Marks that may follow each other; a letter of any language has less than ten.
const MARKS_MAX: usize = 1024;
/// The combining grapheme joiner.
const JOINER: char = '\u{34f}';
/// What making a key takes for each byte of the text: the key, and its levels until they are put together, in
/// buffers that double.
const KEY_COST: usize = 8;
/// The same for a character that stands for a word, beyond that of its bytes.
const WORD_COST: usize = 100;
/// So much of two keys is compared first.
const FIRST_BYTES: usize = 4 << 10;

static CLASSES: CanonicalCombiningClassMapBorrowed<'static> =
    CanonicalCombiningClassMapBorrowed::new();

/// Order of two texts of which one is long.
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

/// As [`super::Collation::key`] for a long text.
#[cold]
pub(super) fn key(collator: &CollatorBorrowed<'static>, text: &str, out: &mut String) {
    let Some(text) = divided(text) else { return };
    // Beside the key there is the text that it is written as.
    if !meter::must_fit(cost(&text) + KEY_COST / 2 * text.len()) {
        return;
    }
    let mut bytes = Vec::new();
    let Ok(()) = collator.write_sort_key_to(&text, &mut bytes);
    out.reserve(bytes.len() + bytes.iter().filter(|byte| !byte.is_ascii()).count());
    out.extend(bytes.into_iter().map(char::from));
}

/// What making the key of a text takes at most, in bytes.
fn cost(text: &str) -> usize {
    // Arabic ligatures, one of them of eighteen letters, and squared words.
    let is_word = |c: &char| matches!(c, '\u{fb50}'..='\u{fdff}' | '\u{3200}'..='\u{33ff}');
    let words = if text.is_ascii() { 0 } else { text.chars().filter(is_word).count() };
    KEY_COST * text.len() + WORD_COST * words
}

/// The text with joiners, if it needs some; none if there is no memory for that.
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

/// Where the first joiner belongs: behind [`MARKS_MAX`] marks that another one follows.
fn division(text: &str) -> Option<usize> {
    if text.is_ascii() {
        return None;
    }
    let mut marks = 0;
    for (at, c) in text.char_indices() {
        // No mark is below these.
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

/// Whether the library collects the character with those before it. Some of no class fall
/// into marks.
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
    // It ends early, or not.
    let _ = collator.write_sort_key_to(text, &mut sink);
    sink.0
}

/// Takes the first bytes of a key.
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

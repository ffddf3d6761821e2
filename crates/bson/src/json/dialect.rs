//! What a text of JSON may hold: each difference between the notations is a field here.
//!
//! | | [`PLAIN`]: RFC 8259 | [`SHELL`]: Extended JSON v2 and the shell's notation |
//! |---|---|---|
//! | white space | blank, tab, CR, LF | what Unicode calls white space |
//! | field names | strings | strings, and words: letters, digits, `_`, `$`, `.` |
//! | strings | `"..."`; no control characters | `"..."` and `'...'`, of any characters |
//! | `\x`, another escape than JSON's | refused | `\0` is U+0000, else the character itself |
//! | half of a surrogate pair | refused | U+FFFD |
//! | comma behind the last item | refused | allowed |
//! | numbers | JSON's; refused if beyond a double | also `+1`, `.5`, `1.`, `-Infinity`; beyond a double: infinite |
//! | `{"$oid": "..."}` | a document | an ObjectId |
//! | `ObjectId("...")`, `/re/i`, `undefined`, `NaN` | refused | values |
//! | 200 levels | of objects and arrays, the document around the value included | of values, scalars included |
//!
//! Alike in both: an integer is an int32, an int64 if it is too large for that, and a double if it is larger still.
//! A field name has no zero byte. Names may come twice, and both fields are kept. No memory is charged and no
//! interrupt is polled: a caller that reads a client's text charges its length before.

/// A notation.
#[derive(Debug)]
pub(super) struct Dialect {
    /// Any white space of Unicode may stand between tokens.
    pub(super) has_unicode_spaces: bool,
    /// Words may be names, constants and calls; `/re/` is a regular expression.
    pub(super) has_words: bool,
    /// Strings may be in single quotes.
    pub(super) has_single_quotes: bool,
    /// Strings may hold control characters, any escapes, and halves of surrogate pairs.
    pub(super) has_loose_strings: bool,
    /// Numbers are what Rust reads.
    pub(super) has_loose_numbers: bool,
    /// A comma may stand behind the last item.
    pub(super) has_last_commas: bool,
    /// Objects that begin with a name of Extended JSON are values of its types.
    pub(super) has_tags: bool,
    /// What is counted against the limit of depth.
    pub(super) depth: Depth,
    pub(super) texts: Texts,
}

/// Which values count as a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// All.
    Values,
    /// Objects and arrays, and one for the document that the value is built in.
    Containers,
}

/// Texts of errors. They are shown to clients, so each notation keeps its own.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) zero_byte: &'static str,
    pub(super) more_text: &'static str,
    pub(super) open_object: &'static str,
    pub(super) open_array: &'static str,
}

/// JSON as RFC 8259 has it.
pub(super) static PLAIN: Dialect = Dialect {
    has_unicode_spaces: false,
    has_words: false,
    has_single_quotes: false,
    has_loose_strings: false,
    has_loose_numbers: false,
    has_last_commas: false,
    has_tags: false,
    depth: Depth::Containers,
    texts: Texts {
        zero_byte: "a field name holds a zero byte",
        more_text: "unexpected text behind the value",
        open_object: "expected ',' or '}'",
        open_array: "expected ',' or ']'",
    },
};

/// Extended JSON v2, canonical or relaxed, and what people type into the shell.
pub(super) static SHELL: Dialect = Dialect {
    has_unicode_spaces: true,
    has_words: true,
    has_single_quotes: true,
    has_loose_strings: true,
    has_loose_numbers: true,
    has_last_commas: true,
    has_tags: true,
    depth: Depth::Values,
    texts: Texts {
        zero_byte: "field name contains a zero byte",
        more_text: "unexpected text",
        open_object: "expected '}'",
        open_array: "expected ']'",
    },
};

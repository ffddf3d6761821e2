//! Blocks of a page in the format of man(7).

use super::layout::{Block, wrapped};

/// The length of lines in the file, without escapes.
const LINE: usize = 68;

/// Renders blocks.
pub(super) fn render(blocks: &[Block]) -> String {
    let mut out = String::new();
    let mut before = None;
    for block in blocks {
        let is_code = |block: Option<&Block>| matches!(block, Some(Block::Code(_)));
        if is_code(before) && !is_code(Some(block)) {
            out.push_str(".EE\n.RE\n");
        }
        match block {
            Block::Title(text) => {
                out.push_str(&format!(".SH {}\n", argument(&text.to_uppercase())))
            }
            // The first paragraph of a section needs no macro.
            Block::Text(text) => {
                if !matches!(before, None | Some(Block::Title(_))) {
                    out.push_str(".PP\n");
                }
                put_text(&mut out, text);
            }
            Block::Code(line) => {
                if !is_code(before) {
                    // Examples below a heading need no space above.
                    let space = if matches!(before, Some(Block::Title(_))) { "" } else { ".PP\n" };
                    out.push_str(&format!("{space}.RS 4\n.EX\n"));
                }
                out.push_str(&format!("{}\n", line_of(&escaped(line, true))));
            }
            Block::Row(name, text) | Block::Entry(name, text) => {
                out.push_str(&format!(".TP\n{}\n", line_of(&term(name))));
                put_text(&mut out, text);
            }
        }
        before = Some(block);
    }
    if matches!(before, Some(Block::Code(_))) {
        out.push_str(".EE\n.RE\n");
    }
    out
}

/// The argument of a macro, in quotation marks.
pub(super) fn argument(text: &str) -> String {
    format!("\"{}\"", escaped(text, false).replace('"', "\\(dq"))
}

fn put_text(out: &mut String, text: &str) {
    for line in wrapped(text, LINE) {
        let words: Vec<String> = line.split(' ').map(word).collect();
        out.push_str(&format!("{}\n", line_of(&words.join(" "))));
    }
}

/// A word of a text: in options, a hyphen is a minus, which can be searched and copied.
fn word(word: &str) -> String {
    let bare = word.trim_start_matches(['(', '\'', '"']);
    escaped(word, bare.starts_with('-'))
}

/// A name: flags are bold, placeholders italic.
fn term(name: &str) -> String {
    let words = name.split(' ').map(|word| {
        let italic = word.strip_prefix('<').and_then(|word| word.strip_suffix('>'));
        match italic {
            Some(value) => format!("\\fI{}\\fR", escaped(value, true)),
            None => format!("\\fB{}\\fR", escaped(word, true)),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Escapes the characters that have a meaning in roff or that are printed as typographical ones.
pub(super) fn escaped(text: &str, is_minus: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\e"),
            '-' if is_minus => out.push_str("\\-"),
            '\'' => out.push_str("\\(aq"),
            '`' => out.push_str("\\(ga"),
            '^' => out.push_str("\\(ha"),
            '~' => out.push_str("\\(ti"),
            _ => out.push(c),
        }
    }
    out
}

/// A line of text: it must not begin like a request.
fn line_of(text: &str) -> String {
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text.to_owned(),
    }
}

#[test]
fn what_roff_would_read_as_its_own_is_escaped() {
    assert_eq!(escaped("a\\b 'c' ~/x^`", false), "a\\eb \\(aqc\\(aq \\(ti/x\\(ha\\(ga");
    assert_eq!(argument("say \"x\""), "\"say \\(dqx\\(dq\"");
    let page = render(&[
        Block::title("Files"),
        Block::text(".profile of well-known --dbpath ('--x')"),
        Block::code(".x 'y' -z"),
        Block::code("second"),
        Block::entry("--dbpath <directory>", "'quoted' -1 to 5"),
    ]);
    let expected = ".SH \"FILES\"\n\\&.profile of well-known \\-\\-dbpath (\\(aq\\-\\-x\\(aq)\n.PP\n.RS 4\n.EX\n\
                    \\&.x \\(aqy\\(aq \\-z\nsecond\n.EE\n.RE\n.TP\n\\fB\\-\\-dbpath\\fR \\fIdirectory\\fR\n\
                    \\(aqquoted\\(aq \\-1 to 5\n";
    assert_eq!(page, expected);
}

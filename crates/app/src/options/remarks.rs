//! Remarks that begin with `//` in a configuration file.
//!
//! YAML's remarks begin with `#`. Articles about MongoDB explain its configuration with `//` behind the values, as in
//! JavaScript, and readers copy such files. For YAML such a remark is a part of the value, so mongod refuses the file
//! if the value is a number, a word or true or false, and takes a directory of that name otherwise. Decision 066.

/// The text without its `//` remarks, with the same lines, and the numbers of the lines that had one; `None` if there
/// is none. A remark begins at the start of a line or behind a space, outside quotes: the `//` of an address
/// (`http://host`) or of a path (`/data//db`) begins none.
pub(super) fn removed(text: &str) -> Option<(String, Vec<usize>)> {
    let (mut out, mut found) = (String::with_capacity(text.len()), Vec::new());
    let mut quote = None;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        match remark(line, &mut quote) {
            Some(at) => {
                found.push(index + 1);
                out.push_str(line[..at].trim_end());
                out.push_str(&line[line.trim_end_matches(['\r', '\n']).len()..]);
            }
            None => out.push_str(line),
        }
    }
    (!found.is_empty()).then_some((out, found))
}

/// Where the remark of a line begins. `quote` is the quotation mark that is open at the start of the line, and then at
/// its end.
fn remark(line: &str, quote: &mut Option<char>) -> Option<usize> {
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match *quote {
            Some('"') if before == '\\' => before = ' ',
            Some(open) => {
                *quote = quote.filter(|_| c != open);
                before = c;
            }
            // A mark within a word, such as an apostrophe, opens nothing.
            None if matches!(c, '"' | '\'')
                && matches!(before, ' ' | '\t' | '[' | '{' | ',' | ':') =>
            {
                (*quote, before) = (Some(c), c);
            }
            None if before.is_whitespace() && c == '#' => return None,
            None if before.is_whitespace() && line[at..].starts_with("//") => return Some(at),
            None => before = c,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_of_all_places() {
        let text = "// head\nstorage: // one\r\n  dbPath: data \t//two\n  engine: wiredTiger\n";
        let (without, lines) = removed(text).unwrap();
        assert_eq!(without, "\nstorage:\r\n  dbPath: data\n  engine: wiredTiger\n");
        assert_eq!(lines, [1, 2, 3]);
    }

    #[test]
    fn what_is_no_remark() {
        for text in [
            "a: http://host/\n",
            "a: /data//db\n",
            "a: \"x //y\"\n",
            "a: \"x \\\" //y\"\n",
            "a: 'x //y\n  z //z'\n",
            "a: b # c //d\n",
            "a: [ 'x //y' ]\n",
        ] {
            assert_eq!(removed(text), None, "{text}");
        }
        let (without, _) = removed("a: it's //x\nb: \"c\" //y\n").unwrap();
        assert_eq!(without, "a: it's\nb: \"c\"\n");
    }
}

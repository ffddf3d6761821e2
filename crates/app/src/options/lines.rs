//! Line numbers of keys in a configuration file, for messages.

use std::collections::{BTreeMap, BTreeSet};

use yaml_rust2::Event;
use yaml_rust2::parser::Parser;
use yaml_rust2::scanner::Marker;

use super::expansion::Expansion;

/// Maps and lists within each other. The library builds values by recursion, so it must not see more.
pub(super) const DEPTH_MAX: usize = 100;

/// Where the keys of a YAML text are.
#[derive(Default)]
pub(super) struct Lines {
    /// The lines of dotted keys, starting at 1. A key that occurs twice has its first line.
    pub(super) keys: BTreeMap<String, usize>,
    /// The first key that its map already has: dotted, with the line of the second one.
    pub(super) duplicate: Option<(String, usize)>,
    /// The line where a second document begins, behind `---`.
    pub(super) second_document: Option<usize>,
    /// The line where maps and lists are nested deeper than [`DEPTH_MAX`]. What is behind it was not read.
    pub(super) too_deep: Option<usize>,
    /// The memory of all values once aliases are replaced, in bytes.
    pub(super) expanded_bytes: u64,
}

/// The lines of all keys of a text; of those before an error if it is not YAML.
pub(super) fn of(text: &str) -> Lines {
    let mut finder = Finder::default();
    let mut parser = Parser::new_from_str(text);
    // The caller reports the error. Event by event, because the parser's own loop recurses.
    while let Ok((event, mark)) = parser.next_token() {
        if event == Event::StreamEnd {
            break;
        }
        finder.on_event(event, mark);
        if finder.depth > DEPTH_MAX {
            finder.lines.too_deep = Some(mark.line());
            break;
        }
    }
    Lines { expanded_bytes: finder.expansion.bytes, ..finder.lines }
}

/// A map or list that is being read.
struct Open {
    /// Its dotted key, followed by a dot unless it is empty; `None` for lists and everything inside them.
    prefix: Option<String>,
    /// The key whose value comes next.
    key: Option<String>,
    /// The keys that were read.
    keys: BTreeSet<String>,
    is_map: bool,
}

#[derive(Default)]
struct Finder {
    open: Vec<Open>,
    lines: Lines,
    expansion: Expansion,
    document_count: usize,
    depth: usize,
}

impl Finder {
    fn enter(&mut self, is_map: bool) {
        let prefix = match self.open.last() {
            None => Some(String::new()),
            Some(Open { prefix: Some(prefix), key: Some(key), .. }) => {
                Some(format!("{prefix}{key}."))
            }
            Some(_) => None,
        };
        let prefix = prefix.filter(|_| is_map);
        self.open.push(Open { prefix, key: None, keys: BTreeSet::new(), is_map });
    }

    /// Processes a key or a value.
    fn scalar(&mut self, text: Option<&str>, line: usize) {
        let Some(open) = self.open.last_mut().filter(|open| open.is_map) else { return };
        if open.key.take().is_some() {
            return;
        }
        let key = text.unwrap_or_default();
        let dotted = open.prefix.as_ref().map(|prefix| format!("{prefix}{key}"));
        if !open.keys.insert(key.to_owned()) && self.lines.duplicate.is_none() {
            let name = dotted.clone().unwrap_or_else(|| key.to_owned());
            self.lines.duplicate = Some((name, line));
        }
        if let Some(dotted) = dotted {
            self.lines.keys.entry(dotted).or_insert(line);
        }
        open.key = Some(key.to_owned());
    }
}

impl Finder {
    fn on_event(&mut self, event: Event, mark: Marker) {
        self.expansion.on_event(&event);
        match event {
            Event::MappingStart(..) | Event::SequenceStart(..) => self.depth += 1,
            Event::MappingEnd | Event::SequenceEnd => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        match event {
            Event::DocumentStart => {
                self.document_count += 1;
                if self.document_count == 2 {
                    self.lines.second_document = Some(mark.line());
                }
            }
            // Keys of later documents have no lines: such a file is refused.
            _ if self.document_count > 1 => {}
            Event::MappingStart(..) => self.enter(true),
            Event::SequenceStart(..) => self.enter(false),
            Event::MappingEnd | Event::SequenceEnd => {
                self.open.pop();
                self.scalar(None, mark.line());
            }
            Event::Scalar(text, ..) => self.scalar(Some(&text), mark.line()),
            Event::Alias(_) => self.scalar(None, mark.line()),
            _ => {}
        }
    }
}

#[test]
fn lines_of_keys() {
    let text = "# one\na:\n  b: 1\n  l: [b, {b: 2}]\n  c: {d: 3,\n    e: 4}\nx.y: 5\n";
    for (key, line) in
        [("a", 2), ("a.b", 3), ("a.l", 4), ("a.c", 5), ("a.c.d", 5), ("a.c.e", 6), ("x.y", 7)]
    {
        assert_eq!(of(text).keys.get(key), Some(&line), "{key}");
    }
    let lines = of(text);
    assert!(!lines.keys.contains_key("b") && !lines.keys.contains_key("a.l.b"));
    assert_eq!(lines.duplicate, None);
}

#[test]
fn depth_is_counted_without_recursion() {
    // The scanner itself refuses brackets that are deeper than 255.
    assert!(of(&"[".repeat(200_000)).keys.is_empty());
    for text in ["- ".repeat(200_000), "? ".repeat(200_000)] {
        assert_eq!(of(&text).too_deep, Some(1), "{}", &text[..2]);
    }
    let lists = |count| format!("a: {}{}\n", "[".repeat(count), "]".repeat(count));
    assert_eq!(of(&lists(DEPTH_MAX)).too_deep, Some(1));
    assert_eq!(of(&lists(DEPTH_MAX - 1)).too_deep, None);
    assert_eq!(of(&lists(DEPTH_MAX - 1).repeat(3)).too_deep, None);
}

#[test]
fn duplicate_keys() {
    for (text, key, line) in [
        ("net:\n  port: 1\n# x\nnet:\n  ipv6: true\n", "net", 4),
        ("net:\n  port: 1\n  ipv6: true\n  port: 2\n", "net.port", 4),
        ("a: {b: 1, b: 2}\na: [\n", "a.b", 1),
    ] {
        assert_eq!(of(text).duplicate, Some((key.to_owned(), line)), "{text}");
    }
}

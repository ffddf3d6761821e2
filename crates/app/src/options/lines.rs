//! Line numbers of keys in a configuration file, for messages.

use yaml_rust2::Event;
use yaml_rust2::parser::{MarkedEventReceiver, Parser};
use yaml_rust2::scanner::Marker;

/// The line of a dotted key in a YAML text, starting at 1; `None` if the key does not exist.
pub(super) fn of(text: &str, key: &str) -> Option<usize> {
    let mut finder = Finder { wanted: key, open: Vec::new(), found: None };
    Parser::new_from_str(text).load(&mut finder, false).ok()?;
    finder.found
}

/// A map or list that is being read.
struct Open {
    /// Its dotted key, followed by a dot unless it is empty; `None` for lists and everything inside them.
    prefix: Option<String>,
    /// The key whose value comes next.
    key: Option<String>,
    is_map: bool,
}

struct Finder<'a> {
    wanted: &'a str,
    open: Vec<Open>,
    found: Option<usize>,
}

impl Finder<'_> {
    fn enter(&mut self, is_map: bool) {
        let prefix = match self.open.last() {
            None => Some(String::new()),
            Some(Open { prefix: Some(prefix), key: Some(key), .. }) => {
                Some(format!("{prefix}{key}."))
            }
            Some(_) => None,
        };
        self.open.push(Open { prefix: prefix.filter(|_| is_map), key: None, is_map });
    }

    /// Processes a key or a value.
    fn scalar(&mut self, text: Option<&str>, line: usize) {
        let Some(open) = self.open.last_mut().filter(|open| open.is_map) else { return };
        if open.key.take().is_some() {
            return;
        }
        let key = text.unwrap_or_default();
        if self.found.is_none()
            && open.prefix.as_deref().and_then(|p| self.wanted.strip_prefix(p)) == Some(key)
        {
            self.found = Some(line);
        }
        open.key = Some(key.to_owned());
    }
}

impl MarkedEventReceiver for Finder<'_> {
    fn on_event(&mut self, event: Event, mark: Marker) {
        match event {
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
        assert_eq!(of(text, key), Some(line), "{key}");
    }
    assert_eq!((of(text, "b"), of(text, "a.l.b")), (None, None));
}

//! Text for a terminal: blocks of a page, wrapped to its width.

use std::io::IsTerminal;

/// A part of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Block {
    /// A heading.
    Title(String),
    /// A paragraph.
    Text(String),
    /// A line that is not wrapped: a command or a line of a file.
    Code(String),
    /// A name and a short text, in two columns.
    Row(String, String),
    /// A name and a longer text below it.
    Entry(String, String),
}

impl Block {
    pub(crate) fn title(text: impl Into<String>) -> Block {
        Block::Title(text.into())
    }

    pub(crate) fn text(text: impl Into<String>) -> Block {
        Block::Text(text.into())
    }

    pub(crate) fn code(text: impl Into<String>) -> Block {
        Block::Code(text.into())
    }

    pub(crate) fn row(name: impl Into<String>, text: impl Into<String>) -> Block {
        Block::Row(name.into(), text.into())
    }

    pub(crate) fn entry(name: impl Into<String>, text: impl Into<String>) -> Block {
        Block::Entry(name.into(), text.into())
    }
}

/// How a text is printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    /// The greatest length of a line.
    pub(crate) width: usize,
    /// Headings and names are bold.
    pub(crate) bold: bool,
}

/// Widths below the first are not supported: names of options are longer. Lines above the second are hard to read.
pub(crate) const WIDTHS: std::ops::RangeInclusive<usize> = 72..=120;
/// The width if nothing tells it.
const WIDTH: usize = 80;

impl Style {
    /// The style of standard output: bold on a terminal only, unless `NO_COLOR` is set; the width of `COLUMNS`, or
    /// else of the terminal.
    pub(crate) fn of_output() -> Style {
        let out = std::io::stdout();
        let variable = |name| std::env::var(name).unwrap_or_default();
        let columns = variable("COLUMNS").parse().ok().filter(|columns| *columns > 0);
        let window = || rustix::termios::tcgetwinsize(&out).ok().map(|size| size.ws_col.into());
        let width: usize = columns.or_else(window).filter(|width| *width > 0).unwrap_or(WIDTH);
        Style {
            width: width.clamp(*WIDTHS.start(), *WIDTHS.end()),
            bold: out.is_terminal()
                && variable("NO_COLOR").is_empty()
                && !["", "dumb"].contains(&variable("TERM").as_str()),
        }
    }
}

/// The longest name in the first of two columns.
const COLUMN_MAX: usize = 30;

/// Renders a page. Every line ends with a newline.
pub(crate) fn render(blocks: &[Block], style: Style) -> String {
    let mut page = Page { out: String::new(), style };
    for (index, block) in blocks.iter().enumerate() {
        let before = index.checked_sub(1).map(|index| &blocks[index]);
        page.separate(before, block);
        match block {
            Block::Title(text) => {
                let line = page.strong(text);
                page.out.push_str(&format!("{line}\n"));
            }
            Block::Text(text) => page.wrap(text, 2),
            Block::Code(line) => page.out.push_str(&format!("    {line}\n")),
            Block::Row(name, text) => page.row(name, text, column(blocks, index)),
            Block::Entry(name, text) => {
                let name = page.strong(name);
                page.out.push_str(&format!("  {name}\n"));
                page.wrap(text, 6);
            }
        }
    }
    page.out
}

/// The width of the first column of the rows around `index`.
fn column(blocks: &[Block], index: usize) -> usize {
    let is_row = |block: &&Block| matches!(block, Block::Row(..));
    let names = blocks[index..].iter().take_while(is_row);
    let names = names.chain(blocks[..index].iter().rev().take_while(is_row));
    let lengths = names.map(|block| match block {
        Block::Row(name, _) => name.len(),
        _ => 0,
    });
    lengths.filter(|length| *length <= COLUMN_MAX).max().unwrap_or(COLUMN_MAX)
}

struct Page {
    out: String,
    style: Style,
}

impl Page {
    /// Adds an empty line between blocks that are not of one list.
    fn separate(&mut self, before: Option<&Block>, block: &Block) {
        let is_list = |block: &Block| !matches!(block, Block::Title(_) | Block::Text(_));
        let needed = match (before, block) {
            (None | Some(Block::Title(_)), _) => false,
            (Some(Block::Text(_)), _) | (_, Block::Title(_) | Block::Text(_)) => true,
            (Some(before), block) => {
                is_list(before) && std::mem::discriminant(before) != std::mem::discriminant(block)
            }
        };
        if needed {
            self.out.push('\n');
        }
    }

    fn strong(&self, text: &str) -> String {
        match self.style.bold {
            true => format!("\u{1b}[1m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }

    fn row(&mut self, name: &str, text: &str, column: usize) {
        let indent = column + 4;
        let shown = self.strong(name);
        if name.len() > column {
            self.out.push_str(&format!("  {shown}\n"));
            return self.wrap(text, indent);
        }
        let start = self.out.len();
        self.wrap(text, indent);
        let padding = column - name.len();
        self.out.replace_range(start..start + indent, &format!("  {shown}{:padding$}  ", ""));
    }

    fn wrap(&mut self, text: &str, indent: usize) {
        for line in wrapped(text, self.style.width - indent) {
            self.out.push_str(&format!("{:indent$}{line}\n", ""));
        }
    }
}

/// The lines of a paragraph. A word that is longer than the width has a line of its own. There is one line at least.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[test]
fn blocks_are_laid_out() {
    let style = Style { width: 20, bold: false };
    let blocks = [
        Block::title("One"),
        Block::row("a", "b c"),
        Block::row("abc", "d e f g h i j k l"),
        Block::text("some words that are wrapped"),
        Block::entry("--x <n>", "text"),
        Block::code("nagi help"),
    ];
    let text = render(&blocks, style);
    let expected = "One\n  a    b c\n  abc  d e f g h i j\n       k l\n\n  some words that\n  are wrapped\n\n  \
                    --x <n>\n      text\n\n    nagi help\n";
    assert_eq!(text, expected);
    let bold = render(&blocks, Style { width: 20, bold: true });
    assert!(bold.starts_with("\u{1b}[1mOne\u{1b}[0m\n  \u{1b}[1ma\u{1b}[0m    b c\n"), "{bold:?}");
}

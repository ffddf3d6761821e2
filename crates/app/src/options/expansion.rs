//! How large the values of a YAML text become when its aliases (`*name`) are replaced by what they name.
//!
//! The parser of YAML copies the named value for each alias. Ten lines of lists with nine aliases each are billions of
//! values, so the size is computed from the parser's events, before anything is built.

use std::collections::BTreeMap;

use yaml_rust2::Event;

/// Memory of one value beside its text, about.
const VALUE_BYTES: u64 = 64;

/// The size of the values that were read so far. The cost is that of the text, whatever its aliases expand to.
#[derive(Default)]
pub(super) struct Expansion {
    /// The anchor and the size of each map and list that is being read.
    open: Vec<(usize, u64)>,
    /// The sizes of the values that have a name.
    named: BTreeMap<usize, u64>,
    /// Bytes of all values and of the copies for aliases.
    pub(super) bytes: u64,
}

impl Expansion {
    pub(super) fn on_event(&mut self, event: &Event) {
        match event {
            Event::MappingStart(anchor, _) | Event::SequenceStart(anchor, _) => {
                self.open.push((*anchor, VALUE_BYTES));
                self.bytes = self.bytes.saturating_add(VALUE_BYTES);
            }
            Event::MappingEnd | Event::SequenceEnd => {
                let (anchor, bytes) = self.open.pop().unwrap_or_default();
                self.add(anchor, bytes);
            }
            Event::Scalar(text, _, anchor, _) => {
                let bytes = VALUE_BYTES + text.len() as u64;
                self.bytes = self.bytes.saturating_add(bytes);
                self.add(*anchor, bytes);
            }
            Event::Alias(anchor) => {
                let bytes = self.named.get(anchor).copied().unwrap_or(VALUE_BYTES);
                self.bytes = self.bytes.saturating_add(bytes);
                self.add(0, bytes);
            }
            _ => {}
        }
    }

    /// Adds a complete value to the map or list that contains it. The parser keeps a copy of a value with a name.
    fn add(&mut self, anchor: usize, bytes: u64) {
        if let Some((_, above)) = self.open.last_mut() {
            *above = above.saturating_add(bytes);
        }
        if anchor > 0 {
            self.named.insert(anchor, bytes);
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }
}

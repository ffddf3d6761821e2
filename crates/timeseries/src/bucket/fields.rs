//! Named values in the order of their insertion.

use std::collections::HashMap;

/// From this many fields on, they are found by hash.
const INDEXED_FROM: usize = 16;

/// A map whose names mostly come in the same order again and again, as the fields of measurements do.
#[derive(Clone, Debug)]
pub(super) struct Fields<T> {
    list: Vec<(Box<str>, T)>,
    index: HashMap<Box<str>, usize>,
}

impl<T> Fields<T> {
    pub(super) fn new() -> Fields<T> {
        Fields { list: Vec::new(), index: HashMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.list.iter().map(|(name, value)| (&**name, value))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.list.iter_mut().map(|(_, value)| value)
    }

    /// The position of a name. `hint` is a position where it may be.
    pub(super) fn find(&self, name: &str, hint: usize) -> Option<usize> {
        if self.list.get(hint).is_some_and(|field| &*field.0 == name) {
            return Some(hint);
        }
        match self.list.len() < INDEXED_FROM {
            true => self.list.iter().position(|field| &*field.0 == name),
            false => self.index.get(name).copied(),
        }
    }

    /// The value of a name. `hint` is a position where it may be.
    pub(super) fn get(&self, name: &str, hint: usize) -> Option<&T> {
        self.find(name, hint).map(|at| &self.list[at].1)
    }

    /// The value of a name, which is added if necessary.
    pub(super) fn entry(&mut self, name: &str, hint: usize, new: impl FnOnce() -> T) -> &mut T {
        let at = self.entry_at(name, hint, new);
        self.at_mut(at)
    }

    /// The value at a position.
    pub(super) fn at(&self, at: usize) -> &T {
        &self.list[at].1
    }

    /// The value at a position.
    pub(super) fn at_mut(&mut self, at: usize) -> &mut T {
        &mut self.list[at].1
    }

    /// The position of a name, which is added if necessary.
    pub(super) fn entry_at(&mut self, name: &str, hint: usize, new: impl FnOnce() -> T) -> usize {
        self.find(name, hint).unwrap_or_else(|| {
            let at = self.list.len();
            self.list.push((name.into(), new()));
            if at + 1 == INDEXED_FROM {
                let names = self.list.iter().enumerate();
                self.index = names.map(|(at, field)| (field.0.clone(), at)).collect();
            } else if at >= INDEXED_FROM {
                self.index.insert(name.into(), at);
            }
            at
        })
    }
}

/// Tells which fields of one document have a name that no field before them has: only these count. Costs nothing as
/// long as the fields come in the order of the map.
#[derive(Default)]
pub(super) struct Once {
    /// The positions that fields have had; none: that of each field was its number.
    seen: Option<Vec<bool>>,
}

impl Once {
    /// `position`: that of the field's name, if the map has it; `at`: the number of the field in its document.
    pub(super) fn is_first(&mut self, position: Option<usize>, at: usize) -> bool {
        if self.seen.is_none() && position == Some(at) {
            return true;
        }
        let seen = self.seen.get_or_insert_with(|| vec![true; at]);
        let Some(position) = position else { return true };
        if seen.len() <= position {
            seen.resize(position + 1, false);
        }
        !std::mem::replace(&mut seen[position], true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_with_any_hint() {
        let mut fields = Fields::new();
        for round in 0..2 {
            for n in 0..100_usize {
                *fields.entry(&n.to_string(), if round == 0 { 0 } else { n }, || 0) += n;
            }
        }
        assert!(fields.iter().enumerate().all(|(n, f)| f == (&*n.to_string(), &(2 * n))));
        assert_eq!(fields.get("99", 3), Some(&198));
        assert_eq!(fields.get("x", 3), None);
    }

    #[test]
    fn repeated_names_are_told() {
        let mut fields = Fields::new();
        for name in ["a", "b", "c", "d"] {
            fields.entry(name, 0, || ());
        }
        for names in ["abcd", "aab", "xab", "bxadcba", "ddd", "abxcabx", "dcba", "abca"] {
            let mut once = Once::default();
            for (at, name) in names.char_indices().filter(|(_, name)| *name != 'x') {
                let position = fields.find(&name.to_string(), at);
                let expected = names.find(name) == Some(at);
                if names[..at].ends_with('x') {
                    once.is_first(None, at - 1);
                }
                assert_eq!(once.is_first(position, at), expected, "{names} {at}");
            }
        }
    }
}

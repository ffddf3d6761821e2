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

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.list.iter().map(|(name, value)| (&**name, value))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.list.iter_mut().map(|(_, value)| value)
    }

    fn find(&self, name: &str, hint: usize) -> Option<usize> {
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
        let at = self.find(name, hint).unwrap_or_else(|| {
            let at = self.list.len();
            self.list.push((name.into(), new()));
            if at + 1 == INDEXED_FROM {
                let names = self.list.iter().enumerate();
                self.index = names.map(|(at, field)| (field.0.clone(), at)).collect();
            } else if at >= INDEXED_FROM {
                self.index.insert(name.into(), at);
            }
            at
        });
        &mut self.list[at].1
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
}

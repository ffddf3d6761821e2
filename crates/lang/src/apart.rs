//! Dotted paths of which none is another one or leads to another one.

use std::collections::HashSet;

use foldhash::fast::RandomState;

/// Such paths, collected: a look at one costs as many lookups as it has components, however many there are.
#[derive(Debug, Default)]
pub struct ApartPaths<'p> {
    paths: HashSet<&'p str, RandomState>,
    /// All that a path has before one of its dots.
    above: HashSet<&'p str, RandomState>,
}

impl<'p> ApartPaths<'p> {
    /// Adds a path. False, and it is not added, if it is there, below one that is, or above one.
    pub fn insert(&mut self, path: &'p str) -> bool {
        if self.above.contains(path)
            || self.paths.contains(path)
            || above(path).any(|prefix| self.paths.contains(prefix))
        {
            return false;
        }
        self.paths.insert(path);
        self.above.extend(above(path));
        true
    }
}

/// The paths above a path.
fn above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('.').map(|(at, _)| &path[..at])
}

/// Whether one of two paths is the other one or leads to it.
pub fn conflict(a: &str, b: &str) -> bool {
    let leads = |short: &str, long: &str| {
        long.strip_prefix(short).is_some_and(|rest| rest.starts_with('.'))
    };
    a == b || leads(a, b) || leads(b, a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_refused_where_it_meets_another_one() {
        let all =
            ["a", "a.b", "a.b.c", "ab", "a.c", "b.a", "b", "c.d.e", "c.d", "c.dx", "", ".", "a."];
        for first in all {
            for second in all {
                let mut paths = ApartPaths::default();
                assert!(paths.insert(first));
                assert_eq!(paths.insert(second), !conflict(first, second), "{first:?} {second:?}");
            }
        }
    }
}

//! Sets of dotted paths that do not conflict: no path equals another one or is a prefix of it (`a.b` and `a.b.c`).

use std::collections::HashSet;

use foldhash::fast::RandomState;

/// A set of paths without conflicts. A check takes as many lookups as the path has components, for any number of
/// paths.
#[derive(Debug, Default)]
pub struct ApartPaths<'p> {
    paths: HashSet<&'p str, RandomState>,
    /// All proper prefixes of the paths that end before a dot.
    above: HashSet<&'p str, RandomState>,
}

impl<'p> ApartPaths<'p> {
    /// Adds a path. Returns false, and does not add it, if the path, a prefix of it or a path below it is in the set.
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

/// The proper prefixes of a path.
fn above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('.').map(|(at, _)| &path[..at])
}

/// Returns true if two paths are equal or one is a prefix of the other.
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

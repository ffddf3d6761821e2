//! Indexes that cost writes and space but help no query: another index begins with the same fields, or no plan has
//! used it for long.
//!
//! An index is never called useless if it does more than find documents: unique indexes, those that delete documents
//! by age, and those of special kinds.

/// An index of a collection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub(crate) name: String,
    /// Its fields with their directions.
    pub(crate) fields: Vec<(String, i32)>,
    /// It is unique, expires documents, is partial, sparse, of a special kind, the one on `_id`, or of another
    /// collation than the collection.
    pub(crate) is_special: bool,
    /// Plans do not use it: dropping it changes no plan.
    pub(crate) is_hidden: bool,
    /// Number of plans that used it since `since_ms` (milliseconds since 1970).
    pub(crate) uses: u64,
    pub(crate) since_ms: i64,
}

/// Why an index is useless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Useless {
    /// The index of that name begins with the same fields in the same directions.
    Prefix(String),
    /// No plan used it for so many milliseconds.
    Unused(i64),
}

/// The useless ones of a collection's indexes, by their position. `unused_ms`: the time after which one without uses
/// is called unused.
pub(crate) fn useless(indexes: &[Known], now_ms: i64, unused_ms: i64) -> Vec<(usize, Useless)> {
    let plain = |index: &&Known| !index.is_special;
    let mut out = Vec::new();
    for (at, index) in indexes.iter().enumerate().filter(|(_, index)| plain(index)) {
        let longer = indexes.iter().enumerate().find(|(other_at, other)| {
            *other_at != at
                && plain(other)
                && !other.is_hidden
                && begins(&other.fields, &index.fields)
                // Of two equal ones (opposite directions of one field) the first stays.
                && (other.fields.len() > index.fields.len() || *other_at < at)
        });
        let age_ms = now_ms.saturating_sub(index.since_ms);
        if let Some((_, longer)) = longer {
            out.push((at, Useless::Prefix(longer.name.clone())));
        } else if index.uses == 0 && age_ms >= unused_ms {
            out.push((at, Useless::Unused(age_ms)));
        }
    }
    out
}

/// True if an index with the fields `long` can be read in the order of `short`, forward or backward.
fn begins(long: &[(String, i32)], short: &[(String, i32)]) -> bool {
    let Some(first) = long.get(..short.len()) else { return false };
    let pairs = || first.iter().zip(short);
    pairs().all(|(a, b)| a.0 == b.0)
        && (pairs().all(|(a, b)| a.1 == b.1) || pairs().all(|(a, b)| a.1 == -b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(name: &str, fields: &[(&str, i32)], uses: u64) -> Known {
        let fields = fields.iter().map(|(path, order)| ((*path).to_owned(), *order)).collect();
        Known { name: name.to_owned(), fields, uses, ..Known::default() }
    }

    #[test]
    fn prefixes_and_unused_ones() {
        let indexes = [
            Known { is_special: true, ..index("_id_", &[("_id", 1)], 0) },
            index("a", &[("a", 1)], 7),
            index("a_b", &[("a", -1), ("b", 1)], 3),
            index("b", &[("b", 1)], 0),
            Known { is_special: true, ..index("u", &[("c", 1)], 0) },
            index("c", &[("c", 1)], 1),
            Known { since_ms: 950, ..index("new", &[("d", 1)], 0) },
        ];
        let found = useless(&indexes, 1000, 100);
        assert_eq!(found, [(1, Useless::Prefix("a_b".into())), (3, Useless::Unused(1000))]);
    }

    #[test]
    fn other_directions_are_another_order() {
        let indexes = [
            index("ab", &[("a", 1), ("b", -1)], 1),
            index("abc", &[("a", 1), ("b", 1), ("c", 1)], 1),
        ];
        assert_eq!(useless(&indexes, 1000, 100), []);
        let hidden = [
            index("a", &[("a", 1)], 1),
            Known { is_hidden: true, ..index("ab", &[("a", 1), ("b", 1)], 1) },
        ];
        assert_eq!(useless(&hidden, 1000, 100), []);
    }
}

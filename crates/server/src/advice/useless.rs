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
///
/// All of them may be dropped together: one that replaces another stays itself. So an index that no plan uses replaces
/// none, and of several that begin with the same fields only the longest replaces the others.
pub(crate) fn useless(indexes: &[Known], now_ms: i64, unused_ms: i64) -> Vec<(usize, Useless)> {
    let age_ms = |index: &Known| now_ms.saturating_sub(index.since_ms);
    let is_unused = |index: &Known| index.uses == 0 && age_ms(index) >= unused_ms;
    // The longest first, so that what replaces an index is decided before it; of equal ones the first stays.
    let mut order: Vec<usize> = (0..indexes.len()).filter(|at| !indexes[*at].is_special).collect();
    order.sort_by_key(|at| std::cmp::Reverse(indexes[*at].fields.len()));
    let mut kept: Vec<&Known> = Vec::new();
    let mut out = Vec::new();
    for at in order {
        let index = &indexes[at];
        let longer = kept.iter().find(|longer| begins(&longer.fields, &index.fields));
        match longer {
            Some(longer) => out.push((at, Useless::Prefix(longer.name.clone()))),
            None if is_unused(index) => out.push((at, Useless::Unused(age_ms(index)))),
            None if index.is_hidden => {}
            None => kept.push(index),
        }
    }
    out.sort_by_key(|(at, _)| *at);
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

    /// The names of the useless ones, all uses counted for long enough.
    fn names(indexes: &[Known]) -> Vec<&str> {
        useless(indexes, 1000, 100).iter().map(|(at, _)| indexes[*at].name.as_str()).collect()
    }

    #[test]
    fn an_unused_index_replaces_none() {
        assert_eq!(
            names(&[index("a", &[("a", 1)], 20), index("ab", &[("a", 1), ("b", 1)], 0)]),
            ["ab"]
        );
        assert_eq!(
            names(&[index("up", &[("a", 1)], 20), index("down", &[("a", -1)], 0)]),
            ["down"]
        );
        assert_eq!(names(&[index("up", &[("a", 1)], 0), index("down", &[("a", -1)], 20)]), ["up"]);
        assert_eq!(names(&[index("up", &[("a", 1)], 9), index("down", &[("a", -1)], 9)]), ["down"]);
        let chain = [
            index("a", &[("a", 1)], 1),
            index("ab", &[("a", 1), ("b", 1)], 1),
            index("abc", &[("a", 1), ("b", 1), ("c", 1)], 1),
        ];
        assert_eq!(names(&chain), ["a", "ab"]);
    }

    /// All sets of up to four of these indexes: after all advised ones are dropped, each index that was used is
    /// there, or a visible one that begins with its fields.
    #[test]
    fn what_is_used_stays_served_after_all_drops() {
        let keys: [&[(&str, i32)]; 5] = [
            &[("a", 1)],
            &[("a", -1)],
            &[("a", 1), ("b", 1)],
            &[("a", -1), ("b", -1), ("c", 1)],
            &[("a", 1), ("b", -1)],
        ];
        // Uses, hidden, special: of the kinds that an index can be of.
        let kinds = [
            (0, false, false),
            (5, false, false),
            (5, true, false),
            (0, true, false),
            (5, false, true),
        ];
        let all: Vec<Known> = keys
            .iter()
            .flat_map(|key| {
                kinds.map(|(uses, is_hidden, is_special)| {
                    let name = format!("{key:?} {uses} {is_hidden} {is_special}");
                    Known { is_hidden, is_special, ..index(&name, key, uses) }
                })
            })
            .collect();
        let count = all.len();
        for seed in 0..count.pow(3) {
            let at =
                [seed % count, seed / count % count, seed / count.pow(2), (seed * 7 + 3) % count];
            let set: Vec<Known> = at.iter().map(|at| all[*at].clone()).collect();
            let gone: Vec<usize> = useless(&set, 1000, 100).iter().map(|(at, _)| *at).collect();
            let stays: Vec<&Known> =
                (0..set.len()).filter(|at| !gone.contains(at)).map(|at| &set[at]).collect();
            for at in gone.iter().filter(|at| set[**at].uses > 0) {
                let serves = |other: &&Known| {
                    !other.is_special && !other.is_hidden && begins(&other.fields, &set[*at].fields)
                };
                assert!(stays.iter().any(serves), "{} of {set:?}", set[*at].name);
            }
        }
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

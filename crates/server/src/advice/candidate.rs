//! One index for several queries.
//!
//! The fields that a query compares for equality may be in any order at the beginning of an index. So the index
//! `{a, b, c}` serves the queries `a =`, `a =, b =` and `a =, b =, c >`, and a query on `b` alone needs another.

use super::key::Key;

/// An index, and the queries that it serves (positions in the caller's list).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    key: Key,
    pub(crate) served: Vec<usize>,
    /// What the served queries need.
    needed: Vec<(usize, Key)>,
}

/// Merges the keys that queries need: the key of a query that another one's index serves gets none of its own.
pub(crate) fn merge(needed: impl IntoIterator<Item = (usize, Key)>) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = Vec::new();
    let mut needed: Vec<(usize, Key)> = needed.into_iter().collect();
    // Long keys first, because a short one may be the beginning of a long one. Stable: the caller's order counts.
    needed.sort_by_key(|(_, key)| std::cmp::Reverse(key.equal.len() + key.rest.len()));
    for (query, key) in needed {
        match all.iter_mut().find_map(|candidate| candidate.admit(query, &key)) {
            Some(candidate) => {
                if !candidate.served.contains(&query) {
                    candidate.served.push(query);
                }
            }
            None => all.push(Candidate::new(query, key)),
        }
    }
    all
}

impl Candidate {
    /// The index of one query.
    pub(crate) fn new(query: usize, key: Key) -> Candidate {
        Candidate { key: key.clone(), served: vec![query], needed: vec![(query, key)] }
    }

    /// What the queries that it serves need, each with its query.
    pub(crate) fn needed(&self) -> &[(usize, Key)] {
        &self.needed
    }

    /// The fields of the index with their directions. Those that more of the queries compare for equality come first.
    pub(crate) fn fields(&self) -> Vec<(String, i32)> {
        let uses =
            |path: &String| self.needed.iter().filter(|(_, key)| key.equal.contains(path)).count();
        let mut equal: Vec<&String> = self.key.equal.iter().collect();
        equal.sort_by_key(|path| std::cmp::Reverse(uses(path)));
        let equal = equal.into_iter().map(|path| (path.clone(), 1));
        equal.chain(self.key.rest.iter().cloned()).collect()
    }

    /// The name that drivers give to the index.
    pub(crate) fn name(&self) -> String {
        let parts = self.fields();
        let parts = parts.iter().map(|(path, direction)| format!("{path}_{direction}"));
        parts.collect::<Vec<_>>().join("_")
    }

    /// Takes in the query that needs `key`, if one order of the fields serves it and all the others. Else the
    /// candidate is unchanged, and `None` is returned.
    fn admit(&mut self, query: usize, key: &Key) -> Option<&mut Candidate> {
        self.needed.push((query, key.clone()));
        let fields = self.fields();
        if self.needed.iter().all(|(_, key)| serves(&fields, key)) {
            return Some(self);
        }
        self.needed.pop();
        None
    }
}

/// True if an index with these fields finds the documents of a query that needs `key` in its order.
pub(crate) fn serves(index: &[(String, i32)], key: &Key) -> bool {
    let count = key.equal.len();
    let Some((first, after)) = index.split_at_checked(count) else { return false };
    let is_equal = first.iter().all(|(path, _)| key.equal.contains(path));
    let Some(after) = after.get(..key.rest.len()) else { return false };
    let same_paths = after.iter().zip(&key.rest).all(|(own, needed)| own.0 == needed.0);
    let same = after.iter().zip(&key.rest).all(|(own, needed)| own.1 == needed.1);
    let reversed = after.iter().zip(&key.rest).all(|(own, needed)| own.1 == -needed.1);
    is_equal && same_paths && (same || reversed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(equal: &str, rest: &str) -> Key {
        let split =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        let part = |text: String| match text.strip_prefix('-') {
            Some(path) => (path.to_owned(), -1),
            None => (text, 1),
        };
        Key { equal: split(equal), rest: split(rest).into_iter().map(part).collect() }
    }

    #[track_caller]
    fn check(keys: &[(&str, &str)], expected: &[&str]) {
        let needed = keys.iter().map(|(equal, rest)| key(equal, rest)).enumerate();
        let got: Vec<String> = merge(needed).iter().map(Candidate::name).collect();
        assert_eq!(got, expected, "{keys:?}");
    }

    #[test]
    fn one_index_for_several_queries() {
        check(&[("a", ""), ("a b", "")], &["a_1_b_1"]);
        // b alone comes first, because another query has only b.
        check(&[("b", ""), ("a b", "")], &["b_1_a_1"]);
        check(&[("a b c", ""), ("c", ""), ("b c", "")], &["c_1_b_1_a_1"]);
        check(&[("a b", ""), ("a", ""), ("b", "")], &["a_1_b_1", "b_1"]);
        // The range of one query is the equality of another.
        check(&[("a", "b"), ("a b", "")], &["a_1_b_1"]);
        check(&[("a", "b"), ("b", "")], &["a_1_b_1", "b_1"]);
        check(&[("a b", "s"), ("a", "s")], &["a_1_b_1_s_1", "a_1_s_1"]);
        check(&[("a", "-s"), ("a", "s")], &["a_1_s_-1"]);
        check(&[("a", "s t"), ("a", "s -t")], &["a_1_s_1_t_1", "a_1_s_1_t_-1"]);
    }

    #[test]
    fn existing_indexes() {
        let index = |text: &str| key("", text).rest;
        assert!(serves(&index("b a c"), &key("a b", "")));
        assert!(serves(&index("a -c"), &key("a", "c")));
        assert!(!serves(&index("c a"), &key("a", "")));
        assert!(!serves(&index("a"), &key("a b", "")));
    }
}

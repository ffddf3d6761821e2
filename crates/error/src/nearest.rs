//! Finds the known name that is most similar to an unknown one, for messages such as "did you mean 'port'?".

/// No known name is longer: this bounds the cost of a comparison.
const NAME_BYTES_MAX: usize = 80;

/// The value of the known name that is most similar to `name`; `None` if no name is similar. The case of letters does
/// not count.
pub fn nearest<'a, T>(name: &str, known: impl Iterator<Item = (&'a str, T)>) -> Option<T> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let name = name.to_lowercase();
    // Of a dotted name only the last part decides how many differences are allowed.
    let last = name.rsplit_once('.').map_or(name.as_str(), |(_, last)| last);
    let most = (last.len() / 3).clamp(1, 3);
    let scored = known
        .filter(|(known, _)| !known.is_empty())
        .map(|(known, meant)| (distance(name.as_bytes(), known.to_lowercase().as_bytes()), meant));
    scored.filter(|(far, _)| *far <= most).min_by_key(|(far, _)| *far).map(|(_, meant)| meant)
}

/// The edit distance: insertions, deletions, replacements and swaps of adjacent characters.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[test]
fn similar_names() {
    let known = ["documents", "rounds", "net.port"];
    let find = |name: &str| nearest(name, known.iter().map(|name| (*name, *name)));
    for (name, meant) in [("documnets", "documents"), ("Round", "rounds"), ("net.prot", "net.port")]
    {
        assert_eq!(find(name), Some(meant), "{name}");
    }
    for name in ["entirely", "x", "", &"y".repeat(1000)] {
        assert_eq!(find(name), None, "{name}");
    }
}

//! An interruptible merge sort of data in memory: during the sort of a million entries the operation's interrupt
//! check is called regularly. Used by stages that hold documents and by operators on long arrays.

use std::cmp::Ordering;

use nagi_error::Result;

/// The number of entries that are sorted without an interrupt check, which takes a few milliseconds.
const PIECE: usize = 8192;
/// The same for slow comparisons, which call a collation or follow a path.
const SLOW_PIECE: usize = 1024;

/// Sorts `items` stably. `go_on` is called for each sorted piece and for each merged entry.
///
/// The cost is that of one sort, and a second vector of items if there is more than one piece.
///
/// # Errors
/// The errors of `go_on`. Entries that are not yet merged are then lost.
pub fn order<T, C: Fn(&T, &T) -> Ordering + ?Sized>(
    items: &mut Vec<T>,
    compare: &C,
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    by_pieces(items, PIECE, compare, go_on)
}

/// Like [`order`], for slow comparisons.
///
/// # Errors
/// The errors of `go_on`.
pub(crate) fn order_slowly<T, C: Fn(&T, &T) -> Ordering + ?Sized>(
    items: &mut Vec<T>,
    compare: &C,
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    by_pieces(items, SLOW_PIECE, compare, go_on)
}

fn by_pieces<T, C: Fn(&T, &T) -> Ordering + ?Sized>(
    items: &mut Vec<T>,
    piece: usize,
    compare: &C,
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    if items.len() <= piece {
        items.sort_by(|a, b| compare(a, b));
        return Ok(());
    }
    let mut whole = std::mem::take(items);
    let mut runs = Vec::with_capacity(whole.len() / piece + 1);
    while !whole.is_empty() {
        let mut run = whole.split_off(whole.len().saturating_sub(piece));
        run.sort_by(|a, b| compare(a, b));
        go_on()?;
        runs.push(run);
    }
    runs.reverse();
    // Runs are merged in pairs, so that each round moves all entries once.
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut rest = runs.into_iter();
        while let Some(one) = rest.next() {
            merged.push(match rest.next() {
                Some(other) => merge(one, other, compare, go_on)?,
                None => one,
            });
        }
        runs = merged;
    }
    *items = runs.pop().unwrap_or_default();
    Ok(())
}

/// Merges two sorted vectors; of equal entries those of `one` come first. `go_on` is called for each entry.
///
/// # Errors
/// The errors of `go_on`.
pub fn merge<T, C: Fn(&T, &T) -> Ordering + ?Sized>(
    one: Vec<T>,
    other: Vec<T>,
    compare: &C,
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<Vec<T>> {
    // The fast paths for two runs that are already in order, forwards or backwards; this is frequent.
    if let (Some(last), Some(first)) = (one.last(), other.first())
        && compare(last, first).is_le()
    {
        return Ok(one.into_iter().chain(other).collect());
    }
    if let (Some(first), Some(last)) = (one.first(), other.last())
        && compare(last, first).is_lt()
    {
        return Ok(other.into_iter().chain(one).collect());
    }
    let mut out = Vec::with_capacity(one.len() + other.len());
    let (mut left, mut right) = (one.into_iter().peekable(), other.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        go_on()?;
        let from = if compare(a, b).is_le() { &mut left } else { &mut right };
        out.extend(from.next());
    }
    out.extend(left);
    out.extend(right);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_out_in_order() {
        let numbers = |n: u64| (0..n).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40);
        for n in [0, 1, PIECE as u64, PIECE as u64 + 1, 5 * PIECE as u64 + 7] {
            for all in [numbers(n).collect(), (0..n).collect(), (0..n).rev().collect::<Vec<_>>()] {
                let mut expected = all.clone();
                expected.sort_unstable();
                let mut got = all;
                order(&mut got, &u64::cmp, &mut || Ok(())).expect("nothing stops it");
                assert!(got == expected, "{n}");
            }
            // Compares only a part of the entries: entries with equal parts keep their order.
            let mut pairs: Vec<(u64, u64)> = numbers(n).map(|i| i % 100).zip(0..).collect();
            let mut expected = pairs.clone();
            expected.sort();
            order(&mut pairs, &|a, b| a.0.cmp(&b.0), &mut || Ok(())).expect("nothing stops it");
            assert!(pairs == expected, "{n}");
        }
    }

    #[test]
    fn asks_on_its_way() {
        let mut asked = 0;
        let mut items: Vec<u64> = (0..3 * PIECE as u64).map(|i| i % 1000).collect();
        order(&mut items, &u64::cmp, &mut || {
            asked += 1;
            Ok(())
        })
        .expect("nothing stops it");
        assert!(asked > 2 * PIECE, "{asked}");
    }
}

//! Decides if an index scan yields the order of a sort.
//!
//! Fields fixed to one value may be skipped, in the index and in the sort. A field with arrays sorts by its least
//! (descending: greatest) element. A scan meets that element first only if it visits all values of the field.

use nagi_lang::sort::SortSpec;
use nagi_store::Index;

use super::access::has_position;
use crate::access::Intervals;

/// The direction (true: forward) in which a scan with these bounds yields `sort`, if there is one.
pub(crate) fn direction_for(index: &Index, bounds: &[Intervals], sort: &SortSpec) -> Option<bool> {
    if sort.needs_meta() || !same_order(index, bounds, sort) {
        return None;
    }
    [true, false].into_iter().find(|forward| provides(index, bounds, sort, *forward))
}

/// Returns true if the keys within the bounds order strings as the sort does: both have the same collation, or
/// there are no strings.
fn same_order(index: &Index, bounds: &[Intervals], sort: &SortSpec) -> bool {
    sort.collation() == index.spec.collation || !bounds.iter().any(Intervals::may_hold_text)
}

fn provides(index: &Index, bounds: &[Intervals], sort: &SortSpec, forward: bool) -> bool {
    let key = &index.spec.key;
    let arrays_whole =
        (0..key.len()).all(|field| index.multikey_components(field) == 0 || bounds[field].is_all());
    let fixed = |field: usize| {
        bounds[field].is_one_point()
            && index.multikey_components(field) == 0
            && key[field].holds_value()
    };
    let mut field = 0;
    for part in sort.parts() {
        let path = part.path.as_str();
        loop {
            if key.iter().enumerate().any(|(at, k)| *k.path == *path && fixed(at)) {
                break;
            }
            let Some(k) = key.get(field) else { return false };
            if *k.path == *path {
                let sorted = k.holds_value()
                    && !has_position(path)
                    && (k.descending == forward) == part.descending
                    && (index.multikey_components(field) == 0 || arrays_whole);
                if !sorted {
                    return false;
                }
                field += 1;
                break;
            }
            if !bounds[field].is_one_point() {
                return false;
            }
            field += 1;
        }
    }
    true
}

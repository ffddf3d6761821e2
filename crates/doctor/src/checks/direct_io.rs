//! Checks that files can be read without the page cache.
use super::prelude::*;

pub(super) static DIRECT_IO: Check =
    Check { name: "direct_io", title: "O_DIRECT", reads: &[], is_measured: true, run };

fn run(facts: &Facts) -> Verdict {
    let measured = facts.measured()?;
    if measured.has_direct_io {
        return good("yes");
    }
    if let Some(problem) = &measured.problem {
        return Err(NotKnown(problem.clone()));
    }
    let what = match facts.reads_through_cache {
        true => "flushes and compactions",
        false => "reads, flushes and compactions",
    };
    found(
        Note,
        "The file system refuses O_DIRECT",
        format!(
            "{what} go through the page cache, where they evict the data of other programs; the disk could \
             not be measured either"
        ),
        "move the data directory to ext4 or XFS on a local disk",
    )
    .verdict()
}

//! Transparent huge pages.
use super::prelude::*;

pub(super) static TRANSPARENT_HUGE_PAGES: Check = Check {
    name: "transparent_huge_pages",
    title: "transparent huge pages",
    reads: &[PATH],
    is_measured: false,
    run,
};

const PATH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

fn run(facts: &Facts) -> Verdict {
    let chosen = facts.chosen(PATH)?;
    if chosen != "always" {
        return good(chosen);
    }
    found(
        Warning,
        "Transparent huge pages are always used",
        "memory is returned to the kernel in small pieces, but allocated 2 MB at a time: the \
         process grows past its budget, and the kernel stalls it while it makes huge pages",
        format!("echo madvise > {PATH}   (keep it by transparent_hugepage=madvise at boot)"),
    )
    .logged(
        "CONTROL",
        22_178,
        format!("{PATH} is 'always'. We suggest setting it to 'never' in this binary version"),
        doc! {},
    )
    .verdict()
}

//! How readily the kernel swaps out memory of processes.
use super::prelude::*;

pub(super) static SWAPPINESS: Check = Check {
    name: "swappiness",
    title: "vm.swappiness",
    reads: &["/proc/sys/vm/swappiness", "/proc/meminfo"],
    is_measured: false,
    run,
};

const PATH: &str = "/proc/sys/vm/swappiness";

fn run(facts: &Facts) -> Verdict {
    let value = facts.number(PATH)?;
    if facts.kib_field("/proc/meminfo", "SwapTotal")? == 0 {
        return good(format!("{value}, and no swap"));
    }
    if value <= 1 {
        return good(value.to_string());
    }
    let severity = if value > 10 { Warning } else { Note };
    let finding = found(
        severity,
        format!("vm.swappiness is {value}"),
        "a scan of files makes the kernel swap out the server's cache, and every page of it comes \
         back from the disk",
        "sysctl -w vm.swappiness=1   (keep it in /etc/sysctl.d)",
    );
    if severity == Note {
        return finding.verdict();
    }
    finding
        .logged(
            "CONTROL",
            8_386_700,
            "We suggest setting swappiness to 0 or 1, as swapping can cause performance problems.",
            doc! { "sysfsFile": PATH, "currentValue": (value as i64) },
        )
        .verdict()
}

//! Free space on the disk: bytes and inodes.
use super::prelude::*;

pub(super) static FREE_SPACE: Check =
    Check { name: "free_space", title: "free space", reads: &[], is_measured: false, run };

const GIB: u64 = 1 << 30;

fn run(facts: &Facts) -> Verdict {
    let data = facts.data()?;
    if data.total_bytes == 0 {
        return Err(NotKnown("the file system does not report its size".into()));
    }
    let (free, total) = (data.available_bytes, data.total_bytes);
    let share = percent(free, total);
    let text = format!("{} of {} are free ({share:.0} %)", bytes(free), bytes(total));
    let why = "compactions write new files before they remove old ones; on a full disk every write \
               fails (14031 OutOfDiskSpace)";
    let fix =
        "add space, or remove what is not needed: db.collection.drop(), TTL indexes, old dumps";
    // On a large disk 50 GB are enough, even if they are less than a tenth.
    let bad = match share {
        _ if free < GIB / 2 || share < 1.0 => Some(Critical),
        share if share < 10.0 && free < 50 * GIB => Some(Warning),
        _ => None,
    };
    if let Some(severity) = bad {
        return found(severity, format!("Only {text}"), why, fix)
            .logged_as_found("STORAGE", 8_210_012)
            .verdict();
    }
    let files = percent(data.file_count_free, data.file_count_max);
    if data.file_count_max > 0 && files < 5.0 {
        return found(
            Warning,
            format!("The file system can hold only {} more files", data.file_count_free),
            "the engine creates files continuously; without inodes it fails as on a full disk",
            "remove small files elsewhere on it, or make a file system with more inodes (mkfs -N)",
        )
        .logged_as_found("STORAGE", 8_210_013)
        .verdict();
    }
    good(text)
}

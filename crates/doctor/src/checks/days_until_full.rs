//! Predicts when the disk will be full, from the server's record of free space.
use super::prelude::*;
use crate::history;

pub(super) static DAYS_UNTIL_FULL: Check = Check {
    name: "days_until_full",
    title: "days until the disk is full",
    reads: &[],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let available = facts.data()?.available_bytes;
    let Some(trend) = history::trend(&facts.history) else {
        return Err(NotKnown(
            "not yet: the server records free space once an hour, and six hours make a trend"
                .into(),
        ));
    };
    let Some(days) = history::days_until_full(&facts.history, available) else {
        return good(format!(
            "free space does not shrink (observed for {:.1} days)",
            trend.seen_days
        ));
    };
    let text = format!(
        "full in {} days at {} a day",
        if days < 10.0 { format!("{days:.1}") } else { format!("{days:.0}") },
        bytes((-trend.bytes_a_day) as u64)
    );
    let severity = match days {
        d if d < 3.0 => Critical,
        d if d < 14.0 => Warning,
        d if d < 60.0 => Note,
        _ => return good(text),
    };
    let finding = found(
        severity,
        format!("The disk is {text}"),
        "on a full disk every write fails (14031 OutOfDiskSpace) until something is removed",
        "add space, or remove what is not needed: db.collection.drop(), TTL indexes, old dumps",
    );
    match severity {
        Note => finding.verdict(),
        _ => finding.logged_as_found("STORAGE", 8_210_005).verdict(),
    }
}

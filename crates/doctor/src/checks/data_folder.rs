//! Checks that the data directory exists and is writable.
use super::prelude::*;

pub(super) static DATA_FOLDER: Check = Check {
    name: "data_folder",
    title: "the data directory",
    reads: &[mounts::PATH],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let data = facts.data()?;
    if let Some(closed) = &data.closed {
        return found(
            Critical,
            format!("{} cannot be reached: this user may not enter {closed}", data.path),
            "the server exits at once with exit code 100, unless it runs as another user",
            format!("chmod o+x {closed}   (as its owner; or put the data directory elsewhere)"),
        )
        .verdict();
    }
    if !data.is_there {
        return found(
            Critical,
            format!("{} does not exist", data.path),
            "the server exits at once with exit code 100",
            format!("mkdir -p {}", data.path),
        )
        .verdict();
    }
    if !data.is_writable && facts.data_mount().is_ok_and(|mount| mount.has("ro")) {
        return Err(NotKnown(format!("{} is mounted read-only", data.path)));
    }
    if !data.is_writable {
        return found(
            Critical,
            format!("{} cannot be written by this user", data.path),
            "the server exits at once with exit code 100, unless it runs as another user",
            match data.is_own {
                true => format!("chmod u+w {}", data.path),
                false => format!("chown -R USER {}", data.path),
            },
        )
        .verdict();
    }
    good(data.path.clone())
}

//! Checks that the data directory's files belong to one user and are inaccessible to others.
use super::prelude::*;

pub(super) static PERMISSIONS: Check = Check {
    name: "permissions",
    title: "owner and permissions of the data directory's files",
    reads: &[],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let data = facts.data()?;
    if let Some(closed) = &data.closed {
        return Err(NotKnown(format!("this user may not enter {closed}")));
    }
    if !data.is_there {
        return Err(NotKnown(format!("{} does not exist", data.path)));
    }
    let access = &data.access;
    if access.foreign_count > 0 {
        return found(
            Critical,
            format!(
                "{} files or directories in {} belong to another user than the directory, {} for \
                 one",
                access.foreign_count, data.path, access.foreign_example
            ),
            "a server that runs as the directory's owner cannot read or write them",
            format!("chown -R --reference={0} {0}", data.path),
        )
        .verdict();
    }
    if access.is_shared {
        return found(
            Warning,
            format!("{} can be written by other users of this machine", data.path),
            "they can remove and replace the files of the data",
            format!("chmod go-rwx {}", data.path),
        )
        .verdict();
    }
    if access.open_count > 0 {
        return found(
            Warning,
            format!(
                "{} files or directories in {} are open to other users of this machine, {} for one",
                access.open_count, data.path, access.open_example
            ),
            "every user with an account on this machine can copy the data without a login to the \
             server",
            format!(
                "chmod -R go-rwx {}   (a server that starts does it, unless honorSystemUmask or \
                 processUmask say otherwise)",
                data.path
            ),
        )
        .verdict();
    }
    good("accessible to its owner only")
}

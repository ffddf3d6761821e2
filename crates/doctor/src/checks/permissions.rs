//! Checks that the data directory's files belong to one user and are inaccessible to others.
use super::prelude::*;

pub(super) static PERMISSIONS: Check = Check {
    name: "permissions",
    title: "owner and permissions of the data folder's files",
    reads: &[],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let data = facts.data()?;
    if !data.is_there {
        return Err(NotKnown(format!("{} does not exist", data.path)));
    }
    let access = &data.access;
    if access.foreign_count > 0 {
        return found(
            Critical,
            format!(
                "{} files or folders in {} belong to another user than the folder, {} for one",
                access.foreign_count, data.path, access.foreign_example
            ),
            "a server that runs as the folder's owner cannot read or write them",
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
                "{} files or folders in {} are open to other users of this machine, {} for one",
                access.open_count, data.path, access.open_example
            ),
            "whoever has an account here can copy the data, past any login",
            format!(
                "chmod -R go-rwx {}   (a server that starts does it, unless honorSystemUmask or \
                 processUmask say otherwise)",
                data.path
            ),
        )
        .verdict();
    }
    good("its owner's alone")
}

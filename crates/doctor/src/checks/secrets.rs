//! Checks that files with keys and passwords are readable for their user only.
use super::prelude::*;

pub(super) static SECRETS: Check = Check {
    name: "secrets",
    title: "files with keys and passwords",
    reads: &[],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let exposure = facts.exposure()?;
    match exposure.open_files.first() {
        None => good("no file with a key or a password is open to other users"),
        Some(file) => found(
            Warning,
            format!(
                "{} files with keys or passwords can be read by other users of this machine, {file} for one",
                exposure.open_files.len()
            ),
            "with the key of the certificate they can pretend to be this server, with a password use other keys",
            format!("chmod 600 {file}   (as its owner, who should be the user of the server)"),
        )
        .verdict(),
    }
}

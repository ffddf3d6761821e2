//! Checks that the configuration and the data directory agree on encryption, and that the key is elsewhere.
use super::prelude::*;
use crate::exposure::AtRest;

pub(super) static ENCRYPTION_AT_REST: Check = Check {
    name: "encryption_at_rest",
    title: "encryption at rest",
    reads: &[],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    match &facts.exposure()?.at_rest {
        AtRest::Plain => {
            good("the server does not encrypt the data files; security.enableEncryption does")
        }
        AtRest::Encrypted => good("the data files are encrypted"),
        AtRest::KeyBesideData(file) => found(
            Warning,
            format!("the master key of the data files is in the data directory: {file}"),
            "a stolen disk or a copy of the directory has the key, too",
            "move the file to another file system, such as /etc/nagi/, or use security.kmip",
        )
        .verdict(),
        AtRest::NoKey => found(
            Critical,
            "the data files are encrypted, and the configuration has no key",
            "the server does not start",
            "security.enableEncryption: true with security.encryptionKeyFile or security.kmip",
        )
        .verdict(),
        AtRest::PlainData => found(
            Critical,
            "encryption is configured, and the data directory has data that is not encrypted",
            "the server does not start: existing files are not encrypted",
            "restore the data into an empty directory: docs/encryption-at-rest.md",
        )
        .verdict(),
    }
}

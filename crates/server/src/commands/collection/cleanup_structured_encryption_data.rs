//! `cleanupStructuredEncryptionData`: shortens the state collections of an encrypted collection further than
//! `compactStructuredEncryptionData`: it also replaces what that has left.

use super::compact_structured_encryption_data::{compact, write};
use crate::core::command::prelude::*;

pub(in crate::commands) static CLEANUP_STRUCTURED_ENCRYPTION_DATA: Command = Command {
    facts: Facts {
        name: "cleanupStructuredEncryptionData",
        help: "Shortens the state collections of an encrypted collection, and removes old anchors.",
        write: true,
        on_collection: true,
        secret: Secret::Yes,
        encrypted: true,
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::CleanupStructuredEncryptionData]),
    run,
    ..Command::ROW
};

args! { "cleanupStructuredEncryptionData" => Args {
    collection: Name<'a> = "cleanupStructuredEncryptionData",
    tokens:     Doc<'a>  = "cleanupTokens",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let done = compact(cx, req, args.collection.0, args.tokens, true)?;
    write(&done, out);
    Ok(())
}

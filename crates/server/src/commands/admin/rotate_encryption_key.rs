//! `rotateEncryptionKey`: makes a key that the data files written from now on are encrypted with. Of Nagi only.

use nagi_encryption::KeysError;

use crate::core::command::prelude::*;

pub(in crate::commands) static ROTATE_ENCRYPTION_KEY: Command = Command {
    facts: Facts {
        name: "rotateEncryptionKey",
        help: "Makes a new generation of keys, with which new data files are encrypted.",
        admin_only: true,
        ..Facts::ROW
    },
    // The action that rotates the other keys of a server; MongoDB has no command like this one.
    access: Access::Cluster(&[Action::RotateCertificates]),
    audited: Some(|_, _| ()),
    run,
    ..Command::ROW
};

args! { "rotateEncryptionKey" => Args {
    one: Value<'a> = "rotateEncryptionKey",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    Args::parse(req)?;
    let Some(keys) = &cx.server.keys else {
        bail!(
            Code::ILLEGAL_OPERATION,
            "The data files are not encrypted: there is no key to rotate"
        );
    };
    match keys.rotate() {
        Ok(generation) => {
            log::info!(target: "STORAGE", id = 8_200_205, generation = generation;
                "A new key encrypts the data files that are written from now on");
            out.put("generation", i32::try_from(generation).unwrap_or(i32::MAX));
            Ok(())
        }
        Err(error @ KeysError::TooManyGenerations(_)) => bail!(Code::ILLEGAL_OPERATION, "{error}"),
        Err(error) => {
            log::error!(target: "STORAGE", id = 8_200_206, error = error.to_string();
                "No new encryption key was made; the old one stays in use");
            bail!(Code::OPERATION_FAILED, "{error}")
        }
    }
}

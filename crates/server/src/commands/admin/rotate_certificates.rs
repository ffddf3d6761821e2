//! `rotateCertificates`: reads the files of TLS again.

use crate::core::command::prelude::*;

pub(in crate::commands) static ROTATE_CERTIFICATES: Command = Command {
    facts: Facts {
        name: "rotateCertificates",
        help: "Reads certificates, keys and revocation lists again.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::RotateCertificates]),
    run,
    ..Command::ROW
};

args! { "rotateCertificates" => Args {
    one:     Value<'a>       = "rotateCertificates",
    message: Option<&'a str> = "message",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    cx.server.rotate_certificates(args.message.unwrap_or(""))
}

//! `logApplicationMessage`: records a text of an application in the audit log.

use crate::core::command::prelude::*;
use crate::limits::APPLICATION_MESSAGE_BYTES_MAX;

pub(in crate::commands) static LOG_APPLICATION_MESSAGE: Command = Command {
    facts: Facts {
        name: "logApplicationMessage",
        help: "Records a message in the audit log.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::ApplicationMessage]),
    run,
    ..Command::ROW
};

args! { "logApplicationMessage" => Args {
    message: &'a str = "logApplicationMessage",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    if args.message.len() > APPLICATION_MESSAGE_BYTES_MAX {
        bail!(
            Code::BAD_VALUE,
            "logApplicationMessage takes a string of at most {APPLICATION_MESSAGE_BYTES_MAX} bytes, \
             not of {}",
            args.message.len()
        );
    }
    if cx.server.audit.is_none() {
        bail!(Code::AUDITING_NOT_ENABLED, "Auditing is not enabled");
    }
    cx.connection.audit("applicationMessage", Code::OK, |out| out.put("msg", args.message));
    Ok(())
}

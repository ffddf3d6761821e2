//! `logRotate`: starts a new file of the log, of the audit log, or of both.

use crate::core::command::prelude::*;

pub(in crate::commands) static LOG_ROTATE: Command = Command {
    facts: Facts {
        name: "logRotate",
        help: "Rotates the log file.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::LogRotate]),
    run,
    ..Command::ROW
};

args! { "logRotate" => Args {
    which: Value<'a> = "logRotate",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let server = cx.server;
    let (log, audit) = match args.which {
        Value::String("server") => (true, false),
        Value::String("audit") if server.audit.is_some() => (false, true),
        Value::String("audit") => bail!(Code::BAD_VALUE, "there is no audit log to rotate"),
        Value::String(other) => bail!(Code::NO_SUCH_KEY, "Unknown log type for rotate: {other}"),
        _ => (true, true),
    };
    let rotated = if log { server.log.rotate() } else { Ok(()) };
    match rotated.and_then(|()| if audit { server.rotate_audit_log() } else { Ok(()) }) {
        Ok(()) => Ok(()),
        Err(error) => bail!(Code::OPERATION_FAILED, "Log rotation failed due to {error}"),
    }
}

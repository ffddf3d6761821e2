//! `logRotate`: starts a new log file.

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
    match args.which {
        Value::String("server") => {}
        Value::String("audit") => bail!(Code::BAD_VALUE, "there is no audit log to rotate"),
        Value::String(other) => bail!(Code::NO_SUCH_KEY, "Unknown log type for rotate: {other}"),
        _ => {}
    }
    match cx.server.log.rotate() {
        Ok(()) => Ok(()),
        Err(error) => bail!(Code::OPERATION_FAILED, "Log rotation failed due to {error}"),
    }
}

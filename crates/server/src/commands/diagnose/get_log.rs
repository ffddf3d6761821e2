//! `getLog`: the newest lines of the log, from memory.

use crate::core::command::prelude::*;
use crate::logging::Log;

pub(in crate::commands) static GET_LOG: Command = Command {
    facts: Facts {
        name: "getLog",
        help: "The newest lines of the log.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::GetLog]),
    run,
    ..Command::ROW
};

args! { "getLog" => Args {
    name: Value<'a> = "getLog",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let Value::String(name) = args.name else {
        bail!(
            Code::TYPE_MISMATCH,
            "Argument to getLog must be of type String; found {} of type {}",
            args.name,
            args.name.kind().name()
        );
    };
    if name == "*" {
        out.array("names", |names| Log::ram_names().iter().for_each(|name| names.push(*name)));
        return Ok(());
    }
    let Some((written_count, lines)) = cx.server.log.ram_lines(name) else {
        bail!(Code::OPERATION_FAILED, "No log named '{name}'");
    };
    out.put("totalLinesWritten", written_count as i32);
    out.array("log", |log| lines.iter().for_each(|line| log.push(line)));
    Ok(())
}

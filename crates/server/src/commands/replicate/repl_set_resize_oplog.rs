//! `replSetResizeOplog`: the size of the oplog, and how long its entries are kept at least.

use super::member_of;
use crate::core::command::prelude::*;

pub(in crate::commands) static REPL_SET_RESIZE_OPLOG: Command = Command {
    facts: Facts {
        name: "replSetResizeOplog",
        help: "Resizes the oplog, and sets how long its entries are kept at least.",
        admin_only: true,
        servers: Servers::AllButRouters,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::ReplSetResizeOplog]),
    run,
    ..Command::ROW
};

args! { "replSetResizeOplog" => Args {
    one:   Value<'a>                             = "replSetResizeOplog",
    size:  Option<Within<990, { 1 << 30 }>>      = "size",
    hours: Option<f64>                           = "minRetentionHours",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let set = member_of(cx)?;
    set.initialized()?;
    if let Some(hours) = args.hours.filter(|hours| hours.is_nan() || *hours < 0.0) {
        bail!(
            Code::Location(51024),
            "BSON field 'minRetentionHours' value must be >= 0, actual value '{hours}'"
        );
    }
    if args.size.is_none() && args.hours.is_none() {
        bail!(
            Code::INVALID_OPTIONS,
            "replSetResizeOplog requires at least one of 'size' and 'minRetentionHours'"
        );
    }
    let _writing = cx.begin_write("local")?;
    if let Some(Within(megabytes)) = args.size {
        set.resize_oplog(megabytes << 20)?;
    }
    if let Some(hours) = args.hours {
        set.oplog.keep_hours(hours);
    }
    Ok(())
}

//! `sleep`: an operation for tests that takes the requested time and can be killed.

use std::time::Duration;

use crate::clock;
use crate::core::command::prelude::*;

pub(in crate::commands) static SLEEP: Command = Command {
    facts: Facts {
        name: "sleep",
        help: "Does nothing for a while (for tests).",
        admin_only: true,
        test_only: true,
        ..Facts::ROW
    },
    access: Access::LoggedIn,
    run,
    ..Command::ROW
};

args! { "sleep" => Args {
    sleep:  Value<'a>           = "sleep",
    lock:   Option<&'a str>     = "lock",
    secs:   Option<NonNegative> = "secs",
    secs_:  Option<NonNegative> = "seconds",
    millis: Option<NonNegative> = "millis",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    match args.lock {
        None | Some("none") => {}
        // The server has no global lock that the command could hold.
        Some("r" | "w") => bail!(Code::NOT_IMPLEMENTED, "sleep can hold no lock in this server"),
        Some(other) => bail!(Code::BAD_VALUE, "invalid lock mode: {other}"),
    }
    let given = args.secs.or(args.secs_).map(|n| Duration::from_secs(n.0 as u64));
    let millis = args.millis.map(|n| Duration::from_millis(n.0 as u64));
    let time = match (given, millis) {
        (None, None) => Duration::from_secs(10),
        (secs, millis) => secs.unwrap_or_default().saturating_add(millis.unwrap_or_default()),
    };
    let until = clock::now().checked_add(time.min(Duration::from_secs(86_400)));
    let Some(until) = until else { bail!(Code::BAD_VALUE, "the time is too long") };
    let idle = std::sync::Arc::default();
    let until = cx.deadline.map_or(until, |deadline| deadline.min(until));
    let watch = cx.watch();
    cx.op.wait_for(&idle, 0, until, &|| nagi_query::Interrupt::check(&watch))?;
    cx.done.waited = true;
    cx.check()
}

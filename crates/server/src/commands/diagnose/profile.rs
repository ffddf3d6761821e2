//! `profile`: which operations are profiled, and from how long on they count as slow.

use crate::command::prelude::*;

pub(in crate::commands) static PROFILE: Command = Command {
    name: "profile",
    help: "Reads or sets the profiling level of a database.",
    access: Access::By(access),
    run,
    ..Command::ROW
};

args! { "profile" => Args {
    level:       i64         = "profile",
    slow_ms:     Option<i64> = "slowms",
    sample_rate: Option<f64> = "sampleRate",
    filter:      Value<'a>   = "filter",
}}

/// Reading the level is also for those who may read the profiles.
fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    let reads = args.level == -1 && args.slow_ms.is_none() && args.sample_rate.is_none();
    Ok(asking.on_database(req.db, Action::EnableProfiler)
        || (reads && asking.on_collection(req.db, "system.profile", Action::Find)))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let profiles = &cx.server.profile;
    if let Some(rate) = args.sample_rate
        && !(0.0..=1.0).contains(&rate)
    {
        bail!(Code::BAD_VALUE, "'sampleRate' must be between 0.0 and 1.0 inclusive");
    }
    if args.filter.as_doc().is_some() {
        bail!(Code::NOT_IMPLEMENTED, "profile with a filter is not implemented yet");
    }
    out.put("was", profiles.level(req.db));
    out.put("slowms", profiles.slow_ms() as i32);
    out.put("sampleRate", profiles.sample_rate());
    match args.level {
        -1 => {}
        // The admin database has only ever changed the thresholds.
        0 => profiles.set_level(req.db, 0),
        level @ (1 | 2) if req.db != "admin" => {
            crate::slow::prepare_profile(cx.server, req.db)?;
            profiles.set_level(req.db, level as i32);
        }
        _ => {}
    }
    if let Some(ms) = args.slow_ms {
        profiles.set_slow_ms(ms);
    }
    if let Some(rate) = args.sample_rate {
        profiles.set_sample_rate(rate);
    }
    Ok(())
}

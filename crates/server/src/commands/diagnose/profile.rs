//! `profile`: sets or returns the profiling level of a database and the thresholds of slow operations.

use nagi_lang::{expr::ParseCx, filter::Filter};

use crate::core::command::prelude::*;
use crate::profile::ProfileFilter;

pub(in crate::commands) static PROFILE: Command = Command {
    facts: Facts {
        name: "profile",
        help: "Reads or sets the profiling level of a database.",
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    ..Command::ROW
};

args! { "profile" => Args {
    level:       Truncated   = "profile",
    slow_ms:     Option<Truncated> = "slowms",
    sample_rate: Option<f64> = "sampleRate",
    filter:      Value<'a>   = "filter",
}}

/// A client that may read the profile may also read its level.
fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    let reads = args.level == Truncated(-1)
        && args.slow_ms.is_none()
        && args.sample_rate.is_none()
        && args.filter.is_nullish();
    Ok(asking.on_database(req.db, Action::EnableProfiler)
        || (reads && asking.on_collection(req.db, "system.profile", Action::Find)))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let profiles = &cx.server.settings.profile;
    if let Some(rate) = args.sample_rate
        && !(0.0..=1.0).contains(&rate)
    {
        bail!(Code::BAD_VALUE, "'sampleRate' must be between 0.0 and 1.0 inclusive");
    }
    let filter = match args.filter {
        Value::Doc(source) => Some(Some(ProfileFilter {
            source: source.to_buf(),
            filter: Filter::parse(source, &mut ParseCx::new())?.normalize(),
        })),
        Value::String("unset") => Some(None),
        value if value.is_nullish() => None,
        _ => bail!(
            Code::BAD_VALUE,
            "Expected an object, or the string 'unset'. Found a {}",
            args.filter.kind().name()
        ),
    };
    out.put("was", profiles.level(req.db));
    out.put("slowms", profiles.slow_ms() as i32);
    out.put("sampleRate", profiles.sample_rate());
    if let Some(before) = profiles.filter(req.db) {
        out.put("filter", &before.source);
        out.put(
            "note",
            "When a filter expression is set, slowms and sampleRate are not used for profiling and \
             slow-query log lines.",
        );
    }
    if let Some(filter) = filter {
        profiles.set_filter(req.db, filter);
    }
    match args.level.0 {
        -1 => {}
        // On the admin database the command changes only the thresholds.
        0 => profiles.set_level(req.db, 0),
        level @ (1 | 2) if req.db != "admin" => {
            let _writing = cx.begin_write("local")?;
            crate::observe::profile_entries::prepare(cx.server, req.db)?;
            profiles.set_level(req.db, level as i32);
        }
        _ => {}
    }
    if let Some(ms) = args.slow_ms {
        profiles.set_slow_ms(ms.0);
    }
    if let Some(rate) = args.sample_rate {
        profiles.set_sample_rate(rate);
    }
    Ok(())
}

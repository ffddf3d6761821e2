//! `setFeatureCompatibilityVersion`: accepts the one version that this server has.

use crate::core::command::prelude::*;

pub(in crate::commands) static SET_FEATURE_COMPATIBILITY_VERSION: Command = Command {
    facts: Facts {
        name: "setFeatureCompatibilityVersion",
        help: "Sets the feature compatibility version.",
        admin_only: true,
        write: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::SetFeatureCompatibilityVersion]),
    run,
    ..Command::ROW
};

args! { "setFeatureCompatibilityVersion" => Args {
    version:     &'a str      = "setFeatureCompatibilityVersion",
    confirm:     Option<bool> = "confirm",
    from_config: Option<bool> = "fromConfigServer",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    if args.confirm != Some(true) {
        bail!(
            Code::Location(7_369_100),
            "Once you have upgraded to {0}, you will not be able to downgrade FCV and binary version \
             without support assistance. Please re-run this command with 'confirm: true' to \
             acknowledge this and continue with the FCV upgrade.",
            args.version
        );
    }
    if args.version != cx.server.fcv() {
        bail!(
            Code::BAD_VALUE,
            "Invalid feature compatibility version value '{}'; expected '{}'",
            args.version,
            cx.server.fcv()
        );
    }
    Ok(())
}

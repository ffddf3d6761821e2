//! `oidcRefreshKeys`: fetches the keys of the identity providers now.

use super::oidc_list_keys::issuers;
use crate::core::command::prelude::*;

pub(in crate::commands) static OIDC_REFRESH_KEYS: Command = Command {
    facts: Facts {
        name: "oidcRefreshKeys",
        help: "Fetches the keys of the identity providers now.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::OidcRefreshKeys]),
    run,
    ..Command::ROW
};

args! { "oidcRefreshKeys" => Args {
    one:     Value<'a>         = "oidcRefreshKeys",
    issuers: Option<Array<'a>> = "identityProviders",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let issuers = args.issuers.map(|list| issuers("oidcRefreshKeys", list)).transpose()?;
    match cx.server.auth.tokens.trust() {
        Some(trust) => trust
            .refresh(issuers.as_deref())
            .map_err(|why| err!(Code::OPERATION_FAILED, "Failed to refresh keys: {why}")),
        None => Ok(()),
    }
}

//! `oidcListKeys`: the keys of the identity providers.

use crate::core::command::prelude::*;

pub(in crate::commands) static OIDC_LIST_KEYS: Command = Command {
    facts: Facts {
        name: "oidcListKeys",
        help: "Lists the keys of the identity providers.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::OidcListKeys]),
    run,
    ..Command::ROW
};

args! { "oidcListKeys" => Args {
    one:     Value<'a>         = "oidcListKeys",
    issuers: Option<Array<'a>> = "identityProviders",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let issuers = args.issuers.map(|list| issuers("oidcListKeys", list)).transpose()?;
    let sets = match cx.server.auth.tokens.trust() {
        Some(trust) => {
            trust.keys(issuers.as_deref()).map_err(|why| err!(Code::BAD_VALUE, "{why}"))?
        }
        None => Vec::new(),
    };
    out.doc("keySets", |out| sets.iter().for_each(|(issuer, keys)| out.put(issuer, keys)));
    Ok(())
}

/// The argument `identityProviders`: issuers.
///
/// # Errors
/// 14 if an element is no string.
pub(super) fn issuers<'a>(command: &str, list: Array<'a>) -> Result<Vec<&'a str>> {
    let text = |value: Value<'a>| {
        value.as_str().ok_or_else(|| {
            err!(
                Code::TYPE_MISMATCH,
                "BSON field '{command}.identityProviders' must be an array of strings"
            )
        })
    };
    list.iter().map(text).collect()
}

//! `$listLocalSessions`: the sessions of this server.

use nagi_store::Namespace;

use super::{OwnStage, check_collectionless};
use crate::commands::crud::aggregate::Args;
use crate::core::command::prelude::*;
use crate::names::UserName;
use crate::session::user_digest;

pub(super) static LIST_LOCAL_SESSIONS: OwnStage =
    OwnStage { name: "$listLocalSessions", access: Some(access), docs, ..OwnStage::ROW };

/// The sessions of other users require a privilege; those of the client's own user do not.
pub(super) fn access(asking: &Asking<'_>, _: &Namespace, spec: Value<'_>) -> bool {
    let spec = spec.as_doc().unwrap_or(Doc::EMPTY);
    let own = |user: Value<'_>| listed_user(user).is_ok_and(|user| asking.is_user(&user));
    let others = match spec.get("users") {
        Value::Array(users) => !users.iter().all(own),
        _ => spec.get("allUsers") == Value::Bool(true),
    };
    match others {
        true => asking.on_cluster(Action::ListSessions),
        false => asking.user.is_some(),
    }
}

args! { "$listLocalSessions" => SessionsSpec {
    all_users: Option<StrictBool> = "allUsers",
    users:     Option<Array<'a>>  = "users",
}}

args! { "$listLocalSessions.users" => ListedUser {
    user: &'a str = "user",
    db:   &'a str = "db",
}}

fn listed_user(value: Value<'_>) -> Result<UserName> {
    let Value::Doc(doc) = value else {
        bail!(
            Code::TYPE_MISMATCH,
            "BSON field '$listLocalSessions.users' is the wrong type '{}', expected type 'object'",
            value.kind().name()
        );
    };
    let listed = ListedUser::parse_doc(doc)?;
    Ok(UserName::new(listed.user, listed.db))
}

fn docs(
    cx: &Context<'_>,
    _: &Request<'_>,
    args: &Args<'_>,
    spec: Value<'_>,
) -> Result<Vec<DocBuf>> {
    check_collectionless("$listLocalSessions", args)?;
    let Value::Doc(spec) = spec else {
        bail!(
            Code::TYPE_MISMATCH,
            "$listLocalSessions options must be specified in an object, but found: {}",
            spec.kind().name()
        );
    };
    let spec = SessionsSpec::parse_doc(spec)?;
    let all = spec.all_users == Some(StrictBool(true));
    if all && spec.users.is_some() {
        bail!(
            Code::UNSUPPORTED_FORMAT,
            "$listLocalSessions may not specify {{allUsers:true}} and {{users:[...]}} at the same time"
        );
    }
    let users = spec.users.map(|users| {
        users.iter().map(|user| Ok(user_digest(&listed_user(user)?))).collect::<Result<Vec<_>>>()
    });
    let users = users.transpose()?;
    let asking = cx.asking();
    let mut docs = Vec::new();
    cx.server.clients.sessions.visit(&mut |session, last_ms, user| {
        let is_listed = match &users {
            Some(users) => users.contains(&session.uid),
            None => all || asking.owns_session(session),
        };
        if is_listed {
            docs.push(DocBuf::build(|w| {
                session.write("_id", w);
                w.put("lastUse", Value::DateTime(last_ms));
                if let Some(user) = user {
                    w.put("user", user.to_string().as_str());
                }
            }));
        }
    });
    Ok(docs)
}

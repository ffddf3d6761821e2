//! `killSessions`, `killAllSessions`, `killAllSessionsByPattern`: end sessions and kill their operations.

use super::common::named;
use crate::core::command::prelude::*;
use crate::names::UserName;
use crate::session::{SessionId, UserDigest, parse_lsid, parse_uid, user_digest};

pub(in crate::commands) static KILL_SESSIONS: Command = Command {
    facts: Facts {
        name: "killSessions",
        help: "Kills sessions with their operations and cursors.",
        ..Facts::ROW
    },
    access: Access::LoggedIn,
    run: some,
    ..Command::ROW
};

pub(in crate::commands) static KILL_ALL_SESSIONS: Command = Command {
    facts: Facts {
        name: "killAllSessions",
        help: "Kills all sessions of users with their operations and cursors.",
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::KillAnySession]),
    run: all,
    ..Command::ROW
};

pub(in crate::commands) static KILL_ALL_SESSIONS_BY_PATTERN: Command = Command {
    facts: Facts {
        name: "killAllSessionsByPattern",
        help: "Kills all sessions that match a pattern with their operations and cursors.",
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::KillAnySession]),
    run: by_pattern,
    ..Command::ROW
};

args! { "killSessions" => Args {
    sessions: Array<'a> = "killSessions",
}}

args! { "killAllSessions" => AllArgs {
    users: Array<'a> = "killAllSessions",
}}

args! { "KillAllSessionsUser" => KillUser {
    user: &'a str = "user",
    db:   &'a str = "db",
}}

args! { "killAllSessionsByPattern" => PatternArgs {
    patterns: Array<'a> = "killAllSessionsByPattern",
}}

args! { "killAllSessionsByPattern.killAllSessionsByPattern" => PatternDoc {
    lsid:  Option<Doc<'a>>   = "lsid",
    uid:   Value<'a>         = "uid",
    users: Option<Array<'a>> = "users",
    roles: Option<Array<'a>> = "roles",
}}

/// The sessions that a command ends.
enum Pattern {
    Session(SessionId),
    /// All sessions of a user.
    User(UserDigest),
    All,
}

/// An empty list means all sessions of the user; all of the server without authorization.
fn some(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    if args.sessions.is_empty() {
        let own = cx.connection.user_digest();
        let pattern = match cx.server.auth.is_enabled() {
            true => Pattern::User(own),
            false => Pattern::All,
        };
        kill(cx, &pattern);
        return Ok(());
    }
    let may_name = Some(Action::KillAnySession);
    for session in named(cx, args.sessions, "killSessions.killSessions", may_name)? {
        kill(cx, &Pattern::Session(session));
    }
    Ok(())
}

fn all(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = AllArgs::parse(req)?;
    if args.users.is_empty() {
        kill(cx, &Pattern::All);
        return Ok(());
    }
    let users = args.users.iter().map(|user| {
        let Value::Doc(user) = user else {
            bail!(
                Code::TYPE_MISMATCH,
                "BSON field 'killAllSessions.killAllSessions' is the wrong type '{}', expected type \
                 'object'",
                user.kind().name()
            );
        };
        let user = KillUser::parse_doc(user)?;
        Ok(Pattern::User(user_digest(&UserName::new(user.user, user.db))))
    });
    let users = users.collect::<Result<Vec<_>>>()?;
    users.iter().for_each(|user| kill(cx, user));
    Ok(())
}

fn by_pattern(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = PatternArgs::parse(req)?;
    if args.patterns.is_empty() {
        kill(cx, &Pattern::All);
        return Ok(());
    }
    let patterns = args.patterns.iter().map(|pattern| parse_pattern(&cx.asking(), pattern));
    let patterns = patterns.collect::<Result<Vec<_>>>()?;
    patterns.iter().for_each(|pattern| kill(cx, pattern));
    Ok(())
}

/// Reads `{lsid: {id, uid}}`, `{uid}` or `{}`, which are all sessions. `users` and `roles` name the users in whose
/// stead a router kills.
fn parse_pattern(asking: &Asking<'_>, value: Value<'_>) -> Result<Pattern> {
    const FIELD: &str = "killAllSessionsByPattern.killAllSessionsByPattern";
    let Value::Doc(doc) = value else {
        bail!(
            Code::TYPE_MISMATCH,
            "BSON field '{FIELD}' is the wrong type '{}', expected type 'object'",
            value.kind().name()
        );
    };
    let doc = PatternDoc::parse_doc(doc)?;
    let impersonates = doc.users.is_some() || doc.roles.is_some();
    if impersonates && !asking.on_cluster(Action::Impersonate) {
        bail!(Code::UNAUTHORIZED, "Not authorized to impersonate in killAllSessionsByPattern");
    }
    let uid = match doc.uid {
        Value::Missing | Value::Null => None,
        uid => Some(parse_uid(uid, &format_args!("{FIELD}.uid"))?),
    };
    let Some(lsid) = doc.lsid else { return Ok(uid.map_or(Pattern::All, Pattern::User)) };
    let given = parse_lsid(Value::Doc(lsid), &format!("{FIELD}.lsid"))?;
    match given.uid {
        Some(uid) => Ok(Pattern::Session(SessionId { id: given.id, uid })),
        None => bail!(
            Code::IDL_FAILED_TO_PARSE,
            "BSON field '{FIELD}.lsid.uid' is missing but a required field"
        ),
    }
}

fn kill(cx: &Context<'_>, pattern: &Pattern) {
    let sessions = &cx.server.clients.sessions;
    match pattern {
        Pattern::Session(session) => end(cx, session),
        Pattern::User(user) => {
            sessions.find(|session| session.uid == *user).iter().for_each(|found| end(cx, found));
        }
        Pattern::All => sessions.find(|_| true).iter().for_each(|found| end(cx, found)),
    }
}

fn end(cx: &Context<'_>, session: &SessionId) {
    cx.server.clients.sessions.end(session);
    cx.server.clients.txn_sessions.end(session);
    cx.server.clients.cursors.end_session(session);
    for op in cx.server.clients.ops.all() {
        let mine = std::sync::Arc::ptr_eq(&op, cx.op);
        if !mine && op.view().is_some_and(|view| view.lsid.as_ref() == Some(session)) {
            op.kill(Code::INTERRUPTED);
        }
    }
}

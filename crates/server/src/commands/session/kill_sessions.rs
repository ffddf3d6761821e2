//! `killSessions`, `killAllSessions`, `killAllSessionsByPattern`: end sessions and kill their operations.

use crate::core::command::prelude::*;
use crate::names::UserName;
use crate::session::{SessionId, parse_lsid};

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

/// An empty list means all sessions of the user; all of the server without authorization.
fn some(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    if args.sessions.is_empty() {
        for (session, _) in cx.server.clients.sessions.all() {
            if cx.asking().owns(cx.server.clients.sessions.owner(&session).as_ref()) {
                end(cx, &session);
            }
        }
        return Ok(());
    }
    for value in args.sessions.iter() {
        let session = parse_lsid(value, "killSessions.killSessions")?;
        if cx.asking().may_kill(&session) {
            end(cx, &session);
        }
    }
    Ok(())
}

fn all(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = AllArgs::parse(req)?;
    if args.users.is_empty() {
        end_all(cx);
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
        Ok(UserName::new(user.user, user.db))
    });
    let users = users.collect::<Result<Vec<_>>>()?;
    for (session, _) in cx.server.clients.sessions.all() {
        if cx.server.clients.sessions.owner(&session).is_some_and(|owner| users.contains(&owner)) {
            end(cx, &session);
        }
    }
    Ok(())
}

fn by_pattern(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = PatternArgs::parse(req)?;
    if args.patterns.is_empty() {
        end_all(cx);
    }
    for pattern in args.patterns.iter() {
        match pattern.as_doc() {
            Some(pattern) if pattern.is_empty() => end_all(cx),
            Some(pattern) if !pattern.get("lsid").is_missing() => {
                let field = "killAllSessionsByPattern.lsid";
                end(cx, &parse_lsid(pattern.get("lsid"), field)?);
            }
            Some(_) => {}
            None => bail!(
                Code::TYPE_MISMATCH,
                "BSON field 'killAllSessionsByPattern.killAllSessionsByPattern' is the wrong type \
                 '{}', expected type 'object'",
                pattern.kind().name()
            ),
        }
    }
    Ok(())
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

fn end_all(cx: &Context<'_>) {
    for (session, _) in cx.server.clients.sessions.all() {
        end(cx, &session);
    }
}

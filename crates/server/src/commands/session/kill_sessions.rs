//! `killSessions`, `killAllSessions`, `killAllSessionsByPattern`: end sessions and kill their operations.

use std::sync::Arc;

use nagi_bson::Binary;

use super::common::named;
use crate::core::command::prelude::*;
use crate::core::peers;
use crate::core::server::Server;
use crate::names::UserName;
use crate::op::Op;
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
        return kill(cx, &[pattern]);
    }
    let may_name = Some(Action::KillAnySession);
    let sessions = named(cx, args.sessions, "killSessions.killSessions", may_name)?;
    kill(cx, &sessions.into_iter().map(Pattern::Session).collect::<Vec<_>>())
}

fn all(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = AllArgs::parse(req)?;
    if args.users.is_empty() {
        return kill(cx, &[Pattern::All]);
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
    kill(cx, &users.collect::<Result<Vec<_>>>()?)
}

fn by_pattern(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = PatternArgs::parse(req)?;
    if args.patterns.is_empty() {
        return kill(cx, &[Pattern::All]);
    }
    let patterns = args.patterns.iter().map(|pattern| parse_pattern(&cx.asking(), pattern));
    kill(cx, &patterns.collect::<Result<Vec<_>>>()?)
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

/// Ends sessions at all servers that share the data: a session that fails over may have operations at several.
///
/// # Errors
/// 6 if one has not answered. Those of the store.
fn kill(cx: &Context<'_>, patterns: &[Pattern]) -> Result<()> {
    patterns.iter().for_each(|pattern| end_all(cx.server, pattern, Some(cx.op)));
    let question = DocBuf::build(|w| {
        w.array("killSessions", |list| patterns.iter().for_each(|one| list.doc(|w| one.write(w))));
    });
    peers::order(cx, question.as_doc()).map(drop)
}

/// The answer to another server that wants sessions ended.
pub(in crate::commands) fn answer(server: &Server, question: Value<'_>) -> DocBuf {
    if let Value::Array(patterns) = question {
        let patterns = patterns.iter().filter_map(|value| Pattern::read(value.as_doc()?));
        patterns.for_each(|pattern| end_all(server, &pattern, None));
    }
    DocBuf::new()
}

impl Pattern {
    fn write(&self, out: &mut DocWriter<'_>) {
        match self {
            Pattern::Session(session) => session.write("lsid", out),
            Pattern::User(digest) => {
                out.put("uid", Value::Binary(Binary { subtype: 0, bytes: digest }));
            }
            Pattern::All => out.put("all", true),
        }
    }

    fn read(doc: Doc<'_>) -> Option<Pattern> {
        let digest = |value| parse_uid(value, &"uid").ok();
        match (doc.get("lsid"), doc.get("uid"), doc.get("all")) {
            (lsid @ Value::Doc(_), ..) => {
                let given = parse_lsid(lsid, "lsid").ok()?;
                Some(Pattern::Session(SessionId { id: given.id, uid: given.uid? }))
            }
            (_, uid @ Value::Binary(_), _) => digest(uid).map(Pattern::User),
            (.., Value::Bool(true)) => Some(Pattern::All),
            _ => None,
        }
    }
}

/// `except`: the operation that ends them.
fn end_all(server: &Server, pattern: &Pattern, except: Option<&Arc<Op>>) {
    let sessions = &server.clients.sessions;
    let found = match pattern {
        Pattern::Session(session) => vec![*session],
        Pattern::User(user) => sessions.find(|session| session.uid == *user),
        Pattern::All => sessions.find(|_| true),
    };
    found.iter().for_each(|session| end(server, session, except));
}

fn end(server: &Server, session: &SessionId, except: Option<&Arc<Op>>) {
    let clients = &server.clients;
    clients.sessions.end(session);
    clients.txn_sessions.end(session);
    clients.cursors.end_session(session);
    for op in clients.ops.all() {
        let is_mine = except.is_some_and(|mine| Arc::ptr_eq(&op, mine));
        if !is_mine && op.view().is_some_and(|view| view.lsid.as_ref() == Some(session)) {
            op.kill(Code::INTERRUPTED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_read_as_they_were_written() {
        let session = SessionId { id: [1; 16], uid: [2; 32] };
        for pattern in [Pattern::Session(session), Pattern::User([3; 32]), Pattern::All] {
            let doc = DocBuf::build(|w| pattern.write(w));
            assert_eq!(Pattern::read(doc.as_doc()), Some(pattern));
        }
        assert_eq!(Pattern::read(Doc::EMPTY), None, "what is not understood ends nothing");
    }
}

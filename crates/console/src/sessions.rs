//! Who uses the console: logins by cookie, by the header of a scraper, or without a name if authorization is off.
//!
//! A session owns connections to the server's core that are logged in as its user, so that its requests may run side by
//! side. They are the same as those of any client: `currentOp` shows them, and they end with the session.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nagi_bson::{Doc, DocBuf};
use nagi_server::{Connection, Server};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::client::{Client, Served};
use crate::refusal::Refusal;

/// The number of sessions. A new one beyond it ends the one that was not used for the longest time.
const SESSIONS_MAX: usize = 64;
/// The number of sessions of one user. A new one beyond it ends the one of this user that was not used for the longest
/// time.
const USER_SESSIONS_MAX: usize = 8;
/// A session ends when it was not used for this long.
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
/// A session ends after this time.
const AGE_MAX: Duration = Duration::from_secs(12 * 3600);
/// The login of a scraper is checked again after this time.
const SCRAPER_AGE_MAX: Duration = Duration::from_secs(5 * 60);
/// Connections that a session keeps for its next request.
const KEPT_MAX: usize = 3;
/// The time that a read has, if its command does not ask for less.
const READ_TIME_MAX: Duration = Duration::from_secs(300);
/// The largest reply of a command.
pub(crate) const REPLY_BYTES_MAX: usize = 4 << 20;

/// Commands after which a connection is not what it was: it has another user, none, half a login, or another client.
const CHANGES_CONNECTION: &[&str] = &[
    "authenticate",
    "getnonce",
    "hello",
    "isMaster",
    "ismaster",
    "logout",
    "saslContinue",
    "saslStart",
];

/// What a browser or a scraper sends to be recognized. Only its digest is kept.
pub(crate) type Token = [u8; 32];

pub(crate) fn token_of(text: &str) -> Token {
    Sha256::digest(text.as_bytes()).into()
}

/// The digits of random or hashed bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A connection for requests that follow each other.
struct Kept {
    connection: Connection,
    served: Arc<Served>,
}

impl Kept {
    fn new(mut connection: Connection) -> Kept {
        let served = Arc::<Served>::default();
        let watched = served.clone();
        connection.set_probe(move || watched.is_there());
        connection.set_read_time_max(READ_TIME_MAX);
        Kept { connection, served }
    }
}

/// A user of the console.
pub(crate) struct Session {
    /// Never runs commands: others are made like it.
    first: Mutex<Connection>,
    /// Name and database of the user.
    user: Option<(String, String)>,
    idle: Mutex<Vec<Kept>>,
    since: Instant,
    used: Mutex<Instant>,
    age_max: Duration,
}

impl Session {
    pub(crate) fn new(connection: Connection, is_scraper: bool) -> Session {
        let now = Instant::now();
        let user = connection.user_name();
        Session {
            user: user.map(|(name, db)| (name.to_owned(), db.to_owned())),
            first: Mutex::new(connection),
            idle: Mutex::default(),
            since: now,
            used: Mutex::new(now),
            age_max: if is_scraper { SCRAPER_AGE_MAX } else { AGE_MAX },
        }
    }

    /// Name and database of the user.
    pub(crate) fn user(&self) -> Option<(&str, &str)> {
        self.user.as_ref().map(|(name, db)| (&**name, &**db))
    }

    /// Runs a command. Its reply may be an error.
    ///
    /// # Errors
    /// If the server admits no connection, the command has no reply, or it is too large.
    pub(crate) fn run(
        &self,
        server: &Arc<Server>,
        db: &str,
        body: Doc<'_>,
    ) -> Result<DocBuf, Refusal> {
        self.run_for(None, server, db, body)
    }

    /// Runs a command of a client: a read ends when the client leaves, as on connections of drivers.
    ///
    /// # Errors
    /// Those of [`Session::run`].
    pub(crate) fn run_for(
        &self,
        client: Option<&Arc<Client>>,
        server: &Arc<Server>,
        db: &str,
        body: Doc<'_>,
    ) -> Result<DocBuf, Refusal> {
        let kept = self.idle.lock().pop();
        let kept = kept.or_else(|| self.first.lock().sibling().map(Kept::new));
        let mut kept =
            kept.ok_or_else(|| Refusal::busy("The server admits no more connections"))?;
        kept.served.set(client.cloned());
        let reply = run_on(server, &mut kept.connection, db, body);
        kept.served.set(None);
        let reply = reply?;
        let is_same = kept.connection.user_name() == self.user();
        let mut idle = self.idle.lock();
        if is_same && !changes_connection(body) && idle.len() < KEPT_MAX {
            idle.push(kept);
        }
        Ok(reply)
    }

    /// Whether the user may read what `serverStatus` tells, which the console's figures are.
    pub(crate) fn may_watch(&self, server: &Arc<Server>) -> Result<(), Refusal> {
        self.may(server, &nagi_bson::doc! { "serverStatus": 1, "none": true })
    }

    /// Whether the user may read the log, whose lines of slow operations the slow shapes sum up.
    pub(crate) fn may_read_log(&self, server: &Arc<Server>) -> Result<(), Refusal> {
        self.may(server, &nagi_bson::doc! { "getLog": "*" })
    }

    /// Refuses a user whose `asked`, a command that reads little, fails.
    fn may(&self, server: &Arc<Server>, asked: &DocBuf) -> Result<(), Refusal> {
        let reply = self.run(server, "admin", asked.as_doc())?;
        match reply.as_doc().get("ok").is_truthy() {
            true => Ok(()),
            false => Err(Refusal::of_reply(hyper::StatusCode::FORBIDDEN, reply.as_doc())),
        }
    }

    /// Refuses a user who may not change the settings of the server.
    ///
    /// # Errors
    /// If the right is missing.
    pub(crate) fn may_control(&self, server: &Arc<Server>) -> Result<(), Refusal> {
        // Without a parameter the command changes nothing: with the right it fails for lack of one. Any other error,
        // also one of a user that was dropped meanwhile, is a refusal.
        let asked = nagi_bson::doc! { "setParameter": 1 };
        let reply = self.run(server, "admin", asked.as_doc())?;
        let code = nagi_bson::number::as_f64(reply.as_doc().get("code"));
        match code == Some(f64::from(nagi_error::Code::INVALID_OPTIONS.0)) {
            true => Ok(()),
            false => Err(Refusal::of_reply(hyper::StatusCode::FORBIDDEN, reply.as_doc())),
        }
    }

    /// Whether the user still exists with the password by which it logged in. Costs little unless users or roles have
    /// changed.
    ///
    /// # Errors
    /// If the users cannot be read.
    fn is_proved(&self) -> Result<bool, Refusal> {
        let mut first = self.first.lock();
        let is_proved = first.is_login_proved();
        is_proved.map_err(|error| Refusal::busy(error.message().to_owned()))
    }

    fn has_ended(&self, now: Instant) -> bool {
        now - self.since > self.age_max || now - *self.used.lock() > IDLE_MAX
    }
}

fn changes_connection(body: Doc<'_>) -> bool {
    body.first().is_some_and(|first| CHANGES_CONNECTION.contains(&first.name()))
}

/// Runs a command on a connection.
pub(crate) fn run_on(
    server: &Arc<Server>,
    connection: &mut Connection,
    db: &str,
    body: Doc<'_>,
) -> Result<DocBuf, Refusal> {
    let mut out = Vec::new();
    if !server.run_command(connection, db, body, None, &mut out) {
        return Err(Refusal::busy("The command closed its connection without a reply"));
    }
    if out.len() > REPLY_BYTES_MAX {
        return Err(Refusal::new(
            hyper::StatusCode::PAYLOAD_TOO_LARGE,
            nagi_error::Code::BSON_OBJECT_TOO_LARGE,
            "The reply is larger than 4 MiB: ask for fewer documents, or for fewer fields",
        ));
    }
    DocBuf::from_bytes(out).map_err(|error| Refusal::busy(format!("Invalid reply: {error}")))
}

/// Removes the session that was not used for the longest time, of those that count.
fn remove_oldest(all: &mut HashMap<Token, Arc<Session>>, counts: impl Fn(&Session) -> bool) {
    let counted = all.iter().filter(|(_, session)| counts(session));
    let oldest = counted.min_by_key(|(_, session)| *session.used.lock()).map(|(token, _)| *token);
    if let Some(token) = oldest {
        all.remove(&token);
    }
}

/// All sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    by_token: Mutex<HashMap<Token, Arc<Session>>>,
    /// Everyone, without authorization.
    anyone: Mutex<Option<Arc<Session>>>,
}

impl Sessions {
    /// The session of a token, if it has not ended. Counts as a use of it.
    ///
    /// # Errors
    /// If the users have changed, and cannot be read.
    pub(crate) fn find(&self, token: &Token) -> Result<Option<Arc<Session>>, Refusal> {
        let now = Instant::now();
        let Some(session) = self.by_token.lock().get(token).cloned() else { return Ok(None) };
        // Without the lock: it may read users.
        if session.has_ended(now) || !session.is_proved()? {
            self.end(token, &session);
            return Ok(None);
        }
        *session.used.lock() = now;
        Ok(Some(session))
    }

    /// Removes a session, unless its token has another one by now.
    fn end(&self, token: &Token, session: &Arc<Session>) {
        let mut all = self.by_token.lock();
        if all.get(token).is_some_and(|found| Arc::ptr_eq(found, session)) {
            all.remove(token);
        }
    }

    pub(crate) fn add(&self, token: Token, session: Arc<Session>) {
        let now = Instant::now();
        let mut all = self.by_token.lock();
        all.retain(|_, session| !session.has_ended(now));
        let user = session.user();
        let own = all.values().filter(|other| other.user() == user).count();
        if own >= USER_SESSIONS_MAX {
            remove_oldest(&mut all, |session| session.user() == user);
        } else if all.len() >= SESSIONS_MAX {
            remove_oldest(&mut all, |_| true);
        }
        all.insert(token, session);
    }

    /// Whether there is a session. No use of it.
    pub(crate) fn has(&self, token: &Token) -> bool {
        self.by_token.lock().contains_key(token)
    }

    /// The user of a session. No use of it.
    pub(crate) fn user(&self, token: &Token) -> Option<(String, String)> {
        self.by_token.lock().get(token)?.user.clone()
    }

    pub(crate) fn remove(&self, token: &Token) {
        self.by_token.lock().remove(token);
    }

    /// Ends what was not used for long, and logins that no longer count.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        self.by_token.lock().retain(|_, session| !session.has_ended(now));
        let all: Vec<_> =
            self.by_token.lock().iter().map(|(token, session)| (*token, session.clone())).collect();
        for (token, session) in all {
            // Users that cannot be read now are no reason.
            if session.is_proved() == Ok(false) {
                self.end(&token, &session);
            }
        }
    }

    /// The session of everyone, which `connect` begins.
    pub(crate) fn anyone(
        &self,
        connect: impl FnOnce() -> Result<Connection, Refusal>,
    ) -> Result<Arc<Session>, Refusal> {
        let mut anyone = self.anyone.lock();
        if let Some(session) = &*anyone {
            return Ok(session.clone());
        }
        let session = Arc::new(Session::new(connect()?, false));
        *anyone = Some(session.clone());
        Ok(session)
    }
}

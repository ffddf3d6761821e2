//! Who uses the console: logins by cookie, by the header of a scraper, or without a name if authorization is off.
//!
//! A session owns connections to the server's core that are logged in as its user, so that its requests may run side by
//! side. They are the same as those of any client: `currentOp` shows them, and they end with the session.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nagi_bson::{Doc, DocBuf};
use nagi_server::{Connection, Server};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::refusal::Refusal;

/// The number of sessions. A new one beyond it ends the one that was not used for the longest time.
const SESSIONS_MAX: usize = 64;
/// A session ends when it was not used for this long.
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
/// A session ends after this time.
const AGE_MAX: Duration = Duration::from_secs(12 * 3600);
/// The login of a scraper is checked again after this time.
const SCRAPER_AGE_MAX: Duration = Duration::from_secs(5 * 60);
/// Connections that a session keeps for its next request.
const KEPT_MAX: usize = 3;
/// The largest reply of a command.
pub(crate) const REPLY_BYTES_MAX: usize = 4 << 20;

/// What a browser or a scraper sends to be recognized. Only its digest is kept.
pub(crate) type Token = [u8; 32];

pub(crate) fn token_of(text: &str) -> Token {
    Sha256::digest(text.as_bytes()).into()
}

/// A user of the console.
pub(crate) struct Session {
    /// Never runs commands: others are made like it.
    first: Mutex<Connection>,
    idle: Mutex<Vec<Connection>>,
    since: Instant,
    used: Mutex<Instant>,
    age_max: Duration,
}

impl Session {
    pub(crate) fn new(connection: Connection, is_scraper: bool) -> Session {
        let now = Instant::now();
        Session {
            first: Mutex::new(connection),
            idle: Mutex::default(),
            since: now,
            used: Mutex::new(now),
            age_max: if is_scraper { SCRAPER_AGE_MAX } else { AGE_MAX },
        }
    }

    /// Name and database of the user.
    pub(crate) fn user(&self) -> Option<(String, String)> {
        let first = self.first.lock();
        first.user_name().map(|(name, db)| (name.to_owned(), db.to_owned()))
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
        let kept = self.idle.lock().pop();
        let connection = kept.or_else(|| self.first.lock().sibling());
        let mut connection =
            connection.ok_or_else(|| Refusal::busy("The server admits no more connections"))?;
        let reply = run_on(server, &mut connection, db, body)?;
        let mut idle = self.idle.lock();
        if idle.len() < KEPT_MAX {
            idle.push(connection);
        }
        Ok(reply)
    }

    /// Whether the user may read what `serverStatus` tells, which the console's figures are.
    pub(crate) fn may_watch(&self, server: &Arc<Server>) -> Result<(), Refusal> {
        let asked = nagi_bson::doc! { "serverStatus": 1, "none": true };
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

    fn has_ended(&self, now: Instant) -> bool {
        now - self.since > self.age_max || now - *self.used.lock() > IDLE_MAX
    }
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

/// All sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    by_token: Mutex<HashMap<Token, Arc<Session>>>,
    /// Everyone, without authorization.
    anyone: Mutex<Option<Arc<Session>>>,
}

impl Sessions {
    /// The session of a token, if it has not ended. Counts as a use of it.
    pub(crate) fn find(&self, token: &Token) -> Option<Arc<Session>> {
        let now = Instant::now();
        let mut all = self.by_token.lock();
        let session = all.get(token)?.clone();
        if session.has_ended(now) {
            all.remove(token);
            return None;
        }
        *session.used.lock() = now;
        Some(session)
    }

    pub(crate) fn add(&self, token: Token, session: Arc<Session>) {
        let now = Instant::now();
        let mut all = self.by_token.lock();
        all.retain(|_, session| !session.has_ended(now));
        if all.len() >= SESSIONS_MAX {
            let oldest = all.iter().min_by_key(|(_, session)| *session.used.lock());
            if let Some(token) = oldest.map(|(token, _)| *token) {
                all.remove(&token);
            }
        }
        all.insert(token, session);
    }

    pub(crate) fn remove(&self, token: &Token) {
        self.by_token.lock().remove(token);
    }

    /// Ends what was not used for long.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        self.by_token.lock().retain(|_, session| !session.has_ended(now));
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

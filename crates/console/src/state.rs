//! What all requests share.

use std::sync::Arc;
use std::time::Duration;

use nagi_bson::{DocBuf, json};
use nagi_server::{Networks, Server};
use tokio::sync::{Semaphore, broadcast};
use zeroize::Zeroizing;

use crate::activity::Activity;
use crate::alerts;
use crate::asked::Asked;
use crate::event::Event;
use crate::growth::Growth;
use crate::guard::Names;
use crate::history::History;
use crate::login::{self, Credentials};
use crate::login_turn::Login;
use crate::places::{Place, Places};
use crate::refusal::Refusal;
use crate::sessions::{Session, Sessions, hex, token_of};
use crate::streams::Streams;
use crate::visitors::{self, CONNECTIONS_MAX};

/// Logins that are tried at the same time, of which one user at one address has half. Each takes the time of its
/// hashes, and a refused one keeps its place for [`REFUSED_KEEPS`].
const LOGINS_MAX: usize = 8;
/// The same for users of a directory: it may answer late, which is not to delay the logins of others.
const DIRECTORY_LOGINS_MAX: usize = 4;
/// A refused login keeps its place for this time, whether or not its client waits: so 16 wrong passwords a second
/// are hashed at most, and 8 of one user from one address, however many connections try.
pub(crate) const REFUSED_KEEPS: Duration = Duration::from_millis(500);
/// Logins of one user from one address that wait for their turn. The last one of them has it within [`WAIT_MAX`] if all
/// others are refused: each place takes two in a second. Other users have places among the connections.
const LOGINS_WAITING_MAX: usize = 48;
const _: () = assert!(LOGINS_WAITING_MAX + LOGINS_MAX / 2 < CONNECTIONS_MAX);
const _: () = assert!(
    (LOGINS_WAITING_MAX / (LOGINS_MAX / 2)) as u128 * REFUSED_KEEPS.as_millis()
        < WAIT_MAX.as_millis()
);
/// Commands that run at the same time, of which one user has half.
const COMMANDS_MAX: usize = 8;
/// Other requests that run at the same time. They take milliseconds.
const OTHERS_MAX: usize = 8;
pub(crate) const PLACES_MAX: usize = LOGINS_MAX + DIRECTORY_LOGINS_MAX + COMMANDS_MAX + OTHERS_MAX;
// Requests that run keep their connections: there are others that give way.
const _: () = assert!(PLACES_MAX < CONNECTIONS_MAX);
/// Commands of one user that wait for their turn: twice its share.
const WAITING_MAX: usize = 8;
/// Other requests that wait: as many as there are connections, since they soon have their turn.
const OTHERS_WAITING_MAX: usize = CONNECTIONS_MAX;
/// The time that a request waits for its turn.
const WAIT_MAX: Duration = Duration::from_secs(15);
/// The large replies that have not been sent yet, all together.
const REPLIES_BYTES_MAX: usize = 64 << 20;
/// Replies are counted in units of so many bytes.
pub(crate) const REPLY_UNIT: usize = 1024;

/// The state of the console.
pub(crate) struct State {
    pub(crate) server: Arc<Server>,
    pub(crate) names: Names,
    /// `net.ipAllowlist`.
    pub(crate) allowed: Option<Networks>,
    /// The name of the cookie. Ports share the cookies of their host.
    pub(crate) cookie: String,
    pub(crate) about: About,
    pub(crate) history: History,
    pub(crate) growth: Growth,
    pub(crate) activity: Activity,
    pub(crate) events: broadcast::Sender<Event>,
    /// `None`: alerts are off.
    pub(crate) alerts: Option<Arc<alerts::Watch>>,
    pub(crate) sessions: Sessions,
    logins: Arc<Places>,
    directory_logins: Arc<Places>,
    commands: Arc<Places>,
    others: Arc<Places>,
    /// Units of large replies.
    pub(crate) replies: Arc<Semaphore>,
    pub(crate) streams: Arc<Streams>,
}

/// What does not change while the server runs.
#[derive(Clone)]
pub struct About {
    /// The version of the program.
    pub version: String,
    /// The engine's name: `rocksdb`, `lmdb`, `mmapv1` or `inMemory`.
    pub storage_engine: String,
    /// Checks the machine.
    pub doctor: Doctor,
}

/// Returns the report of `nagi doctor --quick --json`; takes milliseconds.
pub type Doctor = Arc<dyn Fn() -> DocBuf + Send + Sync>;

impl State {
    pub(crate) fn new(
        server: Arc<Server>,
        port: u16,
        about: About,
        names: Names,
        allowed: Option<Networks>,
        alerts: Option<Arc<alerts::Watch>>,
    ) -> State {
        State {
            server,
            names,
            allowed,
            cookie: format!("nagi_console_{port}"),
            about,
            history: History::default(),
            growth: Growth::default(),
            activity: Activity::default(),
            events: broadcast::Sender::new(32),
            alerts,
            sessions: Sessions::default(),
            logins: login_places(LOGINS_MAX),
            directory_logins: login_places(DIRECTORY_LOGINS_MAX),
            commands: Places::new(COMMANDS_MAX, COMMANDS_MAX / 2, WAITING_MAX, WAIT_MAX),
            others: Places::new(OTHERS_MAX, OTHERS_MAX, OTHERS_WAITING_MAX, WAIT_MAX),
            replies: Arc::new(Semaphore::new(REPLIES_BYTES_MAX / REPLY_UNIT)),
            streams: Arc::default(),
        }
    }

    /// Waits for the turn of a request. Commands and logins may take long, so they have places of their own.
    ///
    /// # Errors
    /// If its turn does not come in time, or too many requests of its client wait.
    pub(crate) async fn place(&self, asked: &Asked) -> Result<Place, Refusal> {
        let (places, client) = match &asked.login {
            Some(login) if login.is_external => (&self.directory_logins, hex(&login.of)),
            Some(login) => (&self.logins, hex(&login.of)),
            None if asked.path == "/api/command" => (&self.commands, self.owner(asked)),
            None => (&self.others, String::new()),
        };
        places.take(&client).await.ok_or_else(|| {
            let status = hyper::StatusCode::TOO_MANY_REQUESTS;
            let text = "Too many requests run: try again in a moment";
            Refusal::new(status, nagi_error::Code::OPERATION_FAILED, text)
        })
    }

    /// The user of a request with a blank, as no address has one; `None` without a login.
    fn user(&self, asked: &Asked) -> Option<String> {
        let (name, db) = self.sessions.user(&token_of(asked.cookie(&self.cookie)?))?;
        Some(format!("user {db}.{name}"))
    }

    /// Whose share a stream or a command takes: its user's, or its address's.
    pub(crate) fn owner(&self, asked: &Asked) -> String {
        self.user(asked).unwrap_or_else(|| visitors::source(asked.peer.ip()).to_string())
    }

    /// Whether a request is that of a user who has logged in. It may be refused nevertheless.
    pub(crate) fn knows(&self, asked: &Asked) -> bool {
        let header = asked.header(hyper::header::AUTHORIZATION);
        let mut texts = asked.cookie(&self.cookie).into_iter().chain(header);
        texts.any(|text| self.sessions.has(&token_of(text)))
    }

    /// The login that a request tries: of a browser, or of a scraper that is not known yet.
    pub(crate) fn login(&self, asked: &Asked) -> Option<Login> {
        let with = match asked.path.as_str() {
            "/api/login" => login::credentials(asked).ok(),
            "/metrics" if self.server.requires_login() => {
                let header = asked.header(hyper::header::AUTHORIZATION)?;
                if self.sessions.has(&token_of(header)) {
                    return None;
                }
                basic(header).ok()
            }
            _ => return None,
        };
        let user = with.as_ref().map(|with| (&*with.user, &*with.db));
        Some(Login::new(asked.peer.ip(), user))
    }

    /// The session of a request.
    ///
    /// # Errors
    /// If its client must log in first.
    pub(crate) fn session(&self, asked: &Asked) -> Result<Arc<Session>, Refusal> {
        let known = asked.cookie(&self.cookie).map(|text| self.sessions.find(&token_of(text)));
        match known.transpose()?.flatten() {
            Some(session) => Ok(session),
            None if self.server.requires_login() => Err(Refusal::login_required()),
            None => self.sessions.anyone(|| login::connect(&self.server, asked.peer, asked.local)),
        }
    }

    /// The session of a scraper, which sends name and password with each request; without them as [`State::session`].
    ///
    /// # Errors
    /// If the login is refused.
    pub(crate) fn scraper(&self, asked: &Asked) -> Result<Arc<Session>, Refusal> {
        let header = asked.header(hyper::header::AUTHORIZATION);
        let Some(header) = header.filter(|_| self.server.requires_login()) else {
            return self.session(asked);
        };
        let token = token_of(header);
        if let Some(session) = self.sessions.find(&token)? {
            return Ok(session);
        }
        if asked.login.is_none() {
            // Its login has ended meanwhile: as any other it waits for its turn.
            return Err(Refusal::login_ended());
        }
        let session = self.log_in(asked, &basic(header)?, true)?;
        self.sessions.add(token, session.clone());
        Ok(session)
    }

    /// Logs in.
    ///
    /// # Errors
    /// If the server refuses.
    pub(crate) fn log_in(
        &self,
        asked: &Asked,
        with: &Credentials,
        is_scraper: bool,
    ) -> Result<Arc<Session>, Refusal> {
        let mut connection = login::connect(&self.server, asked.peer, asked.local)?;
        login::log_in(&self.server, &mut connection, with)?;
        Ok(Arc::new(Session::new(connection, is_scraper)))
    }
}

fn login_places(count: usize) -> Arc<Places> {
    Places::new(count, count / 2, LOGINS_WAITING_MAX, WAIT_MAX)
}

/// The user of a header `Authorization: Basic`. The name may be `db/user`; without a database it is `admin`.
fn basic(header: &str) -> Result<Credentials, Refusal> {
    let wrong =
        || Refusal::bad_request("The header 'authorization' is not 'Basic' with user and password");
    let coded = header.strip_prefix("Basic ").ok_or_else(wrong)?;
    let bytes = Zeroizing::new(json::base64_decode(coded.trim()).ok_or_else(wrong)?);
    let text = std::str::from_utf8(&bytes).map_err(|_| wrong())?;
    let (user, password) = text.split_once(':').ok_or_else(wrong)?;
    let (db, user) = user.split_once('/').unwrap_or(("admin", user));
    let password = Zeroizing::new(password.to_owned());
    Ok(Credentials { user: user.to_owned(), password, db: db.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_the_header() {
        let parsed =
            |header: &str| basic(header).ok().map(|c| (c.db, c.user, c.password.to_string()));
        let own = |db: &str, user: &str, password: &str| {
            Some((db.to_owned(), user.to_owned(), password.to_owned()))
        };
        assert_eq!(parsed("Basic YW5uOnNlOmNyZXQ="), own("admin", "ann", "se:cret"));
        assert_eq!(parsed("Basic c2hvcC9hbm46"), own("shop", "ann", ""));
        for bad in ["", "Basic", "Basic !", "Basic YW5u", "Bearer YW5uOnNlY3JldA=="] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }
}

//! The server's state of one client connection: the client, its login, negotiated properties, reused buffers.
//!
//! `net` owns the [`Connection`], and its thread is the only one that uses it. Dropping it deregisters the connection.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use nagi_bson::DocBuf;
use nagi_error::{Code, Result};
use nagi_store::{Namespace, Store};

use crate::core::server::Server;
use crate::message_memory::{FREE_BYTES, MemoryCharge};
use crate::op::{ClientMetadata, Op};
use crate::session::{NO_USER, SessionId, UserDigest};
use crate::transport_security::TlsPeer;
use crate::{auth::sasl::Conversation, core::login::Login, names::UserName};

/// The client's end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// "127.0.0.1:50123", or "anonymous unix socket".
    pub address: String,
    /// True if the client is connected through a Unix socket.
    pub unix_socket: bool,
    /// The server's address that the client connected to, if it has one.
    pub local: Option<IpAddr>,
}

impl Peer {
    /// The client's address; `None` on a Unix socket.
    pub fn ip(&self) -> Option<IpAddr> {
        self.address.parse::<SocketAddr>().ok().map(|address| address.ip().to_canonical())
    }
}

/// The server's side of a connection. Dropping it deregisters the connection.
pub struct Connection {
    pub(crate) server: Arc<Server>,
    /// A store handle of its own, through which the store attributes commits to this client.
    pub(crate) store: Arc<Store>,
    pub(crate) id: i64,
    pub(crate) peer: Peer,
    pub(crate) op: Arc<Op>,
    /// What the TLS handshake found out; `None` without TLS.
    pub(crate) tls: Option<TlsPeer>,
    pub(crate) client: Option<Arc<ClientMetadata>>,
    pub(crate) hello_seen: bool,
    /// The login; `None` before the client has logged in.
    pub(crate) login: Option<Login>,
    /// A SASL conversation in progress.
    pub(crate) conversation: Option<Box<Conversation>>,
    /// The outcome of the last legacy write, for getLastError.
    pub(crate) last_write: LastWrite,
    pub(crate) stream: Option<Stream>,
    /// The decompressed bytes of the current message.
    pub(crate) inflated: Vec<u8>,
    /// The reply before compression.
    pub(crate) plain: Vec<u8>,
    pub(crate) next_reply_id: i32,
    /// The buffer of a record read by `_id`.
    pub(crate) record: Vec<u8>,
    /// The memory charge of the connection and its current request.
    pub(crate) charge: MemoryCharge,
    /// The namespace of the previous request: most connections keep using the same one.
    last_namespace: Option<Namespace>,
    /// The session whose use was recorded last.
    noted_session: Option<NotedSession>,
    /// The time limit of reads and waits that ask for none, or for more.
    pub(crate) read_time_max: Option<Duration>,
    /// The time for which the current request was delayed on purpose.
    pub(crate) paused_micros: u64,
    /// See [`Connection::leave_delays_to_caller`].
    pub(crate) leaves_delays: bool,
    pub(crate) refusal_delay: Duration,
}

/// A recorded use of a session.
struct NotedSession {
    id: SessionId,
    at_ms: i64,
    /// The number of sessions that had ended or expired by then.
    ended: u64,
}

/// The minimum interval between two recorded uses of a session; sessions expire after minutes.
const SESSION_NOTED_MS: i64 = 1000;

/// An exhaust stream: replies that follow each other without further requests.
pub(crate) struct Stream {
    /// The request's frame (decompressed).
    pub(crate) frame: Vec<u8>,
    /// The id of the previous reply, which the next reply names as the message it responds to.
    pub(crate) previous_reply_id: i32,
    /// The compressor of the replies; 0 means none.
    pub(crate) compressor: u8,
}

/// The outcome that getLastError reports.
#[derive(Debug, Default)]
pub(crate) struct LastWrite {
    pub(crate) error: Option<(i32, String)>,
    pub(crate) count: i64,
    pub(crate) updated_existing: Option<bool>,
    /// `{_id: ...}` of an upserted document.
    pub(crate) upserted: Option<DocBuf>,
}

impl LastWrite {
    pub(crate) fn clear(&mut self) {
        if self.error.is_some() || self.upserted.is_some() {
            *self = LastWrite::default();
        }
        self.count = 0;
        self.updated_existing = None;
    }
}

impl Connection {
    /// The number in "connN" of the log.
    pub fn id(&self) -> i64 {
        self.id
    }

    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Sets the function that checks if the peer is still connected. A running read calls it every few milliseconds on
    /// the connection's own thread, and is cancelled if the peer has disconnected.
    pub fn set_probe(&mut self, is_there: impl Fn() -> bool + Send + Sync + 'static) {
        self.op.set_probe(Box::new(is_there));
    }

    /// Limits the time of reads, and of waits for changes of the topology, as `maxTimeMS` does, also for requests
    /// that ask for more or for no limit.
    pub fn set_read_time_max(&mut self, time: Duration) {
        self.read_time_max = Some(time);
    }

    /// Charges the memory of TLS to the budget. Returns false if there is none.
    pub fn charge_tls(&mut self) -> bool {
        self.charge.charge_tls(self.server.budget())
    }

    /// Records the peer of a handshake that succeeded; `logged`: its version is configured to be logged.
    pub fn secured(&mut self, peer: TlsPeer, logged: bool) {
        if logged {
            log::info!(target: "NETWORK", id = 23218, tlsVersion = peer.version,
                remoteHost = self.peer.address.as_str(); "Accepted connection with TLS");
        }
        self.tls = Some(peer);
    }

    /// Logs why net closes the connection during its TLS handshake, or for the lack of one.
    pub fn refuse_handshake(&self, reason: &str) {
        let attr = DocBuf::build(|attr| {
            attr.doc("error", |error| {
                error.put("code", Code::SSL_HANDSHAKE_FAILED.0);
                error.put("codeName", &*Code::SSL_HANDSHAKE_FAILED.name());
                error.put("errmsg", reason);
            });
            attr.put("remote", self.peer.address.as_str());
            attr.put("connectionId", self.id);
        });
        let text = "Error receiving request from client. Ending connection from remote";
        self.server.log.write(
            crate::logging::Severity::Info,
            "NETWORK",
            22988,
            text,
            attr.as_doc(),
        );
    }

    /// Returns true if the connection has TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Frees the memory of buffers that a large request left behind; net calls it when the connection is idle.
    pub fn shrink(&mut self) {
        for buffer in [&mut self.inflated, &mut self.plain, &mut self.record] {
            buffer.clear();
            buffer.shrink_to(0);
        }
    }

    /// Charges the buffers of a complete reply, if they are large, until it is sent.
    pub(crate) fn settle_reply(&mut self, out: &Vec<u8>) {
        if self.plain.capacity() > FREE_BYTES {
            self.plain = Vec::new();
        }
        if out.capacity() > FREE_BYTES {
            self.charge.settle_reply(out.capacity());
        }
    }

    /// Returns true if the reply may be compressed: a large one only if there is memory for the result as well. Clients
    /// accept replies that are not compressed.
    pub(crate) fn may_compress(&mut self, out: &Vec<u8>) -> bool {
        let bound = out.len() + out.len() / 64 + FREE_BYTES;
        out.len() <= FREE_BYTES || self.charge.covers(out.capacity() + bound)
    }

    /// Releases the charge of the reply and the buffers that grew large; net calls it once the reply is sent.
    pub fn reply_sent(&mut self) {
        for buffer in [&mut self.inflated, &mut self.plain, &mut self.record] {
            if buffer.capacity() > FREE_BYTES {
                *buffer = Vec::new();
            }
        }
        self.charge.reply_sent();
    }

    /// The server that the connection belongs to.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    pub(crate) fn new(
        server: Arc<Server>,
        id: i64,
        peer: Peer,
        op: Arc<Op>,
        charge: MemoryCharge,
    ) -> Connection {
        let store = server.store.for_client();
        op.set_waits(Arc::clone(store.client().waits()));
        if server.audit.is_some() {
            store.client().note_catalog_changes();
        }
        Connection {
            store,
            server,
            id,
            peer,
            op,
            tls: None,
            client: None,
            hello_seen: false,
            login: None,
            conversation: None,
            last_write: LastWrite::default(),
            stream: None,
            inflated: Vec::new(),
            plain: Vec::new(),
            next_reply_id: 0,
            record: Vec::new(),
            charge,
            last_namespace: None,
            noted_session: None,
            read_time_max: None,
            paused_micros: 0,
            leaves_delays: false,
            refusal_delay: Duration::ZERO,
        }
    }

    /// Another connection of the same client with the same login, for a client whose requests may run in parallel;
    /// `None` if no more connections are admitted.
    pub fn sibling(&self) -> Option<Connection> {
        let mut other = self.server.connect(self.peer.clone())?;
        if let Some(client) = &self.client {
            other.op.set_client(client.clone());
        }
        other.client = self.client.clone();
        other.hello_seen = self.hello_seen;
        other.login = self.login.clone();
        other.op.set_user(other.login.as_ref().map(|login| login.user.name.clone()));
        Some(other)
    }

    /// The name and database of the logged-in user.
    pub fn user_name(&self) -> Option<(&str, &str)> {
        self.login.as_ref().map(|login| (&*login.user.name.name, &*login.user.name.db))
    }

    /// The caller delays the refusals of failed logins, by [`Connection::take_refusal_delay`], and bounds how many are
    /// tried: the connection neither waits itself nor counts among those of its address that wait.
    pub fn leave_delays_to_caller(&mut self) {
        self.leaves_delays = true;
    }

    /// How long the refusal of the last failed login must wait before the client sees it.
    pub fn take_refusal_delay(&mut self) -> Duration {
        std::mem::take(&mut self.refusal_delay)
    }

    /// Returns true if the logged-in user still exists with the password by which it logged in. Clients' connections
    /// survive a new password, as in MongoDB; for a login that is kept on behalf of somebody, who shows no password
    /// again, it is the end. Costs two loads unless users or roles have changed since the last request.
    ///
    /// # Errors
    /// Those of reading users and roles.
    pub fn is_login_proved(&mut self) -> Result<bool> {
        super::login::is_proved(self)
    }

    /// The user that owns the cursors which the connection opens; `None` without authorization.
    pub(crate) fn user(&self) -> Option<&UserName> {
        let enabled = self.server.auth.is_enabled();
        self.login.as_ref().filter(|_| enabled).map(|login| &login.user.name)
    }

    /// The digest of the user in the identity of its sessions.
    pub(crate) fn user_digest(&self) -> UserDigest {
        match &self.login {
            Some(login) if self.server.auth.is_enabled() => login.digest,
            _ => NO_USER,
        }
    }

    /// Records a use of a session. A connection that uses the same session repeatedly records it only once a second,
    /// unless sessions have ended meanwhile. Most of its requests therefore do not write to state that other
    /// connections share.
    ///
    /// # Errors
    /// Those of [`crate::session::Sessions::touch`].
    pub(crate) fn touch_session(&mut self, id: &SessionId, now_ms: i64) -> Result<()> {
        let sessions = &self.server.clients.sessions;
        let ended = sessions.ended_count();
        let same = |noted: &NotedSession| {
            noted.id == *id
                && noted.ended == ended
                && (0..SESSION_NOTED_MS).contains(&(now_ms - noted.at_ms))
        };
        if self.noted_session.as_ref().is_some_and(same) {
            return Ok(());
        }
        let user = self.user().filter(|_| id.uid == self.user_digest());
        sessions.touch(id, now_ms, user)?;
        self.noted_session = Some(NotedSession { id: *id, at_ms: now_ms, ended });
        Ok(())
    }

    /// Returns the checked namespace; does not allocate if it is the cached one.
    pub(crate) fn namespace(&mut self, db: &str, collection: &str) -> Result<Namespace> {
        match self.last_namespace.take() {
            Some(ns) if ns.database() == db && ns.collection() == collection => Ok(ns),
            _ => Namespace::new(db, collection),
        }
    }

    /// Caches a namespace for the next request.
    pub(crate) fn keep_namespace(&mut self, ns: Namespace) {
        self.last_namespace = Some(ns);
    }

    pub(crate) fn reply_id(&mut self) -> i32 {
        self.next_reply_id = self.next_reply_id.wrapping_add(1) & i32::MAX;
        self.next_reply_id
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.server.disconnected(self);
    }
}

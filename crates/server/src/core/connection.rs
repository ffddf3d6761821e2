//! One client connection as the server knows it: who, what it negotiated, what it did last.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use nagi_bson::DocBuf;
use nagi_error::Result;
use nagi_store::{Namespace, Store};

use crate::core::server::Server;
use crate::op::{ClientMetadata, Op};
use crate::room::{FREE_BYTES, Room};
use crate::session::SessionId;
use crate::{auth::sasl::Conversation, core::login::Login, names::UserName};

/// Who connects.
#[derive(Debug, Clone)]
pub struct Peer {
    /// "127.0.0.1:50123", or "anonymous unix socket".
    pub address: String,
    /// Comes over a Unix socket.
    pub unix_socket: bool,
    /// The server's address that it connected to, if it has one.
    pub local: Option<IpAddr>,
}

impl Peer {
    /// The client's address; none on a Unix socket.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        self.address.parse::<SocketAddr>().ok().map(|address| address.ip().to_canonical())
    }
}

/// The server's side of a connection. Dropping it ends the connection's life in the server.
pub struct Connection {
    pub(crate) server: Arc<Server>,
    /// Its own handle: commits through it are known to be this client's.
    pub(crate) store: Arc<Store>,
    pub(crate) id: i64,
    pub(crate) peer: Peer,
    pub(crate) op: Arc<Op>,
    pub(crate) client: Option<Arc<ClientMetadata>>,
    pub(crate) hello_seen: bool,
    /// Who it is; `None` before it has logged in.
    pub(crate) login: Option<Login>,
    /// A login under way.
    pub(crate) conversation: Option<Box<Conversation>>,
    /// Outcome of the newest legacy write, for getLastError.
    pub(crate) last_write: LastWrite,
    pub(crate) stream: Option<Stream>,
    /// Decompressed bytes of the current message.
    pub(crate) inflated: Vec<u8>,
    /// The plain reply of a compressed message.
    pub(crate) plain: Vec<u8>,
    pub(crate) next_reply_id: i32,
    /// A record read by `_id`.
    pub(crate) record: Vec<u8>,
    /// What its memory is charged to.
    pub(crate) room: Room,
    /// The namespace of the request before: most connections stay with one.
    last_namespace: Option<Namespace>,
    /// The session that was noted last.
    noted_session: Option<NotedSession>,
}

/// A session's last use that was noted through a connection.
struct NotedSession {
    id: SessionId,
    user: Option<UserName>,
    at_ms: i64,
    /// How many sessions had ended by then.
    ended: u64,
}

/// A use is not noted again for so long: sessions live for minutes.
const SESSION_NOTED_MS: i64 = 1000;

/// A stream of replies that the client asked for once.
pub(crate) struct Stream {
    /// The request's frame (decompressed).
    pub(crate) frame: Vec<u8>,
    /// The id of the reply before: the next one answers it.
    pub(crate) previous_reply_id: i32,
    /// Compressor of the replies, zero for none.
    pub(crate) compressor: u8,
}

/// What getLastError reports.
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

    /// Tells how to find out whether the peer is still there. A running read asks every few
    /// milliseconds, from the connection's own thread, and ends when it is not.
    pub fn set_probe(&mut self, is_there: impl Fn() -> bool + Send + Sync + 'static) {
        self.op.set_probe(Box::new(is_there));
    }

    /// Gives memory back that a large request left behind; net calls it when a connection idles.
    pub fn shrink(&mut self) {
        for buffer in [&mut self.inflated, &mut self.plain, &mut self.record] {
            buffer.clear();
            buffer.shrink_to(0);
        }
    }

    /// The reply has been sent: gives back what it was charged, and buffers that grew large.
    pub fn reply_sent(&mut self) {
        for buffer in [&mut self.inflated, &mut self.plain, &mut self.record] {
            if buffer.capacity() > FREE_BYTES {
                *buffer = Vec::new();
            }
        }
        self.room.reply_sent();
    }

    /// The server it is a connection of.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    pub(crate) fn new(
        server: Arc<Server>,
        id: i64,
        peer: Peer,
        op: Arc<Op>,
        room: Room,
    ) -> Connection {
        Connection {
            store: server.store.for_client(),
            server,
            id,
            peer,
            op,
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
            room,
            last_namespace: None,
            noted_session: None,
        }
    }

    /// Whom cursors and sessions belong to that it opens: no one without authorization.
    pub(crate) fn user(&self) -> Option<&UserName> {
        let enabled = self.server.auth.is_enabled();
        self.login.as_ref().filter(|_| enabled).map(|login| &login.user.name)
    }

    /// Notes the use of a session. A connection that uses one for many requests notes it once a second, unless sessions
    /// ended meanwhile: so its requests do not write what those of others write.
    ///
    /// # Errors
    /// Those of [`crate::session::Sessions::touch`].
    pub(crate) fn touch_session(&mut self, id: &SessionId, now_ms: i64) -> Result<()> {
        let sessions = &self.server.clients.sessions;
        let ended = sessions.ended_count();
        let user = self.user();
        let same = |noted: &NotedSession| {
            noted.id == *id
                && noted.ended == ended
                && noted.user.as_ref() == user
                && (0..SESSION_NOTED_MS).contains(&(now_ms - noted.at_ms))
        };
        if self.noted_session.as_ref().is_some_and(same) {
            return Ok(());
        }
        sessions.touch(id, now_ms, user)?;
        let user = user.cloned();
        self.noted_session = Some(NotedSession { id: *id, user, at_ms: now_ms, ended });
        Ok(())
    }

    /// The checked namespace; without allocation if it is the one kept.
    pub(crate) fn namespace(&mut self, db: &str, collection: &str) -> Result<Namespace> {
        match self.last_namespace.take() {
            Some(ns) if ns.database() == db && ns.collection() == collection => Ok(ns),
            _ => Namespace::new(db, collection),
        }
    }

    /// Keeps a namespace for the next request.
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

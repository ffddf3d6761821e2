//! Logical sessions: their identity, and when each was last used.
//!
//! A session is known by the UUID that its client chose and by the digest of its user, as in MongoDB. Two users with
//! the same UUID have two sessions, which share nothing: no cursor, no transaction, no record of a retryable write.
//!
//! ```text
//!  lsid: {id: UUID}          --> (UUID, digest of the login's user)
//!  lsid: {id: UUID, uid: X}  --> (UUID, X), if X is the own digest or the user may impersonate others; otherwise 13
//! ```
//!
//! Drivers put an `lsid` on nearly every command. The server accepts any id, keeps it until it has been unused for
//! thirty minutes, and then closes its cursors and aborts its transaction. Touching a known session does not allocate.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use foldhash::fast::RandomState;
use nagi_bson::{Binary, DocWriter, Value, json};
use nagi_error::{Code, Result, bail};
use nagi_percore::note_shared;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::names::UserName;

const SHARD_COUNT: usize = 16;

/// SHA-256 of `user@db`.
pub(crate) type UserDigest = [u8; 32];

/// SHA-256 of nothing: the digest of the sessions of a server without authorization.
pub(crate) const NO_USER: UserDigest = [
    0xE3, 0xB0, 0xC4, 0x42, 0x98, 0xFC, 0x1C, 0x14, 0x9A, 0xFB, 0xF4, 0xC8, 0x99, 0x6F, 0xB9, 0x24,
    0x27, 0xAE, 0x41, 0xE4, 0x64, 0x9B, 0x93, 0x4C, 0xA4, 0x95, 0x99, 0x1B, 0x78, 0x52, 0xB8, 0x55,
];

/// The digest of a user.
pub(crate) fn user_digest(user: &UserName) -> UserDigest {
    match user.name.is_empty() && user.db.is_empty() {
        true => NO_USER,
        false => Sha256::digest(user.to_string().as_bytes()).into(),
    }
}

/// The identity of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SessionId {
    /// The UUID that the client chose.
    pub(crate) id: [u8; 16],
    /// The digest of its user.
    pub(crate) uid: UserDigest,
}

impl SessionId {
    /// Writes `name: {id, uid}`.
    pub(crate) fn write(&self, name: &str, out: &mut DocWriter<'_>) {
        out.doc(name, |out| {
            out.put("id", Value::Binary(Binary { subtype: 4, bytes: &self.id }));
            out.put("uid", Value::Binary(Binary { subtype: 0, bytes: &self.uid }));
        });
    }
}

/// The form in messages: UUID, digest, and the two parts that only sessions within a sharded cluster have.
impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut uid = String::new();
        json::base64_encode(&mut uid, &self.uid);
        write!(f, "{} - {uid} -  - ", nagi_store::Uuid(self.id))
    }
}

/// An `lsid` as a client wrote it. [`crate::core::access::Asking::session`] makes an identity of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GivenSession {
    pub(crate) id: [u8; 16],
    /// `None`: the session of the client's own user.
    pub(crate) uid: Option<UserDigest>,
}

/// All known sessions.
pub(crate) struct Sessions {
    shards: [Shard; SHARD_COUNT],
    count_max: usize,
    /// The number of sessions that were ended or have expired since the start.
    ended: AtomicU64,
}

type Shard = Mutex<HashMap<SessionId, Known, RandomState>>;

/// The entry of a session.
struct Known {
    last_ms: i64,
    /// The name of its user, if the user itself began it.
    user: Option<UserName>,
}

impl Sessions {
    pub(crate) fn new(count_max: usize) -> Sessions {
        Sessions {
            shards: std::array::from_fn(|_| Mutex::default()),
            count_max,
            ended: AtomicU64::new(0),
        }
    }

    fn shard(&self, session: &SessionId) -> &Shard {
        &self.shards[usize::from(session.id[15]) % SHARD_COUNT]
    }

    /// Records a use of a session. `user`: the name behind its digest, where it is known.
    ///
    /// # Errors
    /// 261 if there are too many sessions.
    pub(crate) fn touch(
        &self,
        session: &SessionId,
        now_ms: i64,
        user: Option<&UserName>,
    ) -> Result<()> {
        note_shared("sessions", 1, 2);
        let mut shard = self.shard(session).lock();
        if let Some(known) = shard.get_mut(session) {
            known.last_ms = now_ms;
            return Ok(());
        }
        if shard.len() >= self.count_max.div_ceil(SHARD_COUNT) {
            bail!(
                Code::TOO_MANY_LOGICAL_SESSIONS,
                "Unable to add session into the cache because the number of active sessions is too \
                 high"
            );
        }
        shard.insert(*session, Known { last_ms: now_ms, user: user.cloned() });
        Ok(())
    }

    /// Forgets a session. Returns true if it was known.
    pub(crate) fn end(&self, session: &SessionId) -> bool {
        let known = self.shard(session).lock().remove(session).is_some();
        self.ended.fetch_add(1, SeqCst);
        known
    }

    pub(crate) fn is_known(&self, session: &SessionId) -> bool {
        self.shard(session).lock().contains_key(session)
    }

    /// The number of sessions that were ended or have expired. A caller that caches a known session compares it to
    /// detect that its cache is out of date.
    pub(crate) fn ended_count(&self) -> u64 {
        self.ended.load(SeqCst)
    }

    pub(crate) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Forgets the sessions not used since `before_ms` and returns them.
    pub(crate) fn expire(&self, before_ms: i64) -> Vec<SessionId> {
        let mut gone = Vec::new();
        for shard in &self.shards {
            shard.lock().retain(|session, known| {
                let keep = known.last_ms >= before_ms;
                if !keep {
                    gone.push(*session);
                }
                keep
            });
        }
        self.ended.fetch_add(gone.len() as u64, SeqCst);
        gone
    }

    /// Returns the sessions that `choose` selects.
    pub(crate) fn find(&self, mut choose: impl FnMut(&SessionId) -> bool) -> Vec<SessionId> {
        let mut found = Vec::new();
        for shard in &self.shards {
            found.extend(shard.lock().keys().filter(|session| choose(session)));
        }
        found
    }

    /// Calls `visit` with each session, its last use in milliseconds and the name of its user, if it is known.
    pub(crate) fn visit(&self, visit: &mut dyn FnMut(&SessionId, i64, Option<&UserName>)) {
        for shard in &self.shards {
            for (session, known) in shard.lock().iter() {
                visit(session, known.last_ms, known.user.as_ref());
            }
        }
    }
}

/// Reads an `lsid`: `{id: UUID}`, or `{id: UUID, uid: digest}`.
pub(crate) fn parse_lsid(value: Value<'_>, field: &str) -> Result<GivenSession> {
    let Value::Doc(doc) = value else {
        bail!(
            Code::TYPE_MISMATCH,
            "BSON field '{field}' is the wrong type '{}', expected type 'object'",
            value.kind().name()
        );
    };
    let (mut id, mut uid) = (None, None);
    for element in doc {
        match element.name() {
            "id" => id = Some(element.value()),
            "uid" if element.value().is_nullish() => {}
            "uid" => uid = Some(parse_uid(element.value(), &format_args!("{field}.uid"))?),
            "txnNumber" | "txnUUID" => {}
            other => {
                bail!(Code::IDL_UNKNOWN_FIELD, "BSON field '{field}.{other}' is an unknown field.")
            }
        }
    }
    let Some(id) = id else {
        bail!(Code::IDL_FAILED_TO_PARSE, "BSON field '{field}.id' is missing but a required field");
    };
    let bytes = binary(id, 4, &format_args!("{field}.id"))?;
    match bytes.try_into() {
        Ok(id) => Ok(GivenSession { id, uid }),
        Err(_) => {
            bail!(Code::INVALID_UUID, "uuid must be a 16-byte binary field with UUID (4) subtype")
        }
    }
}

/// Reads the digest of a user.
///
/// # Errors
/// 14 for a wrong type, 12 for a wrong length.
pub(crate) fn parse_uid(value: Value<'_>, field: &dyn fmt::Display) -> Result<UserDigest> {
    let bytes = binary(value, 0, field)?;
    match bytes.try_into() {
        Ok(digest) => Ok(digest),
        Err(_) => {
            bail!(Code::UNSUPPORTED_FORMAT, "Unsupported SHA256Block hash length: {}", bytes.len())
        }
    }
}

/// The bytes of a binary value of a subtype, 0 or 4.
fn binary<'a>(value: Value<'a>, subtype: u8, field: &dyn fmt::Display) -> Result<&'a [u8]> {
    match value {
        Value::Binary(binary) if binary.subtype == subtype => Ok(binary.bytes),
        Value::Binary(binary) => bail!(
            Code::TYPE_MISMATCH,
            "BSON field '{field}' is the wrong binData type '{}', expected type '{}'",
            subtype_name(binary.subtype),
            if subtype == 4 { "UUID" } else { "general" }
        ),
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field '{field}' is the wrong type '{}', expected type 'binData'",
            other.kind().name()
        ),
    }
}

/// The name of a binary subtype in error messages.
pub(crate) fn subtype_name(subtype: u8) -> &'static str {
    match subtype {
        0 => "general",
        1 => "function",
        2 => "byte",
        3 => "UUID",
        4 => "newUUID",
        5 => "MD5",
        6 => "encrypt",
        7 => "column",
        8 => "sensitive",
        9 => "vector",
        _ => "custom",
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::doc;

    use super::*;

    fn session(id: u8, uid: u8) -> SessionId {
        SessionId { id: [id; 16], uid: [uid; 32] }
    }

    #[test]
    fn expires_only_the_old() {
        let sessions = Sessions::new(100);
        sessions.touch(&session(1, 0), 10, None).unwrap();
        sessions.touch(&session(2, 0), 20, None).unwrap();
        sessions.touch(&session(1, 0), 30, None).unwrap();
        assert_eq!(sessions.expire(25), [session(2, 0)]);
        assert_eq!(sessions.count(), 1);
        assert!(sessions.end(&session(1, 0)) && !sessions.end(&session(1, 0)));
    }

    #[test]
    fn users_with_the_same_uuid_have_two_sessions() {
        let sessions = Sessions::new(100);
        let (ann, bob) = (UserName::new("ann", "d"), UserName::new("bob", "d"));
        let own = |user: &UserName| SessionId { id: [1; 16], uid: user_digest(user) };
        sessions.touch(&own(&ann), 1, Some(&ann)).unwrap();
        sessions.touch(&own(&bob), 2, Some(&bob)).unwrap();
        assert_eq!(sessions.count(), 2);
        assert!(sessions.end(&own(&ann)) && sessions.is_known(&own(&bob)));
    }

    #[test]
    fn digests_are_those_of_mongodb() {
        let hex = |digest: UserDigest| nagi_bson::text::Hex(&digest).to_string();
        let nothing: UserDigest = Sha256::digest(b"").into();
        assert_eq!((NO_USER, user_digest(&UserName::new("", ""))), (nothing, nothing));
        let of_name: UserDigest = Sha256::digest(b"ann@test").into();
        assert_eq!(hex(user_digest(&UserName::new("ann", "test"))), hex(of_name));
        let shown = SessionId { id: [0x11; 16], uid: NO_USER }.to_string();
        assert_eq!(
            shown,
            "11111111-1111-1111-1111-111111111111 - 47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU= -  - "
        );
    }

    #[test]
    fn reads_ids_with_and_without_a_user() {
        let binary = |subtype, bytes| Value::Binary(Binary { subtype, bytes });
        let read = |doc: &nagi_bson::DocBuf| {
            parse_lsid(Value::Doc(doc.as_doc()), "lsid").map_err(|error| error.code().0)
        };
        let id = binary(4, &[1; 16]);
        assert_eq!(read(&doc! { "id": (id) }), Ok(GivenSession { id: [1; 16], uid: None }));
        let both = doc! { "id": (id), "uid": (binary(0, &[2; 32])) };
        assert_eq!(read(&both), Ok(GivenSession { id: [1; 16], uid: Some([2; 32]) }));
        for (wrong, code) in [
            (doc! { "id": (id), "uid": "x" }, 14),
            (doc! { "id": (id), "uid": (binary(5, &[2; 32])) }, 14),
            (doc! { "id": (id), "uid": (binary(0, &[2; 20])) }, Code::UNSUPPORTED_FORMAT.0),
            (doc! { "uid": (binary(0, &[2; 32])) }, Code::IDL_FAILED_TO_PARSE.0),
            (doc! { "id": (binary(4, &[1; 15])) }, Code::INVALID_UUID.0),
            (doc! { "id": (id), "user": "x" }, Code::IDL_UNKNOWN_FIELD.0),
        ] {
            assert_eq!(read(&wrong), Err(code), "{wrong:?}");
        }
    }
}

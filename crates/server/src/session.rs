//! Logical sessions: when each `lsid` was last used, and which user owns it.
//!
//! Drivers put an `lsid` on nearly every command. The server accepts any id, keeps it until it has been unused for
//! thirty minutes, and then closes its cursors and aborts its transaction. The first user of a session owns it.
//! Touching a known session does not allocate.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use foldhash::fast::RandomState;
use nagi_bson::{Binary, Doc, Value};
use nagi_error::{Code, Result, bail};
use nagi_percore::note_shared;
use parking_lot::Mutex;

use crate::names::UserName;

const SHARD_COUNT: usize = 16;

/// The UUID of a session.
pub(crate) type SessionId = [u8; 16];

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
    /// The user that used it first; `None` without authorization.
    owner: Option<UserName>,
}

impl Sessions {
    pub(crate) fn new(count_max: usize) -> Sessions {
        Sessions {
            shards: std::array::from_fn(|_| Mutex::default()),
            count_max,
            ended: AtomicU64::new(0),
        }
    }

    fn shard(&self, id: &SessionId) -> &Shard {
        &self.shards[usize::from(id[15]) % SHARD_COUNT]
    }

    /// Records a use of a session.
    ///
    /// # Errors
    /// 13 if the session belongs to another user, 261 if there are too many sessions.
    pub(crate) fn touch(&self, id: &SessionId, now_ms: i64, user: Option<&UserName>) -> Result<()> {
        note_shared("sessions", 1, 2);
        let mut shard = self.shard(id).lock();
        if let Some(known) = shard.get_mut(id) {
            match (&known.owner, user) {
                (Some(owner), Some(user)) if owner != user => {
                    bail!(Code::UNAUTHORIZED, "The session belongs to another user")
                }
                (None, Some(user)) => known.owner = Some(user.clone()),
                _ => {}
            }
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
        shard.insert(*id, Known { last_ms: now_ms, owner: user.cloned() });
        Ok(())
    }

    /// Forgets a session. Returns true if it was known.
    pub(crate) fn end(&self, id: &SessionId) -> bool {
        let known = self.shard(id).lock().remove(id).is_some();
        self.ended.fetch_add(1, SeqCst);
        known
    }

    /// Returns the owner of a session; `None` if it has none or is not known.
    pub(crate) fn owner(&self, id: &SessionId) -> Option<UserName> {
        self.shard(id).lock().get(id).and_then(|known| known.owner.clone())
    }

    pub(crate) fn is_known(&self, id: &SessionId) -> bool {
        self.shard(id).lock().contains_key(id)
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
            shard.lock().retain(|id, known| {
                let keep = known.last_ms >= before_ms;
                if !keep {
                    gone.push(*id);
                }
                keep
            });
        }
        self.ended.fetch_add(gone.len() as u64, SeqCst);
        gone
    }

    /// Returns every session with its last use in milliseconds.
    pub(crate) fn all(&self) -> Vec<(SessionId, i64)> {
        self.shards
            .iter()
            .flat_map(|s| s.lock().iter().map(|(k, v)| (*k, v.last_ms)).collect::<Vec<_>>())
            .collect()
    }
}

/// Reads an `lsid`: `{id: UUID}`.
pub(crate) fn parse_lsid(value: Value<'_>, field: &str) -> Result<SessionId> {
    let Value::Doc(doc) = value else {
        bail!(
            Code::TYPE_MISMATCH,
            "BSON field '{field}' is the wrong type '{}', expected type 'object'",
            value.kind().name()
        );
    };
    parse_lsid_doc(doc, field)
}

fn parse_lsid_doc(doc: Doc<'_>, field: &str) -> Result<SessionId> {
    let mut id = None;
    for element in doc {
        match element.name() {
            "id" => id = Some(element.value()),
            "uid" | "txnNumber" | "txnUUID" => {}
            other => {
                bail!(Code::IDL_UNKNOWN_FIELD, "BSON field '{field}.{other}' is an unknown field.")
            }
        }
    }
    match id {
        None => bail!(
            Code::IDL_FAILED_TO_PARSE,
            "BSON field '{field}.id' is missing but a required field"
        ),
        Some(Value::Binary(Binary { subtype: 4, bytes })) => match bytes.try_into() {
            Ok(id) => Ok(id),
            Err(_) => bail!(
                Code::INVALID_UUID,
                "uuid must be a 16-byte binary field with UUID (4) subtype"
            ),
        },
        Some(Value::Binary(binary)) => bail!(
            Code::TYPE_MISMATCH,
            "BSON field '{field}.id' is the wrong binData type '{}', expected type 'UUID'",
            subtype_name(binary.subtype)
        ),
        Some(other) => bail!(
            Code::TYPE_MISMATCH,
            "BSON field '{field}.id' is the wrong type '{}', expected type 'binData'",
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
    use super::*;

    #[test]
    fn expires_only_the_old() {
        let sessions = Sessions::new(100);
        sessions.touch(&[1; 16], 10, None).unwrap();
        sessions.touch(&[2; 16], 20, None).unwrap();
        sessions.touch(&[1; 16], 30, None).unwrap();
        assert_eq!(sessions.expire(25), [[2; 16]]);
        assert_eq!(sessions.count(), 1);
        assert!(sessions.end(&[1; 16]) && !sessions.end(&[1; 16]));
    }

    #[test]
    fn belongs_to_its_first_user() {
        let sessions = Sessions::new(100);
        let (ann, bob) = (UserName::new("ann", "d"), UserName::new("bob", "d"));
        sessions.touch(&[1; 16], 1, None).unwrap();
        sessions.touch(&[1; 16], 2, Some(&ann)).unwrap();
        sessions.touch(&[1; 16], 3, Some(&ann)).unwrap();
        assert_eq!(sessions.touch(&[1; 16], 4, Some(&bob)).unwrap_err().code().0, 13);
        assert_eq!(sessions.owner(&[1; 16]), Some(ann));
    }
}

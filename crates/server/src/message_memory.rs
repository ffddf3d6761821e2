//! Memory of large messages and large replies: charged to the budget before it is used.
//!
//! The buffers of a connection up to [`FREE_BYTES`] are covered by the charge of the connection itself. Beyond that:
//! - A larger message is charged before its bytes are read from the socket, including the memory to process it.
//! - A larger reply is charged while it grows, in steps of a megabyte.
//!
//! If the budget has no capacity, the request waits, see [`WAIT`]. A batch that already has documents does not wait:
//! it is cut short, and the remaining documents go into the next batch.
//!
//! This module knows neither sockets nor the size of the budget.

use std::sync::Arc;
use std::time::Duration;

use nagi_bson::DocWriter;
use nagi_budget::{Budget, Charge, Patience, Pool, meter};
use nagi_error::{Code, Result, bail};
use parking_lot::Mutex;

/// Messages and replies up to this size are not charged separately.
pub const FREE_BYTES: usize = 256 * 1024;
/// The memory of an idle connection: its buffers and the used part of its thread's stack.
pub(crate) const CONNECTION_BYTES: u64 = 48 * 1024;
/// The memory of TLS: the state of the session, and the buffers of its records and of its handshake.
const TLS_BYTES: u64 = 48 * 1024;
/// How long a reply waits for memory, and a message while no other request releases any.
const WAIT: Duration = Duration::from_secs(30);
/// The step in which the charge of a reply grows.
const STEP: u64 = 1 << 20;
/// The maximum part of a message that is in staged writes at the same time: one chunk of an insert.
const STAGED_BYTES_MAX: u64 = 16 << 20;
/// How often each of its bytes is in memory until the commit ends: as a record and as an entry of the oplog, both of
/// them staged and in the engine's batch.
const STAGED_COPIES: u64 = 4;

/// The size of the header and of the fields of a compressed message before its payload.
const COMPRESSED_HEADER_BYTES: usize = 25;
const OPCODE_COMPRESSED: i32 = 2012;

/// The memory charges of a connection and of its current request.
pub(crate) struct MemoryCharge {
    reply: Mutex<Charge>,
    /// The charge of the connection itself.
    _own: Charge,
    /// That of its TLS.
    tls: Option<Charge>,
}

impl MemoryCharge {
    /// Charges a new connection; `None` if the budget of connections is used up.
    pub(crate) fn for_connection(budget: &Arc<Budget>) -> Option<MemoryCharge> {
        let own = budget.try_charge(Pool::Connections, CONNECTION_BYTES)?;
        let reply = Mutex::new(Charge::empty(budget, Pool::Replies));
        Some(MemoryCharge { reply, _own: own, tls: None })
    }

    /// Charges the TLS of the connection. Returns false if the budget of connections is used up.
    pub(crate) fn charge_tls(&mut self, budget: &Arc<Budget>) -> bool {
        self.tls = budget.try_charge(Pool::Connections, TLS_BYTES);
        self.tls.is_some()
    }

    /// Returns true if the reply may grow to `bytes`; does not wait.
    pub(crate) fn reply_fits(&self, bytes: usize) -> bool {
        bytes <= FREE_BYTES || self.covers(doubled(bytes))
    }

    /// Charges `bytes` of memory for the reply, in total, if there is capacity; does not wait.
    pub(crate) fn covers(&self, bytes: usize) -> bool {
        self.reply.lock().try_cover(bytes as u64, STEP)
    }

    /// Waits until `bytes` are charged for the reply, in total.
    ///
    /// # Errors
    /// 146 if there is no memory within [`WAIT`], or the error of `check`.
    pub(crate) fn wait_for_reply(
        &self,
        bytes: usize,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        if self.covers(bytes) {
            return Ok(());
        }
        let mut stopped = Ok(());
        let mut go_on = || {
            stopped = check();
            stopped.is_ok()
        };
        if self.reply.lock().cover_within(bytes as u64, WAIT, &mut go_on) {
            return Ok(());
        }
        stopped?;
        bail!(
            Code::EXCEEDED_MEMORY_LIMIT,
            "no memory for a reply of {bytes} bytes within {} seconds: other requests use all of it",
            WAIT.as_secs()
        );
    }

    /// Charges exactly the `bytes` that the buffers of a complete reply have until it is sent, whatever they are. No
    /// command allocates them without a charge: this moves it from other pools and releases the excess.
    pub(crate) fn settle_reply(&mut self, bytes: usize) {
        let (charge, bytes) = (self.reply.get_mut(), bytes as u64);
        match bytes.checked_sub(charge.bytes()) {
            Some(more) if more > 0 => charge.force(more),
            _ => charge.shrink_to(bytes),
        }
    }

    /// Releases the charge of the reply once it has been sent.
    pub(crate) fn reply_sent(&mut self) {
        self.reply.get_mut().shrink_to(0);
    }
}

/// The memory that a request held at its start, to compute how much of it a cursor keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    held: i64,
    reply_capacity: usize,
}

impl Before {
    /// The current memory use, with the buffer of the reply.
    pub(crate) fn begin(out: &DocWriter<'_>) -> Before {
        Before { held: meter::held(), reply_capacity: out.capacity() }
    }

    /// The bytes allocated since then and not freed, without the reply; negative if more was freed.
    pub(crate) fn grown(&self, out: &DocWriter<'_>, charge: &MemoryCharge) -> i64 {
        let reply = out.capacity() as i64 - self.reply_capacity as i64;
        let charged = charge.reply.lock().bytes() as i64;
        meter::held() - self.held - (reply - charged)
    }
}

/// A growing buffer may have a capacity of twice its contents.
pub(crate) fn doubled(bytes: usize) -> usize {
    bytes.saturating_mul(2)
}

/// The memory that a message needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageCost {
    /// To receive and to process it.
    pub bytes: u64,
    /// The part of these bytes for what its request stages and commits.
    pub staged: u64,
}

/// The memory needed to receive and process a message, computed from its first bytes. `None` if the connection's own
/// charge covers it, or if the header is incomplete.
pub fn message_cost(front: &[u8]) -> Option<MessageCost> {
    let int = |at: usize| {
        let bytes = front.get(at..at + 4)?.first_chunk::<4>()?;
        u64::try_from(i32::from_le_bytes(*bytes)).ok()
    };
    let length = int(0)?;
    let opcode = int(12)?;
    let inflated = match opcode == OPCODE_COMPRESSED as u64 {
        true if front.len() < COMPRESSED_HEADER_BYTES => return None,
        true => int(20)?,
        false => 0,
    };
    let plain = length.max(inflated);
    if plain <= FREE_BYTES as u64 {
        return None;
    }
    let staged = STAGED_COPIES * plain.min(STAGED_BYTES_MAX);
    Some(MessageCost { bytes: length + inflated + staged, staged })
}

/// Waits for the memory that a message needs, in the order of arrival; `None` if no memory was released for [`WAIT`] or
/// `patience` ends the wait.
pub(crate) fn admit_message(
    budget: &Arc<Budget>,
    cost: MessageCost,
    patience: &mut dyn FnMut() -> Patience,
) -> Option<Charge> {
    budget.charge_within(Pool::Requests, cost.bytes, WAIT, patience)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front(length: i32, opcode: i32, inflated: i32) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [length, 1, 0, opcode, 2013, inflated] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.push(1);
        bytes
    }

    #[test]
    fn only_large_messages_cost_also_those_that_are_packed() {
        assert_eq!(message_cost(&front(1000, 2013, 0)), None);
        assert_eq!(message_cost(&front(1000, 2013, 48_000_000)), None);
        assert_eq!(message_cost(&front(1000, 2012, 2000)), None);
        let cost = |bytes: u64| Some(MessageCost { bytes, staged: 4 << 20 });
        assert_eq!(message_cost(&front(1 << 20, 2013, 0)), cost(5 << 20));
        assert_eq!(message_cost(&front(1000, 2012, 1 << 20)), cost(1000 + (5 << 20)));
        let most = message_cost(&front(48_000_000, 2013, 0)).unwrap();
        assert_eq!((most.bytes, most.staged), (48_000_000 + (64 << 20), 64 << 20));
        assert_eq!(message_cost(&front(1 << 20, 2013, 0)[..10]), None);
        assert_eq!(message_cost(&front(-5, 2013, 0)), None);
    }

    #[test]
    fn a_reply_that_finds_no_room_ends_or_fails() {
        let budget = Budget::new(64 << 20);
        let mut charge = MemoryCharge::for_connection(&budget).unwrap();
        let mut other = MemoryCharge::for_connection(&budget).unwrap();
        assert!(other.reply_fits(2 << 20));
        assert!(charge.reply_fits(FREE_BYTES) && charge.reply_fits(4 << 20));
        assert_eq!(budget.pool(Pool::Replies).used, 12 << 20);
        assert!(!charge.reply_fits(12 << 20));
        let mut stop = || bail!(Code::INTERRUPTED, "enough");
        let stopped = charge.wait_for_reply(24 << 20, &mut stop).unwrap_err();
        assert_eq!(stopped.code(), Code::INTERRUPTED);
        charge.reply_sent();
        other.reply_sent();
        assert_eq!(budget.pool(Pool::Replies).used, 0);
        // A reply larger than the pool is admitted when it is the only one.
        assert!(charge.wait_for_reply(32 << 20, &mut || Ok(())).is_ok());
        charge.settle_reply(17 << 20);
        assert_eq!(budget.pool(Pool::Replies).used, 17 << 20);
        charge.settle_reply(20 << 20);
        assert_eq!(budget.pool(Pool::Replies).used, 20 << 20);
    }

    #[test]
    fn connections_end_where_their_pool_does() {
        let budget = Budget::new(4 << 20);
        let all: Vec<MemoryCharge> =
            std::iter::from_fn(|| MemoryCharge::for_connection(&budget)).collect();
        assert!(all.len() >= 20, "{}", all.len());
        drop(all);
        assert_eq!(budget.demand(), 0);
    }
}

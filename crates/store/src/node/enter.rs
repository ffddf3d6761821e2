//! How a node comes to its lease: that of the data, which one node has, or a seat beside others; and how a seat ends.
//!
//! ```text
//!   alone     writes the lease of the data, and the fences of seat 0         not while a seat is held
//!   member    writes a seat with a free number, and the fences of the seat   not while the lease of the data is held
//!   leaves    removes its seat, and writes its fences: a commit in flight is refused
//!   is dead   the same, written by another node, after the lease of the seat has ended
//! ```
//!
//! Nodes of both kinds write the key of the lease of the data, so of two that come at once one is a conflict.

use std::time::Duration;

use nagi_bson::DocBuf;
use nagi_error::{Code, Result, bail};
use nagi_kv::{
    Durability, Engine, Error, Space, Txn, TxnOptions,
    sync::{Instant, thread},
};

use super::{
    NodeMode, NodeOptions, board,
    fence::Mark,
    holder::Holder,
    listing,
    seat::{self, NodeId, Report, Seat},
    slots,
};
use crate::{
    clock,
    engine_error::engine,
    ident::{CatalogKey, Ident},
};

/// The least length of a lease: a request may take two seconds.
const SECONDS_MIN: u32 = 3;
/// How often a node that waits for a lease looks at it.
const POLL: Duration = Duration::from_millis(100);
/// Attempts against other nodes that take or renew a lease at the same moment.
const ATTEMPTS: usize = 50;

/// The length of a lease.
pub(super) fn seconds(options: &NodeOptions) -> u32 {
    options.lease_seconds.max(SECONDS_MIN)
}

/// A lease that was taken.
pub(super) struct Taken {
    pub(super) node: NodeId,
    /// The number of the seat; none if the lease is that of the data.
    pub(super) seat: Option<u16>,
    /// The stamps of the read and of the commit.
    pub(super) read: u64,
    pub(super) committed: u64,
    /// When the transaction was begun.
    pub(super) begun: Instant,
}

/// What an attempt to take the lease has met.
enum Met {
    /// It was taken: the seat, and the stamps of the read and of the commit.
    Taken(Option<u16>, u64, u64),
    /// A node that has the data alone.
    Owner(Holder),
    /// One of the nodes that share the data.
    Member(Holder),
    /// All seats are held.
    Full,
}

/// See [`super::lease::Lease::acquire`].
pub(super) fn acquire(on: &dyn Engine, options: &NodeOptions) -> Result<Taken> {
    let mut node = [0; 16];
    node[..8].copy_from_slice(&clock::random().to_be_bytes());
    node[8..].copy_from_slice(&clock::random().to_be_bytes());
    // A random UUID.
    (node[6], node[8]) = ((node[6] & 0x0F) | 0x40, (node[8] & 0x3F) | 0x80);
    let own = Holder { node, until: 0, name: options.name.clone() };
    let (mut seen, mut conflicts) = (None::<Holder>, 0);
    loop {
        let begun = Instant::now();
        let met = match options.mode {
            NodeMode::Sole => take(on, &own, seconds(options)),
            NodeMode::Member => sit(on, &own, seconds(options)),
        };
        match met {
            Ok(Met::Taken(seat, read, committed)) => {
                say_taken(&own.name, seat);
                return Ok(Taken { node: own.node, seat, read, committed, begun });
            }
            Ok(Met::Full) => bail!(
                Code::DB_PATH_IN_USE,
                "{} nodes share the data already: that is the most that can",
                seat::COUNT
            ),
            Ok(Met::Owner(holder) | Met::Member(holder))
                if options.waits && seen.as_ref().is_none_or(|seen| *seen == holder) =>
            {
                if seen.is_none() {
                    log::info!(target: "STORAGE", id = 8_200_392, node = &*holder.name;
                        "Waiting for the lease of another node to end");
                }
                seen = Some(holder);
                thread::sleep(POLL);
            }
            Ok(Met::Owner(holder)) => return in_use(&holder),
            Ok(Met::Member(holder)) => bail!(
                Code::DB_PATH_IN_USE,
                "several nodes share the data, one of them is {}: this one would own them alone",
                holder.name
            ),
            // It is not known if this node has it: then the next attempt finds its own name.
            Err(Error::Conflict | Error::Undetermined) if conflicts < ATTEMPTS => conflicts += 1,
            Err(error) => return Err(engine(error)),
        }
    }
}

fn say_taken(name: &str, seat: Option<u16>) {
    match seat {
        None => log::info!(target: "STORAGE", id = 8_200_391, node = name;
            "This node owns the data from now on"),
        Some(seat) => log::info!(target: "STORAGE", id = 8_200_430, node = name, seat = seat;
            "This node shares the data with others from now on"),
    }
}

pub(super) fn begin(on: &dyn Engine) -> nagi_kv::Result<Box<dyn Txn>> {
    on.begin(TxnOptions { lock_wait_ms: 0, ..TxnOptions::default() })
}

/// The end of a lease that is taken or renewed at this stamp.
pub(super) fn end(read_stamp: u64, seconds: u32) -> u64 {
    read_stamp.saturating_add(u64::from(seconds) << 32)
}

/// The stored lease of the data.
pub(super) fn stored(txn: &dyn Txn) -> nagi_kv::Result<Option<Holder>> {
    let mut buf = Vec::new();
    let key = Ident(0).catalog_key(CatalogKey::Lease);
    txn.get(Space::Catalog, &key, &mut buf)?.map(Holder::parse).transpose()
}

pub(super) fn put(txn: &mut dyn Txn, holder: &Holder) -> nagi_kv::Result<()> {
    let key = Ident(0).catalog_key(CatalogKey::Lease);
    txn.put(Space::Catalog, &key, holder.to_doc().as_bytes())
}

/// Takes the lease of the data, if no other node has it or a seat.
fn take(on: &dyn Engine, own: &Holder, seconds: u32) -> nagi_kv::Result<Met> {
    let mut txn = begin(on)?;
    let read_stamp = txn.read_stamp()?.0;
    if let Some(holder) = stored(&*txn)?
        && holder.node != own.node
        && holder.until >= read_stamp
    {
        return Ok(Met::Owner(holder));
    }
    for seat in seat::all(&*txn)? {
        if seat.until >= read_stamp {
            return Ok(Met::Member(Holder { node: seat.node, until: seat.until, name: seat.name }));
        }
        remove(&mut *txn, &seat, own.node)?;
    }
    put(&mut *txn, &Holder { until: end(read_stamp, seconds), ..own.clone() })?;
    put_fences(&mut *txn, 0, own.node)?;
    listing::finish(&mut *txn, 0)?;
    let committed = txn.commit(Durability::Synced)?;
    Ok(Met::Taken(None, read_stamp, committed.0))
}

/// Takes a seat with the lowest free number, if no node has the data alone.
fn sit(on: &dyn Engine, own: &Holder, seconds: u32) -> nagi_kv::Result<Met> {
    let mut txn = begin(on)?;
    let read_stamp = txn.read_stamp()?.0;
    if let Some(holder) = stored(&*txn)?
        && holder.until >= read_stamp
    {
        return Ok(Met::Owner(holder));
    }
    let mut seats = seat::all(&*txn)?;
    let free = (0..seat::COUNT).find(|number| seats.iter().all(|seat| seat.number != *number));
    let earlier = seats.iter().find(|seat| seat.node == own.node).map(|seat| seat.number);
    let number = match (earlier.or(free), seats.iter().position(|seat| seat.until < read_stamp)) {
        (Some(number), _) => number,
        (None, Some(dead)) => {
            let dead = seats.swap_remove(dead);
            remove(&mut *txn, &dead, own.node)?;
            dead.number
        }
        (None, None) => return Ok(Met::Full),
    };
    Seat {
        number,
        node: own.node,
        renewed: read_stamp,
        until: end(read_stamp, seconds),
        name: own.name.clone(),
        about: DocBuf::new(),
        report: Report::default(),
    }
    .put(&mut *txn)?;
    put_fences(&mut *txn, number, own.node)?;
    listing::finish(&mut *txn, number)?;
    // A node that had the data alone finds that it has not any more. Its fences are those of seat 0, which is the first
    // one that is taken then.
    put(&mut *txn, &Holder { node: [0; 16], until: 0, name: String::new() })?;
    let committed = txn.commit(Durability::Synced)?;
    Ok(Met::Taken(Some(number), read_stamp, committed.0))
}

/// See [`super::lease::Lease::clear`].
pub(super) fn clear(on: &dyn Engine, own: NodeId, dead: &Seat) -> nagi_kv::Result<()> {
    let mut txn = begin(on)?;
    let read_stamp = txn.read_stamp()?.0;
    match seat::one(&*txn, dead.number)? {
        Some(seat) if seat.node == dead.node && seat.until < read_stamp => {
            remove(&mut *txn, &seat, own)?;
        }
        _ => return Ok(()),
    }
    match txn.commit(Durability::Synced) {
        Ok(_) => {
            log::warn!(target: "STORAGE", id = 8_200_431, node = &*dead.name, seat = dead.number;
                "The lease of a node has ended: it is out, and cannot write any more");
            Ok(())
        }
        // Another node does the same, or it is back: the caller looks again.
        Err(Error::Conflict | Error::Undetermined) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Stages the end of a seat. A commit of its node that is in flight, or comes later, is a conflict.
fn remove(txn: &mut dyn Txn, seat: &Seat, by: NodeId) -> nagi_kv::Result<()> {
    seat::remove(txn, seat.number)?;
    board::remove_all_of(txn, seat.node)?;
    put_fences(txn, seat.number, by)?;
    listing::finish(txn, seat.number)
}

/// Stages the end of the own seat.
pub(super) fn leave(txn: &mut dyn Txn, number: u16, node: NodeId) -> nagi_kv::Result<()> {
    seat::remove(txn, number)?;
    board::remove_all_of(txn, node)?;
    put_fences(txn, number, node)?;
    listing::finish(txn, number)
}

fn put_fences(txn: &mut dyn Txn, seat: u16, node: NodeId) -> nagi_kv::Result<()> {
    let mark = Mark { node, commit: 0 };
    slots::of_seat(seat).try_for_each(|number| mark.put(txn, number))
}

fn in_use<T>(holder: &Holder) -> Result<T> {
    let name = &holder.name;
    bail!(Code::DB_PATH_IN_USE, "another node owns the data: {name}. It does not share them")
}

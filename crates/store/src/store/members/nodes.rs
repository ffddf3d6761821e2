//! Who shares the data, for servers that tell it.

use nagi_bson::{Doc, DocBuf};
use nagi_error::Result;

use crate::{Store, engine_error::engine};

/// A node that shares the data.
#[derive(Clone, Debug)]
pub struct NodeState {
    /// The number of its seat.
    pub seat: u16,
    /// `NodeOptions::name`.
    pub name: String,
    /// What its server says of itself ([`Store::describe_node`]); empty before that.
    pub about: DocBuf,
    /// When it last renewed its lease, in milliseconds since 1970 by the engine's clock, to the second.
    pub renewed_ms: i64,
    /// It is this one.
    pub is_own: bool,
}

impl Store {
    /// The nodes whose leases last, in the order of their seats; `None` if this process has the data alone. A scan.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn nodes(&self) -> Result<Option<Vec<NodeState>>> {
        let Some(members) = &self.members else { return Ok(None) };
        let (seats, now) = members.seats()?;
        let nodes = seats.into_iter().filter(|seat| seat.until >= now).map(|seat| NodeState {
            seat: seat.number,
            name: seat.name,
            about: seat.about,
            renewed_ms: (seat.renewed >> 32).cast_signed() * 1000,
            is_own: seat.node == members.node(),
        });
        Ok(Some(nodes.collect()))
    }

    /// True if other nodes may share the data.
    pub fn shares_data(&self) -> bool {
        self.members.is_some()
    }

    /// Tells the other nodes what the server of this one says of itself. Without effect if there cannot be others.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn describe_node(&self, about: Doc<'_>) -> Result<()> {
        let Some(members) = &self.members else { return Ok(()) };
        members.lease.describe(about).map_err(engine)
    }

    /// True if this process is to do what one of those that share the data does for all; for a moment two may be.
    pub fn does_work_for_all(&self) -> bool {
        self.members.as_ref().is_none_or(|members| members.is_steward())
    }
}

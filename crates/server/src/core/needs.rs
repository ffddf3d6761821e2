//! The privileges with which a cursor was opened: they are needed for each of its batches, also after roles changed.
//!
//! A getMore names only the collection. What a cursor reads may be more, such as all databases for a change stream, so
//! it keeps what its command was allowed for. They are compared again only after users or roles have changed.

use std::cell::RefCell;

use nagi_error::Result;

use crate::auth::{Action, Target};
use crate::core::access::{self, Access, Asking};
use crate::core::connection::Connection;
use crate::request::Request;

/// A privilege that was asked for and was there.
#[derive(Debug)]
pub(crate) enum Need {
    Cluster(Action),
    Everywhere(Action),
    Database(Box<str>, Action),
    Collection(Box<str>, Box<str>, Action),
    AnyInDatabase(Box<str>),
}

impl Need {
    pub(super) fn of(target: Target<'_>, action: Action) -> Need {
        match target {
            Target::Cluster => Need::Cluster(action),
            Target::Everywhere => Need::Everywhere(action),
            Target::Database(db) => Need::Database(db.into(), action),
            Target::Collection(db, name) => Need::Collection(db.into(), name.into(), action),
        }
    }

    fn is_met(&self, asking: &Asking<'_>) -> bool {
        match self {
            Need::Cluster(action) => asking.allows(Target::Cluster, *action),
            Need::Everywhere(action) => asking.allows(Target::Everywhere, *action),
            Need::Database(db, action) => asking.on_database(db, *action),
            Need::Collection(db, name, action) => asking.on_collection(db, name, *action),
            Need::AnyInDatabase(db) => asking.any_in_database(db),
        }
    }
}

/// See the module's header.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    all: Vec<Need>,
    /// The generation of users and roles in which they were met.
    generation: u64,
}

impl Needs {
    /// What the request, which was allowed, needs. Empty without authorization.
    ///
    /// # Errors
    /// Those of the command's rule.
    pub(crate) fn of(
        connection: &Connection,
        access: &Access,
        request: &Request<'_>,
    ) -> Result<Needs> {
        let Some(login) = &connection.login else { return Ok(Needs::default()) };
        let found = RefCell::default();
        access::permits(&Asking::new(connection).noting(&found), access, request)?;
        Ok(Needs { all: found.into_inner(), generation: login.generation })
    }

    /// False if the user has lost one of them.
    pub(crate) fn are_met(&mut self, connection: &Connection) -> bool {
        let Some(login) = &connection.login else { return self.all.is_empty() };
        if login.generation == self.generation {
            return true;
        }
        let asking = Asking::new(connection);
        let met = self.all.iter().all(|need| need.is_met(&asking));
        if met {
            self.generation = login.generation;
        }
        met
    }
}

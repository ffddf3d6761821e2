//! Queries that settings are laid down for are parsed as if they should run.

use nagi_error::Result;
use nagi_store::Store;

use super::{Explained, filter_of};
use crate::{collating, plan, request::aggregate, source::Env};

/// Parses a find, distinct or aggregate as if it should run.
///
/// # Errors
/// Those of parsing it.
pub fn check_query(store: &Store, query: &Explained<'_>, env: &Env<'_>) -> Result<()> {
    match query {
        Explained::Find(request) => {
            let collation = collating::by_name(store, request.namespace, request.collation)?;
            plan::find::parse(request, collation, env).map(drop)
        }
        Explained::Distinct(request) => {
            let collation = collating::by_name(store, request.namespace, request.collation)?;
            filter_of(request.filter, collation).map(drop)
        }
        Explained::Aggregate(request) => aggregate::touches(request).map(drop),
        _ => Ok(()),
    }
}

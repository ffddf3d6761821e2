//! Checks a query for which settings are to be stored: parses it as if it were to run.

use nagi_error::Result;
use nagi_store::Store;

use super::{Explained, filter_of};
use crate::{collating, plan, request::aggregate, source::Env};

/// Parses a find, distinct or aggregate as if it were to run.
///
/// # Errors
/// Errors of parsing it.
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

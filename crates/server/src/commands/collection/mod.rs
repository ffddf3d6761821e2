//! Collections and databases.

mod coll_mod;
mod create;
mod drop;
mod drop_database;
mod list_collections;
mod list_databases;
mod rename_collection;

pub(super) use coll_mod::COLL_MOD;
pub(super) use create::CREATE;
pub(super) use drop::DROP;
pub(super) use drop_database::DROP_DATABASE;
pub(super) use list_collections::LIST_COLLECTIONS;
pub(super) use list_databases::LIST_DATABASES;
pub(super) use rename_collection::RENAME_COLLECTION;

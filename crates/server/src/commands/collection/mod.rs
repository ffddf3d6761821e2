//! Commands on collections and databases.

mod captrunc;
mod cleanup_structured_encryption_data;
mod clone_collection_as_capped;
mod coll_mod;
mod compact_structured_encryption_data;
mod convert_to_capped;
mod create;
mod drop;
mod drop_database;
mod emptycapped;
mod godinsert;
mod list_collections;
mod list_databases;
mod rename_collection;
pub(in crate::commands) mod time_series;

pub(super) use captrunc::CAPTRUNC;
pub(super) use cleanup_structured_encryption_data::CLEANUP_STRUCTURED_ENCRYPTION_DATA;
pub(super) use clone_collection_as_capped::CLONE_COLLECTION_AS_CAPPED;
pub(super) use coll_mod::COLL_MOD;
pub(super) use compact_structured_encryption_data::COMPACT_STRUCTURED_ENCRYPTION_DATA;
pub(super) use convert_to_capped::{CONVERT_TO_CAPPED, capped_options};
pub(super) use create::{CREATE, stored_options};
pub(super) use drop::DROP;
pub(super) use drop_database::DROP_DATABASE;
pub(super) use emptycapped::EMPTYCAPPED;
pub(super) use godinsert::GODINSERT;
pub(super) use list_collections::LIST_COLLECTIONS;
pub(super) use list_databases::LIST_DATABASES;
pub(super) use rename_collection::RENAME_COLLECTION;

//! Commands on indexes.

mod create_indexes;
mod drop_indexes;
mod list_indexes;
mod re_index;
mod search_indexes;
mod set_index_commit_quorum;

use crate::core::server::Server;
use crate::settings::params;

pub(super) use create_indexes::{CREATE_INDEXES, check_once};
pub(super) use drop_indexes::DROP_INDEXES;
pub(super) use list_indexes::LIST_INDEXES;
pub(super) use re_index::RE_INDEX;
pub(super) use search_indexes::{
    CREATE_SEARCH_INDEXES, DROP_SEARCH_INDEX, LIST_SEARCH_INDEXES, UPDATE_SEARCH_INDEX,
};
pub(super) use set_index_commit_quorum::SET_INDEX_COMMIT_QUORUM;

/// The parameter `maxIndexBuildMemoryUsageMegabytes`, in bytes.
pub(in crate::commands) fn build_memory(server: &Server) -> u64 {
    const ROW: usize = params::position("maxIndexBuildMemoryUsageMegabytes");
    u64::try_from(server.settings.params.number(ROW)).unwrap_or(u64::MAX).saturating_mul(1 << 20)
}

/// The largest number of concurrent index builds: `maxNumActiveUserIndexBuilds`.
fn most_builds(server: &Server) -> u64 {
    const ROW: usize = params::position("maxNumActiveUserIndexBuilds");
    server.settings.params.number(ROW).unsigned_abs()
}

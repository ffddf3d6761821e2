//! Running a server.

mod auto_compact;
mod compact;
mod configure_fail_point;
mod fsync;
mod get_default_rw_concern;
mod get_parameter;
mod log_rotate;
mod nagi_backup;
mod plan_cache_clear;
mod plan_cache_clear_filters;
mod plan_cache_list_filters;
mod plan_cache_set_filter;
mod set_default_rw_concern;
mod set_feature_compatibility_version;
mod set_parameter;
mod shutdown;
mod sleep;

pub(super) use auto_compact::AUTO_COMPACT;
pub(super) use compact::COMPACT;
pub(super) use configure_fail_point::CONFIGURE_FAIL_POINT;
pub(super) use fsync::{FSYNC, FSYNC_UNLOCK};
pub(super) use get_default_rw_concern::GET_DEFAULT_RW_CONCERN;
pub(super) use get_parameter::GET_PARAMETER;
pub(super) use log_rotate::LOG_ROTATE;
pub(super) use nagi_backup::NAGI_BACKUP;
pub(super) use plan_cache_clear::PLAN_CACHE_CLEAR;
pub(super) use plan_cache_clear_filters::PLAN_CACHE_CLEAR_FILTERS;
pub(super) use plan_cache_list_filters::PLAN_CACHE_LIST_FILTERS;
pub(super) use plan_cache_set_filter::PLAN_CACHE_SET_FILTER;
pub(super) use set_default_rw_concern::SET_DEFAULT_RW_CONCERN;
pub(super) use set_feature_compatibility_version::SET_FEATURE_COMPATIBILITY_VERSION;
pub(super) use set_parameter::SET_PARAMETER;
pub(super) use shutdown::SHUTDOWN;
pub(super) use sleep::SLEEP;

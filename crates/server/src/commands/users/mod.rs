//! Users and roles.

mod common;
mod create_role;
mod create_user;
mod drop_all_roles_from_database;
mod drop_all_users_from_database;
mod drop_role;
mod drop_user;
mod grant_privileges_to_role;
mod grant_roles_to_role;
mod grant_roles_to_user;
mod invalidate_user_cache;
mod revoke_privileges_from_role;
mod revoke_roles_from_role;
mod revoke_roles_from_user;
mod roles_info;
mod update_role;
mod update_user;
mod users_info;

pub(super) use create_role::CREATE_ROLE;
pub(super) use create_user::CREATE_USER;
pub(super) use drop_all_roles_from_database::DROP_ALL_ROLES_FROM_DATABASE;
pub(super) use drop_all_users_from_database::DROP_ALL_USERS_FROM_DATABASE;
pub(super) use drop_role::DROP_ROLE;
pub(super) use drop_user::DROP_USER;
pub(super) use grant_privileges_to_role::GRANT_PRIVILEGES_TO_ROLE;
pub(super) use grant_roles_to_role::GRANT_ROLES_TO_ROLE;
pub(super) use grant_roles_to_user::GRANT_ROLES_TO_USER;
pub(super) use invalidate_user_cache::INVALIDATE_USER_CACHE;
pub(super) use revoke_privileges_from_role::REVOKE_PRIVILEGES_FROM_ROLE;
pub(super) use revoke_roles_from_role::REVOKE_ROLES_FROM_ROLE;
pub(super) use revoke_roles_from_user::REVOKE_ROLES_FROM_USER;
pub(super) use roles_info::ROLES_INFO;
pub(super) use update_role::UPDATE_ROLE;
pub(super) use update_user::UPDATE_USER;
pub(super) use users_info::USERS_INFO;

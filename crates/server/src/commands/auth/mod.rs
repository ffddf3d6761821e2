//! Logging in and out.

mod authenticate;
mod getnonce;
mod logout;
mod oidc_list_keys;
mod oidc_refresh_keys;
mod sasl_continue;
mod sasl_start;

pub(super) use authenticate::AUTHENTICATE;
pub(super) use getnonce::GETNONCE;
pub(super) use logout::LOGOUT;
pub(super) use oidc_list_keys::OIDC_LIST_KEYS;
pub(super) use oidc_refresh_keys::OIDC_REFRESH_KEYS;
pub(super) use sasl_continue::SASL_CONTINUE;
pub(super) use sasl_start::{SASL_START, start_speculatively};

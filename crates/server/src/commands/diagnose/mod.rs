//! Commands that tell about the server and its data.

mod build_info;
mod ping;
mod whatsmyuri;

pub(super) use build_info::BUILD_INFO;
pub(super) use ping::PING;
pub(super) use whatsmyuri::WHATSMYURI;

//! Which build this is.

/// The release.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit, if the build was told (`NAGI_GIT_VERSION`).
pub(crate) const GIT_VERSION: &str = match option_env!("NAGI_GIT_VERSION") {
    Some(version) => version,
    None => "unknown",
};

/// Prints what `nagi version` and `--version` say.
pub(crate) fn print_version() {
    crate::print(&format!(
        "nagi {VERSION} (commit {GIT_VERSION}, {} {})",
        std::env::consts::OS,
        std::env::consts::ARCH
    ));
}

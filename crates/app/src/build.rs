//! Version information of the build.

use nagi_bson::{Array, DocBuf, json};
use nagi_server::COMPATIBLE_VERSION;

/// The release.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit, if `NAGI_GIT_VERSION` was set during the build.
pub(crate) const GIT_VERSION: &str = match option_env!("NAGI_GIT_VERSION") {
    Some(version) => version,
    None => "unknown",
};

/// Prints the output of `nagi version` and `--version`. Its first line is mongod's, because launchers of test servers
/// read the version from it.
pub(crate) fn print_version() {
    crate::print(&version_text());
}

fn version_text() -> String {
    let info = DocBuf::build(|w| {
        w.put("version", COMPATIBLE_VERSION);
        w.put("gitVersion", GIT_VERSION);
        w.put("modules", Array::EMPTY);
        w.put("allocator", "jemalloc");
        w.doc("environment", |w| {
            w.put("distarch", std::env::consts::ARCH);
            w.put("target_arch", std::env::consts::ARCH);
            w.put("target_os", std::env::consts::OS);
        });
        w.doc("nagi", |w| w.put("version", VERSION));
    });
    format!("db version v{COMPATIBLE_VERSION}\nBuild Info: {}", json::to_relaxed(info.as_doc()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_compatible_version() {
        let text = version_text();
        let (first, rest) = text.split_once('\n').unwrap();
        let number = first.strip_prefix("db version v").unwrap();
        assert!(number.split('.').all(|part| part.parse::<u32>().is_ok()), "{first}");
        assert_eq!(number.split('.').count(), 3);
        let info = json::parse(rest.strip_prefix("Build Info: ").unwrap()).unwrap();
        assert_eq!(info.get("version").as_str(), Some(number));
        assert_eq!(
            info.as_doc().get("nagi").as_doc().unwrap().get("version").as_str(),
            Some(VERSION)
        );
    }
}

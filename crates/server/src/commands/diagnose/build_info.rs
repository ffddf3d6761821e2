//! `buildInfo`: the MongoDB release that this server is compatible with, and the server's own version.

use crate::core::command::prelude::*;
use crate::limits::{BSON_OBJECT_BYTES_MAX, COMPATIBLE_VERSION};

/// The parts of [`COMPATIBLE_VERSION`].
const COMPATIBLE_VERSION_PARTS: [i32; 4] = [8, 0, 4, 0];

pub(in crate::commands) static BUILD_INFO: Command = Command {
    facts: Facts {
        name: "buildInfo",
        aliases: &["buildinfo"],
        help: "Version and build information of the server.",
        before_login: true,
        ..Facts::ROW
    },
    run,
    ..Command::ROW
};

fn run(cx: &mut Context<'_>, _: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    write_build_info(cx.server, out);
    Ok(())
}

/// Writes the fields of the reply. The record of a start contains them as well.
pub(crate) fn write_build_info(server: &crate::core::server::Server, out: &mut DocWriter<'_>) {
    let config = &server.config;
    out.put("version", COMPATIBLE_VERSION);
    out.put("gitVersion", config.git_version);
    out.put("modules", Array::EMPTY);
    out.put("allocator", "jemalloc");
    out.put("javascriptEngine", if server.engines.is_some() { "quickjs" } else { "none" });
    out.put("sysInfo", "deprecated");
    out.array("versionArray", |a| COMPATIBLE_VERSION_PARTS.iter().for_each(|n| a.push(*n)));
    out.doc("openssl", |d| {
        d.put("running", "disabled");
        d.put("compiled", "disabled");
    });
    out.doc("buildEnvironment", |d| {
        d.put("distarch", std::env::consts::ARCH);
        d.put("target_arch", std::env::consts::ARCH);
        d.put("target_os", std::env::consts::OS);
    });
    out.put("bits", usize::BITS as i32);
    out.put("debug", cfg!(debug_assertions));
    out.put("maxBsonObjectSize", BSON_OBJECT_BYTES_MAX as i32);
    out.array("storageEngines", |a| a.push(config.storage_engine.as_str()));
    out.doc("nagi", |d| d.put("version", config.nagi_version));
}

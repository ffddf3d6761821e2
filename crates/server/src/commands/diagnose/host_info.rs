//! `hostInfo`: describes the machine and its operating system.

use super::status;
use crate::clock;
use crate::core::command::prelude::*;
use crate::core::server::Server;
use nagi_proc::machine;

pub(in crate::commands) static HOST_INFO: Command = Command {
    facts: Facts {
        name: "hostInfo",
        aliases: &["hostinfo"],
        help: "Information about the machine on which the server runs.",
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::HostInfo]),
    run,
    ..Command::ROW
};

fn run(cx: &mut Context<'_>, _: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    write_host_info(cx.server, out);
    Ok(())
}

/// Writes the fields of the reply.
pub(super) fn write_host_info(server: &Server, out: &mut DocWriter<'_>) {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get()) as i32;
    let memory_mb = status::memory_total_kb() / 1024;
    out.doc("system", |system| {
        system.put("currentTime", Value::DateTime(clock::wall_ms()));
        system.put("hostname", &server.host_and_port());
        system.put("cpuAddrSize", usize::BITS as i32);
        system.put("memSizeMB", memory_mb);
        let limit_mb = |bytes| i64::try_from(bytes >> 20).unwrap_or(i64::MAX).min(memory_mb);
        let limit_bytes = server.config.memory_limit_bytes;
        system.put("memLimitMB", limit_bytes.map_or(memory_mb, limit_mb));
        system.put("numCores", status::core_count());
        system.put("numCoresAvailableToProcess", cores);
        system.put("numPhysicalCores", status::core_count());
        system.put("cpuArch", std::env::consts::ARCH);
        system.put("numaEnabled", false);
    });
    out.doc("os", |os| {
        let (name, version) = machine::distribution();
        os.put("type", "Linux");
        os.put("name", &name);
        os.put("version", &version);
    });
    out.doc("extra", |extra| {
        extra.put("versionString", &machine::kernel_version().unwrap_or_default());
        extra.put("kernelVersion", &machine::kernel_release().unwrap_or_default());
        extra.put("pageSize", status::PAGE_BYTES);
        extra.put("numPages", memory_mb * 1024 * 1024 / status::PAGE_BYTES);
        extra.put("maxOpenFiles", status::open_file_limit());
    });
}

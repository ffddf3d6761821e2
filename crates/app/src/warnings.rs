//! Warnings at the start, which the log contains and every shell shows when it connects.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nagi_bson::DocBuf;
use nagi_host::EngineKind;
use nagi_server::Log;

use crate::options::Options;

/// Logs the warnings about the configuration, then those of the doctor about the machine.
pub(crate) fn at_start(options: &Options, connection_count_max: i64, log: &Log) {
    let plain = |id: i64, text: &str| {
        log.startup_warning("CONTROL", id, text, DocBuf::new().as_doc());
    };
    if !options.authorization {
        plain(
            22_120,
            "Access control is not enabled for the database. Read and write access to data and \
             configuration is unrestricted",
        );
    }
    if rustix::process::geteuid().is_root() {
        plain(22_138, "You are running this process as the root user, which is not recommended");
    }
    if !options.remark_lines.is_empty() {
        let lines: Vec<String> = options.remark_lines.iter().map(usize::to_string).collect();
        let attr = DocBuf::build(|doc| doc.put("lines", lines.join(", ").as_str()));
        log.startup_warning(
            "CONTROL",
            8_200_065,
            "The configuration file is not YAML: remarks begin with '#', not with '//'. It was read without them; \
             mongod would refuse it",
            attr.as_doc(),
        );
    }
    for (option, note) in &options.notes {
        let attr = DocBuf::build(|doc| doc.put("option", option.as_str()));
        log.startup_warning("CONTROL", 8_200_041, note, attr.as_doc());
    }
    if let Some(path) = &options.time_zones {
        log::info!(target: "CONTROL", id = 8_200_042, timeZoneInfo = path.as_str();
            "Time zones are read from the built-in database; the files of this directory are not \
             read");
    }
    let local = |name: &String| {
        name.starts_with('/') || ["localhost", "127.0.0.1", "::1"].contains(&name.as_str())
    };
    let chosen = options.parsed.iter().any(|(key, _)| key == "net.bindIp");
    if !chosen && options.net.bind_ip.iter().all(local) {
        plain(
            22_140,
            "This server is bound to localhost. Remote systems will be unable to connect to this \
             server. Start the server with --bind_ip <address> to specify which IP addresses it \
             should serve responses from, or with --bind_ip_all to bind to all interfaces. If this \
             behavior is desired, start the server with --bind_ip 127.0.0.1 to disable this warning",
        );
    }
    let folder = (options.engine != EngineKind::Memory).then(|| Path::new(&options.db_path));
    if let Some(folder) = folder {
        warn_of_other_owner(folder, log);
    }
    let connections = u64::try_from(connection_count_max).unwrap_or(0);
    let budget_bytes = crate::memory::budget_bytes(options);
    for line in nagi_doctor::startup_warnings(folder, connections, budget_bytes) {
        log.startup_warning(line.component, line.id, &line.message, line.attr.as_doc());
    }
}

/// Warns if the data directory belongs to another user: that user's server cannot open the files that this one creates.
fn warn_of_other_owner(folder: &Path, log: &Log) {
    let Ok(found) = std::fs::metadata(folder) else { return };
    let (owner, own) = (found.uid(), rustix::process::geteuid().as_raw());
    if owner == own {
        return;
    }
    let attr = DocBuf::build(|doc| {
        doc.put("dbPath", folder.display().to_string().as_str());
        doc.put("owner", i64::from(owner));
        doc.put("user", i64::from(own));
        doc.put("fix", format!("chown -R --reference={0} {0}", folder.display()).as_str());
    });
    log.startup_warning(
        "CONTROL",
        8_200_064,
        "The data directory belongs to another user than the one who runs this server. A server of the owner, such \
         as the service, cannot open the files that this one creates, until their owner is set after the shutdown",
        attr.as_doc(),
    );
}

//! The reply of a request that failed.

use std::sync::Arc;

use nagi_bson::DocWriter;
use nagi_error::{Code, Error};

use crate::core::server::Server;
use crate::request::Request;

/// Replaces everything written so far by the error document.
pub(crate) fn write_error(
    server: &Arc<Server>,
    error: &Error,
    request: Option<&Request<'_>>,
    out: &mut DocWriter<'_>,
) {
    out.clear();
    out.put("ok", 0.0);
    out.put("errmsg", error.message());
    out.put("code", error.code().0);
    out.put("codeName", error.code().name().as_ref());
    if let Some(info) = error.info() {
        out.extend(info.as_doc());
    }
    if !error.labels().is_empty() {
        out.array("errorLabels", |labels| {
            error.labels().iter().for_each(|label| labels.push(*label));
        });
    }
    if tells_topology(server, error.code()) {
        server.identity.topology.write(out);
    }
    if error.code() == Code::INTERNAL_ERROR {
        server.metrics.asserts.regular.increment();
        let name = request.map_or("", |r| r.command.name);
        log::error!(target: "COMMAND", id = 9_000_002, command = name, error = error.message();
            "Internal error");
    } else {
        server.metrics.asserts.user.increment();
    }
}

/// Returns true for errors of a member or router after which a driver refreshes its view of the server, unless it
/// already knows the `topologyVersion` in the reply. The shutdown codes count only while the server stops; otherwise a
/// fail point injected them.
pub(super) fn tells_topology(server: &Server, code: Code) -> bool {
    server.is_replicated()
        && match code {
            Code::NOT_WRITABLE_PRIMARY
            | Code::NOT_PRIMARY_NO_SECONDARY_OK
            | Code::NOT_PRIMARY_OR_SECONDARY
            | Code::PRIMARY_STEPPED_DOWN
            | Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE => true,
            Code::INTERRUPTED_AT_SHUTDOWN | Code::SHUTDOWN_IN_PROGRESS => {
                server.is_stopping() || server.quiesce_remaining().is_some()
            }
            _ => false,
        }
}

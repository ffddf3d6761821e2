//! The sections of `serverStatus` about LDAP.

use crate::core::command::prelude::*;
use crate::core::server::Server;
use crate::directory::DirectoryStatus;

/// The servers, and the requests that run and wait.
pub(super) fn connections(server: &Server, out: &mut DocWriter<'_>) {
    let Some(status) = status(server) else { return };
    out.array("ldapServerStats", |list| {
        for one in &status.servers {
            list.doc(|out| {
                out.put("host", one.host.as_str());
                out.put("isDown", one.is_down);
                out.put("totalCreated", long(one.opened_count));
                out.put("failures", long(one.failed_count));
            });
        }
    });
    out.put("available", long(status.idle_count));
    out.put("inUse", long(status.running_count));
    out.put("waiting", long(status.waiting_count));
    out.put("timedOutWaiting", long(status.crowded_out_count));
}

/// The operations, with MongoDB's names. Referrals are not followed, so there is none.
pub(super) fn operations(server: &Server, out: &mut DocWriter<'_>) {
    let Some(status) = status(server) else { return };
    for name in ["Successful", "Failed"] {
        out.put(&format!("LDAPNumberOf{name}Referrals"), 0_i64);
    }
    out.put("LDAPNumberOfReferrals", 0_i64);
    for (name, count, micros) in [
        ("bindStats", status.bind_count, status.bind_micros),
        ("searchStats", status.search_count, status.search_micros),
    ] {
        out.doc(name, |out| {
            out.put("numOp", long(count));
            out.put("opDurationMicros", long(micros));
        });
    }
}

fn status(server: &Server) -> Option<DirectoryStatus> {
    server.auth.directory.directory().map(|directory| directory.status())
}

fn long(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

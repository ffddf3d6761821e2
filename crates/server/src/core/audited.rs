//! Audit messages of a connection, and of the server itself.
//!
//! ```text
//!   { atype, ts, uuid, local, remote, users: [{user, db}], roles: [{role, db}], param, result }
//! ```

use std::time::Duration;

use nagi_bson::{Binary, Doc, DocBuf, DocWriter, Value};
use nagi_error::{Code, Result};
use sha2::{Digest, Sha256};

use crate::audit::AuditLog;
use crate::clock;
use crate::core::connection::{Connection, Peer};
use crate::core::server::Server;
use crate::limits::AUDIT_PARAM_BYTES_MAX;
use crate::names::{UserName, write_roles};
use crate::printable::write_cut;
use crate::settings::cluster_params::{self, AUDIT_CONFIG};
use crate::settings::params;

impl Connection {
    /// Records an audit message about this client, if there is an audit log. `param` writes the details.
    pub(crate) fn audit(&self, atype: &str, result: Code, param: impl FnOnce(&mut DocWriter<'_>)) {
        let Some(audit) = &self.server.audit else { return };
        let param = DocBuf::build(param);
        let message = DocBuf::build(|out| {
            begin(atype, out);
            let uuid = self.audit_id();
            out.put("uuid", Value::Binary(Binary { subtype: 4, bytes: &uuid }));
            out.doc("local", |out| self.server.write_local(&self.peer, out));
            out.doc("remote", |out| write_remote(&self.peer, out));
            let user = self.login.as_ref().map(|login| &login.user);
            out.array("users", |out| {
                user.iter().for_each(|user| out.doc(|out| user.name.write("user", out)));
            });
            out.array("roles", |out| {
                user.iter().for_each(|user| write_roles(&user.closure.roles, out));
            });
            end(param.as_doc(), result, out);
        });
        audit.record(message, self.server.audit_wait());
    }

    /// The UUID by which messages name this connection. It is derived, so that connections need not store it.
    fn audit_id(&self) -> [u8; 16] {
        let mut digest = Sha256::new();
        digest.update(self.server.identity.topology.process_id);
        digest.update(self.id.to_le_bytes());
        let mut id = [0; 16];
        id.copy_from_slice(&digest.finalize()[..16]);
        id[6] = id[6] & 0x0F | 0x40;
        id[8] = id[8] & 0x3F | 0x80;
        id
    }

    /// Records a login: that it succeeded, or why not.
    pub(crate) fn audit_login(&self, user: &str, db: &str, mechanism: &str, result: Code) {
        self.audit("authenticate", result, |out| {
            out.put("user", user);
            out.put("db", db);
            out.put("mechanism", mechanism);
        });
    }

    /// Records a login that succeeded. `claims`: what its token says.
    pub(crate) fn audit_proof(&self, user: &UserName, mechanism: &str, claims: Option<Doc<'_>>) {
        self.audit("authenticate", Code::OK, |out| {
            user.write("user", out);
            out.put("mechanism", mechanism);
            if let Some(claims) = claims {
                out.doc("extraInfo", |extra| extra.put("claims", claims));
            }
        });
    }

    /// Records that a login which had begun is not completed.
    pub(crate) fn audit_abandoned(&self) {
        if let Some(conversation) = &self.conversation {
            let user = conversation.exchange.user();
            let (name, db) = user.map_or(("", ""), |user| (&*user.name, &*user.db));
            let mechanism = conversation.by.name();
            self.audit_login(name, db, mechanism, Code::AUTHENTICATION_ABANDONED);
        }
    }

    /// Records the end of the login; the connection must still have it.
    pub(crate) fn audit_logout(&self, reason: &str) {
        let Some(login) = &self.login else { return };
        self.audit("logout", Code::OK, |out| {
            out.put("reason", reason);
            out.array("initialUsers", |out| out.doc(|out| login.user.name.write("user", out)));
            out.array("updatedUsers", |_| ());
        });
    }

    /// The server's address that the client is connected to, as messages show it.
    pub(crate) fn write_local(&self, out: &mut DocWriter<'_>) {
        self.server.write_local(&self.peer, out);
    }
}

impl Server {
    /// Records an audit message about the server itself, if there is an audit log.
    pub(crate) fn audit_own(&self, atype: &str, param: impl FnOnce(&mut DocWriter<'_>)) {
        let Some(audit) = &self.audit else { return };
        let param = DocBuf::build(param);
        let message = DocBuf::build(|out| {
            begin(atype, out);
            let bytes = &[0; 16];
            out.put("uuid", Value::Binary(Binary { subtype: 4, bytes }));
            out.doc("local", |out| out.put("isSystemUser", true));
            out.doc("remote", |out| out.put("isSystemUser", true));
            out.array("users", |_| ());
            out.array("roles", |_| ());
            end(param.as_doc(), Code::OK, out);
        });
        audit.record(message, self.audit_wait());
    }

    /// Applies the stored configuration, where `setAuditConfig` may change it.
    ///
    /// # Errors
    /// Those of the store and of the filter.
    pub(crate) fn apply_audit_config(&self) -> Result<()> {
        let Some(audit) = self.audit.as_ref().filter(|audit| audit.is_runtime()) else {
            return Ok(());
        };
        let stored = self.settings.cluster_params.show(&self.store, AUDIT_CONFIG)?;
        let filter = stored.get("filter").as_doc().unwrap_or(Doc::EMPTY);
        audit.configure(filter, stored.get("auditAuthorizationSuccess").is_truthy())
    }

    /// Records the start, with its options and the cluster parameters.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn audit_startup(&self) -> Result<()> {
        if self.audit.is_none() {
            return Ok(());
        }
        let params = &self.settings.cluster_params;
        let shown = cluster_params::names().map(|name| params.show(&self.store, name));
        let shown = shown.collect::<Result<Vec<_>>>()?;
        self.audit_own("startup", |out| {
            out.put("startupOptions", &self.config.parsed_options);
            out.array("initialClusterServerParameters", |out| {
                shown.iter().for_each(|doc| out.push_doc(doc.as_doc()));
            });
        });
        Ok(())
    }

    /// Records the begin of the shutdown, unless a client's command has recorded it.
    pub(crate) fn audit_shutdown(&self) {
        if self.audit.as_ref().is_some_and(AuditLog::begin_shutdown) {
            self.audit_own("shutdown", |_| ());
        }
    }

    /// How long a request may wait for room in the queue.
    fn audit_wait(&self) -> Duration {
        const LIMIT: usize = params::position("auditQueueWaitMaxMs");
        match self.settings.params.lists("auditQueueFullAction", "block") {
            true => Duration::from_millis(self.settings.params.number(LIMIT).unsigned_abs()),
            false => Duration::ZERO,
        }
    }

    /// True if allowed commands are recorded too.
    pub(crate) fn audits_successes(&self, audit: &AuditLog) -> bool {
        const ROW: usize = params::position("auditAuthorizationSuccess");
        match audit.is_runtime() {
            true => audit.wants_successes(),
            false => self.settings.params.number(ROW) != 0,
        }
    }

    /// Rotates the file of the audit log, if there is one, and records that.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn rotate_audit_log(&self) -> std::io::Result<()> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let aside = audit.rotate()?;
        self.audit_own("rotateLog", |out| {
            out.put("pid", i64::from(std::process::id()));
            out.doc("logRotationStatus", |out| {
                out.put("status", "OK");
                out.put("rotatedLogPath", aside.as_deref().unwrap_or(""));
                out.array("errors", |_| ());
            });
        });
        Ok(())
    }

    /// Writes what the queue of the audit log still has, and closes it: nothing is recorded any more.
    pub fn close_audit_log(&self) {
        if let Some(audit) = &self.audit {
            audit.close();
        }
    }

    fn write_local(&self, peer: &Peer, out: &mut DocWriter<'_>) {
        match peer.local {
            Some(ip) => {
                out.put("ip", ip.to_canonical().to_string().as_str());
                out.put("port", i32::from(self.config.port));
            }
            None if peer.unix_socket => out.put("unix", self.socket_path().as_str()),
            None => out.put("isSystemUser", true),
        }
    }

    /// The path of the Unix socket, as the options set it.
    fn socket_path(&self) -> String {
        let net = self.config.parsed_options.get("net").as_doc();
        let socket = net.and_then(|net| net.get("unixDomainSocket").as_doc());
        let prefix = socket.and_then(|socket| socket.get("pathPrefix").as_str());
        format!("{}/mongodb-{}.sock", prefix.unwrap_or("/tmp"), self.config.port)
    }
}

fn begin(atype: &str, out: &mut DocWriter<'_>) {
    out.put("atype", atype);
    out.put("ts", Value::DateTime(clock::wall_ms()));
}

fn end(param: Doc<'_>, result: Code, out: &mut DocWriter<'_>) {
    match param.len() > AUDIT_PARAM_BYTES_MAX {
        false => out.put("param", param),
        true => {
            let mut cut = Vec::new();
            write_cut(&mut cut, param);
            out.put("param", DocBuf::from_bytes(cut).unwrap_or_default().as_doc());
        }
    }
    out.put("result", result.0);
}

fn write_remote(peer: &Peer, out: &mut DocWriter<'_>) {
    match peer.address.parse::<std::net::SocketAddr>() {
        Ok(address) => {
            out.put("ip", address.ip().to_canonical().to_string().as_str());
            out.put("port", i32::from(address.port()));
        }
        Err(_) if peer.unix_socket => out.put("unix", "anonymous"),
        Err(_) => out.put("isSystemUser", true),
    }
}

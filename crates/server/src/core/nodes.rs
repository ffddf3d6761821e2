//! The nodes that share the store, of which each is a router. Each tells the others of itself when it starts; its lease
//! tells that it is there.
//!
//!   {host: "one:27017", started: Date, version: "8.0.4"}     in the entry of its seat

use nagi_bson::{Doc, DocBuf, Value};
use nagi_error::Result;

use crate::clock;
use crate::core::server::Server;

/// A node.
pub(crate) struct Node {
    /// Its host and port.
    pub(crate) host: String,
    pub(crate) started_ms: i64,
    /// When it last said that it is there.
    pub(crate) ping_ms: i64,
    /// The version of MongoDB with which it is compatible.
    pub(crate) version: String,
}

/// Tells the other nodes of this one.
///
/// # Errors
/// Those of the store.
pub(crate) fn tell(server: &Server) -> Result<()> {
    let own = own(server);
    let about = DocBuf::build(|w| {
        w.put("host", own.host.as_str());
        w.put("started", Value::DateTime(own.started_ms));
        w.put("version", own.version.as_str());
    });
    server.store.describe_node(about.as_doc())
}

/// All nodes; this one alone if there cannot be others. Those that have not told of themselves yet are left out.
///
/// # Errors
/// Those of the store.
pub(crate) fn all(server: &Server) -> Result<Vec<Node>> {
    let Some(nodes) = server.store.nodes()? else { return Ok(vec![own(server)]) };
    let nodes = nodes.iter().filter_map(|node| match node.is_own {
        true => Some(own(server)),
        false => parse(node.about.as_doc(), node.renewed_ms),
    });
    Ok(nodes.collect())
}

fn own(server: &Server) -> Node {
    let now_ms = clock::wall_ms();
    let up_ms = (clock::micros_since(server.identity.started) / 1000) as i64;
    Node {
        host: server.host_and_port(),
        started_ms: now_ms - up_ms,
        ping_ms: now_ms,
        version: crate::limits::COMPATIBLE_VERSION.to_owned(),
    }
}

fn parse(about: Doc<'_>, ping_ms: i64) -> Option<Node> {
    let Value::DateTime(started_ms) = about.get("started") else { return None };
    let text = |name: &str| about.get(name).as_str().map(str::to_owned);
    Some(Node { host: text("host")?, started_ms, ping_ms, version: text("version")? })
}

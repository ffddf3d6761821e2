//! Checks of the hosts in a new configuration: exactly one must be this server, and all must be reachable.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

use nagi_bson::{Doc, DocWriter, Value};
use nagi_error::{Code, Result, bail};

use crate::number::truncate;

/// The port of a host that specifies none.
const DEFAULT_PORT: u16 = 27017;
/// How long to wait for a host to accept a connection and to reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// The size of the header, flags and section kind of a reply; and the maximum size of a hello reply.
const MSG_HEADER_BYTES: usize = 21;
const HELLO_BYTES_MAX: usize = 64 << 10;
/// The maximum number of members in a configuration, as in MongoDB.
const MEMBER_COUNT_MAX: usize = 50;

/// The command that runs the check. It determines the error text, and the code if no member is this server.
#[derive(Clone, Copy)]
pub(crate) enum Asks {
    Initiate,
    Reconfigure,
}

/// Refuses a configuration if not exactly one member is this server, or if another member is unreachable.
///
/// # Errors
/// 93 (74 for a reconfiguration) if no member is this server, 93 if several are, 74 if one cannot be reached.
pub(crate) fn check(
    config: Doc<'_>,
    (own_port, process_id): (u16, [u8; 12]),
    term: i64,
    asks: Asks,
) -> Result<()> {
    let Some(members) = config.get("members").as_array() else { return Ok(()) };
    let hosts =
        members.iter().take(MEMBER_COUNT_MAX).filter_map(|m| m.as_doc()?.get("host").as_str());
    let hosts: Vec<&str> = hosts.collect();
    if hosts.is_empty() {
        return Ok(());
    }
    let version = truncate(config.get("version")).unwrap_or(1);
    let name = config.get("_id").as_str().unwrap_or("");
    let found: Vec<(&str, Found)> =
        hosts.iter().map(|host| (*host, find(host, own_port, process_id))).collect();
    let mut own = found.iter().filter(|(_, found)| matches!(found, Found::Own));
    match (own.next(), own.next(), asks) {
        (Some(_), None, _) => {}
        (None, _, asks) => bail!(
            match asks {
                Asks::Initiate => Code::INVALID_REPLICA_SET_CONFIG,
                Asks::Reconfigure => Code::NODE_NOT_FOUND,
            },
            "No host described in new configuration with {{version: {version}, term: {term}}} for \
             replica set {name} maps to this node"
        ),
        (Some((first, _)), Some((second, _)), _) => bail!(
            Code::INVALID_REPLICA_SET_CONFIG,
            "The hosts {first} and {second} all map to this node in new configuration with \
             {{version: {version}, term: {term}}} for replica set {name}"
        ),
    }
    let command = match asks {
        Asks::Initiate => "replSetInitiate",
        Asks::Reconfigure => "replSetReconfig",
    };
    let silent = found.iter().filter_map(|(host, found)| match found {
        Found::Silent(error) => Some(format!("{host} failed with {error}")),
        Found::Own | Found::Other => None,
    });
    let silent: Vec<String> = silent.collect();
    if !silent.is_empty() {
        bail!(
            Code::NODE_NOT_FOUND,
            "{command} quorum check failed because not all proposed set members responded \
             affirmatively: {}",
            silent.join(", ")
        );
    }
    Ok(())
}

/// The result of the check of a host.
enum Found {
    /// This server.
    Own,
    /// Another server that accepts connections.
    Other,
    /// Unreachable, with the reason.
    Silent(String),
}

/// A host is this server if its port is ours and one of its addresses belongs to this machine, which is true if a
/// socket can be bound to it. Otherwise it is this server if the server at the address reports our process id in its
/// hello: an address may be translated by the network.
fn find(host: &str, own_port: u16, process_id: [u8; 12]) -> Found {
    let silent = |cause: &dyn std::fmt::Display| {
        Found::Silent(format!("Error connecting to {host} :: caused by :: {cause}"))
    };
    let addresses = match addresses(host) {
        Ok(addresses) => addresses,
        Err(error) => return silent(&error),
    };
    if addresses.iter().any(|address| is_own(address, own_port)) {
        return Found::Own;
    }
    let mut last = std::io::Error::other("Could not find address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                let is_own = process_of(stream).is_ok_and(|id| id == Some(process_id));
                return if is_own { Found::Own } else { Found::Other };
            }
            Err(error) => last = error,
        }
    }
    silent(&last)
}

fn is_own(address: &SocketAddr, own_port: u16) -> bool {
    address.port() == own_port && TcpListener::bind((address.ip(), 0)).is_ok()
}

/// Returns true if one of a host's addresses belongs to this machine and the port is ours. Sends nothing.
pub(super) fn is_here(host: &str, own_port: u16) -> bool {
    addresses(host).is_ok_and(|all| all.iter().any(|address| is_own(address, own_port)))
}

/// The process id in the hello reply of the server at the other end.
fn process_of(mut stream: TcpStream) -> std::io::Result<Option<[u8; 12]>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut frame = Vec::new();
    let start = nagi_wire::begin_msg(&mut frame, 1, 0, 0);
    let mut hello = DocWriter::new(&mut frame);
    hello.put("hello", 1);
    hello.put("$db", "admin");
    hello.finish();
    nagi_wire::finish_msg(&mut frame, start);
    stream.write_all(&frame)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if !(MSG_HEADER_BYTES..=HELLO_BYTES_MAX).contains(&length) {
        return Ok(None);
    }
    let mut rest = vec![0; length - 4];
    stream.read_exact(&mut rest)?;
    let body = rest.get(MSG_HEADER_BYTES - 4..).and_then(|body| Doc::parse(body).ok());
    let topology = body.and_then(|body| body.get("topologyVersion").as_doc());
    Ok(match topology.map(|topology| topology.get("processId")) {
        Some(Value::ObjectId(id)) => Some(*id),
        _ => None,
    })
}

/// Resolves `name:port`; the port may be omitted.
fn addresses(host: &str) -> std::io::Result<Vec<SocketAddr>> {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match has_port {
        true => host.to_socket_addrs().map(Iterator::collect),
        false => (host, DEFAULT_PORT).to_socket_addrs().map(Iterator::collect),
    }
}

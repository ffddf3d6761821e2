//! The network configuration.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nagi_server::{Networks, Peer};
use nagi_tls::Tls;

/// Addresses and limits. The names follow mongod's options.
#[derive(Debug, Clone)]
pub struct NetConfig {
    /// 0 selects a free port.
    pub port: u16,
    /// Host names, addresses, or paths of Unix sockets (`net.bindIp`).
    pub bind_ip: Vec<String>,
    /// True if names may resolve to IPv6 addresses (`net.ipv6`).
    pub ipv6: bool,
    /// The networks from which clients may connect (`net.ipAllowlist`); `None`: all. Unix sockets are not concerned.
    pub allowed: Option<Networks>,
    /// The directory of `mongodb-<port>.sock`; `None`: no such socket.
    pub unix_socket_dir: Option<PathBuf>,
    /// The file mode of Unix sockets.
    pub unix_socket_mode: u32,
    /// The number of connections that the kernel may queue (`net.listenBacklog`).
    pub backlog: i32,
    /// A connection that would get this file descriptor or a higher one is closed: the remaining descriptors are
    /// reserved for the storage engine.
    pub descriptors_max: u64,
    /// The virtual size of a connection thread's stack.
    pub stack_bytes: usize,
    /// The maximum pause in the middle of a frame.
    pub frame_gap_max: Duration,
    /// The maximum time from the first byte of a frame to its last.
    pub frame_time_max: Duration,
    /// The maximum time in which a peer accepts no byte of its reply.
    pub write_gap_max: Duration,
    /// The time in which a peer must send 256 KiB of its large message, or accept them of its reply. Only time in which
    /// other requests wait for memory counts.
    pub crowded_time_max: Duration,
    /// The time without requests after which a connection frees its buffers.
    pub idle_after: Duration,
    /// Certificates and modes (`net.tls`); `None`: clients with TLS are refused.
    pub tls: Option<Arc<Tls>>,
    /// The maximum time of a TLS handshake, and of the first 16 bytes of a connection.
    pub handshake_time_max: Duration,
    /// The number of connections at a time whose handshake or first message has begun and is incomplete. One more ends
    /// the oldest of them.
    pub handshake_count_max: usize,
}

impl Default for NetConfig {
    fn default() -> NetConfig {
        NetConfig {
            port: 27017,
            bind_ip: vec!["localhost".into()],
            ipv6: false,
            allowed: None,
            unix_socket_dir: Some("/tmp".into()),
            unix_socket_mode: 0o700,
            backlog: 4096,
            descriptors_max: u64::MAX,
            // Unoptimized code needs several times the stack.
            stack_bytes: if cfg!(debug_assertions) { 8 << 20 } else { 1 << 20 },
            frame_gap_max: Duration::from_secs(60),
            frame_time_max: Duration::from_secs(600),
            write_gap_max: Duration::from_secs(300),
            crowded_time_max: Duration::from_secs(5),
            idle_after: Duration::from_secs(10),
            tls: None,
            handshake_time_max: Duration::from_secs(10),
            handshake_count_max: 1000,
        }
    }
}

impl NetConfig {
    /// Returns true if this client may connect.
    pub(crate) fn admits(&self, peer: &Peer) -> bool {
        match &self.allowed {
            Some(networks) if !peer.unix_socket => peer.ip().is_some_and(|ip| networks.contain(ip)),
            _ => true,
        }
    }
}

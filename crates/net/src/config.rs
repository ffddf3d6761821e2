//! What the administrator says about the network.

use std::path::PathBuf;
use std::time::Duration;

/// Addresses and limits. Names follow mongod's options.
#[derive(Debug, Clone)]
pub struct NetConfig {
    /// 0 picks a free port.
    pub port: u16,
    /// Host names, addresses, or paths of Unix sockets (`net.bindIp`).
    pub bind_ip: Vec<String>,
    /// Whether names may stand for IPv6 addresses (`net.ipv6`).
    pub ipv6: bool,
    /// Directory of `mongodb-<port>.sock`; `None`: no such socket.
    pub unix_socket_dir: Option<PathBuf>,
    /// Mode of Unix sockets.
    pub unix_socket_mode: u32,
    /// Connections that the kernel may queue (`net.listenBacklog`).
    pub backlog: i32,
    /// A connection that would get this descriptor or a higher one is closed: the last ones are the storage
    /// engine's.
    pub descriptors_max: u64,
    /// Virtual size of a connection's stack.
    pub stack_bytes: usize,
    /// Longest silence in the middle of a frame.
    pub frame_gap_max: Duration,
    /// Longest time from the first byte of a frame to its last.
    pub frame_time_max: Duration,
    /// Longest time in which a peer takes no byte of its reply.
    pub write_gap_max: Duration,
    /// Silence between frames after which buffers are given back.
    pub idle_after: Duration,
}

impl Default for NetConfig {
    fn default() -> NetConfig {
        NetConfig {
            port: 27017,
            bind_ip: vec!["localhost".into()],
            ipv6: false,
            unix_socket_dir: Some("/tmp".into()),
            unix_socket_mode: 0o700,
            backlog: 4096,
            descriptors_max: u64::MAX,
            // Unoptimised code needs several times the stack.
            stack_bytes: if cfg!(debug_assertions) { 8 << 20 } else { 1 << 20 },
            frame_gap_max: Duration::from_secs(60),
            frame_time_max: Duration::from_secs(600),
            write_gap_max: Duration::from_secs(300),
            idle_after: Duration::from_secs(10),
        }
    }
}

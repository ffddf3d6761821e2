//! Opens the configured addresses.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nagi_server::Peer;
use socket2::{Domain, SockRef, Socket, Type};

use crate::NetConfig;
use crate::stream::Stream;

/// A listening socket.
#[derive(Debug)]
pub(crate) enum Door {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

/// TCP addresses that belong to this process and to which nothing can connect yet.
#[derive(Debug)]
pub(crate) struct Bound {
    sockets: Vec<(Socket, SocketAddr)>,
    /// The TCP port, also if the system selected it.
    pub(crate) port: u16,
}

impl Bound {
    /// The first address that other machines can reach.
    pub(crate) fn beyond_loopback(&self) -> Option<SocketAddr> {
        let mut addresses = self.sockets.iter().map(|(_, address)| *address);
        addresses.find(|address| !address.ip().to_canonical().is_loopback())
    }
}

/// Binds all configured TCP addresses.
pub(crate) fn bind(config: &NetConfig) -> io::Result<Bound> {
    let mut bound = Bound { sockets: Vec::new(), port: config.port };
    for mut address in addresses(config)? {
        address.set_port(bound.port);
        let (socket, port) = tcp(address).map_err(|e| said(&e, &address))?;
        bound.port = port;
        bound.sockets.push((socket, address));
    }
    Ok(bound)
}

/// Opens the bound addresses and the Unix sockets.
pub(crate) fn open(bound: Bound, config: &NetConfig) -> io::Result<Vec<Door>> {
    let (mut doors, port) = (Vec::new(), bound.port);
    for (socket, address) in bound.sockets {
        // Two processes can bind the same address; only one of them can listen.
        socket.listen(config.backlog).map_err(|e| said(&e, &address))?;
        doors.push(Door::Tcp(socket.into()));
    }
    let own = config.unix_socket_dir.as_ref().map(|d| d.join(format!("mongodb-{port}.sock")));
    let named = config.bind_ip.iter().filter(|name| name.starts_with('/')).map(PathBuf::from);
    for path in named.chain(own) {
        let listener = unix(&path, config).map_err(|e| said(&e, &path.display()))?;
        doors.push(Door::Unix(listener, path));
    }
    Ok(doors)
}

fn said(error: &io::Error, place: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(error.kind(), format!("{place}: {error}"))
}

/// The addresses of all names without duplicates: several names may resolve to the same address.
fn addresses(config: &NetConfig) -> io::Result<Vec<SocketAddr>> {
    let mut all = Vec::new();
    for name in config.bind_ip.iter().filter(|name| !name.starts_with('/')) {
        for address in resolve(name, config.port, config.ipv6)? {
            if !all.contains(&address) {
                all.push(address);
            }
        }
    }
    Ok(all)
}

fn resolve(name: &str, port: u16, ipv6: bool) -> io::Result<Vec<SocketAddr>> {
    let mut found: Vec<SocketAddr> = (name, port)
        .to_socket_addrs()
        .map_err(|e| said(&e, &name))?
        .filter(|address| address.is_ipv4() || ipv6 || name.contains(':'))
        .collect();
    found.sort_unstable();
    found.dedup();
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("{name}: no address")));
    }
    Ok(found)
}

fn tcp(address: SocketAddr) -> io::Result<(Socket, u16)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    let port = socket.local_addr()?.as_socket().map_or(0, |bound| bound.port());
    Ok((socket, port))
}

/// Opens a Unix socket. An existing socket file to which no connection is possible remains from a crashed server and is
/// replaced.
fn unix(path: &Path, config: &NetConfig) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            let why = "Failed to unlink socket file: it is not a socket";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        Ok(_) if UnixStream::connect(path).is_ok() => {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        Ok(_) => std::fs::remove_file(path)?,
        Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    let mode = std::fs::Permissions::from_mode(config.unix_socket_mode);
    std::fs::set_permissions(path, mode)?;
    SockRef::from(&listener).listen(config.backlog)?;
    Ok(listener)
}

impl Door {
    /// Waits for a connection. The peer has its address in the format of the log.
    pub(crate) fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Door::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                let local = stream.local_addr().ok().map(|address| address.ip().to_canonical());
                let peer = Peer { address: peer.to_string(), unix_socket: false, local };
                Ok((Stream::Tcp(stream), peer))
            }
            Door::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                let address = "anonymous unix socket".into();
                Ok((Stream::Unix(stream), Peer { address, unix_socket: true, local: None }))
            }
        }
    }

    /// The address in the format of the log.
    pub(crate) fn address(&self) -> String {
        match self {
            Door::Tcp(listener) => {
                listener.local_addr().map_or_else(|_| "?".into(), |a| a.ip().to_string())
            }
            Door::Unix(_, path) => path.display().to_string(),
        }
    }

    /// Wakes a waiting [`Door::accept`] and removes the socket's file.
    pub(crate) fn close(&self) {
        let socket = match self {
            Door::Tcp(listener) => SockRef::from(listener),
            Door::Unix(listener, _) => SockRef::from(listener),
        };
        let _ = socket.shutdown(std::net::Shutdown::Both);
        if let Door::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

//! What a peer has accepted of the bytes that were written to its socket.
#![expect(unsafe_code, reason = "an ioctl without a safe wrapper")]

use std::ffi::c_int;
use std::io;
use std::os::fd::AsFd;

use rustix::ioctl::{Getter, Opcode, ioctl};

/// `SIOCOUTQ` of Linux.
const UNACCEPTED: Opcode = 0x5411;

/// The bytes in the kernel that the peer's system has not acknowledged (TCP), or that the peer has not read (Unix
/// socket; with the kernel's own overhead). Cost: a system call.
pub(crate) fn unaccepted_bytes(socket: impl AsFd) -> io::Result<i64> {
    // SAFETY: for a socket the kernel writes one int to the address that it is given, as the output type says.
    let count = unsafe { ioctl(socket, Getter::<UNACCEPTED, c_int>::new()) }?;
    Ok(i64::from(count))
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Writes until the socket is full. Returns the bytes written.
    fn fill(mut socket: impl Write) -> i64 {
        let mut written = 0;
        loop {
            match socket.write(&[7; 4096]) {
                Ok(count) => written += count as i64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return written,
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn what_a_peer_has_not_accepted_is_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (near, _) = listener.accept().unwrap();
        assert_eq!(unaccepted_bytes(&near).unwrap(), 0);
        near.set_nonblocking(true).unwrap();
        let written = fill(&near);
        let left = unaccepted_bytes(&near).unwrap();
        assert!(left > 0 && left < written, "{left} of {written}");
        let mut all = vec![0; written as usize];
        far.read_exact(&mut all).unwrap();
        while unaccepted_bytes(&near).unwrap() > 0 {
            std::thread::yield_now();
        }
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let written = fill(&near);
        assert!(unaccepted_bytes(&near).unwrap() >= written);
        far.read_exact(&mut all[..written as usize]).unwrap();
        assert_eq!(unaccepted_bytes(&near).unwrap(), 0);
    }
}

//! The system's log: sends each line as one datagram to its socket.
//!
//! A message is `<priority>nagi[pid]: line`, without a time of its own: the receiver adds one, and the line contains
//! one. After a restart of the receiver, the next line connects to it again. Lines that the receiver cannot accept are
//! lost, as with `syslog(3)`, and the next line that is sent reports their number.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Facilities by name (RFC 5424), with their numbers.
pub const FACILITIES: &[(&str, u8)] = &[
    ("auth", 4),
    ("authpriv", 10),
    ("cron", 9),
    ("daemon", 3),
    ("ftp", 11),
    ("kern", 0),
    ("local0", 16),
    ("local1", 17),
    ("local2", 18),
    ("local3", 19),
    ("local4", 20),
    ("local5", 21),
    ("local6", 22),
    ("local7", 23),
    ("lpr", 6),
    ("mail", 2),
    ("news", 7),
    ("syslog", 5),
    ("user", 1),
    ("uucp", 8),
];

/// The maximum time of a write. If the receiver does not accept the line within it, the line is lost, because a request
/// must not wait.
const WRITE_TIME_MAX: Duration = Duration::from_millis(250);

pub(crate) struct Syslog {
    path: PathBuf,
    facility: u8,
    socket: Option<UnixDatagram>,
    lost_count: u64,
}

impl Syslog {
    pub(crate) fn open(path: &Path, facility: u8) -> io::Result<Syslog> {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("Failed to open {}: {error}", path.display()))
        };
        let socket = Some(connect(path).map_err(named)?);
        Ok(Syslog { path: path.to_owned(), facility, socket, lost_count: 0 })
    }

    /// Sends one line.
    pub(super) fn write(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if self.lost_count > 0 {
            let text = format!("{} lines of the log were lost", self.lost_count);
            if !self.send(text.as_bytes(), severity(b"\"s\":\"W\"")) {
                self.lost_count += 1;
                return;
            }
            self.lost_count = 0;
        }
        if !self.send(line, severity(line)) {
            self.lost_count += 1;
        }
    }

    /// Sends a message; returns true if the receiver accepted it.
    fn send(&mut self, text: &[u8], severity: u8) -> bool {
        self.try_send(text, severity).is_ok()
    }

    /// Sends a message; reconnects once if necessary.
    pub(crate) fn try_send(&mut self, text: &[u8], severity: u8) -> io::Result<()> {
        let mut message =
            format!("<{}>nagi[{}]: ", self.facility << 3 | severity, std::process::id())
                .into_bytes();
        message.extend_from_slice(text);
        let mut refused = io::Error::from(io::ErrorKind::NotConnected);
        for _ in 0..2 {
            let sent = match self.socket.take().map_or_else(|| connect(&self.path), Ok) {
                Ok(socket) => self.socket.insert(socket).send(&message),
                Err(error) => Err(error),
            };
            match sent {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                Err(error) => (self.socket, refused) = (None, error),
            }
        }
        Err(refused)
    }
}

fn connect(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    socket.set_write_timeout(Some(WRITE_TIME_MAX))?;
    Ok(socket)
}

/// The syslog severity of a line.
fn severity(line: &[u8]) -> u8 {
    let head = line.get(..80.min(line.len())).unwrap_or_default();
    let at = head.windows(5).position(|window| window == b"\"s\":\"");
    match at.and_then(|at| head.get(at + 5)) {
        Some(b'F') => 2,
        Some(b'E') => 3,
        Some(b'W') => 4,
        Some(b'D') => 7,
        _ => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut place = [0; 1024];
        let len = socket.recv(&mut place).unwrap();
        String::from_utf8_lossy(&place[..len]).into_owned()
    }

    #[test]
    fn lines_become_messages_also_after_a_restart_of_the_receiver() {
        let path = std::env::temp_dir().join(format!("nagi-syslog-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        assert!(Syslog::open(&path, 1).is_err());
        let receiver = UnixDatagram::bind(&path).unwrap();
        let mut log = Syslog::open(&path, 16).unwrap();
        let pid = std::process::id();
        log.write(b"{\"t\":1,\"s\":\"W\",  \"c\":\"CONTROL\"}\n");
        let wanted = format!("<132>nagi[{pid}]: {{\"t\":1,\"s\":\"W\",  \"c\":\"CONTROL\"}}");
        assert_eq!(received(&receiver), wanted);
        drop(receiver);
        std::fs::remove_file(&path).unwrap();
        log.write(b"lost\n");
        let receiver = UnixDatagram::bind(&path).unwrap();
        log.write(b"there\n");
        assert_eq!(received(&receiver), format!("<132>nagi[{pid}]: 1 lines of the log were lost"));
        assert_eq!(received(&receiver), format!("<134>nagi[{pid}]: there"));
        std::fs::remove_file(&path).unwrap();
    }
}

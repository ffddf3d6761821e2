//! A bare echo server: the upper bound that the machine's loopback sets, with no work behind it.
//!
//! A request is a frame with its length in the first four bytes; the reply is a frame of the fixed size given
//! in the arguments. There are three modes: `threads` (one thread per connection, as the server has), `epoll`
//! (two threads, each with its own poll on the shared listener), the fastest known mode, and `tls`: `threads` with
//! rustls.
mod raw;

use crate::args::{Args, Outcome, failed};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;

const EPOLL_THREADS: usize = 2;

/// `nagi-bench echo --port N --reply BYTES --mode threads|epoll|tls [--certificate FILE]`: runs until it is killed.
pub(crate) fn serve(args: &Args) -> Outcome {
    let port: u16 = args.number("port", 0)?;
    let reply_bytes: usize = args.number("reply", 1300)?;
    let mode = args.word("mode", "threads", &["threads", "epoll", "tls"])?;
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(failed("listening"))?;
    match mode {
        "epoll" => raw::serve(&listener, reply_bytes, EPOLL_THREADS).map_err(failed("epoll")),
        "tls" => {
            let file = args.text("certificate").unwrap_or_default();
            let config = crate::tls::server_config(Path::new(file))?;
            threads(&listener, reply_bytes, Some(&config))
        }
        _ => threads(&listener, reply_bytes, None),
    }
}

fn threads(listener: &TcpListener, reply_bytes: usize, tls: Option<&Arc<ServerConfig>>) -> Outcome {
    for stream in listener.incoming() {
        let stream = stream.map_err(failed("accepting"))?;
        let tls = tls.cloned().map(ServerConnection::new).transpose().map_err(failed("TLS"))?;
        thread::spawn(move || {
            let _ = stream.set_nodelay(true);
            // When a client disconnects, its thread finishes.
            let _ = match tls {
                Some(tls) => echo(StreamOwned::new(tls, stream), reply_bytes),
                None => echo(stream, reply_bytes),
            };
        });
    }
    Ok(())
}

fn echo(mut stream: impl Read + Write, reply_bytes: usize) -> std::io::Result<()> {
    let mut requests = Requests::new(reply_bytes);
    loop {
        let got = stream.read(requests.space())?;
        if got == 0 {
            return Ok(());
        }
        for _ in 0..requests.complete(got) {
            stream.write_all(&requests.reply)?;
        }
    }
}

/// The bytes received so far on one connection, and the reply to every request.
struct Requests {
    buffer: Vec<u8>,
    have: usize,
    reply: Vec<u8>,
}

impl Requests {
    fn new(reply_bytes: usize) -> Requests {
        let mut reply = vec![0; reply_bytes.max(16)];
        let length = (reply.len() as u32).to_le_bytes();
        reply[..4].copy_from_slice(&length);
        Requests { buffer: vec![0; 64 << 10], have: 0, reply }
    }

    fn space(&mut self) -> &mut [u8] {
        &mut self.buffer[self.have..]
    }

    /// Accounts for `got` more received bytes. Returns the number of complete requests and discards these.
    fn complete(&mut self, got: usize) -> usize {
        self.have += got;
        let (mut at, mut count) = (0, 0);
        while let Some(length) = self.buffer[at..self.have].first_chunk::<4>() {
            let length = (u32::from_le_bytes(*length) as usize).max(4);
            if self.have - at < length {
                break;
            }
            at += length;
            count += 1;
        }
        self.buffer.copy_within(at..self.have, 0);
        self.have -= at;
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_over_reads() {
        let mut r = Requests::new(20);
        let frame = [8, 0, 0, 0, 1, 2, 3, 4];
        r.space()[..12].copy_from_slice(&[&frame[..], &frame[..4]].concat());
        assert_eq!(r.complete(12), 1);
        r.space()[..4].copy_from_slice(&frame[4..]);
        assert_eq!((r.complete(4), r.have), (1, 0));
    }
}

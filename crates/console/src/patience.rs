//! A socket whose writes fail when the client reads nothing for a while.
//!
//! A client that acknowledges with an empty window is there, so the kernel keeps what waits for it without end.

use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Reads and writes `S`; a write that makes no progress for the whole time fails.
pub(crate) struct Patience<S> {
    socket: S,
    time_max: Duration,
    /// Ends when a write has waited for too long.
    alarm: Pin<Box<Sleep>>,
    waits: bool,
}

impl<S> Patience<S> {
    pub(crate) fn new(socket: S, time_max: Duration) -> Patience<S> {
        Patience { socket, time_max, alarm: Box::pin(sleep(time_max)), waits: false }
    }

    /// Turns a write that is pending for too long into an error.
    fn judge<T>(&mut self, cx: &mut Context<'_>, wrote: Poll<Result<T>>) -> Poll<Result<T>> {
        if wrote.is_ready() {
            self.waits = false;
            return wrote;
        }
        if !self.waits {
            self.waits = true;
            self.alarm.as_mut().reset(Instant::now() + self.time_max);
        }
        self.alarm.as_mut().poll(cx).map(|()| {
            self.waits = false;
            Err(Error::from(ErrorKind::TimedOut))
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patience<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patience<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        let wrote = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.judge(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let wrote = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.judge(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    async fn write_all(
        socket: &mut Patience<tokio::net::TcpStream>,
        mut bytes: &[u8],
    ) -> Result<()> {
        while !bytes.is_empty() {
            let count = poll_fn(|cx| Pin::new(&mut *socket).poll_write(cx, bytes)).await?;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    #[test]
    fn a_client_that_reads_nothing_is_given_up() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (socket, _) = listener.accept().unwrap();
            socket.set_nonblocking(true).unwrap();
            let socket = tokio::net::TcpStream::from_std(socket).unwrap();
            let mut socket = Patience::new(socket, Duration::from_millis(50));
            let bytes = vec![0; 64 << 20];
            let error = write_all(&mut socket, &bytes).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            // One that reads is served.
            socket.time_max = Duration::from_secs(30);
            let reads = std::thread::spawn(move || {
                let mut all = vec![0; 1 << 20];
                while client.read(&mut all).is_ok_and(|count| count > 0) {}
                client.write_all(b"x")
            });
            write_all(&mut socket, &bytes[..8 << 20]).await.unwrap();
            drop(socket);
            let _ = reads.join();
        });
    }
}

//! A socket whose writes fail when the client reads too little for a while.
//!
//! A client that acknowledges with an empty window is there, so the kernel keeps what waits for it without end. One
//! that reads a byte now and then keeps its connection and the reply as long.

use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// What a client must read in the time.
const READ_BYTES_MIN: usize = 64 << 10;

/// Since when a client has left unread what waits for it.
#[derive(Default)]
pub(crate) struct Unread(Mutex<Option<std::time::Instant>>);

impl Unread {
    fn set(&self, waits: bool) {
        *self.0.lock() = waits.then(std::time::Instant::now);
    }

    #[cfg(test)]
    pub(crate) fn begin(&self, since: std::time::Instant) {
        *self.0.lock() = Some(since);
    }

    /// Returns true if it is so long.
    pub(crate) fn lasts(&self, time: Duration) -> bool {
        self.0.lock().is_some_and(|since| since.elapsed() >= time)
    }
}

/// Reads and writes `S`; writes fail that have to wait for the client, and advance by less than [`READ_BYTES_MIN`] in
/// the whole time.
pub(crate) struct Patience<S> {
    socket: S,
    time_max: Duration,
    /// Ends when a write has waited for too long.
    alarm: Pin<Box<Sleep>>,
    waits: bool,
    /// The bytes that were written in parts since then.
    advanced: usize,
    unread: Arc<Unread>,
}

impl<S> Patience<S> {
    pub(crate) fn new(socket: S, time_max: Duration) -> Patience<S> {
        let alarm = Box::pin(sleep(time_max));
        let unread = Arc::default();
        Patience { socket, time_max, alarm, waits: false, advanced: 0, unread }
    }

    /// Others see in `unread` how long a write has waited.
    pub(crate) fn shown_in(self, unread: Arc<Unread>) -> Patience<S> {
        Patience { unread, ..self }
    }

    fn set_waits(&mut self, waits: bool) {
        if std::mem::replace(&mut self.waits, waits) != waits {
            self.unread.set(waits);
        }
    }

    /// Turns a write of `wanted` bytes that is pending for too long into an error.
    fn judge(
        &mut self,
        cx: &mut Context<'_>,
        wrote: Poll<Result<usize>>,
        wanted: usize,
    ) -> Poll<Result<usize>> {
        if let Poll::Ready(wrote) = wrote {
            self.advanced += wrote.as_ref().map_or(0, |count| *count);
            let is_part = wrote.as_ref().is_ok_and(|count| *count < wanted);
            if !is_part || self.advanced >= READ_BYTES_MIN {
                self.set_waits(false);
                self.advanced = 0;
            }
            return Poll::Ready(wrote);
        }
        if !self.waits {
            self.set_waits(true);
            self.alarm.as_mut().reset(Instant::now() + self.time_max);
        }
        let late = self.alarm.as_mut().poll(cx);
        late.map(|()| {
            self.set_waits(false);
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
        self.judge(cx, wrote, buf.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let wrote = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.judge(cx, wrote, bufs.iter().map(|buf| buf.len()).sum())
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

    async fn write_all<S: AsyncWrite + Unpin>(
        socket: &mut Patience<S>,
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
            let unread = Arc::<Unread>::default();
            let mut socket =
                Patience::new(socket, Duration::from_millis(50)).shown_in(unread.clone());
            let bytes = vec![0; 64 << 20];
            let watched = async {
                while !unread.lasts(Duration::from_millis(5)) {
                    tokio::task::yield_now().await;
                }
            };
            let (wrote, ()) = tokio::join!(write_all(&mut socket, &bytes), watched);
            assert_eq!(wrote.unwrap_err().kind(), ErrorKind::TimedOut);
            assert!(!unread.lasts(Duration::ZERO));
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

    /// A client that reads `count` bytes each 5 milliseconds.
    struct Sipping {
        next: Pin<Box<Sleep>>,
        count: usize,
    }

    impl AsyncWrite for Sipping {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<Result<usize>> {
            self.next.as_mut().poll(cx).map(|()| {
                self.next.as_mut().reset(Instant::now() + Duration::from_millis(5));
                Ok(buf.len().min(self.count))
            })
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn a_client_that_reads_a_byte_now_and_then_is_given_up() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let sipping = |count| {
                let next = Box::pin(sleep(Duration::from_millis(5)));
                Patience::new(Sipping { next, count }, Duration::from_millis(100))
            };
            let error = write_all(&mut sipping(1), &[0; 1000]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            let begun = Instant::now();
            write_all(&mut sipping(READ_BYTES_MIN), &vec![0; 60 * READ_BYTES_MIN]).await.unwrap();
            assert!(begun.elapsed() > Duration::from_millis(200));
        });
    }
}

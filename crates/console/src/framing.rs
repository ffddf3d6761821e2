//! Where requests begin and end in the bytes of a client, by the letter of RFC 9112.
//!
//! A proxy in front of the console and the console must agree on that, or a client of the proxy slips a request into
//! the connection of another. The HTTP library is lenient in places where others are not: it takes lines that end by LF
//! alone, and lengths that are said twice. It sees the bytes of a client through [`Strict`], which spoils the first one
//! that is not as it must be: the library then refuses the request, and ends the connection.
//!
//! ```text
//!   head:     lines, empty line     -> nothing | body of n bytes | chunks
//!   chunks:   size, n bytes, CRLF   -> size ... | size 0 -> trailer: lines, empty line
//! ```

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::asked::BODY_BYTES_MAX;

/// The longest line of a head. The library refuses heads that are longer as a whole.
const LINE_BYTES_MAX: usize = 16 << 10;
/// The longest line with the size of a chunk, and its extensions, which are not used.
const SIZE_LINE_BYTES_MAX: usize = 256;
/// The digits of a length, and those of the size of a chunk.
const DIGITS_MAX: usize = 16;

/// What the next byte is a part of.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    Head,
    Body(u64),
    /// The size of a chunk.
    Size,
    Chunk(u64),
    ChunkEnd,
    Trailer,
    /// No request is read any more.
    Broken,
}

/// The place in a client's bytes.
struct Framing {
    part: Part,
    /// The line so far.
    line: Vec<u8>,
    /// It ends by CR: LF must follow.
    cr: bool,
    /// The lines of the head.
    count: usize,
    length: Option<u64>,
    is_chunked: bool,
}

/// Something is not as it must be.
struct Wrong;

impl Framing {
    fn new() -> Framing {
        Framing {
            part: Part::Head,
            line: Vec::new(),
            cr: false,
            count: 0,
            length: None,
            is_chunked: false,
        }
    }

    /// Looks at the next bytes, and spoils the first one that is wrong.
    fn pass(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            match &mut self.part {
                Part::Broken => return,
                Part::Body(left) | Part::Chunk(left) => {
                    let taken =
                        (bytes.len() - at).min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= taken as u64;
                    at += taken;
                    if *left == 0 {
                        let is_chunk = matches!(self.part, Part::Chunk(_));
                        self.part = if is_chunk { Part::ChunkEnd } else { Part::Head };
                    }
                }
                part => {
                    // In extensions of a chunk the library takes every byte but this one.
                    let bad = if *part == Part::Size && !self.cr { b'\n' } else { 0 };
                    if self.byte(bytes[at]).is_err() {
                        bytes[at] = bad;
                        self.part = Part::Broken;
                        return;
                    }
                    at += 1;
                }
            }
        }
    }

    /// Takes a byte of a line.
    fn byte(&mut self, byte: u8) -> std::result::Result<(), Wrong> {
        match (byte, self.cr) {
            (b'\n', true) => {
                self.cr = false;
                let line = std::mem::take(&mut self.line);
                self.part = self.after(&line)?;
                self.line = line;
                self.line.clear();
            }
            (b'\n', false) | (_, true) => return Err(Wrong),
            (b'\r', false) => self.cr = true,
            (_, false) if self.part == Part::ChunkEnd => return Err(Wrong),
            (byte, false) => {
                let is_size = self.part == Part::Size;
                if self.line.len() >= if is_size { SIZE_LINE_BYTES_MAX } else { LINE_BYTES_MAX } {
                    return Err(Wrong);
                }
                self.line.push(byte);
            }
        }
        Ok(())
    }

    /// What follows a line.
    fn after(&mut self, line: &[u8]) -> std::result::Result<Part, Wrong> {
        match self.part {
            Part::Head if line.is_empty() && self.count == 0 => Ok(Part::Head),
            Part::Head if line.is_empty() => {
                let (length, is_chunked) =
                    (self.length.take(), std::mem::take(&mut self.is_chunked));
                self.count = 0;
                match (length, is_chunked) {
                    (Some(_), true) => Err(Wrong),
                    (None, true) => Ok(Part::Size),
                    (None | Some(0), false) => Ok(Part::Head),
                    (Some(length), false) => Ok(Part::Body(length)),
                }
            }
            Part::Head => {
                self.count += 1;
                if self.count > 1 {
                    self.header(line)?;
                }
                Ok(Part::Head)
            }
            Part::Size => match size(line)? {
                0 => Ok(Part::Trailer),
                size => Ok(Part::Chunk(size)),
            },
            Part::ChunkEnd if line.is_empty() => Ok(Part::Size),
            Part::Trailer if line.is_empty() => Ok(Part::Head),
            Part::Trailer => Ok(Part::Trailer),
            _ => Err(Wrong),
        }
    }

    /// Notes the length of the body, if a header tells it. Each may be there once.
    fn header(&mut self, line: &[u8]) -> std::result::Result<(), Wrong> {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return Ok(()) };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = number(value, 10)?;
            return if self.length.replace(length).is_some() { Err(Wrong) } else { Ok(()) };
        }
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let is_first = !std::mem::replace(&mut self.is_chunked, true);
            let is_chunked = value.eq_ignore_ascii_case(b"chunked");
            return if is_first && is_chunked { Ok(()) } else { Err(Wrong) };
        }
        Ok(())
    }
}

/// The size of a chunk. One that is larger than a request may be is not waited for.
fn size(line: &[u8]) -> std::result::Result<u64, Wrong> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    number(digits, 16).ok().filter(|size| *size <= BODY_BYTES_MAX as u64).ok_or(Wrong)
}

/// Digits only: no sign, no blanks.
fn number(digits: &[u8], radix: u32) -> std::result::Result<u64, Wrong> {
    let are_digits = digits.iter().all(|byte| char::from(*byte).is_digit(radix));
    let text =
        std::str::from_utf8(digits).ok().filter(|_| are_digits && digits.len() <= DIGITS_MAX);
    text.and_then(|text| u64::from_str_radix(text, radix).ok()).ok_or(Wrong)
}

/// A socket of which no request can be read that is not framed as it must be.
pub(crate) struct Strict<S> {
    socket: S,
    framing: Framing,
}

impl<S> Strict<S> {
    pub(crate) fn new(socket: S) -> Strict<S> {
        Strict { socket, framing: Framing::new() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Strict<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(cx, buf);
        self.framing.pass(&mut buf.filled_mut()[before..]);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Strict<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, bufs)
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
    use super::*;

    /// The place after these bytes; the same however they arrive.
    fn after(text: &str) -> Part {
        let mut framing = Framing::new();
        framing.pass(&mut text.as_bytes().to_vec());
        let mut single = Framing::new();
        text.bytes().for_each(|byte| single.pass(&mut [byte]));
        assert_eq!(framing.part, single.part, "{text:?}");
        framing.part
    }

    #[test]
    fn requests_follow_each_other() {
        let post = "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n";
        let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n";
        assert_eq!(after(&format!("\r\n{post}ab\ncd{post}a")), Part::Body(4));
        let chunks = "5;a=b\r\nab\ncd\r\n0000000000000001\r\n\n\r\n0\r\nx: y\r\n\r\n";
        assert_eq!(after(&format!("{chunked}{chunks}{post}")), Part::Body(5));
        assert_eq!(
            after(&format!("{chunked}{chunks}GET / HTTP/1.1\r\n\r\n{chunked}a\r\n")),
            Part::Chunk(10)
        );
    }

    #[test]
    fn what_is_ambiguous_is_not_passed_on() {
        let long = format!("Content-Length: {}\r\n", "1".repeat(DIGITS_MAX + 1));
        for headers in [
            "Host: a\n",
            "Host: a\rb\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: -5\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length:\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            &long,
        ] {
            assert_eq!(
                after(&format!("POST / HTTP/1.1\r\n{headers}\r\n")),
                Part::Broken,
                "{headers}"
            );
        }
        let long = format!("1;{}\r\n", "a".repeat(SIZE_LINE_BYTES_MAX));
        for chunk in [
            "FFFFFFFFFFFFFFFF\r\n",
            "200001\r\n",
            "+1\r\n",
            "-1\r\n",
            "0x1\r\n",
            " 1\r\n",
            "1 \r\n",
            "\r\n",
            "1\n",
            "1;a\n",
            "1\r\nabc",
            "1\r\na\n",
            "0\r\nx: y\n",
            "00000000000000001\r\n",
            &long,
        ] {
            let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
            assert_eq!(after(&format!("{head}{chunk}")), Part::Broken, "{chunk:?}");
        }
        assert_eq!(after("GET / HTTP/1.1\n"), Part::Broken);
    }

    #[test]
    fn one_byte_is_spoiled() {
        let mut bytes = b"GET / HTTP/1.1\r\nHost: a\n\n".to_vec();
        Framing::new().pass(&mut bytes);
        assert_eq!(bytes, b"GET / HTTP/1.1\r\nHost: a\0\n");
    }
}

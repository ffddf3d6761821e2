//! The bytes of a connection that were read and not yet handled.

use nagi_wire::{Fault, HEADER_BYTES, frame_len};

/// Where the buffer begins, and what it shrinks to when the connection idles.
const SMALL_BYTES: usize = 4 * 1024;
/// A buffer above this is not kept for the next request.
const KEPT_BYTES_MAX: usize = nagi_server::FREE_BYTES;

/// Read bytes: `bytes[start..end]`; what follows is free room, already initialised.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    pub(crate) fn new() -> Buffer {
        Buffer { bytes: vec![0; SMALL_BYTES], start: 0, end: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Length of the first frame if all of it is here. A fault means the stream is broken.
    pub(crate) fn complete(&self) -> Result<Option<usize>, Fault> {
        let filled = &self.bytes[self.start..self.end];
        let Some(header) = filled.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let len = frame_len(header)?;
        Ok((filled.len() >= len).then_some(len))
    }

    /// What is here of the first frame, and of what follows it.
    pub(crate) fn front(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Makes just the room that a frame of `len` bytes needs; it was charged.
    pub(crate) fn reserve(&mut self, len: usize) {
        if self.bytes.len() < len {
            // Zeroed pages come from the system as they are touched.
            let mut bytes = vec![0; len];
            bytes[..self.len()].copy_from_slice(self.front());
            (self.start, self.end) = (0, self.len());
            self.bytes = bytes;
        }
    }

    /// The first `len` bytes.
    pub(crate) fn frame(&self, len: usize) -> &[u8] {
        &self.bytes[self.start..self.start + len]
    }

    /// Forgets the first `len` bytes.
    pub(crate) fn consume(&mut self, len: usize) {
        self.start += len;
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
            if self.bytes.len() > KEPT_BYTES_MAX {
                self.bytes = vec![0; SMALL_BYTES];
            }
        }
    }

    /// Room for the next read: at least a quarter of the buffer, or what was reserved. Grows by
    /// doubling, so that what a header promises costs nothing until it arrives.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        let large = self.bytes.len() > KEPT_BYTES_MAX && self.start == 0;
        if large && self.end < self.bytes.len() {
            return &mut self.bytes[self.end..];
        }
        if self.bytes.len() - self.end < self.bytes.len() / 4 {
            if self.start > 0 {
                self.bytes.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            if self.bytes.len() - self.end < self.bytes.len() / 4 {
                self.bytes.resize(self.bytes.len() * 2, 0);
            }
        }
        &mut self.bytes[self.end..]
    }

    /// Takes over `len` bytes that were read into [`Buffer::room`].
    pub(crate) fn filled(&mut self, len: usize) {
        self.end += len;
    }

    /// Gives memory back, if no bytes are waiting.
    pub(crate) fn shrink(&mut self) {
        if self.is_empty() && self.bytes.len() > SMALL_BYTES {
            *self = Buffer::new();
        }
    }
}

/// Clears a reply buffer before the next request; a very large one is given back.
pub(crate) fn recycle(out: &mut Vec<u8>) {
    out.clear();
    if out.capacity() > KEPT_BYTES_MAX {
        *out = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(buffer: &mut Buffer, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = buffer.room();
            let len = room.len().min(bytes.len());
            room[..len].copy_from_slice(&bytes[..len]);
            buffer.filled(len);
            bytes = &bytes[len..];
        }
    }

    #[test]
    fn frames_come_out_as_they_went_in() {
        let mut buffer = Buffer::new();
        let mut frame = vec![7; 10_000];
        frame[..4].copy_from_slice(&10_000_i32.to_le_bytes());
        let mut small = [1; 20];
        small[..4].copy_from_slice(&20_i32.to_le_bytes());
        feed(&mut buffer, &frame[..9_000]);
        assert_eq!(buffer.complete().unwrap(), None);
        feed(&mut buffer, &[&frame[9_000..], &small[..], &small[..5]].concat());
        assert_eq!(buffer.complete().unwrap(), Some(10_000));
        assert_eq!(buffer.frame(10_000), frame);
        buffer.consume(10_000);
        assert_eq!(buffer.complete().unwrap(), Some(20));
        buffer.consume(20);
        assert_eq!(buffer.complete().unwrap(), None);
        feed(&mut buffer, &small[5..]);
        assert_eq!(buffer.complete().unwrap(), Some(20));
        buffer.consume(20);
        buffer.shrink();
        assert_eq!(buffer.bytes.len(), SMALL_BYTES);
    }

    #[test]
    fn a_reserved_frame_takes_its_own_bytes_and_no_more() {
        let mut buffer = Buffer::new();
        let mut frame = vec![7; 3_000_000];
        frame[..4].copy_from_slice(&3_000_000_i32.to_le_bytes());
        feed(&mut buffer, &frame[..5_000]);
        buffer.reserve(frame.len());
        feed(&mut buffer, &frame[5_000..]);
        assert_eq!(buffer.bytes.len(), frame.len());
        assert_eq!(buffer.complete().unwrap(), Some(3_000_000));
        assert_eq!(buffer.frame(3_000_000), frame);
        buffer.consume(3_000_000);
        assert_eq!(buffer.bytes.len(), SMALL_BYTES);
    }

    #[test]
    fn a_promise_takes_no_memory() {
        let mut buffer = Buffer::new();
        let mut header = [0; 16];
        header[..4].copy_from_slice(&48_000_000_i32.to_le_bytes());
        feed(&mut buffer, &header);
        assert_eq!(buffer.complete().unwrap(), None);
        assert!(buffer.room().len() <= SMALL_BYTES);
        header[..4].copy_from_slice(&48_000_001_i32.to_le_bytes());
        buffer.consume(16);
        feed(&mut buffer, &header);
        assert!(buffer.complete().is_err());
    }
}

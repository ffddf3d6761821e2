//! The read buffer of a connection: bytes that were read and not yet handled.

use nagi_wire::{Fault, HEADER_BYTES, frame_len};

/// The initial size, to which the buffer shrinks when the connection is idle.
const SMALL_BYTES: usize = 4 * 1024;
/// A larger buffer is not kept for the next request.
const KEPT_BYTES_MAX: usize = nagi_server::FREE_BYTES;

/// The read bytes are `bytes[start..end]`; the bytes behind them are free and initialized.
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

    /// The number of bytes that were read and not yet handled.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// The length of the first frame if it is complete. A fault means that the stream is broken.
    pub(crate) fn complete(&self) -> Result<Option<usize>, Fault> {
        let filled = &self.bytes[self.start..self.end];
        let Some(header) = filled.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let len = frame_len(header)?;
        Ok((filled.len() >= len).then_some(len))
    }

    /// The available bytes of the first frame and of those behind it.
    pub(crate) fn front(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Grows the buffer to exactly the `len` bytes of the first frame, which were charged to the budget.
    pub(crate) fn reserve(&mut self, len: usize) {
        if self.bytes.len() < len {
            // The system provides zeroed pages when they are first touched.
            let mut bytes = vec![0; len];
            bytes[..self.len()].copy_from_slice(self.front());
            (self.start, self.end) = (0, self.len());
            self.bytes = bytes;
        }
    }

    /// Removes all bytes that were read.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let taken = self.front().to_vec();
        self.consume(taken.len());
        taken
    }

    /// The first `len` bytes.
    pub(crate) fn frame(&self, len: usize) -> &[u8] {
        &self.bytes[self.start..self.start + len]
    }

    /// Removes the first `len` bytes.
    pub(crate) fn consume(&mut self, len: usize) {
        self.start += len;
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
            if self.bytes.len() > KEPT_BYTES_MAX {
                self.bytes = vec![0; SMALL_BYTES];
            }
        }
    }

    /// The free space for the next read: the reserved space, or at least a quarter of the buffer. The buffer grows by
    /// doubling, so the length that a header announces costs no memory until the bytes arrive.
    pub(crate) fn free_space(&mut self) -> &mut [u8] {
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

    /// Accepts `len` bytes that were read into [`Buffer::free_space`].
    pub(crate) fn filled(&mut self, len: usize) {
        self.end += len;
    }

    /// Frees memory if the buffer is empty.
    pub(crate) fn shrink(&mut self) {
        if self.is_empty() && self.bytes.len() > SMALL_BYTES {
            *self = Buffer::new();
        }
    }
}

/// Clears a reply buffer before the next request, and frees most of a very large one. The rest stays where it is, so
/// that the next large reply neither copies its beginning nor touches new pages for it.
pub(crate) fn recycle(out: &mut Vec<u8>) {
    out.clear();
    out.shrink_to(KEPT_BYTES_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(buffer: &mut Buffer, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let charge = buffer.free_space();
            let len = charge.len().min(bytes.len());
            charge[..len].copy_from_slice(&bytes[..len]);
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
        assert!(buffer.free_space().len() <= SMALL_BYTES);
        header[..4].copy_from_slice(&48_000_001_i32.to_le_bytes());
        buffer.consume(16);
        feed(&mut buffer, &header);
        assert!(buffer.complete().is_err());
    }

    #[test]
    fn a_large_reply_leaves_a_small_buffer() {
        let mut out = vec![7; 3_000_000];
        recycle(&mut out);
        assert!(out.is_empty() && out.capacity() == KEPT_BYTES_MAX, "{}", out.capacity());
        out.extend_from_slice(&[7; 10]);
        recycle(&mut out);
        assert!(out.is_empty() && out.capacity() == KEPT_BYTES_MAX);
    }
}

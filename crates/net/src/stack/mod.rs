//! The stack of an idle connection's thread: one call that nested deeply leaves its pages resident for good. All of it
//! is `unsafe`, so the code is in `ffi.rs`.

mod ffi;

pub(crate) use ffi::release;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::ffi::{release, resident_bytes};

    /// Uses so many bytes of the stack.
    #[inline(never)]
    fn use_up(bytes: usize) -> u8 {
        let piece = std::hint::black_box([1_u8; 4096]);
        match bytes.checked_sub(piece.len()) {
            Some(left) => piece[bytes % 4096].wrapping_add(use_up(left)),
            None => piece[0],
        }
    }

    #[test]
    fn a_stack_that_was_used_deeply_is_released() {
        let thread = std::thread::Builder::new().stack_size(4 << 20).spawn(|| {
            std::hint::black_box(use_up(1 << 20));
            let before = resident_bytes();
            release();
            let after = resident_bytes();
            // What is in use is intact.
            std::hint::black_box(use_up(1 << 20));
            (before, after)
        });
        let (before, after) = thread.expect("starts").join().expect("ends");
        assert!(before > 1 << 20, "{before}");
        assert!(after < 64 << 10, "{after}");
    }
}

//! Ends the process without exit handlers, because they would write.
#![expect(unsafe_code)]

pub(super) fn exit(code: i32) -> ! {
    // SAFETY: ends the process; nothing runs after it.
    unsafe { libc::_exit(code) }
}

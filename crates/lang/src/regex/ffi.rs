//! The binding to PCRE2, limited to what patterns need. This is the only file that calls the C library.
//!
//! A text is a `&str` and so valid UTF-8. Every match passes `PCRE2_NO_UTF_CHECK`; otherwise the library would
//! validate the whole text before each match, and many matches in a long text would cost quadratic time. `\C`, which
//! can stop inside of a character, is rejected for the same reason.
//!
//! Memory: patterns and backtracking allocate through [`take`], which counts against the request. Machine code (JIT)
//! comes from the system and is counted separately in [`Code::compile`].
#![expect(unsafe_code)]

use std::{
    alloc::{self, Layout},
    cell::RefCell,
    ffi::{c_int, c_void},
    fmt,
    ptr::{self, NonNull},
    sync::OnceLock,
};

use nagi_budget::meter;
use pcre2_sys::*;

/// The maximal number of steps of one match; a pattern can only lower it.
const STEPS_MAX: u32 = 5_000_000;
/// The maximal memory for backtracking without machine code, in KiB; a pattern can only lower it.
const HEAP_KIB_MAX: u32 = 64 << 10;
/// The compiler's error for a lack of memory: `PCRE2_ERROR_HEAP_FAILED`.
const COMPILE_LACKS_MEMORY: c_int = 121;
/// The buffer for an error message; `pcre2_get_error_message` needs at most 120 bytes.
const MESSAGE_BYTES_MAX: usize = 240;

/// A compiled pattern. It is immutable, so threads share it.
pub(super) struct Code {
    code: NonNull<pcre2_code_8>,
    /// The size of the machine code, which the library allocates from the system; 0 if there is none.
    machine_bytes: usize,
    groups: u32,
}

// SAFETY: compiled code is immutable once `compile` is done, and the library allows threads to share it.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

/// The reason why a pattern does not compile or a match was given up: an error code of the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Failure(c_int);

impl Failure {
    /// Returns true if the request does not have the memory for compiling or backtracking.
    pub(super) fn is_out_of_memory(self) -> bool {
        matches!(self.0, PCRE2_ERROR_NOMEMORY | COMPILE_LACKS_MEMORY)
    }
}

impl Code {
    /// Compiles with the given options (`PCRE2_CASELESS`, ...); UTF is always on.
    pub(super) fn compile(pattern: &str, options: u32) -> Result<Code, Failure> {
        let (mut error, mut offset) = (0, 0);
        let options = options | PCRE2_UTF | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C;
        // SAFETY: pointer and length are those of one slice, which is UTF-8; the library copies what it keeps; the
        // context is never freed.
        let code = unsafe {
            pcre2_compile_8(
                pattern.as_ptr(),
                pattern.len(),
                options,
                &mut error,
                &mut offset,
                compiling(),
            )
        };
        let code = NonNull::new(code).ok_or(Failure(error))?;
        let mut code = Code { code, machine_bytes: 0, groups: 0 };
        // SAFETY: no other thread has the code yet. If this fails, the interpreter is used for matching.
        unsafe { pcre2_jit_compile_8(code.code.as_ptr(), PCRE2_JIT_COMPLETE) };
        let (mut machine_bytes, mut groups) = (0_usize, 0_u32);
        // SAFETY: the two variables have the types that the library writes: `size_t` and `uint32_t`.
        unsafe {
            code.fact(PCRE2_INFO_JITSIZE, (&raw mut machine_bytes).cast());
            code.fact(PCRE2_INFO_CAPTURECOUNT, (&raw mut groups).cast());
        }
        code.machine_bytes = machine_bytes;
        code.groups = groups;
        meter::count(machine_bytes as i64);
        if meter::fits(0) { Ok(code) } else { Err(Failure(PCRE2_ERROR_NOMEMORY)) }
    }

    /// Reads a property of the pattern.
    ///
    /// # Safety
    /// `to` must be valid for writes of the type of this property.
    unsafe fn fact(&self, what: u32, to: *mut c_void) {
        // SAFETY: guaranteed by the caller; for an unknown property the library does not write to `to`.
        unsafe { pcre2_pattern_info_8(self.code.as_ptr(), what, to) };
    }

    /// A buffer for the positions of a match and of all groups.
    pub(super) fn check_memory(&self) -> Found {
        Found::new(self.groups + 1)
    }

    /// Returns true if the pattern matches anywhere in `text`.
    pub(super) fn is_match(&self, text: &str) -> Result<bool, Failure> {
        // Machine code does not keep state in the buffer, so one per thread is enough.
        thread_local! { static ROOM: RefCell<Found> = RefCell::new(Found::new(1)); }
        if self.machine_bytes > 0 {
            let outcome = ROOM.with_borrow_mut(|room| self.run(text, 0, 0, room));
            if outcome != Err(Failure(PCRE2_ERROR_JIT_STACKLIMIT)) {
                return outcome;
            }
        }
        self.run(text, 0, PCRE2_NO_JIT, &mut Found::new(1))
    }

    /// Finds the first match that begins at or after `from` and writes its positions to `found`.
    ///
    /// # Panics
    /// If `from` is not at a character boundary.
    pub(super) fn find(&self, text: &str, from: usize, found: &mut Found) -> Result<bool, Failure> {
        match self.run(text, from, 0, found) {
            // Machine code has a small stack. The interpreter uses the heap and has separate limits.
            Err(Failure(PCRE2_ERROR_JIT_STACKLIMIT)) => self.run(text, from, PCRE2_NO_JIT, found),
            outcome => outcome,
        }
    }

    fn run(&self, text: &str, from: usize, options: u32, to: &mut Found) -> Result<bool, Failure> {
        assert!(text.is_char_boundary(from), "a match begins at a character");
        // SAFETY: pointer and length are those of one text that outlives the call. It is UTF-8 and `from` is a
        // character boundary in it, so the library need not check it. `to` is borrowed exclusively; the context is
        // only read.
        let outcome = unsafe {
            pcre2_match_8(
                self.code.as_ptr(),
                text.as_ptr(),
                text.len(),
                from,
                options | PCRE2_NO_UTF_CHECK,
                to.0.as_ptr(),
                limits(),
            )
        };
        match outcome {
            PCRE2_ERROR_NOMATCH => Ok(false),
            // Zero: the pattern matched, but not all groups fit into the buffer.
            0.. => Ok(true),
            error => Err(Failure(error)),
        }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        meter::count(-(self.machine_bytes as i64));
        // SAFETY: created by `pcre2_compile_8` and freed once.
        unsafe { pcre2_code_free_8(self.code.as_ptr()) }
    }
}

/// The positions of a match and its groups.
pub(super) struct Found(NonNull<pcre2_match_data_8>);

// SAFETY: it owns the data that it points to, which only changes through `&mut`.
unsafe impl Send for Found {}

impl Found {
    fn new(pairs: u32) -> Found {
        // SAFETY: the context is never freed, and the library only reads it.
        let data = unsafe { pcre2_match_data_create_8(pairs, metered()) };
        Found(NonNull::new(data).expect("memory for a few positions"))
    }

    /// The begin and end of a group in bytes; group 0 is the match. None if the group did not participate.
    pub(super) fn group(&self, at: usize) -> Option<(usize, usize)> {
        // SAFETY: the library returns its own array of this many pairs, all of which a match has set.
        let pairs = unsafe {
            let first = pcre2_get_ovector_pointer_8(self.0.as_ptr()).cast::<[usize; 2]>();
            let count = pcre2_get_ovector_count_8(self.0.as_ptr());
            std::slice::from_raw_parts(first, count as usize)
        };
        // The library marks an unset position with the largest number.
        pairs.get(at).filter(|pair| !pair.contains(&usize::MAX)).map(|&[start, end]| (start, end))
    }

    /// The number of groups plus one for the match.
    pub(super) fn len(&self) -> usize {
        // SAFETY: reads from data that we own.
        unsafe { pcre2_get_ovector_count_8(self.0.as_ptr()) as usize }
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        // SAFETY: created by `pcre2_match_data_create_8` and freed once.
        unsafe { pcre2_match_data_free_8(self.0.as_ptr()) }
    }
}

impl fmt::Display for Failure {
    /// The library's message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0_u8; MESSAGE_BYTES_MAX];
        // SAFETY: pointer and length are of one array.
        let length = unsafe { pcre2_get_error_message_8(self.0, text.as_mut_ptr(), text.len()) };
        let text = usize::try_from(length).ok().and_then(|length| text.get(..length));
        f.write_str(text.and_then(|text| str::from_utf8(text).ok()).unwrap_or("unknown error"))
    }
}

/// The size of the header before an allocation of the library. It holds the length and keeps the alignment.
const PIECE_HEAD_BYTES: usize = 16;

/// Smaller allocations are not checked: positions of groups, of which a request has only a few.
const UNASKED_BYTES: usize = 128 << 10;

/// The layout of an allocation with its header.
fn piece(bytes: usize) -> Option<Layout> {
    let whole = bytes.checked_add(PIECE_HEAD_BYTES)?;
    Layout::from_size_align(whole, PIECE_HEAD_BYTES).ok()
}

/// The allocator for patterns and backtracking. It uses Rust's allocator, which counts for the request, and checks
/// the limit.
unsafe extern "C" fn take(bytes: usize, _: *mut c_void) -> *mut c_void {
    if bytes > UNASKED_BYTES && !meter::fits(bytes) {
        return ptr::null_mut();
    }
    let Some(layout) = piece(bytes) else { return ptr::null_mut() };
    // SAFETY: the layout contains at least the header; the header is within the allocation and aligned, and the bytes
    // after it belong to the library.
    unsafe {
        let head = alloc::alloc(layout);
        if head.is_null() {
            return ptr::null_mut();
        }
        head.cast::<usize>().write(bytes);
        head.add(PIECE_HEAD_BYTES).cast()
    }
}

/// Frees an allocation of [`take`]; null is ignored.
unsafe extern "C" fn give_back(place: *mut c_void, _: *mut c_void) {
    if place.is_null() {
        return;
    }
    // SAFETY: `place` came from `take`, which wrote the length before it and used the same layout.
    unsafe {
        let head = place.cast::<u8>().sub(PIECE_HEAD_BYTES);
        let bytes = head.cast::<usize>().read();
        if let Some(layout) = piece(bytes) {
            alloc::dealloc(head, layout);
        }
    }
}

/// The allocator context of match data, created once.
fn metered() -> *mut pcre2_general_context_8 {
    struct General(*mut pcre2_general_context_8);
    // SAFETY: it is not changed after `get_or_init`; the library then only reads it.
    unsafe impl Send for General {}
    // SAFETY: as above.
    unsafe impl Sync for General {}
    static GENERAL: OnceLock<General> = OnceLock::new();
    let made = GENERAL.get_or_init(|| {
        // SAFETY: the two functions have the contract of `malloc` and `free`, and need no data.
        let context =
            unsafe { pcre2_general_context_create_8(Some(take), Some(give_back), ptr::null_mut()) };
        assert!(!context.is_null(), "memory for three pointers");
        General(context)
    });
    made.0
}

/// The context for compiling patterns, created once.
fn compiling() -> *mut pcre2_compile_context_8 {
    struct Compiling(*mut pcre2_compile_context_8);
    // SAFETY: it is not changed after `get_or_init`; the library then only reads it.
    unsafe impl Send for Compiling {}
    // SAFETY: as above.
    unsafe impl Sync for Compiling {}
    static COMPILING: OnceLock<Compiling> = OnceLock::new();
    let made = COMPILING.get_or_init(|| {
        // SAFETY: it copies what it needs of the context, which is never freed.
        let context = unsafe { pcre2_compile_context_create_8(metered()) };
        assert!(!context.is_null(), "memory for a few settings");
        Compiling(context)
    });
    made.0
}

/// The limits of every match, created once.
fn limits() -> *mut pcre2_match_context_8 {
    struct Limits(*mut pcre2_match_context_8);
    // SAFETY: it is not changed after `get_or_init`; the library then only reads it.
    unsafe impl Send for Limits {}
    // SAFETY: as above.
    unsafe impl Sync for Limits {}
    static LIMITS: OnceLock<Limits> = OnceLock::new();
    let made = LIMITS.get_or_init(|| {
        // SAFETY: null selects the standard allocator; the context is used only if it is not null.
        unsafe {
            let context = pcre2_match_context_create_8(ptr::null_mut());
            assert!(!context.is_null(), "memory for a few limits");
            pcre2_set_match_limit_8(context, STEPS_MAX);
            pcre2_set_heap_limit_8(context, HEAP_KIB_MAX);
            Limits(context)
        }
    });
    made.0
}

//! PCRE2, as far as patterns need it: the only file that calls the C library.
//!
//! A text is a `&str`, so it is UTF-8 without a look: every match tells the library that, which would
//! otherwise read the whole text once more before each match. So many matches in a long text cost one
//! pass over it. `\C`, which may stop inside of a character, is refused for the same reason.
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

/// Steps one match may take; a pattern can only lower it.
const STEPS_MAX: u32 = 5_000_000;
/// Memory for backtracking without machine code, in KiB; a pattern can only lower it.
const HEAP_KIB_MAX: u32 = 64 << 10;
/// What the compiler says then: `PCRE2_ERROR_HEAP_FAILED`.
const COMPILE_LACKS_MEMORY: c_int = 121;
/// What `pcre2_get_error_message` needs at most is 120.
const MESSAGE_BYTES_MAX: usize = 240;

/// A compiled pattern. It does not change, so threads share it.
pub(super) struct Code {
    code: NonNull<pcre2_code_8>,
    /// Bytes of machine code, which the library has from the system; none if it has none.
    machine_bytes: usize,
    groups: u32,
}

// SAFETY: compiled code is immutable once `compile` is done, and the library lets threads share it.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

/// Why a pattern does not compile or a match was given up: a code of the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Failure(c_int);

impl Failure {
    /// Whether the request has no memory left for what backtracking needs.
    pub(super) fn is_lack_of_room(self) -> bool {
        matches!(self.0, PCRE2_ERROR_NOMEMORY | COMPILE_LACKS_MEMORY)
    }
}

impl Code {
    /// Compiles with these options (`PCRE2_CASELESS`, ...); UTF is always on.
    pub(super) fn compile(pattern: &str, options: u32) -> Result<Code, Failure> {
        let (mut error, mut offset) = (0, 0);
        let options = options | PCRE2_UTF | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C;
        // SAFETY: pointer and length are of one slice, which is UTF-8; the library copies what it
        // keeps; null stands for the standard context.
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
        // SAFETY: no one else has the code yet. If this fails, the interpreter matches.
        unsafe { pcre2_jit_compile_8(code.code.as_ptr(), PCRE2_JIT_COMPLETE) };
        let (mut machine_bytes, mut groups) = (0_usize, 0_u32);
        // SAFETY: the two facts have the types that the library writes: `size_t` and `uint32_t`.
        unsafe {
            code.fact(PCRE2_INFO_JITSIZE, (&raw mut machine_bytes).cast());
            code.fact(PCRE2_INFO_CAPTURECOUNT, (&raw mut groups).cast());
        }
        code.machine_bytes = machine_bytes;
        code.groups = groups;
        meter::count(machine_bytes as i64);
        if meter::fits(0) { Ok(code) } else { Err(Failure(PCRE2_ERROR_NOMEMORY)) }
    }

    /// # Safety
    /// `to` is valid for writes of the type that this fact has.
    unsafe fn fact(&self, what: u32, to: *mut c_void) {
        // SAFETY: the caller's promise; a fact that is not known leaves `to` as it is.
        unsafe { pcre2_pattern_info_8(self.code.as_ptr(), what, to) };
    }

    /// Room for the positions of a match and of all groups.
    pub(super) fn room(&self) -> Found {
        Found::new(self.groups + 1)
    }

    /// Whether the pattern matches anywhere in `text`.
    pub(super) fn is_match(&self, text: &str) -> Result<bool, Failure> {
        // Machine code keeps nothing in its room, so a thread needs one only.
        thread_local! { static ROOM: RefCell<Found> = RefCell::new(Found::new(1)); }
        if self.machine_bytes > 0 {
            let outcome = ROOM.with_borrow_mut(|room| self.run(text, 0, 0, room));
            if outcome != Err(Failure(PCRE2_ERROR_JIT_STACKLIMIT)) {
                return outcome;
            }
        }
        self.run(text, 0, PCRE2_NO_JIT, &mut Found::new(1))
    }

    /// The first match that begins at `from` or behind it; its positions are in `found` then.
    ///
    /// # Panics
    /// If `from` is no boundary of a character.
    pub(super) fn find(&self, text: &str, from: usize, found: &mut Found) -> Result<bool, Failure> {
        match self.run(text, from, 0, found) {
            // Machine code has a small stack; the interpreter has a heap, and limits of its own.
            Err(Failure(PCRE2_ERROR_JIT_STACKLIMIT)) => self.run(text, from, PCRE2_NO_JIT, found),
            outcome => outcome,
        }
    }

    fn run(&self, text: &str, from: usize, options: u32, to: &mut Found) -> Result<bool, Failure> {
        assert!(text.is_char_boundary(from), "a match begins at a character");
        // SAFETY: pointer and length are of one text that outlives the call; it is UTF-8 and `from` is
        // a boundary in it, so it need not be checked; `to` is ours alone; the context only read.
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
            // Zero: matched, and not all groups had room.
            0.. => Ok(true),
            error => Err(Failure(error)),
        }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        meter::count(-(self.machine_bytes as i64));
        // SAFETY: made by `pcre2_compile_8`, freed once.
        unsafe { pcre2_code_free_8(self.code.as_ptr()) }
    }
}

/// Where a match and its groups are.
pub(super) struct Found(NonNull<pcre2_match_data_8>);

// SAFETY: it owns what it points to, and only `&mut` changes that.
unsafe impl Send for Found {}

impl Found {
    fn new(pairs: u32) -> Found {
        // SAFETY: the context is never freed, and the library only reads it.
        let data = unsafe { pcre2_match_data_create_8(pairs, metered()) };
        Found(NonNull::new(data).expect("memory for a few positions"))
    }

    /// Begin and end of a group in bytes; group 0 is the match. None if the group took no part.
    pub(super) fn group(&self, at: usize) -> Option<(usize, usize)> {
        // SAFETY: the library hands out its own array of this many pairs, all of them set by a match.
        let pairs = unsafe {
            let first = pcre2_get_ovector_pointer_8(self.0.as_ptr()).cast::<[usize; 2]>();
            let count = pcre2_get_ovector_count_8(self.0.as_ptr());
            std::slice::from_raw_parts(first, count as usize)
        };
        // The library's "unset" is the largest number.
        pairs.get(at).filter(|pair| !pair.contains(&usize::MAX)).map(|&[start, end]| (start, end))
    }

    /// Groups and the match itself.
    pub(super) fn len(&self) -> usize {
        // SAFETY: a question about what we own.
        unsafe { pcre2_get_ovector_count_8(self.0.as_ptr()) as usize }
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        // SAFETY: made by `pcre2_match_data_create_8`, freed once.
        unsafe { pcre2_match_data_free_8(self.0.as_ptr()) }
    }
}

impl fmt::Display for Failure {
    /// The library's words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0_u8; MESSAGE_BYTES_MAX];
        // SAFETY: pointer and length are of one array.
        let length = unsafe { pcre2_get_error_message_8(self.0, text.as_mut_ptr(), text.len()) };
        let text = usize::try_from(length).ok().and_then(|length| text.get(..length));
        f.write_str(text.and_then(|text| str::from_utf8(text).ok()).unwrap_or("unknown error"))
    }
}

/// What precedes a piece of memory of the library: its length, at the alignment of all pieces.
const PIECE_HEAD_BYTES: usize = 16;

/// What is smaller is not asked for: positions of groups, of which a request has a few.
const UNASKED_BYTES: usize = 128 << 10;

/// The memory of a piece with its head.
fn piece(bytes: usize) -> Option<Layout> {
    let whole = bytes.checked_add(PIECE_HEAD_BYTES)?;
    Layout::from_size_align(whole, PIECE_HEAD_BYTES).ok()
}

/// Memory for patterns and for backtracking: Rust's, which the request's meter counts, if there is room for it.
unsafe extern "C" fn take(bytes: usize, _: *mut c_void) -> *mut c_void {
    if bytes > UNASKED_BYTES && !meter::fits(bytes) {
        return ptr::null_mut();
    }
    let Some(layout) = piece(bytes) else { return ptr::null_mut() };
    // SAFETY: the layout has a head at least; the head is within the piece and aligned, and what follows is
    // the library's.
    unsafe {
        let head = alloc::alloc(layout);
        if head.is_null() {
            return ptr::null_mut();
        }
        head.cast::<usize>().write(bytes);
        head.add(PIECE_HEAD_BYTES).cast()
    }
}

/// Gives back what [`take`] gave, or nothing.
unsafe extern "C" fn give_back(place: *mut c_void, _: *mut c_void) {
    if place.is_null() {
        return;
    }
    // SAFETY: `place` came from `take`, which wrote the length before it and made the same layout of it.
    unsafe {
        let head = place.cast::<u8>().sub(PIECE_HEAD_BYTES);
        let bytes = head.cast::<usize>().read();
        if let Some(layout) = piece(bytes) {
            alloc::dealloc(head, layout);
        }
    }
}

/// Where rooms of matches have their memory from, made once.
fn metered() -> *mut pcre2_general_context_8 {
    struct General(*mut pcre2_general_context_8);
    // SAFETY: it is not changed after `get_or_init`; the library then only reads it.
    unsafe impl Send for General {}
    // SAFETY: as above.
    unsafe impl Sync for General {}
    static GENERAL: OnceLock<General> = OnceLock::new();
    let made = GENERAL.get_or_init(|| {
        // SAFETY: the two functions keep the contract of `malloc` and `free`, and need no data.
        let context =
            unsafe { pcre2_general_context_create_8(Some(take), Some(give_back), ptr::null_mut()) };
        assert!(!context.is_null(), "memory for three pointers");
        General(context)
    });
    made.0
}

/// Where compiled patterns have their memory from, made once.
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

/// The limits of every match, made once.
fn limits() -> *mut pcre2_match_context_8 {
    struct Limits(*mut pcre2_match_context_8);
    // SAFETY: it is not changed after `get_or_init`; the library then only reads it.
    unsafe impl Send for Limits {}
    // SAFETY: as above.
    unsafe impl Sync for Limits {}
    static LIMITS: OnceLock<Limits> = OnceLock::new();
    let made = LIMITS.get_or_init(|| {
        // SAFETY: null stands for the standard allocator; what was made is used if it is not null.
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

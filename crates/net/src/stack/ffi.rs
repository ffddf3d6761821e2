//! Gives pages of the stack back to the system.
#![expect(unsafe_code, reason = "the bounds of the stack, and advice about its pages")]

/// Bytes below the present frame that stay: they belong to the frames of the call itself.
#[cfg(target_os = "linux")]
const KEPT_BYTES: usize = 8 << 10;

/// The lowest address of the current thread's stack; none if it is unknown.
#[cfg(target_os = "linux")]
fn lowest() -> Option<usize> {
    // SAFETY: the attributes are initialized by the first call, read by the second and destroyed by the third.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return None;
        }
        let (mut address, mut size) = (std::ptr::null_mut(), 0);
        let known =
            libc::pthread_attr_getstack(&raw const attributes, &raw mut address, &raw mut size);
        libc::pthread_attr_destroy(&raw mut attributes);
        (known == 0).then_some(address as usize)
    }
}

/// The pages of the stack below this frame, without those that this call may use.
#[cfg(target_os = "linux")]
#[inline(never)]
fn unused() -> Option<(usize, usize)> {
    let here = 0_u8;
    // SAFETY: a question about the system.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    let end = (&raw const here as usize).checked_sub(KEPT_BYTES)? / page * page;
    let start = lowest()?.div_ceil(page) * page;
    (start < end).then_some((start, end - start))
}

/// Releases the pages of the current thread's stack that no frame uses; they are zero when they are used again. Costs
/// a system call.
#[cfg(target_os = "linux")]
pub(crate) fn release() {
    if let Some((start, length)) = unused() {
        // SAFETY: the range is a part of this thread's own stack that has no frame, and none is made in it before the
        // call returns: the frames of the call are within `KEPT_BYTES`.
        unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn release() {}

/// How much of the unused stack is resident.
#[cfg(all(test, target_os = "linux"))]
pub(super) fn resident_bytes() -> usize {
    let Some((start, length)) = unused() else { return 0 };
    // SAFETY: as above.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let mut pages = vec![0_u8; length / page];
    // SAFETY: the vector has a byte for each page of the range, which is mapped.
    unsafe { libc::mincore(start as *mut libc::c_void, length, pages.as_mut_ptr()) };
    pages.iter().filter(|page| **page & 1 == 1).count() * page
}

//! The counting allocator counts the allocations of the current thread only.
use nagi_testkit::{CountingAllocator, count_allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn counts_calls_and_bytes_of_this_thread() {
    let (kept, spent) = count_allocations(|| vec![0_u8; 1000]);
    assert_eq!((kept.len(), spent.calls, spent.bytes), (1000, 1, 1000));
    let ((), none) = count_allocations(|| ());
    assert_eq!(none.calls, 0);
}

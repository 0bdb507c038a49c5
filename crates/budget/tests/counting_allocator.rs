//! The counting allocator as a process uses it: global, around mimalloc. One test, since the count is of the process.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::sync::mpsc;

use mimalloc::MiMalloc;
use thermocline_budget::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator<MiMalloc> = CountingAllocator::new(MiMalloc);

/// What each running thread may keep to itself.
const SLACK_BYTES: u64 = 64 << 10;

fn allocated_bytes() -> u64 {
    CountingAllocator::<MiMalloc>::allocated_bytes()
}

fn assert_about(expected_bytes: u64, slack_bytes: u64, what: &str) {
    let counted_bytes = allocated_bytes();
    assert!(
        counted_bytes.abs_diff(expected_bytes) <= slack_bytes,
        "{what}: counted {counted_bytes}, expected {expected_bytes}"
    );
}

/// Frees a buffer when the thread has ended as far as Rust knows: the C library runs the destructors of its keys after
/// those of thread-locals, so that the thread's balance is gone by then.
#[allow(unsafe_code)]
mod late {
    use std::sync::OnceLock;

    static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();

    unsafe extern "C" fn free(pointer: *mut libc::c_void) {
        // SAFETY: the key holds only what `keep` leaked, once.
        drop(unsafe { Box::from_raw(pointer.cast::<Vec<u8>>()) });
    }

    pub(super) fn keep(buffer: Vec<u8>) {
        let key = *KEY.get_or_init(|| {
            let mut key = 0;
            // SAFETY: `key` is writable and `free` has the type of a destructor.
            assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(free)) }, 0);
            key
        });
        // SAFETY: the key was made above and is never deleted.
        assert_eq!(unsafe { libc::pthread_setspecific(key, Box::into_raw(Box::new(buffer)).cast()) }, 0);
    }
}

#[test]
fn the_count_follows_allocations_of_any_size_over_any_threads_and_does_not_drift() {
    // This thread and the test harness' own.
    let slack_bytes = 3 * SLACK_BYTES;
    let base_bytes = allocated_bytes();

    let large = vec![1_u8; 32 << 20];
    assert_about(base_bytes + (32 << 20), slack_bytes, "one large buffer");
    let mut grown = large;
    grown.resize(48 << 20, 2);
    grown.shrink_to_fit();
    assert_about(base_bytes + (48 << 20), slack_bytes, "reallocated");
    drop(grown);
    let zeroed = vec![0_u8; 16 << 20];
    assert_about(base_bytes + (16 << 20), slack_bytes, "zeroed");
    drop(zeroed);
    let small: Vec<Box<[u8; 100]>> = (0..200_000).map(|_| Box::new([3; 100])).collect();
    assert_about(base_bytes + 200_000 * 108, slack_bytes, "many small ones");
    drop(small);
    assert_about(base_bytes, slack_bytes, "all freed");

    // Threads that each end with a balance below the threshold, their memory freed by another: without the move at a
    // thread's end, each would leave 50 KB behind, 100 MB in all.
    let (sender, receiver) = mpsc::channel::<Vec<u8>>();
    let freeing = std::thread::spawn(move || receiver.into_iter().map(|buffer| buffer.len() as u64).sum::<u64>());
    for _ in 0..250 {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let sender = sender.clone();
                scope.spawn(move || {
                    late::keep(vec![5; 30_000]);
                    let kept: Vec<u8> = vec![4; 50_000];
                    drop(vec![6_u8; 200_000]);
                    sender.send(kept).unwrap();
                });
            }
        });
    }
    drop(sender);
    assert_eq!(freeing.join().unwrap(), 2_000 * 50_000);
    // A scope ends before its threads' destructors have all run: wait until they have, at most 10 s.
    for _ in 0..1_000 {
        if allocated_bytes().abs_diff(base_bytes) <= slack_bytes {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_about(base_bytes, slack_bytes, "after a storm of 2,000 threads");
}

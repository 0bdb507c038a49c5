//! Produces the parts of something in parallel and takes them in order.
//!
//! Owns the threads of one write, and the buffers of a text. Does not know what a part holds.
//!
//! Concurrency: thread t produces parts t, t + n, t + 2n …, and hands each over through a channel of its own that holds
//! one part; the calling thread takes them round robin. So at most three parts a thread are alive (in work, in the
//! channel, being taken), the order needs no reordering, and a failed write or a panic closes channels instead of
//! leaving a waiter.

use std::io::{self, Write};
use std::sync::mpsc::sync_channel;
use std::thread;

/// Writes parts 0 to `part_count` - 1, each as `fill` appends it to an empty buffer. Returns the bytes written.
///
/// # Errors
/// The first error of `out`; what was written before it stays.
pub fn write_parts(
    out: &mut impl Write,
    part_count: usize,
    thread_count: usize,
    fill: impl Fn(usize, &mut Vec<u8>) + Sync,
) -> io::Result<u64> {
    let fill = &fill;
    let mut written_bytes = 0;
    let producer = || {
        let mut expected_bytes = 0;
        move |part| {
            // Parts are alike in size: an eighth more than the last one seldom grows.
            let mut buffer = Vec::with_capacity(expected_bytes);
            fill(part, &mut buffer);
            expected_bytes = buffer.len() + buffer.len() / 8;
            buffer
        }
    };
    take_parts(part_count, thread_count, producer, |buffer| {
        out.write_all(&buffer)?;
        written_bytes += buffer.len() as u64;
        Ok::<(), io::Error>(())
    })?;
    Ok(written_bytes)
}

/// Gives parts 0 to `part_count` - 1 to `take`, in order and on the calling thread. `producer` is called once a thread,
/// and what it returns once for each of the thread's parts.
///
/// # Errors
/// The first error of `take`, which is not called again.
pub fn take_parts<T: Send, E, P: FnMut(usize) -> T>(
    part_count: usize,
    thread_count: usize,
    producer: impl Fn() -> P + Sync,
    mut take: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    let thread_count = thread_count.clamp(1, part_count.max(1));
    let producer = &producer;
    thread::scope(|scope| {
        let mut receivers = Vec::with_capacity(thread_count);
        for first in 0..thread_count {
            let (sender, receiver) = sync_channel::<T>(1);
            receivers.push(receiver);
            scope.spawn(move || {
                let mut produce = producer();
                for part in (first..part_count).step_by(thread_count) {
                    if sender.send(produce(part)).is_err() {
                        return; // the taker gave up
                    }
                }
            });
        }
        for part in 0..part_count {
            // A closed channel means its thread panicked; leaving the scope passes the panic on.
            let Ok(produced) = receivers[part % thread_count].recv() else { break };
            take(produced)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_arrive_in_order_whatever_the_number_of_threads() {
        let expected: String = (0..100).map(|part| format!("{part}\n")).collect();
        for thread_count in [0, 1, 2, 3, 7, 200] {
            let mut out = Vec::new();
            let written = write_parts(&mut out, 100, thread_count, |part, buffer| {
                if part % 5 == 0 {
                    thread::yield_now();
                }
                buffer.extend_from_slice(format!("{part}\n").as_bytes());
            })
            .expect("a vector takes every byte");
            assert_eq!(String::from_utf8_lossy(&out), expected);
            assert_eq!(written, expected.len() as u64);
        }
    }

    #[test]
    fn a_failed_write_ends_the_threads_and_is_reported() {
        struct FullAfter(usize);
        impl Write for FullAfter {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                if self.0 == 0 {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                self.0 -= 1;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error =
            write_parts(&mut FullAfter(3), 1000, 2, |_, buffer| buffer.push(b'x')).expect_err("the disk is full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}

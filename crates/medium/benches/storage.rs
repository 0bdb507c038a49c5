//! How fast a medium reads a file that is not in the page cache: MB/s for each size and number of reads under way.
//!
//! `cargo bench -p thermocline-medium --bench storage -- [FOLDER [SECONDS [KIB DEPTH]]]` makes a file of a gibibyte in
//! the folder (a temporary one unless told) and reads each kind, or the one named, for that long (0.5 s). Reads below
//! 256 KiB are at random places, larger ones in order. To compare: `fio --name=r --filename=FILE --rw=read --bs=1M
//! --iodepth=8 --ioengine=io_uring --direct=1`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_hardware::{Clock, SystemClock};
use thermocline_medium::{AlignedBuffer, DirectMedium, DirectOptions, Medium, MediumFile, ReadQueue};

const FILE_BYTES: u64 = 1 << 30;
const SIZES_BYTES: [usize; 5] = [4 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20];
const DEPTHS: [usize; 5] = [1, 2, 8, 32, 128];

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let seconds = arguments.get(1).map_or(0.5, |seconds| seconds.parse::<f64>().unwrap());
    let temporary = tempfile::tempdir().unwrap();
    let folder = arguments.first().map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    let clock = SystemClock::new();
    let name = "thermocline-bench.tmp";
    write(&folder, name, &clock);
    if let [_, _, kib, depth] = arguments.as_slice() {
        let medium: Arc<dyn Medium> = Arc::new(DirectMedium::open(&folder).unwrap());
        let (file, bytes) = (medium.open(name).unwrap(), kib.parse::<usize>().unwrap() << 10);
        println!("{:.0} MB/s", queued(&medium, &file, bytes, depth.parse().unwrap(), seconds, &clock));
        return medium.remove(name).unwrap();
    }
    for (io_uring, past_page_cache) in [(true, true), (false, true)] {
        let medium: Arc<dyn Medium> =
            Arc::new(DirectMedium::open_with(&folder, DirectOptions { io_uring, past_page_cache }).unwrap());
        println!("\n{}; MB/s", medium.describe());
        println!("{:>10}{}", "under way", SIZES_BYTES.map(|bytes| format!("{:>9} KiB", bytes >> 10)).concat());
        let file = medium.open(name).unwrap();
        for depth in DEPTHS {
            let rates = SIZES_BYTES.map(|bytes| {
                // No more than a quarter of a gibibyte of buffers.
                let depth = depth.min((256 << 20) / bytes);
                format!("{:>13.0}", queued(&medium, &file, bytes, depth, seconds, &clock))
            });
            println!("{depth:>10}{}", rates.concat());
        }
        let rates = SIZES_BYTES.map(|bytes| format!("{:>13.0}", blocking(&medium, &file, bytes, seconds, &clock)));
        println!("{:>10}{}", "read_at", rates.concat());
    }
    DirectMedium::open(&folder).unwrap().remove(name).unwrap();
}

/// The next place to read, wherever the last one was.
fn next_offset(bytes: usize, index: u64) -> u64 {
    let place_count = FILE_BYTES / bytes as u64;
    let place = if bytes < 256 << 10 { index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20 } else { index };
    place % place_count * bytes as u64
}

fn mb_per_s(bytes: u64, duration_ns: u64) -> f64 {
    bytes as f64 * 1e3 / duration_ns as f64
}

fn queued(
    medium: &Arc<dyn Medium>,
    file: &MediumFile,
    bytes: usize,
    depth: usize,
    seconds: f64,
    clock: &SystemClock,
) -> f64 {
    let mut queue = ReadQueue::new(Arc::clone(medium));
    let mut index = 0;
    let mut buffers: Vec<_> = (0..depth).map(|_| AlignedBuffer::new(bytes)).collect();
    // Bringing memory in would be measured too.
    buffers.iter_mut().for_each(|buffer| buffer.fill(1));
    let began_ns = clock.monotonic_ns();
    queue.submit(buffers.into_iter().map(|buffer| {
        index += 1;
        (file.clone(), next_offset(bytes, index), buffer)
    }));
    let mut read_bytes = 0;
    while let Some(read) = queue.wait_next() {
        read.outcome.unwrap();
        read_bytes += bytes as u64;
        if ((clock.monotonic_ns() - began_ns) as f64) < seconds * 1e9 {
            index += 1;
            queue.submit([(read.file, next_offset(bytes, index), read.buffer)]);
        }
    }
    mb_per_s(read_bytes, clock.monotonic_ns() - began_ns)
}

fn blocking(medium: &Arc<dyn Medium>, file: &MediumFile, bytes: usize, seconds: f64, clock: &SystemClock) -> f64 {
    let mut buffer = AlignedBuffer::new(bytes);
    buffer.fill(1);
    let began_ns = clock.monotonic_ns();
    let mut count = 0;
    while ((clock.monotonic_ns() - began_ns) as f64) < seconds * 1e9 {
        count += 1;
        medium.read_at(file, next_offset(bytes, count), &mut buffer).unwrap();
    }
    mb_per_s(count * bytes as u64, clock.monotonic_ns() - began_ns)
}

/// Makes the file, both ways.
fn write(folder: &Path, name: &str, clock: &SystemClock) {
    let mut piece = AlignedBuffer::new(2 << 20);
    for (index, byte) in piece.iter_mut().enumerate() {
        *byte = ((index * 31) >> 7) as u8;
    }
    for past_page_cache in [false, true] {
        let medium = DirectMedium::open_with(folder, DirectOptions { io_uring: true, past_page_cache }).unwrap();
        // Left by a run that was stopped, or by the other way.
        let _ = medium.remove(name);
        let file = medium.create(name).unwrap();
        let began_ns = clock.monotonic_ns();
        for offset_bytes in (0..FILE_BYTES).step_by(piece.len()) {
            medium.write_at(&file, offset_bytes, &piece).unwrap();
        }
        let written_ns = clock.monotonic_ns() - began_ns;
        medium.sync_data(&file).unwrap();
        let synced_ns = clock.monotonic_ns() - began_ns;
        println!(
            "written past the page cache: {past_page_cache}; {:.0} MB/s, {:.0} with the sync",
            mb_per_s(FILE_BYTES, written_ns),
            mb_per_s(FILE_BYTES, synced_ns)
        );
    }
}

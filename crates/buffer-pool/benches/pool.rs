//! How fast pages come through the pool: from disk beside the bare queue of the medium, and from memory.
//!
//! `cargo bench -p thermocline-buffer-pool --bench pool -- [FOLDER [ROUNDS]]` makes a file of a gibibyte in the folder
//! (a temporary one unless told), reads it in order past the page cache, one way after the other in each round (5), and
//! tells the median of MB/s; then asks for pages that are all in memory. To compare:
//! `fio --name=r --filename=FILE --rw=read --bs=2M --iodepth=8 --ioengine=io_uring --direct=1`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use thermocline_budget::Budget;
use thermocline_buffer_pool::{BufferPool, PagePlace, PageSource, PoolOptions, ReadOptions, RegisteredSource};
use thermocline_hardware::{Clock, SystemClock, first_touch};
use thermocline_medium::{AlignedBuffer, DirectMedium, Medium, MediumFile, ReadQueue};
use thermocline_placement::page_cache::{ListKey, PagePolicyName};

const FILE_BYTES: u64 = 1 << 30;
const AHEAD_BYTES: u64 = 16 << 20;
const NAME: &str = "thermocline-bench.tmp";

/// The file as pages of one size.
struct Pages {
    medium: Arc<dyn Medium>,
    file: MediumFile,
    page_bytes: u32,
    list: ListKey,
}

impl PageSource for Pages {
    fn medium(&self) -> &Arc<dyn Medium> {
        &self.medium
    }

    fn place(&self, page: u32) -> PagePlace {
        PagePlace {
            file: self.file.clone(),
            offset_bytes: u64::from(page) * u64::from(self.page_bytes),
            read_bytes: self.page_bytes,
            size_bytes: self.page_bytes,
            list: self.list,
            rows: page,
        }
    }

    fn check(&self, _page: u32, _bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }

    fn describe(&self, page: u32) -> String {
        format!("page {page}")
    }
}

struct Bench {
    clock: Arc<SystemClock>,
    medium: Arc<dyn Medium>,
    file: MediumFile,
}

impl Bench {
    fn source(
        &self,
        policy: PagePolicyName,
        page_bytes: u32,
        read_most_bytes: u64,
        memory_bytes: u64,
    ) -> RegisteredSource {
        let budget = Budget::new(memory_bytes, None);
        let options = PoolOptions { read_most_bytes, ..PoolOptions::default() };
        let pool = BufferPool::new(options, &budget, policy.build(), self.clock.clone()).unwrap();
        let (medium, file, list) = (Arc::clone(&self.medium), self.file.clone(), pool.new_list());
        pool.register(Arc::new(Pages { medium, file, page_bytes, list }))
    }

    /// MB/s of the bare queue with pieces of this size, with as many bytes under way as readers read ahead.
    fn bare(&self, bytes: usize) -> f64 {
        let mut queue = ReadQueue::new(Arc::clone(&self.medium));
        let depth = AHEAD_BYTES as usize / bytes;
        let mut buffers: Vec<_> = (0..depth).map(|_| AlignedBuffer::new(bytes)).collect();
        // Bringing memory in would be measured too.
        buffers.iter_mut().for_each(|buffer| buffer.fill(1));
        let mut offsets = (0..FILE_BYTES).step_by(bytes);
        let began_ns = self.clock.monotonic_ns();
        queue.submit(buffers.into_iter().zip(&mut offsets).map(|(buffer, at)| (self.file.clone(), at, buffer)));
        while let Some(read) = queue.wait_next() {
            read.outcome.unwrap();
            if let Some(offset_bytes) = offsets.next() {
                queue.submit([(read.file, offset_bytes, read.buffer)]);
            }
        }
        mb_per_s(self.clock.monotonic_ns() - began_ns)
    }

    /// MB/s of a reader whose source's pool has been filled already.
    fn scanned(&self, source: &RegisteredSource, page_bytes: u32) -> f64 {
        let began_ns = self.clock.monotonic_ns();
        let mut reader = source
            .reader(0..(FILE_BYTES / u64::from(page_bytes)) as u32, ReadOptions { read_ahead_bytes: AHEAD_BYTES });
        while let Some(page) = reader.wait_next() {
            let page = page.unwrap();
            assert!(page.len() == page_bytes as usize && !page.was_hit());
        }
        mb_per_s(self.clock.monotonic_ns() - began_ns)
    }

    /// Nanoseconds for each page, all of them in memory: by one reader, and with a reader for each.
    fn hits(&self, policy: PagePolicyName, page_bytes: u32) -> (f64, f64) {
        let source = self.source(policy, page_bytes, 2 << 20, 512 << 20);
        let page_count = (256 << 20) / page_bytes;
        let (mut read_ns, mut alone_ns) = (f64::MAX, f64::MAX);
        for _ in 0..10 {
            let began_ns = self.clock.monotonic_ns();
            let mut reader = source.reader(0..page_count, ReadOptions::default());
            while let Some(page) = reader.wait_next() {
                page.unwrap();
            }
            read_ns = read_ns.min((self.clock.monotonic_ns() - began_ns) as f64);
            let began_ns = self.clock.monotonic_ns();
            for page in 0..page_count {
                source.reader([page], ReadOptions::default()).wait_next().unwrap().unwrap();
            }
            alone_ns = alone_ns.min((self.clock.monotonic_ns() - began_ns) as f64);
        }
        (read_ns / f64::from(page_count), alone_ns / f64::from(page_count))
    }
}

fn mb_per_s(duration_ns: u64) -> f64 {
    FILE_BYTES as f64 * 1e3 / duration_ns as f64
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let temporary = tempfile::tempdir().unwrap();
    let folder = arguments.first().map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    let round_count = arguments.get(1).map_or(5, |count| count.parse::<usize>().unwrap());
    let medium: Arc<dyn Medium> = Arc::new(DirectMedium::open(&folder).unwrap());
    println!("{}", medium.describe());
    println!("{:?}", first_touch());
    // Left by a run that was stopped.
    let _ = medium.remove(NAME);
    let file = medium.create(NAME).unwrap();
    let mut piece = AlignedBuffer::new(2 << 20);
    piece.fill(7);
    for offset_bytes in (0..FILE_BYTES).step_by(piece.len()) {
        medium.write_at(&file, offset_bytes, &piece).unwrap();
    }
    medium.sync_data(&file).unwrap();
    let bench = Bench { clock: Arc::new(SystemClock::new()), medium, file };

    println!("\na gibibyte in order, 16 MiB ahead, the pool in 128 MiB; MB/s, the median of {round_count} rounds");
    let ways = [16 << 10, 256 << 10, 1 << 20].map(|page_bytes: u32| {
        let bare = |bytes: usize| (format!("bare queue, {} KiB", bytes >> 10), None, bytes as u32);
        let pool = |joined: bool| {
            let most_bytes = if joined { 2 << 20 } else { 1 };
            // Of a scan that comes again this one keeps nothing of use: every page is read.
            let policy = PagePolicyName::LeastRecentlyUsed;
            let source = bench.source(policy, page_bytes, most_bytes, 128 << 20);
            let how = if joined { "read together" } else { "read alone" };
            (format!("pool, pages of {} KiB {how}", page_bytes >> 10), Some(source), page_bytes)
        };
        [bare(page_bytes as usize), bare(2 << 20), pool(false), pool(true)]
    });
    for ways in ways {
        let mut rates: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
        for round in 0..=round_count {
            for ((_, source, bytes), rates) in ways.iter().zip(&mut rates) {
                let rate = match source {
                    Some(source) => bench.scanned(source, *bytes),
                    None => bench.bare(*bytes as usize),
                };
                // The first round fills the pool.
                if round > 0 {
                    rates.push(rate);
                }
            }
        }
        for ((name, ..), rates) in ways.iter().zip(&mut rates) {
            rates.sort_unstable_by(f64::total_cmp);
            println!("{name:>40} {:>8.0}", rates[rates.len() / 2]);
        }
    }

    println!("\nall in memory; nanoseconds for each page");
    for policy in [PagePolicyName::LeastRecentlyUsed, PagePolicyName::default()] {
        for page_bytes in [4 << 10, 64 << 10, 256 << 10] {
            let (read_ns, alone_ns) = bench.hits(policy, page_bytes);
            let kib = page_bytes >> 10;
            println!("{kib:>10} KiB, {policy:<12} {read_ns:>6.0} by one reader, {alone_ns:>6.0} with a reader each");
        }
    }
    bench.medium.remove(NAME).unwrap();
}

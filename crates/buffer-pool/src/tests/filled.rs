//! How much of its memory a pool makes use of when pages of many sizes come and go, and how many reads that takes.
//!
//! A table of row groups with a page of each column, of which the pool holds two fifths, is scanned by queries of
//! several columns each, one after the other and again and again: partitions claim row groups that are read ahead, as
//! in the engine. Nothing is read into the memory, so that hundreds of megabytes of it cost nothing.
#![allow(clippy::print_stdout)]

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use thermocline_medium::{Medium, MediumFile};
use thermocline_placement::page_cache::{ListKey, PagePolicyName};

use super::stage::{Play, poll_once};
use crate::{PagePlace, PageReader, PageSource, PinnedPage, PoolOptions, ReadOptions, RegisteredSource, Result};
use thermocline_seeded::Random;

/// What is scanned, and by whom.
struct Workload {
    /// The pages of a column are within a part of these sizes, more or less,
    columns_kib: &'static [u64],
    /// which is one in so many.
    size_variation: usize,
    queries: &'static [&'static [usize]],
    group_count: u32,
    partition_count: usize,
    ahead_bytes: u64,
    /// The pool's part of the table, in thousandths.
    memory_thousandths: u64,
}

/// Queries that share columns.
const OVERLAPPING: Workload = Workload {
    columns_kib: &[32, 256, 64, 180, 256, 32, 64, 64, 256, 256, 180, 32, 180, 64, 180, 256],
    size_variation: 16,
    queries: &[
        &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        &[0, 1, 2, 3],
        &[4, 5, 6, 7, 8, 9, 10, 11],
        &[1, 4, 5, 9, 10, 15],
        &[8, 9, 10, 11, 12, 13, 14, 15],
        &[2, 3, 4, 13, 14],
    ],
    group_count: 400,
    partition_count: 8,
    ahead_bytes: 16 << 20,
    memory_thousandths: 400,
};

/// Two queries in turn that share none.
const ALTERNATING: Workload = Workload {
    columns_kib: &[258, 98, 386, 66, 322, 386, 273, 66],
    size_variation: 64,
    queries: &[&[0, 1, 2, 3], &[4, 5, 6, 7]],
    group_count: 460,
    partition_count: 2,
    ahead_bytes: 2 << 20,
    memory_thousandths: 600,
};

struct Columns {
    medium: Arc<dyn Medium>,
    places: Vec<PagePlace>,
}

impl Columns {
    fn new(workload: &Workload, medium: Arc<dyn Medium>, lists: &[ListKey], random: &mut Random) -> Self {
        let file = MediumFile::new("table", Arc::new(()));
        let (mut places, mut offset_bytes) = (Vec::new(), 0);
        let pages = (0..workload.group_count)
            .flat_map(|rows| workload.columns_kib.iter().zip(lists).map(move |page| (rows, page)));
        for (rows, (kib, list)) in pages {
            let units = *kib as usize / 4;
            let more = (units / workload.size_variation).max(1);
            let read_bytes = (units - more + random.below(2 * more + 1)) as u32 * 4096;
            let (file, list) = (file.clone(), *list);
            places.push(PagePlace { file, offset_bytes, read_bytes, size_bytes: read_bytes, list, rows });
            offset_bytes += u64::from(read_bytes);
        }
        Self { medium, places }
    }

    fn bytes<'a>(&self, pages: impl IntoIterator<Item = &'a u32>) -> u64 {
        pages.into_iter().map(|&page| self.places[page as usize].held_bytes()).sum()
    }
}

impl PageSource for Columns {
    fn medium(&self) -> &Arc<dyn Medium> {
        &self.medium
    }
    fn place(&self, page: u32) -> PagePlace {
        self.places[page as usize].clone()
    }
    fn check(&self, _page: u32, _bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
    fn describe(&self, page: u32) -> String {
        format!("page {page}")
    }
}

/// A row group that is read, and those of its pages that are there.
struct Group {
    reader: PageReader,
    size_bytes: u64,
    pins: Vec<PinnedPage>,
}

/// A scan of some columns.
struct Scan<'a> {
    workload: &'a Workload,
    source: &'a RegisteredSource,
    columns: &'a Columns,
    query: &'a [usize],
    next: u32,
    asked: VecDeque<Group>,
    asked_bytes: u64,
}

impl Scan<'_> {
    fn claim(&mut self) -> Option<Group> {
        while self.next < self.workload.group_count
            && (self.asked.is_empty() || self.asked_bytes < self.workload.ahead_bytes)
        {
            let first = self.next as usize * self.workload.columns_kib.len();
            let pages: Vec<u32> = self.query.iter().map(|column| (first + column) as u32).collect();
            self.next += 1;
            let size_bytes = self.columns.bytes(&pages);
            let mut reader = self.source.reader(pages, ReadOptions::default());
            reader.start();
            self.asked_bytes += size_bytes;
            self.asked.push_back(Group { reader, size_bytes, pins: Vec::new() });
        }
        let claimed = self.asked.pop_front()?;
        self.asked_bytes -= claimed.size_bytes;
        Some(claimed)
    }
}

/// What was seen in one round of all queries.
#[derive(Debug)]
struct Figures {
    /// Of the pool's memory, the mean.
    held_part: f64,
    read_count: usize,
    read_bytes: u64,
}

/// A pool of a part of a table, whose columns may keep these shares.
struct Database {
    workload: &'static Workload,
    play: Play,
    columns: Arc<Columns>,
    source: RegisteredSource,
    lists: Vec<ListKey>,
    memory_bytes: u64,
    random: Random,
}

impl Database {
    fn new(workload: &'static Workload, policy: PagePolicyName, shares: &[f64]) -> Self {
        let (options, mut random) = (PoolOptions::default(), Random::new(7));
        let data_bytes = u64::from(workload.group_count) * workload.columns_kib.iter().sum::<u64>() * 1024;
        let chunk_count = data_bytes * workload.memory_thousandths / 1000 / options.chunk_bytes;
        let memory_bytes = chunk_count * options.chunk_bytes;
        let play = Play::with(options, 1 << 40, Some(memory_bytes + memory_bytes / 64), &[4096]);
        play.stage.is_blank.store(true, Ordering::Relaxed);
        play.hold(true);
        play.pool.set_policy(policy.build());
        let lists: Vec<ListKey> = workload.columns_kib.iter().map(|_| play.pool.new_list()).collect();
        let columns = Arc::new(Columns::new(workload, Arc::clone(&play.stage) as _, &lists, &mut random));
        let source = play.pool.register(Arc::clone(&columns) as _);
        let database = Self { workload, play, columns, source, lists, memory_bytes, random };
        database.let_keep(shares);
        database
    }

    /// Sets the columns' quotas to these shares of them, which are gone through again and again.
    fn let_keep(&self, shares: &[f64]) {
        let quota = |column: usize| {
            let first_pages = (0..self.workload.group_count).map(|group| group * self.lists.len() as u32);
            let pages: Vec<u32> = first_pages.map(|first| first + column as u32).collect();
            (self.columns.bytes(&pages) as f64 * shares[column % shares.len()]) as u64
        };
        let quotas: Vec<(ListKey, u64)> = self.lists.iter().copied().zip((0..).map(quota)).collect();
        self.play.pool.set_quotas(&quotas);
    }

    fn held_bytes(&self) -> u64 {
        self.play.pool.snapshot().lists.iter().map(|list| list.held_bytes).sum()
    }

    fn round(&mut self) -> Figures {
        let reads_before = self.play.stage.log().len();
        let mut held_bytes = Vec::new();
        for query in self.workload.queries {
            self.scan(query, &mut held_bytes);
            self.play.stage.complete_all();
        }
        let log = &self.play.stage.log()[reads_before..];
        let held_sum: u64 = held_bytes.iter().sum();
        let held_part = held_sum as f64 / held_bytes.len() as f64 / self.memory_bytes as f64;
        Figures { held_part, read_count: log.len(), read_bytes: log.iter().map(|(_, bytes)| bytes).sum() }
    }

    /// One scan, at random times of which the pool is looked at.
    fn scan(&mut self, query: &[usize], held_bytes: &mut Vec<u64>) {
        let (source, columns) = (&self.source, self.columns.as_ref());
        let workload = self.workload;
        let mut scan = Scan { workload, source, columns, query, next: 0, asked: VecDeque::new(), asked_bytes: 0 };
        let mut working: Vec<Group> = (0..workload.partition_count).filter_map(|_| scan.claim()).collect();
        while !working.is_empty() {
            if self.random.one_in(64) {
                held_bytes.push(self.held_bytes());
            }
            let index = self.random.below(working.len());
            match poll_once(&mut working[index].reader).0 {
                Poll::Ready(Some(page)) => working[index].pins.push(page.unwrap()),
                Poll::Ready(None) => {
                    working.swap_remove(index);
                    working.extend(scan.claim());
                }
                Poll::Pending => {
                    let held_count = self.play.stage.held_count();
                    self.play.stage.complete(self.random.below(held_count));
                }
            }
        }
    }
}

/// Runs until the pool is in its steady state, and asks for `held_part` and mean reads of `read_kib` from then on.
fn check(workload: &'static Workload, policy: PagePolicyName, shares: &[f64], held_part: f64, read_kib: u64) {
    let mut database = Database::new(workload, policy, shares);
    for round in 0..6 {
        let figures = database.round();
        println!(
            "{policy}, shares {shares:?}, round {round}: {:.1} % held, {} reads of {} KiB, {} MiB",
            100.0 * figures.held_part,
            figures.read_count,
            figures.read_bytes / figures.read_count as u64 / 1024,
            figures.read_bytes >> 20,
        );
        if round >= 3 {
            assert!(figures.held_part >= held_part, "{policy}, round {round}: {figures:?}");
            assert!(figures.read_bytes >= figures.read_count as u64 * read_kib * 1024, "{policy}: {figures:?}");
        }
    }
}

#[test]
fn memory_between_pages_that_stay_is_made_use_of() {
    // What stays are whole row groups, and so is what is read: chosen page by page reads would be of 320 KiB.
    check(&OVERLAPPING, PagePolicyName::Proportional, &[0.4], 0.96, 500);
    check(&OVERLAPPING, PagePolicyName::Proportional, &[0.1, 0.3, 0.8, 0.4], 0.96, 300);
}

#[test]
fn every_policy_makes_use_of_the_memory_there_is() {
    check(&OVERLAPPING, PagePolicyName::LeastRecentlyUsed, &[0.0], 0.95, 500);
    check(&OVERLAPPING, PagePolicyName::MostRecentlyUsed, &[0.0], 0.95, 300);
    check(&OVERLAPPING, PagePolicyName::TwoQueue, &[0.0], 0.95, 300);
}

#[test]
fn two_queries_in_turn_read_little_more_than_what_there_is_no_memory_for() {
    // Only the first is known until the second comes.
    let mut database =
        Database::new(&ALTERNATING, PagePolicyName::Proportional, &[1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    database.scan(ALTERNATING.queries[0], &mut Vec::new());
    let share = |database: &Database| {
        0.6 * database.play.pool.keepable_bytes() as f64 / database.play.pool.capacity_bytes() as f64
    };
    database.let_keep(&[share(&database)]);
    database.scan(ALTERNATING.queries[1], &mut Vec::new());
    let all_bytes = database.columns.places.iter().map(PagePlace::held_bytes).sum::<u64>();
    let missing_bytes = all_bytes - database.memory_bytes;
    for round in 0..5 {
        database.let_keep(&[share(&database)]);
        let figures = database.round();
        println!("round {round}: {figures:?} of {missing_bytes}");
        assert!(figures.held_part >= 0.97, "round {round}: {figures:?}");
        // At first the second query's pages spread over its scan.
        let most = if round == 0 { 1.15 } else { 1.1 };
        assert!(figures.read_bytes as f64 <= most * missing_bytes as f64, "round {round}: {figures:?}");
    }
}

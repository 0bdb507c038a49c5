//! Which frames the pool keeps, and how room is made for others.
//!
//! **Owns**: the table of frames, what each list has, the policy and when it is asked; how room is made for pages that
//! come ([`room`]) and for queries. **Does not own**: the memory (`arena`), reads, or which page is worth least: the
//! policy says that (`placement`).
//!
//! **Invariants**: a frame in the table is known to the policy and counted with its list, and not once it is out of the
//! table. Only frames that nobody else owns are taken out to make room.
//!
//! **Concurrency**: all of it is under the pool's one lock, which is held for look-ups and decisions, never for I/O or
//! checks.
//!
//! **Paper**: HPCache §4.3: lists with quotas and a global free list are the policy's; pages on that list are hits as
//! long as they are in the table, which is until their memory is taken.

mod holes;
mod room;

use std::ops::Range;
use std::sync::{Arc, Weak};

use thermocline_budget::Reservation;
use thermocline_placement::page_cache::{ListKey, PageKey, PagePolicy};

use crate::arena::Arena;
use crate::frame::Frame;
use crate::frame_table::{FrameTable, Numbered};
use crate::snapshot::ListSnapshot;

/// What is known about a page in memory takes about so much: 160 for its frame, 50 in the table and the order by place,
/// and the policy's part.
pub(crate) const NOTE_BYTES: u64 = 320;

/// Passing frames that may be noted before those that are gone are looked for.
const PASSING_LEAST: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Residents {
    arena: Arc<Arena>,
    table: FrameTable,
    policy: Box<dyn PagePolicy>,
    quotas: Vec<(ListKey, u64)>,
    /// By the number of the list.
    lists: Vec<ListSnapshot>,
    /// Frames that are not kept: found while they live.
    passing: Numbered<PageKey, Weak<Frame>>,
    passing_most: usize,
    /// The page that the policy named last without its going, and the bytes that went instead.
    passed_over: Option<(PageKey, u64)>,
    /// For notes beyond what the arena has reserved for them.
    notes: Reservation,
    /// Bytes asked for and found, halved whenever as much was read as there is memory: how useful the memory is of
    /// late.
    recent_hit_bytes: u64,
    recent_read_bytes: u64,
}

impl Residents {
    /// Nothing yet. `notes` is empty.
    pub(crate) fn new(arena: Arc<Arena>, policy: Box<dyn PagePolicy>, notes: Reservation) -> Self {
        Self {
            arena,
            table: FrameTable::default(),
            policy,
            quotas: Vec::new(),
            lists: Vec::new(),
            passing: Numbered::default(),
            passing_most: PASSING_LEAST,
            passed_over: None,
            notes,
            recent_hit_bytes: 0,
            recent_read_bytes: 0,
        }
    }

    pub(crate) fn add_source(&mut self, source: u32) {
        self.table.add_source(source);
    }

    /// Forgets a source and all its frames, whoever else has them.
    pub(crate) fn remove_source(&mut self, source: u32) {
        for key in self.table.keys_of(source) {
            self.remove(key);
        }
        self.table.remove_source(source);
    }

    pub(crate) fn add_list(&mut self) -> ListKey {
        let list = ListKey(u32::try_from(self.lists.len()).unwrap_or(u32::MAX));
        self.lists.push(ListSnapshot::new(list));
        list
    }

    /// Forgets what was asked of a list.
    pub(crate) fn reuse_list(&mut self, list: ListKey) {
        if let Some(list) = self.list_mut(list) {
            (list.hit_count, list.miss_count, list.read_bytes) = (0, 0, 0);
        }
    }

    fn list_mut(&mut self, list: ListKey) -> Option<&mut ListSnapshot> {
        self.lists.get_mut(list.0 as usize)
    }

    /// The page's frame if there is one that is of use. The policy is told.
    pub(crate) fn find(&mut self, key: PageKey) -> Option<Arc<Frame>> {
        let frame = match self.table.get(key) {
            Some(frame) if frame.has_failed() => {
                self.remove(key);
                return None;
            }
            Some(frame) => {
                self.policy.touch(key);
                Arc::clone(frame)
            }
            None if self.passing.is_empty() => return None,
            None => self.passing.get(&key)?.upgrade().filter(|frame| !frame.has_failed())?,
        };
        self.recent_hit_bytes += frame.held_bytes();
        if let Some(list) = self.list_mut(frame.list()) {
            list.hit_count += 1;
        }
        Some(frame)
    }

    /// Whether the page may be found, of use or not.
    pub(crate) fn has(&self, key: PageKey) -> bool {
        // Those that have passed are noted for a while.
        let passes = |frame: &Weak<Frame>| frame.strong_count() > 0;
        self.table.get(key).is_some() || !self.passing.is_empty() && self.passing.get(&key).is_some_and(passes)
    }

    fn count_miss(&mut self, frame: &Frame) {
        self.recent_read_bytes += frame.held_bytes();
        if self.recent_read_bytes > self.arena.backed_bytes() {
            self.recent_read_bytes = 0;
            self.recent_hit_bytes /= 2;
        }
        if let Some(list) = self.list_mut(frame.list()) {
            list.miss_count += 1;
            list.read_bytes += frame.read_bytes();
        }
    }

    /// How often each byte of memory was of use of late.
    pub(crate) fn hits_per_byte(&self) -> f64 {
        self.recent_hit_bytes as f64 / self.arena.backed_bytes().max(1) as f64
    }

    /// Keeps a frame of the arena that is about to be read and whose page is not in the table. Where nothing stays
    /// without a pin, it lives as long as who asks for it; so does one of a source that is not registered any more.
    pub(crate) fn keep(&mut self, frame: &Arc<Frame>) {
        if !self.policy.keeps_unpinned() {
            return self.note_passing(frame);
        }
        self.count_miss(frame);
        if !self.table.insert(frame) {
            return;
        }
        if let Some(list) = self.list_mut(frame.list()) {
            list.page_count += 1;
            list.held_bytes += frame.held_bytes();
        }
        self.policy.admit(frame.key(), frame.list(), frame.held_bytes(), frame.rows());
        self.make_room_for_notes();
    }

    /// Makes a frame known that is not kept, for those who ask for the page while somebody has it.
    pub(crate) fn note_passing(&mut self, frame: &Arc<Frame>) {
        self.count_miss(frame);
        self.let_pass(frame);
    }

    fn let_pass(&mut self, frame: &Arc<Frame>) {
        if self.passing.len() >= self.passing_most {
            self.passing.retain(|_, frame| frame.strong_count() > 0);
            self.passing_most = PASSING_LEAST.max(2 * self.passing.len());
        }
        self.passing.insert(frame.key(), Arc::downgrade(frame));
    }

    /// Takes a frame out of the table if it is still there.
    pub(crate) fn forget(&mut self, frame: &Arc<Frame>) {
        if self.table.get(frame.key()).is_some_and(|kept| Arc::ptr_eq(kept, frame)) {
            self.remove(frame.key());
        }
    }

    /// Takes a page out of the table; its memory is free when its last owner is gone. Returns how many bytes it had.
    fn remove(&mut self, key: PageKey) -> u64 {
        let Some(frame) = self.table.remove(key) else { return 0 };
        self.policy.remove(key);
        if let Some(list) = self.list_mut(frame.list()) {
            list.page_count -= 1;
            list.held_bytes -= frame.held_bytes();
        }
        let excess_bytes = self.notes.size_bytes().saturating_sub(self.notes_needed_bytes());
        if excess_bytes > 0 {
            self.notes.shrink(excess_bytes);
        }
        frame.held_bytes()
    }

    /// Notes that the arena has not reserved for.
    fn notes_needed_bytes(&self) -> u64 {
        (self.table.page_count() * NOTE_BYTES).saturating_sub(self.arena.notes_bytes())
    }

    /// Reserves for the notes; where nothing is free, after it has given up a chunk, which is room for those of thousands
    /// of pages. Where somebody else is given that, or all pages are in use, the last few notes go uncounted until the
    /// next ones come.
    fn make_room_for_notes(&mut self) {
        let missing_bytes = self.notes_needed_bytes().saturating_sub(self.notes.size_bytes());
        if missing_bytes > 0 && self.notes.try_grow(missing_bytes).is_err() && self.release(missing_bytes) > 0 {
            let missing_bytes = self.notes_needed_bytes().saturating_sub(self.notes.size_bytes());
            let _ = self.notes.try_grow(missing_bytes);
        }
    }

    /// The page that the policy would give up next, of those that nobody has and whose frames `can_go` allows.
    fn victim(
        &mut self,
        incoming: Option<ListKey>,
        can_go: impl Fn(&FrameTable, &Arena, PageKey) -> bool,
    ) -> Option<PageKey> {
        let Self { policy, table, arena, .. } = self;
        let mut is_allowed = |key| table.is_unused(key) && can_go(table, arena, key);
        // Asked again: what a policy names without having asked may have to stay.
        policy.victim(incoming, &mut is_allowed).filter(|&key| is_allowed(key))
    }

    /// Gives up all pages in the chunks that a page lies in, if nobody has them. Returns how many bytes they had.
    fn empty_around(&mut self, key: PageKey) -> u64 {
        self.table.part_of(key).map_or(0, |frame| self.empty(&self.arena.around(&frame)))
    }

    fn empty(&mut self, part: &Range<u64>) -> u64 {
        let mut removed_bytes = 0;
        for key in self.table.keys_in(part) {
            if self.table.is_unused(key) {
                removed_bytes += self.remove(key);
            }
        }
        removed_bytes
    }

    /// Gives `bytes` of reserved memory back, or what there is to give: first what lies in chunks with little in them,
    /// then the chunks of the pages that the policy names. Returns how many bytes were given.
    pub(crate) fn release(&mut self, bytes: u64) -> u64 {
        let before_bytes = self.arena.reserved_bytes();
        let still_wanted = |arena: &Arena| bytes.saturating_sub(before_bytes.saturating_sub(arena.reserved_bytes()));
        self.arena.give_back(bytes);
        for chunk in if still_wanted(&self.arena) > 0 { self.arena.sparse_chunks() } else { Vec::new() } {
            let wanted_bytes = still_wanted(&self.arena);
            if wanted_bytes == 0 {
                break;
            }
            if can_be_emptied(&self.table, &self.arena, &chunk) {
                self.empty(&chunk);
                self.arena.give_back(wanted_bytes);
            }
        }
        while still_wanted(&self.arena) > 0 {
            let victim = self.victim(None, |table, arena, key| {
                table.part_of(key).is_some_and(|frame| can_be_emptied(table, arena, &arena.around(&frame)))
            });
            let Some(victim) = victim else { break };
            self.empty_around(victim);
            self.arena.give_back(still_wanted(&self.arena));
        }
        before_bytes.saturating_sub(self.arena.reserved_bytes())
    }

    /// Takes out every page that nobody has.
    pub(crate) fn clear(&mut self) {
        self.empty(&(0..u64::MAX));
        self.arena.give_back(u64::MAX);
    }

    /// Lets another policy decide from now on. It learns of the pages in the order in which they lie in memory.
    pub(crate) fn set_policy(&mut self, mut policy: Box<dyn PagePolicy>) {
        policy.set_quotas(&self.quotas);
        for frame in self.table.in_order() {
            policy.admit(frame.key(), frame.list(), frame.held_bytes(), frame.rows());
        }
        self.policy = policy;
        if !self.policy.keeps_unpinned() {
            self.clear();
            let in_use: Vec<Arc<Frame>> = self.table.in_order().cloned().collect();
            for frame in in_use {
                self.remove(frame.key());
                self.let_pass(&frame);
            }
        }
    }

    /// What quotas can claim of so many bytes.
    pub(crate) fn keepable_bytes(&self, capacity_bytes: u64) -> u64 {
        self.policy.keepable_bytes(capacity_bytes)
    }

    pub(crate) fn set_quotas(&mut self, quotas: &[(ListKey, u64)]) {
        quotas.clone_into(&mut self.quotas);
        self.policy.set_quotas(quotas);
    }

    /// One for each list, by its number.
    pub(crate) fn snapshot(&self) -> Vec<ListSnapshot> {
        let mut lists = self.lists.clone();
        for held in self.policy.held() {
            if let Some(list) = lists.get_mut(held.list.0 as usize) {
                list.quota_bytes = held.quota_bytes;
                list.free_list_bytes = held.free_list_bytes;
            }
        }
        lists
    }

    /// Bytes reserved for notes beyond the arena's.
    pub(crate) fn notes_reserved_bytes(&self) -> u64 {
        self.notes.size_bytes()
    }

    /// How many pages are in the table.
    pub(crate) fn page_count(&self) -> u64 {
        self.table.page_count()
    }
}

/// Whether these chunks would be empty without the pages that nobody has. Frames of which the table knows nothing any
/// more may lie there too.
fn can_be_emptied(table: &FrameTable, arena: &Arena, chunks: &Range<u64>) -> bool {
    table.unused_bytes(chunks).is_some_and(|bytes| bytes == arena.used_bytes(chunks))
}

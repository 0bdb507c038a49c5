//! What other amounts of memory would do for the pipelines that ran lately.

use thermocline_placement::page_cache::programmes::{ProgrammeError, in_memory_s, least_memory, least_time};

use crate::Tuner;

/// The slow-downs that are asked about, as parts of the time with all pages in memory, until one needs no memory.
const SLOW_DOWNS: [f64; 9] = [0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0];

/// How long the pipelines remembered take with so much memory for pages.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryNeed {
    /// For pages.
    pub memory_bytes: u64,
    /// All of them together, in seconds.
    pub predicted_s: f64,
    /// That beside the time with all pages in memory: 0.1 is a tenth longer.
    pub slow_down: f64,
    /// Whether it is the memory that there is, and not the least for a slow-down.
    pub is_current: bool,
}

impl Tuner {
    /// The memory that there is, and the least for some slow-downs from none to that without memory; the most memory
    /// first. Empty before any pipeline has run. (HPCache §4.2, second programme.)
    ///
    /// Costs several programmes: for who asks, not for every query.
    ///
    /// # Errors
    /// If the solver fails.
    pub fn memory_needs(&self) -> Result<Vec<MemoryNeed>, ProgrammeError> {
        let known = self.known();
        let workload = known.workload();
        let all_in_memory_s = in_memory_s(workload);
        if all_in_memory_s <= 0.0 {
            return Ok(Vec::new());
        }
        let need = |memory_bytes, predicted_s: f64, is_current| {
            let slow_down = (predicted_s / all_in_memory_s - 1.0).max(0.0);
            MemoryNeed { memory_bytes, predicted_s, slow_down, is_current }
        };
        let memory_bytes = self.pool().keepable_bytes();
        let mut needs = vec![need(memory_bytes, least_time(workload, memory_bytes)?.predicted_s, true)];
        for slow_down in SLOW_DOWNS {
            let placement = least_memory(workload, slow_down)?;
            needs.push(need(placement.size_bytes(), placement.predicted_s, false));
            if placement.size_bytes() == 0 {
                break;
            }
        }
        needs.sort_by_key(|need| std::cmp::Reverse(need.memory_bytes));
        Ok(needs)
    }
}

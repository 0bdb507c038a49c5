//! Everything that is known about this machine without measuring.

use std::path::Path;

use crate::cache_level::{CacheKind, CacheLevel, read_caches};
use crate::{control_group, processor};

/// Memory assumed where the platform does not tell: small enough to be safe on any machine that runs this.
const FALLBACK_RAM_BYTES: u64 = 4 << 30;

/// What this machine is. Cheap to detect (some small reads of `/proc` and `/sys`), never fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Processor model as the kernel prints it, `unknown` where it does not.
    pub cpu_model: String,
    /// Processors this process may run on (affinity and quota included); at least 1.
    pub logical_cores: usize,
    /// Vector instruction sets usable here, widest last.
    pub simd: Vec<&'static str>,
    /// Caches seen by the first processor, nearest first; empty where unknown.
    pub caches: Vec<CacheLevel>,
    /// Physical memory; 4 GiB is assumed where unknown.
    pub ram_bytes: u64,
    /// Least memory limit over this process's control group and its ancestors, `None` when there is none.
    pub control_group_limit_bytes: Option<u64>,
    /// Size of a virtual memory page.
    pub page_bytes: u64,
}

impl Machine {
    /// Reads what the platform tells.
    pub fn detect() -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let page_bytes = system_figure(libc::_SC_PAGESIZE).unwrap_or(4096);
        let physical_pages = system_figure(libc::_SC_PHYS_PAGES);
        Self {
            cpu_model: processor::parse_model(&cpuinfo).unwrap_or_else(|| "unknown".to_owned()),
            logical_cores: std::thread::available_parallelism().map_or(1, usize::from),
            simd: processor::instruction_sets(),
            caches: read_caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            ram_bytes: physical_pages.and_then(|pages| pages.checked_mul(page_bytes)).unwrap_or(FALLBACK_RAM_BYTES),
            control_group_limit_bytes: control_group::limit_bytes(),
            page_bytes,
        }
    }

    /// Memory this process can really have: the smaller of RAM and the control group's limit.
    pub fn usable_memory_bytes(&self) -> u64 {
        self.control_group_limit_bytes.map_or(self.ram_bytes, |limit_bytes| limit_bytes.min(self.ram_bytes))
    }

    /// The memory budget when the user sets none: half of [`usable_memory_bytes`](Self::usable_memory_bytes).
    pub fn default_memory_budget_bytes(&self) -> u64 {
        self.usable_memory_bytes() / 2
    }

    /// The cache for data at `level`, if known.
    pub fn data_cache(&self, level: u32) -> Option<&CacheLevel> {
        self.caches.iter().find(|cache| cache.level == level && cache.kind != CacheKind::Instruction)
    }
}

/// A positive figure of `sysconf`.
#[allow(unsafe_code)]
fn system_figure(name: libc::c_int) -> Option<u64> {
    // SAFETY: sysconf takes no pointers and only reads; an unknown name yields -1.
    let figure = unsafe { libc::sysconf(name) };
    u64::try_from(figure).ok().filter(|&figure| figure > 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn machine(ram_bytes: u64, control_group_limit_bytes: Option<u64>) -> Machine {
        Machine {
            cpu_model: "test".to_owned(),
            logical_cores: 1,
            simd: Vec::new(),
            caches: Vec::new(),
            ram_bytes,
            control_group_limit_bytes,
            page_bytes: 4096,
        }
    }

    #[test]
    fn the_default_budget_is_half_of_the_smaller_of_ram_and_limit() {
        assert_eq!(machine(100, None).default_memory_budget_bytes(), 50);
        assert_eq!(machine(100, Some(30)).default_memory_budget_bytes(), 15);
        assert_eq!(machine(100, Some(300)).default_memory_budget_bytes(), 50);
    }

    #[test]
    fn detection_finds_this_machine() {
        let machine = Machine::detect();
        assert!(machine.logical_cores >= 1);
        assert!(machine.ram_bytes > 64 << 20);
        assert!(machine.page_bytes.is_power_of_two());
        assert!(machine.default_memory_budget_bytes() <= machine.ram_bytes / 2);
    }

    #[test]
    fn the_data_cache_of_a_level_is_never_the_instruction_cache() {
        let mut machine = machine(1, None);
        let cache = |level, kind| CacheLevel { level, kind, size_bytes: 1, line_bytes: 64, shared_by_cpus: 1 };
        machine.caches =
            vec![cache(1, CacheKind::Instruction), cache(1, CacheKind::Data), cache(2, CacheKind::Unified)];
        assert_eq!(machine.data_cache(1).unwrap().kind, CacheKind::Data);
        assert_eq!(machine.data_cache(2).unwrap().kind, CacheKind::Unified);
        assert!(machine.data_cache(3).is_none());
    }
}

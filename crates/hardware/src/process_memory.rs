//! The process's resident memory by kind, from `/proc/self/status`.

/// Resident memory of this process. All zero where the platform does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Private anonymous pages: the heap and the stacks.
    pub rss_anon_bytes: u64,
    /// Shared memory (tmpfs, shared anonymous mappings).
    pub rss_shmem_bytes: u64,
    /// Pages of mapped files; clean ones can be dropped by the kernel at any time.
    pub rss_file_bytes: u64,
}

impl ProcessMemory {
    /// What the budget promises to bound: anonymous plus shared memory.
    pub fn private_bytes(&self) -> u64 {
        self.rss_anon_bytes + self.rss_shmem_bytes
    }
}

/// Reads this process's memory now: one small file, about 20 µs.
pub fn process_memory() -> ProcessMemory {
    std::fs::read_to_string("/proc/self/status").map_or_else(|_| ProcessMemory::default(), |text| parse_status(&text))
}

fn parse_status(text: &str) -> ProcessMemory {
    let field_bytes = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
            .map_or(0, |kib| kib.saturating_mul(1024))
    };
    ProcessMemory {
        rss_anon_bytes: field_bytes("RssAnon"),
        rss_shmem_bytes: field_bytes("RssShmem"),
        rss_file_bytes: field_bytes("RssFile"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_are_read_in_kibibytes() {
        let text = "Name:\tx\nVmRSS:\t  100 kB\nRssAnon:\t   40 kB\nRssFile:\t   50 kB\nRssShmem:\t   10 kB\n";
        let memory = parse_status(text);
        assert_eq!(
            memory,
            ProcessMemory { rss_anon_bytes: 40 << 10, rss_shmem_bytes: 10 << 10, rss_file_bytes: 50 << 10 }
        );
        assert_eq!(memory.private_bytes(), 50 << 10);
    }

    #[test]
    fn what_is_missing_or_damaged_is_zero() {
        assert_eq!(parse_status(""), ProcessMemory::default());
        assert_eq!(parse_status("RssAnon: many kB\nRssFile: 3\n"), ProcessMemory::default());
    }
}

//! The processor's caches, from `/sys/devices/system/cpu/cpu0/cache/index*`.

use std::path::Path;

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

impl CacheKind {
    /// The name shown to users: `data`, `instruction` or `unified`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Instruction => "instruction",
            Self::Unified => "unified",
        }
    }
}

/// One cache as the first processor sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheLevel {
    /// 1 is the nearest to the core.
    pub level: u32,
    /// What it holds.
    pub kind: CacheKind,
    /// Capacity of one instance of this cache.
    pub size_bytes: u64,
    /// Bytes moved at a time; 64 where unknown.
    pub line_bytes: u32,
    /// Logical processors that share one instance; at least 1.
    pub shared_by_cpus: u32,
}

/// The texts of one `index*` folder.
#[derive(Debug, Default, Clone, Copy)]
struct CacheTexts<'a> {
    level: &'a str,
    kind: &'a str,
    size: &'a str,
    line: &'a str,
    shared_cpu_list: &'a str,
}

/// Reads all caches below `folder`, nearest first; empty where the kernel does not tell.
pub(crate) fn read_caches(folder: &Path) -> Vec<CacheLevel> {
    let mut caches = Vec::new();
    // Real machines have 3 to 6; the bound only keeps a strange mount from looping.
    for index in 0..64 {
        let index_folder = folder.join(format!("index{index}"));
        let read = |name: &str| std::fs::read_to_string(index_folder.join(name)).unwrap_or_default();
        let (level, kind, size) = (read("level"), read("type"), read("size"));
        if level.is_empty() {
            break;
        }
        let (line, shared_cpu_list) = (read("coherency_line_size"), read("shared_cpu_list"));
        caches.extend(parse_cache(CacheTexts {
            level: &level,
            kind: &kind,
            size: &size,
            line: &line,
            shared_cpu_list: &shared_cpu_list,
        }));
    }
    caches.sort_by_key(|cache: &CacheLevel| cache.level);
    caches
}

fn parse_cache(texts: CacheTexts<'_>) -> Option<CacheLevel> {
    Some(CacheLevel {
        level: texts.level.trim().parse().ok()?,
        kind: match texts.kind.trim() {
            "Data" => CacheKind::Data,
            "Instruction" => CacheKind::Instruction,
            "Unified" => CacheKind::Unified,
            _ => return None,
        },
        size_bytes: parse_size(texts.size.trim())?,
        line_bytes: texts.line.trim().parse().ok().filter(|&bytes| bytes > 0).unwrap_or(64),
        shared_by_cpus: count_cpu_list(texts.shared_cpu_list).max(1),
    })
}

/// `48K`, `2M`, `1G` or plain bytes, as the kernel prints sizes.
fn parse_size(text: &str) -> Option<u64> {
    let (digits, unit_bytes) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit_bytes)
}

/// How many processors a list such as `0-3,8,10-11` names; 0 for an empty or damaged one.
fn count_cpu_list(text: &str) -> u32 {
    text.trim()
        .split(',')
        .filter_map(|part| match part.split_once('-') {
            Some((low, high)) => {
                let (low, high) = (low.parse::<u32>().ok()?, high.parse::<u32>().ok()?);
                high.checked_sub(low)?.checked_add(1)
            }
            None => part.parse::<u32>().ok().map(|_| 1),
        })
        .fold(0, u32::saturating_add)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_cache_is_read_with_its_size_line_and_sharers() {
        let texts =
            CacheTexts { level: "2\n", kind: "Unified\n", size: "2048K\n", line: "64\n", shared_cpu_list: "0,64\n" };
        assert_eq!(
            parse_cache(texts).unwrap(),
            CacheLevel { level: 2, kind: CacheKind::Unified, size_bytes: 2 << 20, line_bytes: 64, shared_by_cpus: 2 }
        );
        let unknown = CacheTexts { line: "", shared_cpu_list: "", ..texts };
        let cache = parse_cache(unknown).unwrap();
        assert_eq!((cache.line_bytes, cache.shared_by_cpus), (64, 1));
    }

    #[test]
    fn a_damaged_cache_is_left_out() {
        let good = CacheTexts { level: "1", kind: "Data", size: "48K", line: "64", shared_cpu_list: "0" };
        assert!(parse_cache(good).is_some());
        assert!(parse_cache(CacheTexts { kind: "Trace", ..good }).is_none());
        assert!(parse_cache(CacheTexts { size: "", ..good }).is_none());
        assert!(parse_cache(CacheTexts { size: "99999999999999999999K", ..good }).is_none());
        assert!(parse_cache(CacheTexts { level: "one", ..good }).is_none());
    }

    #[test]
    fn sizes_bear_the_kernels_units() {
        assert_eq!(parse_size("48K"), Some(48 << 10));
        assert_eq!(parse_size("32M"), Some(32 << 20));
        assert_eq!(parse_size("1G"), Some(1 << 30));
        assert_eq!(parse_size("512"), Some(512));
        assert_eq!(parse_size("K"), None);
    }

    #[test]
    fn processor_lists_are_counted_over_ranges() {
        assert_eq!(count_cpu_list("0-3,8,10-11\n"), 7);
        assert_eq!(count_cpu_list("5"), 1);
        assert_eq!(count_cpu_list(""), 0);
        assert_eq!(count_cpu_list("3-1,x"), 0);
    }

    #[test]
    fn caches_are_read_from_a_folder_nearest_first() {
        let root = std::env::temp_dir().join(format!("thermocline-caches-{}", std::process::id()));
        for (index, level, kind, size) in [(0, "3", "Unified", "32M"), (1, "1", "Data", "48K")] {
            let folder = root.join(format!("index{index}"));
            std::fs::create_dir_all(&folder).unwrap();
            for (name, text) in [("level", level), ("type", kind), ("size", size)] {
                std::fs::write(folder.join(name), text).unwrap();
            }
        }
        let levels: Vec<u32> = read_caches(&root).iter().map(|cache| cache.level).collect();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(levels, [1, 3]);
        assert!(read_caches(&root).is_empty());
    }
}

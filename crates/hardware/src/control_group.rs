//! The memory limit of the control group this process runs in, versions 1 and 2.
//!
//! A limit binds every group below it, so the effective limit is the least over the process's group and its ancestors
//! up to the mount point. In a container, the kernel shows either the host's path with only the container's own part of
//! the tree mounted, or `/` by a namespace: when the named group is not below the mount, the mount's root is the group.

use std::path::{Path, PathBuf};

/// Limits at or above this are the kernel's way of saying none: version 1 prints `i64::MAX` rounded down to a page.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// One mounted hierarchy that can limit memory, and this process's group in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hierarchy {
    mount_point: PathBuf,
    /// Path of the group relative to the mount point; empty for the mount's root.
    group: PathBuf,
    limit_files: &'static [&'static str],
}

/// The least limit over this process's groups, `None` when there is none or the platform has no control groups.
pub(crate) fn limit_bytes() -> Option<u64> {
    let memberships = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    least_limit(&memberships, &mounts, &|path| std::fs::read_to_string(path).ok())
}

/// `memberships` is the text of `/proc/self/cgroup`, `mounts` that of `/proc/self/mountinfo`; `read` reads a file.
fn least_limit(memberships: &str, mounts: &str, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    hierarchies(memberships, mounts)
        .into_iter()
        .flat_map(|hierarchy| {
            hierarchy
                .group
                .ancestors()
                .flat_map(|group| {
                    let group = hierarchy.mount_point.join(group);
                    hierarchy.limit_files.iter().map(move |file| group.join(file))
                })
                .collect::<Vec<_>>()
        })
        .filter_map(|file| parse_limit(&read(&file)?))
        .min()
}

/// `max` and the kernel's sentinel for "no limit" are `None`, as is anything that is not a number.
fn parse_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|&bytes| bytes < UNLIMITED_BYTES)
}

fn hierarchies(memberships: &str, mounts: &str) -> Vec<Hierarchy> {
    mounts
        .lines()
        .filter_map(|line| {
            let mount = parse_mount(line)?;
            let group = match mount.version {
                1 => group_of(memberships, |controllers| controllers.split(',').any(|name| name == "memory"))?,
                _ => group_of(memberships, str::is_empty)?,
            };
            // The mount shows the tree from `root` down: the group's path is relative to that.
            let group = Path::new(&group).strip_prefix(&mount.root).map_or_else(|_| PathBuf::new(), Path::to_path_buf);
            // Above memory.high the kernel slows the group down until it hardly moves.
            let limit_files: &[_] =
                if mount.version == 1 { &["memory.limit_in_bytes"] } else { &["memory.max", "memory.high"] };
            Some(Hierarchy { mount_point: mount.mount_point, group, limit_files })
        })
        .collect()
}

/// The path in the line of `/proc/self/cgroup` (`id:controllers:path`) whose controllers are `wanted`.
fn group_of(memberships: &str, wanted: impl Fn(&str) -> bool) -> Option<String> {
    memberships.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        wanted(controllers).then(|| path.to_owned())
    })
}

struct Mount {
    root: PathBuf,
    mount_point: PathBuf,
    version: u8,
}

/// A line of `/proc/self/mountinfo`: `id parent dev root mount_point options [tags…] - type source super_options`.
fn parse_mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    let version = match after.next()? {
        "cgroup2" => 2,
        "cgroup" if after.nth(1)?.split(',').any(|option| option == "memory") => 1,
        _ => return None,
    };
    let mut before = before.split(' ').skip(3);
    let (root, mount_point) = (unescape(before.next()?), unescape(before.next()?));
    Some(Mount { root: root.into(), mount_point: mount_point.into(), version })
}

/// The kernel writes blanks and backslashes in paths as `\040`, `\011`, `\012` and `\134`.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2_MOUNT: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1_MOUNTS: &str = "25 30 0:22 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
        31 25 0:27 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        34 25 0:30 / /sys/fs/cgroup/memory rw shared:12 - cgroup cgroup rw,memory\n";

    fn limit(memberships: &str, mounts: &str, files: &[(&str, &str)]) -> Option<u64> {
        least_limit(memberships, mounts, &|path| {
            files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn version_two_takes_the_least_limit_of_the_group_and_its_ancestors() {
        let files = [
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/memory.max", "1073741824\n"),
            ("/sys/fs/cgroup/memory.max", "4294967296\n"),
        ];
        assert_eq!(limit("0::/a/b\n", V2_MOUNT, &files), Some(1 << 30));
        let inner = [("/sys/fs/cgroup/a/b/memory.max", "4096\n"), files[1]];
        assert_eq!(limit("0::/a/b\n", V2_MOUNT, &inner), Some(4096));
        let slowed = [files[1], ("/sys/fs/cgroup/a/memory.high", "536870912\n")];
        assert_eq!(limit("0::/a/b\n", V2_MOUNT, &slowed), Some(512 << 20));
    }

    #[test]
    fn max_everywhere_is_no_limit() {
        let files = [("/sys/fs/cgroup/a/memory.max", "max\n"), ("/sys/fs/cgroup/memory.max", "max")];
        assert_eq!(limit("0::/a\n", V2_MOUNT, &files), None);
    }

    #[test]
    fn version_one_reads_the_memory_hierarchy_and_knows_its_sentinel() {
        let memberships = "12:cpu,cpuacct:/other\n9:memory:/docker/abc\n";
        let files = [
            ("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "536870912\n"),
            ("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/cpu/other/memory.limit_in_bytes", "1\n"),
        ];
        assert_eq!(limit(memberships, V1_MOUNTS, &files), Some(512 << 20));
        assert_eq!(limit(memberships, V1_MOUNTS, &files[1..3]), None);
    }

    #[test]
    fn in_a_container_the_mounts_root_is_the_group() {
        let mount = "34 25 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let files = [("/sys/fs/cgroup/memory/memory.limit_in_bytes", "100\n")];
        assert_eq!(limit("9:memory:/docker/abc\n", mount, &files), Some(100));
        assert_eq!(limit("9:memory:/elsewhere\n", mount, &files), Some(100));
        let nested = [files[0], ("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "50\n")];
        assert_eq!(limit("9:memory:/docker/abc/job\n", mount, &nested), Some(50));
    }

    #[test]
    fn a_machine_with_both_versions_takes_the_lesser_limit() {
        let mounts = format!("{V1_MOUNTS}40 25 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
        let files = [
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "200\n"),
            ("/sys/fs/cgroup/unified/x/memory.max", "150\n"),
        ];
        assert_eq!(limit("9:memory:/\n0::/x\n", &mounts, &files), Some(150));
    }

    #[test]
    fn missing_files_and_damaged_texts_are_no_limit() {
        assert_eq!(limit("", "", &[]), None);
        assert_eq!(limit("0::/a\n", V2_MOUNT, &[]), None);
        assert_eq!(limit("0::/a\n", "nonsense - cgroup2\n- -\n", &[]), None);
        assert_eq!(limit("0:\n::\n", V2_MOUNT, &[("/sys/fs/cgroup/memory.max", "-1")]), None);
    }

    #[test]
    fn blanks_in_mount_points_are_unescaped() {
        let mount = "30 23 0:26 / /my\\040groups rw - cgroup2 cgroup2 rw\n";
        assert_eq!(limit("0::/\n", mount, &[("/my groups/memory.max", "7\n")]), Some(7));
    }
}

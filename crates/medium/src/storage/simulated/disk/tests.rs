#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

/// All contents of the file under a name that crashes leave; None where there is no such name.
fn contents(disk: &Disk, name: &str, torn_bytes: usize) -> BTreeSet<Option<Vec<u8>>> {
    (0..2000)
        .map(|seed| {
            let crashed = disk.after_crash(seed, torn_bytes);
            crashed.find(name).map(|file| crashed.content(file).to_vec())
        })
        .collect()
}

fn disk_with(name: &str, content: &[u8]) -> (Disk, FileId) {
    let mut disk = Disk::default();
    let file = disk.create(name);
    disk.write(file, 0, content);
    disk.sync(file);
    disk.sync_names();
    (disk, file)
}

#[test]
fn any_subset_of_the_parts_of_writes_is_kept_and_nothing_else() {
    let (mut disk, file) = disk_with("f", b"aaaabbbbcccc");
    // Parts end at multiples of four in the file: 2..4, 4..8, 8..10; then a second write over the middle one.
    disk.write(file, 2, b"12345678");
    disk.write(file, 4, b"XXXX");
    let mut expected = BTreeSet::new();
    for subset in 0..16_u32 {
        let mut content = b"aaaabbbbcccc".to_vec();
        for (bit, (at, part)) in
            [(2, &b"12"[..]), (4, &b"3456"[..]), (8, &b"78"[..]), (4, &b"XXXX"[..])].into_iter().enumerate()
        {
            if subset & (1 << bit) != 0 {
                content[at..at + part.len()].copy_from_slice(part);
            }
        }
        expected.insert(Some(content));
    }
    assert_eq!(contents(&disk, "f", 4), expected);
}

#[test]
fn what_is_synced_survives_every_crash() {
    let (mut disk, file) = disk_with("f", b"old old old");
    disk.write(file, 0, b"new");
    disk.sync(file);
    assert_eq!(contents(&disk, "f", 1), BTreeSet::from([Some(b"new old old".to_vec())]));
}

#[test]
fn a_file_may_have_its_new_length_and_not_its_bytes() {
    let (mut disk, file) = disk_with("f", b"");
    disk.write(file, 0, &[7; 8]);
    let seen = contents(&disk, "f", 4);
    for expected in [vec![], vec![7; 8], vec![7; 4], vec![0; 8], vec![0, 0, 0, 0, 7, 7, 7, 7]] {
        assert!(seen.contains(&Some(expected.clone())), "{expected:?} in {seen:?}");
    }
    let has_noise = |content: &Vec<u8>| content.len() == 8 && content.iter().any(|&byte| byte != 0 && byte != 7);
    assert!(seen.iter().flatten().any(has_noise), "{seen:?}");
    assert!(seen.iter().flatten().all(|content| content.len() <= 8));
}

#[test]
fn names_change_in_any_combination_but_each_name_in_order() {
    let (mut disk, a) = disk_with("a", b"");
    disk.create("b");
    disk.rename(a, "a", "c");
    disk.remove("b");
    disk.rename(a, "c", "d");
    let seen: BTreeSet<Vec<String>> = (0..2000).map(|seed| disk.after_crash(seed, 512).names()).collect();
    let expected = [&["a"][..], &["a", "b"], &["c"], &["b", "c"], &["d"], &["b", "d"]];
    assert_eq!(seen, expected.map(|names| names.iter().map(|&name| name.to_owned()).collect()).into());
}

#[test]
fn a_rename_replaces_whole_or_not_at_all() {
    let (mut disk, _) = disk_with("manifest", b"old");
    let new = disk.create("manifest.new");
    disk.write(new, 0, b"new");
    disk.sync(new);
    disk.rename(new, "manifest.new", "manifest");
    let expected = [b"old", b"new"].map(|content| Some(content.to_vec()));
    assert_eq!(contents(&disk, "manifest", 1), expected.into());
    disk.sync_names();
    assert_eq!(contents(&disk, "manifest", 1), BTreeSet::from([Some(b"new".to_vec())]));
}

#[test]
fn a_failed_sync_leaves_its_writes_in_doubt_for_good() {
    let (mut disk, file) = disk_with("f", b"....");
    disk.write(file, 0, b"A");
    disk.fail_sync(file);
    disk.write(file, 1, b"B");
    disk.sync(file);
    let expected = [b".B..", b"AB.."].map(|content| Some(content.to_vec()));
    assert_eq!(contents(&disk, "f", 1), expected.into());
    // What is written over it and synced is safe.
    disk.write(file, 0, b"C");
    disk.sync(file);
    assert_eq!(contents(&disk, "f", 1), BTreeSet::from([Some(b"CB..".to_vec())]));
}

#[test]
fn the_same_seed_gives_the_same_image() {
    let (mut disk, file) = disk_with("f", &[0; 4096]);
    for index in 0..50 {
        disk.write(file, index * 100, &[index as u8; 300]);
    }
    for seed in 0..50 {
        let image = || disk.after_crash(seed, 8).content(file).to_vec();
        assert!(image() == image(), "seed {seed}");
    }
}

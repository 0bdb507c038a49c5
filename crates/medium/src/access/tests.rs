#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

struct Tree {
    root: tempfile::TempDir,
}

impl Tree {
    /// `allowed/in.csv`, `allowed/deep/`, `allowedness/x.csv`, `secret/out.csv`.
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["allowed/deep", "allowedness", "secret"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        for file in ["allowed/in.csv", "allowedness/x.csv", "secret/out.csv"] {
            fs::write(root.path().join(file), b"x").unwrap();
        }
        Self { root }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    fn access(&self) -> Access {
        Access::within([self.path("allowed").to_str().unwrap()]).unwrap()
    }

    fn is_allowed(&self, below: &str) -> bool {
        match self.access().check(&self.path(below)) {
            Ok(()) => true,
            Err(MediumError::NotAllowed { .. }) => false,
            Err(other) => panic!("{below}: {other}"),
        }
    }
}

#[test]
fn without_a_restriction_everything_may_be_read() {
    assert!(Access::everything().check(Path::new("/etc/passwd")).is_ok());
    assert!(Access::default().check_url("s3://any/thing").is_ok());
    assert!(!Access::default().is_restricted());
}

#[test]
fn only_what_lies_below_an_allowed_directory_may_be_read() {
    let tree = Tree::new();
    assert!(tree.is_allowed("allowed"));
    assert!(tree.is_allowed("allowed/in.csv"));
    assert!(tree.is_allowed("allowed/deep/../in.csv"));
    assert!(!tree.is_allowed("secret/out.csv"));
    assert!(!tree.is_allowed("allowedness/x.csv"), "a name that only begins alike");
    assert!(!tree.is_allowed(""));
    assert!(Access::within([] as [&str; 0]).unwrap().check(&tree.path("allowed")).is_err(), "nothing is allowed");
}

#[test]
fn parent_folders_do_not_lead_out() {
    let tree = Tree::new();
    assert!(!tree.is_allowed("allowed/../secret/out.csv"));
    assert!(!tree.is_allowed("allowed/deep/../../secret/out.csv"));
    assert!(!tree.is_allowed("allowed/missing/../../secret/out.csv"), "a way over a missing folder");
}

#[test]
fn links_are_judged_by_where_they_lead() {
    let tree = Tree::new();
    symlink(tree.path("secret"), tree.path("allowed/way")).unwrap();
    symlink(tree.path("secret/out.csv"), tree.path("allowed/out.csv")).unwrap();
    symlink(tree.path("allowed/in.csv"), tree.path("secret/in.csv")).unwrap();
    symlink(tree.path("secret/nothing"), tree.path("allowed/dangling")).unwrap();
    symlink(tree.path("allowed/circle"), tree.path("allowed/circle")).unwrap();
    assert!(!tree.is_allowed("allowed/way/out.csv"));
    assert!(!tree.is_allowed("allowed/out.csv"));
    assert!(!tree.is_allowed("allowed/dangling"), "what it will lead to is outside");
    assert!(!tree.is_allowed("allowed/circle"));
    assert!(tree.is_allowed("secret/in.csv"), "it leads inside");
}

#[test]
fn an_allowed_directory_may_itself_be_a_link() {
    let tree = Tree::new();
    symlink(tree.path("allowed"), tree.path("alias")).unwrap();
    let access = Access::within([tree.path("alias").to_str().unwrap()]).unwrap();
    assert!(access.check(&tree.path("allowed/in.csv")).is_ok());
    assert!(access.check(&tree.path("alias/in.csv")).is_ok());
}

#[test]
fn what_is_missing_is_judged_by_its_folder_and_not_revealed_outside() {
    let tree = Tree::new();
    assert!(tree.is_allowed("allowed/new/file.csv"));
    let message = |below: &str| tree.access().check(&tree.path(below)).unwrap_err().to_string();
    let (missing, present) = (message("secret/nothing.csv"), message("secret/out.csv"));
    assert_eq!(missing.replace("nothing.csv", "out.csv"), present);
    assert!(present.contains("allowed_directories") && present.contains("/allowed "), "{present}");
}

#[test]
fn urls_are_allowed_by_whole_names() {
    let access = Access::within(["s3://bucket/a", "https://host/data/"]).unwrap();
    for (url, allowed) in [
        ("s3://bucket/a", true),
        ("s3://bucket/a/b.csv", true),
        ("s3://bucket/ab.csv", false),
        ("s3://bucket2/a/b.csv", false),
        ("s3://bucket/a/../b.csv", false),
        ("s3://bucket/a/./b.csv", false),
        ("https://host/data/x.csv", true),
        ("https://host/data2/x.csv", false),
        ("https://host/", false),
    ] {
        assert_eq!(access.check_url(url).is_ok(), allowed, "{url}");
    }
    assert!(access.check(Path::new("/etc/passwd")).is_err());
}

#[test]
fn folders_over_http_are_understood_as_files_there_are() {
    for (prefix, url) in [
        ("https://host/a%20b/", "https://host/a%20b/x.csv"),
        ("HTTPS://host/a/", "https://host/a/x.csv"),
        ("https://host/a", "HTTPS://host/a/x.csv"),
        ("https://host", "https://host/x.csv"),
    ] {
        let access = Access::within([prefix]).unwrap();
        let Location::Remote(pattern) = Location::parse(url).unwrap() else { panic!("{url} is local") };
        let check = |key: &str| access.check_url(&join_url(pattern.store_url(), key));
        assert!(check(pattern.key()).is_ok(), "{prefix} allows {url}");
        assert!(
            Access::within(["https://other/"]).unwrap().check_url(&join_url("https://host", pattern.key())).is_err()
        );
    }
    for bad in ["https://host/a?x=1", "https://host/a%2", "s3:///a", "file://host/a"] {
        let error = Access::within([bad]).unwrap_err();
        assert!(matches!(error, MediumError::InvalidLocation { .. }), "{bad}: {error}");
    }
}

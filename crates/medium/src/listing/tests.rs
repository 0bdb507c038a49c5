#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

struct Tree {
    root: tempfile::TempDir,
}

impl Tree {
    fn new(files: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file.as_bytes()).unwrap();
        }
        Self { root }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    fn list(&self, below: &str, suffixes: Option<&[&str]>) -> Result<Vec<ListedFile>> {
        self.list_within(below, suffixes, &Access::everything())
    }

    fn list_within(&self, below: &str, suffixes: Option<&[&str]>, access: &Access) -> Result<Vec<ListedFile>> {
        let text = format!("{}/{below}", self.root.path().display());
        list_local(&Location::parse(&text).unwrap(), suffixes, access)
    }

    fn names(&self, below: &str, suffixes: Option<&[&str]>) -> Vec<String> {
        let root = format!("{}/", self.root.path().display());
        let listed = self.list(below, suffixes).unwrap();
        listed.iter().map(|file| file.path.strip_prefix(&root).unwrap().to_owned()).collect()
    }
}

const FILES: [&str; 10] = [
    "b.csv",
    "a.csv",
    "z.ndjson.gz",
    "deep/er/c.csv",
    "deep/d.CSV",
    "deep/e.json",
    ".hidden.csv",
    "_staged.csv",
    "_temporary/f.csv",
    ".git/g.csv",
];

#[test]
fn one_file_is_listed_with_its_size_and_version() {
    let tree = Tree::new(&FILES);
    let listed = tree.list("a.csv", None).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].size_bytes, 5);
    let file = crate::PinnedFile::open(&tree.path("a.csv")).unwrap();
    assert_eq!(&listed[0].version, file.version());
    assert_eq!(tree.names("_staged.csv", None), ["_staged.csv"], "named outright");
}

#[test]
fn a_folder_is_listed_recursively_in_order_without_hidden_and_staged_files() {
    let tree = Tree::new(&FILES);
    let all = ["a.csv", "b.csv", "deep/d.CSV", "deep/e.json", "deep/er/c.csv", "z.ndjson.gz"];
    assert_eq!(tree.names("", None), all);
    assert_eq!(tree.names("deep", None), ["deep/d.CSV", "deep/e.json", "deep/er/c.csv"], "without a trailing slash");
}

#[test]
fn a_folder_is_filtered_by_suffixes_doubled_ones_too() {
    let tree = Tree::new(&FILES);
    assert_eq!(tree.names("", Some(&[".csv"])), ["a.csv", "b.csv", "deep/d.CSV", "deep/er/c.csv"]);
    assert_eq!(tree.names("", Some(&[".ndjson", ".ndjson.gz", ".json"])), ["deep/e.json", "z.ndjson.gz"]);
    assert_eq!(tree.names("a.csv", Some(&[".json"])), ["a.csv"], "a file that is named is not filtered");
}

#[test]
fn globs_match_within_names_and_across_folders() {
    let tree = Tree::new(&FILES);
    assert_eq!(tree.names("*.csv", None), ["_staged.csv", "a.csv", "b.csv"]);
    assert_eq!(tree.names("[ab].csv", None), ["a.csv", "b.csv"]);
    assert_eq!(tree.names("?.c*", None), ["a.csv", "b.csv"]);
    assert_eq!(tree.names("deep/*/*.csv", None), ["deep/er/c.csv"]);
    assert_eq!(tree.names("d*/e.json", None), ["deep/e.json"]);
    let everywhere = ["_staged.csv", "_temporary/f.csv", "a.csv", "b.csv", "deep/er/c.csv"];
    assert_eq!(tree.names("**/*.csv", None), everywhere);
    assert_eq!(tree.names("**/er/*.csv", None), ["deep/er/c.csv"]);
    assert_eq!(tree.names("deep/**", None), ["deep/d.CSV", "deep/e.json", "deep/er/c.csv"]);
    assert_eq!(tree.names("**/c.csv", None), ["deep/er/c.csv"], "a literal name below any folders");
    assert_eq!(tree.names(".*.csv", None), [".hidden.csv"]);
    assert_eq!(tree.names("de*/", None), ["deep/d.CSV", "deep/e.json", "deep/er/c.csv"], "folders that match");
}

#[test]
fn no_file_is_found_twice() {
    let tree = Tree::new(&["a/b/a/b/x.csv", "a/x.csv"]);
    assert_eq!(tree.names("**/a/**/x.csv", None), ["a/b/a/b/x.csv", "a/x.csv"]);
    assert_eq!(tree.names("**/**/x.csv", None), ["a/b/a/b/x.csv", "a/x.csv"]);
}

#[test]
fn a_file_with_glob_characters_in_its_name_is_that_file() {
    let tree = Tree::new(&["a[1].csv", "a1.csv", "what?.csv"]);
    assert_eq!(tree.names("a[1].csv", None), ["a[1].csv"]);
    assert_eq!(tree.names("what?.csv", None), ["what?.csv"]);
    assert_eq!(tree.names("a[12].csv", None), ["a1.csv"]);
}

#[test]
fn nothing_found_is_an_error_that_names_what_was_looked_for() {
    let tree = Tree::new(&FILES);
    fs::create_dir(tree.path("empty")).unwrap();
    let message = |below: &str, suffixes: Option<&[&str]>| tree.list(below, suffixes).unwrap_err().to_string();
    assert!(message("missing.csv", None).contains("missing.csv: no such file or folder"));
    assert!(message("missing/", None).contains("missing/: no such file or folder"));
    assert!(message("*.parquet", None).contains("*.parquet: no file matches this pattern"));
    assert!(message("missing/*.csv", None).contains("no file matches"));
    assert!(message("empty", None).contains("empty: the folder holds no file;"));
    let none = message("deep", Some(&[".parquet", ".csv.gz"]));
    assert!(none.contains("deep: the folder holds no file ending in .parquet, .csv.gz"), "{none}");
    assert!(message("a.csv/", None).contains("a.csv/: no such file or folder"), "a file is no folder");
    assert!(message("a.csv/b.csv", None).contains("no such file"));
}

#[test]
fn links_to_files_are_followed_but_folders_are_not_walked_in_circles() {
    let tree = Tree::new(&["data/a.csv", "other/b.csv"]);
    symlink(tree.path("data"), tree.path("data/again")).unwrap();
    symlink(tree.path("other/b.csv"), tree.path("data/b.csv")).unwrap();
    symlink(tree.path("nowhere"), tree.path("data/dangling.csv")).unwrap();
    assert_eq!(tree.names("data", None), ["data/a.csv", "data/b.csv"]);
    assert_eq!(tree.names("data/**/*.csv", None), ["data/a.csv", "data/b.csv"]);
    assert_eq!(tree.names("data/again/*.csv", None), ["data/again/a.csv", "data/again/b.csv"], "named outright");
    assert_eq!(tree.names("data/*/a.csv", None), ["data/again/a.csv"], "a level that the pattern names");
    let linked = &tree.list("data/b.csv", None).unwrap()[0];
    assert!(linked.path.ends_with("data/b.csv") && linked.version.path.ends_with("other/b.csv"));
}

#[test]
fn listings_keep_to_the_allowed_directories() {
    let tree = Tree::new(&["in/a.csv", "out/b.csv"]);
    symlink(tree.path("out/b.csv"), tree.path("in/link.csv")).unwrap();
    let access = Access::within([tree.path("in").to_str().unwrap()]).unwrap();
    let refused = |below: &str| matches!(tree.list_within(below, None, &access), Err(MediumError::NotAllowed { .. }));
    assert!(tree.list_within("in/a.csv", None, &access).is_ok());
    assert!(tree.list_within("in/a*.csv", None, &access).is_ok());
    assert!(refused("out/b.csv") && refused("out") && refused("out/*.csv"));
    assert!(refused("in/../out/b.csv") && refused("**/*.csv") && refused("*/a.csv"));
    assert!(refused("in/link.csv") && refused("in/*.csv") && refused("in"), "the link leads out");
    assert!(
        refused("out/missing.csv") && refused("out/[m]issing.csv") && refused("out/missing/*.csv"),
        "the answer does not tell what exists"
    );
}

#[test]
fn a_glob_tells_nothing_of_what_lies_outside_the_allowed_directories() {
    let tree = Tree::new(&["in/deep/a.csv", "out/there.csv"]);
    let access = Access::within([tree.path("in").to_str().unwrap()]).unwrap();
    let message = |below: &str| tree.list_within(below, None, &access).unwrap_err().to_string();
    let (there, missing) = (message("in/[d]eep/../../out/there.csv"), message("in/[d]eep/../../out/nowhere.csv"));
    assert!(there.contains("not allowed") && missing == there, "{there}\n{missing}");
    assert!(tree.list_within("in/[d]eep/../deep/a.csv", None, &access).is_ok(), "a way that stays inside");
}

/// In a thread that may do no more than anyone else, also where the tests run as root.
#[cfg(target_os = "linux")]
#[test]
fn a_glob_fails_where_it_cannot_look() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let tree = Tree::new(&["logs/a/events.csv", "logs/b/events.csv", "closed/deep/events.csv"]);
    fs::create_dir(tree.path("linked")).unwrap();
    symlink(tree.path("closed/deep"), tree.path("linked/deep")).unwrap();
    mode(tree.root.path(), 0o755);
    for closed in ["logs/b", "closed"] {
        mode(&tree.path(closed), 0o000);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The thread alone is another user's; the standard library has no such call.
            #[allow(unsafe_code)]
            // SAFETY: the call takes a number and touches no memory of ours.
            unsafe {
                libc::setfsuid(65534)
            };
            for glob in
                ["logs/*/events.csv", "logs/**/events.csv", "logs/*/*.csv", "logs/b/*.csv", "linked/*/events.csv"]
            {
                let error = tree.list(glob, None).unwrap_err();
                assert!(matches!(error, MediumError::PermissionDenied { .. }), "{glob}: {error}");
            }
            assert_eq!(tree.names("logs/[a]/events.csv", None), ["logs/a/events.csv"]);
        });
    });
    for closed in ["logs/b", "closed"] {
        mode(&tree.path(closed), 0o755);
    }
}

#[test]
fn links_in_a_circle_or_through_a_file_lead_nowhere() {
    let tree = Tree::new(&["a.csv", "d/a.csv"]);
    symlink("circle.csv", tree.path("circle.csv")).unwrap();
    symlink("a.csv/b.csv", tree.path("through.csv")).unwrap();
    symlink("e", tree.path("e")).unwrap();
    assert_eq!(tree.names("", None), ["a.csv", "d/a.csv"]);
    assert_eq!(tree.names("*.csv", None), ["a.csv"]);
    assert_eq!(tree.names("*/a.csv", None), ["d/a.csv"]);
    assert!(matches!(tree.list("[c]ircle.csv", None), Err(MediumError::NoMatch { .. })));
}

#[test]
fn pipes_in_a_folder_are_passed_over() {
    let tree = Tree::new(&["a.csv"]);
    let path = std::ffi::CString::new(tree.path("pipe.csv").to_str().unwrap()).unwrap();
    // The only way to make a pipe without starting a program.
    #[allow(unsafe_code)]
    // SAFETY: the path is a valid C string.
    let made = unsafe { libc::mkfifo(path.as_ptr(), 0o600) };
    assert_eq!(made, 0);
    assert_eq!(tree.names("", None), ["a.csv"]);
    let named = tree.list("pipe.csv", None).unwrap_err().to_string();
    assert!(named.contains("is a pipe, expected a regular file"), "{named}");
}

#[test]
fn a_remote_location_is_refused() {
    let location = Location::parse("s3://bucket/a.csv").unwrap();
    assert!(matches!(list_local(&location, None, &Access::everything()), Err(MediumError::InvalidLocation { .. })));
}

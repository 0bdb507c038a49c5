#![allow(clippy::unwrap_used, clippy::panic)]

use futures::executor::block_on;
use object_store::memory::InMemory;
use object_store::{ObjectStoreExt, PutPayload};

use super::*;
use crate::Location;

fn store_with(keys: &[&str]) -> Arc<dyn ObjectStore> {
    let store = Arc::new(InMemory::new());
    for key in keys {
        put(&(Arc::clone(&store) as Arc<dyn ObjectStore>), key, key.as_bytes());
    }
    store
}

fn put(store: &Arc<dyn ObjectStore>, key: &str, content: &[u8]) {
    block_on(store.put(&ObjectPath::from(key), PutPayload::from(content.to_vec()))).unwrap();
}

fn open(store: &Arc<dyn ObjectStore>, key: &str) -> Result<RemoteFile> {
    block_on(RemoteFile::open(Arc::clone(store), "memory://", ObjectPath::from(key)))
}

fn pattern(url: &str) -> RemotePattern {
    match Location::parse(url).unwrap() {
        Location::Remote(pattern) => pattern,
        Location::Local(_) => panic!("{url} is local"),
    }
}

fn list(store: &Arc<dyn ObjectStore>, url: &str, suffixes: Option<&[&str]>) -> Result<Vec<ListedFile>> {
    block_on(list_remote(store, &pattern(url), suffixes, &Access::everything()))
}

fn urls(store: &Arc<dyn ObjectStore>, url: &str, suffixes: Option<&[&str]>) -> Vec<String> {
    list(store, url, suffixes).unwrap().iter().map(|file| file.path.to_string()).collect()
}

#[test]
fn ranges_are_read_and_cut_off_at_the_end() {
    let store = store_with(&[]);
    put(&store, "a/b.csv", b"0123456789");
    let file = open(&store, "a/b.csv").unwrap();
    assert_eq!((file.size_bytes(), &*file.version().path), (10, "memory:///a/b.csv"));
    assert_eq!(&block_on(file.read_range(2..5)).unwrap()[..], b"234");
    assert_eq!(&block_on(file.read_range(8..99)).unwrap()[..], b"89");
    assert!(block_on(file.read_range(10..20)).unwrap().is_empty());
    assert!(block_on(file.read_range(3..3)).unwrap().is_empty());
}

#[test]
fn an_object_that_changed_or_vanished_is_an_error_with_its_url() {
    let store = store_with(&["a.csv"]);
    let file = open(&store, "a.csv").unwrap();
    put(&store, "a.csv", b"A.CSV");
    let changed = block_on(file.read_range(0..5)).unwrap_err();
    assert!(matches!(changed, MediumError::Changed { .. }), "{changed}");
    assert!(changed.to_string().starts_with("memory:///a.csv: changed while it was read"), "{changed}");
    assert_ne!(open(&store, "a.csv").unwrap().version(), file.version());
    block_on(store.delete(&ObjectPath::from("a.csv"))).unwrap();
    let deleted = block_on(file.read_range(0..5)).unwrap_err().to_string();
    assert!(deleted.contains("memory:///a.csv") && deleted.contains("it was deleted"), "{deleted}");
}

#[test]
fn a_store_without_tags_is_held_to_the_time_it_tells() {
    let store = store_with(&["a.csv"]);
    let mut listed = list(&store, "memory:///a.csv", None).unwrap().remove(0);
    let Stamp::Object { last_modified_ns, .. } = listed.version.stamp else { panic!("an object's stamp") };
    let mut read_as = |last_modified_ns| {
        // Without a tag there is no condition that the store could check.
        listed.version.stamp = Stamp::Object { etag: None, last_modified_ns };
        let file = RemoteFile::from_listed(Arc::clone(&store), "memory://", &listed).unwrap();
        block_on(file.read_range(0..5))
    };
    assert!(read_as(last_modified_ns).is_ok());
    assert!(matches!(read_as(last_modified_ns - 1), Err(MediumError::Changed { .. })));
}

#[test]
fn a_missing_object_is_an_error_with_its_url() {
    let store = store_with(&[]);
    let error = open(&store, "missing.csv").unwrap_err();
    assert!(matches!(error, MediumError::NoSuchObject { .. }));
    assert!(error.to_string().starts_with("memory:///missing.csv: "), "{error}");
}

#[test]
fn without_tags_versions_are_told_apart_by_size_and_time() {
    let version = |etag: Option<&str>, last_modified_ns, size_bytes| FileVersion {
        path: "s3://b/a".into(),
        size_bytes,
        stamp: Stamp::Object { etag: etag.map(Arc::from), last_modified_ns },
    };
    assert!(difference(&version(None, 1, 5), &version(None, 1, 5)).is_none());
    assert!(difference(&version(None, 1, 5), &version(None, 2, 5)).is_some());
    assert!(difference(&version(None, 1, 5), &version(None, 1, 6)).is_some());
    assert!(difference(&version(Some("x"), 1, 5), &version(Some("x"), 2, 5)).is_none(), "the tag decides");
    assert!(difference(&version(Some("x"), 1, 5), &version(Some("y"), 1, 5)).is_some());
    assert!(difference(&version(None, 1, 5), &version(Some("y"), 1, 5)).is_none(), "listed without a tag");
    assert!(difference(&version(Some("x"), 1, 5), &version(Some("x"), 1, 6)).is_some());
}

#[test]
fn one_object_globs_and_folders_are_listed_in_order() {
    let store = store_with(&["d/b.csv", "d/a.csv", "d/x/c.csv", "d/x/n.json", "d/_tmp/q.csv", "d/.h.csv", "e/z.csv"]);
    assert_eq!(urls(&store, "memory:///d/a.csv", None), ["memory:///d/a.csv"]);
    assert_eq!(urls(&store, "memory:///d/*.csv", None), ["memory:///d/a.csv", "memory:///d/b.csv"]);
    let everywhere = urls(&store, "memory:///**/c.csv", None);
    assert_eq!(everywhere, ["memory:///d/x/c.csv"]);
    assert_eq!(urls(&store, "memory:///[e]/", None), ["memory:///e/z.csv"]);
    let csv = ["memory:///d/a.csv", "memory:///d/b.csv", "memory:///d/x/c.csv"];
    assert_eq!(urls(&store, "memory:///d/", Some(&[".csv"])), csv);
    assert_eq!(urls(&store, "memory:///", Some(&[".json"])), ["memory:///d/x/n.json"]);
    let none = list(&store, "memory:///d/", Some(&[".parquet"])).unwrap_err();
    assert!(matches!(none, MediumError::EmptyFolder { .. }), "{none}");
    let none = list(&store, "memory:///f/*.csv", None).unwrap_err();
    assert!(none.to_string().starts_with("memory:///f/*.csv: no file matches"), "{none}");
}

#[test]
fn a_listed_object_is_opened_without_asking_again_and_bound_to_the_listed_version() {
    let store = store_with(&["d/a.csv"]);
    let listed = list(&store, "memory:///d/*.csv", None).unwrap().remove(0);
    let file = RemoteFile::from_listed(Arc::clone(&store), "memory://", &listed).unwrap();
    assert_eq!(&block_on(file.read_range(0..7)).unwrap()[..], b"d/a.csv");
    assert_eq!(file.version(), open(&store, "d/a.csv").unwrap().version());
    put(&store, "d/a.csv", b"changed");
    assert!(matches!(block_on(file.read_range(0..7)), Err(MediumError::Changed { .. })));
    assert!(RemoteFile::from_listed(store, "s3://other", &listed).is_err());
}

#[test]
fn remote_listings_keep_to_the_allowed_prefixes() {
    let store = store_with(&["in/a.csv", "out/b.csv"]);
    let access = Access::within(["memory:///in"]).unwrap();
    let list = |url: &str| block_on(list_remote(&store, &pattern(url), None, &access));
    assert!(list("memory:///in/*.csv").is_ok() && list("memory:///in/").is_ok() && list("memory:///in/a.csv").is_ok());
    for url in
        ["memory:///out/b.csv", "memory:///out/", "memory:///*/a.csv", "memory:///**", "memory:///in/../out/b.csv"]
    {
        assert!(matches!(list(url), Err(MediumError::NotAllowed { .. })), "{url}");
    }
}

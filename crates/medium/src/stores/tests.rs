//! Stores opened by URL, against a server that speaks S3.
#![allow(clippy::unwrap_used, clippy::panic)]

use thermocline_store_server::{Fault, Manners, StoreServer};

use super::*;
use crate::{ListedFile, Location, RemoteFile, Stamp, list_remote};

const KEY: &str = "AKIATEST";

fn signed(server: &StoreServer) -> StoreOptions {
    StoreOptions::anonymous()
        .with_variable("AWS_ENDPOINT_URL", server.url())
        .with_variable("AWS_ACCESS_KEY_ID", KEY)
        .with_variable("AWS_SECRET_ACCESS_KEY", "secret")
}

fn list(url: &str, options: &StoreOptions) -> Result<(Arc<dyn ObjectStore>, String, Vec<ListedFile>)> {
    let Location::Remote(pattern) = Location::parse(url)? else { panic!("{url} is local") };
    let store = open_store(pattern.store_url(), options)?;
    let listed = run(list_remote(&store, &pattern, None, &Access::everything()))?;
    Ok((store, pattern.store_url().to_owned(), listed))
}

fn open(url: &str, options: &StoreOptions) -> Result<RemoteFile> {
    let (store, store_url, listed) = list(url, options)?;
    RemoteFile::from_listed(store, &store_url, &listed[0])
}

fn names(url: &str, options: &StoreOptions) -> Vec<String> {
    list(url, options).unwrap().2.iter().map(|file| file.path.to_string()).collect()
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn read(file: &RemoteFile) -> Result<Vec<u8>> {
    run(file.read_range(0..file.size_bytes())).map(|bytes| bytes.to_vec())
}

fn error<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn objects_are_listed_over_several_pages_and_read_by_ranges() {
    let server = StoreServer::start().unwrap();
    for key in ["d/a b.csv", "d/a+b%.csv", "d/c.csv", "d/é.csv", "d/x/d.csv", "e/e.csv"] {
        server.put(&format!("/bucket/{key}"), key);
    }
    server.set_manners(Manners { page_row_count: 2, ..Manners::default() });
    let options = signed(&server);
    let found = names("s3://bucket/d/*.csv", &options);
    assert_eq!(found, ["a b.csv", "a+b%.csv", "c.csv", "é.csv"].map(|name| format!("s3://bucket/d/{name}")));
    assert_eq!(names("s3://bucket/", &options).len(), 6);
    for url in found {
        let file = open(&url, &options).unwrap();
        let key = url.strip_prefix("s3://bucket/").unwrap();
        assert_eq!(read(&file).unwrap(), key.as_bytes(), "{url}");
        assert_eq!(&run(file.read_range(1..3)).unwrap()[..], &key.as_bytes()[1..3]);
    }
}

#[test]
fn a_put_during_a_scan_is_noticed_by_the_next_read() {
    let server = StoreServer::start().unwrap();
    server.put("/bucket/a.csv", "0123456789");
    let options = signed(&server);
    let file = open("s3://bucket/a.csv", &options).unwrap();
    assert_eq!(&run(file.read_range(0..5)).unwrap()[..], b"01234");
    server.add_faults([Fault::Replaced(b"abcdefghij".to_vec())]);
    let changed = run(file.read_range(5..10)).unwrap_err();
    assert!(matches!(changed, MediumError::Changed { .. }), "{changed}");
    assert_ne!(open("s3://bucket/a.csv", &options).unwrap().version(), file.version());
    server.delete("/bucket/a.csv");
    server.put("/bucket/b.csv", "");
    assert!(error(run(file.read_range(5..10))).contains("it was deleted"));
}

#[test]
fn a_busy_server_a_broken_connection_and_a_slow_body_are_survived() {
    let server = StoreServer::start().unwrap();
    let content: Vec<u8> = (0..100_000).map(|at| (at % 251) as u8).collect();
    server.put("/bucket/a.csv", content.clone());
    let file = open("s3://bucket/a.csv", &signed(&server)).unwrap();
    for fault in [Fault::Status(503, "SlowDown"), Fault::Truncated, Fault::Slow] {
        server.add_faults([fault.clone()]);
        assert_eq!(read(&file).unwrap(), content, "{fault:?}");
    }
    server.take_requests();
    server.add_faults([Fault::Truncated, Fault::Replaced(content.clone())]);
    let torn = read(&file).unwrap_err();
    let requests = server.take_requests();
    assert_eq!(requests.len(), 2, "the rest was asked for: {requests:?}");
    assert!(torn.to_string().starts_with("s3://bucket/a.csv: "), "two versions are not joined: {torn}");
}

#[test]
fn a_server_that_stays_broken_is_given_up() {
    let server = StoreServer::start().unwrap();
    server.put("/bucket/a.csv", "x");
    let file = open("s3://bucket/a.csv", &signed(&server)).unwrap();
    server.add_faults(vec![Fault::Status(503, "SlowDown"); 100]);
    server.take_requests();
    let text = error(read(&file));
    assert!(text.starts_with("s3://bucket/a.csv: cannot read bytes 0 to 1: ") && text.contains("SlowDown"), "{text}");
    assert!(server.take_requests().len() <= 5);
}

#[test]
fn refusals_say_what_to_do() {
    let server = StoreServer::start().unwrap();
    server.put("/bucket/a.csv", "x");
    server.require_access_key(KEY);
    assert!(read(&open("s3://bucket/a.csv", &signed(&server)).unwrap()).is_ok());
    let anonymous = StoreOptions::anonymous().with_variable("AWS_ENDPOINT_URL", server.url());
    for options in [anonymous, signed(&server).with_variable("AWS_ACCESS_KEY_ID", "AKIAOTHER")] {
        for url in ["s3://bucket/a.csv", "s3://bucket/*.csv"] {
            let refused = list(url, &options).unwrap_err();
            assert!(matches!(refused, MediumError::AccessRefused { .. }), "{refused}");
            let text = refused.to_string();
            assert!(text.starts_with(&format!("{url}: the store refuses access")), "{text}");
            assert!(text.contains("AWS_ACCESS_KEY_ID"), "{text}");
        }
    }
    assert!(
        error(list("s3://bucket/*.csv", &StoreOptions::anonymous().with_variable("AWS_ENDPOINT_URL_S3", server.url())))
            .contains("(AccessDenied)")
    );
}

#[test]
fn missing_objects_and_buckets_are_told_apart_where_the_store_does() {
    let server = StoreServer::start().unwrap();
    server.put("/bucket/a.csv", "x");
    let options = signed(&server);
    assert!(matches!(open("s3://bucket/b.csv", &options), Err(MediumError::NoSuchObject { .. })));
    assert!(matches!(open("s3://other/b.csv", &options), Err(MediumError::NoSuchObject { .. })), "HEAD has no body");
    let none = open("s3://other/*.csv", &options).unwrap_err();
    assert!(matches!(none, MediumError::NoSuchBucket { .. }), "{none}");
    assert!(none.to_string().starts_with("s3://other/*.csv: no such bucket"), "{none}");
}

#[test]
fn a_wrong_region_is_named_with_the_right_one() {
    let server = StoreServer::start().unwrap();
    server.put("/bucket/a.csv", "x");
    server.set_region("eu-central-1");
    for url in ["s3://bucket/a.csv", "s3://bucket/*.csv"] {
        let text = error(list(url, &signed(&server)));
        assert!(text.starts_with(url) && text.contains("set AWS_REGION=eu-central-1"), "{text}");
    }
    for name in ["AWS_REGION", "AWS_DEFAULT_REGION"] {
        assert!(list("s3://bucket/a.csv", &signed(&server).with_variable(name, "eu-central-1")).is_ok(), "{name}");
    }
}

#[test]
fn a_host_that_cannot_be_reached_is_an_error_with_its_url_and_the_reason() {
    let refused = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let unknown = "http://no-such-host.invalid";
    let server = StoreServer::start().unwrap();
    let plain = server.url().replace("http://", "https://");
    // Some resolvers do not say no in time.
    let reasons_of_unknown = ["name is not known", "the host does not answer; check its name"];
    for (host, reasons) in [
        (refused.as_str(), &["refuses connections"][..]),
        (unknown, &reasons_of_unknown),
        (&plain, &["no encrypted connection"]),
    ] {
        let tells_why = |text: &str| reasons.iter().any(|reason| text.contains(reason));
        let url = format!("{host}/a.csv");
        let failed = list(&url, &StoreOptions::anonymous()).unwrap_err();
        assert!(matches!(failed, MediumError::Unreachable { .. }), "{failed:?}");
        let text = failed.to_string();
        assert!(text.starts_with(&format!("{url}: ")) && tells_why(&text), "{text}");
        let text = error(list("s3://bucket/a.csv", &StoreOptions::anonymous().with_variable("AWS_ENDPOINT_URL", host)));
        assert!(text.starts_with("s3://bucket/a.csv: ") && tells_why(&text), "{text}");
    }
}

#[test]
fn an_endpoint_without_encryption_can_be_refused() {
    let server = StoreServer::start().unwrap();
    server.put("/bucket/a.csv", "x");
    let text = error(list("s3://bucket/a.csv", &signed(&server).with_variable("AWS_ALLOW_HTTP", "false")));
    assert!(text.starts_with("s3://bucket/a.csv: the connection would not be encrypted"), "{text}");
    assert!(server.take_requests().is_empty());
}

#[test]
fn a_server_without_tags_is_held_to_time_and_size() {
    let server = StoreServer::start().unwrap();
    let url = format!("{}/data/a.csv", server.url());
    for manners in [
        Manners { has_etags: false, ..Manners::default() },
        Manners { has_weak_etags: true, ..Manners::default() },
        Manners::default(),
    ] {
        server.set_manners(manners);
        server.put("/data/a.csv", "0123456789");
        let file = open(&url, &StoreOptions::anonymous()).unwrap();
        assert_eq!(&*file.version().path, url);
        assert_eq!(read(&file).unwrap(), b"0123456789", "{manners:?}");
        server.put("/data/a.csv", "abcdefghij");
        assert!(matches!(read(&file), Err(MediumError::Changed { .. })), "{manners:?}");
    }
    server.set_manners(Manners { has_etags: false, has_last_modified: false, ..Manners::default() });
    let file = open(&url, &StoreOptions::anonymous()).unwrap();
    assert_eq!(file.version().stamp, Stamp::Object { etag: None, last_modified_ns: 0 });
    assert!(file.version().is_young(i64::MAX), "nothing tells versions apart");
}

#[test]
fn a_server_without_ranges_is_refused() {
    let server = StoreServer::start().unwrap();
    server.put("/data/a.csv", "0123456789");
    server.set_manners(Manners { has_ranges: false, ..Manners::default() });
    let file = open(&format!("{}/data/a.csv", server.url()), &StoreOptions::anonymous()).unwrap();
    let text = error(read(&file));
    assert!(text.contains("/data/a.csv: the server does not answer requests for a part of a file"), "{text}");
}

#[test]
fn redirects_are_followed_only_where_access_is_not_restricted() {
    let server = StoreServer::start().unwrap();
    let elsewhere = StoreServer::start().unwrap();
    elsewhere.put("/data/secret.csv", "secret");
    let to = format!("{}/data/secret.csv", elsewhere.url());
    server.redirect("/data/a.csv", &to);
    let url = format!("{}/data/a.csv", server.url());
    let file = open(&url, &StoreOptions::anonymous()).unwrap();
    assert_eq!(read(&file).unwrap(), b"secret");
    elsewhere.take_requests();
    let text = error(list(&url, &StoreOptions::anonymous().with_redirects(false)));
    assert!(text.starts_with(&url) && text.contains(&format!("redirects to {to}")), "{text}");
    let stores = OpenStores::new(Some(StoreOptions::anonymous()));
    let Location::Remote(pattern) = Location::parse(&url).unwrap() else { panic!("{url} is local") };
    let access = Access::within([format!("{}/data", server.url())]).unwrap();
    for access in [&access, &Access::everything(), &access] {
        let store = stores.get(pattern.store_url(), access).unwrap();
        let listed = run(list_remote(&store, &pattern, None, access));
        assert_eq!(listed.is_ok(), !access.is_restricted());
    }
    assert_eq!(elsewhere.take_requests().len(), 1);
}

#[test]
fn a_store_is_opened_once_as_long_as_its_options_stay() {
    let stores = OpenStores::new(Some(StoreOptions::anonymous()));
    let everything = Access::everything();
    let first = stores.get("s3://bucket", &everything).unwrap();
    assert!(Arc::ptr_eq(&first, &stores.get("s3://bucket", &everything).unwrap()));
    assert!(!Arc::ptr_eq(&first, &stores.get("s3://other", &everything).unwrap()));
    let restricted = Access::within(["s3://bucket"]).unwrap();
    assert!(!Arc::ptr_eq(&first, &stores.get("s3://bucket", &restricted).unwrap()));
    for number in 0..2 * OPEN_STORES {
        stores.get(&format!("s3://bucket{number}"), &everything).unwrap();
    }
    assert!(stores.open.lock().unwrap().len() <= OPEN_STORES);
}

#[test]
fn what_makes_no_request_is_refused_before_one_is_made() {
    for bad in [
        "gs://bucket",
        "s3://",
        "s3://a b",
        "s3://a\"b",
        "s3://é",
        "s3://a@b",
        "s3://-a",
        "https://",
        "https://a b",
        "https://user:pass@host",
        "https://user@host",
        "http://[::1",
        "http://host:99999",
        "https://host?x=1",
    ] {
        let refused = open_store(bad, &StoreOptions::anonymous()).unwrap_err();
        assert!(
            matches!(refused, MediumError::InvalidLocation { .. }) && refused.to_string().starts_with(bad),
            "{refused}"
        );
    }
    for (name, value) in [
        ("AWS_ENDPOINT_URL", "localhost:9000"),
        ("AWS_ENDPOINT_URL_S3", "ftp://host"),
        ("AWS_REGION", "eu central"),
        ("AWS_ENDPOINT_URL", "http://u:p@host"),
        ("AWS_ACCESS_KEY_ID", "alone"),
        ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "?"),
    ] {
        let options = StoreOptions::anonymous().with_variable(name, value);
        assert!(
            matches!(open_store("s3://bucket", &options), Err(MediumError::InvalidLocation { .. })),
            "{name}={value}"
        );
    }
}

#[test]
fn secrets_are_not_printed() {
    let options = StoreOptions::anonymous().with_variable("AWS_SECRET_ACCESS_KEY", "hush");
    let stores = OpenStores::new(Some(options.with_variable("AWS_ACCESS_KEY_ID", "hush")));
    stores.get("s3://bucket", &Access::everything()).unwrap();
    let text = format!("{stores:?}");
    assert!(text.contains("AWS_SECRET_ACCESS_KEY") && !text.contains("hush"), "{text}");
}

#[test]
fn markers_of_folders_are_no_files() {
    let server = StoreServer::start().unwrap();
    for (key, content) in [
        ("d/", ""),
        ("d/a.csv", "k"),
        ("d/sub/", ""),
        ("d/sub/b.csv", "k"),
        ("d/lone/", ""),
        ("d/part.csv/", ""),
        ("d/part.csv/0.csv", "k"),
        ("d/none.csv", ""),
        ("d/both.csv", "k"),
        ("d/both.csv/", ""),
    ] {
        server.put(&format!("/bucket/{key}"), content);
    }
    let options = signed(&server);
    let urls = |names: &[&str]| names.iter().map(|name| format!("s3://bucket/d/{name}")).collect::<Vec<_>>();
    assert_eq!(names("s3://bucket/d/*", &options), urls(&["a.csv", "both.csv", "none.csv"]));
    let all = urls(&["a.csv", "both.csv", "none.csv", "part.csv/0.csv", "sub/b.csv"]);
    assert_eq!(names("s3://bucket/d/**", &options), all);
    assert_eq!(names("s3://bucket/d/", &options), all);
    assert!(error(list("s3://bucket/d/lon*", &options)).contains("no file matches"));
}

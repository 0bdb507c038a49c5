//! Files on S3 and on HTTP servers: the URL in FROM is all that is needed.

use std::fmt::Write;
use std::sync::Arc;

use thermocline_engine::{Database, DatabaseOptions, StoreOptions};
use thermocline_store_server::{Fault, Manners, StoreServer};

use crate::harness::{self, MIB, integer, rows};

fn server() -> StoreServer {
    StoreServer::start().unwrap()
}

/// A database whose S3 is `server`.
fn database(server: &StoreServer) -> Arc<Database> {
    let stores = StoreOptions::anonymous()
        .with_variable("AWS_ENDPOINT_URL", server.url())
        .with_variable("AWS_ACCESS_KEY_ID", "AKIATEST")
        .with_variable("AWS_SECRET_ACCESS_KEY", "secret");
    let options = DatabaseOptions {
        memory_bytes: Some(256 * MIB),
        threads: Some(4),
        stores: Some(stores),
        ..DatabaseOptions::default()
    };
    Database::open(options).unwrap()
}

/// Records with `k` from `first`, and how many bytes.
fn ndjson(first: usize, row_count: usize) -> String {
    let mut text = String::new();
    for k in first..first + row_count {
        let _ = writeln!(text, r#"{{"k": {k}, "name": "number {k}", "parts": [{{"n": 1}}, {{"n": {k}}}]}}"#);
    }
    text
}

/// Whether the body of an object was asked for since the last time.
fn has_read(server: &StoreServer) -> bool {
    server.take_requests().iter().any(|request| request.contains("bytes="))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_read_once_until_it_is_put_again() {
    let server = server();
    server.put("/bucket/logs/a.ndjson", ndjson(1, 50_000));
    let session = database(&server).session();
    let sql = "SELECT sum(k) FROM 's3://bucket/logs/a.ndjson'";
    assert_eq!(integer(&session, sql).await, 1_250_025_000);
    assert!(has_read(&server));
    for _ in 0..2 {
        assert_eq!(integer(&session, sql).await, 1_250_025_000);
    }
    assert!(!has_read(&server), "the second and third answer come from memory");
    server.put("/bucket/logs/a.ndjson", ndjson(2, 50_000));
    assert_eq!(integer(&session, sql).await, 1_250_075_000, "another version of the same size");
    assert!(has_read(&server));
    server.delete("/bucket/logs/a.ndjson");
    server.put("/bucket/other", "");
    let gone = harness::error(&session, sql).await;
    assert!(gone.contains("s3://bucket/logs/a.ndjson: no such object"), "{gone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn globs_and_folders_of_a_bucket_are_listed_anew_for_each_query() {
    let server = server();
    server.set_manners(Manners { page_row_count: 2, ..Manners::default() });
    for number in 0..5 {
        server.put(&format!("/bucket/logs/{number}.ndjson"), ndjson(number * 100, 100));
    }
    server.put("/bucket/logs/x.csv", "k\n1\n");
    let session = database(&server).session();
    for (location, row_count) in [("logs/*.ndjson", 500), ("logs/[0-2].ndjson", 300), ("**/4.ndjson", 100)] {
        let sql = format!("SELECT count(DISTINCT k) FROM 's3://bucket/{location}'");
        assert_eq!(integer(&session, &sql).await, row_count, "{location}");
    }
    rows(&session, "CREATE EXTERNAL TABLE logs STORED AS NDJSON LOCATION 's3://bucket/logs/'").await;
    assert_eq!(integer(&session, "SELECT max(k) FROM logs").await, 499);
    server.put("/bucket/logs/9.ndjson", ndjson(900, 1));
    assert_eq!(integer(&session, "SELECT max(k) FROM logs").await, 900);
    assert_eq!(integer(&session, "SELECT sum(i.n) FROM logs, UNNEST(logs.parts) AS i WHERE k = 900").await, 901);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_in_the_middle_of_a_scan_fails_the_query_and_leaves_nothing_behind() {
    let server = server();
    server.put("/bucket/a.ndjson", ndjson(1, 200_000));
    let session = database(&server).session();
    let sql = "SELECT sum(k) FROM 's3://bucket/a.ndjson' WHERE name <> 'x'";
    // Looks at its beginning, for the names and types of its columns, and leaves no request under way.
    rows(&session, "EXPLAIN SELECT k FROM 's3://bucket/a.ndjson'").await;
    server.add_faults([Fault::None, Fault::Replaced(ndjson(2, 200_000).into_bytes())]);
    let error = harness::error(&session, sql).await;
    assert!(error.contains("s3://bucket/a.ndjson: changed while it was read"), "{error}");
    assert_eq!(integer(&session, sql).await, (2..=200_001_i64).sum::<i64>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_an_http_server_is_read_by_its_url() {
    let server = server();
    server.put("/data/a b.ndjson", ndjson(1, 1000));
    server.put("/data/t.csv", "k,name\n1,a\n2,b\n");
    let session = database(&server).session();
    let url = format!("{}/data", server.url());
    assert_eq!(integer(&session, &format!("SELECT sum(k) FROM '{url}/a%20b.ndjson'")).await, 500_500);
    assert_eq!(rows(&session, &format!("SELECT * FROM '{url}/t.csv'")).await, ["1|a", "2|b"]);
    for location in ["*.csv", ""] {
        let error = harness::error(&session, &format!("SELECT * FROM '{url}/{location}'")).await;
        assert!(error.contains("HTTP has no listing"), "{error}");
    }
    // Nothing tells one version from the next: nothing is answered from memory.
    server.set_manners(Manners { has_etags: false, has_last_modified: false, ..Manners::default() });
    for name in ["c", "d"] {
        server.put("/data/t.csv", format!("k,name\n1,{name}\n2,b\n"));
        assert_eq!(rows(&session, &format!("SELECT name FROM '{url}/t.csv' WHERE k = 1")).await, [name]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_allowed_urls_are_read_and_no_redirect_leads_out_of_them() {
    let server = server();
    let elsewhere = StoreServer::start().unwrap();
    elsewhere.put("/data/secret.csv", "k\n1\n");
    server.put("/bucket/in/a.csv", "k\n1\n");
    server.put("/bucket/out/a.csv", "k\n1\n");
    server.redirect("/bucket/in/b.csv", &format!("{}/data/secret.csv", elsewhere.url()));
    let session = database(&server).session();
    let http = format!("{}/bucket/in", server.url());
    assert_eq!(integer(&session, &format!("SELECT k FROM '{http}/b.csv'")).await, 1);
    elsewhere.take_requests();
    rows(&session, &format!("SET allowed_directories = 's3://bucket/in,{http}'")).await;
    rows(&session, "SET lock_configuration = true").await;
    server.take_requests();
    for url in ["s3://bucket/out/a.csv", "s3://bucket/*/a.csv", "s3://other/a.csv", "http://169.254.169.254/x.csv"] {
        let error = harness::error(&session, &format!("SELECT * FROM '{url}'")).await;
        assert!(error.contains("not allowed"), "{error}");
    }
    assert!(server.take_requests().is_empty());
    let error = harness::error(&session, &format!("SELECT * FROM '{http}/b.csv'")).await;
    assert!(error.contains("redirects to"), "{error}");
    assert!(elsewhere.take_requests().is_empty());
    for url in ["s3://bucket/in/a.csv", "s3://bucket/in/*.csv", &format!("{http}/a.csv")] {
        assert_eq!(integer(&session, &format!("SELECT k FROM '{url}'")).await, 1, "{url}");
    }
}

//! Settings for servers that run others' SQL.

use crate::harness::{self, FIRST, Folder, integer, numbered_csv, rows, session};

#[tokio::test(flavor = "multi_thread")]
async fn only_allowed_directories_are_read_and_written() {
    let allowed = Folder::new();
    let forbidden = Folder::new();
    let inside = allowed.file("t.csv", numbered_csv(FIRST, 10));
    let outside = forbidden.file("t.csv", numbered_csv(FIRST, 10));
    std::os::unix::fs::symlink(&outside, allowed.path().join("link.csv")).unwrap();
    let session = session();
    rows(&session, &format!("SET allowed_directories = '{}'", allowed.path().display())).await;
    assert_eq!(integer(&session, &format!("SELECT count(*) FROM '{}'", inside.display())).await, 10);
    let refused = [
        format!("SELECT count(*) FROM '{}'", outside.display()),
        format!("SELECT count(*) FROM '{}/link.csv'", allowed.path().display()),
        format!(
            "SELECT count(*) FROM '{}/../{}/t.csv'",
            allowed.path().display(),
            forbidden.path().file_name().unwrap().to_str().unwrap()
        ),
        format!("SELECT count(*) FROM '{}/*.csv'", forbidden.path().display()),
        format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{}'", outside.display()),
        format!("COPY (SELECT 1 AS a) TO '{}/out.csv'", forbidden.path().display()),
        format!("EXPLAIN ANALYZE COPY (SELECT 1 AS a) TO '{}/out.csv'", forbidden.path().display()),
    ];
    for sql in refused {
        let message = harness::error(&session, &sql).await;
        assert!(message.contains("not allowed"), "{sql}\n{message}");
    }
    // What is judged is what is written, however others would read it.
    let outside_name = forbidden.path().file_name().unwrap().to_str().unwrap();
    for target in [
        format!("file://{}/..\\{outside_name}\\out.csv", allowed.path().display()),
        format!("file://{}/.\t./{outside_name}/out.csv", allowed.path().display()),
        format!(" file://{}/out.csv", forbidden.path().display()),
        format!("file:{}/out.csv", forbidden.path().display()),
    ] {
        let _ = harness::try_rows(&session, &format!("COPY (SELECT 1 AS a) TO '{target}'")).await;
        assert!(!forbidden.path().join("out.csv").exists(), "{target}");
    }
    rows(&session, &format!("COPY (SELECT 1 AS a) TO '{}/out.csv'", allowed.path().display())).await;
    assert!(allowed.path().join("out.csv").is_file());
    // Names whose letters mean something to others.
    let odd = allowed.path().join("a [1] %20ü");
    std::fs::create_dir(&odd).unwrap();
    rows(&session, &format!("SET allowed_directories = '{}'", allowed.path().display())).await;
    std::os::unix::fs::symlink(&odd, allowed.path().join("plain")).unwrap();
    rows(&session, &format!("COPY (SELECT 1 AS a) TO '{}/plain/out.csv'", allowed.path().display())).await;
    assert!(odd.join("out.csv").is_file());
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_over_files_are_of_the_kinds_that_obey_the_settings() {
    let folder = Folder::new();
    let sql = format!("CREATE EXTERNAL TABLE x (a TEXT) STORED AS ARROW LOCATION '{}/'", folder.path().display());
    assert!(harness::error(&session(), &sql).await.contains("expected one of NDJSON"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_configuration_cannot_be_changed() {
    let session = session();
    rows(&session, "SET memory_limit = '300MB'").await;
    rows(&session, "SET lock_configuration = true").await;
    for sql in [
        "SET thermocline.memory = '4GB'",
        "SET memory_limit = '4GB'",
        "SET lock_configuration = false",
        "SET allowed_directories = ''",
        "SET datafusion.execution.batch_size = 10",
        "RESET datafusion.execution.batch_size",
    ] {
        let message = harness::error(&session, sql).await;
        assert!(message.contains("locked"), "{sql}\n{message}");
    }
    assert_eq!(rows(&session, "SELECT 1").await, ["1"]);
}

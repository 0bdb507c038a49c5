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
    ];
    for sql in refused {
        let message = harness::error(&session, &sql).await;
        assert!(message.contains("not allowed"), "{sql}\n{message}");
    }
    rows(&session, &format!("COPY (SELECT 1 AS a) TO '{}/out.csv'", allowed.path().display())).await;
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

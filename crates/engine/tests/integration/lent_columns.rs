//! Items of one file's records and of its lists, which lend each other columns, give what the file gives.

use crate::caching::{decisions, listed_ndjson};
use crate::harness::{self, Folder, MIB, Random, rows};
use thermocline_engine::DatabaseOptions;

/// Records of several morsels, between which lie blank lines, and before which blanks.
fn straggling_ndjson(random: &mut Random) -> String {
    let mut text = String::new();
    for record in listed_ndjson(12_000).lines() {
        match random.below(8) {
            0 => text.push('\n'),
            1 => text.push_str("   \n\t\n"),
            2 => text.push_str("  "),
            3 => text.push_str("\r\n "),
            _ => {}
        }
        text.push_str(record.strip_suffix('}').unwrap());
        let filler = "x".repeat(random.below(400) as usize);
        text.push_str(&format!(",\"more\":{},\"filler\":\"{filler}\"}}\n", random.below(100)));
    }
    text
}

fn random_query(random: &mut Random, path: &str) -> String {
    let low = random.below(1000);
    let of_record = match random.below(5) {
        0 => format!("t.value BETWEEN {low} AND {}", low + random.below(500)),
        1 => format!("t.name = 'n{}'", low % 7),
        2 => format!("t.more < {}", low % 100),
        _ => "true".to_owned(),
    };
    let (select, list) = match random.below(4) {
        0 => ("count(*), count(d), sum(d), sum(t.id), sum(t.more)", ", UNNEST(t.s.l) AS d"),
        1 => ("count(i.n), max(t.name), sum(t.id)", ", UNNEST(t.items) AS i"),
        2 => ("sum(t.value), max(i.t), count(i.t), min(t.more)", ", UNNEST(t.items) AS i"),
        _ => ("count(*), sum(t.id), max(t.name), sum(t.more)", ""),
    };
    format!("SELECT {select} FROM '{path}' t{list} WHERE {of_record}")
}

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_of_records_and_of_two_lists_answer_the_same_however_much_is_kept() {
    let folder = Folder::new();
    let kept = folder.path().join("kept.db");
    let mut lent_count = 0;
    let path_of = |file: u64| folder.path().join(format!("{file}.ndjson"));
    for file in 1..=5 {
        std::fs::write(path_of(file), straggling_ndjson(&mut Random::new(file))).unwrap();
    }
    harness::settle();
    let configurations = [
        (1, 1, "none"),
        (2, 4, "none"),
        (3, 1, "300KiB"),
        (4, 2, "600KiB"),
        (5, 3, "1MiB"),
        // The maps of the last one are there.
        (5, 2, "none"),
        (5, 1, "none"),
    ];
    for (seed, (file, threads, cache_memory)) in (1..).zip(configurations) {
        let (mut random, path) = (Random::new(seed), path_of(file));
        let options = DatabaseOptions {
            memory_bytes: Some(256 * MIB),
            threads: Some(threads),
            folder: (file == 5).then(|| kept.clone()),
            ..DatabaseOptions::default()
        };
        let cached = harness::reopen(&options).session();
        let plain = harness::database(256 * MIB).session();
        rows(&cached, &format!("SET thermocline.cache_memory = '{cache_memory}'")).await;
        rows(&plain, "SET thermocline.cache = 'off'").await;
        for step in 0..30 {
            let sql = random_query(&mut random, &path.display().to_string());
            let context = format!("seed {seed}, {threads} threads, step {step}: {sql}");
            assert_eq!(rows(&cached, &sql).await, rows(&plain, &sql).await, "{context}");
        }
        assert_eq!(decisions(&cached, "invalidate").await, 0, "the file did not change");
        let lent = "SELECT count(*) FROM thermocline.decisions WHERE reason LIKE '%lends its columns'";
        lent_count += harness::integer(&cached, lent).await;
    }
    assert!(lent_count > 10, "{lent_count} scans were laid beside items of the same records");
}

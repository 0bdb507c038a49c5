//! Tables that are built for the keys alone that others' rows ask for, and `EXISTS` of another value: they answer what
//! operators answer.

use thermocline_engine::Session;

use crate::column_stars::{Comparison, database, make_star};
use crate::harness::{Folder, MIB, Random, rows};
use crate::pipelines_and_operators::{analyzed, both, is_fused};

/// A random query that looks for rows of the fact table, or takes texts of many rows along.
fn sieving_query(random: &mut Random) -> String {
    let own = *random.pick(&["o.a = 7", "o.tiny < 4", "o.kind LIKE '%3'", "o.day < DATE '1994-03-01'", "o.v = 12345"]);
    let other = *random.pick(&["i.flag", "i.v > 100", "i.kind = 'kind 3'", "i.share < i.ratio", "i.v = 12345", "true"]);
    let key = *random.pick(&["b", "a", "tiny", "m", "day"]);
    let value = *random.pick(&["v", "m", "a", "price", "count32", "day"]);
    let exists = *random.pick(&["EXISTS", "NOT EXISTS"]);
    let groups = *random.pick(&["o.tiny", "o.kind", "o.m", "o.town"]);
    let of_a = *random.pick(&["d.name = 'a2'", "d.grp < 3", "true"]);
    match random.below(7) {
        0 => format!(
            "SELECT {groups}, count(*), sum(o.v) FROM f o WHERE {own}
                AND {exists} (SELECT 1 FROM f i WHERE i.{key} = o.{key} AND i.{value} <> o.{value} AND {other}) GROUP BY {groups}"
        ),
        1 => format!(
            "SELECT {groups}, count(*) FROM f o JOIN a d ON o.a = d.k WHERE {of_a}
                AND EXISTS (SELECT 1 FROM f i WHERE i.{key} = o.{key} AND i.{value} <> o.{value})
                AND NOT EXISTS (SELECT 1 FROM f i WHERE i.{key} = o.{key} AND o.{value} <> i.{value} AND {other}) GROUP BY {groups}"
        ),
        2 => format!(
            "SELECT d.grp, count(*), min(d.name) FROM a d WHERE d.k < {} AND {exists} (SELECT 1 FROM f i WHERE i.a = d.k AND {other})
             GROUP BY d.grp",
            random.below(60)
        ),
        3 => format!(
            "SELECT l.name, count(*), sum(o.v) FROM f o JOIN l ON o.id % 9000 = l.k WHERE {own} GROUP BY l.name"
        ),
        4 => format!(
            "SELECT l.name, d.name, l.note, count(*), max(l.note) FROM l JOIN a d ON l.a = d.k JOIN f o ON o.l = l.k
             WHERE d.grp = {} AND l.weight < {} GROUP BY l.name, d.name, l.note",
            random.below(5),
            random.below(4000)
        ),
        5 => format!(
            "SELECT o.tiny, count(*), min(l.name), max(l.note) FROM f o JOIN l ON o.l = l.k WHERE l.weight < {} AND l.note > l.name
                AND l.name {} 'name 4' GROUP BY o.tiny",
            random.below(9000),
            random.pick(&["<", ">", "<>"])
        ),
        _ => format!(
            "SELECT count(*), sum(d.grp) FROM a d JOIN c ON d.c = c.k WHERE c.region = 'north'
                AND {exists} (SELECT 1 FROM f i WHERE i.a = d.k AND i.{} <> d.grp AND {other})",
            random.pick(&["tiny", "m", "v"])
        ),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_that_ask_for_few_keys_answer_the_same_with_and_without_pipelines() {
    let comparison = Comparison {
        queries: 160,
        queries_per_star: 40,
        fact_rows: [40, 900, 5000, 40_000],
        counted: "build keys of ",
    };
    let more_tables = async |session: &Session, random: &mut Random| {
        rows(session, "CREATE TABLE g AS SELECT *, CAST(id * 7919 % 13000 AS INT) AS l FROM f").await;
        rows(session, "DROP TABLE f").await;
        rows(session, "CREATE TABLE f AS SELECT * FROM g").await;
        // Names and notes are of more texts than are told apart in no time.
        let many = *random.pick(&[100, 12_000, 30_000]);
        rows(
            session,
            &format!(
                "CREATE TABLE l AS SELECT CAST(i AS INT) AS k, 'name ' || (i * 7 % {many}) AS name,
                    CASE WHEN i % 5 = 2 THEN NULL ELSE 'note ' || (i * i % 100003) || ' of many' END AS note,
                    CAST(i % 111 AS INT) AS a, CAST(i * 31 % 9000 AS INT) AS weight
                 FROM (SELECT value AS i FROM generate_series(1, {many}))"
            ),
        )
        .await;
    };
    let compared = comparison.run(more_tables, sieving_query).await;
    compared.tally.assert_fused(2);
    assert!(compared.counted * 6 > compared.tally.queries, "{compared:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_many_keys_are_asked_for_operators_take_over() {
    let folder = Folder::new();
    let session = database(folder.path(), 256 * MIB).session();
    make_star(&session, 2, 40_000).await;
    rows(&session, "CREATE TABLE o AS SELECT id AS k, tiny, v FROM f").await;
    rows(&session, "INSERT INTO f SELECT * FROM f WHERE id < 3").await;
    // What a join leaves is known when it was done.
    for (condition, fallbacks) in [("d.k = 3", "fallbacks=0"), ("d.grp < 5", "fallbacks=1")] {
        let sql = format!(
            "SELECT count(*), sum(o.v) FROM o JOIN a d ON o.tiny = d.k WHERE {condition}
                AND EXISTS (SELECT 1 FROM f WHERE f.id / 2 + f.id / 2 < 9 AND f.id = o.k)"
        );
        assert!(is_fused(&session, &sql).await, "{sql}");
        let analyzed = analyzed(&session, &sql).await;
        assert!(analyzed.contains(fallbacks), "{analyzed}");
        let (fused, stock) = both(&session, &sql).await;
        assert_eq!(fused, stock, "{sql}");
    }
    // What filters leave is expected beforehand.
    let asked = |tiny: &str| {
        format!("SELECT count(*) FROM o WHERE o.tiny {tiny} AND EXISTS (SELECT 1 FROM f WHERE f.id = o.k AND f.flag)")
    };
    assert!(is_fused(&session, &asked("= 1")).await);
    let plan = rows(&session, &format!("EXPLAIN {}", asked("BETWEEN 0 AND 7"))).await.join("\n");
    assert!(plan.contains("unfused=[f has more rows than o]"), "{plan}");
}

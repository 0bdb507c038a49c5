//! Our readers against DataFusion's own CSV and JSON readers, on random files.

use thermocline_engine::datafusion::prelude::{CsvReadOptions, JsonReadOptions, SessionContext};

use crate::harness::{self, Folder, Random, rendered, sorted_rows};

async fn stock(context: &SessionContext, sql: &str) -> Vec<String> {
    let mut rows = rendered(&context.sql(sql).await.unwrap().collect().await.unwrap());
    rows.sort();
    rows
}

/// A record per row: integer, double, text, boolean, each sometimes missing.
fn values(random: &mut Random) -> (Option<i64>, Option<f64>, Option<String>, Option<bool>) {
    let present = |random: &mut Random| random.below(8) != 0;
    (
        present(random).then(|| random.below(2000) as i64 - 1000),
        present(random).then(|| (random.below(4000) as f64 - 2000.0) / 8.0),
        present(random).then(|| format!("{}{}", random.pick(&["a", "b", "zé", "x y"]), random.below(20))),
        present(random).then(|| random.below(2) == 0),
    )
}

fn conditions(random: &mut Random) -> String {
    let low = random.below(2000) as i64 - 1000;
    match random.below(9) {
        0 => format!("i > {low}"),
        1 => format!("i BETWEEN {low} AND {}", low + 300),
        2 => format!("f <= {}.5 AND i <> {low}", low / 4),
        3 => format!("s = 'a{}'", random.below(20)),
        4 => format!("s IN ('a1', 'b2', 'zé{}')", random.below(20)),
        5 => "b".to_string(),
        6 => format!("NOT b AND i < {low}"),
        7 => format!("i IS NULL OR f > {low}"),
        _ => format!("s LIKE 'a%' AND i >= {low}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_answers_equal_those_of_datafusions_reader() {
    for seed in 1..=4 {
        let mut random = Random::new(seed);
        let mut text = String::from("i,f,s,b\n");
        for _ in 0..3000 {
            let (i, f, s, b) = values(&mut random);
            let s = s.map(|s| if random.below(5) == 0 { format!("\"{s}\"") } else { s });
            text.push_str(&format!(
                "{},{},{},{}\n",
                i.map_or(String::new(), |v| v.to_string()),
                f.map_or(String::new(), |v| format!("{v:?}")),
                s.unwrap_or_default(),
                b.map_or(String::new(), |v| v.to_string())
            ));
        }
        let folder = Folder::new();
        let path = folder.file("t.csv", text);
        let session = harness::session();
        let context = SessionContext::new();
        context.register_csv("t", path.to_str().unwrap(), CsvReadOptions::new()).await.unwrap();
        for _ in 0..20 {
            let condition = conditions(&mut random);
            let ours =
                sorted_rows(&session, &format!("SELECT i, f, s, b FROM '{}' WHERE {condition}", path.display())).await;
            let theirs = stock(&context, &format!("SELECT i, f, s, b FROM t WHERE {condition}")).await;
            assert_eq!(ours, theirs, "seed {seed}: {condition}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ndjson_answers_equal_those_of_datafusions_reader() {
    for seed in 1..=4 {
        let mut random = Random::new(seed);
        let mut text = String::new();
        for id in 0..3000 {
            let (i, f, s, b) = values(&mut random);
            let null = || "null".to_string();
            let mut fields = vec![
                ("i", i.map_or_else(null, |v| v.to_string())),
                ("f", f.map_or_else(null, |v| format!("{v:?}"))),
                ("s", s.map_or_else(null, |v| format!("\"{v}\""))),
                ("b", b.map_or_else(null, |v| v.to_string())),
                ("o", format!("{{\"x\":{id},\"y\":{{\"z\":\"q{}\"}}}}", id % 11)),
                ("l", format!("[{}]", (0..id % 4).map(|n| format!("{{\"n\":{n}}}")).collect::<Vec<_>>().join(","))),
            ];
            // Missing instead of null, and in another order.
            fields.retain(|(_, value)| value != "null" || random.below(2) == 0 || id < 5);
            if random.below(10) == 0 {
                fields.reverse();
            }
            let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            text.push_str(&format!("{{{}}}\n", fields.join(if id % 3 == 0 { ", " } else { "," })));
        }
        let folder = Folder::new();
        let path = folder.file("t.json", text);
        let session = harness::session();
        let context = SessionContext::new();
        context.register_json("t", path.to_str().unwrap(), JsonReadOptions::default()).await.unwrap();
        for _ in 0..20 {
            let condition = conditions(&mut random);
            let columns = *random.pick(&["i, f, s, b", "o, l", "o['x'], i", "o['y']['z'], f", "*"]);
            let columns = if columns == "*" { "b, f, i, l, o, s" } else { columns };
            let ours =
                sorted_rows(&session, &format!("SELECT {columns} FROM '{}' WHERE {condition}", path.display())).await;
            let theirs = stock(&context, &format!("SELECT {columns} FROM t WHERE {condition}")).await;
            assert_eq!(ours, theirs, "seed {seed}: {columns} WHERE {condition}");
        }
        let unnested = "SELECT i, e['n'] FROM (SELECT i, unnest(l) AS e FROM {}) WHERE e['n'] > 0 AND i > 0";
        let ours = sorted_rows(&session, &unnested.replace("{}", &format!("'{}'", path.display()))).await;
        assert_eq!(ours, stock(&context, &unnested.replace("{}", "t")).await, "seed {seed}");
    }
}

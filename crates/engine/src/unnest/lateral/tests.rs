//! Answers of correlated UNNESTs against answers written by hand and against UNNEST in the SELECT list.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, Int64Array, Int64Builder, ListArray, ListBuilder, RecordBatch, StringArray, StructArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::optimizer::{Analyzer, Optimizer};
use datafusion::prelude::{SessionConfig, SessionContext};

use super::{find_correlated_unnest, install_analyzer, install_optimizer};
use crate::logical_rules::wrong_keys::ForgetWrongKeys;
use crate::unnest::relation::UnnestRelationPlanner;

/// One list value: NULL, or its elements.
type Items = Option<Vec<(i64, &'static str, Option<Vec<i64>>)>>;

fn numbers(rows: &[Option<Vec<i64>>]) -> ListArray {
    let mut builder = ListBuilder::new(Int64Builder::new());
    for row in rows {
        match row {
            Some(values) => builder.append_value(values.iter().copied().map(Some)),
            None => builder.append_null(),
        }
    }
    builder.finish()
}

/// List<Struct<q: Int64, name: Utf8, tags: List<Int64>>>
fn items(rows: &[Items]) -> ListArray {
    let flat: Vec<_> = rows.iter().flatten().flatten().cloned().collect();
    let tags = numbers(&flat.iter().map(|(_, _, tags)| tags.clone()).collect::<Vec<_>>());
    let fields = Fields::from(vec![
        Field::new("q", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
        Field::new("tags", tags.data_type().clone(), true),
    ]);
    let elements = StructArray::new(
        fields.clone(),
        vec![
            Arc::new(Int64Array::from_iter_values(flat.iter().map(|(q, _, _)| *q))),
            Arc::new(StringArray::from_iter_values(flat.iter().map(|(_, name, _)| *name))),
            Arc::new(tags),
        ],
        None,
    );
    ListArray::new(
        Arc::new(Field::new("item", DataType::Struct(fields), true)),
        OffsetBuffer::from_lengths(rows.iter().map(|row| row.as_ref().map_or(0, Vec::len))),
        Arc::new(elements),
        Some(NullBuffer::from_iter(rows.iter().map(Option::is_some))),
    )
}

fn table(columns: Vec<(&str, Arc<dyn Array>)>) -> Arc<MemTable> {
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
            .unwrap();
    Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap())
}

/// `t(id, items, n, s)`, `s` being a struct around another list; `u(k, label)`.
fn context() -> SessionContext {
    let mut analyzer = Analyzer::new();
    install_analyzer(&mut analyzer.rules);
    let mut optimizer = Optimizer::new();
    ForgetWrongKeys::install_into(&mut optimizer.rules);
    install_optimizer(&mut optimizer.rules);
    let state = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_target_partitions(3))
        .with_default_features()
        .with_analyzer_rules(analyzer.rules)
        .with_optimizer_rules(optimizer.rules)
        .with_relation_planners(vec![Arc::new(UnnestRelationPlanner)])
        .build();
    let context = SessionContext::new_with_state(state);
    let deep = numbers(&[Some(vec![7]), Some(vec![]), None, Some(vec![8, 9])]);
    let s = StructArray::new(
        Fields::from(vec![Field::new("deep", deep.data_type().clone(), true)]),
        vec![Arc::new(deep)],
        None,
    );
    let t = table(vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3, 4]))),
        (
            "items",
            Arc::new(items(&[
                Some(vec![(1, "a", Some(vec![10, 11])), (5, "b", Some(vec![]))]),
                Some(vec![]),
                None,
                Some(vec![(9, "c", None), (2, "a", Some(vec![12]))]),
            ])),
        ),
        ("n", Arc::new(numbers(&[Some(vec![1, 2]), Some(vec![3]), None, Some(vec![])]))),
        ("s", Arc::new(s)),
    ]);
    context.register_table("t", t).unwrap();
    let u = table(vec![
        ("k", Arc::new(Int64Array::from(vec![1, 2, 9]))),
        ("label", Arc::new(StringArray::from(vec!["one", "two", "nine"]))),
    ]);
    context.register_table("u", u).unwrap();
    context
}

async fn try_run(context: &SessionContext, sql: &str) -> Result<String, String> {
    let frame = context.sql(sql).await.map_err(|error| error.to_string())?;
    let batches = frame.collect().await.map_err(|error| error.to_string())?;
    Ok(pretty_format_batches(&batches).unwrap().to_string())
}

async fn run(sql: &str) -> String {
    try_run(&context(), sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Rows as `a|b|c`, sorted.
async fn rows(sql: &str) -> Vec<String> {
    let table = run(sql).await;
    let mut rows: Vec<String> = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(1)
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>().join("|"))
        .collect();
    rows.sort();
    rows
}

async fn assert_same(left: &str, right: &str) {
    assert_eq!(rows(left).await, rows(right).await, "{left}\n  and\n{right}");
}

const ITEMS: [&str; 4] = ["1|1|a", "1|5|b", "4|2|a", "4|9|c"];

#[tokio::test]
async fn every_way_to_write_the_join_gives_the_same_rows() {
    for from in [
        "t, UNNEST(t.items) AS i",
        "t, UNNEST(items) AS i",
        "t, UNNEST(t.items) i",
        "t CROSS JOIN UNNEST(t.items) AS i",
        "t CROSS JOIN LATERAL UNNEST(t.items) AS i",
        "t JOIN UNNEST(t.items) AS i ON true",
        "t INNER JOIN LATERAL (SELECT unnest(t.items) AS i) AS i ON true",
        "t, LATERAL (SELECT * FROM UNNEST(t.items) AS j) AS i(i)",
        "(t CROSS JOIN UNNEST(t.items) AS i)",
        "t, UNNEST(t.items) AS \"i\"",
    ] {
        assert_eq!(rows(&format!("SELECT t.id, i.q, i.name FROM {from}")).await, ITEMS, "{from}");
    }
}

#[tokio::test]
async fn an_element_resolves_as_a_column_by_field_and_by_subscript() {
    for select in
        ["id, i.q, i.name", "id, i['q'], i['name']", "t.id, i.i.q, i.i['name']", "id, get_field(i, 'q'), i.name"]
    {
        assert_eq!(rows(&format!("SELECT {select} FROM t, UNNEST(t.items) AS i")).await, ITEMS, "{select}");
    }
    assert_eq!(rows("SELECT id, i FROM t, UNNEST(t.n) AS i").await, ["1|1", "1|2", "2|3"]);
    assert_eq!(rows("SELECT id, i.x + 1 FROM t, UNNEST(t.n) AS i(x)").await, ["1|2", "1|3", "2|4"]);
    assert_eq!(rows("SELECT id, x.q, name FROM t, UNNEST(t.items) AS i(x), u AS v(k, name)").await.len(), 12);
}

#[tokio::test]
async fn without_an_alias_the_column_is_called_unnest() {
    assert_eq!(rows("SELECT id, unnest.q, unnest['name'] FROM t, UNNEST(t.items)").await, ITEMS);
    assert_eq!(rows("SELECT unnest FROM UNNEST([4, 5])").await, ["4", "5"]);
    assert_eq!(rows("SELECT x + 1 FROM UNNEST([4, 5]) AS x").await, ["5", "6"]);
}

#[tokio::test]
async fn a_star_names_the_columns_of_both_sides_in_order() {
    let context = context();
    for (sql, names) in [
        ("SELECT * FROM t, UNNEST(t.n) AS i", vec!["id", "items", "n", "s", "i"]),
        ("SELECT * FROM t, UNNEST(t.n) AS i(x)", vec!["id", "items", "n", "s", "x"]),
        ("SELECT * FROM t, UNNEST(t.n)", vec!["id", "items", "n", "s", "unnest"]),
        ("SELECT i.* FROM t, UNNEST(t.n) AS i", vec!["i"]),
        ("SELECT t.* FROM t LEFT JOIN UNNEST(t.n) AS i ON true", vec!["id", "items", "n", "s"]),
        (
            "SELECT * FROM u, t AS o, UNNEST(o.n) AS i, UNNEST(o.items) AS j",
            vec!["k", "label", "id", "items", "n", "s", "i", "j"],
        ),
    ] {
        let frame = context.sql(sql).await.unwrap();
        let planned: Vec<_> = frame.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(planned, names, "{sql}");
        let batches = frame.collect().await.unwrap();
        let collected: Vec<_> = batches[0].schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(collected, names, "{sql}");
    }
}

#[tokio::test]
async fn a_later_unnest_may_open_what_an_earlier_one_gave() {
    let expected = ["1|1|10", "1|1|11", "4|2|12"];
    for from in [
        "t, UNNEST(t.items) AS x, UNNEST(x.tags) AS y",
        "t, UNNEST(t.items) AS x, UNNEST(x['tags']) AS y",
        "t, UNNEST(t.items) AS x(e), UNNEST(x.e.tags) AS y",
        "t, UNNEST(t.items) AS x(e), UNNEST(e.tags) AS y",
        "t CROSS JOIN UNNEST(t.items) AS x CROSS JOIN UNNEST(x.tags) AS y",
        "t, LATERAL (SELECT x, y FROM UNNEST(t.items) AS x, UNNEST(x.tags) AS y) AS z(x, y)",
    ] {
        let element = if from.contains("x(e)") { "x.e" } else { "x" };
        assert_eq!(rows(&format!("SELECT t.id, {element}['q'], y FROM {from}")).await, expected, "{from}");
    }
}

#[tokio::test]
async fn a_list_inside_a_struct_may_be_named_by_its_path() {
    let expected = ["1|7", "4|8", "4|9"];
    for argument in ["t.s.deep", "s.deep", "t.s['deep']", "s['deep']"] {
        assert_eq!(rows(&format!("SELECT id, d FROM t, UNNEST({argument}) AS d")).await, expected, "{argument}");
    }
}

#[tokio::test]
async fn the_list_may_be_computed_from_several_columns_of_several_tables() {
    assert_eq!(
        rows("SELECT id, x FROM t, u, UNNEST(array_append(t.n, u.k)) AS x WHERE u.k = 9").await,
        ["1|1", "1|2", "1|9", "2|3", "2|9", "3|9", "4|9"]
    );
}

#[tokio::test]
async fn an_unnest_may_name_any_table_before_it() {
    let expected = ["one|1|1", "one|1|5", "one|4|2", "one|4|9"];
    for from in [
        "u, t, UNNEST(t.items) AS i",
        "t, u, UNNEST(t.items) AS i",
        "t, u CROSS JOIN UNNEST(t.items) AS i",
        "t, (u CROSS JOIN UNNEST(t.items) AS i)",
        "t, UNNEST(t.items) AS i, u",
        "t, UNNEST(t.items) AS i CROSS JOIN u",
    ] {
        let sql = format!("SELECT u.label, t.id, i.q FROM {from} WHERE u.k = 1");
        assert_eq!(rows(&sql).await, expected, "{from}");
    }
    // Two levels up: the second list hangs on the first, which hangs on a table two items before.
    assert_eq!(
        rows("SELECT k, id, y FROM t, u CROSS JOIN UNNEST(t.items) AS x CROSS JOIN UNNEST(x.tags) AS y WHERE k = 2")
            .await,
        ["2|1|10", "2|1|11", "2|4|12"]
    );
}

#[tokio::test]
async fn aliased_tables_and_derived_tables_are_named_by_their_alias() {
    assert_eq!(rows("SELECT o.id, i.q, i.name FROM t AS o, UNNEST(o.items) i").await, ITEMS);
    assert_eq!(
        rows("SELECT o.no, i.q, i.name FROM (SELECT id AS no, items AS list FROM t) o, UNNEST(o.list) i").await,
        ITEMS
    );
    assert_eq!(
        rows("WITH o AS (SELECT * FROM t WHERE id > 1) SELECT o.id, i.q FROM o, UNNEST(o.items) i").await,
        ["4|2", "4|9"]
    );
}

#[tokio::test]
async fn filters_on_either_side_and_join_conditions_hold() {
    assert_eq!(rows("SELECT id, i.q FROM t, UNNEST(t.items) AS i WHERE i.q > 2 AND id < 4").await, ["1|5"]);
    assert_eq!(rows("SELECT id, i.q FROM t JOIN UNNEST(t.items) AS i ON i.q > t.id").await, ["1|5", "4|9"]);
    assert_eq!(rows("SELECT id FROM t JOIN UNNEST(t.n) AS i(id) USING (id)").await, ["1"]);
    assert_eq!(
        rows("SELECT id, label FROM t, UNNEST(t.items) AS i JOIN u ON u.k = i.q").await,
        ["1|one", "4|nine", "4|two"]
    );
    assert_eq!(
        rows("SELECT id, z.d FROM t, LATERAL (SELECT i.q * 2 AS d FROM UNNEST(t.items) AS i WHERE i.q > t.id) z").await,
        ["1|10", "4|18"]
    );
    assert_eq!(
        rows("SELECT id, z.label FROM t, LATERAL (SELECT u.label FROM UNNEST(t.items) AS i JOIN u ON u.k = i.q) z")
            .await,
        ["1|one", "4|nine", "4|two"]
    );
    assert_eq!(
        rows(
            "SELECT id, z.q, z.label FROM t, \
             LATERAL (SELECT i.q AS q, u.label FROM UNNEST(t.items) AS i LEFT JOIN u ON u.k = i.q) z"
        )
        .await,
        ["1|1|one", "1|5|", "4|2|two", "4|9|nine"]
    );
}

#[tokio::test]
async fn a_left_join_keeps_rows_with_null_and_empty_lists() {
    for from in [
        "t LEFT JOIN UNNEST(t.items) AS i ON true",
        "t LEFT OUTER JOIN LATERAL UNNEST(t.items) AS i ON true",
        "t LEFT JOIN LATERAL (SELECT unnest(t.items) AS i) AS i ON true",
    ] {
        assert_eq!(
            rows(&format!("SELECT t.id, i.q, i.name FROM {from}")).await,
            ["1|1|a", "1|5|b", "2||", "3||", "4|2|a", "4|9|c"],
            "{from}"
        );
    }
    assert_eq!(
        rows("SELECT id, z.d FROM t LEFT JOIN LATERAL (SELECT i + 1 AS d FROM UNNEST(t.n) AS i) z ON true").await,
        ["1|2", "1|3", "2|4", "3|", "4|"]
    );
    assert_eq!(rows("SELECT id FROM t LEFT JOIN UNNEST(t.items) AS i ON true WHERE i.q IS NULL").await, ["2", "3"]);
    assert_eq!(rows("SELECT id, i.q FROM t LEFT JOIN UNNEST(t.items) AS i ON true WHERE i.q > 1").await.len(), 3);
}

#[tokio::test]
async fn it_answers_as_unnest_in_the_select_list_does() {
    assert_same(
        "SELECT id, i.q, i.name FROM t, UNNEST(t.items) AS i",
        "SELECT id, i.q, i.name FROM (SELECT id, unnest(items) AS i FROM t)",
    )
    .await;
    assert_same(
        "SELECT i.name, count(*), sum(i.q) FROM t, UNNEST(t.items) AS i GROUP BY i.name HAVING count(*) > 0",
        "SELECT i.name, count(*), sum(i.q) FROM (SELECT unnest(items) AS i FROM t) GROUP BY i.name",
    )
    .await;
    assert_same("SELECT * FROM t, UNNEST(t.items) AS i", "SELECT *, unnest(items) AS i FROM t").await;
    assert_same(
        "SELECT id FROM t, UNNEST(t.n) AS i ORDER BY i DESC LIMIT 1",
        "SELECT id FROM (SELECT id, unnest(n) AS i FROM t) ORDER BY i DESC LIMIT 1",
    )
    .await;
    assert_same(
        "SELECT a.id, i.q FROM t a JOIN (SELECT b.id, i FROM t b, UNNEST(b.items) i) c ON a.id = c.id",
        "SELECT id, i.q FROM (SELECT id, unnest(items) AS i FROM t)",
    )
    .await;
    assert_same(
        "SELECT id, a, b FROM t, UNNEST(t.n, t.s['deep']) AS x(a, b)",
        "SELECT id, unnest(n) AS a, unnest(s['deep']) AS b FROM t",
    )
    .await;
}

#[tokio::test]
async fn it_works_in_subqueries_unions_views_and_prepared_statements() {
    assert_eq!(rows("SELECT k FROM u WHERE k IN (SELECT i.q FROM t, UNNEST(t.items) AS i)").await, ["1", "2", "9"]);
    assert_eq!(
        rows("SELECT k FROM u WHERE EXISTS (SELECT 1 FROM t, UNNEST(t.items) AS i WHERE i.q > 8 AND t.id = u.k)").await,
        Vec::<String>::new()
    );
    assert_eq!(rows("SELECT (SELECT max(i.q) FROM t, UNNEST(t.items) AS i)").await, ["9"]);
    assert_eq!(
        rows("SELECT i FROM t, UNNEST(t.n) i UNION ALL SELECT d FROM t, UNNEST(t.s['deep']) d").await,
        ["1", "2", "3", "7", "8", "9"]
    );
    let context = context();
    context.sql("CREATE VIEW v AS SELECT t.id, i.q AS q FROM t, UNNEST(t.items) AS i").await.unwrap();
    assert!(try_run(&context, "SELECT * FROM v WHERE q = 9").await.unwrap().contains("| 4  | 9 |"));
    context.sql("PREPARE p(BIGINT) AS SELECT t.id FROM t, UNNEST(t.items) AS i WHERE i.q = $1").await.unwrap();
    assert!(try_run(&context, "EXECUTE p(5)").await.unwrap().contains("| 1  |"));
    context.sql("CREATE TABLE c AS SELECT t.id, i.q AS q FROM t, UNNEST(t.items) AS i").await.unwrap();
    assert!(try_run(&context, "SELECT count(*) AS c FROM c").await.unwrap().contains("| 4 |"));
}

#[tokio::test]
async fn a_list_may_be_computed_of_an_outer_row_further_down() {
    assert_eq!(
        rows(
            "SELECT t.id, z.x FROM t, \
             LATERAL (SELECT unnest(s.l) AS x FROM (SELECT array_append(t.n, t.id) AS l) AS s WHERE t.id < 3) AS z"
        )
        .await,
        ["1|1", "1|1", "1|2", "2|2", "2|3"]
    );
    let sql = "SELECT t.id, z.x FROM t, LATERAL (SELECT unnest(s.l) AS x FROM (SELECT array_agg(t.id) AS l) AS s) AS z";
    let error = try_run(&context(), sql).await.unwrap_err();
    assert!(!error.to_lowercase().contains("internal error"), "{error}");
}

#[tokio::test]
async fn columns_that_are_made_of_one_another_are_followed_once_each() {
    // Two columns, both made of both before, forty times over: 2^40 ways down, past a reference that is of no use.
    let mut sql =
        "WITH a0 AS (SELECT id AS x, id + 1 AS y FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.id))".to_owned();
    for number in 1..=40 {
        sql.push_str(&format!(", a{number} AS (SELECT x + y AS x, x - y AS y FROM a{})", number - 1));
    }
    sql.push_str(" SELECT unnest(make_array(x, y)) FROM a40");
    let plan = context().state().create_logical_plan(&sql).await.unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(find_correlated_unnest(&plan).unwrap()));
    assert_eq!(receiver.recv_timeout(std::time::Duration::from_secs(60)).unwrap(), None);
}

#[tokio::test]
async fn a_volatile_value_that_is_read_twice_is_one() {
    let answer = rows(
        "SELECT id, i, a = b, a >= 0 FROM t, \
         LATERAL (SELECT i, x AS a, x AS b FROM (SELECT i, random() AS x FROM UNNEST(t.n) AS i) AS y) AS z",
    )
    .await;
    assert_eq!(answer, ["1|1|true|true", "1|2|true|true", "2|3|true|true"]);
}

#[tokio::test]
async fn a_column_called_like_the_alias_does_not_get_mixed_up() {
    assert_eq!(rows("SELECT t.n, n.n FROM t, UNNEST(t.n) AS n WHERE t.id = 2").await, ["[3]|3"]);
    assert_eq!(
        rows("SELECT t.id, z.id FROM t, LATERAL (SELECT t.id FROM UNNEST(t.n) AS t(id)) AS z").await,
        ["1|1", "1|2", "2|3"]
    );
    assert_eq!(
        rows("SELECT a.id, b.id, i FROM t a, t b, UNNEST(b.n) AS i WHERE a.id = 4").await,
        ["4|1|1", "4|1|2", "4|2|3"]
    );
}

#[tokio::test]
async fn a_key_is_no_key_after_unnesting() {
    let context = context();
    context.sql("CREATE TABLE keyed (id BIGINT PRIMARY KEY, n BIGINT[])").await.unwrap().collect().await.unwrap();
    context.sql("INSERT INTO keyed VALUES (1, [1, 2, 2])").await.unwrap().collect().await.unwrap();
    context.sql("CREATE VIEW unnested AS SELECT id, unnest(n) AS i FROM keyed").await.unwrap();
    let grouped = "(SELECT id, array_agg(x) AS n FROM (VALUES (1, 1), (1, 2), (1, 2)) AS v(id, x) GROUP BY id) AS g";
    for from in [
        "(SELECT id, unnest(n) AS i FROM keyed)".to_owned(),
        "keyed, UNNEST(keyed.n) AS i".to_owned(),
        format!("(SELECT id, unnest(n) AS i FROM {grouped})"),
        format!("{grouped}, UNNEST(g.n) AS i"),
        "unnested".to_owned(),
        "(SELECT * FROM (SELECT * FROM unnested AS a) AS b WHERE i > 0) AS c".to_owned(),
        "(WITH w AS (SELECT id, unnest(n) AS i FROM keyed) SELECT * FROM w) AS c".to_owned(),
        "(SELECT id, unnest(n) AS i FROM keyed) AS c CROSS JOIN (VALUES (7)) AS one(x)".to_owned(),
        "(VALUES (7)) AS one(x) CROSS JOIN LATERAL (SELECT id, unnest(n) AS i FROM keyed) AS c".to_owned(),
    ] {
        for (select, row_count) in [
            (format!("SELECT DISTINCT id FROM {from}"), 1),
            (format!("SELECT DISTINCT id, i FROM {from}"), 2),
            (format!("SELECT count(*) FROM {from} GROUP BY id, i"), 2),
            (format!("SELECT id, count(*) FROM {from} GROUP BY id"), 1),
            (format!("SELECT id FROM {from} GROUP BY id HAVING count(*) = 3"), 1),
            (format!("SELECT DISTINCT sum(i) OVER (ORDER BY id) FROM {from}"), 1),
            (format!("WITH named AS (SELECT id, i FROM {from}) SELECT id, count(*) FROM named GROUP BY id"), 1),
            (format!("SELECT k FROM (VALUES (1)) AS w(k) LEFT JOIN (SELECT id FROM {from}) AS z ON z.id = w.k"), 3),
        ] {
            let answer = try_run(&context, &select).await.unwrap_or_else(|error| panic!("{select}: {error}"));
            assert_eq!(answer.lines().count(), row_count + 4, "{select}\n{answer}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_rewritten_is_refused_with_the_reason() {
    for sql in [
        "SELECT id FROM t LEFT JOIN UNNEST(t.items) AS i ON i.q > 2",
        "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM UNNEST(t.items) AS i WHERE i.q > 2)",
        "SELECT id, (SELECT sum(i.q) FROM UNNEST(t.items) AS i) FROM t",
        "SELECT id, z.s FROM t, LATERAL (SELECT sum(i.q) AS s FROM UNNEST(t.items) AS i) z",
        "SELECT id, z.d FROM t LEFT JOIN LATERAL (SELECT coalesce(i, 0) AS d FROM UNNEST(t.n) AS i) z ON true",
        "SELECT id, y FROM t LEFT JOIN LATERAL (SELECT y FROM UNNEST(t.items) x, UNNEST(x.tags) y) z ON true",
        "SELECT t.id, z.i, z.k FROM t LEFT JOIN LATERAL (SELECT unnest(t.n) AS i, t.id AS k, 1 AS one) AS z ON true",
        "SELECT id, z.d FROM t LEFT JOIN LATERAL (SELECT i IS DISTINCT FROM 5 AS d FROM UNNEST(t.n) AS i) z ON true",
        "SELECT id, z.x FROM t LEFT JOIN LATERAL (SELECT unnest(unnest(make_array(t.n))) AS x) z ON true",
    ] {
        let error = try_run(&context(), sql).await.unwrap_err();
        assert!(error.contains("UNNEST(") && error.contains("not supported"), "{sql}: {error}");
    }
    let error = try_run(&context(), "SELECT * FROM t, UNNEST(t.nothing) AS i").await.unwrap_err();
    assert!(error.contains("nothing"), "{error}");
}

#[tokio::test]
async fn plans_without_a_correlated_unnest_are_left_alone() {
    let plan = run("EXPLAIN SELECT unnest(n) FROM t").await;
    assert!(plan.contains("UnnestExec") && !plan.contains("__lateral"), "{plan}");
}

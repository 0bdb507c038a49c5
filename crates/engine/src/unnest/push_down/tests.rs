//! Plans and answers of UNNEST over a table that can unnest while it scans, against one that cannot.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, StringArray, StructArray, UInt32Array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{filter_record_batch, take};
use datafusion::arrow::datatypes::{Fields, Schema, SchemaRef};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{TableProviderFilterPushDown, TableType};
use datafusion::optimizer::{Analyzer, Optimizer};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::*;
use crate::unnest::lateral::install_analyzer;
use crate::unnest::relation::UnnestRelationPlanner;

/// A table in memory that unnests by itself and applies every filter it is given.
#[derive(Debug)]
struct Unnesting {
    records: RecordBatch,
    list: Option<FieldPath>,
    scanned_rows: Arc<AtomicUsize>,
}

impl Unnesting {
    const ELEMENT: &str = "one_of";

    fn unnest(&self, list: &FieldPath) -> Option<(Arc<Self>, String)> {
        if self.list.is_some() {
            return None;
        }
        let table = Self {
            list: Some(list.clone()),
            records: self.records.clone(),
            scanned_rows: Arc::clone(&self.scanned_rows),
        };
        Some((Arc::new(table), Self::ELEMENT.to_owned()))
    }

    fn list_values(&self, list: &FieldPath) -> ListArray {
        let (first, rest) = list.parts().split_first().unwrap();
        let column = Arc::clone(self.records.column_by_name(first).unwrap());
        let values =
            rest.iter().fold(column, |array, name| Arc::clone(array.as_struct().column_by_name(name).unwrap()));
        values.as_list::<i32>().clone()
    }

    fn rows(&self) -> RecordBatch {
        let Some(list) = &self.list else {
            return self.records.clone();
        };
        let values = self.list_values(list);
        let mut records = vec![];
        let mut elements = vec![];
        for row in 0..values.len() {
            if values.is_valid(row) {
                for index in values.value_offsets()[row]..values.value_offsets()[row + 1] {
                    records.push(u32::try_from(row).unwrap());
                    elements.push(u32::try_from(index).unwrap());
                }
            }
        }
        let records = UInt32Array::from(records);
        let mut columns: Vec<ArrayRef> =
            self.records.columns().iter().map(|column| take(column, &records, None).unwrap()).collect();
        columns.push(take(values.values(), &UInt32Array::from(elements), None).unwrap());
        RecordBatch::try_new(self.schema(), columns).unwrap()
    }
}

#[async_trait]
impl TableProvider for Unnesting {
    fn schema(&self) -> SchemaRef {
        let mut fields = self.records.schema().fields().to_vec();
        if let Some(list) = &self.list {
            let element = self.list_values(list).value_type();
            fields.push(Arc::new(Field::new(Self::ELEMENT, element, true)));
        }
        Arc::new(Schema::new(fields))
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Exact; filters.len()])
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut rows = self.rows();
        if let Some(list) = &self.list {
            // A real one does not produce the list that it unnests.
            let index = self.schema().index_of(&list.parts()[0])?;
            assert!(
                list.len() > 1 || projection.is_some_and(|projection| !projection.contains(&index)),
                "{list} is read"
            );
        }
        if let Some(predicate) = conjunction(filters.to_vec()) {
            let predicate = session.create_physical_expr(predicate, &DFSchema::try_from(self.schema())?)?;
            let passing = predicate.evaluate(&rows)?.into_array(rows.num_rows())?;
            rows = filter_record_batch(&rows, passing.as_boolean())?;
        }
        if let Some(limit) = limit {
            rows = rows.slice(0, limit.min(rows.num_rows()));
        }
        self.scanned_rows.fetch_add(rows.num_rows(), Ordering::Relaxed);
        MemTable::try_new(self.schema(), vec![vec![rows]])?.scan(session, projection, &[], None).await
    }
}

fn unnest_test_table(table: &dyn TableProvider, list: &FieldPath) -> Option<(Arc<dyn TableProvider>, String)> {
    let (table, name) = table.downcast_ref::<Unnesting>()?.unnest(list)?;
    Some((table, name))
}

fn list(rows: &[Option<Vec<i64>>]) -> ArrayRef {
    let rows = rows.iter().map(|row| row.as_ref().map(|row| row.iter().copied().map(Some).collect::<Vec<_>>()));
    Arc::new(ListArray::from_iter_primitive::<datafusion::arrow::datatypes::Int64Type, _, _>(rows))
}

/// `t(id, name, items: [{q, tags: [..]}], n: [..], s: {label, deep: [..]})`
fn records() -> RecordBatch {
    let tags = list(&[Some(vec![10, 11]), Some(vec![]), None, Some(vec![12]), Some(vec![13])]);
    let item_fields =
        Fields::from(vec![Field::new("q", DataType::Int64, true), Field::new("tags", tags.data_type().clone(), true)]);
    let items =
        StructArray::new(item_fields.clone(), vec![Arc::new(Int64Array::from(vec![1, 5, 9, 2, 4])), tags], None);
    let items = ListArray::new(
        Arc::new(Field::new("item", DataType::Struct(item_fields), true)),
        OffsetBuffer::from_lengths([2, 0, 0, 3]),
        Arc::new(items),
        Some(NullBuffer::from(vec![true, true, false, true])),
    );
    let deep = list(&[Some(vec![7]), Some(vec![]), None, Some(vec![8, 9])]);
    let s = StructArray::new(
        Fields::from(vec![
            Field::new("label", DataType::Utf8, true),
            Field::new("deep", deep.data_type().clone(), true),
        ]),
        vec![Arc::new(StringArray::from(vec!["w", "x", "y", "z"])), deep],
        None,
    );
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3, 4]))),
        ("name", Arc::new(StringArray::from(vec!["a", "b", "c", "d"]))),
        ("items", Arc::new(items)),
        ("n", list(&[Some(vec![1, 2]), Some(vec![3]), None, Some(vec![])])),
        ("s", Arc::new(s)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

struct Fixture {
    context: SessionContext,
    /// The same table without the rule.
    plain: SessionContext,
    scanned_rows: Arc<AtomicUsize>,
}

impl Fixture {
    fn new() -> Self {
        let context = |with_rule: bool| {
            let mut analyzer = Analyzer::new();
            install_analyzer(&mut analyzer.rules);
            let mut optimizer = Optimizer::new();
            if with_rule {
                PushUnnestIntoScan::new(unnest_test_table).install_into(&mut optimizer.rules);
            }
            let mut config = SessionConfig::new().with_target_partitions(2);
            config.options_mut().optimizer.skip_failed_rules = false;
            SessionContext::new_with_state(
                SessionStateBuilder::new()
                    .with_config(config)
                    .with_default_features()
                    .with_analyzer_rules(analyzer.rules)
                    .with_optimizer_rules(optimizer.rules)
                    .with_relation_planners(vec![Arc::new(UnnestRelationPlanner)])
                    .build(),
            )
        };
        let (pushing, plain) = (context(true), context(false));
        let scanned_rows = Arc::new(AtomicUsize::new(0));
        let table = Unnesting { records: records(), list: None, scanned_rows: Arc::clone(&scanned_rows) };
        pushing.register_table("t", Arc::new(table)).unwrap();
        plain
            .register_table("t", Arc::new(MemTable::try_new(records().schema(), vec![vec![records()]]).unwrap()))
            .unwrap();
        Self { context: pushing, plain, scanned_rows }
    }

    async fn plan(&self, sql: &str) -> String {
        let plan = self.context.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        plan.into_optimized_plan().unwrap_or_else(|error| panic!("{sql}: {error}")).display_indent().to_string()
    }

    /// The answer, which must be that of the plain table, names and order of columns included.
    async fn rows(&self, sql: &str) -> Vec<String> {
        let mut answers = vec![];
        for context in [&self.context, &self.plain] {
            let frame = context.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            let schema = Arc::new(frame.schema().as_arrow().clone());
            let batches = frame.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert!(batches.iter().all(|batch| batch.schema().fields() == schema.fields()), "{sql}");
            let table = pretty_format_batches(&batches).unwrap().to_string();
            let mut rows: Vec<String> = table.lines().filter(|line| line.starts_with('|')).map(str::to_owned).collect();
            rows.sort();
            answers.push((schema, rows));
        }
        assert_eq!(answers[0], answers[1], "{sql}");
        answers.swap_remove(0).1
    }

    async fn assert_pushed(&self, sql: &str) -> String {
        let plan = self.plan(sql).await;
        assert!(!plan.contains("Unnest:"), "{sql}\n{plan}");
        self.rows(sql).await;
        plan
    }

    async fn assert_kept(&self, sql: &str) {
        let plan = self.plan(sql).await;
        assert!(plan.contains("Unnest:") && !plan.contains(Unnesting::ELEMENT), "{sql}\n{plan}");
        self.rows(sql).await;
    }
}

#[tokio::test]
async fn an_unnest_over_the_table_becomes_a_scan_of_elements() {
    let fixture = Fixture::new();
    for sql in [
        "SELECT unnest(n) FROM t",
        "SELECT id, unnest(n) AS x, name FROM t",
        "SELECT unnest(n) + 1 FROM t",
        "SELECT id, unnest(items) AS i FROM t",
        "SELECT id, i['q'] FROM (SELECT id, unnest(items) AS i FROM t)",
        "SELECT o.id, upper(o.name), unnest(o.n) FROM t AS o",
        "SELECT count(*) FROM (SELECT unnest(n) FROM t)",
        "SELECT id, unnest(n) AS x FROM t WHERE id > 1 AND name <> 'c'",
        "SELECT id, unnest(l) AS x FROM (SELECT id, n AS l FROM t WHERE id < 3) WHERE id > 1",
        "WITH c AS (SELECT id, unnest(items) AS i FROM t) SELECT sum(i['q']) FROM c GROUP BY id",
        "SELECT t.id, i.q FROM t, UNNEST(t.items) AS i",
        "SELECT t.id, i FROM t CROSS JOIN UNNEST(t.n) AS i WHERE i > 1",
        "SELECT a.id, b.i FROM t a JOIN (SELECT id, unnest(n) AS i FROM t) b ON a.id = b.i",
        "SELECT unnest(n) FROM t UNION ALL SELECT unnest(n) FROM t",
        "SELECT id FROM t WHERE id IN (SELECT unnest(n) FROM t)",
    ] {
        fixture.assert_pushed(sql).await;
    }
}

#[tokio::test]
async fn filters_on_elements_reach_the_scan() {
    let fixture = Fixture::new();
    for (sql, filter) in [
        (
            "SELECT id, i['q'] FROM (SELECT id, unnest(items) AS i FROM t) WHERE i['q'] > 3 AND id < 4",
            "get_field(t.one_of, Utf8(\"q\")) > Int64(3)",
        ),
        (
            "SELECT t.id, i.q FROM t, UNNEST(t.items) AS i WHERE i.q > 3 AND t.id < 4",
            "get_field(t.one_of, Utf8(\"q\")) > Int64(3)",
        ),
        (
            "SELECT count(*) FROM t AS o, UNNEST(o.items) AS i WHERE i.q > 3 AND o.id < 4",
            "get_field(t.one_of, Utf8(\"q\")) > Int64(3)",
        ),
        ("SELECT x FROM (SELECT id, unnest(n) AS x FROM t) WHERE x BETWEEN 2 AND 3", "t.one_of >= Int64(2)"),
        ("SELECT id, d FROM t, UNNEST(t.s['deep']) AS d WHERE d > 7", "t.one_of > Int64(7)"),
    ] {
        let plan = fixture.assert_pushed(sql).await;
        assert!(plan.contains("full_filters=") && plan.contains(filter) && !plan.contains("Filter:"), "{sql}\n{plan}");
    }
    assert_eq!(fixture.rows("SELECT t.id FROM t, UNNEST(t.items) AS i WHERE i.q > 3 AND t.id < 4").await.len(), 2);
}

#[tokio::test]
async fn a_limit_counts_elements_and_reaches_the_scan() {
    let fixture = Fixture::new();
    let plan = fixture.plan("SELECT unnest(n) FROM t LIMIT 2").await;
    assert!(plan.contains("fetch=2") && !plan.contains("Unnest:"), "{plan}");
    fixture.context.sql("SELECT unnest(n) FROM t LIMIT 2").await.unwrap().collect().await.unwrap();
    assert_eq!(fixture.scanned_rows.load(Ordering::Relaxed), 2);
    fixture.assert_pushed("SELECT unnest(n) AS x FROM t ORDER BY x DESC LIMIT 2").await;
}

#[tokio::test]
async fn a_limit_of_records_stays_below_the_unnest() {
    let fixture = Fixture::new();
    fixture.assert_kept("SELECT unnest(n) FROM (SELECT * FROM t LIMIT 3)").await;
    assert_eq!(fixture.rows("SELECT count(*) FROM (SELECT unnest(n) FROM (SELECT n FROM t LIMIT 1))").await.len(), 2);
}

#[tokio::test]
async fn a_list_that_something_else_reads_stays_with_the_operator() {
    let fixture = Fixture::new();
    for sql in [
        "SELECT n, unnest(n) FROM t",
        "SELECT cardinality(n), unnest(n) FROM t",
        "SELECT unnest(n) FROM t WHERE cardinality(n) > 1",
        "SELECT s, unnest(s['deep']) FROM t",
        "SELECT unnest(n) AS x, n[1] FROM t",
        "SELECT * FROM t, UNNEST(t.n) AS i",
    ] {
        fixture.assert_kept(sql).await;
    }
}

#[tokio::test]
async fn a_list_that_only_an_unused_column_reads_is_freed() {
    let fixture = Fixture::new();
    for sql in [
        "SELECT id, x FROM (SELECT *, unnest(n) AS x FROM t) WHERE x > 1",
        "SELECT count(*) FROM (SELECT *, unnest(items) AS i FROM t) WHERE i['q'] > 2",
        "SELECT t.id, i.q FROM t, UNNEST(t.items) AS i WHERE i.q > 2",
        "SELECT t.id, x FROM (SELECT *, cardinality(n) AS c FROM t) AS t, UNNEST(t.n) AS x WHERE x > 2",
    ] {
        let plan = fixture.assert_pushed(sql).await;
        assert!(plan.contains("full_filters=") && !plan.contains("Filter:"), "{sql}\n{plan}");
    }
}

#[tokio::test]
async fn an_unnest_met_in_a_later_pass_is_pushed_as_well() {
    let fixture = Fixture::new();
    // Without the first pass's own pruning: the rule sees what the stock rules left of the plan.
    let frame = fixture.plain.sql("SELECT id, x FROM (SELECT *, unnest(n) AS x FROM t)").await.unwrap();
    let plan = frame.into_optimized_plan().unwrap();
    let plan = plan
        .transform_up(|node| match node {
            LogicalPlan::TableScan(mut scan) => {
                let table = Unnesting { records: records(), list: None, scanned_rows: Arc::default() };
                scan.source = provider_as_source(Arc::new(table));
                Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
            }
            node => Ok(Transformed::no(node)),
        })
        .unwrap()
        .data;
    let (pushed, blocked) = PushUnnestIntoScan::new(unnest_test_table).push_all(plan.clone()).unwrap();
    assert!(pushed.transformed && !blocked, "{}", plan.display_indent());
    assert_eq!(pushed.data.schema(), plan.schema());
}

#[tokio::test]
async fn lists_inside_structs_are_pushed_while_their_siblings_are_read() {
    let fixture = Fixture::new();
    for sql in [
        "SELECT s['label'], unnest(s['deep']) FROM t",
        "SELECT id, d FROM (SELECT id, unnest(s['deep']) AS d FROM t) WHERE d > 7",
        "SELECT id, d FROM t, UNNEST(t.s.deep) AS d WHERE t.s['label'] = 'z'",
    ] {
        fixture.assert_pushed(sql).await;
    }
}

#[tokio::test]
async fn of_a_join_the_side_that_has_the_list_is_unnested() {
    let fixture = Fixture::new();
    for sql in [
        "SELECT a.id, x.q FROM t AS a, t AS b, UNNEST(b.items) AS x WHERE a.id = b.id",
        "SELECT a.id, x.q FROM t AS a, t AS b, UNNEST(a.items) AS x WHERE a.id = b.id AND x.q > 1 AND b.name <> 'c'",
        "SELECT sum(x), b.name FROM t AS a JOIN t AS b ON a.id < b.id, UNNEST(b.n) AS x GROUP BY b.name",
        "SELECT l.id, unnest(l.n) FROM t AS l LEFT JOIN t AS r ON l.id = r.id + 1",
        "SELECT r.id, unnest(r.n), l.name FROM t AS l RIGHT JOIN t AS r ON l.id = r.id + 1 AND l.id < r.id * 2",
        "SELECT l.id, unnest(l.n) FROM t AS l LEFT SEMI JOIN t AS r ON l.id = r.id + 1",
        "SELECT r.id, unnest(r.n) FROM t AS l RIGHT ANTI JOIN t AS r ON l.id = r.id + 1",
        "SELECT id, unnest(n) FROM t WHERE id NOT IN (SELECT id + 1 FROM t WHERE id > 2)",
        "SELECT a.id, b.id, c.id, d FROM t AS a, t AS b, t AS c, UNNEST(b.s.deep) AS d \
         WHERE a.id = b.id AND b.id <= c.id AND b.s['label'] <> 'x'",
        "SELECT a.id, x, y.q FROM t AS a, t AS b, UNNEST(a.n) AS x, UNNEST(b.items) AS y WHERE a.id <= b.id",
    ] {
        fixture.assert_pushed(sql).await;
    }
    let plan = fixture.plan("SELECT a.id, x.q FROM t AS a, t AS b, UNNEST(b.items) AS x WHERE a.id = b.id").await;
    assert!(plan.contains("projection=[id, one_of]") && plan.contains("projection=[id]"), "{plan}");
}

#[tokio::test]
async fn a_join_that_adds_rows_to_the_side_or_reads_the_list_keeps_the_unnest_above() {
    let fixture = Fixture::new();
    for sql in [
        "SELECT l.id, unnest(r.n) FROM t AS l LEFT JOIN t AS r ON l.id = r.id + 1",
        "SELECT l.id, unnest(l.n) FROM t AS l RIGHT JOIN t AS r ON l.id = r.id + 1",
        "SELECT l.id, unnest(l.n) FROM t AS l FULL JOIN t AS r ON l.id = r.id + 1",
        "SELECT l.id, unnest(l.n) FROM t AS l JOIN t AS r ON l.n = r.n",
        "SELECT l.id, unnest(l.n) FROM t AS l JOIN t AS r ON cardinality(l.n) < r.id",
        "SELECT l.id, unnest(array_concat(l.n, r.n)) FROM t AS l JOIN t AS r ON l.id = r.id",
        "SELECT l.id, unnest([1, 2]) FROM t AS l JOIN t AS r ON l.id = r.id",
    ] {
        fixture.assert_kept(sql).await;
    }
}

#[tokio::test]
async fn a_join_with_a_column_called_like_the_element_keeps_the_unnest_above() {
    let fixture = Fixture::new();
    for name in ["__unnest_placeholder(l.n,depth=1)", "__unnest_placeholder(l.n)"] {
        let other = format!("(SELECT id + 1 AS \"{name}\" FROM t)");
        for operator in ["=", "<"] {
            let on = format!("l.id {operator} \"{name}\"");
            fixture.assert_kept(&format!("SELECT l.id, unnest(l.n) FROM t AS l JOIN {other} ON {on}")).await;
            fixture.assert_kept(&format!("SELECT l.id, unnest(l.n) FROM {other} JOIN t AS l ON {on}")).await;
        }
    }
}

#[tokio::test]
async fn of_two_levels_the_outer_one_is_pushed() {
    let fixture = Fixture::new();
    for sql in [
        "SELECT id, unnest(i['tags']) FROM (SELECT id, unnest(items) AS i FROM t)",
        "SELECT t.id, x.q, y FROM t, UNNEST(t.items) AS x, UNNEST(x.tags) AS y WHERE x.q > 1",
    ] {
        let plan = fixture.plan(sql).await;
        assert!(plan.contains(Unnesting::ELEMENT) && plan.contains("Unnest:"), "{sql}\n{plan}");
        fixture.rows(sql).await;
    }
}

#[tokio::test]
async fn what_is_not_a_plain_unnest_stays() {
    let fixture = Fixture::new();
    for sql in [
        "SELECT unnest(n), unnest(s['deep']) FROM t",
        "SELECT unnest(unnest(array_append([n], n))) FROM t",
        "SELECT unnest(array_append(n, 1)) FROM t",
        "SELECT t.id, i FROM t LEFT JOIN UNNEST(t.n) AS i ON true",
        "SELECT unnest(s) FROM t",
    ] {
        fixture.assert_kept(sql).await;
    }
    let plan = fixture.plan("SELECT random() AS r, unnest(n) FROM t").await;
    assert!(plan.contains("Unnest:"), "{plan}");
}

#[tokio::test]
async fn the_rule_stands_before_limits_and_filters_are_pushed() {
    let mut rules = Optimizer::new().rules;
    install(&mut rules);
    let names: Vec<&str> = rules.iter().map(|rule| rule.name()).collect();
    let position = |name: &str| names.iter().position(|candidate| *candidate == name).unwrap();
    assert!(position("push_unnest_into_scan") < position("push_down_limit"));
    assert!(position("push_unnest_into_scan") < position("push_down_filter"));
    assert_eq!(names[..2], ["decorrelate_unnest", "forget_wrong_keys"]);
    assert_eq!(names[position("optimize_projections") - 1], "forget_wrong_keys");
}

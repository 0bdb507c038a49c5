//! Random conditions built of `=`, `<>`, IN and NOT IN, wherever a condition may stand, against three-valued logic by
//! hand; and the zeros of floats and `random()` in such conditions.

use std::fmt;

use thermocline_engine::Session;

use crate::harness::{self, Folder, Random, rows, sorted_rows};

/// One row of the table; every combination of these values is there.
#[derive(Clone, Copy)]
struct Row {
    id: usize,
    k: Option<i64>,
    j: Option<i64>,
    s: Option<&'static str>,
}

fn table() -> Vec<Row> {
    let numbers = [None, Some(1), Some(2), Some(3), Some(4)];
    let mut table = Vec::new();
    for k in numbers {
        for j in numbers {
            for s in [None, Some("a"), Some("b"), Some("c")] {
                table.push(Row { id: table.len(), k, j, s });
            }
        }
    }
    table
}

#[derive(Clone, Copy, PartialEq)]
enum Value {
    Number(i64),
    Text(&'static str),
}

/// Something that has a value in a row.
#[derive(Clone, Copy)]
enum Operand {
    K,
    J,
    S,
    Constant(Value),
    /// A number that is a constant only once the expression is simplified.
    Folded(i64),
    Null,
}

impl Operand {
    fn value(self, row: &Row) -> Option<Value> {
        match self {
            Self::K => row.k.map(Value::Number),
            Self::J => row.j.map(Value::Number),
            Self::S => row.s.map(Value::Text),
            Self::Constant(value) => Some(value),
            Self::Folded(value) => Some(Value::Number(value)),
            Self::Null => None,
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::K => f.write_str("k"),
            Self::J => f.write_str("j"),
            Self::S => f.write_str("s"),
            Self::Constant(Value::Number(value)) => write!(f, "{value}"),
            Self::Constant(Value::Text(value)) => write!(f, "'{value}'"),
            Self::Folded(value) => write!(f, "coalesce({value}, j)"),
            Self::Null => f.write_str("NULL"),
        }
    }
}

enum Condition {
    /// `operand IN (elements)`; spelled with `=` if there is one element and `is_spelled_out`.
    Member {
        operand: Operand,
        elements: Vec<Operand>,
        is_negated: bool,
        is_spelled_out: bool,
    },
    IsNull(Operand),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
    Not(Box<Condition>),
    IsTrue(Box<Condition>),
    Case(Box<Condition>, Box<Condition>, Box<Condition>),
}

impl Condition {
    fn random(random: &mut Random, depth: u32) -> Self {
        if depth == 0 {
            return Self::random_leaf(random);
        }
        let mut smaller = || Box::new(Self::random(random, depth - 1));
        let (first, second, third) = (smaller(), smaller(), smaller());
        match random.below(12) {
            0..=3 => Self::And(first, second),
            4..=7 => Self::Or(first, second),
            8 | 9 => Self::Not(first),
            10 => Self::IsTrue(first),
            _ => Self::Case(first, second, third),
        }
    }

    fn random_leaf(random: &mut Random) -> Self {
        let one = Operand::Constant(Value::Number(1));
        let operand = *random.pick(&[Operand::K, Operand::K, Operand::K, Operand::J, Operand::S, one]);
        if random.below(12) == 0 {
            return Self::IsNull(operand);
        }
        let element = |random: &mut Random| match (operand, random.below(12)) {
            (_, 0) => Operand::Null,
            (Operand::K, 1) | (Operand::Constant(_), 1..=6) => Operand::J,
            (Operand::J, 1) | (Operand::Constant(_), 7..=9) => Operand::K,
            (Operand::K, 2..=4) => Operand::Folded(random.below(6) as i64),
            (Operand::S, _) => Operand::Constant(Value::Text(random.pick::<&str>(&["a", "b", "c", "d"]))),
            _ => Operand::Constant(Value::Number(random.below(6) as i64)),
        };
        let count = 1 + random.below(4);
        let elements = (0..count).map(|_| element(random)).collect();
        Self::Member { operand, elements, is_negated: random.below(2) == 0, is_spelled_out: random.below(2) == 0 }
    }

    fn value(&self, row: &Row) -> Option<bool> {
        match self {
            Self::Member { operand, elements, is_negated, .. } => {
                let operand = operand.value(row)?;
                let elements: Vec<Option<Value>> = elements.iter().map(|element| element.value(row)).collect();
                let is_member = if elements.contains(&Some(operand)) {
                    Some(true)
                } else if elements.contains(&None) {
                    None
                } else {
                    Some(false)
                };
                is_member.map(|is_member| is_member != *is_negated)
            }
            Self::IsNull(operand) => Some(operand.value(row).is_none()),
            Self::And(left, right) => match (left.value(row), right.value(row)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Self::Or(left, right) => match (left.value(row), right.value(row)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Self::Not(inner) => inner.value(row).map(|value| !value),
            Self::IsTrue(inner) => Some(inner.value(row) == Some(true)),
            Self::Case(condition, then, otherwise) => match condition.value(row) {
                Some(true) => then.value(row),
                _ => otherwise.value(row),
            },
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member { operand, elements, is_negated, is_spelled_out } => {
                if let ([element], true) = (elements.as_slice(), is_spelled_out) {
                    return write!(f, "{operand} {} {element}", if *is_negated { "<>" } else { "=" });
                }
                let elements: Vec<String> = elements.iter().map(ToString::to_string).collect();
                write!(f, "{operand} {}IN ({})", if *is_negated { "NOT " } else { "" }, elements.join(", "))
            }
            Self::IsNull(operand) => write!(f, "{operand} IS NULL"),
            Self::And(left, right) => write!(f, "({left}) AND ({right})"),
            Self::Or(left, right) => write!(f, "({left}) OR ({right})"),
            Self::Not(inner) => write!(f, "NOT ({inner})"),
            Self::IsTrue(inner) => write!(f, "({inner}) IS TRUE"),
            Self::Case(condition, then, otherwise) => {
                write!(f, "CASE WHEN {condition} THEN {then} ELSE {otherwise} END")
            }
        }
    }
}

fn text(value: Option<bool>) -> &'static str {
    match value {
        Some(true) => "true",
        Some(false) => "false",
        None => "NULL",
    }
}

/// The ids of the rows for which `value` holds, as the engine prints them.
fn ids(table: &[Row], value: impl Fn(&Row) -> bool) -> Vec<String> {
    let mut ids: Vec<String> = table.iter().filter(|row| value(row)).map(|row| row.id.to_string()).collect();
    ids.sort();
    ids
}

async fn check(session: &Session, from: &str, table: &[Row], condition: &Condition, seed: u64) {
    let asked = format!("SELECT id, ({condition}), NOT ({condition}), CASE WHEN {condition} THEN 1 ELSE 0 END");
    let expected: Vec<String> = table
        .iter()
        .map(|row| {
            let value = condition.value(row);
            let (direct, opposite) = (text(value), text(value.map(|value| !value)));
            format!("{}|{direct}|{opposite}|{}", row.id, i32::from(value == Some(true)))
        })
        .collect();
    assert_eq!(rows(session, &format!("{asked} FROM {from} ORDER BY id")).await, expected, "seed {seed}: {condition}");
    for (filter, wanted) in [
        (format!("{condition}"), Some(true)),
        (format!("NOT ({condition})"), Some(false)),
        (format!("({condition}) IS NULL"), None),
    ] {
        let found = sorted_rows(session, &format!("SELECT id FROM {from} WHERE {filter}")).await;
        assert_eq!(found, ids(table, |row| condition.value(row) == wanted), "seed {seed}: WHERE {filter}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_of_memberships_are_what_three_valued_logic_says() {
    let table = table();
    let mut file = String::new();
    for Row { id, k, j, s } in &table {
        let number = |value: &Option<i64>| value.map_or("null".to_string(), |value| value.to_string());
        let s = s.map_or("null".to_string(), |s| format!("\"{s}\""));
        file.push_str(&format!("{{\"id\":{id},\"k\":{},\"j\":{},\"s\":{s}}}\n", number(k), number(j)));
    }
    let folder = Folder::new();
    let path = folder.file("t.ndjson", file);
    let session = harness::session();
    let from = format!("'{}'", path.display());
    rows(&session, &format!("CREATE TABLE kept AS SELECT id, k, j, s FROM {from}")).await;
    for seed in 1..=250 {
        let mut random = Random::new(seed);
        let depth = 1 + random.below(3) as u32;
        let condition = Condition::random(&mut random, depth);
        let from = if seed % 2 == 0 { from.as_str() } else { "kept" };
        check(&session, from, &table, &condition, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_becomes_a_constant_is_tested_like_one() {
    let session = harness::session();
    let from = "FROM (VALUES (CAST(NULL AS BIGINT), 5, 6)) t(k, j, l)";
    for (condition, expected) in [
        ("(k = coalesce(1, j) OR k = coalesce(2, j)) AND (k = coalesce(8, j) OR k = coalesce(9, j))", "NULL"),
        ("(k >= 1 AND k <= 1 OR k >= 2 AND k <= 2) AND (k >= 8 AND k <= 8 OR k >= 9 AND k <= 9)", "NULL"),
        ("CASE WHEN true THEN k ELSE j END NOT IN (1, 2, 3, 4) OR k NOT IN (5, 6, 7, 8)", "NULL"),
        ("5 IN (j, k) AND 5 IN (l - 1, 7)", "true"),
        ("5 NOT IN (j, l) OR 5 NOT IN (l - 1, 7)", "false"),
    ] {
        assert_eq!(rows(&session, &format!("SELECT {condition} {from}")).await, [expected], "{condition}");
        let filter = format!("SELECT j {from} WHERE ({condition}) IS NOT DISTINCT FROM {expected}");
        assert_eq!(rows(&session, &filter).await, ["5"], "{condition}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_zeros_of_a_float_are_one_member() {
    let folder = Folder::new();
    let lines = ["0.0", "-0.0", "1.5", "5.0", "null"].map(|f| format!("{{\"f\":{f}}}\n"));
    let path = folder.file("z.ndjson", lines.concat());
    let session = harness::session();
    let file = format!("'{}'", path.display());
    rows(&session, &format!("CREATE TABLE z AS SELECT f FROM {file}")).await;
    for from in [file.as_str(), "z"] {
        for (condition, expected) in [
            ("f = 0", 2),
            ("f = 0 OR f = 1.5 OR f = 2 OR f = 3", 3),
            ("f IN (0, 1.5, 2, 3)", 3),
            ("f IN (-0.0, 1.5, 2, 3)", 3),
            ("f NOT IN (0, 1, 2, 3)", 2),
            ("f NOT IN (0) AND f NOT IN (1, 2, 3)", 2),
            ("NOT (f IN (0, 1, 2, 3))", 2),
            ("(f IN (0, 1, 2, 3)) IS NULL", 1),
            ("f IN (0, 1, 2, 3, NULL)", 2),
            ("f NOT IN (0, 1, 2, 3, NULL)", 0),
            ("f * 2 IN (0, 1, 2, 3)", 3),
            ("f = 0 AND f = -0.0", 2),
        ] {
            let sql = format!("SELECT count(*) FROM {from} WHERE {condition}");
            assert_eq!(harness::integer(&session, &sql).await, expected, "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_random_is_drawn_for_each_list() {
    let session = harness::session();
    let drawn = "CAST(random() * 10 AS INT)";
    let first = format!("{drawn} ? (0, 1, 2, 3, 4)");
    let second = format!("{drawn} ? (5, 6, 7, 8, 9)");
    // One value is in just one of the lists, two values are as often in neither or both as not.
    for (condition, value) in [
        (format!("{first} AND {second}").replace('?', "IN"), "true"),
        (format!("{first} OR {second}").replace('?', "IN"), "false"),
        (format!("{first} AND {second}").replace('?', "NOT IN"), "true"),
        (format!("{first} OR {second}").replace('?', "NOT IN"), "false"),
    ] {
        let sql = format!("SELECT count(*) FROM generate_series(1, 2000) WHERE ({condition}) IS {value}");
        assert!(harness::integer(&session, &sql).await > 0, "{sql}");
    }
}

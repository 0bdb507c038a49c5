//! The generators against tpchgen's own CSV writers, and the formats against each other.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt::Display;

use tpchgen::csv::{CustomerCsv, LineItemCsv, NationCsv, OrderCsv, PartCsv, PartSuppCsv, RegionCsv, SupplierCsv};
use tpchgen::distribution::Distributions;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

use super::*;

/// 15,000 orders, 2,000 parts: several parts of orders, one of suppliers.
const SCALE: f64 = 0.01;

fn table(text: &TextPool, table: TpchTable, format: TextFormat, thread_count: usize) -> String {
    let mut out = Vec::new();
    let written = write_table(DataSet { scale: SCALE, text, thread_count }, table, format, &mut out).unwrap();
    assert_eq!(written, out.len() as u64);
    String::from_utf8(out).unwrap()
}

fn nested(text: &TextPool, thread_count: usize) -> String {
    let mut out = Vec::new();
    write_nested_orders(DataSet { scale: SCALE, text, thread_count }, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn lines(header: &str, rows: impl Iterator<Item = impl Display>) -> String {
    let mut text = format!("{header}\n");
    for row in rows {
        text.push_str(&format!("{row}\n"));
    }
    text
}

#[test]
fn every_table_reads_as_tpchgen_writes_its_csv_in_one_part() {
    let text = small_text();
    let words = Distributions::static_default();
    let (s, w, t) = (SCALE, words, &text);
    for name in TpchTable::ALL {
        let expected = match name {
            TpchTable::Customer => lines(
                CustomerCsv::header(),
                CustomerGenerator::new_with_distributions_and_text_pool(s, 1, 1, w, t).iter().map(CustomerCsv::new),
            ),
            TpchTable::Lineitem => lines(
                LineItemCsv::header(),
                LineItemGenerator::new_with_distributions_and_text_pool(s, 1, 1, w, t).iter().map(LineItemCsv::new),
            ),
            TpchTable::Nation => lines(
                NationCsv::header(),
                NationGenerator::new_with_distributions_and_text_pool(w, t).iter().map(NationCsv::new),
            ),
            TpchTable::Orders => lines(
                OrderCsv::header(),
                OrderGenerator::new_with_distributions_and_text_pool(s, 1, 1, w, t).iter().map(OrderCsv::new),
            ),
            TpchTable::Part => lines(
                PartCsv::header(),
                PartGenerator::new_with_distributions_and_text_pool(s, 1, 1, w, t).iter().map(PartCsv::new),
            ),
            TpchTable::Partsupp => lines(
                PartSuppCsv::header(),
                PartSuppGenerator::new_with_text_pool(s, 1, 1, t).iter().map(PartSuppCsv::new),
            ),
            TpchTable::Region => lines(
                RegionCsv::header(),
                RegionGenerator::new_with_distributions_and_text_pool(w, t).iter().map(RegionCsv::new),
            ),
            TpchTable::Supplier => lines(
                SupplierCsv::header(),
                SupplierGenerator::new_with_distributions_and_text_pool(s, 1, 1, w, t).iter().map(SupplierCsv::new),
            ),
        };
        let written = table(&text, name, TextFormat::Csv, 2);
        for (line, (ours, theirs)) in written.lines().zip(expected.lines()).enumerate() {
            assert_eq!(ours, theirs, "{} line {}", name.name(), line + 1);
        }
        assert_eq!(written.len(), expected.len(), "{}", name.name());
    }
}

#[test]
fn columns_are_declared_as_files_have_them() {
    let text = small_text();
    for name in TpchTable::ALL {
        let file = table(&text, name, TextFormat::Csv, 1);
        let names: Vec<&str> = name.columns_sql().lines().map(|column| column.split(' ').next().unwrap()).collect();
        assert_eq!(file.lines().next().unwrap(), names.join(","));
    }
}

#[test]
fn the_bytes_do_not_depend_on_the_number_of_threads() {
    let text = small_text();
    assert_eq!(nested(&text, 1), nested(&text, 3));
    for format in [TextFormat::Csv, TextFormat::Ndjson] {
        assert_eq!(table(&text, TpchTable::Lineitem, format, 1), table(&text, TpchTable::Lineitem, format, 3));
    }
}

#[test]
fn ndjson_holds_the_same_names_and_values_as_csv() {
    let text = small_text();
    for name in TpchTable::ALL {
        let csv = table(&text, name, TextFormat::Csv, 2);
        let ndjson = table(&text, name, TextFormat::Ndjson, 2);
        let mut csv_lines = csv.lines();
        let header: Vec<&str> = csv_lines.next().unwrap().split(',').collect();
        assert_eq!(csv_lines.clone().count(), ndjson.lines().count());
        for (record, object) in csv_lines.zip(ndjson.lines()) {
            let expected: Vec<(String, String)> =
                header.iter().map(ToString::to_string).zip(csv_values(record)).collect();
            assert_eq!(json_fields(object), expected, "{}", name.name());
        }
    }
}

#[test]
fn nested_orders_are_the_orders_and_their_lineitems_and_nothing_else() {
    let text = small_text();
    let mut orders = String::new();
    let mut lineitems = String::new();
    for line in nested(&text, 2).lines() {
        let (order, list) = line.split_once(r#","lineitems":["#).expect("every order has a list");
        orders.push_str(order);
        orders.push_str("}\n");
        let list = list.strip_suffix("]}").expect("the list ends the line");
        // No free text of TPC-H holds a brace, so objects can be told apart by them.
        for element in list.replace("},{", "}\n{").lines() {
            lineitems.push_str(element);
            lineitems.push('\n');
        }
    }
    assert_eq!(orders, table(&text, TpchTable::Orders, TextFormat::Ndjson, 1));
    assert_eq!(lineitems, table(&text, TpchTable::Lineitem, TextFormat::Ndjson, 1));
}

/// A CSV record's values without their quotes. No quote or newline occurs inside values.
fn csv_values(record: &str) -> Vec<String> {
    let mut values = vec![String::new()];
    let mut quoted = false;
    for c in record.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => values.push(String::new()),
            _ => values.last_mut().unwrap().push(c),
        }
    }
    values
}

/// A flat JSON object's names and values, the latter without their quotes. No escape occurs in the data.
fn json_fields(object: &str) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let mut rest = object.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
    while !rest.is_empty() {
        let (name, after) = rest.strip_prefix('"').unwrap().split_once("\":").unwrap();
        let (value, after) = match after.strip_prefix('"') {
            Some(string) => {
                let (value, after) = string.split_once('"').unwrap();
                (value, after.strip_prefix(',').unwrap_or(after))
            }
            None => after.split_once(',').unwrap_or((after, "")),
        };
        fields.push((name.to_owned(), value.to_owned()));
        rest = after;
    }
    fields
}

//! The tables against the specification: counts, keys, formulas, and independence of parts.
#![allow(clippy::unwrap_used, clippy::panic)]

mod selectivity;

use std::collections::{BTreeMap, HashSet};

use arrow::array::{Array, AsArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Int32Type, Int64Type};

use super::*;

/// 7,500 orders, 1,000 parts, 150 customers, 10 suppliers.
const SMALL: f64 = 0.005;

fn data(scale: f64) -> DataSet {
    DataSet::new(scale, 1).unwrap()
}

fn whole(data: DataSet, table: Table) -> RecordBatch {
    in_parts(data, table, 1, 8_192)
}

fn in_parts(data: DataSet, table: Table, part_count: usize, batch_rows: usize) -> RecordBatch {
    let batches: Vec<RecordBatch> =
        (0..part_count).flat_map(|part| data.batches(table, part, part_count, batch_rows)).collect();
    concat_batches(&table.schema(), &batches).unwrap()
}

fn numbers<'a>(batch: &'a RecordBatch, name: &str) -> &'a [i32] {
    batch[name].as_primitive::<Int32Type>().values()
}

fn texts<'a>(batch: &'a RecordBatch, name: &str) -> Vec<&'a str> {
    batch[name].as_string::<i32>().iter().flatten().collect()
}

fn order_keys(batch: &RecordBatch) -> &[i64] {
    batch["lo_orderkey"].as_primitive::<Int64Type>().values()
}

/// Where each order's lines lie in a batch of whole orders.
fn orders(lines: &RecordBatch) -> Vec<Range<usize>> {
    let mut end = 0;
    order_keys(lines)
        .chunk_by(|left, right| left == right)
        .map(|lines| {
            end += lines.len();
            end - lines.len()..end
        })
        .collect()
}

#[test]
fn tables_have_the_rows_of_the_specification_at_whole_and_broken_scale_factors() {
    for (scale, customers, suppliers, parts) in [
        (1.0, 30_000, 2_000, 200_000),
        (2.0, 60_000, 4_000, 400_000),
        (3.9, 117_000, 7_800, 400_000),
        (8.0, 240_000, 16_000, 800_000),
        (10.0, 300_000, 20_000, 800_000),
        (0.1, 3_000, 200, 20_000),
        (1e-9, 1, 1, 1),
    ] {
        let rows = |table| data(scale).row_count(table);
        assert_eq!(rows(Table::Customer), customers, "scale {scale}");
        assert_eq!(rows(Table::Supplier), suppliers, "scale {scale}");
        assert_eq!(rows(Table::Part), parts, "scale {scale}");
        assert_eq!(rows(Table::Date), 2_556, "scale {scale}");
        if scale <= 1.0 {
            // Four lines an order on average, with a variance of four.
            let order_count = (scale * 1.5e6).max(1.0);
            let difference = rows(Table::Lineorder) as f64 - 4.0 * order_count;
            assert!(difference.abs() <= 5.0 * 2.0 * order_count.sqrt(), "scale {scale}: {difference}");
        }
    }
}

#[test]
fn a_scale_factor_that_is_no_positive_number_is_refused() {
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY, 10_001.0] {
        let error = DataSet::new(scale, 1).unwrap_err().to_string();
        assert!(error.contains("expected a number above 0") && error.contains(&scale.to_string()), "{error}");
    }
}

#[test]
fn rows_are_the_same_in_one_part_and_in_many_and_in_batches_of_any_size() {
    for table in Table::ALL {
        let expected = whole(data(SMALL), table);
        assert_eq!(expected.num_rows() as u64, data(SMALL).row_count(table), "{table:?}");
        for (part_count, batch_rows) in [(1, 100), (7, 8_192), (7, 1), (3, 997), (20_000, 5)] {
            let same = in_parts(data(SMALL), table, part_count, batch_rows) == expected;
            assert!(same, "{table:?} in {part_count} parts and batches of {batch_rows}");
        }
        assert_eq!(data(SMALL).batches(table, 7, 7, 100).count(), 0);
        assert_eq!(data(SMALL).batches(table, 0, 0, 100).map(|batch| batch.num_rows()).sum::<usize>(), 0);
    }
}

#[test]
fn batches_hold_the_rows_asked_for_and_lines_up_to_six_more() {
    for table in Table::ALL {
        let mut sizes: Vec<usize> = data(SMALL).batches(table, 1, 2, 50).map(|batch| batch.num_rows()).collect();
        let most = if table == Table::Lineorder { 56 } else { 50 };
        assert!(sizes.pop().is_some_and(|last| (1..=most).contains(&last)), "{table:?}");
        assert!(sizes.iter().all(|size| (50..=most).contains(size)), "{table:?}: {sizes:?}");
    }
}

#[test]
fn another_seed_gives_other_rows_of_all_tables_but_the_days() {
    for table in Table::ALL {
        let other = whole(DataSet::new(SMALL, 2).unwrap(), table);
        assert_eq!(whole(data(SMALL), table) == other, table == Table::Date, "{table:?}");
    }
}

#[test]
fn no_value_is_missing_and_columns_have_their_types() {
    for table in Table::ALL {
        let rows = whole(data(SMALL), table);
        for (field, column) in rows.schema().fields().iter().zip(rows.columns()) {
            assert_eq!(column.null_count(), 0, "{}", field.name());
            let expected = match field.name().as_str() {
                "lo_orderkey" => &[DataType::Int64][..],
                _ => &[DataType::Int32, DataType::Utf8],
            };
            assert!(expected.contains(field.data_type()), "{field}");
        }
    }
}

#[test]
fn keys_of_dimensions_count_from_one() {
    for (table, key) in [(Table::Customer, "c_custkey"), (Table::Supplier, "s_suppkey"), (Table::Part, "p_partkey")] {
        let rows = in_parts(data(SMALL), table, 3, 40);
        assert!(numbers(&rows, key).iter().copied().eq(1..=rows.num_rows() as i32), "{table:?}");
    }
}

#[test]
fn orders_have_one_to_seven_lines_and_eight_keys_of_each_thirty_two() {
    let lines = whole(data(SMALL), Table::Lineorder);
    let orders = orders(&lines);
    assert_eq!(orders.len(), 7_500);
    let mut lengths = [0; 8];
    for (number, order) in orders.iter().enumerate() {
        let number = number as i64 + 1;
        assert_eq!(order_keys(&lines)[order.start], number / 8 * 32 + number % 8);
        let line_numbers = &numbers(&lines, "lo_linenumber")[order.clone()];
        assert!(line_numbers.iter().copied().eq(1..=order.len() as i32));
        lengths[order.len()] += 1;
    }
    assert!(lengths[1..].iter().all(|&count| (900..1_250).contains(&count)), "{lengths:?}");
}

#[test]
fn every_key_that_a_line_refers_to_is_there_and_a_third_of_customers_buy_nothing() {
    let lines = whole(data(SMALL), Table::Lineorder);
    for (name, count) in [("lo_custkey", 150), ("lo_suppkey", 10), ("lo_partkey", 1_000)] {
        let keys: HashSet<i32> = numbers(&lines, name).iter().copied().collect();
        let expected: HashSet<i32> = (1..=count).filter(|key| name != "lo_custkey" || key % 3 != 0).collect();
        assert_eq!(keys, expected, "{name}");
    }
    let dates = whole(data(SMALL), Table::Date);
    let day_of: BTreeMap<i32, i32> = numbers(&dates, "d_datekey").iter().copied().zip(0..).collect();
    assert_eq!(day_of.len(), 2_556);
    let mut waits = HashSet::new();
    for (ordered, committed) in numbers(&lines, "lo_orderdate").iter().zip(numbers(&lines, "lo_commitdate")) {
        assert!((19_920_101..=19_980_802).contains(ordered));
        waits.insert(day_of[committed] - day_of[ordered]);
    }
    assert_eq!(waits, (30..=90).collect());
    // With 7,500 orders over 2,406 days some stay free; the ends are reached in a larger set.
    let larger = whole(data(0.1), Table::Lineorder);
    let ordered = numbers(&larger, "lo_orderdate");
    assert_eq!((ordered.iter().min(), ordered.iter().max()), (Some(&19_920_101), Some(&19_980_802)));
}

#[test]
fn the_smallest_sets_refer_only_to_what_is_there() {
    for customer_count in 1..=4 {
        let data = data(f64::from(customer_count) / 30_000.0);
        assert_eq!(data.row_count(Table::Customer), customer_count as u64);
        let lines = whole(data, Table::Lineorder);
        for (name, table) in
            [("lo_custkey", Table::Customer), ("lo_suppkey", Table::Supplier), ("lo_partkey", Table::Part)]
        {
            let range = 1..=data.row_count(table) as i32;
            assert!(numbers(&lines, name).iter().all(|key| range.contains(key)), "{name} of {customer_count}");
        }
    }
}

#[test]
fn money_follows_from_the_part_and_the_order() {
    let lines = whole(data(SMALL), Table::Lineorder);
    let of = |name| numbers(&lines, name);
    for order in orders(&lines) {
        let mut total = 0;
        for row in order.clone() {
            let key = i64::from(of("lo_partkey")[row]);
            // TPC-H 4.2.3: P_RETAILPRICE = (90000 + ((P_PARTKEY / 10) modulo 20001) + 100 × (P_PARTKEY modulo 1000))
            // / 100.
            let price = 90_000 + (key / 10) % 20_001 + 100 * (key % 1_000);
            let number = |name| i64::from(of(name)[row]);
            assert_eq!(number("lo_extendedprice"), price * number("lo_quantity"));
            let revenue = number("lo_extendedprice") * (100 - number("lo_discount")) / 100;
            assert_eq!(number("lo_revenue"), revenue);
            assert_eq!(number("lo_supplycost"), 6 * price / 10);
            total += revenue * (100 + number("lo_tax")) / 100;
        }
        for row in order.clone() {
            assert_eq!(i64::from(of("lo_ordtotalprice")[row]), total);
            for shared in ["lo_custkey", "lo_orderdate"] {
                assert_eq!(of(shared)[row], of(shared)[order.start]);
            }
        }
        assert_eq!(
            texts(&lines.slice(order.start, order.len()), "lo_orderpriority").iter().collect::<HashSet<_>>().len(),
            1
        );
    }
}

#[test]
fn the_dearest_line_stays_within_its_type() {
    // The greatest price, 50 pieces, no discount, 8 percent tax, seven such lines.
    let dearest = (1..=3_000_000).map(part::price_cents).max().unwrap();
    assert!(dearest <= 90_000 + 20_000 + 99_900);
    let greatest = i64::from(dearest) * 50 * 108;
    assert!(greatest < i64::from(i32::MAX) && greatest / 100 * 7 < i64::from(i32::MAX));
}

#[test]
fn drawn_columns_reach_all_their_values_about_equally_often() {
    let lines = whole(data(0.02), Table::Lineorder);
    let check = |name: &str, counts: Vec<usize>, expected: usize| {
        assert_eq!(counts.len(), expected, "{name}");
        let even = lines.num_rows() / expected;
        assert!(counts.iter().all(|&count| count.abs_diff(even) < even / 5), "{name}: {counts:?}");
    };
    for (name, range) in [("lo_quantity", 1..=50), ("lo_discount", 0..=10), ("lo_tax", 0..=8)] {
        let mut counts = BTreeMap::new();
        for &value in numbers(&lines, name) {
            *counts.entry(value).or_default() += 1;
        }
        assert!(counts.keys().copied().eq(range.clone()), "{name}");
        check(name, counts.into_values().collect(), range.count());
    }
    for (name, expected) in [("lo_orderpriority", 5), ("lo_shipmode", 7), ("lo_shippriority", 1)] {
        let mut counts = BTreeMap::new();
        for value in texts(&lines, name) {
            *counts.entry(value).or_default() += 1;
        }
        check(name, counts.into_values().collect(), expected);
    }
}

#[test]
fn cities_nations_regions_and_telephones_agree() {
    for (table, letter) in [(Table::Customer, 'c'), (Table::Supplier, 's')] {
        let rows = whole(data(0.5), table);
        let column = |name: &str| texts(&rows, &format!("{letter}_{name}"));
        let (cities, nations, regions) = (column("city"), column("nation"), column("region"));
        let mut region_of = BTreeMap::new();
        for row in 0..rows.num_rows() {
            let (city, nation) = (cities[row], nations[row]);
            assert_eq!(city.len(), 10, "{city}");
            assert_eq!(city[..9], format!("{nation:9}")[..9], "{city}");
            assert!(city.as_bytes()[9].is_ascii_digit(), "{city}");
            assert_eq!(*region_of.entry(nation).or_insert(regions[row]), regions[row], "{nation}");
        }
        assert_eq!(region_of.len(), 25);
        for region in ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"] {
            assert_eq!(region_of.values().filter(|&&found| found == region).count(), 5, "{region}");
        }
        // A thousand suppliers may leave out one of the 250.
        let city_count = cities.iter().collect::<HashSet<_>>().len();
        assert!((240..=250).contains(&city_count), "{city_count}");

        let countries: HashSet<(&str, &str)> =
            column("phone").iter().zip(&nations).map(|(phone, &nation)| (&phone[..2], nation)).collect();
        assert_eq!(countries.len(), 25);
        assert!(countries.contains(&("10", "ALGERIA")) && countries.contains(&("34", "UNITED STATES")));
        for (phone, address) in column("phone").iter().zip(column("address")) {
            let groups: Vec<usize> = phone.split('-').map(str::len).collect();
            assert_eq!(groups, [2, 3, 3, 4], "{phone}");
            assert!((6..=24).contains(&address.len()), "{address}");
        }
    }
}

#[test]
fn a_part_has_three_different_colors_and_a_brand_within_its_category_within_its_manufacturer() {
    let parts = whole(data(0.5), Table::Part);
    let column = |name| texts(&parts, name);
    for ((maker, category), brand) in column("p_mfgr").iter().zip(column("p_category")).zip(column("p_brand1")) {
        assert_eq!((maker.len(), category.len()), (6, 7));
        assert!(category.starts_with(maker) && brand.starts_with(category), "{maker} {category} {brand}");
    }
    for (name, color) in column("p_name").iter().zip(column("p_color")) {
        let mut colors: HashSet<&str> = name.split(' ').collect();
        colors.insert(color);
        assert_eq!(colors.len(), 3, "{color}: {name}");
    }
    let distinct = |name| column(name).into_iter().collect::<HashSet<_>>().len();
    for (name, expected) in
        [("p_mfgr", 5), ("p_category", 25), ("p_brand1", 1_000), ("p_color", 92), ("p_type", 150), ("p_container", 40)]
    {
        assert_eq!(distinct(name), expected, "{name}");
    }
    let sizes: HashSet<i32> = numbers(&parts, "p_size").iter().copied().collect();
    assert_eq!(sizes, (1..=50).collect());
}

#[test]
fn the_date_table_says_of_a_day_what_a_calendar_says() {
    let dates = whole(data(SMALL), Table::Date);
    let row_of = |key: i32| numbers(&dates, "d_datekey").iter().position(|&other| other == key).unwrap();
    let leap_day = row_of(19_960_229);
    for (name, expected) in [
        ("d_date", "February 29, 1996"),
        ("d_dayofweek", "Thursday"),
        ("d_month", "February"),
        ("d_yearmonth", "Feb1996"),
        ("d_sellingseason", "Winter"),
    ] {
        assert_eq!(texts(&dates, name)[leap_day], expected, "{name}");
    }
    for (name, expected) in [
        ("d_year", 1996),
        ("d_yearmonthnum", 199_602),
        ("d_daynuminweek", 5),
        ("d_daynuminmonth", 29),
        ("d_daynuminyear", 60),
        ("d_monthnuminyear", 2),
        ("d_weeknuminyear", 9),
        ("d_lastdayinweekfl", 0),
        ("d_lastdayinmonthfl", 1),
        ("d_holidayfl", 0),
        ("d_weekdayfl", 1),
    ] {
        assert_eq!(numbers(&dates, name)[leap_day], expected, "{name}");
    }
    let total = |name| numbers(&dates, name).iter().sum::<i32>();
    // 84 months less the last, which ends a day later; ten holidays a year; weeks from Wednesday to Wednesday.
    assert_eq!(total("d_lastdayinmonthfl"), 83);
    assert_eq!(total("d_holidayfl"), 70);
    assert_eq!(total("d_lastdayinweekfl"), 365);
    assert_eq!(total("d_weekdayfl"), 2_556 - 2 * 365);
    let weeks: HashSet<i32> = numbers(&dates, "d_weeknuminyear").iter().copied().collect();
    assert_eq!(weeks, (1..=53).collect());
    assert_eq!(texts(&dates, "d_date").last(), Some(&"December 30, 1998"));
}

#[test]
fn the_first_rows_of_seed_1_stay_as_they_are() {
    let checksums = Table::ALL.map(|table| {
        let rows = data(1.0).batches(table, 0, 1, 1_000).next().unwrap();
        // FNV-1a over the values, column by column; texts end with a zero.
        let mut sum: u64 = 0xcbf2_9ce4_8422_2325;
        let mut add = |bytes: &[u8]| {
            for &byte in bytes {
                sum = (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        for column in rows.columns() {
            if let Some(values) = column.as_primitive_opt::<Int32Type>() {
                values.values().iter().for_each(|value| add(&value.to_le_bytes()));
            } else if let Some(values) = column.as_primitive_opt::<Int64Type>() {
                values.values().iter().for_each(|value| add(&value.to_le_bytes()));
            } else {
                column.as_string::<i32>().iter().flatten().for_each(|value| add(&[value.as_bytes(), b"\0"].concat()));
            }
        }
        (table.name(), rows.num_rows(), sum)
    });
    let expected = [
        ("lineorder", 1_004, 1_086_433_867_053_865_512),
        ("customer", 1_000, 7_724_689_454_643_278_543),
        ("supplier", 1_000, 4_797_579_743_860_868_008),
        ("part", 1_000, 3_430_116_037_873_569_789),
        ("date", 1_000, 1_131_087_513_461_200_007),
    ];
    assert_eq!(checksums, expected);
}

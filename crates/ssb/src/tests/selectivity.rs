//! What the thirteen queries' conditions let through, against the filter factors of the specification (section 3).
//!
//! The specification counts with equal shares: 1/7 for a year, 1/5 for a region. Orders end on 1998-08-02, so days are
//! counted here; the other shares are the specification's, of which a small table of suppliers may stray by chance. So
//! two tests: the tables have the specification's shares within five standard deviations at scale factor 1, and lines
//! meet the conditions as often as the shares of the tables at hand say, within as much.

use super::*;

/// 1,200,000 lines.
const SCALE: f64 = 0.2;

/// Conditions on a dimension's row, by column: the value is one of the values, or between two of them.
enum Condition {
    Is(&'static str, &'static [&'static str]),
    Between(&'static str, &'static str, &'static str),
}
use Condition::{Between, Is};

struct Query {
    name: &'static str,
    /// Share of lines that meet the conditions on discount and quantity, and those conditions.
    line: (f64, fn(i32, i32) -> bool),
    /// On year, month and week of the order.
    day: fn(i32, i32, i32) -> bool,
    customer: Option<(f64, Condition)>,
    supplier: Option<(f64, Condition)>,
    part: Option<(f64, Condition)>,
}

const BY_DAY: Query =
    Query { name: "", line: (1.0, |_, _| true), day: |_, _, _| true, customer: None, supplier: None, part: None };
const CITIES: &[&str] = &["UNITED KI1", "UNITED KI5"];

fn queries() -> [Query; 13] {
    let until_1997: fn(i32, i32, i32) -> bool = |year, _, _| year <= 1997;
    let two_years: fn(i32, i32, i32) -> bool = |year, _, _| year == 1997 || year == 1998;
    let customers = |share, column, values| Some((share, Is(column, values)));
    let makers = || Some((2.0 / 5.0, Is("p_mfgr", &["MFGR#1", "MFGR#2"])));
    let three_of_eleven = 3.0 / 11.0;
    [
        Query {
            name: "1.1",
            line: (three_of_eleven * 24.0 / 50.0, |discount, quantity| (1..=3).contains(&discount) && quantity < 25),
            day: |year, _, _| year == 1993,
            ..BY_DAY
        },
        Query {
            name: "1.2",
            line: (three_of_eleven / 5.0, |discount, quantity| {
                (4..=6).contains(&discount) && (26..=35).contains(&quantity)
            }),
            day: |year, month, _| (year, month) == (1994, 1),
            ..BY_DAY
        },
        Query {
            name: "1.3",
            line: (three_of_eleven / 5.0, |discount, quantity| {
                (5..=7).contains(&discount) && (26..=35).contains(&quantity)
            }),
            day: |year, _, week| (year, week) == (1994, 6),
            ..BY_DAY
        },
        Query {
            name: "2.1",
            supplier: Some((1.0 / 5.0, Is("s_region", &["AMERICA"]))),
            part: Some((1.0 / 25.0, Is("p_category", &["MFGR#12"]))),
            ..BY_DAY
        },
        Query {
            name: "2.2",
            supplier: Some((1.0 / 5.0, Is("s_region", &["ASIA"]))),
            part: Some((8.0 / 1_000.0, Between("p_brand1", "MFGR#2221", "MFGR#2228"))),
            ..BY_DAY
        },
        Query {
            name: "2.3",
            supplier: Some((1.0 / 5.0, Is("s_region", &["EUROPE"]))),
            part: Some((1.0 / 1_000.0, Is("p_brand1", &["MFGR#2221"]))),
            ..BY_DAY
        },
        Query {
            name: "3.1",
            day: until_1997,
            customer: customers(1.0 / 5.0, "c_region", &["ASIA"]),
            supplier: Some((1.0 / 5.0, Is("s_region", &["ASIA"]))),
            ..BY_DAY
        },
        Query {
            name: "3.2",
            day: until_1997,
            customer: customers(1.0 / 25.0, "c_nation", &["UNITED STATES"]),
            supplier: Some((1.0 / 25.0, Is("s_nation", &["UNITED STATES"]))),
            ..BY_DAY
        },
        Query {
            name: "3.3",
            day: until_1997,
            customer: customers(1.0 / 125.0, "c_city", CITIES),
            supplier: Some((1.0 / 125.0, Is("s_city", CITIES))),
            ..BY_DAY
        },
        Query {
            name: "3.4",
            day: |year, month, _| (year, month) == (1997, 12),
            customer: customers(1.0 / 125.0, "c_city", CITIES),
            supplier: Some((1.0 / 125.0, Is("s_city", CITIES))),
            ..BY_DAY
        },
        Query {
            name: "4.1",
            customer: customers(1.0 / 5.0, "c_region", &["AMERICA"]),
            supplier: Some((1.0 / 5.0, Is("s_region", &["AMERICA"]))),
            part: makers(),
            ..BY_DAY
        },
        Query {
            name: "4.2",
            day: two_years,
            customer: customers(1.0 / 5.0, "c_region", &["AMERICA"]),
            supplier: Some((1.0 / 5.0, Is("s_region", &["AMERICA"]))),
            part: makers(),
            ..BY_DAY
        },
        Query {
            name: "4.3",
            day: two_years,
            customer: customers(1.0 / 5.0, "c_region", &["AMERICA"]),
            supplier: Some((1.0 / 25.0, Is("s_nation", &["UNITED STATES"]))),
            part: Some((1.0 / 25.0, Is("p_category", &["MFGR#14"]))),
            ..BY_DAY
        },
    ]
}

/// Which rows of a dimension meet the condition; all if there is none.
fn matches(rows: &RecordBatch, condition: Option<&(f64, Condition)>) -> Vec<bool> {
    match condition {
        None => vec![true; rows.num_rows()],
        Some((_, Is(column, values))) => texts(rows, column).iter().map(|value| values.contains(value)).collect(),
        Some((_, Between(column, low, high))) => {
            texts(rows, column).iter().map(|value| (low..=high).contains(&value)).collect()
        }
    }
}

/// `variance_factor`: how much more the count varies than that of as many independent rows.
fn assert_within_five_deviations(count: usize, row_count: usize, share: f64, variance_factor: f64, what: &str) {
    let expected = row_count as f64 * share;
    let allowed = 5.0 * (variance_factor * expected * (1.0 - share)).sqrt() + 1.0;
    assert!((count as f64 - expected).abs() <= allowed, "{what}: {count} rows, expected {expected:.1} ± {allowed:.1}");
}

#[test]
fn dimensions_have_the_shares_of_the_specification() {
    let [customers, suppliers, parts] =
        [Table::Customer, Table::Supplier, Table::Part].map(|table| whole(data(1.0), table));
    for query in queries() {
        for (rows, condition) in [(&customers, &query.customer), (&suppliers, &query.supplier), (&parts, &query.part)] {
            if let Some((share, _)) = condition {
                let count = matches(rows, condition.as_ref()).into_iter().filter(|&matches| matches).count();
                assert_within_five_deviations(count, rows.num_rows(), *share, 1.0, query.name);
            }
        }
    }
}

#[test]
fn lines_meet_the_conditions_of_the_thirteen_queries_as_often_as_their_shares_say() {
    let [lines, customers, suppliers, parts, dates] =
        [Table::Lineorder, Table::Customer, Table::Supplier, Table::Part, Table::Date]
            .map(|table| whole(data(SCALE), table));
    let day_of: BTreeMap<i32, usize> = numbers(&dates, "d_datekey").iter().copied().zip(0..).collect();
    let days: Vec<usize> = numbers(&lines, "lo_orderdate").iter().map(|key| day_of[key]).collect();
    let of = |name| numbers(&lines, name);
    let (discounts, quantities) = (of("lo_discount"), of("lo_quantity"));
    let (customer_keys, supplier_keys, part_keys) = (of("lo_custkey"), of("lo_suppkey"), of("lo_partkey"));
    let share = |matches: &[bool]| matches.iter().filter(|&&matches| matches).count() as f64 / matches.len() as f64;
    for query in queries() {
        let customer_matches = matches(&customers, query.customer.as_ref());
        let supplier_matches = matches(&suppliers, query.supplier.as_ref());
        let part_matches = matches(&parts, query.part.as_ref());
        let (years, months) = (numbers(&dates, "d_year"), numbers(&dates, "d_monthnuminyear"));
        let weeks = numbers(&dates, "d_weeknuminyear");
        let day_matches: Vec<bool> = (0..2_406).map(|day| (query.day)(years[day], months[day], weeks[day])).collect();

        // Orders of a customer whose key is divisible by three are the next one's, or the one's before if there is
        // none.
        let customer_count = customers.num_rows();
        let buyer = |key: usize| match key % 3 {
            0 if key == customer_count => key - 1,
            0 => key + 1,
            _ => key,
        };
        let buyers: Vec<bool> = (1..=customer_count).map(|key| customer_matches[buyer(key) - 1]).collect();
        let expected =
            query.line.0 * share(&day_matches) * share(&buyers) * share(&supplier_matches) * share(&part_matches);
        let count = (0..lines.num_rows())
            .filter(|&line| {
                day_matches[days[line]]
                    && (query.line.1)(discounts[line], quantities[line])
                    && customer_matches[customer_keys[line] as usize - 1]
                    && supplier_matches[supplier_keys[line] as usize - 1]
                    && part_matches[part_keys[line] as usize - 1]
            })
            .count();
        // An order's lines share day and customer. Lengths of 1 to 7 have a mean of 4 and a mean square of 20: clusters
        // of such lengths vary at most 20 / 4 times as much as single lines.
        assert_within_five_deviations(count, lines.num_rows(), expected, 5.0, query.name);
    }
}

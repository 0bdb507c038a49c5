//! The facts: orders of one to seven lines.
//!
//! Invariants: a line depends on seed, scale and its order's number. An order's first draw is its number of lines, so
//! that lines can be counted without producing them.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, StringBuilder};
use arrow::datatypes::{DataType, Field};

use crate::calendar::{Day, days};
use crate::draws::Draws;
use crate::part::price_cents;
use crate::words::{PRIORITIES, SHIP_MODES};

/// Most lines of an order.
const MOST_LINES: i32 = 7;

/// Days on which orders are placed: seven years less the 151 days in which TPC-H ships and receives, less one.
const ORDER_DAYS: i32 = 2_557 - 151;

/// Days from order to commitment.
const COMMITMENT_DAYS: (i32, i32) = (30, 90);

pub(crate) fn fields() -> Vec<Field> {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    let number = |name: &str| Field::new(name, DataType::Int32, false);
    vec![
        Field::new("lo_orderkey", DataType::Int64, false),
        number("lo_linenumber"),
        number("lo_custkey"),
        number("lo_partkey"),
        number("lo_suppkey"),
        number("lo_orderdate"),
        text("lo_orderpriority"),
        text("lo_shippriority"),
        number("lo_quantity"),
        number("lo_extendedprice"),
        number("lo_ordtotalprice"),
        number("lo_discount"),
        number("lo_revenue"),
        number("lo_supplycost"),
        number("lo_tax"),
        number("lo_commitdate"),
        text("lo_shipmode"),
    ]
}

/// What lines refer to, and from which draws.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Orders {
    /// This table's.
    pub(crate) draws_key: u64,
    pub(crate) customer_count: i32,
    pub(crate) supplier_count: i32,
    pub(crate) part_count: i32,
}

impl Orders {
    fn line_count(draws: &mut Draws) -> i32 {
        draws.between(1, MOST_LINES)
    }

    /// Lines of orders `orders`, counted from 0.
    pub(crate) fn count_lines(self, orders: Range<u64>) -> u64 {
        orders.map(|order| Self::line_count(&mut Draws::of_row(self.draws_key, order)) as u64).sum()
    }

    /// Every third customer has no orders.
    fn customer_key(self, draws: &mut Draws) -> i32 {
        let key = draws.between(1, self.customer_count);
        match key % 3 {
            0 if key == self.customer_count => key - 1,
            0 => key + 1,
            _ => key,
        }
    }

    /// The lines of the orders from `first` on, all lines of each, until there are `row_count` or the orders end before
    /// `end`. Also returns the order after the last one.
    pub(crate) fn columns(self, keys: &DateKeys, first: u64, end: u64, row_count: usize) -> (Vec<ArrayRef>, u64) {
        let most_lines = (end - first).saturating_mul(MOST_LINES as u64);
        let mut lines = Lines::with_capacity(most_lines.min(row_count as u64 + MOST_LINES as u64) as usize);
        let mut order = first;
        while order < end && lines.order_key.len() < row_count {
            self.push_order(&mut lines, keys, order);
            order += 1;
        }
        (lines.finish(), order)
    }

    fn push_order(self, lines: &mut Lines, keys: &DateKeys, order: u64) {
        let mut draws = Draws::of_row(self.draws_key, order);
        let line_count = Self::line_count(&mut draws);
        let order_day = draws.below(ORDER_DAYS as u64) as usize;
        let customer_key = self.customer_key(&mut draws);
        let priority = draws.pick(&PRIORITIES);
        let order_key = sparse_key(order + 1);
        let mut total_cents = 0;
        for line_number in 1..=line_count {
            let part_key = draws.between(1, self.part_count);
            let quantity = draws.between(1, 50);
            let discount = draws.between(0, 10);
            let tax = draws.between(0, 8);
            let price = price_cents(part_key);
            let extended_price = price * quantity;
            // At most 50 × 2,099.00 in hundredths, times 100: within 31 bits.
            let revenue = extended_price * (100 - discount) / 100;
            total_cents += revenue * (100 + tax) / 100;
            let commitment_day = order_day + draws.between(COMMITMENT_DAYS.0, COMMITMENT_DAYS.1) as usize;

            lines.order_key.push(order_key);
            lines.line_number.push(line_number);
            lines.customer_key.push(customer_key);
            lines.part_key.push(part_key);
            lines.supplier_key.push(draws.between(1, self.supplier_count));
            lines.order_date.push(keys.0[order_day]);
            lines.order_priority.append_value(priority);
            lines.ship_priority.append_value("0");
            lines.quantity.push(quantity);
            lines.extended_price.push(extended_price);
            lines.discount.push(discount);
            lines.revenue.push(revenue);
            lines.supply_cost.push(6 * price / 10);
            lines.tax.push(tax);
            lines.commit_date.push(keys.0[commitment_day]);
            lines.ship_mode.append_value(draws.pick(&SHIP_MODES));
        }
        let line_end = lines.order_total_price.len() + line_count as usize;
        lines.order_total_price.resize(line_end, total_cents);
    }
}

/// Eight keys of each 32 are used, as in TPC-H.
fn sparse_key(number: u64) -> i64 {
    ((number >> 3 << 5) | (number & 7)) as i64
}

/// The date table's keys by the day's number.
#[derive(Debug, Clone)]
pub(crate) struct DateKeys(Vec<i32>);

impl DateKeys {
    pub(crate) fn new() -> Self {
        Self(days().into_iter().map(Day::key).collect())
    }
}

struct Lines {
    order_key: Vec<i64>,
    line_number: Vec<i32>,
    customer_key: Vec<i32>,
    part_key: Vec<i32>,
    supplier_key: Vec<i32>,
    order_date: Vec<i32>,
    order_priority: StringBuilder,
    ship_priority: StringBuilder,
    quantity: Vec<i32>,
    extended_price: Vec<i32>,
    order_total_price: Vec<i32>,
    discount: Vec<i32>,
    revenue: Vec<i32>,
    supply_cost: Vec<i32>,
    tax: Vec<i32>,
    commit_date: Vec<i32>,
    ship_mode: StringBuilder,
}

impl Lines {
    fn with_capacity(row_count: usize) -> Self {
        let numbers = || Vec::with_capacity(row_count);
        let text = |width_bytes: usize| StringBuilder::with_capacity(row_count, row_count * width_bytes);
        Self {
            order_key: Vec::with_capacity(row_count),
            line_number: numbers(),
            customer_key: numbers(),
            part_key: numbers(),
            supplier_key: numbers(),
            order_date: numbers(),
            order_priority: text(9),
            ship_priority: text(1),
            quantity: numbers(),
            extended_price: numbers(),
            order_total_price: numbers(),
            discount: numbers(),
            revenue: numbers(),
            supply_cost: numbers(),
            tax: numbers(),
            commit_date: numbers(),
            ship_mode: text(5),
        }
    }

    fn finish(mut self) -> Vec<ArrayRef> {
        let numbers = |values: Vec<i32>| -> ArrayRef { Arc::new(Int32Array::from(values)) };
        vec![
            Arc::new(Int64Array::from(self.order_key)),
            numbers(self.line_number),
            numbers(self.customer_key),
            numbers(self.part_key),
            numbers(self.supplier_key),
            numbers(self.order_date),
            Arc::new(self.order_priority.finish()),
            Arc::new(self.ship_priority.finish()),
            numbers(self.quantity),
            numbers(self.extended_price),
            numbers(self.order_total_price),
            numbers(self.discount),
            numbers(self.revenue),
            numbers(self.supply_cost),
            numbers(self.tax),
            numbers(self.commit_date),
            Arc::new(self.ship_mode.finish()),
        ]
    }
}

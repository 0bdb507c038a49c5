//! The days: 2,556 of the seven years, so that 1998-12-31 is missing, as in dbgen.
//!
//! Deviations from dbgen, whose table says other things of a day than the specification: days of the week are those of
//! the calendar (dbgen is a day ahead), the flag of a month's last day is set on that day (dbgen's on all others),
//! months are spelled right, and a year's first week has seven days (dbgen's six).

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field};

use crate::calendar::{Day, days};
use crate::place::push_formatted;

/// Days of the table.
pub(crate) const ROW_COUNT: u64 = 2_556;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEK_DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Month and day of the ten holidays.
const HOLIDAYS: [(i32, i32); 10] =
    [(12, 24), (1, 1), (2, 20), (4, 20), (5, 20), (7, 20), (8, 20), (9, 20), (10, 20), (11, 20)];

pub(crate) fn fields() -> Vec<Field> {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    let number = |name: &str| Field::new(name, DataType::Int32, false);
    vec![
        number("d_datekey"),
        text("d_date"),
        text("d_dayofweek"),
        text("d_month"),
        number("d_year"),
        number("d_yearmonthnum"),
        text("d_yearmonth"),
        number("d_daynuminweek"),
        number("d_daynuminmonth"),
        number("d_daynuminyear"),
        number("d_monthnuminyear"),
        number("d_weeknuminyear"),
        text("d_sellingseason"),
        number("d_lastdayinweekfl"),
        number("d_lastdayinmonthfl"),
        number("d_holidayfl"),
        number("d_weekdayfl"),
    ]
}

fn season(month: i32) -> &'static str {
    match month {
        1..=3 => "Winter",
        4 => "Spring",
        5..=8 => "Summer",
        9 | 10 => "Fall",
        _ => "Christmas",
    }
}

/// Days `rows`, counted from 0. Nothing is drawn.
pub(crate) fn columns(rows: std::ops::Range<u64>) -> Vec<ArrayRef> {
    let days = &days()[rows.start as usize..rows.end as usize];
    let numbers =
        |of: fn(Day) -> i32| -> ArrayRef { Arc::new(Int32Array::from_iter_values(days.iter().map(|&day| of(day)))) };
    let words = |of: fn(Day) -> &'static str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(days.iter().map(|&day| of(day))))
    };
    let month = |day: Day| MONTHS[day.month as usize - 1];
    let (mut dates, mut year_months) = (StringBuilder::new(), StringBuilder::new());
    for &day in days {
        push_formatted(&mut dates, format_args!("{} {}, {}", month(day), day.of_month, day.year));
        push_formatted(&mut year_months, format_args!("{:.3}{}", month(day), day.year));
    }
    vec![
        numbers(Day::key),
        Arc::new(dates.finish()),
        words(|day| WEEK_DAYS[day.of_week() as usize - 1]),
        words(|day| MONTHS[day.month as usize - 1]),
        numbers(|day| day.year),
        numbers(|day| day.year * 100 + day.month),
        Arc::new(year_months.finish()),
        numbers(Day::of_week),
        numbers(|day| day.of_month),
        numbers(|day| day.of_year),
        numbers(|day| day.month),
        numbers(|day| (day.of_year - 1) / 7 + 1),
        words(|day| season(day.month)),
        numbers(|day| i32::from(day.of_week() == 7)),
        numbers(|day| i32::from(day.ends_month())),
        numbers(|day| i32::from(HOLIDAYS.contains(&(day.month, day.of_month)))),
        numbers(|day| i32::from((2..=6).contains(&day.of_week()))),
    ]
}

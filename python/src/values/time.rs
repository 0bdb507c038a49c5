//! Dates, times, durations and intervals.

use arrow::array::{Array, AsArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit,
    IntervalYearMonthType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDate, PyDateTime, PyDelta, PyTime, PyTuple, PyType, PyTzInfo};

use super::{Values, rows};
use crate::errors::InputError;

const SECONDS_PER_DAY: i64 = 24 * 60 * 60;
const MILLISECONDS_PER_DAY: i64 = SECONDS_PER_DAY * 1_000;

/// The values of an array of a temporal type.
pub(super) fn of_array<'py>(py: Python<'py>, array: &dyn Array, outer: Option<&NullBuffer>) -> PyResult<Values<'py>> {
    match array.data_type() {
        DataType::Date32 => each::<Date32Type>(py, array, outer, |days| date(py, days.into())),
        DataType::Date64 => each::<Date64Type>(py, array, outer, |ms| date(py, ms.div_euclid(MILLISECONDS_PER_DAY))),
        DataType::Time32(TimeUnit::Second) => {
            each::<Time32SecondType>(py, array, outer, |value| time(py, value.into(), TimeUnit::Second))
        }
        DataType::Time32(_) => {
            each::<Time32MillisecondType>(py, array, outer, |value| time(py, value.into(), TimeUnit::Millisecond))
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            each::<Time64MicrosecondType>(py, array, outer, |value| time(py, value, TimeUnit::Microsecond))
        }
        DataType::Time64(_) => {
            each::<Time64NanosecondType>(py, array, outer, |value| time(py, value, TimeUnit::Nanosecond))
        }
        DataType::Timestamp(unit, zone) => {
            let unit = *unit;
            let utc = PyTzInfo::utc(py)?.to_owned();
            let zone = zone.as_ref().map(|_| &utc);
            match unit {
                TimeUnit::Second => {
                    each::<TimestampSecondType>(py, array, outer, |value| date_time(py, value, unit, zone))
                }
                TimeUnit::Millisecond => {
                    each::<TimestampMillisecondType>(py, array, outer, |value| date_time(py, value, unit, zone))
                }
                TimeUnit::Microsecond => {
                    each::<TimestampMicrosecondType>(py, array, outer, |value| date_time(py, value, unit, zone))
                }
                TimeUnit::Nanosecond => {
                    each::<TimestampNanosecondType>(py, array, outer, |value| date_time(py, value, unit, zone))
                }
            }
        }
        DataType::Duration(unit) => {
            let unit = *unit;
            match unit {
                TimeUnit::Second => each::<DurationSecondType>(py, array, outer, |value| duration(py, value, unit)),
                TimeUnit::Millisecond => {
                    each::<DurationMillisecondType>(py, array, outer, |value| duration(py, value, unit))
                }
                TimeUnit::Microsecond => {
                    each::<DurationMicrosecondType>(py, array, outer, |value| duration(py, value, unit))
                }
                TimeUnit::Nanosecond => {
                    each::<DurationNanosecondType>(py, array, outer, |value| duration(py, value, unit))
                }
            }
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            each::<IntervalYearMonthType>(py, array, outer, |months| interval(py, months, 0, 0))
        }
        DataType::Interval(IntervalUnit::DayTime) => each::<IntervalDayTimeType>(py, array, outer, |value| {
            interval(py, 0, value.days, i64::from(value.milliseconds) * 1_000_000)
        }),
        DataType::Interval(IntervalUnit::MonthDayNano) => each::<IntervalMonthDayNanoType>(py, array, outer, |value| {
            interval(py, value.months, value.days, value.nanoseconds)
        }),
        other => Err(InputError::new_err(format!("type {other} has no Python value"))),
    }
}

fn each<'py, T: ArrowPrimitiveType>(
    py: Python<'py>,
    array: &dyn Array,
    outer: Option<&NullBuffer>,
    value: impl Fn(T::Native) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Values<'py>> {
    let array: &PrimitiveArray<T> = array.as_primitive();
    rows(py, array, outer, |row| value(array.value(row)))
}

/// Whole seconds, rounded down, and the microseconds left.
fn seconds_and_microseconds(value: i64, unit: TimeUnit) -> (i64, i64) {
    match unit {
        TimeUnit::Second => (value, 0),
        TimeUnit::Millisecond => (value.div_euclid(1_000), value.rem_euclid(1_000) * 1_000),
        TimeUnit::Microsecond => (value.div_euclid(1_000_000), value.rem_euclid(1_000_000)),
        TimeUnit::Nanosecond => (value.div_euclid(1_000_000_000), value.rem_euclid(1_000_000_000) / 1_000),
    }
}

/// Hour, minute and second of a second of a day.
fn clock(second: i64) -> (u8, u8, u8) {
    ((second / 3_600) as u8, (second / 60 % 60) as u8, (second % 60) as u8)
}

/// Year, month and day of a day since 1970-01-01, in the proleptic Gregorian calendar: counted in eras of 400 years
/// that begin on the first of March, so that the leap day comes last.
fn calendar(day: i64) -> PyResult<(i32, u8, u8)> {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    if !(1..=9_999).contains(&year) {
        return Err(InputError::new_err(format!("year {year} is outside the years 1 to 9999 of Python's datetime")));
    }
    Ok((year as i32, month as u8, day_of_month as u8))
}

fn date(py: Python<'_>, day: i64) -> PyResult<Bound<'_, PyAny>> {
    let (year, month, day) = calendar(day)?;
    Ok(PyDate::new(py, year, month, day)?.into_any())
}

fn time(py: Python<'_>, value: i64, unit: TimeUnit) -> PyResult<Bound<'_, PyAny>> {
    let (seconds, microseconds) = seconds_and_microseconds(value, unit);
    if !(0..SECONDS_PER_DAY).contains(&seconds) {
        return Err(InputError::new_err(format!("{seconds} s is no time of a day")));
    }
    let (hour, minute, second) = clock(seconds);
    Ok(PyTime::new(py, hour, minute, second, microseconds as u32, None)?.into_any())
}

fn date_time<'py>(
    py: Python<'py>,
    value: i64,
    unit: TimeUnit,
    zone: Option<&Bound<'py, PyTzInfo>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (seconds, microseconds) = seconds_and_microseconds(value, unit);
    let (year, month, day) = calendar(seconds.div_euclid(SECONDS_PER_DAY))?;
    let (hour, minute, second) = clock(seconds.rem_euclid(SECONDS_PER_DAY));
    Ok(PyDateTime::new(py, year, month, day, hour, minute, second, microseconds as u32, zone)?.into_any())
}

fn duration(py: Python<'_>, value: i64, unit: TimeUnit) -> PyResult<Bound<'_, PyAny>> {
    let (seconds, microseconds) = seconds_and_microseconds(value, unit);
    let Ok(days) = i32::try_from(seconds.div_euclid(SECONDS_PER_DAY)) else {
        return Err(InputError::new_err(format!("{seconds} s is more than Python's timedelta holds")));
    };
    Ok(PyDelta::new(py, days, seconds.rem_euclid(SECONDS_PER_DAY) as i32, microseconds as i32, true)?.into_any())
}

fn interval(py: Python<'_>, months: i32, days: i32, nanoseconds: i64) -> PyResult<Bound<'_, PyAny>> {
    static INTERVAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = INTERVAL.import(py, "thermocline.interval", "Interval")?;
    // The class's own `__new__` is Python code, which signal handlers interrupt; it calls this one.
    py.get_type::<PyTuple>().call_method1(intern!(py, "__new__"), (class, (months, days, nanoseconds)))
}

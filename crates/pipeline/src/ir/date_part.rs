//! Parts of dates, by arithmetic on days alone.
//!
//! **Deviation**: DataFusion's calendar ends 262,143 years from now, and parts of dates beyond it are NULL there; here
//! they are an error, so that nothing is NULL that was none.
//!
//! **Source**: years, months and days of a count of days: H. Hinnant, *chrono-Compatible Low-Level Date Algorithms*
//! (2013), `civil_from_days`.

/// What of a date is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DatePart {
    /// Of the proleptic Gregorian calendar; the year before 1 is 0.
    Year,
    /// 1 to 4.
    Quarter,
    /// 1 to 12.
    Month,
    /// Of the month, from 1 on.
    Day,
    /// Of the year, from 1 on.
    DayOfYear,
    /// Of the week, Sunday being 0.
    DayOfWeek,
}

/// The days of 400 years, after which the calendar repeats itself.
const ERA_DAYS: i32 = 146_097;
/// From the first day of March of the year 0 to 1970-01-01.
const EPOCH_DAYS: i32 = 719_468;
/// The years for which DataFusion has dates.
const LEAST_YEAR: i32 = -262_143;
const GREATEST_YEAR: i32 = 262_142;
/// Days since 1970-01-01 of the first day of the first of them, and of the last day of the last.
const LEAST_DAY: i32 = -96_465_292;
const GREATEST_DAY: i32 = 95_026_236;

impl DatePart {
    /// As SQL names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Year => "year",
            Self::Quarter => "quarter",
            Self::Month => "month",
            Self::Day => "day",
            Self::DayOfYear => "doy",
            Self::DayOfWeek => "dow",
        }
    }

    /// Of the date so many days from 1970-01-01; `None` for one that DataFusion does not have.
    #[inline(always)]
    pub(crate) fn of_days(self, days: i32) -> Option<i32> {
        if !(LEAST_DAY..=GREATEST_DAY).contains(&days) {
            return None;
        }
        if self == Self::DayOfWeek {
            // 1970-01-01 was a Thursday.
            return Some((days + 4).rem_euclid(7));
        }
        // Years begin in March here, so that leap days are their last.
        let shifted = days + EPOCH_DAYS;
        let (era, day_of_era) = (shifted.div_euclid(ERA_DAYS), shifted.rem_euclid(ERA_DAYS));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let year = era * 400 + year_of_era + i32::from(month <= 2);
        Some(match self {
            Self::Year => year,
            Self::Quarter => (month + 2) / 3,
            Self::Month => month,
            Self::Day => day_of_year - (153 * march_month + 2) / 5 + 1,
            Self::DayOfYear if month <= 2 => day_of_year - 305,
            Self::DayOfYear => {
                let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
                day_of_year + 60 + i32::from(is_leap)
            }
            Self::DayOfWeek => 0,
        })
    }

    /// The least and greatest it can be for dates of these days.
    pub(crate) fn range(self, least: i64, greatest: i64) -> (i64, i64) {
        let year = |day: i64| {
            let day = day.clamp(LEAST_DAY.into(), GREATEST_DAY.into()) as i32;
            self.of_days(day).unwrap_or(if day < 0 { LEAST_YEAR } else { GREATEST_YEAR })
        };
        match self {
            Self::Year => (year(least).into(), year(greatest).into()),
            Self::Quarter => (1, 4),
            Self::Month => (1, 12),
            Self::Day => (1, 31),
            Self::DayOfYear => (1, 366),
            Self::DayOfWeek => (0, 6),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use arrow::array::{AsArray, Date32Array};
    use arrow::compute;
    use arrow::datatypes::Int32Type;
    use thermocline_seeded::Random;

    use super::*;

    #[test]
    fn parts_are_those_that_arrow_takes_of_the_same_dates() {
        let mut random = Random::new(1);
        let mut days: Vec<i32> = (-800_000..800_000).step_by(1).collect();
        days.extend([i32::MIN, LEAST_DAY - 1, LEAST_DAY, GREATEST_DAY, GREATEST_DAY + 1, i32::MAX]);
        days.extend((0..100_000).map(|_| random.next_u64() as i32));
        let dates = Date32Array::from(days.clone());
        let parts = [
            (DatePart::Year, compute::DatePart::Year),
            (DatePart::Quarter, compute::DatePart::Quarter),
            (DatePart::Month, compute::DatePart::Month),
            (DatePart::Day, compute::DatePart::Day),
            (DatePart::DayOfYear, compute::DatePart::DayOfYear),
            (DatePart::DayOfWeek, compute::DatePart::DayOfWeekSunday0),
        ];
        for (part, of_arrow) in parts {
            let expected = compute::date_part(&dates, of_arrow).unwrap();
            for (day, expected) in days.iter().zip(expected.as_primitive::<Int32Type>()) {
                assert_eq!(part.of_days(*day), expected, "{} of day {day}", part.name());
            }
        }
    }

    #[test]
    fn ranges_hold_what_dates_have() {
        let mut random = Random::new(2);
        let parts = [DatePart::Year, DatePart::Quarter, DatePart::Month, DatePart::DayOfYear, DatePart::DayOfWeek];
        for _ in 0..1000 {
            let (one, other) = (random.next_u64() as i32, random.next_u64() as i32);
            let (least, greatest) = (one.min(other), one.max(other));
            for part in parts {
                let (low, high) = part.range(least.into(), greatest.into());
                let between = (i64::from(least) + random.below(1000) as i64).min(greatest.into());
                for day in [i64::from(least), greatest.into(), between] {
                    let found = part.of_days(day as i32);
                    assert!(found.is_none_or(|found| (low..=high).contains(&found.into())), "{} of {day}", part.name());
                }
            }
        }
    }
}

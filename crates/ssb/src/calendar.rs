//! Days of the seven years from 1992 to 1998, by their number from 1992-01-01 (day 0).
//!
//! Owns the calendar alone; what the date table says of a day is `date`'s.

/// Years that the benchmark covers.
const YEARS: std::ops::RangeInclusive<i32> = 1992..=1998;

/// A day of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Day {
    /// From day 0, a Wednesday.
    pub(crate) number: i32,
    pub(crate) year: i32,
    /// 1 to 12.
    pub(crate) month: i32,
    /// 1 to 31.
    pub(crate) of_month: i32,
    /// 1 to 366.
    pub(crate) of_year: i32,
}

impl Day {
    /// The day as the number YYYYMMDD: the date table's key.
    pub(crate) fn key(self) -> i32 {
        (self.year * 100 + self.month) * 100 + self.of_month
    }

    /// 1 for Sunday to 7 for Saturday.
    pub(crate) fn of_week(self) -> i32 {
        (self.number + 3) % 7 + 1
    }

    /// Whether the next day is in another month.
    pub(crate) fn ends_month(self) -> bool {
        self.of_month == month_days(self.year, self.month)
    }
}

/// Every day from 1992-01-01 to 1998-12-31, in order.
pub(crate) fn days() -> Vec<Day> {
    let mut days = Vec::with_capacity(2_557);
    for year in YEARS {
        let mut of_year = 0;
        for month in 1..=12 {
            for of_month in 1..=month_days(year, month) {
                of_year += 1;
                days.push(Day { number: days.len() as i32, year, month, of_month, of_year });
            }
        }
    }
    days
}

fn month_days(year: i32, month: i32) -> i32 {
    match month {
        // No year of the seven is divisible by 100.
        2 => 28 + i32::from(year % 4 == 0),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days_have_their_keys_and_days_of_the_week() {
        let days = days();
        assert_eq!(days.len(), 2_557);
        for (number, key, of_week, of_year) in [
            (0, 19920101, 4, 1),
            (59, 19920229, 7, 60),
            (366, 19930101, 6, 1),
            (2_405, 19980802, 1, 214),
            (2_556, 19981231, 5, 365),
        ] {
            let day = days[number];
            assert_eq!((day.key(), day.of_week(), day.of_year), (key, of_week, of_year), "day {number}");
        }
        assert_eq!(days.iter().filter(|day| day.ends_month()).count(), 84);
    }
}

//! A domain as the SQL predicate it stands for.

use std::fmt::{self, Display, Formatter, Write};
use std::ops::Bound;

use super::{Domain, gaps};
use crate::{Interval, Scalar};

impl Domain {
    /// Shows the set as a SQL predicate on `subject`: `x >= 1 AND x < 5`, `x IN ('a', 'b')`, `x <> 3`,
    /// `(x < 0 OR x IS NULL)`. An alternative is parenthesised, so that the text can stand in a conjunction.
    pub fn display<'a>(&'a self, subject: &'a dyn Display) -> impl Display + 'a {
        Predicate { domain: self, subject }
    }
}

struct Predicate<'a> {
    domain: &'a Domain,
    subject: &'a dyn Display,
}

impl Display for Predicate<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { domain, subject } = self;
        if domain.is_all() {
            return f.write_str("TRUE");
        }
        if domain.is_empty() {
            return f.write_str("FALSE");
        }
        let mut alternatives = Vec::new();
        self.values(&mut alternatives)?;
        if domain.admits_null {
            alternatives.push(format!("{subject} IS NULL"));
        }
        match alternatives.as_slice() {
            [only] => f.write_str(only),
            several => write!(f, "({})", several.join(" OR ")),
        }
    }
}

impl Predicate<'_> {
    /// The alternatives for values that aren't NULL.
    fn values(&self, alternatives: &mut Vec<String>) -> fmt::Result {
        let Self { domain, subject } = self;
        let intervals = &domain.intervals;
        let holes: Vec<Interval> =
            gaps(&domain.ranges()).into_iter().filter(|(low, high)| low < high).map(Interval::from_range).collect();
        if intervals.len() > 1
            && let Some(excluded) = as_points(&holes)
        {
            alternatives.push(match excluded.as_slice() {
                [only] => format!("{subject} <> {only}"),
                several => format!("{subject} NOT IN ({})", list(several)?),
            });
            return Ok(());
        }
        if let Some(points) = as_points(intervals).filter(|points| points.len() > 1) {
            alternatives.push(format!("{subject} IN ({})", list(&points)?));
            return Ok(());
        }
        for interval in intervals.iter() {
            alternatives.push(self.interval(interval)?);
        }
        Ok(())
    }

    fn interval(&self, interval: &Interval) -> Result<String, fmt::Error> {
        let subject = self.subject;
        if let Some(point) = interval.as_point() {
            return Ok(format!("{subject} = {point}"));
        }
        let mut text = String::new();
        match &interval.low {
            Bound::Unbounded => {}
            Bound::Included(low) => write!(text, "{subject} >= {low}")?,
            Bound::Excluded(low) => write!(text, "{subject} > {low}")?,
        }
        if !matches!(interval.low, Bound::Unbounded) && !matches!(interval.high, Bound::Unbounded) {
            text.push_str(" AND ");
        }
        match &interval.high {
            Bound::Unbounded if text.is_empty() => write!(text, "{subject} IS NOT NULL")?,
            Bound::Unbounded => {}
            Bound::Included(high) => write!(text, "{subject} <= {high}")?,
            Bound::Excluded(high) => write!(text, "{subject} < {high}")?,
        }
        Ok(text)
    }
}

/// The points, if every interval is one and there is any.
fn as_points(intervals: &[Interval]) -> Option<Vec<&Scalar>> {
    if intervals.is_empty() { None } else { intervals.iter().map(Interval::as_point).collect() }
}

fn list(points: &[&Scalar]) -> Result<String, fmt::Error> {
    let mut text = String::new();
    for (index, point) in points.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        write!(text, "{separator}{point}")?;
    }
    Ok(text)
}

//! Conjunctions of per-field domains in normal form.

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;

use crate::{Domain, FieldPath, PredicateError};

/// What a select asks of its rows: every field's value lies in that field's domain.
///
/// In normal form: one domain a field, none that admits everything. Equal conjunctions are equal predicates (of
/// those that can be satisfied). Shown as SQL: `o_totalprice >= 1 AND o_totalprice < 5`, `TRUE` when there is no
/// constraint.
///
/// ```
/// use std::ops::Bound::{Excluded, Included};
/// use thermocline_predicate::{Conjunction, Domain, FieldPath, Scalar};
/// let price = FieldPath::root("o_totalprice");
/// let range = |low, high| Domain::interval(Included(Scalar::Int(low)), Excluded(Scalar::Int(high)));
/// let item = Conjunction::all().and(price.clone(), range(1, 10));
/// let query = Conjunction::all().and(price, range(1, 5));
/// assert_eq!(query.to_string(), "o_totalprice >= 1 AND o_totalprice <= 4");
/// assert!(item.covers(&query) && !query.covers(&item));
/// assert_eq!(item.residual(&query).to_string(), "o_totalprice <= 4");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Conjunction {
    domains: BTreeMap<FieldPath, Domain>,
}

impl Conjunction {
    /// No constraint: every row passes.
    pub fn all() -> Self {
        Self::default()
    }

    /// Also asks that the field at `path` lies in `domain`.
    #[must_use]
    pub fn and(mut self, path: FieldPath, domain: Domain) -> Self {
        self.constrain(path, &domain);
        self
    }

    /// Also asks everything that `other` asks.
    #[must_use]
    pub fn merge(mut self, other: &Conjunction) -> Self {
        for (path, domain) in &other.domains {
            self.constrain(path.clone(), domain);
        }
        self
    }

    /// The same, but the field at `path` may take exactly the values of `domain`.
    #[must_use]
    pub fn replace(&self, path: &FieldPath, domain: Domain) -> Self {
        let mut replaced = self.clone();
        replaced.domains.remove(path);
        replaced.and(path.clone(), domain)
    }

    fn constrain(&mut self, path: FieldPath, domain: &Domain) {
        match self.domains.entry(path) {
            Entry::Occupied(mut entry) => {
                let both = entry.get().intersect(domain);
                entry.insert(both);
            }
            Entry::Vacant(_) if domain.is_all() => {}
            Entry::Vacant(entry) => {
                entry.insert(domain.clone());
            }
        }
    }

    /// Whether every row that passes `narrower` passes this, whatever the data.
    pub fn covers(&self, narrower: &Conjunction) -> bool {
        let covered = self.domains.iter().all(|(path, domain)| {
            // A field that `narrower` leaves open is covered by no constraint, as none here admits everything.
            narrower.domains.get(path).is_some_and(|asked| domain.covers(asked))
        });
        covered || narrower.is_unsatisfiable()
    }

    /// Whether every row passes.
    pub fn is_all(&self) -> bool {
        self.domains.is_empty()
    }

    /// Whether some field can take no value, so that no row passes.
    pub fn is_unsatisfiable(&self) -> bool {
        self.domains.values().any(Domain::is_empty)
    }

    /// The constrained fields, in order of their paths.
    pub fn fields(&self) -> impl Iterator<Item = (&FieldPath, &Domain)> {
        self.domains.iter()
    }

    /// What is asked of one field; `None` if nothing is.
    pub fn domain(&self, path: &FieldPath) -> Option<&Domain> {
        self.domains.get(path)
    }

    /// The intervals of all fields together: what comparing it with another takes, and what it takes in memory, go with
    /// them. Costs a step a field.
    pub fn interval_count(&self) -> usize {
        self.domains.values().map(|domain| domain.intervals().len()).sum()
    }

    /// What is left to check on rows that pass this predicate (a cached item's) to find those that pass `query`.
    ///
    /// Provided that `self.covers(query)`, the rows that pass this and the residual are exactly those that pass
    /// `query`. Fields that this implies are left out, and so are outer bounds that both share.
    #[must_use]
    pub fn residual(&self, query: &Conjunction) -> Conjunction {
        let mut residual = Self::all();
        for (path, asked) in &query.domains {
            let rest = match self.domains.get(path) {
                Some(known) => asked.simplify_within(known),
                None => asked.clone(),
            };
            residual.constrain(path.clone(), &rest);
        }
        residual
    }

    /// Which of `row_count` rows pass. `None` if all do because nothing is asked.
    ///
    /// `column` finds the column of a field; it is asked for constrained fields only, in order, and no more once
    /// no row is left. The result has no nulls: a row whose field is NULL passes if the domain admits NULL.
    ///
    /// # Errors
    /// If a column is missing, has another length, or is of a type that its domain can't be compared with.
    pub fn evaluate(
        &self,
        row_count: usize,
        column: &dyn Fn(&FieldPath) -> Option<ArrayRef>,
    ) -> Result<Option<BooleanArray>, PredicateError> {
        let mut passing: Option<BooleanBuffer> = None;
        for (path, domain) in &self.domains {
            if passing.as_ref().is_some_and(|rows| !rows.has_true()) {
                break;
            }
            let array = column(path).ok_or_else(|| PredicateError::MissingColumn { path: path.clone() })?;
            if array.len() != row_count {
                return Err(PredicateError::LengthMismatch {
                    path: path.clone(),
                    expected_rows: row_count,
                    seen_rows: array.len(),
                });
            }
            let rows = domain
                .evaluate(&array)
                .map_err(|source| PredicateError::Field { path: path.clone(), source: Box::new(source) })?;
            let (rows, _) = rows.into_parts();
            passing = Some(match passing {
                Some(before) => &before & &rows,
                None => rows,
            });
        }
        Ok(passing.map(|rows| BooleanArray::new(rows, None)))
    }

    /// The predicate as text of `most_bytes` at most and a few, for whoever wants an idea of it: of a long list of values
    /// the least ones and how many there are beside them. Not SQL.
    ///
    /// ```
    /// use thermocline_predicate::{Conjunction, Domain, FieldPath, Scalar};
    /// let list = Domain::points((0..1000).map(|step| Scalar::Int(step * 10)));
    /// let text = Conjunction::all().and(FieldPath::root("id"), list).brief(500);
    /// assert_eq!(text, "(id IN (0, 10, 20, 30, 40, 50, 60, 70) OR … 992 more)");
    /// ```
    pub fn brief(&self, most_bytes: usize) -> String {
        const SHOWN: usize = 8;
        let mut text = String::new();
        for (path, domain) in &self.domains {
            if text.len() > most_bytes {
                break;
            }
            let separator = if text.is_empty() { "" } else { " AND " };
            let hidden_count = domain.intervals().len().saturating_sub(SHOWN);
            text += &match hidden_count {
                0 => format!("{separator}{}", domain.display(path)),
                _ => {
                    let null = if domain.admits_null() { format!(" OR {path} IS NULL") } else { String::new() };
                    format!("{separator}({} OR … {hidden_count} more{null})", domain.least(SHOWN).display(path))
                }
            };
        }
        if text.len() > most_bytes {
            text.truncate(text.floor_char_boundary(most_bytes));
            text.push('…');
        }
        text
    }

    /// Bytes on the heap, up to the slack of the map's nodes.
    pub fn heap_bytes(&self) -> usize {
        self.domains
            .iter()
            .map(|(path, domain)| size_of::<(FieldPath, Domain)>() + path.heap_bytes() + domain.heap_bytes())
            .sum()
    }
}

impl FromIterator<(FieldPath, Domain)> for Conjunction {
    fn from_iter<I: IntoIterator<Item = (FieldPath, Domain)>>(constraints: I) -> Self {
        constraints.into_iter().fold(Self::all(), |all, (path, domain)| all.and(path, domain))
    }
}

impl fmt::Display for Conjunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_all() {
            return f.write_str("TRUE");
        }
        for (index, (path, domain)) in self.domains.iter().enumerate() {
            if index > 0 {
                f.write_str(" AND ")?;
            }
            write!(f, "{}", domain.display(path))?;
        }
        Ok(())
    }
}

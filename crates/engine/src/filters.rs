//! From SQL filters to the normal form of [`thermocline_predicate`].
//!
//! A filter is taken over by the scan only when it says something about one field and can be said exactly as a
//! [`Domain`]; everything else stays a `Filter` above the scan. Three-valued logic is kept by translating every
//! expression twice: the values for which it is *true* and those for which it is *false*; NULL belongs to neither
//! unless the expression says so (`IS NULL`). `NOT` swaps the two.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use thermocline_predicate::{Conjunction, Domain, FieldPath, Scalar};

/// Resolves columns and `get_field` chains of a table to paths in its records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    /// The table's schema.
    pub(crate) schema: &'a Schema,
    /// For an unnested table: the name of the element column and the path of its list.
    pub(crate) element: Option<(&'a str, &'a FieldPath)>,
}

impl Fields<'_> {
    /// The path and type of column `name`.
    pub(crate) fn column(&self, name: &str) -> Option<(FieldPath, DataType)> {
        let field = self.schema.field_with_name(name).ok()?;
        let path = match self.element {
            Some((element, list)) if element == name => list.clone(),
            _ => FieldPath::root(name),
        };
        Some((path, field.data_type().clone()))
    }

    /// The path and type that `expr` names, if it is a column or a chain of `get_field` calls through structs.
    pub(crate) fn path(&self, expr: &Expr) -> Option<(FieldPath, DataType)> {
        match expr {
            Expr::Column(column) => self.column(&column.name),
            Expr::ScalarFunction(call) if call.func.name() == "get_field" => {
                let (base, names) = call.args.split_first()?;
                let (mut path, mut data_type) = self.path(base)?;
                for name in names {
                    let Expr::Literal(value, _) = name else { return None };
                    (path, data_type) = child(&path, &data_type, value.try_as_str()??)?;
                }
                Some((path, data_type))
            }
            // Casts between string representations change no value.
            Expr::Cast(cast) if is_string(cast.field.data_type()) => {
                self.path(&cast.expr).filter(|(_, data_type)| is_string(data_type))
            }
            Expr::Alias(alias) => self.path(&alias.expr),
            _ => None,
        }
    }
}

/// The field `name` of a struct at `path`.
pub(crate) fn child(path: &FieldPath, data_type: &DataType, name: &str) -> Option<(FieldPath, DataType)> {
    let DataType::Struct(fields) = data_type else { return None };
    let field = fields.iter().find(|field| field.name() == name)?;
    Some((path.child(name), field.data_type().clone()))
}

fn is_string(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// One filter as a condition on one field; `None` when it must stay above the scan.
pub(crate) fn condition(fields: &Fields<'_>, filter: &Expr) -> Option<(FieldPath, DataType, Domain)> {
    let sets = truth(fields, filter)?;
    Some((sets.path, sets.data_type, sets.when_true))
}

/// All filters as one conjunction, with the type of each field in it. Every filter must be a [`condition`].
pub(crate) fn conjunction(fields: &Fields<'_>, filters: &[Expr]) -> Option<(Conjunction, Vec<(FieldPath, DataType)>)> {
    let mut predicate = Conjunction::all();
    let mut types: Vec<(FieldPath, DataType)> = Vec::new();
    for filter in filters {
        let (path, data_type, domain) = condition(fields, filter)?;
        if !types.iter().any(|(known, _)| *known == path) {
            types.push((path.clone(), data_type));
        }
        predicate = predicate.and(path, domain);
    }
    types.retain(|(path, _)| predicate.domain(path).is_some());
    Some((predicate, types))
}

/// For which values of one field an expression is true, and for which it is false.
struct Truth {
    path: FieldPath,
    data_type: DataType,
    when_true: Domain,
    when_false: Domain,
}

impl Truth {
    /// A condition that is NULL for NULL: false exactly where it is not true among the other values.
    fn of_values(path: FieldPath, data_type: DataType, when_true: Domain) -> Self {
        let when_false = when_true.complement();
        Self { path, data_type, when_true, when_false }
    }

    fn negated(self) -> Self {
        Self { when_true: self.when_false, when_false: self.when_true, ..self }
    }
}

fn truth(fields: &Fields<'_>, expr: &Expr) -> Option<Truth> {
    match expr {
        Expr::Alias(alias) => truth(fields, &alias.expr),
        Expr::Not(inner) => truth(fields, inner).map(Truth::negated),
        Expr::IsNull(inner) => {
            let (path, data_type) = scalar_field(fields, inner)?;
            Some(Truth { path, data_type, when_true: Domain::null(), when_false: Domain::not_null() })
        }
        Expr::IsNotNull(inner) => {
            let (path, data_type) = scalar_field(fields, inner)?;
            Some(Truth { path, data_type, when_true: Domain::not_null(), when_false: Domain::null() })
        }
        Expr::Between(between) => {
            let (path, data_type) = scalar_field(fields, &between.expr)?;
            let low = literal(&between.low, &data_type)?;
            let high = literal(&between.high, &data_type)?;
            let sets = Truth::of_values(path, data_type, at_least(low).intersect(&at_most(high)));
            Some(if between.negated { sets.negated() } else { sets })
        }
        Expr::InList(list) if let Some(beginning) = Beginning::of(fields, &list.expr) => {
            let sets = beginning.among(&list.list)?;
            Some(if list.negated { sets.negated() } else { sets })
        }
        Expr::InList(list) => {
            let (path, data_type) = scalar_field(fields, &list.expr)?;
            let points: Option<Vec<Scalar>> = list.list.iter().map(|item| literal(item, &data_type)).collect();
            // DataFusion compares the zeros of a list bit by bit (`logical_rules` take them out).
            let points = points?;
            if points.iter().any(is_zero) {
                return None;
            }
            let sets = Truth::of_values(path, data_type, Domain::points(points));
            Some(if list.negated { sets.negated() } else { sets })
        }
        Expr::BinaryExpr(binary) => binary_truth(fields, binary),
        Expr::Like(like) => {
            let (path, data_type) = scalar_field(fields, &like.expr)?;
            let Scalar::Utf8(pattern) = literal(&like.pattern, &data_type)? else { return None };
            // ILIKE folds letters, and only the usual escape is known to be evaluated.
            if like.case_insensitive || like.escape_char.is_some_and(|escape| escape != '\\') {
                return None;
            }
            let sets = Truth::of_values(path, data_type, pattern_domain(&pattern)?);
            Some(if like.negated { sets.negated() } else { sets })
        }
        Expr::Column(_) | Expr::ScalarFunction(_) => {
            let (path, data_type) = fields.path(expr)?;
            (data_type == DataType::Boolean)
                .then(|| Truth::of_values(path, data_type, Domain::point(Scalar::Boolean(true))))
        }
        Expr::IsTrue(inner) => {
            let sets = truth(fields, inner)?;
            let when_false = Domain::all().subtract(&sets.when_true);
            Some(Truth { when_false, ..sets })
        }
        Expr::IsFalse(inner) => {
            let sets = truth(fields, inner)?.negated();
            let when_false = Domain::all().subtract(&sets.when_true);
            Some(Truth { when_false, ..sets })
        }
        _ => None,
    }
}

fn binary_truth(fields: &Fields<'_>, binary: &BinaryExpr) -> Option<Truth> {
    let BinaryExpr { left, op, right } = binary;
    if matches!(op, Operator::And | Operator::Or) {
        let (left, right) = (truth(fields, left)?, truth(fields, right)?);
        if left.path != right.path {
            return None;
        }
        let (when_true, when_false) = if *op == Operator::And {
            (left.when_true.intersect(&right.when_true), left.when_false.union(&right.when_false))
        } else {
            (left.when_true.union(&right.when_true), left.when_false.intersect(&right.when_false))
        };
        return Some(Truth { when_true, when_false, ..left });
    }
    if matches!(op, Operator::Eq | Operator::NotEq)
        && let Some(beginning) = Beginning::of(fields, left)
    {
        let sets = beginning.among(std::slice::from_ref(right))?;
        return Some(if *op == Operator::NotEq { sets.negated() } else { sets });
    }
    let ((path, data_type), op, value) = match scalar_field(fields, left) {
        Some(field) => {
            let value = literal(right, &field.1)?;
            (field, *op, value)
        }
        None => {
            let field = scalar_field(fields, right)?;
            let value = literal(left, &field.1)?;
            (field, op.swap()?, value)
        }
    };
    let domain = match op {
        Operator::Eq => equal_to(value),
        Operator::NotEq => equal_to(value).complement(),
        Operator::Lt => at_least(value).complement(),
        Operator::LtEq => at_most(value),
        Operator::Gt => at_most(value).complement(),
        Operator::GtEq => at_least(value),
        _ => return None,
    };
    Some(Truth::of_values(path, data_type, domain))
}

/// The first letters of a text: `substr(text, 1, count)` or `left(text, count)`.
struct Beginning {
    path: FieldPath,
    data_type: DataType,
    letter_count: usize,
}

impl Beginning {
    fn of(fields: &Fields<'_>, expr: &Expr) -> Option<Self> {
        let (text, letter_count) = match expr {
            Expr::Alias(alias) => return Self::of(fields, &alias.expr),
            Expr::ScalarFunction(call) => match (call.func.name(), call.args.as_slice()) {
                ("substr", [text, Expr::Literal(ScalarValue::Int64(Some(1)), _), count]) | ("left", [text, count]) => {
                    (text, count)
                }
                _ => return None,
            },
            _ => return None,
        };
        let Expr::Literal(ScalarValue::Int64(Some(letter_count)), _) = letter_count else { return None };
        let (path, data_type) = fields.path(text).filter(|(_, data_type)| is_string(data_type))?;
        Some(Self { path, data_type, letter_count: usize::try_from(*letter_count).ok()? })
    }

    /// Where it is one of some texts: of so many letters what begins with them, of fewer just these.
    fn among(self, texts: &[Expr]) -> Option<Truth> {
        let Self { path, data_type, letter_count } = self;
        let begun_by = |text: &Expr| match literal(text, &data_type)? {
            Scalar::Utf8(text) => Some(match text.chars().count().cmp(&letter_count) {
                Ordering::Equal => Domain::prefix(&text),
                Ordering::Less => Domain::point(Scalar::Utf8(text)),
                Ordering::Greater => Domain::none(),
            }),
            _ => None,
        };
        let begun: Vec<Domain> = texts.iter().map(begun_by).collect::<Option<_>>()?;
        let when_true = union_of(begun);
        Some(Truth::of_values(path, data_type, when_true))
    }
}

/// The strings that a LIKE pattern matches, if it has no wildcard but `%` at its end. `starts_with` arrives as such a
/// pattern too, its argument escaped. A backslash stands for the character behind it, and for itself at the end.
fn pattern_domain(pattern: &str) -> Option<Domain> {
    let mut text = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '%' if letters.as_str().bytes().all(|rest| rest == b'%') => return Some(Domain::prefix(&text)),
            '%' | '_' => return None,
            '\\' => text.push(letters.next().unwrap_or('\\')),
            letter => text.push(letter),
        }
    }
    Some(Domain::point(Scalar::from(text.as_str())))
}

/// What is in any of many domains: two and two, so that each is copied a few times alone.
fn union_of(mut domains: Vec<Domain>) -> Domain {
    while domains.len() > 1 {
        let unions = domains.chunks(2).map(|pair| match pair {
            [one, other] => one.union(other),
            _ => pair[0].clone(),
        });
        domains = unions.collect();
    }
    domains.pop().unwrap_or_else(Domain::none)
}

/// The values that compare equal to `value`. A domain orders floats totally, SQL holds both zeros to be equal: a bound
/// at zero is moved to the zero on its far side.
fn equal_to(value: Scalar) -> Domain {
    at_least(value.clone()).intersect(&at_most(value))
}

fn at_least(value: Scalar) -> Domain {
    let value = if is_zero(&value) { Scalar::Float(-0.0) } else { value };
    Domain::interval(Bound::Included(value), Bound::Unbounded)
}

fn at_most(value: Scalar) -> Domain {
    let value = if is_zero(&value) { Scalar::Float(0.0) } else { value };
    Domain::interval(Bound::Unbounded, Bound::Included(value))
}

fn is_zero(value: &Scalar) -> bool {
    matches!(value, Scalar::Float(value) if *value == 0.0)
}

/// A field whose type has a [`Scalar`].
fn scalar_field(fields: &Fields<'_>, expr: &Expr) -> Option<(FieldPath, DataType)> {
    fields.path(expr).filter(|(_, data_type)| {
        matches!(
            data_type,
            DataType::Boolean
                | DataType::Int8
                | DataType::Int16
                | DataType::Int32
                | DataType::Int64
                | DataType::UInt8
                | DataType::UInt16
                | DataType::UInt32
                | DataType::UInt64
                | DataType::Float32
                | DataType::Float64
                | DataType::Date32
                | DataType::Timestamp(_, _)
                | DataType::Decimal128(_, _)
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
        )
    })
}

/// A literal of exactly the field's type; NULL literals have no place in a domain.
fn literal(expr: &Expr, data_type: &DataType) -> Option<Scalar> {
    let value = match expr {
        Expr::Literal(value, _) => value,
        Expr::Alias(alias) => return literal(&alias.expr, data_type),
        _ => return None,
    };
    if value.is_null() || (value.data_type() != *data_type && !(is_string(&value.data_type()) && is_string(data_type)))
    {
        return None;
    }
    Some(match value {
        ScalarValue::Boolean(Some(v)) => Scalar::Boolean(*v),
        ScalarValue::Int8(Some(v)) => Scalar::Int(i128::from(*v)),
        ScalarValue::Int16(Some(v)) => Scalar::Int(i128::from(*v)),
        ScalarValue::Int32(Some(v)) | ScalarValue::Date32(Some(v)) => Scalar::Int(i128::from(*v)),
        ScalarValue::Int64(Some(v))
        | ScalarValue::TimestampSecond(Some(v), _)
        | ScalarValue::TimestampMillisecond(Some(v), _)
        | ScalarValue::TimestampMicrosecond(Some(v), _)
        | ScalarValue::TimestampNanosecond(Some(v), _) => Scalar::Int(i128::from(*v)),
        ScalarValue::UInt8(Some(v)) => Scalar::Int(i128::from(*v)),
        ScalarValue::UInt16(Some(v)) => Scalar::Int(i128::from(*v)),
        ScalarValue::UInt32(Some(v)) => Scalar::Int(i128::from(*v)),
        ScalarValue::UInt64(Some(v)) => Scalar::Int(i128::from(*v)),
        ScalarValue::Decimal128(Some(v), _, _) => Scalar::Int(*v),
        ScalarValue::Float32(Some(v)) => Scalar::Float(f64::from(*v)),
        ScalarValue::Float64(Some(v)) => Scalar::Float(*v),
        ScalarValue::Utf8(Some(v)) | ScalarValue::LargeUtf8(Some(v)) | ScalarValue::Utf8View(Some(v)) => {
            Scalar::Utf8(Arc::from(v.as_str()))
        }
        _ => return None,
    })
}

#[cfg(test)]
#[path = "filters_tests.rs"]
mod tests;

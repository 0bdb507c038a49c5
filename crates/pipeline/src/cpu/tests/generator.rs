//! Random sources and pipelines over them.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, StringArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use thermocline_column_store::{Encoding, IntegerEncoding, encode, encode_as};
use thermocline_predicate::{Domain, Scalar};
use thermocline_seeded::Random;

use crate::ir::{
    Aggregate, Comparison, Condition, DatePart, Expression, Operator, PipelineBuilder, ProbeKind, Slot, TextMap,
    TextTest, ValueType,
};
use crate::reference::arrow_type;
use crate::{MemoryPages, Pipeline, TableShape};

/// A column: its type and the values of each row group, `None` for NULL.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) value_type: ValueType,
    pub(super) nullable: bool,
    pub(super) row_groups: Vec<Vec<Option<i128>>>,
}

pub(super) const TYPES: [ValueType; 15] = [
    ValueType::Int8,
    ValueType::Int16,
    ValueType::Int32,
    ValueType::Int64,
    ValueType::UInt8,
    ValueType::UInt16,
    ValueType::UInt32,
    ValueType::UInt64,
    ValueType::Float32,
    ValueType::Float64,
    ValueType::Boolean,
    ValueType::Date,
    ValueType::Decimal { precision: 12, scale: 2 },
    ValueType::Decimal { precision: 30, scale: 4 },
    ValueType::Text,
];

/// The text that a number stands for: not in the numbers' order, one of them empty.
pub(super) fn text(number: i128) -> String {
    if number == 7 { String::new() } else { format!("{:x}-{}", (number * 37).rem_euclid(101), number) }
}

/// The float that a number stands for: sums and products of a few are exact; one of them no number, one a zero with a
/// sign.
fn float(number: i128) -> f64 {
    match number {
        7 => f64::NAN,
        11 => -0.0,
        _ => (number - 20) as f64 / 8.0,
    }
}

impl Column {
    /// Values of some spread, in some order, some of them NULL.
    pub(super) fn random(random: &mut Random, value_type: ValueType, row_counts: &[usize]) -> Self {
        let (least, greatest) = match value_type {
            // Parts of dates beyond the calendar are an error.
            ValueType::Date => (-96_000_000, 95_000_000),
            other => other.range().unwrap_or((0, 60)),
        };
        let spread = *random.pick(&[1, 3, 50, 300, 70_000, i128::from(u32::MAX) * 5, greatest - least]);
        let spread = spread.clamp(1, greatest - least);
        let start = match random.below(4) {
            0 => greatest - spread,
            1 => least,
            _ => 0i128.clamp(least, greatest - spread),
        };
        let nullable = random.one_in(3);
        let (run_rows, rising) = (*random.pick(&[1, 1, 1, 4, 20]), random.one_in(4));
        let mut last = start;
        let mut row_groups: Vec<Vec<Option<i128>>> = Vec::new();
        for count in row_counts {
            let all_null = nullable && random.one_in(6);
            let values = (0..*count).map(|at| {
                if at == 0 || random.one_in(run_rows) {
                    let number = (i128::from(random.next_u64()) << 32 | i128::from(random.next_u64())) % (spread + 1);
                    last = start + if rising { at as i128 * spread / *count as i128 } else { number };
                }
                let is_null = all_null || nullable && random.one_in(10);
                (!is_null).then_some(last)
            });
            row_groups.push(values.collect());
        }
        Self { value_type, nullable, row_groups }
    }

    pub(super) fn array(&self, row_group: usize) -> ArrayRef {
        let values = &self.row_groups[row_group];
        let data_type = arrow_type(self.value_type);
        if values.iter().all(Option::is_none) {
            return new_null_array(&data_type, values.len());
        }
        if self.value_type == ValueType::Text {
            return Arc::new(values.iter().map(|value| value.map(text)).collect::<StringArray>());
        }
        if let ValueType::Decimal { precision, scale } = self.value_type {
            let decimals: arrow::array::Decimal128Array = values.iter().copied().collect();
            return Arc::new(decimals.with_precision_and_scale(precision, scale as i8).unwrap());
        }
        if self.value_type.is_float() {
            let floats: arrow::array::Float64Array = values.iter().map(|value| value.map(float)).collect();
            return cast(&floats, &data_type).unwrap();
        }
        if self.value_type == ValueType::UInt64 {
            let numbers: arrow::array::UInt64Array =
                values.iter().map(|value| value.map(|value| value as u64)).collect();
            return Arc::new(numbers);
        }
        let numbers: arrow::array::Int64Array = values.iter().map(|value| value.map(|value| value as i64)).collect();
        let whole: ArrayRef = Arc::new(numbers);
        match self.value_type {
            ValueType::Date => cast(&cast(&whole, &DataType::Int32).unwrap(), &data_type).unwrap(),
            _ => cast(&whole, &data_type).unwrap(),
        }
    }
}

/// The columns as pages, each in some encoding that its values can have.
pub(super) fn pages(random: &mut Random, columns: &[Column]) -> MemoryPages {
    let mut encodings = vec![Encoding::Plain, Encoding::Symbols];
    encodings.extend(IntegerEncoding::ALL.map(Encoding::Integers));
    encodings.extend(IntegerEncoding::ALL.map(Encoding::Dictionary));
    let mut source = MemoryPages::new();
    for row_group in 0..columns[0].row_groups.len() {
        let page = |column: &Column| {
            let array = column.array(row_group);
            let mut bytes = Vec::new();
            let summary = match encode_as(&array, *random.pick(&encodings), &mut bytes) {
                Ok(summary) => summary,
                Err(_) => encode(&array, &mut bytes).unwrap(),
            };
            (bytes, summary)
        };
        source.push(columns.iter().map(page).collect());
    }
    source
}

/// A set of values, some of them the column's.
pub(super) fn domain(random: &mut Random, column: &Column) -> Domain {
    let values: Vec<i128> = column.row_groups.iter().flatten().filter_map(|value| *value).collect();
    let scalar = |random: &mut Random| {
        let value = if values.is_empty() { 0 } else { *random.pick(&values) };
        let value = value + random.below(3) as i128 - 1;
        match column.value_type {
            ValueType::Text => Scalar::from(text(value).as_str()),
            ValueType::Boolean => Scalar::Boolean(value == 1),
            of if of.is_float() => Scalar::Float(float(value)),
            _ => Scalar::Int(value),
        }
    };
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let mut chosen = match random.below(7) {
        0 => Domain::point(scalar(random)),
        1 => Domain::points((0..random.below(60)).map(|_| scalar(random)).collect::<Vec<_>>()),
        2 => Domain::interval(Included(scalar(random)), Unbounded),
        3 => Domain::interval(Unbounded, Excluded(scalar(random))),
        4 => {
            let (one, other) = (scalar(random), scalar(random));
            Domain::interval(Included(one.clone().min(other.clone())), Included(one.max(other)))
        }
        5 => Domain::points((0..3).map(|_| scalar(random)).collect::<Vec<_>>()).complement(),
        _ => Domain::not_null(),
    };
    if random.one_in(4) {
        chosen = chosen.union(&Domain::null());
    }
    chosen
}

/// A pipeline over these columns that probes these tables.
pub(super) fn pipeline(random: &mut Random, columns: &[Column], tables: &[TableShape]) -> Pipeline {
    let mut builder = PipelineBuilder::new();
    let mut slots: Vec<(Slot, ValueType)> = Vec::new();
    for (number, column) in columns.iter().enumerate() {
        let slot = builder.scan(format!("c{number}"), number, column.value_type, column.nullable).unwrap();
        slots.push((slot, column.value_type));
    }
    let mut mapped = Vec::new();
    for (number, column) in columns.iter().enumerate() {
        if column.value_type == ValueType::Text && random.one_in(2) {
            mapped.push(builder.scan_mapped(number, text_map(random), column.nullable).unwrap());
        }
    }
    for table in tables {
        // Keys may be payload of tables before.
        let keys: Option<Vec<Slot>> = table
            .key_types
            .iter()
            .map(|key_type| {
                let of_type: Vec<Slot> = slots.iter().filter(|(_, of)| of == key_type).map(|(slot, _)| *slot).collect();
                (!of_type.is_empty()).then(|| *random.pick(&of_type))
            })
            .collect();
        let Some(keys) = keys else { continue };
        if random.one_in(6) {
            continue;
        }
        let kinds = [ProbeKind::Semi, ProbeKind::Anti, ProbeKind::NullAwareAnti, ProbeKind::Outer];
        let kind = if random.one_in(2) { ProbeKind::Inner } else { *random.pick(&kinds) };
        let is_sound = kind != ProbeKind::NullAwareAnti || keys.len() == 1;
        if !kind.gives_payload() && is_sound {
            builder.probe(table, keys, kind, &[]).unwrap();
            continue;
        }
        let kind = if is_sound { kind } else { ProbeKind::Inner };
        let payload: Vec<usize> = (0..table.payload.len()).filter(|_| !random.one_in(4)).collect();
        let added = builder.probe(table, keys, kind, &payload).unwrap();
        for (slot, number) in added.into_iter().zip(payload) {
            slots.push((slot, table.payload[number].value_type));
            if random.one_in(6) {
                builder.filter(slot, domain(random, &some_column(table.payload[number].value_type))).unwrap();
            }
        }
    }
    for (number, column) in columns.iter().enumerate() {
        if random.one_in(4) {
            builder.filter(Slot::at(number), domain(random, column)).unwrap();
        }
        if column.value_type == ValueType::Text && random.one_in(6) {
            builder.condition(Condition::Text { slot: Slot::at(number), test: text_test(random) }).unwrap();
        }
    }
    for number in 0..random.below(3) {
        let (left, right) = (*random.pick(&slots), *random.pick(&slots));
        let operators = [Operator::Add, Operator::Subtract, Operator::Multiply, Operator::Divide, Operator::Remainder];
        let operator = *random.pick(&operators);
        let expression = Expression::binary(operator, Expression::Slot(left.0), Expression::Slot(right.0));
        // Products of wide decimals overflow, and are an error that depends on what is computed.
        let is_wide = |value_type| matches!(value_type, ValueType::Decimal { precision: 13.., .. });
        if operator == Operator::Multiply && (is_wide(left.1) || is_wide(right.1)) {
            continue;
        }
        // Division by zero is an error, and a sum of quotients that are not exact depends on its order.
        let divisor = match left.1 {
            of if of.is_float() => Some(Expression::float(2.0, of)),
            of if of.is_integer() => Some(Expression::Literal { value: 3, value_type: of }),
            _ => None,
        };
        let expression = match (operator, divisor) {
            (Operator::Divide | Operator::Remainder, Some(divisor)) => {
                Expression::binary(operator, Expression::Slot(left.0), divisor)
            }
            _ => expression,
        };
        let to = *random.pick(&[
            ValueType::Int64,
            ValueType::Float64,
            ValueType::Decimal { precision: 24, scale: 3 },
            ValueType::Decimal { precision: 38, scale: 4 },
        ]);
        // Some floats are no numbers, which no decimal is.
        let can_be_cast = left.1.casts_to(to) && left.1 != ValueType::Float64;
        let expression = if can_be_cast && random.one_in(2) { Expression::Slot(left.0).cast(to) } else { expression };
        let expression = if random.one_in(4) { case(random, columns, &slots) } else { expression };
        let Ok(slot) = builder.compute(format!("x{number}"), expression) else { continue };
        slots.push((slot, builder.clone().materialise(vec![slot]).unwrap().output()[0].value_type));
        let is_integer = slots.last().is_some_and(|(_, of)| !of.is_float() && *of != ValueType::Boolean);
        if is_integer && random.one_in(3) {
            let bound = std::ops::Bound::Included(Scalar::Int(random.below(2000) as i128 - 500));
            builder.filter(slot, Domain::interval(bound, std::ops::Bound::Unbounded)).unwrap();
        }
    }
    for (number, (date, value_type)) in slots.clone().into_iter().enumerate() {
        if value_type == ValueType::Date && random.one_in(2) {
            let part = Expression::date_part(*random.pick(&DATE_PARTS), Expression::Slot(date));
            slots.push((builder.compute(format!("p{number}"), part).unwrap(), ValueType::Int32));
        }
    }
    if random.one_in(4) {
        let condition = condition(random, columns, &slots, 3);
        builder.condition(condition).unwrap();
    }
    let mut any: Vec<Slot> = (0..random.below(4)).map(|_| random.pick(&slots).0).collect();
    any.extend(slots.last().filter(|_| random.one_in(3)).map(|(slot, _)| *slot));
    any.extend(mapped.iter().filter(|_| random.one_in(2)));
    slots.extend(mapped.into_iter().map(|slot| (slot, ValueType::Text)));
    match random.below(3) {
        0 => builder.materialise(any).unwrap(),
        _ => {
            let groups =
                any.into_iter().filter(|slot| builder.clone().aggregate(vec![*slot], Vec::new()).is_ok()).collect();
            let mut aggregates = Vec::new();
            for _ in 0..random.below(6) {
                let of = random.pick(&slots).0;
                let aggregate = *random.pick(&[
                    Aggregate::CountRows,
                    Aggregate::Count(of),
                    Aggregate::Sum(of),
                    Aggregate::WideSum(of),
                    Aggregate::Minimum(of),
                    Aggregate::Maximum(of),
                ]);
                if builder.clone().aggregate(Vec::new(), vec![aggregate]).is_ok() {
                    aggregates.push(aggregate);
                }
            }
            builder.aggregate(groups, aggregates).unwrap()
        }
    }
}

const DATE_PARTS: [DatePart; 6] =
    [DatePart::Year, DatePart::Quarter, DatePart::Month, DatePart::Day, DatePart::DayOfYear, DatePart::DayOfWeek];

/// A case of values of one type.
fn case(random: &mut Random, columns: &[Column], slots: &[(Slot, ValueType)]) -> Expression {
    let (_, value_type) = *random.pick(slots);
    let of_type: Vec<Slot> = slots.iter().filter(|(_, of)| *of == value_type).map(|(slot, _)| *slot).collect();
    let value = |random: &mut Random| match value_type.range() {
        Some((least, greatest)) if random.one_in(2) => {
            Expression::Literal { value: (random.below(3) as i128).clamp(least, greatest), value_type }
        }
        Some(_) if random.one_in(8) => Expression::Null { value_type },
        _ => Expression::Slot(*random.pick(&of_type)),
    };
    let branches = (0..1 + random.below(3)).map(|_| (condition(random, columns, slots, 2), value(random))).collect();
    let otherwise = random.one_in(2).then(|| Box::new(value(random)));
    Expression::Case { branches, otherwise }
}

/// Whether a text has another in it, or has not.
fn text_test(random: &mut Random) -> TextTest {
    let (part, negated) = (*random.pick(&["-", "1", "a", "0-", "", "zz"]), random.one_in(2));
    let of_null = *random.pick(&[None, Some(false), Some(true)]);
    TextTest::new(format!("has {part:?}: {}, {of_null:?}", !negated), of_null, move |texts: &ArrayRef| {
        let texts = cast(texts, &DataType::Utf8)?;
        let answer = |text: Option<&str>| text.map(|text| text.contains(part) != negated);
        Ok(texts.as_string::<i32>().iter().map(answer).collect::<BooleanArray>())
    })
}

/// What texts have behind so many bytes.
pub(super) fn text_map(random: &mut Random) -> TextMap {
    let past = random.below(4);
    TextMap::new(format!("from {past}"), move |texts: &ArrayRef| {
        let texts = cast(texts, &DataType::Utf8)?;
        let end = |text: Option<&str>| text.map(|text| text.get(past..).unwrap_or("short").to_owned());
        Ok(Arc::new(texts.as_string::<i32>().iter().map(end).collect::<StringArray>()))
    })
}

/// A column with some values, for domains on what is not scanned.
fn some_column(value_type: ValueType) -> Column {
    Column { value_type, nullable: true, row_groups: vec![(0..50).map(Some).collect()] }
}

/// A condition on some of the slots, of which the first are the columns, nested at most so deep.
pub(super) fn condition(
    random: &mut Random,
    columns: &[Column],
    slots: &[(Slot, ValueType)],
    depth: usize,
) -> Condition {
    let shape = if depth == 0 { 3 + random.below(4) } else { random.below(7) };
    let parts = |random: &mut Random| -> Vec<Condition> {
        (0..1 + random.below(3)).map(|_| condition(random, columns, slots, depth - 1)).collect()
    };
    let (slot, value_type) = *random.pick(slots);
    match shape {
        0 => Condition::All(parts(random)),
        1 => Condition::Any(parts(random)),
        2 => Condition::Not(Box::new(condition(random, columns, slots, depth - 1))),
        3 => Condition::IsNull(slot),
        4 if value_type == ValueType::Text => Condition::Text { slot, test: text_test(random) },
        4 | 5 => {
            let like = columns.get(slot.index()).cloned().unwrap_or_else(|| some_column(value_type));
            Condition::In { slot, domain: domain(random, &like) }
        }
        _ => {
            let comparisons = [
                Comparison::Equal,
                Comparison::NotEqual,
                Comparison::Less,
                Comparison::LessOrEqual,
                Comparison::Greater,
                Comparison::GreaterOrEqual,
            ];
            let is_decimal = |of: ValueType| matches!(of, ValueType::Decimal { .. });
            let like = |of: ValueType| of == value_type || is_decimal(of) && is_decimal(value_type);
            let others: Vec<Slot> = slots.iter().filter(|(_, of)| like(*of)).map(|(slot, _)| *slot).collect();
            let left = Expression::Slot(slot);
            let right = match value_type.range() {
                Some((least, greatest)) if random.one_in(3) => {
                    let value = (random.below(200) as i128 - 100).clamp(least, greatest);
                    Expression::Literal { value, value_type }
                }
                Some(_) if random.one_in(10) => Expression::Null { value_type },
                _ => Expression::Slot(*random.pick(&others)),
            };
            let left = if (value_type.is_integer() || value_type.is_float()) && random.one_in(3) {
                Expression::binary(Operator::Add, left.clone(), left)
            } else {
                left
            };
            Condition::compare(*random.pick(&comparisons), left, right)
        }
    }
}

//! Making a pipeline step by step, each checked as it is added.

use thermocline_predicate::{Domain, ScalarKind};

use super::value_type::MAX_PRECISION;
use super::{
    Aggregate, ColumnShape, Expression, Origin, Pipeline, ProbeKind, Sink, Slot, SlotInfo, Step, TableShape, ValueType,
    slot_info,
};
use crate::PipelineError;

/// Most slots of a pipeline, more than any plan that is worth fusing has.
const MAX_SLOTS: usize = 1 << 16;
/// Digits that a sum of decimals has more than its values, as in DataFusion.
const SUM_DIGITS: u8 = 10;

/// A pipeline that is being made. Errors leave it as it was.
#[derive(Debug, Clone, Default)]
pub struct PipelineBuilder {
    slots: Vec<SlotInfo>,
    tables: Vec<TableShape>,
    steps: Vec<Step>,
}

impl PipelineBuilder {
    /// A scan of no columns yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Scans column number `column` of the source, whose values are stored as `value_type` says.
    ///
    /// # Errors
    /// [`PipelineError::Type`] for a decimal whose digits are not 1 to 38, or with more of them behind the point than there are.
    pub fn scan(
        &mut self,
        name: impl Into<String>,
        column: usize,
        value_type: ValueType,
        nullable: bool,
    ) -> Result<Slot, PipelineError> {
        let name = name.into();
        if let ValueType::Decimal { precision, scale } = value_type
            && (precision == 0 || precision > MAX_PRECISION || scale > precision)
        {
            return Err(type_error(name, value_type, "a decimal of 1 to 38 digits"));
        }
        self.add_slot(SlotInfo { name, value_type, nullable, origin: Origin::Column(column) })
    }

    /// Keeps the rows whose value in `slot` is in `domain`: of decimals the whole numbers behind them, of dates the days.
    ///
    /// # Errors
    /// [`PipelineError::Domain`] if the domain's bounds are of another kind than the slot's values.
    pub fn filter(&mut self, slot: Slot, domain: Domain) -> Result<(), PipelineError> {
        let info = slot_info(&self.slots, slot)?;
        let expected = if info.value_type == ValueType::Text { ScalarKind::Utf8 } else { ScalarKind::Int };
        if let Some(found) = domain.kind()
            && found != expected
        {
            return Err(PipelineError::Domain {
                name: info.name.clone(),
                value_type: info.value_type,
                found: found.to_string(),
            });
        }
        self.steps.push(Step::Filter { slot, domain });
        Ok(())
    }

    /// Looks `key` up in a table, keeps the rows that are found and takes the payload columns with the numbers `payload` along,
    /// in whose order the new slots are.
    ///
    /// # Errors
    /// Keys that are not whole numbers of up to 64 bits, payload that the table does not have or that a semi-join does not give.
    pub fn probe(
        &mut self,
        table: &TableShape,
        key: Slot,
        kind: ProbeKind,
        payload: &[usize],
    ) -> Result<Vec<Slot>, PipelineError> {
        let info = slot_info(&self.slots, key)?;
        for key_type in [info.value_type, table.key_type] {
            if !key_type.is_key() {
                return Err(type_error(info.name.clone(), key_type, "an integer, a date or a timestamp as key"));
            }
        }
        let mixes = |date: ValueType| (info.value_type == date) != (table.key_type == date);
        if mixes(ValueType::Date) || mixes(ValueType::Timestamp) {
            return Err(type_error(info.name.clone(), info.value_type, "the type of the table's key"));
        }
        if kind == ProbeKind::Semi && !payload.is_empty() {
            return Err(PipelineError::SemiPayload { table: table.name.clone() });
        }
        let step = self.steps.len();
        let mut added = Vec::new();
        for &number in payload {
            let column = table.payload.get(number).ok_or_else(|| PipelineError::UnknownPayload {
                table: table.name.clone(),
                payload: number,
                payload_count: table.payload.len(),
            })?;
            let ColumnShape { name, value_type, nullable } = column.clone();
            added.push(SlotInfo { name, value_type, nullable, origin: Origin::Payload { step, payload: number } });
        }
        self.expect_room(added.len())?;
        let payload = added.into_iter().map(|info| self.add_slot(info)).collect::<Result<Vec<_>, _>>()?;
        self.steps.push(Step::Probe { table: self.tables.len(), key, kind, payload: payload.clone() });
        self.tables.push(table.clone());
        Ok(payload)
    }

    /// Computes a value for each row.
    ///
    /// # Errors
    /// [`PipelineError::Expression`] for what pipelines do not compute.
    pub fn compute(&mut self, name: impl Into<String>, expression: Expression) -> Result<Slot, PipelineError> {
        let value_type = expression.value_type(&self.slots)?;
        let nullable = expression.slots().iter().any(|slot| self.slots[slot.index()].nullable);
        let origin = Origin::Computed { step: self.steps.len() };
        let slot = self.add_slot(SlotInfo { name: name.into(), value_type, nullable, origin })?;
        self.steps.push(Step::Compute { slot, expression });
        Ok(slot)
    }

    /// Ends in groups.
    ///
    /// # Errors
    /// Groups by decimals of more than 18 digits; aggregates of types that have none (texts are only counted).
    pub fn aggregate(self, groups: Vec<Slot>, aggregates: Vec<Aggregate>) -> Result<Pipeline, PipelineError> {
        let mut output = Vec::new();
        for slot in &groups {
            let shape = self.column_shape(*slot)?;
            if !shape.value_type.fits_group_key() {
                return Err(type_error(shape.name, shape.value_type, "at most 18 digits to group by"));
            }
            output.push(shape);
        }
        for aggregate in &aggregates {
            output.push(self.aggregate_shape(*aggregate)?);
        }
        Ok(self.finish(Sink::Aggregate { groups, aggregates }, output))
    }

    /// Ends in a table.
    ///
    /// # Errors
    /// A key that is not a whole number of up to 64 bits; payload of more than 18 digits.
    pub fn build(self, name: impl Into<String>, key: Slot, payload: Vec<Slot>) -> Result<Pipeline, PipelineError> {
        let shape = self.column_shape(key)?;
        if !shape.value_type.is_key() {
            return Err(type_error(shape.name, shape.value_type, "an integer, a date or a timestamp as key"));
        }
        let mut output = vec![shape];
        for slot in &payload {
            let shape = self.column_shape(*slot)?;
            if !shape.value_type.fits_group_key() {
                return Err(type_error(shape.name, shape.value_type, "at most 18 digits as payload"));
            }
            output.push(shape);
        }
        Ok(self.finish(Sink::Build { name: name.into(), key, payload }, output))
    }

    /// Ends in rows.
    ///
    /// # Errors
    /// [`PipelineError::UnknownSlot`].
    pub fn materialise(self, columns: Vec<Slot>) -> Result<Pipeline, PipelineError> {
        let output = columns.iter().map(|slot| self.column_shape(*slot)).collect::<Result<Vec<_>, _>>()?;
        Ok(self.finish(Sink::Materialise { columns }, output))
    }

    fn finish(self, sink: Sink, output: Vec<ColumnShape>) -> Pipeline {
        let Self { slots, tables, steps } = self;
        Pipeline { slots, tables, steps, sink, output }
    }

    fn add_slot(&mut self, info: SlotInfo) -> Result<Slot, PipelineError> {
        self.expect_room(1)?;
        self.slots.push(info);
        Ok(Slot::at(self.slots.len() - 1))
    }

    fn expect_room(&self, slot_count: usize) -> Result<(), PipelineError> {
        if self.slots.len() + slot_count > MAX_SLOTS {
            return Err(PipelineError::TooManySlots { limit: MAX_SLOTS });
        }
        Ok(())
    }

    fn column_shape(&self, slot: Slot) -> Result<ColumnShape, PipelineError> {
        let SlotInfo { name, value_type, nullable, .. } = slot_info(&self.slots, slot)?.clone();
        Ok(ColumnShape { name, value_type, nullable })
    }

    fn aggregate_shape(&self, aggregate: Aggregate) -> Result<ColumnShape, PipelineError> {
        let Some(slot) = aggregate.slot() else {
            return Ok(ColumnShape { name: "count(*)".to_owned(), value_type: ValueType::Int64, nullable: false });
        };
        let of = self.column_shape(slot)?;
        let name = format!("{}({})", aggregate.name(), of.name);
        let value_type = match (aggregate, of.value_type) {
            (Aggregate::CountRows | Aggregate::Count(_), _) => {
                return Ok(ColumnShape { name, value_type: ValueType::Int64, nullable: false });
            }
            (Aggregate::Sum(_), integer) if integer.is_signed_integer() => ValueType::Int64,
            (Aggregate::Sum(_), ValueType::Decimal { precision, scale }) => {
                ValueType::Decimal { precision: (precision + SUM_DIGITS).min(MAX_PRECISION), scale }
            }
            (Aggregate::WideSum(_), integer) if integer.is_integer() => {
                ValueType::Decimal { precision: MAX_PRECISION, scale: 0 }
            }
            (Aggregate::WideSum(_), ValueType::Decimal { scale, .. }) => {
                ValueType::Decimal { precision: MAX_PRECISION, scale }
            }
            (Aggregate::Minimum(_) | Aggregate::Maximum(_), other) if other != ValueType::Text => other,
            (Aggregate::Sum(_) | Aggregate::WideSum(_), other) => {
                return Err(type_error(of.name, other, "a signed integer or a decimal to sum up"));
            }
            (_, other) => return Err(type_error(of.name, other, "whole numbers to find the least or greatest of")),
        };
        Ok(ColumnShape { name, value_type, nullable: true })
    }
}

fn type_error(name: String, value_type: ValueType, expected: &'static str) -> PipelineError {
    PipelineError::Type { name, value_type, expected }
}

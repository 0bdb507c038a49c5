//! Making a pipeline step by step, each checked as it is added.

use thermocline_predicate::Domain;

use super::condition::check_domain;
use super::value_type::MAX_PRECISION;
use super::{
    Aggregate, ColumnShape, Condition, Expression, Origin, Pipeline, ProbeKind, Sink, Slot, SlotInfo, Step, TableShape,
    TextMap, ValueType, compared_slot, slot_info,
};
use crate::PipelineError;

/// Most slots of a pipeline, more than any plan that is worth fusing has.
const MAX_SLOTS: usize = 1 << 16;
/// Digits that a sum of decimals has more than its values, as in DataFusion.
const SUM_DIGITS: u8 = 10;

/// What columns of keys are.
const KEY_TYPES: &str = "an integer, a date, a timestamp or a text as key";

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
    /// [`PipelineError::Type`] for a decimal whose digits are not 1 to 38, or with more of them behind the point than
    /// there are.
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
        self.add_slot(SlotInfo { name, value_type, nullable, origin: Origin::Column(column), text_map: None })
    }

    /// Scans the texts of column number `column` and makes other texts of them, which can be grouped by, counted, carried
    /// along and given out, but not compared or looked up.
    ///
    /// # Errors
    /// [`PipelineError::TooManySlots`].
    pub fn scan_mapped(&mut self, column: usize, map: TextMap, nullable: bool) -> Result<Slot, PipelineError> {
        let (name, origin) = (map.shown().to_owned(), Origin::Column(column));
        self.add_slot(SlotInfo { name, value_type: ValueType::Text, nullable, origin, text_map: Some(map) })
    }

    /// Keeps the rows whose value in `slot` is in `domain`: of decimals the whole numbers behind them, of dates the
    /// days.
    ///
    /// # Errors
    /// [`PipelineError::Domain`] if the domain's bounds are of another kind than the slot's values.
    pub fn filter(&mut self, slot: Slot, domain: Domain) -> Result<(), PipelineError> {
        check_domain(compared_slot(&self.slots, slot)?, &domain)?;
        self.steps.push(Step::Filter { slot, domain });
        Ok(())
    }

    /// Keeps the rows of which a condition is true. What it is a conjunction of becomes steps of their own, so that a
    /// set of one slot's values is as fast here as with [`PipelineBuilder::filter`].
    ///
    /// # Errors
    /// [`PipelineError::Domain`] and [`PipelineError::Expression`] for what cannot be compared.
    pub fn condition(&mut self, condition: Condition) -> Result<(), PipelineError> {
        condition.check(&self.slots)?;
        self.add_condition(condition);
        Ok(())
    }

    fn add_condition(&mut self, condition: Condition) {
        match condition {
            Condition::All(parts) => parts.into_iter().for_each(|part| self.add_condition(part)),
            Condition::In { slot, domain } => self.steps.push(Step::Filter { slot, domain }),
            Condition::IsNull(slot) => self.steps.push(Step::Filter { slot, domain: Domain::null() }),
            condition => self.steps.push(Step::Condition { condition }),
        }
    }

    /// Looks a key (one slot or several) up in a table, keeps the rows that `kind` says and takes the payload columns
    /// with the numbers `payload` along, in whose order the new slots are.
    ///
    /// # Errors
    /// Keys of other types or numbers than the table's, payload that the table does not have or that the kind of probe
    /// does not give.
    pub fn probe(
        &mut self,
        table: &TableShape,
        key: impl AsRef<[Slot]>,
        kind: ProbeKind,
        payload: &[usize],
    ) -> Result<Vec<Slot>, PipelineError> {
        let keys = key.as_ref();
        let most = if kind == ProbeKind::NullAwareAnti { 1 } else { usize::MAX };
        if keys.len() != table.key_types.len() || keys.is_empty() || keys.len() > most {
            let (expected, found) = (table.key_types.len().min(most), keys.len());
            return Err(PipelineError::KeyColumns { table: table.name.clone(), expected, found });
        }
        for (key, table_type) in keys.iter().zip(&table.key_types) {
            let info = compared_slot(&self.slots, *key)?;
            for key_type in [info.value_type, *table_type] {
                if !key_type.is_key() {
                    return Err(type_error(info.name.clone(), key_type, KEY_TYPES));
                }
            }
            if !info.value_type.matches_key(*table_type) {
                return Err(type_error(info.name.clone(), info.value_type, "the type of the table's key"));
            }
        }
        if !kind.gives_payload() && !payload.is_empty() {
            return Err(PipelineError::NoPayload { table: table.name.clone(), kind });
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
            let nullable = nullable || kind == ProbeKind::Outer;
            let origin = Origin::Payload { step, payload: number };
            added.push(SlotInfo { name, value_type, nullable, origin, text_map: None });
        }
        self.expect_room(added.len())?;
        let payload = added.into_iter().map(|info| self.add_slot(info)).collect::<Result<Vec<_>, _>>()?;
        self.steps.push(Step::Probe { table: self.tables.len(), keys: keys.to_vec(), kind, payload: payload.clone() });
        self.tables.push(table.clone());
        Ok(payload)
    }

    /// Computes a value for each row.
    ///
    /// # Errors
    /// [`PipelineError::Expression`] for what pipelines do not compute.
    pub fn compute(&mut self, name: impl Into<String>, expression: Expression) -> Result<Slot, PipelineError> {
        let value_type = expression.value_type(&self.slots)?;
        let nullable = expression.is_nullable(&self.slots);
        let origin = Origin::Computed { step: self.steps.len() };
        let slot = self.add_slot(SlotInfo { name: name.into(), value_type, nullable, origin, text_map: None })?;
        self.steps.push(Step::Compute { slot, expression });
        Ok(slot)
    }

    /// Ends in groups.
    ///
    /// # Errors
    /// Groups by decimals of more than 18 digits; sums of types that have none.
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

    /// Ends in a table, found by a key of one slot or several.
    ///
    /// # Errors
    /// A key of no columns, or of one that is no whole number of up to 64 bits and no text. (Payload must fit 64 bits too,
    /// whatever its type: a run that finds some which does not ends with [`PipelineError::Digits`].)
    pub fn build(
        self,
        name: impl Into<String>,
        key: impl AsRef<[Slot]>,
        payload: Vec<Slot>,
    ) -> Result<Pipeline, PipelineError> {
        let (name, keys) = (name.into(), key.as_ref().to_vec());
        if keys.is_empty() {
            return Err(PipelineError::KeyColumns { table: name, expected: 1, found: 0 });
        }
        let mut output = Vec::new();
        for key in &keys {
            compared_slot(&self.slots, *key)?;
            let shape = self.column_shape(*key)?;
            if !shape.value_type.is_key() {
                return Err(type_error(shape.name, shape.value_type, KEY_TYPES));
            }
            output.push(shape);
        }
        for slot in &payload {
            output.push(self.column_shape(*slot)?);
        }
        Ok(self.finish(Sink::Build { name, keys, payload }, output))
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
        Pipeline { slots, tables, steps, sink, output, lists_texts: false }
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
        if let Aggregate::Minimum(slot) | Aggregate::Maximum(slot) = aggregate {
            compared_slot(&self.slots, slot)?;
        }
        let of = self.column_shape(slot)?;
        let name = format!("{}({})", aggregate.name(), of.name);
        let value_type = match (aggregate, of.value_type) {
            (Aggregate::CountRows | Aggregate::Count(_), _) => {
                return Ok(ColumnShape { name, value_type: ValueType::Int64, nullable: false });
            }
            (Aggregate::Sum(_), integer) if integer.is_signed_integer() => ValueType::Int64,
            (Aggregate::Sum(_), integer) if integer.is_unsigned_integer() => ValueType::UInt64,
            (Aggregate::Sum(_), float) if float.is_float() => ValueType::Float64,
            (Aggregate::Sum(_), ValueType::Decimal { precision, scale }) => {
                ValueType::Decimal { precision: (precision + SUM_DIGITS).min(MAX_PRECISION), scale }
            }
            (Aggregate::WideSum(_), integer) if integer.is_integer() => {
                ValueType::Decimal { precision: MAX_PRECISION, scale: 0 }
            }
            (Aggregate::WideSum(_), ValueType::Decimal { scale, .. }) => {
                ValueType::Decimal { precision: MAX_PRECISION, scale }
            }
            (Aggregate::Minimum(_) | Aggregate::Maximum(_), other) => other,
            (Aggregate::Sum(_) | Aggregate::WideSum(_), other) => {
                return Err(type_error(of.name, other, "an integer, a decimal or a float to sum up"));
            }
        };
        Ok(ColumnShape { name, value_type, nullable: true })
    }
}

fn type_error(name: String, value_type: ValueType, expected: &'static str) -> PipelineError {
    PipelineError::Type { name, value_type, expected }
}

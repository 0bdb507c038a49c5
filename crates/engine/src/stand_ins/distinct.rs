//! `count(DISTINCT x)` whose groups share one table.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, new_empty_array};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF, EmitTo, GroupsAccumulator};

use super::aggregate::{Accumulating, stand_in};
use super::distinct_groups::DistinctGroups;

/// What stands for the stock function of a call, if that counts distinct values.
pub(super) fn in_one_table(call: &AggregateFunction) -> Option<Arc<AggregateUDF>> {
    static COUNT: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| stand_in(count_udaf(), DistinctCount));
    let is_counted = call.params.distinct && call.params.args.len() == 1 && call.func == count_udaf();
    is_counted.then(|| Arc::clone(&COUNT))
}

/// The stock accumulators where they hold little a group, or hold no groups; else ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct DistinctCount;

impl Accumulating for DistinctCount {
    fn accumulator(&self, stock: &AggregateUDF, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let data_type = args.expr_fields[0].data_type();
        // Of nested values the stock one holds slices of whole batches, and counts each as a batch.
        if data_type.is_nested() && DistinctGroups::supports(data_type) {
            return Ok(Box::new(OneGroup(DistinctGroups::try_new(data_type)?)));
        }
        stock.accumulator(args)
    }

    fn supports_groups(&self, _: &AggregateUDF, args: AccumulatorArgs<'_>) -> bool {
        let data_type = args.expr_fields[0].data_type();
        data_type.is_integer() || DistinctGroups::supports(data_type)
    }

    fn groups(&self, stock: &AggregateUDF, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        match args.expr_fields[0].data_type() {
            data_type if data_type.is_integer() => stock.create_groups_accumulator(args),
            data_type => Ok(Box::new(DistinctGroups::try_new(data_type)?)),
        }
    }
}

/// The count of all rows.
#[derive(Debug)]
struct OneGroup(DistinctGroups);

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(values, &vec![0; values[0].len()], None, 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // Without a batch there is no group.
        let counts = self.0.evaluate(EmitTo::All)?;
        Ok(ScalarValue::Int64(Some(counts.as_primitive::<Int64Type>().iter().flatten().sum())))
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let none: [ArrayRef; 1] = [new_empty_array(self.0.value_type())];
        self.0.update_batch(&none, &[], None, 1)?;
        self.0.state(EmitTo::All)?.iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states, &vec![0; states[0].len()], 1)
    }
}

//! Aggregate functions that are stock ones in all but what they accumulate with.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
    Signature, StatisticsArgs,
};

/// What a function accumulates with; its state is that of the stock function.
pub(super) trait Accumulating: Debug + Hash + Eq + Send + Sync + 'static {
    /// For a call without groups.
    fn accumulator(&self, stock: &AggregateUDF, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        stock.accumulator(args)
    }

    /// Whether [`groups`](Self::groups) may be asked for a call.
    fn supports_groups(&self, stock: &AggregateUDF, args: AccumulatorArgs<'_>) -> bool {
        stock.groups_accumulator_supported(args)
    }

    /// For a call with groups.
    fn groups(&self, stock: &AggregateUDF, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>>;
}

/// A function that takes a stock one's place.
#[derive(Debug, PartialEq, Eq, Hash)]
struct StandIn<A> {
    stock: Arc<AggregateUDF>,
    accumulating: A,
}

/// The function that accumulates otherwise than `stock`.
pub(super) fn stand_in(stock: Arc<AggregateUDF>, accumulating: impl Accumulating) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(StandIn { stock, accumulating }))
}

impl<A: Accumulating> AggregateUDFImpl for StandIn<A> {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn signature(&self) -> &Signature {
        self.stock.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.stock.return_type(arg_types)
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        self.stock.return_field(arg_fields)
    }

    fn is_nullable(&self) -> bool {
        self.stock.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.accumulating.accumulator(&self.stock, args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.stock.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.accumulating.supports_groups(&self.stock, args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        self.accumulating.groups(&self.stock, args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.stock.create_sliding_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.stock.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.stock.reverse_udf()
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.stock.coerce_types(arg_types)
    }

    fn is_descending(&self) -> Option<bool> {
        self.stock.is_descending()
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.stock.value_from_stats(args)
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.stock.default_value(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.stock.documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.stock.inner().set_monotonicity(data_type)
    }
}

//! `min` and `max` of floats that begin at the ends of their order, in which NaN is the largest.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{
    ArrowNativeTypeOp, ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type,
};
use datafusion::common::Result;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{AggregateUDF, GroupsAccumulator};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

use super::aggregate::{Accumulating, stand_in};

/// What stands for the stock function of a call, whose arguments are floats, if it begins at the wrong end.
pub(super) fn ordered(call: &AggregateFunction) -> Option<Arc<AggregateUDF>> {
    static OF_FLOATS: LazyLock<[(Arc<AggregateUDF>, Arc<AggregateUDF>); 2]> = LazyLock::new(|| {
        [(min_udaf(), Extreme::Least), (max_udaf(), Extreme::Largest)]
            .map(|(stock, extreme)| (Arc::clone(&stock), stand_in(stock, extreme)))
    });
    OF_FLOATS.iter().find(|(stock, _)| *stock == call.func).map(|(_, ordered)| Arc::clone(ordered))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Extreme {
    Least,
    Largest,
}

impl Extreme {
    fn accumulator_of<T>(self, data_type: &DataType) -> Box<dyn GroupsAccumulator>
    where
        T: ArrowPrimitiveType + Send,
    {
        // `is_lt` and `is_gt` are those of the total order.
        match self {
            Self::Least => Box::new(
                PrimitiveGroupsAccumulator::<T, _>::new(data_type, |least: &mut T::Native, value: T::Native| {
                    if value.is_lt(*least) {
                        *least = value;
                    }
                })
                .with_starting_value(T::Native::MAX_TOTAL_ORDER),
            ),
            Self::Largest => Box::new(
                PrimitiveGroupsAccumulator::<T, _>::new(data_type, |largest: &mut T::Native, value: T::Native| {
                    if value.is_gt(*largest) {
                        *largest = value;
                    }
                })
                .with_starting_value(T::Native::MIN_TOTAL_ORDER),
            ),
        }
    }
}

impl Accumulating for Extreme {
    fn groups(&self, stock: &AggregateUDF, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_field.data_type() {
            data_type @ DataType::Float16 => Ok(self.accumulator_of::<Float16Type>(data_type)),
            data_type @ DataType::Float32 => Ok(self.accumulator_of::<Float32Type>(data_type)),
            data_type @ DataType::Float64 => Ok(self.accumulator_of::<Float64Type>(data_type)),
            _ => stock.create_groups_accumulator(args),
        }
    }
}

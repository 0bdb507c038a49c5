//! `min` and `max` of floats that begin at the ends of their order, in which NaN is the largest.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{
    ArrowNativeTypeOp, ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type,
};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
    Signature, StatisticsArgs,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

/// Whether `expr` begins at the wrong end, if it is of floats.
pub(super) fn is_concerned(expr: &Expr) -> bool {
    matches!(expr, Expr::AggregateFunction(call) if ordered(&call.func).is_some())
}

/// The call of floats, of a function that orders them if it is a stock one that does not.
pub(super) fn call(call: AggregateFunction) -> Transformed<Expr> {
    match ordered(&call.func) {
        Some(func) => Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, ..call })),
        None => Transformed::no(Expr::AggregateFunction(call)),
    }
}

/// What stands for a stock function.
fn ordered(stock: &Arc<AggregateUDF>) -> Option<Arc<AggregateUDF>> {
    static OF_FLOATS: LazyLock<[(Arc<AggregateUDF>, Arc<AggregateUDF>); 2]> = LazyLock::new(|| {
        [(min_udaf(), Extreme::Least), (max_udaf(), Extreme::Largest)].map(|(stock, extreme)| {
            let ordered = OrderedExtreme { stock: Arc::clone(&stock), extreme };
            (stock, Arc::new(AggregateUDF::new_from_impl(ordered)))
        })
    });
    OF_FLOATS.iter().find(|(known, _)| known == stock).map(|(_, ordered)| Arc::clone(ordered))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Extreme {
    Least,
    Largest,
}

/// The stock function in all but what it accumulates groups of floats with.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedExtreme {
    stock: Arc<AggregateUDF>,
    extreme: Extreme,
}

impl OrderedExtreme {
    fn accumulator_of<T>(&self, data_type: &DataType) -> Box<dyn GroupsAccumulator>
    where
        T: ArrowPrimitiveType + Send,
    {
        // `is_lt` and `is_gt` are those of the total order.
        match self.extreme {
            Extreme::Least => Box::new(
                PrimitiveGroupsAccumulator::<T, _>::new(data_type, |least: &mut T::Native, value: T::Native| {
                    if value.is_lt(*least) {
                        *least = value;
                    }
                })
                .with_starting_value(T::Native::MAX_TOTAL_ORDER),
            ),
            Extreme::Largest => Box::new(
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

impl AggregateUDFImpl for OrderedExtreme {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn signature(&self) -> &Signature {
        self.stock.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.stock.return_type(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.stock.accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.stock.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_field.data_type() {
            data_type @ DataType::Float16 => Ok(self.accumulator_of::<Float16Type>(data_type)),
            data_type @ DataType::Float32 => Ok(self.accumulator_of::<Float32Type>(data_type)),
            data_type @ DataType::Float64 => Ok(self.accumulator_of::<Float64Type>(data_type)),
            _ => self.stock.create_groups_accumulator(args),
        }
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

    fn documentation(&self) -> Option<&Documentation> {
        self.stock.documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.stock.inner().set_monotonicity(data_type)
    }
}

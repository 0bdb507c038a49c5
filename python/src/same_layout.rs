//! Types whose arrays are the same in memory, whatever else their fields say.

use arrow::datatypes::{DataType, Field, FieldRef, Schema};

/// Whether batches with the columns `from` can be read as batches with the columns `to`: the names of columns and of the
/// fields of structs are the same, and so are the types. Metadata and the names that lists and maps give to their parts may
/// differ, and what may be NULL in `to` need not in `from`. Whether the columns themselves may be NULL is not looked at:
/// their values tell.
pub(crate) fn same_columns(to: &Schema, from: &Schema) -> bool {
    let (to, from) = (to.fields(), from.fields());
    let same =
        |(to, from): (&FieldRef, &FieldRef)| to.name() == from.name() && same_type(to.data_type(), from.data_type());
    to.len() == from.len() && to.iter().zip(from).all(same)
}

/// As [`same_type`] for what lies within a column, under whatever name.
fn same_part(to: &Field, from: &Field) -> bool {
    (to.is_nullable() || !from.is_nullable()) && same_type(to.data_type(), from.data_type())
}

fn same_field(to: &Field, from: &Field) -> bool {
    to.name() == from.name() && same_part(to, from)
}

fn same_type(to: &DataType, from: &DataType) -> bool {
    match (to, from) {
        (DataType::List(to), DataType::List(from))
        | (DataType::LargeList(to), DataType::LargeList(from))
        | (DataType::ListView(to), DataType::ListView(from))
        | (DataType::LargeListView(to), DataType::LargeListView(from)) => same_part(to, from),
        (DataType::FixedSizeList(to, to_length), DataType::FixedSizeList(from, from_length)) => {
            to_length == from_length && same_part(to, from)
        }
        (DataType::Struct(to), DataType::Struct(from)) => {
            to.len() == from.len() && to.iter().zip(from).all(|(to, from)| same_field(to, from))
        }
        (DataType::Map(to, to_is_sorted), DataType::Map(from, from_is_sorted)) => {
            to_is_sorted == from_is_sorted && same_entries(to, from)
        }
        (DataType::Dictionary(to_key, to), DataType::Dictionary(from_key, from)) => {
            to_key == from_key && same_type(to, from)
        }
        (DataType::RunEndEncoded(to_ends, to), DataType::RunEndEncoded(from_ends, from)) => {
            same_part(to_ends, from_ends) && same_part(to, from)
        }
        (DataType::Union(to, to_mode), DataType::Union(from, from_mode)) => {
            to_mode == from_mode
                && to.len() == from.len()
                && to
                    .iter()
                    .zip(from.iter())
                    .all(|((to_id, to), (from_id, from))| to_id == from_id && same_field(to, from))
        }
        _ => to == from,
    }
}

/// Whether keys and values are the same.
fn same_entries(to: &Field, from: &Field) -> bool {
    match (to.data_type(), from.data_type()) {
        (DataType::Struct(to), DataType::Struct(from)) => {
            to.len() == from.len() && to.iter().zip(from).all(|(to, from)| same_part(to, from))
        }
        _ => false,
    }
}

mod crashes;
mod damage;
mod memory;
mod round_trip;
mod row_groups;
pub(crate) mod tables;

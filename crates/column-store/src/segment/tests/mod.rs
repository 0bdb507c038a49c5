mod crashes;
mod damage;
mod round_trip;
mod row_groups;
pub(crate) mod tables;

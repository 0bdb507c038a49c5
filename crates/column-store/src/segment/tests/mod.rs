mod crashes;
mod damage;
mod round_trip;
mod row_groups;
mod tables;

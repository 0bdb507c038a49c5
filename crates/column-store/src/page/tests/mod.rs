pub(crate) mod arrays;
mod damage;
mod format;
mod round_trip;
mod zone_maps;

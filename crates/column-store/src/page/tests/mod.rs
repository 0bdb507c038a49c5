mod arrays;
mod damage;
mod round_trip;
mod zone_maps;

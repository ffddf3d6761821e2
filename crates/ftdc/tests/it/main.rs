//! Tests of the format as its users see it.

mod round_trip;

//! Integration tests of the query crate, on the memory engine.

mod any_plan;
mod fixture;
mod golden;
mod recorded;
mod spill;
mod writes;

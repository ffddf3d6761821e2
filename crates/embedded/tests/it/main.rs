//! The library as applications use it.
#![allow(clippy::unwrap_used)] // test helpers may unwrap

mod broken;
mod crash;
mod data;
mod disk;
mod fork;
mod life;
mod memory;
mod packaging;
mod streams;
mod threads;

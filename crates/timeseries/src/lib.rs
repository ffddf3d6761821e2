//! Time series: how measurements are stored in buckets. No I/O: documents in, documents out.

pub mod column;
mod simple8b;

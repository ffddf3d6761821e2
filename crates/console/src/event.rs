//! What streams are told.

use std::sync::Arc;

use crate::activity::{DiskSample, Happened};
use crate::alerts::AlertEvent;
use crate::sample::Sample;
use crate::stalls::Stall;

/// What happened, for one who draws it.
#[derive(Clone)]
pub(crate) enum Event {
    Sample(Arc<Sample>),
    Stall(Stall),
    /// Flushes, compactions and the like of one second.
    Work(Arc<[Happened]>),
    Disk(Arc<DiskSample>),
    Alert(AlertEvent),
}

//! Ends regions where the store wants it, so that ranges of keys that are written at once can be on different machines.
//!
//! ```text
//!   placement driver   which region has the key, and which store leads it
//!   store              splits the region before the keys
//!   placement driver   scatters what came of it: the leaders go to different stores
//! ```
//!
//! The data are right without it, so a failure is repeated for some seconds only, and told to the caller. The store's
//! client, and other nodes, find the new regions by the errors of their next requests.

use std::time::{Duration, Instant};

use nagi_kv::{Error, Result};
use tokio::time::sleep;

use crate::{
    connect::{PAUSE_MAX, PAUSE_MIN},
    layout::{ordered, unordered},
    regions::{
        Place, Regions, call,
        messages::{Context, Region},
    },
};

/// Time for all keys of a call.
const TIME: Duration = Duration::from_secs(20);
/// Time in which the placement drivers have to learn of all new regions.
const KNOWN: Duration = Duration::from_secs(5);
/// How often the placement drivers try to scatter a region.
const SCATTER_TRIES: u64 = 3;

/// The parts of the messages that are used here.
mod messages {
    use crate::regions::messages::{Context, Header, Region};

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(super) struct SplitRequest {
        #[prost(message, optional, tag = "1")]
        pub(super) context: Option<Context>,
        /// In the form of the store's users: it encodes them itself.
        #[prost(bytes = "vec", repeated, tag = "3")]
        pub(super) split_keys: Vec<Vec<u8>>,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(super) struct Refused {
        #[prost(string, tag = "1")]
        pub(super) message: String,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(super) struct SplitResponse {
        #[prost(message, optional, tag = "1")]
        pub(super) region_error: Option<Refused>,
        #[prost(message, repeated, tag = "4")]
        pub(super) regions: Vec<Region>,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(super) struct ScatterRequest {
        #[prost(message, optional, tag = "1")]
        pub(super) header: Option<Header>,
        /// Regions of one group are distributed as evenly as they can be.
        #[prost(string, tag = "5")]
        pub(super) group: String,
        #[prost(uint64, repeated, tag = "6")]
        pub(super) regions: Vec<u64>,
        #[prost(uint64, tag = "7")]
        pub(super) retry_limit: u64,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(super) struct ScatterResponse {
        #[prost(uint64, tag = "2")]
        pub(super) finished_percentage: u64,
    }
}

use messages::{ScatterRequest, ScatterResponse, SplitRequest, SplitResponse};

/// Ends regions before these stored keys. Returns the number of keys before which one ends.
///
/// # Errors
/// If none of them could be split.
pub(crate) async fn at(regions: &Regions, mut keys: Vec<Vec<u8>>) -> Result<usize> {
    keys.sort_unstable();
    keys.dedup();
    let end = Instant::now() + TIME;
    let (mut done, mut made, mut is_new, mut failed) = (0, Vec::new(), false, String::new());
    let (mut rest, mut pause) = (keys.as_slice(), PAUSE_MIN);
    while let Some(first) = rest.first() {
        match some(regions, first, rest).await {
            Ok(split) => {
                done += split.count;
                is_new |= split.is_new;
                made.extend(split.regions);
                rest = &rest[split.count..];
                pause = PAUSE_MIN;
            }
            Err(why) if Instant::now() >= end => {
                failed = why;
                break;
            }
            Err(_) => {
                regions.forget_leader();
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
    if done == 0 && !keys.is_empty() {
        return Err(Error::Unreachable(format!("a region of TiKV cannot be split: {failed}")));
    }
    if is_new {
        regions.forget_bounds();
        scatter(regions, &made, &keys[0]).await;
        wait_until_known(regions, &keys[..done]).await;
    }
    Ok(done)
}

/// What was split by one request.
struct Split {
    /// The first so many of the keys.
    count: usize,
    /// A region did not end before one of them.
    is_new: bool,
    /// The regions that came of it.
    regions: Vec<Region>,
}

/// Splits the region of the first key before all of the keys that are in it, which ascend.
async fn some(
    regions: &Regions,
    first: &[u8],
    keys: &[Vec<u8>],
) -> std::result::Result<Split, String> {
    let Place { region, leader, channel } = regions.place(first).await?;
    let end = unordered(&region.end_key).filter(|_| !region.end_key.is_empty());
    let count = keys.partition_point(|key| end.as_ref().is_none_or(|end| key < end)).max(1);
    let mut begin = Vec::new();
    ordered(first, &mut begin);
    // A region that begins with the key was split before.
    let is_there = usize::from(region.start_key == begin);
    if is_there == count {
        return Ok(Split { count, is_new: false, regions: Vec::new() });
    }
    let context = Context { region_id: region.id, epoch: region.epoch, peer: Some(leader) };
    let split_keys = keys[is_there..count].to_vec();
    let request = SplitRequest { context: Some(context), split_keys };
    let answer: SplitResponse = call(&channel, "/tikvpb.Tikv/SplitRegion", request).await?;
    match answer.region_error {
        Some(error) => Err(error.message),
        None => Ok(Split { count, is_new: true, regions: answer.regions }),
    }
}

/// Asks the placement drivers to distribute regions over the stores. They do so when they can; it is not waited for.
async fn scatter(regions: &Regions, made: &[Region], first: &[u8]) {
    let ids = made.iter().map(|region| region.id).collect();
    let group: String = first.iter().map(|byte| format!("{byte:02x}")).collect();
    let request = |header| ScatterRequest {
        header: Some(header),
        group,
        regions: ids,
        retry_limit: SCATTER_TRIES,
    };
    // Without it the drivers balance the regions by themselves, later.
    let _: std::result::Result<ScatterResponse, String> =
        regions.ask_leader("/pdpb.PD/ScatterRegion", request).await;
}

/// Waits until the placement drivers know the regions that begin with these keys: before, requests would go astray.
async fn wait_until_known(regions: &Regions, keys: &[Vec<u8>]) {
    let end = Instant::now() + KNOWN;
    let mut pause = PAUSE_MIN;
    for key in keys {
        let mut begin = Vec::new();
        ordered(key, &mut begin);
        while Instant::now() < end {
            match regions.place(key).await {
                Ok(place) if place.region.start_key == begin => break,
                _ => sleep(pause).await,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

//! What the placement drivers keep for garbage collection: the safe point of the cluster, and one for each service that
//! needs older versions. And whether the cluster belongs to TiDB, which collects by itself.

use nagi_kv::{Error, Result};

use crate::regions::{
    Regions,
    messages::{Header, Region},
};

/// The service that stands for whoever collects.
pub(crate) const COLLECTOR: &str = "gc_worker";
/// How long that one lasts: for ever.
pub(crate) const FOR_EVER: i64 = i64::MAX;

/// What TiDB's servers write while they run, and where the one that collects has written how far it was.
const TIDB_SERVERS: &str = "/tidb/server/info/";
const TIDB_COLLECTOR: &str = "/tidb/store/gcworker/saved_safe_point";

/// The parts of the messages that are used here.
mod messages {
    use super::{Header, Region};

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(super) struct Failure {
        #[prost(int32, tag = "1")]
        pub(super) kind: i32,
        #[prost(string, tag = "2")]
        pub(super) message: String,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(super) struct AnswerHeader {
        #[prost(message, optional, tag = "2")]
        pub(super) error: Option<Failure>,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(super) struct SafePointRequest {
        #[prost(message, optional, tag = "1")]
        pub(super) header: Option<Header>,
        /// None: it is only read.
        #[prost(uint64, tag = "2")]
        pub(super) safe_point: u64,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(super) struct SafePointAnswer {
        #[prost(message, optional, tag = "1")]
        pub(super) header: Option<AnswerHeader>,
        #[prost(uint64, tag = "2")]
        pub(super) safe_point: u64,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(super) struct ServiceRequest {
        #[prost(message, optional, tag = "1")]
        pub(super) header: Option<Header>,
        #[prost(bytes = "vec", tag = "2")]
        pub(super) service_id: Vec<u8>,
        /// In seconds.
        #[prost(int64, tag = "3")]
        pub(super) lasts: i64,
        #[prost(uint64, tag = "4")]
        pub(super) safe_point: u64,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(super) struct ServiceAnswer {
        #[prost(message, optional, tag = "1")]
        pub(super) header: Option<AnswerHeader>,
        #[prost(bytes = "vec", tag = "2")]
        pub(super) service_id: Vec<u8>,
        #[prost(uint64, tag = "4")]
        pub(super) min_safe_point: u64,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(super) struct ScanRequest {
        #[prost(message, optional, tag = "1")]
        pub(super) header: Option<Header>,
        #[prost(bytes = "vec", tag = "2")]
        pub(super) start_key: Vec<u8>,
        #[prost(int32, tag = "3")]
        pub(super) limit: i32,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(super) struct ScanAnswer {
        #[prost(message, optional, tag = "1")]
        pub(super) header: Option<AnswerHeader>,
        #[prost(message, repeated, tag = "2")]
        pub(super) regions: Vec<Region>,
    }

    /// Of the store of small values that the placement drivers share, etcd.
    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(super) struct RangeRequest {
        #[prost(bytes = "vec", tag = "1")]
        pub(super) key: Vec<u8>,
        #[prost(bytes = "vec", tag = "2")]
        pub(super) range_end: Vec<u8>,
        #[prost(bool, tag = "9")]
        pub(super) count_only: bool,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(super) struct RangeAnswer {
        #[prost(int64, tag = "4")]
        pub(super) count: i64,
    }
}

use messages::{
    AnswerHeader, RangeAnswer, RangeRequest, SafePointAnswer, SafePointRequest, ScanAnswer,
    ScanRequest, ServiceAnswer, ServiceRequest,
};

/// The service with the least safe point of all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Least {
    pub(crate) service: String,
    pub(crate) safe_point: u64,
}

/// What TiDB has to do with a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tidb {
    /// Nothing.
    Absent,
    /// It has collected here, but no server runs.
    Stopped,
    /// Its servers run.
    Runs,
}

/// The bounds of some regions: the end of the last one in the form of the placement drivers, empty at the end of all.
pub(crate) struct Part {
    pub(crate) count: usize,
    pub(crate) end: Vec<u8>,
}

/// The safe point up to which stores may have removed versions.
pub(crate) async fn safe_point(regions: &Regions) -> Result<u64> {
    let request = |header| SafePointRequest { header: Some(header), safe_point: 0 };
    let answer: SafePointAnswer = ask(regions, "/pdpb.PD/GetGCSafePoint", request).await?;
    checked(answer.header).map(|()| answer.safe_point)
}

/// Tells all stores to remove versions up to this one. It never goes back; returns what it is now.
pub(crate) async fn advance(regions: &Regions, safe_point: u64) -> Result<u64> {
    let request = |header| SafePointRequest { header: Some(header), safe_point };
    let answer: SafePointAnswer = ask(regions, "/pdpb.PD/UpdateGCSafePoint", request).await?;
    checked(answer.header).map(|()| answer.safe_point)
}

/// Protects what can be read at this timestamp and later ones, for so many seconds. Without effect if it is before the
/// least one of all services.
pub(crate) async fn protect(
    regions: &Regions,
    service: &str,
    safe_point: u64,
    lasts: i64,
) -> Result<Least> {
    let service_id = service.as_bytes().to_vec();
    let request = |header| ServiceRequest { header: Some(header), service_id, lasts, safe_point };
    let answer: ServiceAnswer = ask(regions, "/pdpb.PD/UpdateServiceGCSafePoint", request).await?;
    checked(answer.header)?;
    let service = String::from_utf8_lossy(&answer.service_id).into_owned();
    Ok(Least { service, safe_point: answer.min_safe_point })
}

/// The first regions from this key on, which is in the form of the placement drivers.
pub(crate) async fn part(regions: &Regions, from: &[u8], most: u32) -> Result<Part> {
    let (start_key, limit) = (from.to_vec(), i32::try_from(most).unwrap_or(i32::MAX));
    let request = |header| ScanRequest { header: Some(header), start_key, limit };
    let answer: ScanAnswer = ask(regions, "/pdpb.PD/ScanRegions", request).await?;
    checked(answer.header)?;
    match answer.regions.last() {
        Some(last) if last.end_key.is_empty() || last.end_key.as_slice() > from => {
            Ok(Part { count: answer.regions.len(), end: last.end_key.clone() })
        }
        _ => Err(failed("/pdpb.PD/ScanRegions", "no region has a key")),
    }
}

/// Looks for traces of TiDB.
pub(crate) async fn tidb(regions: &Regions) -> Result<Tidb> {
    // A slash is followed by 0.
    let servers = count(regions, TIDB_SERVERS, &TIDB_SERVERS.replace("info/", "info0")).await?;
    if servers > 0 {
        return Ok(Tidb::Runs);
    }
    let collected = count(regions, TIDB_COLLECTOR, "").await?;
    Ok(if collected > 0 { Tidb::Stopped } else { Tidb::Absent })
}

async fn count(regions: &Regions, key: &str, range_end: &str) -> Result<i64> {
    let (key, range_end) = (key.as_bytes().to_vec(), range_end.as_bytes().to_vec());
    let request = |_| RangeRequest { key, range_end, count_only: true };
    let answer: RangeAnswer = ask(regions, "/etcdserverpb.KV/Range", request).await?;
    Ok(answer.count)
}

async fn ask<A, B>(
    regions: &Regions,
    path: &'static str,
    request: impl FnOnce(Header) -> A,
) -> Result<B>
where
    A: prost::Message + 'static,
    B: prost::Message + Default + 'static,
{
    regions.ask_leader(path, request).await.map_err(|why| failed(path, &why))
}

fn checked(header: Option<AnswerHeader>) -> Result<()> {
    match header.and_then(|header| header.error).filter(|error| error.kind != 0) {
        Some(error) => Err(failed("a request", &error.message)),
        None => Ok(()),
    }
}

fn failed(what: &str, why: &str) -> Error {
    Error::Unreachable(format!("{what} to a placement driver of TiKV failed: {why}"))
}

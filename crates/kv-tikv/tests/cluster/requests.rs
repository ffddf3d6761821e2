//! Requests to the placement driver and the store as other programs than the engine make them: other services, TiDB,
//! and transactions that are left half done.

use std::time::Duration;

use tonic::{client::Grpc, codegen::http::uri::PathAndQuery, transport::Endpoint};
use tonic_prost::ProstCodec;

use crate::cluster::placement_driver;

macro_rules! message {
    ($name:ident { $($(#[$kind:meta])* $field:ident: $type:ty,)* }) => {
        #[derive(Clone, PartialEq, prost::Message)]
        pub(crate) struct $name { $($(#[$kind])* pub(crate) $field: $type,)* }
    };
}

message!(Header {
    #[prost(uint64, tag = "1")]
    cluster_id: u64,
});
message!(Members {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
});
message!(SafePoint {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(uint64, tag = "2")]
    safe_point: u64,
});
message!(Service {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(bytes = "vec", tag = "2")]
    service_id: Vec<u8>,
    #[prost(int64, tag = "3")]
    lasts: i64,
    #[prost(uint64, tag = "4")]
    safe_point: u64,
});
message!(Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
});
message!(Nothing {});
message!(RegionRequest {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(bytes = "vec", tag = "2")]
    region_key: Vec<u8>,
});
message!(Epoch {
    #[prost(uint64, tag = "1")]
    conf_ver: u64,
    #[prost(uint64, tag = "2")]
    version: u64,
});
message!(Peer {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    store_id: u64,
});
message!(Region {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, optional, tag = "4")]
    epoch: Option<Epoch>,
});
message!(RegionAnswer {
    #[prost(message, optional, tag = "2")]
    region: Option<Region>,
    #[prost(message, optional, tag = "3")]
    leader: Option<Peer>,
});
message!(StoreRequest {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(uint64, tag = "2")]
    store_id: u64,
});
message!(Store {
    #[prost(string, tag = "2")]
    address: String,
});
message!(StoreAnswer {
    #[prost(message, optional, tag = "2")]
    store: Option<Store>,
});
message!(Context {
    #[prost(uint64, tag = "1")]
    region_id: u64,
    #[prost(message, optional, tag = "2")]
    epoch: Option<Epoch>,
    #[prost(message, optional, tag = "3")]
    peer: Option<Peer>,
});
message!(Mutation {
    #[prost(int32, tag = "1")]
    op: i32,
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    value: Vec<u8>,
});
message!(Prewrite {
    #[prost(message, optional, tag = "1")]
    context: Option<Context>,
    #[prost(message, repeated, tag = "2")]
    mutations: Vec<Mutation>,
    #[prost(bytes = "vec", tag = "3")]
    primary_lock: Vec<u8>,
    #[prost(uint64, tag = "4")]
    start_version: u64,
    #[prost(uint64, tag = "5")]
    lock_ttl: u64,
});
message!(Commit {
    #[prost(message, optional, tag = "1")]
    context: Option<Context>,
    #[prost(uint64, tag = "2")]
    start_version: u64,
    #[prost(bytes = "vec", repeated, tag = "3")]
    keys: Vec<Vec<u8>>,
    #[prost(uint64, tag = "4")]
    commit_version: u64,
});
message!(Done {
    #[prost(message, optional, tag = "1")]
    region_error: Option<Nothing>,
});

fn call<A, B>(host: &str, path: &'static str, request: A) -> B
where
    A: prost::Message + 'static,
    B: prost::Message + Default + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://{host}")).expect("an address");
        let channel = endpoint.timeout(Duration::from_secs(10)).connect().await.expect("connects");
        let mut grpc = Grpc::new(channel);
        grpc.ready().await.expect("ready");
        let codec = ProstCodec::<A, B>::default();
        let path = PathAndQuery::from_static(path);
        grpc.unary(tonic::Request::new(request), path, codec).await.expect("an answer").into_inner()
    })
}

fn ask<A, B>(path: &'static str, request: A) -> B
where
    A: prost::Message + 'static,
    B: prost::Message + Default + 'static,
{
    call(&placement_driver(), path, request)
}

fn header() -> Option<Header> {
    ask::<_, Members>("/pdpb.PD/GetMembers", Members { header: None }).header
}

/// The safe point of the cluster.
pub(crate) fn safe_point() -> u64 {
    let request = SafePoint { header: header(), safe_point: 0 };
    ask::<_, SafePoint>("/pdpb.PD/GetGCSafePoint", request).safe_point
}

/// Advances it, as a program does that looks at no service.
pub(crate) fn advance(version: u64) {
    let request = SafePoint { header: header(), safe_point: version };
    ask::<_, SafePoint>("/pdpb.PD/UpdateGCSafePoint", request);
}

/// Protects a version for a service, for so many seconds; 0: no longer.
pub(crate) fn protect(service: &str, version: u64, lasts: i64) {
    let service_id = service.as_bytes().to_vec();
    let request = Service { header: header(), service_id, lasts, safe_point: version };
    ask::<_, Service>("/pdpb.PD/UpdateServiceGCSafePoint", request);
}

/// What TiDB's servers write.
pub(crate) fn note(key: &str, value: &str) {
    let request = Put { key: key.into(), value: value.into() };
    ask::<_, Nothing>("/etcdserverpb.KV/Put", request);
}

pub(crate) fn forget(key: &str) {
    let request = Put { key: key.into(), value: Vec::new() };
    ask::<_, Nothing>("/etcdserverpb.KV/DeleteRange", request);
}

/// Locks keys of one region for a transaction whose client is gone; the first one is the primary key. With `committed`
/// that one is committed.
pub(crate) fn leave_locks(start: u64, keys: &[(&[u8], &[u8])], committed: Option<u64>) {
    let primary = keys[0].0.to_vec();
    let request = RegionRequest { header: header(), region_key: encoded(&primary) };
    let found: RegionAnswer = ask("/pdpb.PD/GetRegion", request);
    let (region, peer) = (found.region.expect("a region"), found.leader.expect("a leader"));
    let request = StoreRequest { header: header(), store_id: peer.store_id };
    let store = ask::<_, StoreAnswer>("/pdpb.PD/GetStore", request).store.expect("a store");
    let context = Context { region_id: region.id, epoch: region.epoch, peer: Some(peer) };
    let mutation = |(key, value): &(&[u8], &[u8])| Mutation {
        op: 0,
        key: key.to_vec(),
        value: value.to_vec(),
    };
    let prewrite = Prewrite {
        context: Some(context.clone()),
        mutations: keys.iter().map(mutation).collect(),
        primary_lock: primary.clone(),
        start_version: start,
        lock_ttl: 1,
    };
    let done: Done = call(&store.address, "/tikvpb.Tikv/KvPrewrite", prewrite);
    assert_eq!(done.region_error, None);
    let Some(commit_version) = committed else { return };
    let context = Some(context);
    let commit = Commit { context, start_version: start, keys: vec![primary], commit_version };
    let done: Done = call(&store.address, "/tikvpb.Tikv/KvCommit", commit);
    assert_eq!(done.region_error, None);
}

/// The form of keys at the placement driver: groups of 8 bytes, each followed by its number of bytes.
fn encoded(key: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    for group in key.chunks(8).chain(key.len().is_multiple_of(8).then_some(&[][..])) {
        encoded.extend_from_slice(group);
        encoded.extend(std::iter::repeat_n(0, 8 - group.len()));
        encoded.push(247 + group.len() as u8);
    }
    encoded
}

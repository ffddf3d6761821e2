//! The bounds of regions, so that a page of a scan asks one region.
//!
//! A region is a range of keys that is replicated as a whole. The client sends a scan to all regions of its range at
//! once, and each answers with as many entries as the scan may return in total; so a range is read region by region.
//! The placement drivers know the bounds. They are kept for a minute: bounds that have changed cost time, but lose
//! nothing, because the client looks up the regions of each request itself.

use std::{
    collections::BTreeMap,
    error::Error as _,
    ops::Bound,
    time::{Duration, Instant},
};

use nagi_kv::{Error, Result};
use parking_lot::Mutex;
use tonic::{
    Request, Response, Status,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use crate::{
    error::with_causes,
    layout::{ordered, unordered},
    options::Options,
};

const KEPT_FOR: Duration = Duration::from_secs(60);
/// Bytes of bounds that are kept: those of some ten thousand regions.
const KEPT_BYTES_MAX: usize = 2 << 20;
const PAUSE: Duration = Duration::from_millis(200);

/// The parts of PD's messages that are used here. Other fields are skipped.
pub(crate) mod messages {
    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(crate) struct Header {
        #[prost(uint64, tag = "1")]
        pub(crate) cluster_id: u64,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(crate) struct MembersRequest {
        #[prost(message, optional, tag = "1")]
        pub(crate) header: Option<Header>,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(crate) struct Member {
        #[prost(string, repeated, tag = "4")]
        pub(crate) client_urls: Vec<String>,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(crate) struct MembersResponse {
        #[prost(message, optional, tag = "1")]
        pub(crate) header: Option<Header>,
        #[prost(message, optional, tag = "3")]
        pub(crate) leader: Option<Member>,
    }

    /// The region that a request to a store is for.
    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(crate) struct Context {
        #[prost(uint64, tag = "1")]
        pub(crate) region_id: u64,
        #[prost(message, optional, tag = "2")]
        pub(crate) epoch: Option<Epoch>,
        #[prost(message, optional, tag = "3")]
        pub(crate) peer: Option<Peer>,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(crate) struct RegionRequest {
        #[prost(message, optional, tag = "1")]
        pub(crate) header: Option<Header>,
        #[prost(bytes = "vec", tag = "2")]
        pub(crate) region_key: Vec<u8>,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(crate) struct Epoch {
        #[prost(uint64, tag = "1")]
        pub(crate) conf_ver: u64,
        #[prost(uint64, tag = "2")]
        pub(crate) version: u64,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(crate) struct Peer {
        #[prost(uint64, tag = "1")]
        pub(crate) id: u64,
        #[prost(uint64, tag = "2")]
        pub(crate) store_id: u64,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(crate) struct Region {
        #[prost(uint64, tag = "1")]
        pub(crate) id: u64,
        #[prost(bytes = "vec", tag = "2")]
        pub(crate) start_key: Vec<u8>,
        #[prost(bytes = "vec", tag = "3")]
        pub(crate) end_key: Vec<u8>,
        #[prost(message, optional, tag = "4")]
        pub(crate) epoch: Option<Epoch>,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(crate) struct RegionResponse {
        #[prost(message, optional, tag = "2")]
        pub(crate) region: Option<Region>,
        #[prost(message, optional, tag = "3")]
        pub(crate) leader: Option<Peer>,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(crate) struct StoreRequest {
        #[prost(message, optional, tag = "1")]
        pub(crate) header: Option<Header>,
        #[prost(uint64, tag = "2")]
        pub(crate) store_id: u64,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(crate) struct Store {
        #[prost(string, tag = "2")]
        pub(crate) address: String,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(crate) struct StoreResponse {
        #[prost(message, optional, tag = "2")]
        pub(crate) store: Option<Store>,
    }
}

use messages::{
    Header, MembersRequest, MembersResponse, Peer, Region, RegionRequest, RegionResponse,
    StoreRequest, StoreResponse,
};

/// Keys from `start` to before `end`; none: no bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Option<Vec<u8>>,
}

/// Where requests for a key go.
pub(crate) struct Place {
    pub(crate) region: Region,
    pub(crate) leader: Peer,
    /// To the store with the leader.
    pub(crate) channel: Channel,
}

/// The leader of the placement drivers.
#[derive(Clone)]
struct Leader {
    channel: Channel,
    cluster_id: u64,
}

/// See the module's header.
pub(crate) struct Regions {
    options: Options,
    leader: Mutex<Option<Leader>>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// By their starts.
    by_start: BTreeMap<Vec<u8>, (Bounds, Instant)>,
    /// Of all that were kept since the map was empty.
    bytes: usize,
}

impl Known {
    /// The region that contains the key, or with `before` the keys right before it.
    fn find(&self, key: &[u8], before: bool) -> Option<Bounds> {
        let upper = if before { Bound::Excluded(key) } else { Bound::Included(key) };
        let range = self.by_start.range::<[u8], _>((Bound::Unbounded, upper));
        let (_, (bounds, since)) = range.last()?;
        let inside =
            bounds.end.as_deref().is_none_or(|end| if before { key <= end } else { key < end });
        (inside && since.elapsed() < KEPT_FOR).then(|| bounds.clone())
    }

    fn keep(&mut self, bounds: &Bounds) {
        // An entry has some 100 bytes beside its keys; the start is there twice.
        let bytes = 100 + 2 * bounds.start.len() + bounds.end.as_ref().map_or(0, Vec::len);
        if self.bytes + bytes > KEPT_BYTES_MAX {
            *self = Known::default();
        }
        self.bytes += bytes;
        self.by_start.insert(bounds.start.clone(), (bounds.clone(), Instant::now()));
    }
}

impl Regions {
    pub(crate) fn new(options: &Options) -> Regions {
        Regions { options: options.clone(), leader: Mutex::default(), known: Mutex::default() }
    }

    /// The bounds of the region of a key, or with `before` of the keys right before it, if they are known.
    pub(crate) fn known(&self, key: &[u8], before: bool) -> Option<Bounds> {
        self.known.lock().find(key, before)
    }

    /// Asks for bounds that are not known.
    pub(crate) async fn ask(&self, key: &[u8], before: bool) -> Result<Bounds> {
        let end = Instant::now() + self.options.call_timeout;
        loop {
            let failed = match self.try_ask(key, before).await {
                Ok(bounds) => {
                    self.known.lock().keep(&bounds);
                    return Ok(bounds);
                }
                Err(error) => error,
            };
            if Instant::now() >= end {
                let text = format!("the regions of TiKV are not known: {failed}");
                return Err(Error::Unreachable(text));
            }
            self.forget_leader();
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn try_ask(&self, key: &[u8], before: bool) -> std::result::Result<Bounds, String> {
        let leader = self.some_leader().await?;
        let request = region_request(&leader, key);
        let found = region(&leader.channel, "/pdpb.PD/GetRegion", request.clone()).await?;
        match before && found.start == key && !key.is_empty() {
            true => region(&leader.channel, "/pdpb.PD/GetPrevRegion", request).await,
            false => Ok(found),
        }
    }

    /// Asks for the region of a key and its leader: two requests, whose answers are not kept.
    ///
    /// # Errors
    /// Why it is not known now.
    pub(crate) async fn place(&self, key: &[u8]) -> std::result::Result<Place, String> {
        let leader = self.some_leader().await?;
        let request = region_request(&leader, key);
        let answer: RegionResponse = call(&leader.channel, "/pdpb.PD/GetRegion", request).await?;
        let region = answer.region.ok_or("no region has the key")?;
        let peer = answer.leader.ok_or("the region has no leader")?;
        let header = Some(Header { cluster_id: leader.cluster_id });
        let request = StoreRequest { header, store_id: peer.store_id };
        let answer: StoreResponse = call(&leader.channel, "/pdpb.PD/GetStore", request).await?;
        let store = answer.store.ok_or("the store is not known")?;
        Ok(Place { region, leader: peer, channel: self.channel(&store.address)? })
    }

    /// A request to the leader of the placement drivers.
    ///
    /// # Errors
    /// The reason as text; the next call looks for the leader again.
    pub(crate) async fn ask_leader<A, B>(
        &self,
        path: &'static str,
        request: impl FnOnce(Header) -> A,
    ) -> std::result::Result<B, String>
    where
        A: prost::Message + 'static,
        B: prost::Message + Default + 'static,
    {
        let leader = self.some_leader().await?;
        let request = request(Header { cluster_id: leader.cluster_id });
        let answer = call(&leader.channel, path, request).await;
        if answer.is_err() {
            self.forget_leader();
        }
        answer
    }

    /// Regions were split: what is known of their bounds would cost time.
    pub(crate) fn forget_bounds(&self) {
        *self.known.lock() = Known::default();
    }

    /// Another placement driver may be the leader by now.
    pub(crate) fn forget_leader(&self) {
        *self.leader.lock() = None;
    }

    /// The leader that was found last, or a new one.
    async fn some_leader(&self) -> std::result::Result<Leader, String> {
        let known = self.leader.lock().clone();
        if let Some(leader) = known {
            return Ok(leader);
        }
        let found = self.find_leader().await?;
        *self.leader.lock() = Some(found.clone());
        Ok(found)
    }

    /// Asks the placement drivers for their leader.
    ///
    /// # Errors
    /// Why the last of them that was asked does not tell.
    pub(crate) async fn reach(&self) -> std::result::Result<(), String> {
        self.find_leader().await.map(drop)
    }

    async fn find_leader(&self) -> std::result::Result<Leader, String> {
        let mut failed = String::new();
        for host in &self.options.address.placement_drivers {
            match self.leader_by(host).await {
                Ok(leader) => return Ok(leader),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn leader_by(&self, host: &str) -> std::result::Result<Leader, String> {
        let members: MembersResponse =
            call(&self.channel(host)?, "/pdpb.PD/GetMembers", MembersRequest { header: None })
                .await?;
        let cluster_id = members.header.map_or(0, |header| header.cluster_id);
        let urls = members.leader.map(|leader| leader.client_urls).unwrap_or_default();
        let url = urls.first().ok_or("the placement drivers have no leader")?;
        Ok(Leader { channel: self.channel(url)?, cluster_id })
    }

    /// A connection that is made with the first request. `host` may begin with a scheme.
    fn channel(&self, host: &str) -> std::result::Result<Channel, String> {
        let host = host.split_once("://").map_or(host, |(_, host)| host);
        let scheme = if self.options.tls.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{host}"));
        let mut endpoint = endpoint.map_err(|error| error.to_string())?;
        if let Some(tls) = &self.options.tls {
            let config = tls.client_config()?;
            endpoint = endpoint.tls_config(config).map_err(|error| with_causes(&error))?;
        }
        let time = self.options.request_timeout;
        Ok(endpoint.connect_timeout(time).timeout(time).connect_lazy())
    }
}

fn region_request(leader: &Leader, key: &[u8]) -> RegionRequest {
    let mut region_key = Vec::new();
    ordered(key, &mut region_key);
    RegionRequest { header: Some(Header { cluster_id: leader.cluster_id }), region_key }
}

async fn region(
    channel: &Channel,
    path: &'static str,
    request: RegionRequest,
) -> std::result::Result<Bounds, String> {
    let answer: RegionResponse = call(channel, path, request).await?;
    let region = answer.region.ok_or("no region has the key")?;
    // Bounds are in the ordered form. One that is not is of no user's key; nothing is lost without it.
    Ok(Bounds {
        start: unordered(&region.start_key).unwrap_or_default(),
        end: unordered(&region.end_key).filter(|_| !region.end_key.is_empty()),
    })
}

/// A request to a placement driver or store.
///
/// # Errors
/// The reason as text.
pub(crate) async fn call<A, B>(
    channel: &Channel,
    path: &'static str,
    request: A,
) -> std::result::Result<B, String>
where
    A: prost::Message + 'static,
    B: prost::Message + Default + 'static,
{
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.map_err(|error| with_causes(&error))?;
    let path = PathAndQuery::from_static(path);
    let codec = ProstCodec::<A, B>::default();
    let answer: std::result::Result<Response<B>, Status> =
        grpc.unary(Request::new(request), path, codec).await;
    answer.map(Response::into_inner).map_err(|status| match status.source() {
        Some(source) => with_causes(source),
        None => status.message().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(start: &[u8], end: &[u8]) -> Bounds {
        Bounds { start: start.into(), end: (!end.is_empty()).then(|| end.into()) }
    }

    #[test]
    fn known_bounds_are_found_in_both_directions() {
        let mut known = Known::default();
        let (first, last) = (bounds(b"", b"d"), bounds(b"m", b""));
        known.keep(&first);
        known.keep(&last);
        let find = |key: &[u8], before| known.find(key, before);
        assert_eq!(
            (find(b"a", false), find(b"", false)),
            (Some(first.clone()), Some(first.clone()))
        );
        assert_eq!((find(b"d", false), find(b"d", true)), (None, Some(first)));
        assert_eq!((find(b"e", true), find(b"m", true)), (None, None));
        assert_eq!((find(b"m", false), find(b"z", true)), (Some(last.clone()), Some(last)));
    }

    #[test]
    fn the_bytes_of_known_bounds_are_limited() {
        let mut known = Known::default();
        for n in 0..50_000_u32 {
            known.keep(&bounds(&n.to_be_bytes(), &(n + 1).to_be_bytes()));
            assert!(known.by_start.len() < 20_000 && known.bytes <= KEPT_BYTES_MAX);
        }
        assert!(known.find(&49_999_u32.to_be_bytes(), false).is_some());
    }
}

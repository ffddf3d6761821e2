//! What became of a commit: its primary key decides, so only that one is looked up.
//!
//! A commit in two phases whose answer is missing must not be rolled back as a whole. Each region takes that request
//! by itself: that of a primary key which was committed would refuse it, and the others would drop their keys, whose
//! values are only in the locks. So the primary key is checked first, and rolled back by the same request unless it is
//! committed. After that the commit cannot take effect, whatever is still under way: the other keys can be unlocked.

use tokio::time::sleep;

use crate::{
    connect::{PAUSE_MAX, PAUSE_MIN},
    regions::{Place, Regions, call, messages::Context},
};

/// The parts of the store's messages that are used here.
mod messages {
    use crate::regions::messages::Context;

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(super) struct StatusRequest {
        #[prost(message, optional, tag = "1")]
        pub(super) context: Option<Context>,
        #[prost(bytes = "vec", tag = "2")]
        pub(super) primary_key: Vec<u8>,
        #[prost(uint64, tag = "3")]
        pub(super) lock_ts: u64,
        /// Locks that are older than their time at this timestamp are rolled back.
        #[prost(uint64, tag = "5")]
        pub(super) current_ts: u64,
        #[prost(bool, tag = "6")]
        pub(super) rollback_if_not_exist: bool,
    }

    /// Its text may have keys, so it is not read.
    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(super) struct Refused {}

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub(super) struct StatusResponse {
        #[prost(message, optional, tag = "1")]
        pub(super) region_error: Option<Refused>,
        #[prost(message, optional, tag = "2")]
        pub(super) error: Option<Refused>,
        #[prost(uint64, tag = "3")]
        pub(super) lock_ttl: u64,
        #[prost(uint64, tag = "4")]
        pub(super) commit_version: u64,
    }
}

use messages::{StatusRequest, StatusResponse};

/// See the module's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// At this version.
    Committed(u64),
    /// It never takes effect.
    RolledBack,
}

/// Finds out what became of the commit of a transaction that began at `start`, and rolls its primary key back if it is
/// not committed. Three requests; repeated until it is known, so callers limit the time.
pub(crate) async fn decide(regions: &Regions, primary: &[u8], start: u64) -> Outcome {
    let mut pause = PAUSE_MIN;
    loop {
        if let Ok(Some(outcome)) = ask(regions, primary, start).await {
            return outcome;
        }
        regions.forget_leader();
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn ask(
    regions: &Regions,
    primary: &[u8],
    start: u64,
) -> std::result::Result<Option<Outcome>, String> {
    let Place { region, leader, channel } = regions.place(primary).await?;
    let context = Context { region_id: region.id, epoch: region.epoch, peer: Some(leader) };
    let request = StatusRequest {
        context: Some(context),
        primary_key: primary.to_vec(),
        lock_ts: start,
        // Whatever its time: the commit has been given up.
        current_ts: u64::MAX,
        rollback_if_not_exist: true,
    };
    let answer = call(&channel, "/tikvpb.Tikv/KvCheckTxnStatus", request).await?;
    Ok(told(&answer))
}

/// What an answer says; nothing if the store has not done it.
fn told(answer: &StatusResponse) -> Option<Outcome> {
    match answer {
        StatusResponse { region_error: Some(_), .. } | StatusResponse { error: Some(_), .. } => {
            None
        }
        StatusResponse { commit_version: version @ 1.., .. } => Some(Outcome::Committed(*version)),
        StatusResponse { lock_ttl: 1.., .. } => None,
        _ => Some(Outcome::RolledBack),
    }
}

#[cfg(test)]
mod tests {
    use super::{messages::Refused, *};

    #[test]
    fn only_an_answer_decides() {
        let answer = StatusResponse::default();
        assert_eq!(told(&answer), Some(Outcome::RolledBack));
        let committed = StatusResponse { commit_version: 7, ..answer.clone() };
        assert_eq!(told(&committed), Some(Outcome::Committed(7)));
        assert_eq!(told(&StatusResponse { lock_ttl: 3000, ..answer.clone() }), None);
        let moved = StatusResponse { region_error: Some(Refused {}), ..committed.clone() };
        assert_eq!(told(&moved), None);
        assert_eq!(told(&StatusResponse { error: Some(Refused {}), ..committed }), None);
    }
}

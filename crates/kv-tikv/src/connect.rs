//! Connections to the placement drivers, which give timestamps and know the places of regions.

use std::{
    io,
    time::{Duration, Instant},
};

use nagi_kv::{Error, Result};
use tikv_client::{Config, TransactionClient};
use tokio::time::{sleep, timeout};

use crate::{error::shortened, options::Options};

/// The pauses between repetitions of a request.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(5);
pub(crate) const PAUSE_MAX: Duration = Duration::from_millis(500);

/// A page has at most 512 entries of 70 KiB.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// What the client says of placement drivers that are not of one cluster.
const DIFFERENT: &str = "cluster_id mismatch";

/// The first connection: it is repeated, because a cluster and its nodes are often started at the same time.
///
/// # Errors
/// `Unreachable` if no placement driver answers in `Options::connect_timeout`. `InvalidData` if they are of different
/// clusters.
pub(crate) async fn first(options: &Options) -> Result<TransactionClient> {
    let end = Instant::now() + options.connect_timeout;
    let mut pause = PAUSE_MIN;
    loop {
        let failed = match once(options).await {
            Err(error @ Error::Unreachable(_)) => error,
            other => return other,
        };
        if Instant::now() + pause >= end {
            return Err(failed);
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// One attempt.
///
/// # Errors
/// Those of [`first`].
pub(crate) async fn once(options: &Options) -> Result<TransactionClient> {
    let config = Config::default()
        .with_timeout(options.request_timeout)
        .with_grpc_max_decoding_message_size(MESSAGE_BYTES_MAX)
        .with_grpc_max_encoding_message_size(MESSAGE_BYTES_MAX);
    let hosts = options.address.placement_drivers.clone();
    let named = hosts.join(", ");
    let failed = |why: &str| {
        Error::Unreachable(format!("no placement driver of TiKV can be reached at {named}: {why}"))
    };
    let connected = TransactionClient::new_with_config(hosts, config);
    match timeout(options.connect_timeout, connected).await {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => match shortened(&error) {
            text if text.contains(DIFFERENT) => Err(Error::Io(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the placement drivers {named} are not of the same cluster"),
            ))),
            text => Err(failed(&text)),
        },
        Err(_) => Err(failed("no answer in time")),
    }
}

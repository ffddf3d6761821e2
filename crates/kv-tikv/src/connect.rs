//! Connections to the placement drivers, which give timestamps and know the places of regions.

use std::{
    io,
    time::{Duration, Instant},
};

use nagi_kv::{Error, Result};
use tikv_client::{Config, TransactionClient};
use tokio::time::{sleep, timeout};

use crate::{error::shortened, options::Options, regions::Regions};

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
            // The client does not say why.
            return Err(match Regions::new(options).reach().await {
                Err(why) => unreachable(options, &why),
                Ok(()) => failed,
            });
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
    let mut config = Config::default()
        .with_timeout(options.request_timeout)
        .with_grpc_max_decoding_message_size(MESSAGE_BYTES_MAX)
        .with_grpc_max_encoding_message_size(MESSAGE_BYTES_MAX);
    if let Some(tls) = &options.tls {
        config = config.with_security(&tls.ca, &tls.cert, &tls.key);
    }
    let hosts = options.address.placement_drivers.clone();
    let named = hosts.join(", ");
    let connected = TransactionClient::new_with_config(hosts, config);
    match timeout(options.connect_timeout, connected).await {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => match shortened(&error) {
            text if text.contains(DIFFERENT) => Err(Error::Io(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the placement drivers {named} are not of the same cluster"),
            ))),
            text => Err(unreachable(options, &text)),
        },
        Err(_) => Err(unreachable(options, "no answer in time")),
    }
}

fn unreachable(options: &Options, why: &str) -> Error {
    let named = options.address.placement_drivers.join(", ");
    Error::Unreachable(format!("no placement driver of TiKV can be reached at {named}: {why}"))
}

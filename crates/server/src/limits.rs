//! Every limit of the wire and of requests, with where it comes from.

/// `maxBsonObjectSize`: a stored document (MongoDB since 1.8).
pub(crate) const BSON_OBJECT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// `maxMessageSizeBytes`: a whole message.
pub const MESSAGE_BYTES_MAX: usize = 48_000_000;
/// `maxWriteBatchSize` (MongoDB since 3.6).
pub(crate) const WRITE_BATCH_COUNT_MAX: usize = 100_000;
/// `minWireVersion`: the legacy opcodes are served, so the oldest drivers are welcome.
pub(crate) const WIRE_VERSION_MIN: i32 = 0;
/// `maxWireVersion`: MongoDB 8.0.
pub(crate) const WIRE_VERSION_MAX: i32 = 25;
/// `logicalSessionTimeoutMinutes`.
pub(crate) const SESSION_TIMEOUT_MINUTES: i32 = 30;
/// Sessions in one `endSessions` (MongoDB's own limit).
pub(crate) const END_SESSIONS_COUNT_MAX: usize = 10_000;
/// Documents in a first batch when the client does not say.
pub(crate) const FIRST_BATCH_COUNT: i64 = 101;
/// Bytes of documents in one batch; a single larger document still goes alone.
pub(crate) const BATCH_BYTES_MAX: usize = BSON_OBJECT_BYTES_MAX;
/// Total size of the client metadata document of a handshake.
pub(crate) const CLIENT_METADATA_BYTES_MAX: usize = 512;
/// Application name in the client metadata.
pub(crate) const APP_NAME_BYTES_MAX: usize = 128;
/// Error texts of one write batch; beyond it they are left empty.
pub(crate) const WRITE_ERROR_TEXT_BYTES_MAX: usize = 1024 * 1024;
/// Extra fields (`errInfo`, `keyValue`) of the errors of one write batch; beyond it they are left out.
pub(crate) const WRITE_ERROR_INFO_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Body of a running operation that `currentOp` keeps; a larger one is shown cut.
pub(crate) const OP_COMMAND_BYTES_MAX: usize = 4096;
/// How far ahead of the wall clock a client's cluster time may be (MongoDB's default, a year).
pub(crate) const CLUSTER_TIME_DRIFT_SECONDS_MAX: i64 = 31_536_000;
/// States kept for snapshot reads outside transactions; the oldest goes.
pub(crate) const SNAPSHOT_COUNT_MAX: usize = 100;
/// Open cursors; one more is refused rather than memory exhausted.
pub(crate) const CURSOR_COUNT_MAX: usize = 100_000;

/// What a cursor costs between two requests at least: its entry, its command, its plan.
pub(crate) const CURSOR_BYTES_MIN: u64 = 4 << 10;

/// Cursors idle for longer are closed when a new one finds no room in memory; but for those without time-out.
pub(crate) const CURSOR_IDLE_MIN_MS: i64 = 60_000;
/// Requests that read at once (`storageEngineConcurrentReadTransactions`, MongoDB's default).
pub(crate) const READ_TICKETS: i64 = 128;
/// Requests that write at once (`storageEngineConcurrentWriteTransactions`).
pub(crate) const WRITE_TICKETS: i64 = 128;
/// Most tickets of a kind that may be set.
pub(crate) const TICKETS_MAX: i64 = 100_000;
/// Time between two polls of a running read at whether its client is still there.
pub(crate) const PEER_LOOK: std::time::Duration = std::time::Duration::from_millis(10);
/// The same while a request waits for data.
pub(crate) const IDLE_PEER_LOOK: std::time::Duration = std::time::Duration::from_secs(1);
/// How long a getMore waits at the end of a capped collection when the client does not say.
pub(crate) const AWAIT_DATA: std::time::Duration = std::time::Duration::from_secs(1);

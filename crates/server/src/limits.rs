//! All limits of the wire protocol and of requests, with their origin.

/// `maxBsonObjectSize`: a stored document (MongoDB since 1.8).
pub(crate) const BSON_OBJECT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// `maxMessageSizeBytes`: the size of a whole message.
pub const MESSAGE_BYTES_MAX: usize = 48_000_000;
/// `maxWriteBatchSize` (MongoDB since 3.6).
pub(crate) const WRITE_BATCH_COUNT_MAX: usize = 100_000;
/// `minWireVersion`: 0, because the legacy opcodes of the oldest drivers are served.
pub(crate) const WIRE_VERSION_MIN: i32 = 0;
/// `maxWireVersion`: MongoDB 8.0.
pub(crate) const WIRE_VERSION_MAX: i32 = 25;
/// `logicalSessionTimeoutMinutes`.
pub(crate) const SESSION_TIMEOUT_MINUTES: i32 = 30;
/// The maximum number of sessions in one `endSessions` (MongoDB's own limit).
pub(crate) const END_SESSIONS_COUNT_MAX: usize = 10_000;
/// The users with longer names, `user@db`, cannot have sessions (MongoDB's own limit).
pub(crate) const SESSION_USER_BYTES_MAX: usize = 9_999;
/// The number of documents in a first batch if the client specifies none.
pub(crate) const FIRST_BATCH_COUNT: i64 = 101;
/// The maximum size of a batch's documents; a single larger document is still sent alone.
pub(crate) const BATCH_BYTES_MAX: usize = BSON_OBJECT_BYTES_MAX;
/// The maximum size of the client metadata document of a handshake.
pub(crate) const CLIENT_METADATA_BYTES_MAX: usize = 512;
/// The maximum length of the application name in the client metadata.
pub(crate) const APP_NAME_BYTES_MAX: usize = 128;
/// The total size of the error texts of one write batch; further texts are left empty.
pub(crate) const WRITE_ERROR_TEXT_BYTES_MAX: usize = 1024 * 1024;
/// The total size of the extra fields (`errInfo`, `keyValue`) of the errors of one write batch; further ones are
/// omitted.
pub(crate) const WRITE_ERROR_INFO_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The size up to which `currentOp` keeps the body of a running operation; a larger one is truncated.
pub(crate) const OP_COMMAND_BYTES_MAX: usize = 4096;
/// The number of stages of a pipeline that a truncated command and the shape of a slow operation name.
pub(crate) const STAGES_NAMED_MAX: usize = 12;
/// The bytes of audit messages that are not written yet; further ones wait, or are counted as lost.
pub(crate) const AUDIT_QUEUE_BYTES_MAX: usize = 16 << 20;
/// The size up to which the details of an audit message are recorded in full; larger ones are truncated.
pub(crate) const AUDIT_PARAM_BYTES_MAX: usize = 64 << 10;
/// The maximum length of the text of `logApplicationMessage` (MongoDB's own limit).
pub(crate) const APPLICATION_MESSAGE_BYTES_MAX: usize = 1024;
/// How far a client's cluster time may be ahead of the wall clock (MongoDB's default, a year).
pub(crate) const CLUSTER_TIME_DRIFT_SECONDS_MAX: i64 = 31_536_000;
/// The MongoDB release that the server reports to drivers and tools.
pub const COMPATIBLE_VERSION: &str = "8.0.4";
/// How far ahead a time may be for which a router waits, because a clock is behind that of the store.
pub(crate) const ORACLE_WAIT_SECONDS_MAX: u64 = 10;
/// The maximum number of snapshots kept for reads outside transactions; beyond it the oldest is dropped.
pub(crate) const SNAPSHOT_COUNT_MAX: usize = 100;
/// The maximum number of open cursors; a further one is refused.
pub(crate) const CURSOR_COUNT_MAX: usize = 100_000;

/// The minimum charge of a cursor between two requests: its entry, its command, its plan.
pub(crate) const CURSOR_BYTES_MIN: u64 = 4 << 10;

/// When there is no memory for a new cursor, cursors idle for longer than this are closed, except those without a
/// timeout.
pub(crate) const CURSOR_IDLE_MIN_MS: i64 = 60_000;
/// The maximum number of concurrent reads (`storageEngineConcurrentReadTransactions`, MongoDB's default).
pub(crate) const READ_TICKETS: i64 = 128;
/// The maximum number of concurrent writes (`storageEngineConcurrentWriteTransactions`).
pub(crate) const WRITE_TICKETS: i64 = 128;
/// The maximum of each of these parameters.
pub(crate) const TICKETS_MAX: i64 = 100_000;
/// The interval at which a running read checks if its client is still connected.
pub(crate) const PEER_LOOK: std::time::Duration = std::time::Duration::from_millis(10);
/// The same while a request waits for data.
pub(crate) const IDLE_PEER_LOOK: std::time::Duration = std::time::Duration::from_secs(1);
/// How long a getMore waits at the end of a capped collection if the client does not specify it.
pub(crate) const AWAIT_DATA: std::time::Duration = std::time::Duration::from_secs(1);

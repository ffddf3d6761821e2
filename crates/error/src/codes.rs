//! The table of error codes: number and name, as drivers know them.
//!
//! Numbers below 1,000 are MongoDB's registered codes. Numbers of five and more digits originally identified a location
//! in MongoDB's source code, and clients came to depend on some of them. A code without a registered name is called
//! `Location<code>`.

/// An error code. [`Code::name`] looks up its name in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(pub i32);

impl Code {
    /// A code that has no registered name.
    #[expect(non_snake_case, reason = "spelled as in MongoDB: Location40415")]
    pub const fn Location(code: i32) -> Code {
        Code(code)
    }

    /// The `codeName` in replies.
    pub fn name(self) -> std::borrow::Cow<'static, str> {
        match TABLE.binary_search_by_key(&self.0, |row| row.0) {
            Ok(at) => TABLE[at].1.into(),
            Err(_) => format!("Location{}", self.0).into(),
        }
    }

    /// The code with this registered name.
    pub fn by_name(name: &str) -> Option<Code> {
        TABLE.iter().find(|row| row.1 == name).map(|row| Code(row.0))
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $constant:ident = $code:literal, $name:literal;)*) => {
        impl Code {
            $($(#[$doc])* pub const $constant: Code = Code($code);)*
        }
        /// Every registered code, sorted by number.
        pub static TABLE: &[(i32, &str)] = &[$(($code, $name)),*];
    };
}

codes! {
    OK = 0, "OK";
    INTERNAL_ERROR = 1, "InternalError";
    BAD_VALUE = 2, "BadValue";
    NO_SUCH_KEY = 4, "NoSuchKey";
    GRAPH_CONTAINS_CYCLE = 5, "GraphContainsCycle";
    HOST_UNREACHABLE = 6, "HostUnreachable";
    HOST_NOT_FOUND = 7, "HostNotFound";
    UNKNOWN_ERROR = 8, "UnknownError";
    FAILED_TO_PARSE = 9, "FailedToParse";
    CANNOT_MUTATE_OBJECT = 10, "CannotMutateObject";
    USER_NOT_FOUND = 11, "UserNotFound";
    UNSUPPORTED_FORMAT = 12, "UnsupportedFormat";
    UNAUTHORIZED = 13, "Unauthorized";
    TYPE_MISMATCH = 14, "TypeMismatch";
    OVERFLOW = 15, "Overflow";
    INVALID_LENGTH = 16, "InvalidLength";
    PROTOCOL_ERROR = 17, "ProtocolError";
    AUTHENTICATION_FAILED = 18, "AuthenticationFailed";
    ILLEGAL_OPERATION = 20, "IllegalOperation";
    EMPTY_ARRAY_OPERATION = 21, "EmptyArrayOperation";
    INVALID_BSON = 22, "InvalidBSON";
    ALREADY_INITIALIZED = 23, "AlreadyInitialized";
    LOCK_TIMEOUT = 24, "LockTimeout";
    NAMESPACE_NOT_FOUND = 26, "NamespaceNotFound";
    INDEX_NOT_FOUND = 27, "IndexNotFound";
    PATH_NOT_VIABLE = 28, "PathNotViable";
    NON_EXISTENT_PATH = 29, "NonExistentPath";
    ROLE_NOT_FOUND = 31, "RoleNotFound";
    PRIVILEGE_NOT_FOUND = 33, "PrivilegeNotFound";
    CANNOT_BACKFILL_ARRAY = 34, "CannotBackfillArray";
    CONFLICTING_UPDATE_OPERATORS = 40, "ConflictingUpdateOperators";
    CURSOR_NOT_FOUND = 43, "CursorNotFound";
    REMOTE_RESULTS_UNAVAILABLE = 45, "RemoteResultsUnavailable";
    LOCK_BUSY = 46, "LockBusy";
    NO_MATCHING_DOCUMENT = 47, "NoMatchingDocument";
    NAMESPACE_EXISTS = 48, "NamespaceExists";
    INVALID_ROLE_MODIFICATION = 49, "InvalidRoleModification";
    MAX_TIME_MS_EXPIRED = 50, "MaxTimeMSExpired";
    MANUAL_INTERVENTION_REQUIRED = 51, "ManualInterventionRequired";
    DOLLAR_PREFIXED_FIELD_NAME = 52, "DollarPrefixedFieldName";
    INVALID_ID_FIELD = 53, "InvalidIdField";
    NOT_SINGLE_VALUE_FIELD = 54, "NotSingleValueField";
    INVALID_DB_REF = 55, "InvalidDBRef";
    EMPTY_FIELD_NAME = 56, "EmptyFieldName";
    DOTTED_FIELD_NAME = 57, "DottedFieldName";
    COMMAND_NOT_FOUND = 59, "CommandNotFound";
    SHARD_KEY_NOT_FOUND = 61, "ShardKeyNotFound";
    OPLOG_OPERATION_UNSUPPORTED = 62, "OplogOperationUnsupported";
    STALE_SHARD_VERSION = 63, "StaleShardVersion";
    WRITE_CONCERN_TIMEOUT = 64, "WriteConcernTimeout";
    MULTIPLE_ERRORS_OCCURRED = 65, "MultipleErrorsOccurred";
    IMMUTABLE_FIELD = 66, "ImmutableField";
    CANNOT_CREATE_INDEX = 67, "CannotCreateIndex";
    INDEX_ALREADY_EXISTS = 68, "IndexAlreadyExists";
    SHARD_NOT_FOUND = 70, "ShardNotFound";
    REPLICA_SET_NOT_FOUND = 71, "ReplicaSetNotFound";
    INVALID_OPTIONS = 72, "InvalidOptions";
    INVALID_NAMESPACE = 73, "InvalidNamespace";
    NODE_NOT_FOUND = 74, "NodeNotFound";
    NO_REPLICATION_ENABLED = 76, "NoReplicationEnabled";
    OPERATION_INCOMPLETE = 77, "OperationIncomplete";
    COMMAND_RESULT_SCHEMA_VIOLATION = 78, "CommandResultSchemaViolation";
    UNKNOWN_REPL_WRITE_CONCERN = 79, "UnknownReplWriteConcern";
    DUPLICATE_KEY_VALUE = 84, "DuplicateKeyValue";
    INDEX_OPTIONS_CONFLICT = 85, "IndexOptionsConflict";
    INDEX_KEY_SPECS_CONFLICT = 86, "IndexKeySpecsConflict";
    NETWORK_TIMEOUT = 89, "NetworkTimeout";
    CALLBACK_CANCELED = 90, "CallbackCanceled";
    SHUTDOWN_IN_PROGRESS = 91, "ShutdownInProgress";
    INVALID_REPLICA_SET_CONFIG = 93, "InvalidReplicaSetConfig";
    NOT_YET_INITIALIZED = 94, "NotYetInitialized";
    NOT_SECONDARY = 95, "NotSecondary";
    OPERATION_FAILED = 96, "OperationFailed";
    DB_PATH_IN_USE = 98, "DBPathInUse";
    UNSATISFIABLE_WRITE_CONCERN = 100, "UnsatisfiableWriteConcern";
    OUTDATED_CLIENT = 101, "OutdatedClient";
    NEW_REPLICA_SET_CONFIGURATION_INCOMPATIBLE = 103, "NewReplicaSetConfigurationIncompatible";
    LOCK_FAILED = 107, "LockFailed";
    NOT_EXACT_VALUE_FIELD = 111, "NotExactValueField";
    WRITE_CONFLICT = 112, "WriteConflict";
    COMMAND_NOT_SUPPORTED = 115, "CommandNotSupported";
    DOC_TOO_LARGE_FOR_CAPPED = 116, "DocTooLargeForCapped";
    CONFLICTING_OPERATION_IN_PROGRESS = 117, "ConflictingOperationInProgress";
    NAMESPACE_NOT_SHARDED = 118, "NamespaceNotSharded";
    DOCUMENT_VALIDATION_FAILURE = 121, "DocumentValidationFailure";
    NOT_A_REPLICA_SET = 123, "NotAReplicaSet";
    COMMAND_FAILED = 125, "CommandFailed";
    FAILED_TO_SATISFY_READ_PREFERENCE = 133, "FailedToSatisfyReadPreference";
    READ_CONCERN_MAJORITY_NOT_AVAILABLE_YET = 134, "ReadConcernMajorityNotAvailableYet";
    CAPPED_POSITION_LOST = 136, "CappedPositionLost";
    JS_INTERPRETER_FAILURE = 139, "JSInterpreterFailure";
    INVALID_SSL_CONFIGURATION = 140, "InvalidSSLConfiguration";
    SSL_HANDSHAKE_FAILED = 141, "SSLHandshakeFailed";
    CURSOR_IN_USE = 143, "CursorInUse";
    UNSUPPORTED_DISTINCT = 144, "UnsupportedDistinct";
    FAIL_POINT_SET_FAILED = 145, "FailPointSetFailed";
    EXCEEDED_MEMORY_LIMIT = 146, "ExceededMemoryLimit";
    READ_CONCERN_MAJORITY_NOT_ENABLED = 148, "ReadConcernMajorityNotEnabled";
    STALE_EPOCH = 150, "StaleEpoch";
    DURATION_OVERFLOW = 159, "DurationOverflow";
    MAX_STALENESS_OUT_OF_RANGE = 160, "MaxStalenessOutOfRange";
    INCOMPATIBLE_COLLATION_VERSION = 161, "IncompatibleCollationVersion";
    VIEW_DEPTH_LIMIT_EXCEEDED = 165, "ViewDepthLimitExceeded";
    COMMAND_NOT_SUPPORTED_ON_VIEW = 166, "CommandNotSupportedOnView";
    OPTION_NOT_SUPPORTED_ON_VIEW = 167, "OptionNotSupportedOnView";
    INVALID_PIPELINE_OPERATOR = 168, "InvalidPipelineOperator";
    COMMAND_ON_SHARDED_VIEW_NOT_SUPPORTED_ON_MONGOD = 169, "CommandOnShardedViewNotSupportedOnMongod";
    CANNOT_INDEX_PARALLEL_ARRAYS = 171, "CannotIndexParallelArrays";
    QUERY_PLAN_KILLED = 175, "QueryPlanKilled";
    AMBIGUOUS_INDEX_KEY_PATTERN = 181, "AmbiguousIndexKeyPattern";
    INVALID_VIEW_DEFINITION = 182, "InvalidViewDefinition";
    CLIENT_METADATA_MISSING_FIELD = 183, "ClientMetadataMissingField";
    CLIENT_METADATA_APP_NAME_TOO_LARGE = 184, "ClientMetadataAppNameTooLarge";
    CLIENT_METADATA_DOCUMENT_TOO_LARGE = 185, "ClientMetadataDocumentTooLarge";
    CLIENT_METADATA_CANNOT_BE_MUTATED = 186, "ClientMetadataCannotBeMutated";
    LINEARIZABLE_READ_CONCERN_ERROR = 187, "LinearizableReadConcernError";
    PRIMARY_STEPPED_DOWN = 189, "PrimarySteppedDown";
    FAIL_POINT_ENABLED = 192, "FailPointEnabled";
    INVALID_INDEX_SPECIFICATION_OPTION = 197, "InvalidIndexSpecificationOption";
    CANNOT_BUILD_INDEX_KEYS = 201, "CannotBuildIndexKeys";
    NETWORK_INTERFACE_EXCEEDED_TIME_LIMIT = 202, "NetworkInterfaceExceededTimeLimit";
    TIME_PROOF_MISMATCH = 204, "TimeProofMismatch";
    CLUSTER_TIME_FAILS_RATE_LIMITER = 205, "ClusterTimeFailsRateLimiter";
    NO_SUCH_SESSION = 206, "NoSuchSession";
    INVALID_UUID = 207, "InvalidUUID";
    STALE_CLUSTER_TIME = 209, "StaleClusterTime";
    CANNOT_VERIFY_AND_SIGN_LOGICAL_TIME = 210, "CannotVerifyAndSignLogicalTime";
    KEY_NOT_FOUND = 211, "KeyNotFound";
    DUPLICATE_SESSION = 213, "DuplicateSession";
    AUTHENTICATION_RESTRICTION_UNMET = 214, "AuthenticationRestrictionUnmet";
    DATABASE_DROP_PENDING = 215, "DatabaseDropPending";
    INCOMPLETE_TRANSACTION_HISTORY = 217, "IncompleteTransactionHistory";
    UPDATE_OPERATION_FAILED = 218, "UpdateOperationFailed";
    FTDC_PATH_ALREADY_SET = 220, "FTDCPathAlreadySet";
    CLOSE_CHANGE_STREAM = 222, "CloseChangeStream";
    ILLEGAL_OP_MSG_FLAG = 223, "IllegalOpMsgFlag";
    QUERY_FEATURE_NOT_ALLOWED = 224, "QueryFeatureNotAllowed";
    TRANSACTION_TOO_OLD = 225, "TransactionTooOld";
    ATOMICITY_FAILURE = 226, "AtomicityFailure";
    MAX_SUB_PIPELINE_DEPTH_EXCEEDED = 232, "MaxSubPipelineDepthExceeded";
    TOO_MANY_DOCUMENT_SEQUENCES = 233, "TooManyDocumentSequences";
    RETRY_CHANGE_STREAM = 234, "RetryChangeStream";
    INTERNAL_ERROR_NOT_SUPPORTED = 235, "InternalErrorNotSupported";
    CURSOR_KILLED = 237, "CursorKilled";
    NOT_IMPLEMENTED = 238, "NotImplemented";
    SNAPSHOT_TOO_OLD = 239, "SnapshotTooOld";
    CONVERSION_FAILURE = 241, "ConversionFailure";
    CANNOT_CREATE_COLLECTION = 242, "CannotCreateCollection";
    SNAPSHOT_UNAVAILABLE = 246, "SnapshotUnavailable";
    STALE_DB_VERSION = 249, "StaleDbVersion";
    STALE_CHUNK_HISTORY = 250, "StaleChunkHistory";
    NO_SUCH_TRANSACTION = 251, "NoSuchTransaction";
    TRANSACTION_COMMITTED = 256, "TransactionCommitted";
    TRANSACTION_TOO_LARGE = 257, "TransactionTooLarge";
    INVALID_RESUME_TOKEN = 260, "InvalidResumeToken";
    TOO_MANY_LOGICAL_SESSIONS = 261, "TooManyLogicalSessions";
    EXCEEDED_TIME_LIMIT = 262, "ExceededTimeLimit";
    OPERATION_NOT_SUPPORTED_IN_TRANSACTION = 263, "OperationNotSupportedInTransaction";
    TOO_MANY_FILES_OPEN = 264, "TooManyFilesOpen";
    PREPARED_TRANSACTION_IN_PROGRESS = 267, "PreparedTransactionInProgress";
    JS_INTERPRETER_FAILURE_WITH_STACK = 271, "JSInterpreterFailureWithStack";
    MIGRATION_CONFLICT = 272, "MigrationConflict";
    INDEX_BUILD_ABORTED = 276, "IndexBuildAborted";
    UNSATISFIABLE_COMMIT_QUORUM = 278, "UnsatisfiableCommitQuorum";
    CLIENT_DISCONNECT = 279, "ClientDisconnect";
    CHANGE_STREAM_FATAL_ERROR = 280, "ChangeStreamFatalError";
    WOULD_CHANGE_OWNING_SHARD = 283, "WouldChangeOwningShard";
    INDEX_BUILD_ALREADY_IN_PROGRESS = 285, "IndexBuildAlreadyInProgress";
    CHANGE_STREAM_HISTORY_LOST = 286, "ChangeStreamHistoryLost";
    CHECKSUM_MISMATCH = 288, "ChecksumMismatch";
    TRANSACTION_EXCEEDED_LIFETIME_LIMIT_SECONDS = 290, "TransactionExceededLifetimeLimitSeconds";
    NO_QUERY_EXECUTION_PLANS = 291, "NoQueryExecutionPlans";
    QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED = 292, "QueryExceededMemoryLimitNoDiskUseAllowed";
    DATA_CORRUPTION_DETECTED = 301, "DataCorruptionDetected";
    SPLIT_HORIZON_CHANGE = 303, "SplitHorizonChange";
    OBJECT_IS_BUSY = 314, "ObjectIsBusy";
    API_VERSION_ERROR = 322, "APIVersionError";
    API_STRICT_ERROR = 323, "APIStrictError";
    API_DEPRECATION_ERROR = 324, "APIDeprecationError";
    MECHANISM_UNAVAILABLE = 334, "MechanismUnavailable";
    AUTHENTICATION_ABANDONED = 337, "AuthenticationAbandoned";
    RESHARD_COLLECTION_IN_PROGRESS = 338, "ReshardCollectionInProgress";
    NO_SUCH_RESHARD_COLLECTION = 339, "NoSuchReshardCollection";
    RESHARD_COLLECTION_COMMITTED = 340, "ReshardCollectionCommitted";
    RESHARD_COLLECTION_ABORTED = 341, "ReshardCollectionAborted";
    RESHARDING_CRITICAL_SECTION_TIMEOUT = 342, "ReshardingCriticalSectionTimeout";
    SHARD_CANNOT_REFRESH_DUE_TO_LOCKS_HELD = 343, "ShardCannotRefreshDueToLocksHeld";
    AUDITING_NOT_ENABLED = 344, "AuditingNotEnabled";
    RUNTIME_AUDIT_CONFIGURATION_NOT_ENABLED = 345, "RuntimeAuditConfigurationNotEnabled";
    API_MISMATCH_ERROR = 347, "APIMismatchError";
    UNSUPPORTED_OP_QUERY_COMMAND = 352, "UnsupportedOpQueryCommand";
    LOAD_BALANCER_SUPPORT_MISMATCH = 354, "LoadBalancerSupportMismatch";
    INVALID_BSON_TYPE = 357, "InvalidBSONType";
    INTERNAL_TRANSACTION_NOT_SUPPORTED = 358, "InternalTransactionNotSupported";
    CANNOT_CONVERT_INDEX_TO_UNIQUE = 359, "CannotConvertIndexToUnique";
    COLLECTION_UUID_MISMATCH = 361, "CollectionUUIDMismatch";
    RETRYABLE_TRANSACTION_IN_PROGRESS = 363, "RetryableTransactionInProgress";
    TEMPORARILY_UNAVAILABLE = 365, "TemporarilyUnavailable";
    USER_WRITES_BLOCKED = 371, "UserWritesBlocked";
    CHANGE_STREAM_NOT_ENABLED = 376, "ChangeStreamNotEnabled";
    NON_CONFORMANT_BSON = 378, "NonConformantBSON";
    DUPLICATE_KEY_ID = 386, "DuplicateKeyId";
    TRANSACTION_TOO_LARGE_FOR_CACHE = 388, "TransactionTooLargeForCache";
    REAUTHENTICATION_REQUIRED = 391, "ReauthenticationRequired";
    STREAM_TERMINATED = 398, "StreamTerminated";
    RESOURCE_EXHAUSTED = 402, "ResourceExhausted";
    MIGRATION_BLOCKING_OPERATION_COORDINATOR_CLEANING_UP = 406, "MigrationBlockingOperationCoordinatorCleaningUp";
    POOLED_CONNECTION_ACQUISITION_EXCEEDED_TIME_LIMIT = 407, "PooledConnectionAcquisitionExceededTimeLimit";
    QUERY_REJECTED_BY_SETTINGS = 411, "QueryRejectedBySettings";
    UPDATES_STILL_PENDING = 412, "UpdatesStillPending";
    ADMISSION_QUEUE_OVERFLOW = 433, "AdmissionQueueOverflow";
    RATE_LIMIT_EXCEEDED = 449, "RateLimitExceeded";
    POOLED_CONNECTION_ACQUISITION_REJECTED = 450, "PooledConnectionAcquisitionRejected";
    INTERRUPTED_DUE_TO_RESHARDING_CRITICAL_SECTION = 453, "InterruptedDueToReshardingCriticalSection";
    INGRESS_REQUEST_RATE_LIMIT_EXCEEDED = 462, "IngressRequestRateLimitExceeded";
    ATLAS_ERROR = 8000, "AtlasError";
    SOCKET_EXCEPTION = 9001, "SocketException";
    CANNOT_GROW_DOCUMENT_IN_CAPPED_NAMESPACE = 10003, "CannotGrowDocumentInCappedNamespace";
    LEGACY_NOT_PRIMARY = 10058, "LegacyNotPrimary";
    NOT_WRITABLE_PRIMARY = 10107, "NotWritablePrimary";
    BSON_OBJECT_TOO_LARGE = 10334, "BSONObjectTooLarge";
    DUPLICATE_KEY = 11000, "DuplicateKey";
    /// Old drivers recognize a duplicate key by three codes: this one, 11000 and 12582.
    DUPLICATE_KEY_ON_UPDATE = 11001, "DuplicateKey";
    INTERRUPTED_AT_SHUTDOWN = 11600, "InterruptedAtShutdown";
    INTERRUPTED = 11601, "Interrupted";
    INTERRUPTED_DUE_TO_REPL_STATE_CHANGE = 11602, "InterruptedDueToReplStateChange";
    DUPLICATE_KEY_CAPPED = 12582, "DuplicateKey";
    BACKGROUND_OPERATION_IN_PROGRESS_FOR_DATABASE = 12586, "BackgroundOperationInProgressForDatabase";
    BACKGROUND_OPERATION_IN_PROGRESS_FOR_NAMESPACE = 12587, "BackgroundOperationInProgressForNamespace";
    MERGE_STAGE_NO_MATCHING_DOCUMENT = 13113, "MergeStageNoMatchingDocument";
    DATABASE_DIFFER_CASE = 13297, "DatabaseDifferCase";
    STALE_CONFIG = 13388, "StaleConfig";
    NOT_PRIMARY_NO_SECONDARY_OK = 13435, "NotPrimaryNoSecondaryOk";
    NOT_PRIMARY_OR_SECONDARY = 13436, "NotPrimaryOrSecondary";
    OUT_OF_DISK_SPACE = 14031, "OutOfDiskSpace";
    KEY_TOO_LONG = 17280, "KeyTooLong";
    NAMESPACE_CANNOT_BE_SHARDED = 28769, "NamespaceCannotBeSharded";
    SEARCH_NOT_ENABLED = 31082, "SearchNotEnabled";
    IDL_DUPLICATE_FIELD = 40413, "IDLDuplicateField";
    IDL_FAILED_TO_PARSE = 40414, "IDLFailedToParse";
    IDL_UNKNOWN_FIELD = 40415, "IDLUnknownField";
    CLIENT_MARKED_KILLED = 46841, "ClientMarkedKilled";
    NOT_A_RETRYABLE_WRITE_COMMAND = 50768, "NotARetryableWriteCommand";
    BACKUP_CURSOR_OPEN_CONFLICT_WITH_CHECKPOINT = 50915, "BackupCursorOpenConflictWithCheckpoint";
    CONFIG_SERVER_UNREACHABLE = 56846, "ConfigServerUnreachable";
    RETRIABLE_REMOTE_COMMAND_FAILURE = 91331, "RetriableRemoteCommandFailure";
    INTERRUPTED_DUE_TO_FCV_CHANGE = 10045600, "InterruptedDueToFCVChange";
}

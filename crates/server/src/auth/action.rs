//! Actions: the operations that a privilege allows on its resource.
//!
//! There is one row per action. Roles and privileges hold a set of actions as bits, so a check is a load and a
//! mask. Actions of features that this server does not have are known as well, because role documents may name
//! them.

use nagi_error::{Code, Result, bail};

/// Declares the enum and the table of names. The rows are sorted by name.
macro_rules! actions {
    ($($variant:ident = $name:literal,)*) => {
        /// An operation that a privilege can allow.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(dead_code, reason = "some actions belong to features that this server does not have")]
        #[allow(clippy::enum_variant_names, reason = "the names are the protocol's")]
        pub(crate) enum Action {
            $($variant,)*
        }

        static ACTIONS: &[(&str, Action)] = &[$(($name, Action::$variant),)*];
    };
}

actions! {
    AddShard = "addShard",
    AdvanceClusterTime = "advanceClusterTime",
    AllCollectionStats = "allCollectionStats",
    Analyze = "analyze",
    AnalyzeShardKey = "analyzeShardKey",
    AnyAction = "anyAction",
    AppendOplogNote = "appendOplogNote",
    ApplicationMessage = "applicationMessage",
    ApplyOps = "applyOps",
    AuditConfigure = "auditConfigure",
    AuthSchemaUpgrade = "authSchemaUpgrade",
    BypassDefaultMaxTimeMS = "bypassDefaultMaxTimeMS",
    BypassDocumentValidation = "bypassDocumentValidation",
    BypassWriteBlockingMode = "bypassWriteBlockingMode",
    ChangeCustomData = "changeCustomData",
    ChangeOwnCustomData = "changeOwnCustomData",
    ChangeOwnPassword = "changeOwnPassword",
    ChangePassword = "changePassword",
    ChangeStream = "changeStream",
    CheckFreeMonitoringStatus = "checkFreeMonitoringStatus",
    CheckMetadataConsistency = "checkMetadataConsistency",
    CleanupOrphaned = "cleanupOrphaned",
    CleanupStructuredEncryptionData = "cleanupStructuredEncryptionData",
    ClearJumboFlag = "clearJumboFlag",
    CloseAllDatabases = "closeAllDatabases",
    CollMod = "collMod",
    CollStats = "collStats",
    Compact = "compact",
    CompactStructuredEncryptionData = "compactStructuredEncryptionData",
    ConfigureQueryAnalyzer = "configureQueryAnalyzer",
    ConnPoolStats = "connPoolStats",
    ConnPoolSync = "connPoolSync",
    ConvertToCapped = "convertToCapped",
    CpuProfiler = "cpuProfiler",
    CreateCollection = "createCollection",
    CreateIndex = "createIndex",
    CreateRole = "createRole",
    CreateSearchIndexes = "createSearchIndexes",
    CreateUser = "createUser",
    DbCheck = "dbCheck",
    DbHash = "dbHash",
    DbStats = "dbStats",
    DropCollection = "dropCollection",
    DropConnections = "dropConnections",
    DropDatabase = "dropDatabase",
    DropIndex = "dropIndex",
    DropRole = "dropRole",
    DropSearchIndex = "dropSearchIndex",
    DropUser = "dropUser",
    Emptycapped = "emptycapped",
    EnableProfiler = "enableProfiler",
    EnableSharding = "enableSharding",
    ExportCollection = "exportCollection",
    Find = "find",
    FlushRouterConfig = "flushRouterConfig",
    ForceUUID = "forceUUID",
    Fsync = "fsync",
    FsyncUnlock = "fsyncUnlock",
    GetChangeStreamState = "getChangeStreamState",
    GetClusterParameter = "getClusterParameter",
    GetCmdLineOpts = "getCmdLineOpts",
    GetDatabaseVersion = "getDatabaseVersion",
    GetDefaultRWConcern = "getDefaultRWConcern",
    GetLog = "getLog",
    GetParameter = "getParameter",
    GetShardMap = "getShardMap",
    GetShardVersion = "getShardVersion",
    GrantRole = "grantRole",
    HostInfo = "hostInfo",
    Impersonate = "impersonate",
    ImportCollection = "importCollection",
    IndexStats = "indexStats",
    Inprog = "inprog",
    Insert = "insert",
    Internal = "internal",
    InvalidateUserCache = "invalidateUserCache",
    IssueDirectShardOperations = "issueDirectShardOperations",
    KillAnyCursor = "killAnyCursor",
    KillAnySession = "killAnySession",
    KillCursors = "killCursors",
    Killop = "killop",
    ListCachedAndActiveUsers = "listCachedAndActiveUsers",
    ListCollections = "listCollections",
    ListCursors = "listCursors",
    ListDatabases = "listDatabases",
    ListIndexes = "listIndexes",
    ListSampledQueries = "listSampledQueries",
    ListSearchIndexes = "listSearchIndexes",
    ListSessions = "listSessions",
    ListShards = "listShards",
    LogRotate = "logRotate",
    MoveChunk = "moveChunk",
    MoveCollection = "moveCollection",
    Netstat = "netstat",
    OidReset = "oidReset",
    OidcListKeys = "oidcListKeys",
    OidcRefreshKeys = "oidcRefreshKeys",
    OperationMetrics = "operationMetrics",
    PlanCacheIndexFilter = "planCacheIndexFilter",
    PlanCacheRead = "planCacheRead",
    PlanCacheWrite = "planCacheWrite",
    QuerySettings = "querySettings",
    QueryStatsRead = "queryStatsRead",
    QueryStatsReadTransformed = "queryStatsReadTransformed",
    ReIndex = "reIndex",
    RefineCollectionShardKey = "refineCollectionShardKey",
    Remove = "remove",
    RemoveShard = "removeShard",
    RenameCollectionSameDB = "renameCollectionSameDB",
    ReplSetConfigure = "replSetConfigure",
    ReplSetGetConfig = "replSetGetConfig",
    ReplSetGetStatus = "replSetGetStatus",
    ReplSetHeartbeat = "replSetHeartbeat",
    ReplSetResizeOplog = "replSetResizeOplog",
    ReplSetStateChange = "replSetStateChange",
    ReshardCollection = "reshardCollection",
    Resync = "resync",
    RevokeRole = "revokeRole",
    RotateCertificates = "rotateCertificates",
    RunAsLessPrivilegedUser = "runAsLessPrivilegedUser",
    RunTenantMigration = "runTenantMigration",
    ServerStatus = "serverStatus",
    SetAuthenticationRestriction = "setAuthenticationRestriction",
    SetChangeStreamState = "setChangeStreamState",
    SetClusterParameter = "setClusterParameter",
    SetDefaultRWConcern = "setDefaultRWConcern",
    SetFeatureCompatibilityVersion = "setFeatureCompatibilityVersion",
    SetFreeMonitoring = "setFreeMonitoring",
    SetParameter = "setParameter",
    SetUserWriteBlockMode = "setUserWriteBlockMode",
    ShardedDataDistribution = "shardedDataDistribution",
    ShardingState = "shardingState",
    Shutdown = "shutdown",
    SplitChunk = "splitChunk",
    SplitVector = "splitVector",
    StorageDetails = "storageDetails",
    Top = "top",
    Touch = "touch",
    TrafficRecord = "trafficRecord",
    TransitionFromDedicatedConfigServer = "transitionFromDedicatedConfigServer",
    TransitionToDedicatedConfigServer = "transitionToDedicatedConfigServer",
    Unlock = "unlock",
    UnshardCollection = "unshardCollection",
    Update = "update",
    UpdateSearchIndex = "updateSearchIndex",
    UseTenant = "useTenant",
    UseUUID = "useUUID",
    Validate = "validate",
    ViewRole = "viewRole",
    ViewUser = "viewUser",
}

impl Action {
    #[cfg(test)]
    pub(crate) fn name(self) -> &'static str {
        ACTIONS[self as usize].0
    }

    fn parse(name: &str) -> Option<Action> {
        let at = ACTIONS.binary_search_by(|row| row.0.cmp(name)).ok()?;
        Some(ACTIONS[at].1)
    }
}

const WORDS: usize = ACTIONS.len().div_ceil(64);

/// A set of actions, one bit per action.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ActionSet([u64; WORDS]);

impl ActionSet {
    /// The set of these actions. The function is `const`, so tables are computed at compile time.
    pub(crate) const fn of(actions: &[Action]) -> ActionSet {
        let mut bits = [0; WORDS];
        let mut at = 0;
        while at < actions.len() {
            let index = actions[at] as usize;
            bits[index / 64] |= 1 << (index % 64);
            at += 1;
        }
        ActionSet(bits)
    }

    /// Parses the actions of a privilege document (9 if one is unknown). `anyAction` stands for all actions.
    pub(crate) fn parse<'n>(names: impl Iterator<Item = &'n str>) -> Result<ActionSet> {
        let mut set = ActionSet::default();
        let mut unknown = Vec::new();
        for name in names {
            match Action::parse(name) {
                Some(action) => set.add(ActionSet::of(&[action])),
                None => unknown.push(name),
            }
        }
        if !unknown.is_empty() {
            unknown.sort_unstable();
            bail!(
                Code::FAILED_TO_PARSE,
                "Unrecognized action privilege strings: {}",
                unknown.join(",")
            );
        }
        Ok(set)
    }

    pub(crate) fn has(&self, action: Action) -> bool {
        let bit = |action: usize| self.0[action / 64] >> (action % 64) & 1 == 1;
        bit(action as usize) || bit(Action::AnyAction as usize)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    pub(crate) fn add(&mut self, other: ActionSet) {
        self.0.iter_mut().zip(other.0).for_each(|(own, more)| *own |= more);
    }

    pub(crate) fn remove(&mut self, other: ActionSet) {
        self.0.iter_mut().zip(other.0).for_each(|(own, less)| *own &= !less);
    }

    /// The names of the actions, sorted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        let set = *self;
        let is_in =
            move |action: Action| set.0[action as usize / 64] >> (action as usize % 64) & 1 == 1;
        ACTIONS.iter().filter(move |row| is_in(row.1)).map(|row| row.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted() {
        assert!(ACTIONS.is_sorted_by(|a, b| a.0 < b.0));
        assert!(ACTIONS.iter().all(|row| row.1.name() == row.0));
    }

    #[test]
    fn sets_hold_what_was_put_in() {
        let mut set = ActionSet::of(&[Action::Find, Action::ViewUser]);
        assert!(set.has(Action::Find) && !set.has(Action::Insert));
        set.remove(ActionSet::of(&[Action::Find]));
        assert_eq!(set.names().collect::<Vec<_>>(), ["viewUser"]);
        let any = ActionSet::parse(["anyAction"].into_iter()).unwrap();
        assert!(any.has(Action::Shutdown));
        let error = ActionSet::parse(["x", "find", "b"].into_iter()).unwrap_err();
        assert_eq!(error.message(), "Unrecognized action privilege strings: b,x");
    }
}

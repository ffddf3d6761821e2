//! The built-in roles, one row per role: their privileges and the roles that they contain.
//!
//! `read`, `readWrite`, `dbAdmin`, `userAdmin` and `dbOwner` exist in every database and apply to that
//! database. `enableSharding` exists in every database and applies to all. The other roles exist in `admin` only.
//!
//! The rows are those of MongoDB 8.0. `tests/drivers/matrix/roles.py` has them a second time, written from MongoDB's
//! documentation; a change here is a change there.

use super::action::Action::{self, *};
use super::action::ActionSet;
use super::privilege::{Privileges, Resource};

/// The resources of a grant.
enum On {
    /// The normal collections of the role's database.
    Database,
    /// One collection of the role's database.
    Collection(&'static str),
    /// The collections of this name in all databases.
    EveryCollection(&'static str),
    /// The normal collections of all databases.
    Everywhere,
    /// The buckets of all time series.
    EveryBuckets,
    /// One collection of a database; with an empty name, its normal collections.
    Exactly(&'static str, &'static str),
    Cluster,
    Anything,
}

type Grant = (On, &'static [Action]);

/// A built-in role.
pub(crate) struct BuiltinRole {
    pub(crate) name: &'static str,
    admin_only: bool,
    grants: &'static [Grant],
    /// Roles whose grants the role has as well.
    contains: &'static [&'static BuiltinRole],
    /// Roles of another database whose grants the role has as well.
    contains_elsewhere: &'static [(&'static str, &'static BuiltinRole)],
}

const ADMIN: BuiltinRole =
    BuiltinRole { name: "", admin_only: true, grants: &[], contains: &[], contains_elsewhere: &[] };
const ANY: BuiltinRole = BuiltinRole { admin_only: false, ..ADMIN };

const READ_ACTIONS: &[Action] = &[
    ChangeStream,
    CollStats,
    DbHash,
    DbStats,
    Find,
    KillCursors,
    ListCollections,
    ListIndexes,
    ListSearchIndexes,
    PlanCacheRead,
];
const READ_WRITE_ACTIONS: &[Action] = &[
    CleanupStructuredEncryptionData,
    CompactStructuredEncryptionData,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    CreateSearchIndexes,
    DropCollection,
    DropIndex,
    DropSearchIndex,
    Insert,
    Remove,
    RenameCollectionSameDB,
    Update,
    UpdateSearchIndex,
];
const DB_ADMIN_ACTIONS: &[Action] = &[
    Analyze,
    BypassDocumentValidation,
    CollMod,
    CollStats,
    Compact,
    ConfigureQueryAnalyzer,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    CreateSearchIndexes,
    DbStats,
    DropCollection,
    DropDatabase,
    DropIndex,
    DropSearchIndex,
    EnableProfiler,
    ListCollections,
    ListIndexes,
    ListSearchIndexes,
    PlanCacheIndexFilter,
    PlanCacheRead,
    PlanCacheWrite,
    ReIndex,
    RenameCollectionSameDB,
    StorageDetails,
    UpdateSearchIndex,
    Validate,
];
const PROFILE_ACTIONS: &[Action] = &[
    ChangeStream,
    CollStats,
    ConvertToCapped,
    CreateCollection,
    DbHash,
    DbStats,
    DropCollection,
    Find,
    KillCursors,
    ListCollections,
    ListIndexes,
    ListSearchIndexes,
    PlanCacheRead,
];
const USER_ADMIN_ACTIONS: &[Action] = &[
    ChangeCustomData,
    ChangePassword,
    CreateRole,
    CreateUser,
    DropRole,
    DropUser,
    GrantRole,
    RevokeRole,
    SetAuthenticationRestriction,
    ViewRole,
    ViewUser,
];
const MONITOR_ACTIONS: &[Action] =
    &[CollStats, DbStats, GetDatabaseVersion, GetShardVersion, IndexStats];
const RESTORE_ACTIONS: &[Action] = &[
    BypassDocumentValidation,
    CollMod,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    CreateSearchIndexes,
    DropCollection,
    Insert,
    UpdateSearchIndex,
];
const READ_AND_INDEX_ACTIONS: &[Action] = &[
    ChangeStream,
    CollStats,
    CreateIndex,
    CreateSearchIndexes,
    DbHash,
    DbStats,
    DropIndex,
    DropSearchIndex,
    Find,
    KillCursors,
    ListCollections,
    ListIndexes,
    ListSearchIndexes,
    PlanCacheRead,
];
const SHARD_ACTIONS: &[Action] = &[
    AnalyzeShardKey,
    ClearJumboFlag,
    ConfigureQueryAnalyzer,
    EnableSharding,
    MoveChunk,
    MoveCollection,
    RefineCollectionShardKey,
    ReshardCollection,
    SplitChunk,
    SplitVector,
    UnshardCollection,
];
const WRITE_ACTIONS: &[Action] = &[Insert, Remove, Update];

static BACKUP: BuiltinRole = BuiltinRole {
    name: "backup",
    grants: &[
        (On::Cluster, &[AppendOplogNote, ServerStatus, SetUserWriteBlockMode]),
        (On::Exactly("admin", "mms.backup"), &[Insert, Update]),
        (On::Exactly("config", "settings"), &[Insert, Update]),
    ],
    contains: &[&QUERYABLE_BACKUP],
    ..ADMIN
};

static CLUSTER_ADMIN: BuiltinRole = BuiltinRole {
    name: "clusterAdmin",
    grants: &[
        (On::Everywhere, &[DropDatabase]),
        (On::Anything, &[ExportCollection, ImportCollection]),
    ],
    contains: &[&CLUSTER_MANAGER, &CLUSTER_MONITOR, &HOST_MANAGER],
    ..ADMIN
};

static CLUSTER_MANAGER: BuiltinRole = BuiltinRole {
    name: "clusterManager",
    grants: &[
        (
            On::Cluster,
            &[
                AddShard,
                AppendOplogNote,
                ApplicationMessage,
                CheckMetadataConsistency,
                CleanupOrphaned,
                FlushRouterConfig,
                GetChangeStreamState,
                GetClusterParameter,
                GetDefaultRWConcern,
                ListSessions,
                ListShards,
                QuerySettings,
                RemoveShard,
                ReplSetConfigure,
                ReplSetGetConfig,
                ReplSetGetStatus,
                ReplSetStateChange,
                Resync,
                SetChangeStreamState,
                SetClusterParameter,
                SetDefaultRWConcern,
                SetFeatureCompatibilityVersion,
                TransitionFromDedicatedConfigServer,
                TransitionToDedicatedConfigServer,
            ],
        ),
        (On::Anything, &[DbCheck]),
        (On::Everywhere, SHARD_ACTIONS),
        (On::EveryBuckets, SHARD_ACTIONS),
        (On::Exactly("config", ""), SHARD_ACTIONS),
        (On::Exactly("config", ""), WRITE_ACTIONS),
        (On::Exactly("local", ""), SHARD_ACTIONS),
        (On::Exactly("local", ""), WRITE_ACTIONS),
        (On::Exactly("local", "replset.election"), WRITE_ACTIONS),
        (On::Exactly("local", "replset.minvalid"), WRITE_ACTIONS),
        (On::Exactly("local", "system.healthlog"), READ_ACTIONS),
        (On::Exactly("local", "system.replset"), READ_ACTIONS),
    ],
    contains_elsewhere: &[("config", &READ)],
    ..ADMIN
};

static CLUSTER_MONITOR: BuiltinRole = BuiltinRole {
    name: "clusterMonitor",
    grants: &[
        (
            On::Cluster,
            &[
                AllCollectionStats,
                // MongoDB has no command that needs it since 7.0; here it shows that the service does not exist.
                CheckFreeMonitoringStatus,
                ConnPoolStats,
                GetCmdLineOpts,
                GetDefaultRWConcern,
                GetLog,
                GetParameter,
                GetShardMap,
                HostInfo,
                Inprog,
                ListDatabases,
                ListSampledQueries,
                ListSessions,
                ListShards,
                Netstat,
                OperationMetrics,
                QueryStatsRead,
                QueryStatsReadTransformed,
                ReplSetGetConfig,
                ReplSetGetStatus,
                ServerStatus,
                ShardedDataDistribution,
                ShardingState,
                Top,
                UseUUID,
            ],
        ),
        (On::Everywhere, MONITOR_ACTIONS),
        (On::EveryCollection("system.profile"), &[Find]),
        (On::Exactly("config", ""), MONITOR_ACTIONS),
        (On::Exactly("config", "system.sessions"), MONITOR_ACTIONS),
        (On::Exactly("local", ""), MONITOR_ACTIONS),
        (On::Exactly("local", "replset.election"), &[Find]),
        (On::Exactly("local", "replset.minvalid"), &[Find]),
        (On::Exactly("local", "system.replset"), &[Find]),
    ],
    contains_elsewhere: &[("config", &READ), ("local", &READ)],
    ..ADMIN
};

static DB_ADMIN: BuiltinRole = BuiltinRole {
    name: "dbAdmin",
    grants: &[
        (On::Database, DB_ADMIN_ACTIONS),
        (On::Collection("system.profile"), PROFILE_ACTIONS),
    ],
    ..ANY
};

static DB_ADMIN_ANY_DATABASE: BuiltinRole = BuiltinRole {
    name: "dbAdminAnyDatabase",
    grants: &[
        (On::Cluster, &[ApplyOps, ListDatabases]),
        (On::Everywhere, DB_ADMIN_ACTIONS),
        (On::EveryBuckets, DB_ADMIN_ACTIONS),
        (On::EveryCollection("system.profile"), PROFILE_ACTIONS),
    ],
    ..ADMIN
};

static DB_OWNER: BuiltinRole =
    BuiltinRole { name: "dbOwner", contains: &[&DB_ADMIN, &READ_WRITE, &USER_ADMIN], ..ANY };

static DIRECT_SHARD_OPERATIONS: BuiltinRole = BuiltinRole {
    name: "directShardOperations",
    grants: &[(On::Cluster, &[IssueDirectShardOperations])],
    ..ADMIN
};

static ENABLE_SHARDING: BuiltinRole = BuiltinRole {
    name: "enableSharding",
    grants: &[(
        On::Everywhere,
        &[
            AnalyzeShardKey,
            EnableSharding,
            MoveCollection,
            RefineCollectionShardKey,
            ReshardCollection,
            UnshardCollection,
        ],
    )],
    ..ANY
};

static HOST_MANAGER: BuiltinRole = BuiltinRole {
    name: "hostManager",
    grants: &[
        (
            On::Cluster,
            &[
                ApplicationMessage,
                AuditConfigure,
                Compact,
                ConnPoolSync,
                DropConnections,
                FlushRouterConfig,
                Fsync,
                InvalidateUserCache,
                KillAnyCursor,
                KillAnySession,
                Killop,
                LogRotate,
                OidReset,
                OidcListKeys,
                OidcRefreshKeys,
                ReplSetResizeOplog,
                Resync,
                RotateCertificates,
                SetParameter,
                Shutdown,
                Touch,
                TrafficRecord,
                Unlock,
            ],
        ),
        (On::Everywhere, &[KillCursors]),
    ],
    ..ADMIN
};

static QUERYABLE_BACKUP: BuiltinRole = BuiltinRole {
    name: "__queryableBackup",
    grants: &[
        (On::Anything, &[CollStats, ListCollections, ListIndexes, ListSearchIndexes]),
        (On::Cluster, &[GetParameter, ListDatabases, UseUUID]),
        (On::Everywhere, &[Find]),
        (On::EveryBuckets, &[Find]),
        (On::EveryCollection("system.js"), &[Find]),
        (On::EveryCollection("system.profile"), &[Find]),
        (On::EveryCollection("system.users"), &[Find]),
        (On::Exactly("admin", "system.backup_users"), &[Find]),
        (On::Exactly("admin", "system.roles"), &[Find]),
        (On::Exactly("admin", "system.version"), &[Find]),
        (On::Exactly("config", ""), &[Find]),
        (On::Exactly("config", "settings"), &[Find]),
        (On::Exactly("local", ""), &[Find]),
        (On::Exactly("local", "replset.election"), &[Find]),
        (On::Exactly("local", "replset.minvalid"), &[Find]),
    ],
    ..ADMIN
};

static READ: BuiltinRole = BuiltinRole {
    name: "read",
    grants: &[(On::Database, READ_ACTIONS), (On::Collection("system.js"), READ_ACTIONS)],
    ..ANY
};

static READ_ANY_DATABASE: BuiltinRole = BuiltinRole {
    name: "readAnyDatabase",
    grants: &[
        (On::Cluster, &[ListDatabases]),
        (On::Everywhere, READ_ACTIONS),
        (On::EveryBuckets, READ_ACTIONS),
        (On::EveryCollection("system.js"), READ_ACTIONS),
    ],
    ..ADMIN
};

static READ_WRITE: BuiltinRole = BuiltinRole {
    name: "readWrite",
    grants: &[
        (On::Database, READ_WRITE_ACTIONS),
        (On::Collection("system.js"), READ_WRITE_ACTIONS),
    ],
    contains: &[&READ],
    ..ANY
};

static READ_WRITE_ANY_DATABASE: BuiltinRole = BuiltinRole {
    name: "readWriteAnyDatabase",
    grants: &[
        (On::Everywhere, READ_WRITE_ACTIONS),
        (On::EveryBuckets, READ_WRITE_ACTIONS),
        (On::EveryCollection("system.js"), READ_WRITE_ACTIONS),
    ],
    contains: &[&READ_ANY_DATABASE],
    ..ADMIN
};

static RESTORE: BuiltinRole = BuiltinRole {
    name: "restore",
    grants: &[
        (On::Anything, &[ListCollections]),
        (
            On::Cluster,
            &[
                ApplyOps,
                BypassWriteBlockingMode,
                ForceUUID,
                GetParameter,
                SetUserWriteBlockMode,
                UseUUID,
            ],
        ),
        (On::Everywhere, RESTORE_ACTIONS),
        (On::Everywhere, USER_ADMIN_ACTIONS),
        (On::EveryBuckets, RESTORE_ACTIONS),
        (On::EveryCollection("system.js"), RESTORE_ACTIONS),
        (On::EveryCollection("system.users"), RESTORE_ACTIONS),
        (On::EveryCollection("system.users"), &[Find, Remove, Update]),
        (On::EveryCollection("system.views"), &[DropCollection]),
        (On::Exactly("admin", "system.backup_users"), RESTORE_ACTIONS),
        (On::Exactly("admin", "system.roles"), &[CreateIndex]),
        (On::Exactly("admin", "system.version"), RESTORE_ACTIONS),
        (On::Exactly("admin", "system.version"), &[Find]),
        (On::Exactly("admin", "temproles"), &[Find]),
        (On::Exactly("admin", "tempusers"), &[Find]),
        (On::Exactly("config", ""), RESTORE_ACTIONS),
        (On::Exactly("local", ""), RESTORE_ACTIONS),
        (On::Exactly("local", "replset.election"), RESTORE_ACTIONS),
        (On::Exactly("local", "replset.minvalid"), RESTORE_ACTIONS),
        (On::Exactly("local", "system.replset"), RESTORE_ACTIONS),
    ],
    ..ADMIN
};

static ROOT: BuiltinRole = BuiltinRole {
    name: "root",
    grants: &[
        (On::Anything, &[Validate]),
        (On::Cluster, &[BypassDefaultMaxTimeMS, UseTenant]),
        (On::Exactly("config", "system.change_collection"), &[Find, Insert, Remove, Update]),
        (On::Exactly("config", "system.preimages"), &[Find, Remove]),
    ],
    contains: &[
        &BACKUP,
        &CLUSTER_ADMIN,
        &DB_ADMIN_ANY_DATABASE,
        &DIRECT_SHARD_OPERATIONS,
        &READ_WRITE_ANY_DATABASE,
        &RESTORE,
        &USER_ADMIN_ANY_DATABASE,
    ],
    ..ADMIN
};

static USER_ADMIN: BuiltinRole =
    BuiltinRole { name: "userAdmin", grants: &[(On::Database, USER_ADMIN_ACTIONS)], ..ANY };

static USER_ADMIN_ANY_DATABASE: BuiltinRole = BuiltinRole {
    name: "userAdminAnyDatabase",
    grants: &[
        (On::Cluster, &[AuthSchemaUpgrade, InvalidateUserCache, ListDatabases, ViewUser]),
        (On::Everywhere, USER_ADMIN_ACTIONS),
        (On::Everywhere, &[ListCachedAndActiveUsers]),
        (On::EveryCollection("system.users"), READ_ACTIONS),
        (On::Exactly("admin", "system.backup_users"), READ_ACTIONS),
        (On::Exactly("admin", "system.roles"), READ_AND_INDEX_ACTIONS),
        (On::Exactly("admin", "system.users"), READ_AND_INDEX_ACTIONS),
        (On::Exactly("admin", "system.version"), READ_ACTIONS),
        (On::Exactly("config", ""), USER_ADMIN_ACTIONS),
        (On::Exactly("local", ""), USER_ADMIN_ACTIONS),
    ],
    ..ADMIN
};

static SYSTEM: BuiltinRole =
    BuiltinRole { name: "__system", grants: &[(On::Anything, &[AnyAction])], ..ADMIN };

/// All built-in roles, sorted by name.
pub(crate) static ROLES: &[&BuiltinRole] = &[
    &QUERYABLE_BACKUP,
    &SYSTEM,
    &BACKUP,
    &CLUSTER_ADMIN,
    &CLUSTER_MANAGER,
    &CLUSTER_MONITOR,
    &DB_ADMIN,
    &DB_ADMIN_ANY_DATABASE,
    &DB_OWNER,
    &DIRECT_SHARD_OPERATIONS,
    &ENABLE_SHARDING,
    &HOST_MANAGER,
    &READ,
    &READ_ANY_DATABASE,
    &READ_WRITE,
    &READ_WRITE_ANY_DATABASE,
    &RESTORE,
    &ROOT,
    &USER_ADMIN,
    &USER_ADMIN_ANY_DATABASE,
];

/// The built-in role of that name in database `db`. A binary search.
pub(crate) fn find(name: &str, db: &str) -> Option<&'static BuiltinRole> {
    let at = ROLES.binary_search_by(|row| row.name.cmp(name)).ok()?;
    Some(ROLES[at]).filter(|role| role.is_in(db))
}

impl BuiltinRole {
    /// Returns true if the role exists in database `db`.
    pub(crate) fn is_in(&self, db: &str) -> bool {
        !self.admin_only || db == "admin"
    }

    /// Adds the privileges of the role, as a role of database `db`.
    pub(crate) fn grant(&self, db: &str, privileges: &mut Privileges) {
        for (on, actions) in self.grants {
            let resource = match on {
                On::Database => Resource::on(db, ""),
                On::Collection(name) => Resource::on(db, name),
                On::EveryCollection(name) => Resource::on("", name),
                On::Everywhere => Resource::on("", ""),
                On::EveryBuckets => Resource::Buckets { db: "".into(), collection: "".into() },
                On::Exactly(db, name) => Resource::on(db, name),
                On::Cluster => Resource::Cluster,
                On::Anything => Resource::Any,
            };
            privileges.entry(resource).or_default().add(ActionSet::of(actions));
        }
        self.contains.iter().for_each(|role| role.grant(db, privileges));
        self.contains_elsewhere.iter().for_each(|(other, role)| role.grant(other, privileges));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::privilege::{PrivilegeSet, Target};

    fn set(name: &str, db: &str) -> PrivilegeSet {
        let mut privileges = Privileges::new();
        find(name, db).unwrap().grant(db, &mut privileges);
        PrivilegeSet::new(&privileges)
    }

    #[test]
    fn rows_are_sorted() {
        assert!(ROLES.is_sorted_by(|a, b| a.name < b.name));
        assert!(find("root", "test").is_none() && find("nope", "admin").is_none());
    }

    #[test]
    fn each_role_reaches_its_own() {
        let on = Target::Collection;
        let read = set("read", "shop");
        assert!(read.allows(on("shop", "c"), Find) && !read.allows(on("shop", "c"), Insert));
        assert!(!read.allows(on("other", "c"), Find));
        assert!(!read.allows(on("shop", "system.profile"), Find));
        let owner = set("dbOwner", "shop");
        assert!(owner.allows(on("shop", "c"), Insert));
        assert!(owner.allows(Target::Database("shop"), CreateUser));
        assert!(!owner.allows(Target::Cluster, Shutdown));
        let admin = set("dbAdmin", "shop");
        assert!(admin.allows(on("shop", "c"), CollMod) && !admin.allows(on("shop", "c"), Find));
        assert!(admin.allows(on("shop", "system.profile"), Find));
        let monitor = set("clusterMonitor", "admin");
        assert!(monitor.allows(Target::Cluster, ServerStatus));
        assert!(!monitor.allows(on("shop", "c"), Find));
        assert!(monitor.allows(on("local", "oplog.rs"), Find), "it contains `read` of `local`");
        assert!(monitor.allows(Target::Database("config"), ListCollections));
        assert!(!monitor.allows(on("local", "oplog.rs"), Insert));
        let sharding = set("enableSharding", "shop");
        assert!(sharding.allows(on("other", "c"), EnableSharding), "in each database, for all");
        let root = set("root", "admin");
        for action in [Find, Insert, DropDatabase, CreateUser, Validate, CollMod] {
            assert!(root.allows(on("shop", "c"), action), "{}", action.name());
        }
        assert!(root.allows(Target::Cluster, Shutdown) && !root.allows(Target::Cluster, Internal));
        assert!(root.allows(on("admin", "system.users"), Find));
        assert!(set("__system", "admin").allows(Target::Cluster, Internal));
    }
}

"""The built-in roles of MongoDB 8.0: their resources and actions, as MongoDB publishes them.

The server has a table of its own (crates/server/src/auth/builtin.rs). This one states the same facts once more, from the
manual's pages "Built-In Roles" and "Privilege Actions" and, where these are silent or contradict the program, from the
published definition of its roles, so that each table can show a mistake of the other.

A resource is one of
    .            the normal collections of the role's database
    . NAME       one collection of the role's database
    *            the normal collections of all databases, except `local` and `config`
    * NAME       the collections of this name in all databases
    buckets      the buckets of the time series of all databases
    DB/          the normal collections of a database
    DB/NAME      one collection
    cluster      the server
    any          everything
"""

READ = "changeStream collStats dbHash dbStats find killCursors listCollections listIndexes listSearchIndexes planCacheRead"
WRITE = ("cleanupStructuredEncryptionData compactStructuredEncryptionData convertToCapped createCollection createIndex "
         "createSearchIndexes dropCollection dropIndex dropSearchIndex insert remove renameCollectionSameDB update "
         "updateSearchIndex")
DB_ADMIN = ("analyze bypassDocumentValidation collMod collStats compact configureQueryAnalyzer convertToCapped "
            "createCollection createIndex createSearchIndexes dbStats dropCollection dropDatabase dropIndex "
            "dropSearchIndex enableProfiler listCollections listIndexes listSearchIndexes planCacheIndexFilter "
            "planCacheRead planCacheWrite reIndex renameCollectionSameDB storageDetails updateSearchIndex validate")
PROFILE = READ + " convertToCapped createCollection dropCollection"
USER_ADMIN = ("changeCustomData changePassword createRole createUser dropRole dropUser grantRole revokeRole "
              "setAuthenticationRestriction viewRole viewUser")
MONITOR = "collStats dbStats getDatabaseVersion getShardVersion indexStats"
SHARD = ("analyzeShardKey clearJumboFlag configureQueryAnalyzer enableSharding moveChunk moveCollection "
         "refineCollectionShardKey reshardCollection splitChunk splitVector unshardCollection")
RESTORE = ("bypassDocumentValidation collMod convertToCapped createCollection createIndex createSearchIndexes "
           "dropCollection insert updateSearchIndex")
INDEXES = "createIndex createSearchIndexes dropIndex dropSearchIndex"

# Role: its resources with their actions. The roles that it contains are in CONTAINS.
ROLES = {
    # Of every database.
    "read": {".": READ, ". system.js": READ},
    "readWrite": {".": WRITE, ". system.js": WRITE},
    "dbAdmin": {".": DB_ADMIN, ". system.profile": PROFILE},
    "userAdmin": {".": USER_ADMIN},
    "dbOwner": {},
    "enableSharding": {"*": "analyzeShardKey enableSharding moveCollection refineCollectionShardKey reshardCollection "
                            "unshardCollection"},
    # Of admin.
    "readAnyDatabase": {"*": READ, "* system.js": READ, "buckets": READ, "cluster": "listDatabases"},
    "readWriteAnyDatabase": {"*": WRITE, "* system.js": WRITE, "buckets": WRITE},
    "dbAdminAnyDatabase": {"*": DB_ADMIN, "buckets": DB_ADMIN, "* system.profile": PROFILE,
                           "cluster": "applyOps listDatabases"},
    "userAdminAnyDatabase": {
        "*": USER_ADMIN + " listCachedAndActiveUsers", "local/": USER_ADMIN, "config/": USER_ADMIN,
        "cluster": "authSchemaUpgrade invalidateUserCache listDatabases viewUser", "* system.users": READ,
        "admin/system.users": READ + " " + INDEXES, "admin/system.roles": READ + " " + INDEXES,
        "admin/system.version": READ, "admin/system.backup_users": READ},
    "clusterMonitor": {
        "cluster": "allCollectionStats checkFreeMonitoringStatus connPoolStats getCmdLineOpts getDefaultRWConcern getLog "
                   "getParameter getShardMap hostInfo inprog listDatabases listSampledQueries listSessions listShards netstat "
                   "operationMetrics queryStatsRead queryStatsReadTransformed replSetGetConfig replSetGetStatus "
                   "serverStatus shardedDataDistribution shardingState top useUUID",
        "*": MONITOR, "config/": MONITOR, "local/": MONITOR, "config/system.sessions": MONITOR, "* system.profile": "find",
        "local/system.replset": "find", "local/replset.election": "find", "local/replset.minvalid": "find"},
    "hostManager": {
        "cluster": "applicationMessage auditConfigure compact connPoolSync dropConnections flushRouterConfig fsync "
                   "invalidateUserCache killAnyCursor killAnySession killop logRotate oidReset oidcListKeys oidcRefreshKeys "
                   "replSetResizeOplog resync rotateCertificates setParameter shutdown touch trafficRecord unlock",
        "*": "killCursors"},
    "clusterManager": {
        "cluster": "addShard appendOplogNote applicationMessage checkMetadataConsistency cleanupOrphaned flushRouterConfig "
                   "getChangeStreamState getClusterParameter getDefaultRWConcern listSessions listShards querySettings "
                   "removeShard replSetConfigure replSetGetConfig replSetGetStatus replSetStateChange resync "
                   "setChangeStreamState setClusterParameter setDefaultRWConcern setFeatureCompatibilityVersion "
                   "transitionFromDedicatedConfigServer transitionToDedicatedConfigServer",
        "any": "dbCheck", "*": SHARD, "buckets": SHARD, "config/": SHARD + " insert remove update",
        "local/": SHARD + " insert remove update", "local/system.replset": READ, "local/system.healthlog": READ,
        "local/replset.election": "insert remove update", "local/replset.minvalid": "insert remove update"},
    "clusterAdmin": {"*": "dropDatabase", "any": "exportCollection importCollection"},
    "__queryableBackup": {
        "any": "collStats listCollections listIndexes listSearchIndexes", "cluster": "getParameter listDatabases useUUID",
        "*": "find", "buckets": "find", "config/": "find", "local/": "find", "local/replset.election": "find",
        "local/replset.minvalid": "find", "* system.js": "find", "* system.users": "find", "* system.profile": "find",
        "admin/system.backup_users": "find", "admin/system.roles": "find", "admin/system.version": "find",
        "config/settings": "find"},
    "backup": {"cluster": "appendOplogNote serverStatus setUserWriteBlockMode", "config/settings": "insert update",
               "admin/mms.backup": "insert update"},
    "restore": {
        "cluster": "applyOps bypassWriteBlockingMode forceUUID getParameter setUserWriteBlockMode useUUID",
        "any": "listCollections", "*": RESTORE + " " + USER_ADMIN, "buckets": RESTORE, "config/": RESTORE, "local/": RESTORE,
        "local/system.replset": RESTORE, "local/replset.election": RESTORE, "local/replset.minvalid": RESTORE,
        "* system.js": RESTORE, "* system.users": RESTORE + " find remove update", "* system.views": "dropCollection",
        "admin/tempusers": "find", "admin/temproles": "find", "admin/system.backup_users": RESTORE,
        "admin/system.version": RESTORE + " find", "admin/system.roles": "createIndex"},
    "directShardOperations": {"cluster": "issueDirectShardOperations"},
    "root": {"any": "validate", "cluster": "bypassDefaultMaxTimeMS useTenant", "config/system.preimages": "find remove",
             "config/system.change_collection": "find insert remove update"},
    "__system": {"any": "anyAction"},
}

# The contained roles: of the role's own database, or ROLE@DATABASE.
CONTAINS = {
    "readWrite": ["read"],
    "dbOwner": ["readWrite", "dbAdmin", "userAdmin"],
    "readWriteAnyDatabase": ["readAnyDatabase"],
    "clusterMonitor": ["read@config", "read@local"],
    "clusterManager": ["read@config"],
    "clusterAdmin": ["clusterMonitor", "hostManager", "clusterManager"],
    "backup": ["__queryableBackup"],
    "root": ["clusterAdmin", "userAdminAnyDatabase", "dbAdminAnyDatabase", "readWriteAnyDatabase", "backup", "restore",
             "directShardOperations"],
}

OF_EVERY_DATABASE = ["read", "readWrite", "dbAdmin", "userAdmin", "dbOwner", "enableSharding"]

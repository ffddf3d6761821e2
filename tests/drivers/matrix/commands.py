"""What each command needs, as MongoDB publishes it: one row a command, or more if its arguments matter.

A row is (command, what it needs, options). `DB` in its strings is the command's database. Options:
    admin    it runs on the database admin only
    changes  what to make again after it ran: "data" or "users"
    alone    it changes the connection: it gets one of its own
    on       the only database for which the row is meant
    off      the database for which it is not

An argument `unknown` makes a command fail behind the check of its privileges, so that nothing stops or is lost. UUID
becomes a new one each time: sessions are known by it.
"""
from bson import Binary, Int64

UUID = Binary(bytes(range(16)), 4)
OWN = [{"resource": {"db": "DB", "collection": "c"}, "actions": ["find"]}]
RESTRICTED = [{"clientSource": ["127.0.0.1"]}]
HASHED = {"algorithm": "hmac-sha-256", "hmacKey": Binary(b"key", 8)}
SETTINGS = {"find": "c", "filter": {"n": 1}, "$db": "shop"}


def row(needs, name, value, /, **arguments):
    options = {key: arguments.pop(key) for key in ("admin", "changes", "alone", "on", "off") if key in arguments}
    return {name: value, **arguments}, needs, options


def collections():
    return [
        row("find@c", "find", "c"),
        row("find@v", "find", "v"),
        row("find@system.profile", "find", "system.profile"),
        row("find@system.users", "find", "system.users", on="admin"),
        # Of a collection that does not exist; special.py has one that does.
        row("useUUID@#", "find", UUID),
        row("find@c", "count", "c"),
        row("find@c", "distinct", "c", key="n"),
        row("find@c", "aggregate", "c", pipeline=[], cursor={}),
        row("find@c", "explain", {"find": "c"}),
        row("remove@c", "explain", {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]}),
        row("remove@c, find@c", "explain", {"delete": "c", "deletes": [{"q": {"a": 1}, "limit": 1}]},
            hypotheticalIndexes=[{"key": {"zz": 1}, "name": "zz"}]),
        row("find@c", "mapReduce", "c", map="function() { emit(1, 1) }", reduce="function() { return 1 }", out={"inline": 1}),
        row("find@c, insert@out, remove@out", "mapReduce", "c", map="function() { emit(1, 1) }",
            reduce="function() { return 1 }", out="out", changes="data"),
        row("find@c, insert@out, update@out", "mapReduce", "c", map="function() { emit(1, 1) }",
            reduce="function() { return 1 }", out={"merge": "out"}, changes="data"),
        row("insert@c", "insert", "c", documents=[{"_id": "new"}], changes="data"),
        row("insert@c, bypassDocumentValidation@c", "insert", "c", documents=[{"_id": "new"}], bypassDocumentValidation=True,
            changes="data"),
        row("insert@system.js", "insert", "system.js", documents=[{"_id": "f", "value": 1}], changes="data"),
        row("update@c", "update", "c", updates=[{"q": {"_id": 1}, "u": {"$set": {"n": 7}}}], changes="data"),
        row("update@c, insert@c", "update", "c", updates=[{"q": {"_id": 9}, "u": {"$set": {"n": 7}}, "upsert": True}],
            changes="data"),
        row("update@c, bypassDocumentValidation@c", "update", "c", updates=[{"q": {"_id": 1}, "u": {"$set": {"n": 7}}}],
            bypassDocumentValidation=True, changes="data"),
        row("remove@c", "delete", "c", deletes=[{"q": {"_id": 1}, "limit": 1}], changes="data"),
        row("find@c, update@c", "findAndModify", "c", query={"_id": 1}, update={"$set": {"n": 7}}, changes="data"),
        row("find@c, update@c, insert@c", "findAndModify", "c", query={"_id": 9}, update={"$set": {"n": 7}}, upsert=True,
            changes="data"),
        row("find@c, remove@c", "findAndModify", "c", query={"_id": 1}, remove=True, changes="data"),
        row("insert@shop/c", "bulkWrite", 1, ops=[{"insert": 0, "document": {"_id": "new"}}], nsInfo=[{"ns": "shop.c"}],
            admin=True, changes="data"),
        row("insert@shop/c, update@other/c", "bulkWrite", 1, admin=True, changes="data",
            ops=[{"insert": 0, "document": {"_id": "new"}}, {"update": 1, "filter": {"_id": 1}, "updateMods": {"$set": {"n": 7}}}],
            nsInfo=[{"ns": "shop.c"}, {"ns": "other.c"}]),
        row("remove@shop/c, bypassDocumentValidation@shop/c", "bulkWrite", 1, ops=[{"delete": 0, "filter": {"_id": 1}}],
            nsInfo=[{"ns": "shop.c"}], bypassDocumentValidation=True, admin=True, changes="data"),
        row("login", "getMore", Int64(1 << 40), collection="c"),
        row("login", "killCursors", "c", cursors=[Int64(1 << 40)]),
        row("createCollection@new | insert@new", "create", "new", changes="data"),
        row("createCollection@new, convertToCapped@new | insert@new, convertToCapped@new", "create", "new", capped=True,
            size=4096, changes="data"),
        row("createCollection@new, !find@new | createCollection@new, find@c", "create", "new", viewOn="c", pipeline=[],
            changes="data"),
        row("createCollection@new, !find@new | createCollection@new, find@c, find@system.profile", "create", "new", viewOn="c",
            pipeline=[{"$unionWith": "system.profile"}], changes="data"),
        row("collMod@c", "collMod", "c", validationLevel="strict", changes="data"),
        row("collMod@v, !find@v | collMod@v, find@system.profile", "collMod", "v", viewOn="system.profile", pipeline=[],
            changes="data"),
        row("dropCollection@c", "drop", "c", changes="data"),
        row("dropCollection@v", "drop", "v", changes="data"),
        row("dropDatabase@.", "dropDatabase", 1, changes="data"),
        row("convertToCapped@c", "convertToCapped", "c", size=4096, changes="data"),
        row("find@c, insert@new, createIndex@new, convertToCapped@new", "cloneCollectionAsCapped", "c", toCollection="new",
            size=4096, changes="data"),
        row("renameCollectionSameDB@shop/, find@shop/c | renameCollectionSameDB@shop/, !find@shop/new "
            "| find@shop/c, dropCollection@shop/c, insert@shop/new, createIndex@shop/new",
            "renameCollection", "shop.c", to="shop.new", admin=True, changes="data"),
        row("renameCollectionSameDB@shop/, dropCollection@shop/d, find@shop/c "
            "| renameCollectionSameDB@shop/, dropCollection@shop/d, !find@shop/d "
            "| find@shop/c, dropCollection@shop/c, insert@shop/d, createIndex@shop/d, dropCollection@shop/d",
            "renameCollection", "shop.c", to="shop.d", dropTarget=True, admin=True, changes="data"),
        row("find@shop/c, dropCollection@shop/c, insert@other/new, createIndex@other/new", "renameCollection", "shop.c",
            to="other.new", admin=True, changes="data"),
        row("listCollections@.", "listCollections", 1),
        row("listCollections@. | ?@.", "listCollections", 1, nameOnly=True, authorizedCollections=True),
        row("login", "listDatabases", 1, admin=True),
        row("listDatabases@#", "listDatabases", 1, authorizedDatabases=False, admin=True),
        row("cleanupStructuredEncryptionData@c", "cleanupStructuredEncryptionData", "c", cleanupTokens={}),
        row("compactStructuredEncryptionData@c", "compactStructuredEncryptionData", "c", compactionTokens={}),
        row("find@DB/c", "dataSize", "DB.c"),
        row("find@fs.chunks", "filemd5", 1, root="fs"),
    ]


def indexes_and_plans():
    return [
        row("createIndex@c", "createIndexes", "c", indexes=[{"key": {"m": 1}, "name": "m_1"}], changes="data"),
        row("dropIndex@c", "dropIndexes", "c", index="n_1", changes="data"),
        row("listIndexes@c", "listIndexes", "c"),
        row("reIndex@c", "reIndex", "c", changes="data"),
        row("createIndex@c", "setIndexCommitQuorum", "c", indexNames=["n_1"], commitQuorum=1),
        row("createSearchIndexes@c", "createSearchIndexes", "c", indexes=[{"definition": {}}]),
        row("dropSearchIndex@c", "dropSearchIndex", "c", name="x"),
        row("listSearchIndexes@c", "listSearchIndexes", "c"),
        row("updateSearchIndex@c", "updateSearchIndex", "c", name="x", definition={}),
        row("planCacheWrite@c", "planCacheClear", "c"),
        row("planCacheIndexFilter@c", "planCacheClearFilters", "c"),
        row("planCacheIndexFilter@c", "planCacheListFilters", "c"),
        row("planCacheIndexFilter@c", "planCacheSetFilter", "c", query={"n": 1}, indexes=[{"n": 1}]),
        row("querySettings@#", "setQuerySettings", SETTINGS, settings={}, admin=True),
        row("querySettings@#", "removeQuerySettings", SETTINGS, admin=True),
    ]


def diagnosis():
    return [
        row("-", "buildInfo", 1),
        row("collStats@c", "collStats", "c"),
        row("connPoolStats@#", "connPoolStats", 1),
        row("-", "connectionStatus", 1),
        row("inprog@#", "currentOp", 1, admin=True),
        row("login", "currentOp", 1, **{"$ownOps": True}, admin=True),
        row("dbHash@.", "dbHash", 1),
        row("dbStats@.", "dbStats", 1),
        row("-", "features", 1),
        row("oidReset@#", "features", 1, oidReset=True),
        row("getCmdLineOpts@#", "getCmdLineOpts", 1, admin=True),
        row("serverStatus@#, replSetGetStatus@#, collStats@local/oplog.rs", "getDiagnosticData", 1, admin=True),
        row("checkFreeMonitoringStatus@#", "getFreeMonitoringStatus", 1, admin=True),
        row("getLog@#", "getLog", "*", admin=True),
        row("hostInfo@#", "hostInfo", 1),
        row("killop@#", "killOp", 1, op=123456789, admin=True),
        row("-", "listCommands", 1),
        row("serverStatus@#", "lockInfo", 1, admin=True),
        row("-", "ping", 1),
        row("enableProfiler@. | find@system.profile", "profile", -1),
        row("enableProfiler@.", "profile", 0),
        row("enableProfiler@.", "profile", -1, sampleRate=1.0),
        row("serverStatus@#", "serverStatus", 1),
        row("top@#", "top", 1, admin=True),
        row("validate@c", "validate", "c"),
        row("validate@system.users", "validate", "system.users", on="admin"),
        row("validate@.", "validateDBMetadata", 1, db="DB", apiParameters={"version": "1"}),
        row("validate@*", "validateDBMetadata", 1, apiParameters={"version": "1"}),
        row("-", "whatsmyuri", 1),
    ]


def administration():
    return [
        row("appendOplogNote@#", "appendOplogNote", 1, data={}, admin=True),
        row("applyOps@#, insert@shop/c, update@shop/c", "applyOps", [{"op": "i", "ns": "shop.c", "o": {"_id": "new"}}],
            on="admin", changes="data"),
        row("applyOps@#, remove@shop/c", "applyOps", [{"op": "d", "ns": "shop.c", "o": {"_id": 1}}], on="admin", changes="data"),
        row("applyOps@#, appendOplogNote@#", "applyOps", [{"op": "n", "ns": "", "o": {}}], on="admin"),
        row("applyOps@#, createCollection@shop/new | applyOps@#, insert@shop/new", "applyOps",
            [{"op": "c", "ns": "shop.$cmd", "o": {"create": "new"}}], on="admin", changes="data"),
        row("compact@#", "autoCompact", False, admin=True),
        row("compact@c", "compact", "c"),
        row("dropConnections@#", "dropConnections", 1, hostAndPort=[], admin=True),
        row("fsync@#", "fsync", 1, admin=True),
        row("unlock@#", "fsyncUnlock", 1, admin=True),
        row("auditConfigure@#", "getAuditConfig", 1, admin=True),
        row("auditConfigure@#", "setAuditConfig", 1, unknown=1, admin=True),
        row("getClusterParameter@#", "getClusterParameter", "defaultMaxTimeMS", admin=True),
        row("setClusterParameter@#", "setClusterParameter", {"none": {}}, admin=True),
        row("getDefaultRWConcern@#", "getDefaultRWConcern", 1, admin=True),
        row("setDefaultRWConcern@#", "setDefaultRWConcern", 1, unknown=1, admin=True),
        row("getParameter@#", "getParameter", 1, logLevel=1, admin=True),
        row("setParameter@#", "setParameter", 1, logLevel=0, admin=True),
        row("applicationMessage@#", "logApplicationMessage", "matrix", admin=True),
        row("logRotate@#", "logRotate", "none", admin=True),
        # Reads every file: what the role `backup` may read.
        row("getLog@#", "nagiAdvise", 1, measure=False, admin=True),
        row("find@*, find@admin/system.users, listDatabases@#", "nagiBackup", "none", admin=True),
        row("rotateCertificates@#", "rotateCertificates", 1, unknown=1, admin=True),
        row("rotateCertificates@#", "rotateEncryptionKey", 1, unknown=1, admin=True),
        row("oidcListKeys@#", "oidcListKeys", 1, unknown=1, admin=True),
        row("oidcRefreshKeys@#", "oidcRefreshKeys", 1, unknown=1, admin=True),
        row("setFeatureCompatibilityVersion@#", "setFeatureCompatibilityVersion", "0.0", admin=True),
        row("setUserWriteBlockMode@#", "setUserWriteBlockMode", 1, unknown=1, admin=True),
        row("shutdown@#", "shutdown", 1, unknown=1, admin=True),
        row("replSetStateChange@#", "replSetFreeze", 0, unknown=1, admin=True),
        row("replSetGetConfig@#", "replSetGetConfig", 1, admin=True),
        row("replSetGetStatus@#", "replSetGetStatus", 1, admin=True),
        row("replSetConfigure@#", "replSetInitiate", {}, unknown=1, admin=True),
        row("replSetConfigure@#", "replSetReconfig", {}, unknown=1, admin=True),
        row("replSetResizeOplog@#", "replSetResizeOplog", 1, unknown=1, admin=True),
        row("replSetStateChange@#", "replSetStepDown", 1, unknown=1, admin=True),
        # Test commands. MongoDB asks for no privilege, because they exist only if the server is started for tests.
        row("remove@c", "captrunc", "c", n=1, changes="data"),
        row("login", "configureFailPoint", "none", mode="off", admin=True),
        row("emptycapped@c", "emptycapped", "c", changes="data"),
        row("insert@c", "godinsert", "c", obj={"_id": "new"}, changes="data"),
        row("login", "sleep", 1, millis=0, unknown=1, admin=True),
        row("login", "testVersion2", 1),
    ]


def sessions_and_logins():
    return [
        row("login", "abortTransaction", 1, admin=True),
        row("login", "commitTransaction", 1, admin=True),
        row("-", "authenticate", 1, mechanism="none", alone=True),
        row("login", "endSessions", [{"id": UUID}]),
        row("-", "getLastError", 1),
        row("-", "getPrevError", 1),
        row("-", "getnonce", 1),
        row("-", "hello", 1),
        row("-", "isMaster", 1),
        row("killAnySession@#", "killAllSessions", [{"user": "none", "db": "none"}]),
        row("killAnySession@#", "killAllSessionsByPattern", [{"lsid": {"id": UUID, "uid": Binary(bytes(32))}}]),
        row("login", "killSessions", [{"id": UUID}]),
        row("login", "killSessions", []),
        row("-", "logout", 1, alone=True),
        row("login", "refreshSessions", [{"id": UUID}]),
        row("-", "resetError", 1),
        row("-", "saslContinue", 1, conversationId=1, payload=b"", alone=True),
        row("-", "saslStart", 1, mechanism="none", payload=b"", alone=True),
        row("login", "startSession", 1),
    ]


def users_and_roles():
    of_role = {"roles": [], "privileges": []}
    return [
        row("createUser@.", "createUser", "made", pwd="p", roles=[], changes="users"),
        row("createUser@., grantRole@.", "createUser", "made", pwd="p", roles=["read"], changes="users"),
        row("createUser@., grantRole@admin/", "createUser", "made", pwd="p", roles=[{"role": "root", "db": "admin"}],
            changes="users"),
        row("createUser@., setAuthenticationRestriction@.", "createUser", "made", pwd="p", roles=[],
            authenticationRestrictions=RESTRICTED, changes="users"),
        row("dropUser@.", "dropUser", "victim", changes="users"),
        row("dropUser@.", "dropAllUsersFromDatabase", 1, unknown=1),
        row("changeCustomData@.", "updateUser", "victim", customData={}, changes="users"),
        row("changePassword@.", "updateUser", "victim", pwd="q", changes="users"),
        row("revokeRole@*, grantRole@.", "updateUser", "victim", roles=["read"], changes="users"),
        row("revokeRole@*, grantRole@other/", "updateUser", "victim", roles=[{"role": "read", "db": "other"}], changes="users"),
        row("setAuthenticationRestriction@.", "updateUser", "victim", authenticationRestrictions=RESTRICTED, changes="users"),
        row("grantRole@.", "grantRolesToUser", "victim", roles=["read"], changes="users"),
        row("grantRole@admin/", "grantRolesToUser", "victim", roles=[{"role": "root", "db": "admin"}], changes="users"),
        row("revokeRole@.", "revokeRolesFromUser", "victim", roles=["read"], changes="users"),
        row("viewUser@.", "usersInfo", 1),
        row("viewUser@.", "usersInfo", "victim"),
        row("viewUser@other/", "usersInfo", {"user": "victim", "db": "other"}),
        row("viewUser@#", "usersInfo", {"forAllDBs": True}),
        row("createRole@.", "createRole", "made", **of_role, changes="users"),
        row("createRole@., grantRole@DB/", "createRole", "made", roles=["read"], privileges=[], changes="users"),
        row("createRole@., grantRole@DB/", "createRole", "made", roles=[], privileges=OWN, changes="users"),
        row("createRole@., setAuthenticationRestriction@.", "createRole", "made", **of_role,
            authenticationRestrictions=RESTRICTED, changes="users"),
        row("dropRole@.", "dropRole", "victims", changes="users"),
        row("dropRole@.", "dropAllRolesFromDatabase", 1, unknown=1),
        row("revokeRole@*", "updateRole", "victims", roles=[], changes="users"),
        row("revokeRole@*, grantRole@.", "updateRole", "victims", roles=["read"], changes="users"),
        row("revokeRole@*, grantRole@.", "updateRole", "victims", privileges=OWN, changes="users"),
        row("revokeRole@*, setAuthenticationRestriction@.", "updateRole", "victims", authenticationRestrictions=RESTRICTED,
            changes="users"),
        row("grantRole@.", "grantPrivilegesToRole", "victims", privileges=OWN, changes="users"),
        row("revokeRole@.", "revokePrivilegesFromRole", "victims", privileges=OWN, changes="users"),
        row("grantRole@.", "grantRolesToRole", "victims", roles=["read"], changes="users"),
        row("revokeRole@.", "revokeRolesFromRole", "victims", roles=["read"], changes="users"),
        row("viewRole@.", "rolesInfo", 1),
        row("viewRole@.", "rolesInfo", "victims"),
        row("viewRole@other/", "rolesInfo", {"role": "victims", "db": "other"}),
        row("invalidateUserCache@#", "invalidateUserCache", 1, admin=True),
        row("createUser@*, createRole@*, grantRole@*, revokeRole@*, find@admin/tempusers", "_mergeAuthzCollections", 1,
            tempUsersCollection="admin.tempusers", drop=False, db="", admin=True),
    ]


def rows():
    return (collections() + indexes_and_plans() + diagnosis() + administration() + sessions_and_logins() + users_and_roles()
            + stages())


# The stages that only transform what they read.
TRANSFORMING = [
    {"$addFields": {"x": 1}}, {"$bucket": {"groupBy": "$n", "boundaries": [0, 9], "default": 99}},
    {"$bucketAuto": {"groupBy": "$n", "buckets": 2}}, {"$count": "n"},
    {"$densify": {"field": "n", "range": {"step": 1, "bounds": "full"}}}, {"$facet": {"a": [{"$match": {}}]}},
    {"$fill": {"output": {"n": {"value": 0}}}}, {"$geoNear": {"near": [0, 0], "distanceField": "d"}}, {"$group": {"_id": "$n"}},
    {"$limit": 1}, {"$match": {"n": 1}}, {"$project": {"n": 1}}, {"$redact": "$$KEEP"}, {"$replaceRoot": {"newRoot": "$$ROOT"}},
    {"$replaceWith": "$$ROOT"}, {"$sample": {"size": 1}}, {"$search": {}}, {"$searchMeta": {}}, {"$set": {"x": 1}},
    {"$setWindowFields": {"output": {"s": {"$sum": "$n"}}}}, {"$skip": 1}, {"$sort": {"n": 1}}, {"$sortByCount": "$n"},
    {"$unset": "n"}, {"$unwind": "$n"}, {"$vectorSearch": {}},
]


def stage(needs, *pipeline, on=None, collection="c", **options):
    if on:
        options["on"] = on
    bypass = {"bypassDocumentValidation": True} if options.pop("bypass", False) else {}
    return row(needs, "aggregate", collection, pipeline=list(pipeline), cursor={}, **bypass, **options)


def stages():
    join = {"localField": "n", "foreignField": "n", "as": "x"}
    graph = {"from": "d", "startWith": "$n", "connectFromField": "n", "connectToField": "n", "as": "x"}
    watch = {"$changeStream": {}}
    return [stage("find@c", one) for one in TRANSFORMING] + [
        stage("find@v", {"$match": {}}, collection="v"),
        stage("collStats@c", {"$collStats": {"count": {}}}),
        stage("indexStats@c", {"$indexStats": {}}),
        stage("planCacheRead@c", {"$planCacheStats": {}}),
        stage("listSearchIndexes@c", {"$listSearchIndexes": {}}),
        stage("login", {"$documents": [{"a": 1}]}, collection=1),
        stage("find@d", {"$documents": [{"a": 1}]}, {"$lookup": {"from": "d", **join}}, collection=1),
        stage("inprog@#", {"$currentOp": {"allUsers": True}}, collection=1, on="admin"),
        stage("login", {"$currentOp": {"allUsers": False}}, collection=1, on="admin"),
        stage("login", {"$listLocalSessions": {}}, collection=1),
        stage("login", {"$listLocalSessions": {"allUsers": False}}, collection=1),
        stage("listSessions@#", {"$listLocalSessions": {"allUsers": True}}, collection=1),
        stage("listSessions@#", {"$listLocalSessions": {"users": [{"user": "else", "db": "x"}]}}, collection=1),
        stage("login", {"$listSessions": {}}, collection="system.sessions", on="config"),
        stage("listSessions@#", {"$listSessions": {"allUsers": True}}, collection="system.sessions", on="config"),
        stage("listCursors@#", {"$listLocalCursors": {}}, collection=1, on="admin"),
        stage("querySettings@#", {"$querySettings": {}}, collection=1, on="admin"),
        stage("queryStatsRead@#, queryStatsReadTransformed@#", {"$queryStats": {}}, collection=1, on="admin"),
        stage("queryStatsReadTransformed@#", {"$queryStats": {"transformIdentifiers": HASHED}}, collection=1, on="admin"),
        stage("changeStream@c, find@c", watch),
        stage("changeStream@c, find@c", watch, {"$changeStreamSplitLargeEvent": {}}),
        stage("changeStream@., find@.", watch, collection=1, off="admin"),
        stage("changeStream@*, find@*", watch, collection=1, on="admin"),
        stage("changeStream@*, find@*", {"$changeStream": {"allChangesForCluster": True}}, collection=1, on="admin"),
        stage("find@c, find@d", {"$lookup": {"from": "d", **join}}),
        stage("find@c, find@v", {"$lookup": {"from": "v", **join}}),
        stage("find@c, find@d, find@system.profile",
              {"$lookup": {"from": "d", "pipeline": [{"$lookup": {"from": "system.profile", **join}}], "as": "x"}}),
        stage("find@c, collStats@d", {"$lookup": {"from": "d", "pipeline": [{"$collStats": {"count": {}}}], "as": "x"}}),
        stage("find@c", {"$lookup": {"pipeline": [{"$documents": [{"a": 1}]}], "as": "x"}}),
        stage("find@c, find@d", {"$graphLookup": graph}),
        stage("find@c, find@system.profile", {"$facet": {"a": [{"$graphLookup": {**graph, "from": "system.profile"}}]}}),
        stage("find@c, find@d", {"$unionWith": "d"}),
        stage("find@c, collStats@d", {"$unionWith": {"coll": "d", "pipeline": [{"$collStats": {"count": {}}}]}}),
        stage("find@c, insert@out, remove@out", {"$out": "out"}, changes="data"),
        stage("find@c, insert@out, remove@out, bypassDocumentValidation@out", {"$out": "out"}, bypass=True, changes="data"),
        stage("find@c, insert@other/out, remove@other/out", {"$out": {"db": "other", "coll": "out"}}, changes="data"),
        stage("find@c, insert@out, update@out", {"$merge": "out"}, changes="data"),
        stage("find@c, insert@out", {"$merge": {"into": "out", "whenMatched": "fail"}}, changes="data"),
        stage("find@c, insert@out, update@out", {"$merge": {"into": "out", "whenMatched": "keepExisting"}}, changes="data"),
        stage("find@c, update@out", {"$merge": {"into": "out", "whenNotMatched": "discard"}}, changes="data"),
        stage("find@c, insert@other/out, update@other/out", {"$merge": {"into": {"db": "other", "coll": "out"}}}, changes="data"),
        stage("find@c, insert@out, update@out, bypassDocumentValidation@out", {"$merge": "out"}, bypass=True, changes="data"),
        stage("find@v, insert@out, remove@out", {"$out": "out"}, collection="v", changes="data"),
    ]

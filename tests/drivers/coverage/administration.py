"""Commands that manage the server, its databases and collections."""
import json
import threading

from bson import SON
from pymongo import MongoClient

from probes import code_of, equal, fields, need, probe
from reads_and_writes import fresh


@probe("standalone", "cmd.ping", "cmd.buildinfo", "cmd.hostinfo", "cmd.listcommands", "cmd.whatsmyuri", "cmd.features", "cmd.connectionstatus",
       "cmd.getcmdlineopts", "cmd.lockinfo", "cmd.connpoolstats", "cmd.listdatabases", "stat.compass", "cmd.common.db_admin")
def simple(client):
    admin = client.admin
    built = admin.command("buildInfo")
    need(built["version"].startswith("8.0") and built["maxBsonObjectSize"] == 16777216, built)
    fields(built, "versionArray bits storageEngines javascriptEngine modules gitVersion")
    fields(admin.command("hostInfo"), "system.hostname system.memSizeMB system.numCores os.type extra")
    commands = admin.command("listCommands")["commands"]
    need("find" in commands and "help" in commands["find"], sorted(commands))
    need(":" in admin.command("whatsmyuri")["you"])
    equal(admin.command("features")["ok"], 1)
    equal(admin.command("connectionStatus")["authInfo"]["authenticatedUsers"], [])
    options = admin.command("getCmdLineOpts")
    need("--dbpath" in options["argv"] and options["parsed"]["setParameter"]["enableTestCommands"] in ("1", 1), options)
    need(isinstance(admin.command("lockInfo")["lockInfo"], list))
    fields(admin.command("connPoolStats"), "totalInUse totalAvailable totalCreated hosts")
    fresh(client, {"_id": 1})
    need("test" in [d["name"] for d in admin.command("listDatabases", filter={"name": "test"})["databases"]])
    equal(code_of(lambda: client.test.command("listDatabases")), 13)
    equal(code_of(lambda: admin.command("atlasVersion")), 59)
    equal(admin.command("getParameter", 1, featureCompatibilityVersion=1)["featureCompatibilityVersion"]["version"], "8.0")
    equal(next(client.test.probe.aggregate([{"$sample": {"size": 1}}]))["_id"], 1)
    equal(client.test.command("dbStats")["ok"], 1)


@probe("standalone", "cmd.getlog", "diag.getlog", "cmd.logrotate", "mnt.logrotate")
def logs(client):
    need("global" in client.admin.command("getLog", "*")["names"])
    lines = [json.loads(line) for line in client.admin.command("getLog", "global")["log"]]
    need(lines and all({"t", "s", "c", "id", "ctx", "msg"} <= set(line) for line in lines), lines[:2])
    equal(client.admin.command("logRotate")["ok"], 1)


@probe("standalone", "cmd.create.names", "cmd.create", "cmd.drop", "cmd.dropdatabase", "cmd.renamecollection", "cmd.listcollections")
def collections(client):
    client.drop_database("probe_names")
    db = client.probe_names
    db.command("create", "a.b")
    equal(db.list_collection_names(), ["a.b"])
    for name in ("", "a$b", ".a", "system.foo"):
        equal(code_of(lambda: db.command("create", name)), 73)
    client.admin.command("renameCollection", "probe_names.a.b", to="probe_names.c")
    equal(db.command("listCollections")["cursor"]["firstBatch"][0]["name"], "c")
    equal(db.command("drop", "c")["ns"], "probe_names.c")
    db.command("create", "d")
    equal(db.command("dropDatabase")["dropped"], "probe_names")
    need("probe_names" not in client.list_database_names())


@probe("standalone", "cmd.converttocapped", "cmd.clonecollectionascapped", "cmd.emptycapped", "cmd.captrunc", "cmd.capped.resize", "cap.isCapped",
       "cap.create", "cap.tailable", "cmd.godinsert")
def capped(client):
    db = client.test
    for name in ("caps", "caps2", "plain"):
        db.drop_collection(name)
    db.command("create", "caps", capped=True, size=8192, max=5)
    db.caps.insert_many([{"_id": i} for i in range(9)])
    equal([d["_id"] for d in db.caps.find()], [4, 5, 6, 7, 8])
    stats = db.command("collStats", "caps")
    equal((stats["capped"], stats["max"]), (True, 5))
    need(stats["maxSize"] >= 8192, stats["maxSize"])
    db.command("collMod", "caps", cappedMax=3, cappedSize=16384)
    db.caps.insert_one({"_id": 20})
    equal(db.caps.count_documents({}), 3)
    db.command("captrunc", "caps", n=1)
    equal(db.caps.count_documents({}), 2)
    from pymongo import CursorType
    tail = db.caps.find(cursor_type=CursorType.TAILABLE)
    seen = [d["_id"] for d in (next(tail), next(tail))]
    db.caps.insert_one({"_id": 21})
    equal((len(seen), next(tail)["_id"]), (2, 21))
    db.command("emptycapped", "caps")
    equal(db.caps.count_documents({}), 0)
    db.plain.insert_many([{"_id": i} for i in range(5)])
    db.command("cloneCollectionAsCapped", "plain", toCollection="caps2", size=4096)
    equal((db.caps2.count_documents({}), db.caps2.options()["capped"]), (5, True))
    db.command("convertToCapped", "plain", size=4096)
    equal(db.plain.options()["capped"], True)
    db.drop_collection("god")
    db.command("godinsert", "god", obj={"_id": 1})
    equal(db.god.find_one(), {"_id": 1})


@probe("standalone", "cmd.dbhash", "cmd.datasize", "cmd.filemd5", "cmd.validate", "mnt.validate", "cmd.collstats", "cmd.dbstats", "stat.dbstats",
       "cmd.top", "stat.top", "cmd.compact", "mnt.compact", "cmd.autocompact")
def looked_at(client):
    import gridfs
    import hashlib
    client.drop_database("probe_look")
    db = client.probe_look
    db.c.insert_many([{"_id": i, "s": "x" * 100} for i in range(50)])
    first = db.command("dbHash")
    need(set(first["collections"]) == {"c"}, first)
    db.c.insert_one({"_id": 99})
    need(db.command("dbHash")["md5"] != first["md5"])
    size = db.command("dataSize", "probe_look.c")
    equal((size["numObjects"], size["size"]), (51, db.command("collStats", "c")["size"]))
    ident = gridfs.GridFSBucket(db).upload_from_stream("f", b"hello")
    equal(db.command("filemd5", ident, root="fs")["md5"], hashlib.md5(b"hello").hexdigest())
    valid = db.command("validate", "c", full=True)
    equal((valid["valid"], valid["nrecords"], valid["keysPerIndex"]), (True, 51, {"_id_": 51}))
    fields(db.command("collStats", "c"), "count size storageSize nindexes totalIndexSize indexSizes avgObjSize ns wiredTiger")
    stats = db.command("dbStats")
    fields(stats, "db collections views objects avgObjSize dataSize storageSize indexes indexSize totalSize scaleFactor fsUsedSize fsTotalSize")
    equal((stats["objects"], stats["db"]), (51 + 1 + 1, "probe_look"))
    fields(client.admin.command("top")["totals"]["probe_look.c"], "total.time readLock.count writeLock.count queries insert.count update remove getmore commands")
    fields(db.command("compact", "c"), "bytesFreed ok")
    equal(client.admin.command("autoCompact", True)["ok"], 1)
    equal(client.admin.command("autoCompact", False)["ok"], 1)
    client.drop_database("probe_look")


@probe("standalone", "cmd.getparameter", "cmd.setparameter", "par.testcommands", "par.scram", "par.authmechs", "par.localhost", "par.wt",
       "par.fcv", "cmd.setfcv")
def parameters(client):
    admin = client.admin
    every = admin.command("getParameter", "*")
    for name, usual in [("scramIterationCount", 10000), ("scramSHA256IterationCount", 15000), ("enableLocalhostAuthBypass", True), ("logLevel", 0),
                        ("quiet", False), ("enableTestCommands", True)]:
        equal((name, every[name]), (name, usual))
    need("SCRAM-SHA-256" in every["authenticationMechanisms"], every["authenticationMechanisms"])
    equal(admin.command("setParameter", 1, scramSHA256IterationCount=6000)["was"], 15000)
    client.test.command("createUser", "iterated", pwd="p", roles=[])
    shown = client.test.command("usersInfo", "iterated", showCredentials=True)["users"][0]["credentials"]
    equal(shown["SCRAM-SHA-256"]["iterationCount"], 6000)
    client.test.command("dropUser", "iterated")
    admin.command("setParameter", 1, scramSHA256IterationCount=15000)
    tickets = "wiredTigerConcurrentReadTransactions"
    was = admin.command("getParameter", 1, **{tickets: 1})[tickets]
    need(was > 0, was)
    admin.command("setParameter", 1, **{tickets: was + 1})
    equal(admin.command("serverStatus")["wiredTiger"]["concurrentTransactions"]["read"]["totalTickets"], was + 1)
    admin.command("setParameter", 1, **{tickets: was})
    equal(admin.command("getParameter", 1, featureCompatibilityVersion=1)["featureCompatibilityVersion"]["version"], "8.0")
    equal(admin.command("setFeatureCompatibilityVersion", "8.0", confirm=True)["ok"], 1)


@probe("standalone", "par.notablescan")
def no_scans(client):
    c = fresh(client, {"_id": 1, "n": 1})
    client.admin.command("setParameter", 1, notablescan=True)
    try:
        equal(code_of(lambda: c.find_one({"n": 1})), 291)
        c.create_index("n")
        equal(c.find_one({"n": 1}), {"_id": 1, "n": 1})
    finally:
        client.admin.command("setParameter", 1, notablescan=False)


@probe("standalone", "par.requireapi")
def required_api(client):
    client.admin.command("setParameter", 1, requireApiVersion=True)
    try:
        equal(code_of(lambda: client.test.command("find", "c")), 498870)
        equal(client.test.command("find", "c", apiVersion="1")["ok"], 1)
    finally:
        client.admin.command("setParameter", 1, requireApiVersion=False, apiVersion="1")


@probe("standalone", "par.session")
def session_parameters(client):
    got = client.admin.command("getParameter", 1, localLogicalSessionTimeoutMinutes=1, logicalSessionRefreshMillis=1, maxSessions=1)
    equal([got[n] for n in ("localLogicalSessionTimeoutMinutes", "logicalSessionRefreshMillis", "maxSessions")], [30, 300000, 1000000])


@probe("standalone", "par.defaultmaxtime", "cmd.getclusterparameter", "cmd.setclusterparameter")
def cluster_parameters(client):
    admin = client.admin
    c = fresh(client, *({"_id": i} for i in range(200)))
    admin.command("setClusterParameter", {"defaultMaxTimeMS": {"readOperations": 20}})
    try:
        equal(admin.command("getClusterParameter", "defaultMaxTimeMS")["clusterParameters"][0]["readOperations"], 20)
        slow = {"$expr": {"$function": {"body": "function() { for (;;) {} }", "args": [], "lang": "js"}}}
        equal(code_of(lambda: c.find_one(slow)), 50)
    finally:
        admin.command("setClusterParameter", {"defaultMaxTimeMS": {"readOperations": 0}})


@probe("replica", "cmd.userwriteblock")
def write_block(client):
    equal(client.admin.command("setUserWriteBlockMode", 1, **{"global": True})["ok"], 1)
    try:
        equal(code_of(lambda: client.test.command("insert", "blocked", documents=[{}])), 371)
    finally:
        client.admin.command("setUserWriteBlockMode", 1, **{"global": False})
    equal(client.test.command("insert", "blocked", documents=[{}])["n"], 1)


@probe("standalone", "cmd.dropconnections")
def dropped_connections(client):
    equal(client.admin.command("dropConnections", 1, hostAndPort=["localhost:1"])["ok"], 1)


@probe("standalone", "cmd.profile", "diag.profile", "diag.slow_log")
def profiled(client):
    client.drop_database("probe_profile")
    db = client.probe_profile
    equal(db.command("profile", 2, slowms=0)["was"], 0)
    db.c.insert_one({"_id": 1})
    db.c.find_one({"_id": 1}, comment="seen")
    db.command("profile", 0, slowms=100)
    entry = db["system.profile"].find_one({"command.comment": "seen"})
    equal((entry["op"], entry["ns"], entry["nreturned"]), ("query", "probe_profile.c", 1))
    fields(entry, "keysExamined docsExamined millis ts client user planSummary command")
    need(any('"Slow query"' in line and "probe_profile.c" in line for line in client.admin.command("getLog", "global")["log"]))
    client.drop_database("probe_profile")


@probe("standalone", "cmd.currentop", "cmd.killop", "diag.currentop")
def operations(client):
    c = fresh(client, {"_id": 1})
    slow = {"$expr": {"$function": {"body": "function() { for (;;) {} }", "args": [], "lang": "js"}}}
    seen = []
    thread = threading.Thread(target=lambda: seen.append(code_of(lambda: c.find_one(slow, comment="to be killed"))))
    thread.start()
    running = []
    while not running:
        running = client.admin.command("currentOp", **{"command.comment": "to be killed"})["inprog"]
    fields(running[0], "opid op ns connectionId client active secs_running microsecs_running command host desc planSummary")
    equal(client.admin.command("killOp", 1, op=running[0]["opid"])["ok"], 1)
    thread.join(30)
    equal(seen, [11601])


@probe("standalone", "cmd.fsync", "cmd.fsyncunlock", "mnt.fsync")
def locked(client):
    fresh(client)
    equal(client.admin.command("fsync", 1, lock=True)["lockCount"], 1)
    done = []
    with MongoClient(*client.address) as other:
        thread = threading.Thread(target=lambda: done.append(other.test.probe.insert_one({"_id": 1})))
        thread.start()
        thread.join(0.2)
        waited = not done
        equal(client.admin.command("fsyncUnlock")["lockCount"], 0)
        thread.join(30)
    equal((waited, len(done)), (True, 1))


@probe("standalone", "cmd.failpoint", "cmd.sleep")
def test_commands(client):
    client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data={"failCommands": ["count"], "errorCode": 8})
    equal(code_of(lambda: client.test.command("count", "c")), 8)
    equal(client.test.command("count", "none")["n"], 0)
    equal(client.admin.command("sleep", 1, millis=1)["ok"], 1)


@probe("standalone", "cmd.plancachesetfilter", "cmd.plancachelistfilters", "cmd.plancacheclearfilters")
def index_filters(client):
    c = fresh(client, *({"_id": i, "a": i, "b": i} for i in range(20)))
    c.create_index("a", name="a_1")
    c.create_index([("a", 1), ("b", 1)], name="a_1_b_1")
    client.test.command("planCacheSetFilter", "probe", query={"a": 1}, indexes=["a_1_b_1"])
    equal(client.test.command("planCacheListFilters", "probe")["filters"][0]["indexes"], ["a_1_b_1"])
    need("a_1_b_1" in str(c.find({"a": 3}).explain()["queryPlanner"]["winningPlan"]))
    client.test.command("planCacheClearFilters", "probe")
    equal(client.test.command("planCacheListFilters", "probe")["filters"], [])


@probe("standalone", "cmd.setquerysettings", "cmd.removequerysettings", "agg.querysettings")
def query_settings(client):
    c = fresh(client, *({"_id": i, "a": i, "b": i} for i in range(20)))
    c.create_index("a")
    c.create_index([("a", 1), ("b", 1)])
    query = {"find": "probe", "filter": {"a": 1}, "$db": "test"}
    shape = client.admin.command("setQuerySettings", query, settings={"indexHints": {"ns": {"db": "test", "coll": "probe"}, "allowedIndexes": ["a_1_b_1"]}})
    listed = list(client.admin.aggregate([{"$querySettings": {}}]))
    need(any(s["queryShapeHash"] == shape["queryShapeHash"] for s in listed), listed)
    need("a_1_b_1" in str(c.find({"a": 3}).explain()["queryPlanner"]["winningPlan"]))
    client.admin.command("removeQuerySettings", shape["queryShapeHash"])
    equal(list(client.admin.aggregate([{"$querySettings": {}}])), [])



@probe("standalone", "cmd.startsession", "cmd.refreshsessions", "cmd.endsessions", "cmd.killsessions", "cmd.killallsessions", "cmd.killallsessionsbypattern",
       "ses.implicit")
def sessions(client):
    started = client.test.command("startSession")
    equal(started["timeoutMinutes"], 30)
    equal(client.test.command("refreshSessions", [started["id"]])["ok"], 1)
    fresh(client, *({"_id": i} for i in range(9)))
    for end in (lambda s: client.test.command("killSessions", [s]), lambda s: client.test.command("killAllSessionsByPattern", [{}]), lambda s: client.test.command("killAllSessions", [])):
        with client.start_session() as session:
            cursor = client.test.command("find", "probe", batchSize=2, session=session)["cursor"]["id"]
            end(session.session_id)
            equal(code_of(lambda: client.test.command(SON([("getMore", cursor), ("collection", "probe")]), session=session)), 43)
    equal(client.test.command("endSessions", [started["id"]])["ok"], 1)


@probe("standalone", "cmd.getnonce", "cmd.logout")
def old_commands(client):
    need(len(client.test.command("getnonce")["nonce"]) >= 16)
    equal(client.test.command("logout")["ok"], 1)


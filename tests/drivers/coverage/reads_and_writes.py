"""Behaviour of insert, update, find and similar commands that no golden case covers."""
import datetime
import time

from bson import SON, Int64, ObjectId, Timestamp
from pymongo import ReturnDocument, UpdateOne

from probes import code_of, equal, need, probe


def fresh(client, *documents, name="probe"):
    c = client.test[name]
    c.drop()
    if documents:
        c.insert_many(list(documents))
    return c


@probe("standalone", "cmd.insert.ts", "u.replacement.ts")
def zero_timestamps(client):
    c = fresh(client)
    client.test.command("insert", "probe", documents=[SON(_id=1, a=Timestamp(0, 0), b={"c": Timestamp(0, 0)})])
    stored = c.find_one()
    need(stored["a"].time > 1_600_000_000 and stored["b"]["c"] == Timestamp(0, 0), stored)
    c.replace_one({"_id": 1}, {"a": Timestamp(0, 0)})
    need(c.find_one()["a"].time > 1_600_000_000)


@probe("standalone", "cmd.insert.id", "cmd.insert.dollar", "cmd.insert.dup_fields", "q.sem.empty_key")
def odd_documents(client):
    from bson.raw_bson import RawBSONDocument
    import bson
    c = fresh(client)
    client.test.command("insert", "probe", documents=[SON([("a.b", 1), ("$c", 2), ("", 3), ("_id", 1)])])
    equal(list(c.find_one().items()), [("_id", 1), ("a.b", 1), ("$c", 2), ("", 3)])
    equal(c.count_documents({"": 3}), 1)
    body = bson.encode({"_id": 2, "x": 1})[4:-1] + bson.encode({"x": 2})[4:]
    twice = RawBSONDocument((4 + len(body)).to_bytes(4, "little") + body)
    client.test.command("insert", "probe", documents=[twice])
    client.test.command("insert", "probe", documents=[{"n": 1}])
    need(isinstance(c.find_one({"n": 1})["_id"], ObjectId))
    equal(c.count_documents({"_id": 2, "x": 1}), 1)


@probe("standalone", "cmd.update.modes", "cmd.update.upsert", "u.pipeline.upsertsupplied", "u.empty_mod", "u.sort")
def updates(client):
    c = fresh(client, {"_id": 1, "n": 1}, {"_id": 2, "n": 2})
    equal(c.update_one({"_id": 1}, {"$inc": {"n": 5}}).modified_count, 1)
    equal(c.replace_one({"_id": 1}, {"r": 1}).modified_count, 1)
    c.update_one({"_id": 1}, [{"$set": {"s": {"$add": ["$r", 1]}}}])
    equal(c.find_one(1), {"_id": 1, "r": 1, "s": 2})
    equal(c.update_one({"_id": 9, "k": 1}, {"$setOnInsert": {"z": 1}}, upsert=True).upserted_id, 9)
    equal(c.find_one(9), {"_id": 9, "k": 1, "z": 1})
    client.test.command("update", "probe", updates=[{"q": {"_id": 10}, "u": [{"$replaceWith": "$$new"}], "c": {"new": {"_id": 10, "made": True}},
                                                     "upsert": True, "upsertSupplied": True}])
    equal(c.find_one(10), {"_id": 10, "made": True})
    equal(client.test.command("update", "probe", updates=[{"q": {"_id": 2}, "u": {"$set": {}}}])["nModified"], 0)
    c.insert_many([{"_id": "a", "t": 3}, {"_id": "b", "t": 1}])
    c.update_one({"t": {"$gt": 0}}, {"$set": {"first": True}}, sort={"t": 1})
    equal(c.find_one({"first": True})["_id"], "b")


@probe("standalone", "u.size_limit")
def too_large(client):
    c = fresh(client, {"_id": 1, "s": "x" * 10_000_000})
    equal(code_of(lambda: client.test.command("findAndModify", "probe", query={"_id": 1}, update=[{"$set": {"t": "$s"}}])), 17419)
    equal(len(c.find_one(1)["s"]), 10_000_000)
    c.drop()


@probe("standalone", "cmd.bulkwrite", "wv.25")
def bulk_write(client):
    c = fresh(client, {"_id": 1, "n": 1})
    reply = client.admin.command(SON([("bulkWrite", 1), ("ops", [
        {"insert": 0, "document": {"_id": 2}}, {"update": 0, "filter": {}, "updateMods": {"$set": {"k": 1}}, "multi": True},
        {"delete": 0, "filter": {"_id": 1}}]), ("nsInfo", [{"ns": "test.probe"}])]))
    equal([reply[n] for n in ("nInserted", "nMatched", "nModified", "nDeleted", "nErrors")], [1, 2, 2, 1, 0])
    equal(list(c.find()), [{"_id": 2, "k": 1}])


@probe("standalone", "cmd.find.limits", "cmd.find.hint", "cmd.find.natural", "cmd.find.returnkey", "cmd.find.minmax", "cap.reverse", "plan.hint")
def find_options(client):
    c = fresh(client, *({"_id": i, "n": 9 - i} for i in range(10)))
    c.create_index("n")
    equal([d["_id"] for d in c.find().sort("_id", 1).skip(2).limit(-3)], [2, 3, 4])
    equal([d["n"] for d in c.find({}).hint("n_1").limit(2)], [0, 1])
    equal([d["_id"] for d in c.find().sort("$natural", -1).limit(2)], [9, 8])
    equal([d["n"] for d in c.find().hint([("n", 1)]).min([("n", 3)]).max([("n", 5)])], [3, 4])
    equal(client.test.command("find", "probe", hint={"n": 1}, returnKey=True, limit=1)["cursor"]["firstBatch"], [{"n": 0}])
    need(isinstance(client.test.command("find", "probe", showRecordId=True, limit=1)["cursor"]["firstBatch"][0]["$recordId"], int))
    equal(client.test.command("update", "probe", updates=[{"q": {"n": 3}, "u": {"$set": {"h": 1}}, "hint": "n_1"}])["n"], 1)
    equal(client.test.command("delete", "probe", deletes=[{"q": {"n": 3}, "limit": 1, "hint": {"n": 1}}])["n"], 1)
    equal(client.test.command("count", "probe", query={"n": {"$gte": 8}}, hint="n_1")["n"], 2)
    equal(client.test.command("distinct", "probe", key="n", query={"n": {"$lt": 2}}, hint="n_1")["values"], [0, 1])


@probe("standalone", "cmd.find.sort_mem", "agg.limits.memory", "par.sort")
def memory_of_sorts(client):
    c = fresh(client, *({"_id": i, "s": "x" * 1000} for i in range(200)))
    name = "internalQueryMaxBlockingSortMemoryUsageBytes"
    before = client.admin.command("setParameter", 1, **{name: 10_000})["was"]
    try:
        equal(code_of(lambda: client.test.command("find", "probe", sort={"s": 1}, allowDiskUse=False)), 292)
        equal(len(list(c.find().sort("s", 1).allow_disk_use(True))), 200)
        equal(len(list(c.aggregate([{"$sort": {"s": 1}}, {"$group": {"_id": "$_id"}}], allowDiskUse=True))), 200)
    finally:
        client.admin.command("setParameter", 1, **{name: before})


@probe("standalone", "cmd.getmore", "cmd.killcursors", "cursor.drop")
def cursors(client):
    fresh(client, *({"_id": i} for i in range(10)))
    reply = client.test.command("find", "probe", batchSize=4)["cursor"]
    again = client.test.command(SON([("getMore", Int64(reply["id"])), ("collection", "probe"), ("batchSize", 4)]))["cursor"]
    equal([d["_id"] for d in again["nextBatch"]], [4, 5, 6, 7])
    equal(client.test.command("killCursors", "probe", cursors=[reply["id"]])["cursorsKilled"], [reply["id"]])
    dropped = client.test.command("find", "probe", batchSize=4)["cursor"]["id"]
    client.test.probe.drop()
    equal(code_of(lambda: client.test.command(SON([("getMore", Int64(dropped)), ("collection", "probe")]))), 175)


@probe("standalone", "cursor.timeout", "par.cursortimeout")
def idle_cursors(client):
    fresh(client, *({"_id": i} for i in range(10)))
    set_to = client.admin.command("getParameter", 1, cursorTimeoutMillis=1, clientCursorMonitorFrequencySecs=1)
    equal((set_to["cursorTimeoutMillis"], set_to["clientCursorMonitorFrequencySecs"]), (600000, 4))
    client.admin.command("setParameter", 1, cursorTimeoutMillis=1)
    client.admin.command("setParameter", 1, clientCursorMonitorFrequencySecs=1)
    try:
        cursor = client.test.command("find", "probe", batchSize=2)["cursor"]["id"]
        until = time.monotonic() + 20
        timed_out = client.admin.command("serverStatus")["metrics"]["cursor"]["timedOut"]
        while time.monotonic() < until and client.admin.command("serverStatus")["metrics"]["cursor"]["timedOut"] == timed_out:
            time.sleep(0.05)
        equal(code_of(lambda: client.test.command(SON([("getMore", Int64(cursor)), ("collection", "probe")]))), 43)
    finally:
        client.admin.command("setParameter", 1, cursorTimeoutMillis=600000)
        client.admin.command("setParameter", 1, clientCursorMonitorFrequencySecs=4)


@probe("standalone", "cmd.common.maxtimems", "cmd.common.let")
def limits_of_time(client):
    fresh(client, *({"_id": i, "n": i % 3} for i in range(300)))
    slow = {"$expr": {"$function": {"body": "function() { for (;;) {} }", "args": [], "lang": "js"}}}
    equal(code_of(lambda: client.test.command("find", "probe", filter=slow, maxTimeMS=20)), 50)
    equal(client.test.command("find", "probe", filter={"$expr": {"$eq": ["$_id", "$$wanted"]}}, let={"wanted": 7})["cursor"]["firstBatch"], [{"_id": 7, "n": 1}])
    equal(client.test.command("delete", "probe", deletes=[{"q": {"$expr": {"$lt": ["$_id", "$$least"]}}, "limit": 0}], let={"least": 5})["n"], 5)


@probe("standalone", "proj.nested", "proj.expr", "proj.dollar_fields", "q.rand", "q.samplerate", "expr.samplerate", "q.sem.sort_stability", "q.sem.undefined")
def projections(client):
    c = fresh(client, {"_id": 1, "a": {"b": 1, "c": 2}, "s": "x"}, {"_id": 2, "a": {"b": 3}})
    equal(c.find_one({"_id": 1}, {"_id": 0, "a": {"b": 1}}), {"a": {"b": 1}})
    equal(c.find_one({"_id": 1}, {"_id": 0, "n": {"$add": ["$a.b", "$a.c"]}}), {"n": 3})
    equal(c.find_one({"_id": 1}, {"_id": 0, "n": "$a.b"}), {"n": 1})
    equal(c.count_documents({"$expr": {"$lt": [{"$rand": {}}, 1]}}), 2)
    equal((c.count_documents({"$sampleRate": 1}), c.count_documents({"$sampleRate": 0})), (2, 0))
    fresh(client, *({"_id": i, "k": i % 2} for i in range(50)))
    equal([d["_id"] for d in c.find().sort([("k", 1), ("_id", 1)])], list(range(0, 50, 2)) + list(range(1, 50, 2)))
    client.test.command("insert", "probe", documents=[{"_id": "dbref", "r": SON([("$ref", "c"), ("$id", 1)])}])
    equal(c.count_documents({"r.$id": 1}), 1)
    import bson
    from bson.raw_bson import RawBSONDocument
    fields = bson.encode({"_id": "undefined"})[4:-1] + b"\x06u\0\0"
    client.test.command("insert", "probe", documents=[RawBSONDocument((4 + len(fields)).to_bytes(4, "little") + fields)])
    equal(c.count_documents({"u": {"$type": 6}}), 1)




@probe("standalone", "view.ondemand", "agg.merge", "agg.out", "agg.set", "agg.unset", "agg.replacewith")
def written_by_pipelines(client):
    c = fresh(client, {"_id": 1, "n": 1}, {"_id": 2, "n": 2})
    out = client.test.probe_out
    out.drop()
    list(c.aggregate([{"$set": {"m": {"$multiply": ["$n", 10]}}}, {"$unset": "n"}, {"$out": "probe_out"}]))
    equal(list(out.find().sort("_id", 1)), [{"_id": 1, "m": 10}, {"_id": 2, "m": 20}])
    list(c.aggregate([{"$replaceWith": {"_id": "$_id", "m": "$n"}}, {"$merge": {"into": "probe_out", "whenMatched": "replace"}}]))
    equal(list(out.find().sort("_id", 1)), [{"_id": 1, "m": 1}, {"_id": 2, "m": 2}])
    c.insert_one({"_id": 3, "n": 3})
    list(c.aggregate([{"$merge": {"into": "probe_out", "on": "_id", "whenMatched": "keepExisting"}}]))
    equal(out.count_documents({}), 3)


@probe("standalone", "agg.currentop", "agg.indexstats", "stat.indexstats", "agg.listlocalsessions", "agg.bucketauto", "agg.geonear",
       "agg.plancachestats", "plan.cache", "cmd.plancacheclear")
def stages(client):
    c = fresh(client, *({"_id": i, "n": i % 5, "m": i, "at": [i, 0]} for i in range(20)))
    c.create_index("n")
    c.create_index("m")
    c.create_index([("at", "2d")])
    equal(len(list(c.find({"n": 1, "m": {"$gt": 2}}))), 3)
    list(c.find({"n": 1, "m": {"$gt": 2}}))
    need(any(s["name"] == "n_1" or s["name"] == "m_1" for s in c.aggregate([{"$indexStats": {}}]) if s["accesses"]["ops"] > 0))
    need(list(c.aggregate([{"$planCacheStats": {}}])))
    equal(client.test.command("planCacheClear", "probe")["ok"], 1)
    equal(list(c.aggregate([{"$planCacheStats": {}}])), [])
    equal([b["count"] for b in c.aggregate([{"$bucketAuto": {"groupBy": "$_id", "buckets": 4}}])], [5, 5, 5, 5])
    near = list(c.aggregate([{"$geoNear": {"near": [3, 0], "distanceField": "d", "key": "at"}}, {"$limit": 2}]))
    equal((near[0]["_id"], near[0]["d"], near[1]["d"]), (3, 0.0, 1.0))
    need(any(o["op"] == "command" for o in client.admin.aggregate([{"$currentOp": {}}])))
    with client.start_session() as session:
        c.find_one(session=session)
        mine = [s["_id"]["id"] for s in client.test.aggregate([{"$listLocalSessions": {}}], session=session)]
        need(session.session_id["id"] in mine, mine)


@probe("standalone", "agg.setwindowfields")
def windows(client):
    c = fresh(client, *({"_id": i} for i in range(4)))
    equal([d["s"] for d in c.aggregate([{"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"s": {"$sum": "$_id", "window": {"documents": [-1, 0]}}}}}])], [0, 1, 3, 5])


@probe("standalone", "agg.limits.doc", "agg.limits.stages")
def bounds_of_pipelines(client):
    c = fresh(client, {"_id": 1, "s": "x" * 9_000_000})
    equal(code_of(lambda: list(c.aggregate([{"$project": {"a": "$s", "b": "$s"}}]))), 10334)
    equal(len(list(c.aggregate([{"$project": {"a": "$s", "b": "$s"}}, {"$project": {"a": 1}}]))[0]["a"]), 9_000_000)
    c.drop()
    c.insert_one({"_id": 1})
    equal(len(list(c.aggregate([{"$set": {"a": i}} for i in range(1000)]))), 1)
    equal(code_of(lambda: list(c.aggregate([{"$set": {"a": i}} for i in range(1001)]))), 7749501)


@probe("standalone", "agg.explain", "explain.top", "explain.qp", "explain.exec", "explain.stages", "explain.bounds", "plan.queryframework", "plan.express",
       "plan.sort", "plan.or", "cmd.explain")
def explained(client):
    c = fresh(client, *({"_id": i, "a": i % 7, "b": i} for i in range(100)))
    c.create_index([("a", 1), ("b", 1)])
    c.create_index("b")
    plan = client.test.command("explain", {"find": "probe", "filter": {"a": 3}, "sort": {"b": 1}}, verbosity="executionStats")
    need({"explainVersion", "queryPlanner", "executionStats", "command", "serverInfo", "serverParameters", "ok"} <= set(plan), sorted(plan))
    scan = plan["queryPlanner"]["winningPlan"]["inputStage"]
    equal((scan["stage"], scan["indexName"], scan["indexBounds"]["b"]), ("IXSCAN", "a_1_b_1", ["[MinKey, MaxKey]"]))
    need(scan["indexBounds"]["a"][0].startswith("[3"), scan["indexBounds"])
    equal([plan["executionStats"][n] for n in ("nReturned", "totalKeysExamined", "totalDocsExamined")], [14, 14, 14])
    need({"namespace", "parsedQuery", "planCacheKey", "rejectedPlans"} <= set(plan["queryPlanner"]), plan["queryPlanner"])
    text = str(client.test.command("explain", {"find": "probe", "filter": {"$or": [{"a": 1, "b": 1}, {"b": 5}]}}, verbosity="queryPlanner"))
    need("'OR'" in text and text.count("IXSCAN") >= 2, text)
    need("EXPRESS_IXSCAN" in str(c.find({"_id": 1}).explain()))
    need("SORT_MERGE" in str(c.find({"a": {"$in": [1, 2]}}).sort("b", 1).explain()))
    piped = client.test.command("explain", {"aggregate": "probe", "pipeline": [{"$match": {"a": 1}}, {"$group": {"_id": "$b"}}], "cursor": {}}, verbosity="queryPlanner")
    need("_SCAN" in str(piped) and ("$group" in str(piped) or "GROUP" in str(piped)), piped)


@probe("standalone", "plan.intersect")
def intersected(client):
    c = fresh(client, *({"_id": i, "a": i % 100, "b": i % 97} for i in range(5000)))
    c.create_index("a")
    c.create_index("b")
    plan = str(c.find({"a": 5, "b": 5}).explain())
    need("AND_SORTED" in plan or "AND_HASH" in plan, plan)


@probe("standalone", "val.errinfo")
def why_a_document_fails(client):
    client.test.drop_collection("validated")
    client.test.create_collection("validated", validator={"$jsonSchema": {"required": ["n"], "properties": {"n": {"bsonType": "int"}}}})
    reply = client.test.command("insert", "validated", documents=[{"_id": 1, "n": "x"}])
    error = reply["writeErrors"][0]
    equal((error["code"], error["errInfo"]["details"]["operatorName"]), (121, "$jsonSchema"))


@probe("standalone", "gfs.collections")
def files(client):
    import gridfs
    client.drop_database("probe_files")
    fs = gridfs.GridFSBucket(client.probe_files, chunk_size_bytes=1000)
    ident = fs.upload_from_stream("f", b"abc" * 1000)
    equal((fs.open_download_stream(ident).read(), client.probe_files["fs.chunks"].count_documents({})), (b"abc" * 1000, 3))
    client.drop_database("probe_files")


@probe("standalone", "sec.js", "conf.sec.js")
def scripts(client):
    c = fresh(client, {"_id": 1, "n": 2}, {"_id": 2, "n": 3})
    equal([d["_id"] for d in c.find({"$where": "this.n % 2 == 1"})], [2])
    equal(next(c.aggregate([{"$project": {"r": {"$function": {"body": "function(n) { return n * n }", "args": ["$n"], "lang": "js"}}}}]))["r"], 4)


@probe("standalone", "ops.ttl", "par.ttl")
def expiry(client):
    c = fresh(client, {"_id": 1, "at": datetime.datetime(2000, 1, 1)}, {"_id": 2, "at": datetime.datetime(2100, 1, 1)})
    client.admin.command("setParameter", 1, ttlMonitorSleepSecs=1)
    c.create_index("at", expireAfterSeconds=10)
    until = time.monotonic() + 20
    while time.monotonic() < until and c.count_documents({}) == 2:
        time.sleep(0.05)
    equal([d["_id"] for d in c.find()], [2])
    client.admin.command("setParameter", 1, ttlMonitorEnabled=False)
    equal(client.admin.command("getParameter", 1, ttlMonitorEnabled=1)["ttlMonitorEnabled"], False)
    client.admin.command("setParameter", 1, ttlMonitorEnabled=True)


@probe("standalone", "wv.1_2", "wv.3", "wv.4", "wv.5", "wv.9", "wv.18_20")
def wire_versions(client):
    """The features that each wire version promises to a driver; the larger ones have probes of their own."""
    from bson import Decimal128
    c = fresh(client, {"_id": 1, "d": Decimal128("1.5"), "x": 12})
    equal(next(c.aggregate([{"$match": {"x": 12}}], batchSize=1))["_id"], 1)
    equal([i["name"] for i in client.test.command("listIndexes", "probe")["cursor"]["firstBatch"]], ["_id_"])
    equal(client.test.command("listCollections", filter={"name": "probe"})["cursor"]["firstBatch"][0]["name"], "probe")
    equal(client.test.command("findAndModify", "probe", query={}, update={"$inc": {"x": 1}}, writeConcern={"w": 1})["value"]["x"], 12)
    equal(client.test.command("find", "probe", readConcern={"level": "local"}, collation={"locale": "en"})["cursor"]["firstBatch"][0]["d"], Decimal128("1.5"))
    client.test.drop_collection("probe_view")
    client.test.command("create", "probe_view", viewOn="probe", pipeline=[{"$project": {"x": 1}}])
    equal(client.test.probe_view.find_one(), {"_id": 1, "x": 13})
    client.test.drop_collection("probe_view")
    equal(c.find_one_and_update({"x": 13}, {"$set": {"y": 1}}, hint="_id_", return_document=ReturnDocument.AFTER)["y"], 1)
    equal(c.count_documents({"$expr": {"$eq": [{"$bitAnd": ["$x", 4]}, 4]}}), 1)
    equal(c.count_documents({"s": {"$regex": "^é$", "$options": "i"}}), 0)
    equal(client.test.command("validate", "probe", checkBSONConformance=True)["valid"], True)


@probe("standalone", "wv.stable_api", "wv.stable_api.v1_cmds")
def stable_api(client):
    fresh(client, {"_id": 1})
    v1 = {"apiVersion": "1", "apiStrict": True, "apiDeprecationErrors": True}
    equal(client.test.command("find", "probe", **v1)["cursor"]["firstBatch"], [{"_id": 1}])
    equal(client.test.command("insert", "probe", documents=[{"_id": 2}], **v1)["n"], 1)
    equal(client.test.command("count", "probe", **v1)["n"], 2)
    equal(client.test.command("aggregate", "probe", pipeline=[{"$match": {"_id": 2}}], cursor={}, **v1)["cursor"]["firstBatch"], [{"_id": 2}])
    equal(client.test.command("update", "probe", updates=[{"q": {"_id": 2}, "u": {"$set": {"n": 1}}}], **v1)["nModified"], 1)
    equal(client.test.command("delete", "probe", deletes=[{"q": {"_id": 2}, "limit": 1}], **v1)["n"], 1)
    for name in ("ping", "hello", "listCollections"):
        equal(client.test.command(name, 1, **v1)["ok"], 1)
    equal(client.admin.command("listDatabases", 1, **v1)["ok"], 1)
    equal(code_of(lambda: client.test.command("distinct", "probe", key="a", **v1)), 323)
    equal(code_of(lambda: client.test.command("ping", 1, apiVersion="2")), 322)


@probe("standalone", "expr.currentdate")
def the_time_now(client):
    c = fresh(client, {"_id": 1})
    seen = next(c.aggregate([{"$project": {"r": {"$type": {"$currentDate": {}}}}}]))
    equal(seen["r"], "date")

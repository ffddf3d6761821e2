"""The typical operations of an application through pymongo: crud.py URI. Prints each failure and a count."""
import datetime
import os
import re
import struct
import sys
import threading
import uuid

import bson
import gridfs
import pymongo
from bson import (Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, SON, Timestamp)
from bson.raw_bson import RawBSONDocument
from pymongo import (ASCENDING, DESCENDING, DeleteMany, DeleteOne, IndexModel, InsertOne, MongoClient, ReplaceOne,
                     ReturnDocument, UpdateMany, UpdateOne)
from pymongo.collation import Collation
from pymongo.errors import BulkWriteError, CollectionInvalid, CursorNotFound, DuplicateKeyError, OperationFailure
from pymongo.write_concern import WriteConcern

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, fails, finish, section, wait_until  # noqa: E402



def handshake(client, db):
    hello = client.admin.command("hello")
    check("hello is writable", hello["isWritablePrimary"] is True)
    check("wire versions", hello["minWireVersion"] == 0 and hello["maxWireVersion"] == 25, hello)
    equal("document limit", hello["maxBsonObjectSize"], 16777216)
    equal("message limit", hello["maxMessageSizeBytes"], 48000000)
    equal("batch limit", hello["maxWriteBatchSize"], 100000)
    info = client.server_info()
    check("version 8.0", info["version"].startswith("8.0"), info["version"])
    check("names Nagi", any("nagi" in str(k).lower() or "nagi" in str(v).lower() for k, v in info.items()), info)
    equal("ping", client.admin.command("ping")["ok"], 1.0)
    check("whatsmyuri", ":" in client.admin.command("whatsmyuri")["you"])
    check("connectionStatus", "authInfo" in client.admin.command("connectionStatus"))
    check("hostInfo", "system" in client.admin.command("hostInfo"))
    check("getLog", isinstance(client.admin.command("getLog", "global")["log"], list))
    check("getCmdLineOpts", "argv" in client.admin.command("getCmdLineOpts"))
    status = client.admin.command("serverStatus")
    check("serverStatus", status["uptime"] >= 0 and "connections" in status and "opcounters" in status)


def insert_find(client, db):
    c = db.people
    r = c.insert_one({"_id": 1, "name": "Ada", "born": 1815, "tags": ["x", "y"]})
    check("insert_one", r.acknowledged and r.inserted_id == 1)
    r = c.insert_many([{"_id": i, "name": "n%d" % i, "born": 1800 + i, "n": {"a": i % 3}} for i in range(2, 12)])
    equal("insert_many", r.inserted_ids, list(range(2, 12)))
    equal("find_one by _id", c.find_one({"_id": 1}), {"_id": 1, "name": "Ada", "born": 1815, "tags": ["x", "y"]})
    equal("find_one by int as double", c.find_one(1.0)["name"], "Ada")
    equal("find_one nothing", c.find_one({"_id": 99}), None)
    equal("gt", c.count_documents({"born": {"$gt": 1805}}), 7)
    equal("dotted", c.count_documents({"n.a": 0}), 3)
    equal("array element", c.count_documents({"tags": "y"}), 1)
    equal("or", c.count_documents({"$or": [{"_id": 1}, {"born": 1803}]}), 2)
    equal("in", [d["_id"] for d in c.find({"_id": {"$in": [5, 3, 77]}}).sort("_id")], [3, 5])
    equal("regex", c.count_documents({"name": re.compile("^N1", re.I)}), 2)
    equal("missing is null", c.count_documents({"tags": None}), 10)
    equal("sort descending, skip, limit", [d["_id"] for d in c.find().sort("born", DESCENDING).skip(1).limit(3)],
          [11, 10, 9])
    equal("inclusion", c.find_one({"_id": 1}, {"name": 1}), {"_id": 1, "name": "Ada"})
    equal("inclusion without _id", c.find_one({"_id": 1}, {"name": 1, "_id": 0}), {"name": "Ada"})
    equal("exclusion", c.find_one({"_id": 2}, {"n": 0}), {"_id": 2, "name": "n2", "born": 1802})
    equal("slice", c.find_one({"_id": 1}, {"tags": {"$slice": -1}, "name": 1})["tags"], ["y"])
    equal("elemMatch projection", c.find_one({"_id": 1}, {"tags": {"$elemMatch": {"$gt": "x"}}}), {"_id": 1, "tags": ["y"]})
    equal("estimated count", c.estimated_document_count(), 11)
    equal("distinct", sorted(c.distinct("n.a")), [0, 1, 2])
    equal("distinct with filter", c.distinct("name", {"_id": {"$lte": 1}}), ["Ada"])
    r = db.generated.insert_one({})
    check("generated ObjectId", isinstance(r.inserted_id, ObjectId))
    equal("comment and maxTimeMS", len(list(c.find({}, comment="c", max_time_ms=5000))), 11)
    equal("field order", list(c.find_one({"_id": 1})), ["_id", "name", "born", "tags"])


def updates(client, db):
    c = db.updates
    c.insert_many([{"_id": i, "a": i, "l": [1, 2, 3]} for i in range(5)])
    r = c.update_one({"_id": 1}, {"$set": {"a": 10, "n.x": 1}, "$inc": {"z": 2}, "$push": {"l": {"$each": [9, 8], "$sort": 1}}})
    check("update_one", (r.matched_count, r.modified_count) == (1, 1), r.raw_result)
    equal("result of update", c.find_one(1), {"_id": 1, "a": 10, "l": [1, 2, 3, 8, 9], "n": {"x": 1}, "z": 2})
    r = c.update_one({"_id": 1}, {"$set": {"a": 10}})
    check("no-op", (r.matched_count, r.modified_count) == (1, 0), r.raw_result)
    r = c.update_many({"a": {"$gte": 2}}, {"$mul": {"a": 2}, "$unset": {"z": ""}})
    check("update_many", (r.matched_count, r.modified_count) == (4, 4), r.raw_result)
    r = c.update_one({"_id": 77, "k": "v"}, {"$set": {"b": 1}, "$setOnInsert": {"s": 2}}, upsert=True)
    check("upsert", r.upserted_id == 77 and r.matched_count == 0, r.raw_result)
    equal("upserted", c.find_one(77), {"_id": 77, "k": "v", "b": 1, "s": 2})
    r = c.replace_one({"_id": 77}, {"only": 1})
    equal("replaced", c.find_one(77), {"_id": 77, "only": 1})
    r = c.update_many({}, {"$pull": {"l": {"$gt": 2}}, "$addToSet": {"t": "x"}, "$currentDate": {"when": True}})
    equal("pull", c.find_one(1)["l"], [1, 2])
    check("currentDate", isinstance(c.find_one(1)["when"], datetime.datetime))
    c.insert_one({"_id": "arr", "g": [{"k": 1, "v": 0}, {"k": 2, "v": 0}, {"k": 3, "v": 0}]})
    c.update_one({"_id": "arr"}, {"$set": {"g.$[e].v": 5}}, array_filters=[{"e.k": {"$gte": 2}}])
    equal("arrayFilters", [g["v"] for g in c.find_one("arr")["g"]], [0, 5, 5])
    c.update_one({"_id": "arr", "g.k": 3}, {"$set": {"g.$.v": 7}})
    equal("positional", [g["v"] for g in c.find_one("arr")["g"]], [0, 5, 7])
    c.update_one({"_id": "arr"}, {"$inc": {"g.$[].v": 1}})
    equal("all positional", [g["v"] for g in c.find_one("arr")["g"]], [1, 6, 8])
    c.update_one({"_id": 2}, [{"$set": {"sum": {"$add": ["$a", 1]}}}])
    equal("pipeline update", c.find_one(2)["sum"], c.find_one(2)["a"] + 1)
    d = c.find_one_and_update({"_id": 3}, {"$rename": {"a": "b"}}, return_document=ReturnDocument.AFTER)
    check("findAndModify after", "a" not in d and "b" in d, d)
    d = c.find_one_and_update({"_id": 3}, {"$min": {"b": -5}, "$max": {"m": 3}}, projection={"b": 1})
    check("findAndModify before", d["b"] != -5, d)
    d = c.find_one_and_delete({"_id": {"$in": [3, 4]}}, sort=[("_id", -1)])
    equal("find_one_and_delete", d["_id"], 4)
    d = c.find_one_and_replace({"_id": 500}, {"r": 1}, upsert=True, return_document=ReturnDocument.AFTER)
    equal("find_one_and_replace upsert", d, {"_id": 500, "r": 1})
    r = c.delete_one({"_id": 500})
    equal("delete_one", r.deleted_count, 1)
    r = c.delete_many({"_id": {"$type": "int"}})
    equal("delete_many", (r.deleted_count, c.count_documents({})), (5, 1))


def errors(client, db):
    c = db.errors
    c.create_index([("u", 1)], unique=True)
    c.insert_one({"_id": 1, "u": "a", "n": "text"})
    e = fails("duplicate _id", 11000, lambda: c.insert_one({"_id": 1, "u": "z"}), DuplicateKeyError)
    equal("keyPattern", e.details["keyPattern"], {"_id": 1})
    equal("keyValue", e.details["keyValue"], {"_id": 1})
    check("E11000 text", "E11000 duplicate key error collection: %s.errors index: _id_ dup key: { _id: 1 }" % db.name in
          e.details["errmsg"], e.details["errmsg"])
    e = fails("duplicate unique", 11000, lambda: c.insert_one({"_id": 2, "u": "a"}), DuplicateKeyError)
    equal("unique keyPattern", (e.details["keyPattern"], e.details["keyValue"]), ({"u": 1}, {"u": "a"}))
    c.insert_one({"_id": 3, "u": "b"})
    fails("duplicate by update", 11000, lambda: c.update_one({"_id": 3}, {"$set": {"u": "a"}}), DuplicateKeyError)
    e = fails("unordered batch", 11000, lambda: c.insert_many([{"_id": 1, "u": 1}, {"_id": 8, "u": 8}, {"_id": 9, "u": "a"}],
                                                              ordered=False), BulkWriteError)
    equal("unordered goes on", (e.details["nInserted"], [w["index"] for w in e.details["writeErrors"]]), (1, [0, 2]))
    e = fails("ordered batch", 11000, lambda: c.insert_many([{"_id": 20, "u": 20}, {"_id": 1}, {"_id": 21, "u": 21}]),
              BulkWriteError)
    equal("ordered stops", (e.details["nInserted"], c.count_documents({"_id": 21})), (1, 0))
    e = fails("unknown command", 59, lambda: db.command("noSuchThing", 1))
    check("unknown command text", "no such command: 'noSuchThing'" in str(e), str(e))
    fails("unknown argument", 40415, lambda: db.command({"find": "errors", "foo": 1}))
    fails("wrong type", 14, lambda: db.command({"find": "errors", "filter": "x"}))
    fails("unknown query operator", 2, lambda: list(c.find({"a": {"$foo": 1}})))
    fails("unknown top level operator", 2, lambda: list(c.find({"$foo": 1})))
    fails("unknown modifier", 9, lambda: c.update_one({}, {"$foo": {"a": 1}}))
    fails("unknown stage", 40324, lambda: list(c.aggregate([{"$foo": 1}])))
    fails("unknown expression", 31325, lambda: list(c.aggregate([{"$project": {"a": {"$foo": 1}}}])))
    fails("inc of a string", 14, lambda: c.update_one({"_id": 1}, {"$inc": {"n": 1}}))
    fails("immutable _id", 66, lambda: c.update_one({"_id": 1}, {"$set": {"_id": 2}}))
    fails("conflicting paths", 40, lambda: c.update_one({"_id": 1}, {"$set": {"a": 1}, "$inc": {"a": 1}}))
    fails("push to non-array", 2, lambda: c.update_one({"_id": 1}, {"$push": {"n": 1}}))
    fails("mixed projection", 31254, lambda: c.find_one({}, {"a": 1, "b": 0}))
    fails("bad sort", 15975, lambda: list(c.find().sort([("a", 7)])))
    fails("missing collection for rename", 26, lambda: db.nothere.rename("elsewhere"))
    fails("unknown index to drop", 27, lambda: c.drop_index("nope_1"))
    fails("hint of a missing index", 2, lambda: list(c.find({}, hint="nope_1")))
    fails("admin only", 13, lambda: db.command("listDatabases"))
    fails("bad namespace", 73, lambda: db.command({"insert": "", "documents": [{}]}))
    check("document too large", too_large(c))
    fails("create twice", 48, lambda: db.command("create", "errors", capped=True, size=4096))
    fails("unset lacks array filter", 2, lambda: c.update_one({"_id": 1}, {"$set": {"g.$[x]": 1}}))


def too_large(c):
    try:
        c.insert_one({"x": "y" * 16777300})
    except (pymongo.errors.DocumentTooLarge, OperationFailure):
        return True
    return False


def cursors(client, db):
    c = db.many
    c.insert_many([{"_id": i, "pad": "x" * 100} for i in range(25000)])
    equal("default batches", sum(1 for _ in c.find()), 25000)
    equal("small batches", sum(1 for _ in c.find({}, batch_size=37)), 25000)
    equal("order over batches", [d["_id"] for d in c.find({}, batch_size=1000).sort("_id", -1)], list(range(24999, -1, -1)))
    equal("limit over batches", sum(1 for _ in c.find({}, batch_size=10, limit=555)), 555)
    equal("aggregate over batches", sum(1 for _ in c.aggregate([{"$match": {"_id": {"$gte": 5000}}}], batchSize=100)), 20000)
    cur = c.find({}, batch_size=10)
    next(cur)
    check("cursor id", cur.cursor_id != 0)
    r = db.command({"killCursors": "many", "cursors": [Int64(cur.cursor_id), Int64(12345)]})
    equal("killCursors", (r["cursorsKilled"], r["cursorsNotFound"]), ([cur.cursor_id], [12345]))
    fails("getMore of a dead cursor", 43, lambda: list(cur), CursorNotFound)
    r = db.command({"find": "many", "batchSize": 0})
    equal("batchSize 0", (r["cursor"]["firstBatch"], r["cursor"]["id"] != 0), ([], True))
    r = db.command({"getMore": r["cursor"]["id"], "collection": "many", "batchSize": 3})
    equal("getMore", (len(r["cursor"]["nextBatch"]), r["cursor"]["ns"]), (3, db.name + ".many"))
    r = db.command({"find": "many", "batchSize": 2, "singleBatch": True})
    equal("singleBatch", (len(r["cursor"]["firstBatch"]), r["cursor"]["id"]), (2, 0))
    big = db.big
    big.insert_many([{"_id": i, "x": "z" * (1 << 20)} for i in range(40)])
    equal("batches of 16 MB", sum(len(d["x"]) for d in big.find()), 40 << 20)
    big.drop()
    raw = list(c.find_raw_batches({"_id": {"$lt": 300}}))
    equal("raw batches", sum(len(bson.decode_all(b)) for b in raw), 300)


def bulk(client, db):
    c = db.bulk
    r = c.bulk_write([InsertOne({"_id": 1}), InsertOne({"_id": 2}), UpdateOne({"_id": 1}, {"$set": {"a": 1}}),
                      UpdateMany({}, {"$set": {"b": 1}}), ReplaceOne({"_id": 3}, {"c": 1}, upsert=True),
                      DeleteOne({"_id": 2}), DeleteMany({"none": 1})])
    equal("bulk counts", (r.inserted_count, r.matched_count, r.modified_count, r.deleted_count, r.upserted_ids),
          (2, 3, 3, 1, {4: 3}))
    r = c.bulk_write([UpdateOne({"_id": i % 500}, {"$inc": {"n": 1}}, upsert=True) for i in range(5000)], ordered=False)
    check("bulk upserts", r.upserted_count + r.matched_count == 5000, r.bulk_api_result)
    equal("bulk sum", sum(d.get("n", 0) for d in c.find()), 5000)
    e = fails("bulk error", 11000, lambda: c.bulk_write([InsertOne({"_id": 1}), DeleteOne({"_id": 3})]), BulkWriteError)
    equal("ordered bulk stops", c.count_documents({"_id": 3}), 1)
    db.w0.with_options(write_concern=WriteConcern(w=0)).insert_many([{"_id": i} for i in range(10)])
    db.command("ping")
    check("w: 0", wait_until(lambda: db.w0.count_documents({}) == 10))
    c.with_options(write_concern=WriteConcern(w="majority", j=True)).insert_one({"_id": "m"})
    equal("w: majority, j", c.count_documents({"_id": "m"}), 1)


def types(client, db):
    oid, now = ObjectId("64b7f0f0f0f0f0f0f0f0f0f0"), datetime.datetime(2024, 2, 29, 12, 34, 56, 789000)
    cases = {
        "double": 1.5, "negative zero": -0.0, "infinity": float("inf"), "denormal": 5e-324, "string": "gr\u00fc\u00df \U0001f600",
        "empty string": "", "nul inside": "a\0b", "object": {"a": {"b": {}}}, "array": [1, [2, []], {"x": None}],
        "binary": Binary(b"\0\1\2", 0), "function": Binary(b"f", 1), "old binary": Binary(b"abc", 2),
        "uuid": Binary(uuid.UUID(int=7).bytes, 4), "uuid legacy": Binary(uuid.UUID(int=8).bytes, 3), "md5": Binary(b"m" * 16, 5),
        "vector": Binary(b"\x03\0\1\2", 9), "user": Binary(b"u", 128), "objectid": oid, "true": True, "false": False, "date": now,
        "old date": datetime.datetime(1900, 1, 1), "null": None, "regex": Regex("^a.*b$", "imsx"), "dbref": DBRef("c", oid, "d"),
        "code": Code("return 1"), "code with scope": Code("return x", {"x": 1}), "int32": -2147483648, "int64": Int64(5),
        "int64 max": 9223372036854775807, "timestamp": Timestamp(4294967295, 4294967295), "decimal": Decimal128("1.10"),
        "decimal nan": Decimal128("NaN"), "decimal inf": Decimal128("-Infinity"),
        "decimal digits": Decimal128("9.999999999999999999999999999999999E+6144"), "minkey": MinKey(), "maxkey": MaxKey(),
    }
    raw = db.get_collection("types", codec_options=bson.CodecOptions(document_class=RawBSONDocument))
    for i, (name, value) in enumerate(cases.items()):
        data = bson.encode(SON([("_id", i), ("v", value)]))
        raw.insert_one(RawBSONDocument(data))
        check("bytes of " + name, raw.find_one({"_id": i}).raw == data, raw.find_one({"_id": i}))
        if name not in ("regex",):
            check("equality of " + name, raw.count_documents({"_id": i, "v": value}) == 1)
    for i, (name, tag, payload) in enumerate([
            ("undefined", 6, b""), ("symbol", 14, struct.pack("<i", 4) + b"sym\0"),
            ("dbpointer", 12, struct.pack("<i", 4) + b"a.b\0" + oid.binary),
            ("nan", 1, struct.pack("<Q", 0xFFF8000000000001))]):
        body = b"\x10_id\0" + struct.pack("<i", 1000 + i) + bytes([tag]) + b"v\0" + payload + b"\0"
        data = struct.pack("<i", len(body) + 4) + body
        raw.insert_one(RawBSONDocument(data))
        check("bytes of " + name, raw.find_one({"_id": 1000 + i}).raw == data)
    equal("numbers of one kind", db.types.count_documents({"v": {"$type": "number"}}), 13)  # one of them an element of an array
    order = [d["_id"] for d in db.types.find({"_id": {"$lt": 1000}}, {"_id": 1}).sort("v", 1)]
    check("order begins with MinKey or empty array", order[0] in (list(cases).index("minkey"), list(cases).index("array")))
    equal("order ends with MaxKey", order[-1], list(cases).index("maxkey"))


def indexes(client, db):
    c = db.indexed
    c.insert_many([{"_id": i, "a": i % 10, "b": i % 7, "t": [i % 3, i % 5], "e": {"f": i}} for i in range(1000)])
    equal("create_index", c.create_index([("a", ASCENDING), ("b", DESCENDING)]), "a_1_b_-1")
    names = c.create_indexes([IndexModel("t"), IndexModel("e.f", unique=True), IndexModel("p", sparse=True),
                              IndexModel("b", partialFilterExpression={"a": {"$gt": 5}}, name="part")])
    equal("create_indexes", names, ["t_1", "e.f_1", "p_1", "part"])
    info = c.index_information()
    equal("index names", sorted(info), sorted(["_id_", "a_1_b_-1", "t_1", "e.f_1", "p_1", "part"]))
    check("index options", info["e.f_1"].get("unique") is True and info["p_1"].get("sparse") is True)
    equal("index query", c.count_documents({"a": 3, "b": {"$lt": 3}}), sum(1 for i in range(1000) if i % 10 == 3 and i % 7 < 3))
    equal("multikey query", c.count_documents({"t": 2}), sum(1 for i in range(1000) if 2 in (i % 3, i % 5)))
    equal("sorted by index", [d["e"]["f"] for d in c.find({"e.f": {"$gte": 990}}).sort("e.f", -1)], list(range(999, 989, -1)))
    plan = c.find({"a": 3}).explain()
    check("explain IXSCAN", "IXSCAN" in str(plan["queryPlanner"]["winningPlan"]), plan["queryPlanner"])
    check("explain executionStats", plan["executionStats"]["nReturned"] == 100, plan.get("executionStats"))
    plan = c.find({"zz": 3}).explain()
    check("explain COLLSCAN", "COLLSCAN" in str(plan["queryPlanner"]["winningPlan"]))
    equal("covered", [d for d in c.find({"a": 3}, {"_id": 0, "a": 1}).limit(1)], [{"a": 3}])
    equal("hint", len(list(c.find({"a": 3}, hint="a_1_b_-1"))), 100)
    c.drop_index("t_1")
    check("drop_index", "t_1" not in c.index_information())
    fails("unique on existing duplicates", 11000, lambda: c.create_index("a", unique=True))
    fails("same name, other keys", 86, lambda: c.create_index("x", name="part"))
    c.drop_indexes()
    equal("drop_indexes", list(c.index_information()), ["_id_"])
    equal("wildcard index", c.create_index([("$**", ASCENDING)], wildcardProjection={"b": 0}), "$**_1")
    equal("by a wildcard index", c.count_documents({"e.f": {"$gte": 990}}), 10)
    plan = c.find({"e.f": 7}).explain()["queryPlanner"]["winningPlan"]
    check("explain of a wildcard index", plan["inputStage"]["keyPattern"] == {"$_path": 1, "e.f": 1}, plan)
    check("what it leaves out", "COLLSCAN" in str(c.find({"b": 3}).explain()["queryPlanner"]["winningPlan"]))
    c.create_index("a")
    for a in (3, 4, 5):
        equal("plans are cached", len(list(c.find({"a": a, "e.f": {"$gte": 0}}))), 100)
    cached = list(c.aggregate([{"$planCacheStats": {}}]))
    check("$planCacheStats", len(cached) == 1 and cached[0]["isActive"] is True, cached)
    db.command("planCacheSetFilter", c.name, query={"a": 1, "e.f": 1}, indexes=["a_1"])
    check("index filter", c.find({"a": 3, "e.f": 3}).explain()["queryPlanner"]["indexFilterSet"] is True)
    db.command("planCacheClearFilters", c.name)
    admin = db.client.admin
    query = {"find": c.name, "filter": {"a": 1, "e.f": 1}, "$db": db.name}
    hints = {"ns": {"db": db.name, "coll": c.name}, "allowedIndexes": ["a_1"]}
    made = admin.command("setQuerySettings", query, settings={"indexHints": [hints], "comment": "why"})
    plan = c.find({"a": 3, "e.f": 3}).explain()
    equal("query settings are shown", plan["queryPlanner"]["querySettings"], made["settings"])
    equal("query shape hash", plan["queryShapeHash"], made["queryShapeHash"])
    check("query settings choose the index", "a_1" in str(plan["queryPlanner"]["winningPlan"]), plan)
    listed = list(admin.aggregate([{"$querySettings": {"showDebugQueryShape": True}}]))
    equal("$querySettings", [s["queryShapeHash"] for s in listed], [made["queryShapeHash"]])
    admin.command("setQuerySettings", made["queryShapeHash"], settings={"reject": True})
    fails("a rejected query", 411, lambda: list(c.find({"a": 4, "e.f": 4})))
    admin.command("removeQuerySettings", query)
    check("settings are gone", list(c.find({"a": 4, "e.f": 4})) is not None)
    c.drop_indexes()
    by_id = db.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True}, expireAfterSeconds=3600)
    by_id.insert_many([{"_id": i} for i in (3, 1, 2)])
    equal("a clustered collection is in order", [d["_id"] for d in by_id.find()], [1, 2, 3])
    check("its index", by_id.index_information()["_id_"].get("clustered") is True, by_id.index_information())
    plan = by_id.find({"_id": {"$gt": 1}}).explain()["queryPlanner"]["winningPlan"]
    check("explain of a clustered index", plan["stage"] == "CLUSTERED_IXSCAN" and plan["minRecord"] == 1, plan)
    fails("the clustered index stays", 5979800, lambda: by_id.drop_index("_id_"))
    equal("min and max", [d["_id"] for d in c.find().min([("_id", 3)]).max([("_id", 6)]).hint("_id_")], [3, 4, 5])


def texts(client, db):
    c = db.texts
    equal("create text index", c.create_index([("t", "text"), ("u", "text")], weights={"u": 5}), "t_text_u_text")
    c.insert_many([{"_id": 1, "t": "the quick brown fox", "u": "lazy"}, {"_id": 2, "t": "Foxes are quick and quicker", "u": "dog"},
                   {"_id": 3, "t": "dogs run", "u": "running fox"}, {"_id": 4, "t": "caf\u00e9 noir"}])
    info = c.index_information()["t_text_u_text"]
    equal("key of a text index", [list(pair) for pair in info["key"]], [["_fts", "text"], ["_ftsx", 1]])
    equal("weights", dict(info["weights"]), {"t": 1, "u": 5})
    score = {"score": {"$meta": "textScore"}}
    found = list(c.find({"$text": {"$search": "dog fox"}}, score).sort([("score", {"$meta": "textScore"})]))
    equal("by score", [d["_id"] for d in found], [2, 3, 1])
    equal("scores", [round(d["score"], 6) for d in found], [6.166667, 4.5, 0.666667])
    equal("phrase", [d["_id"] for d in c.find({"$text": {"$search": '"quick brown"'}})], [1])
    equal("negation", [d["_id"] for d in c.find({"$text": {"$search": "quick -brown"}})], [2])
    equal("no accents", [d["_id"] for d in c.find({"$text": {"$search": "CAFE"}})], [4])
    equal("counted", c.count_documents({"$text": {"$search": "fox"}}), 3)
    found = c.aggregate([{"$match": {"$text": {"$search": "fox"}}}, {"$sort": score}, {"$project": score}, {"$limit": 1}])
    equal("pipeline", [(d["_id"], d["score"]) for d in found], [(3, 3.75)])
    c.update_one({"$text": {"$search": "noir"}}, {"$set": {"t": "a fox"}})
    equal("updated", sorted(d["_id"] for d in c.find({"$text": {"$search": "fox"}})), [1, 2, 3, 4])
    check("valid", client[db.name].command("validate", "texts")["valid"])
    plan = c.find({"$text": {"$search": "fox"}}, score).explain()["queryPlanner"]["winningPlan"]
    check("explained", "TEXT_MATCH" in str(plan) and "TEXT_OR" in str(plan), plan)
    fails("second text index", 67, lambda: c.create_index([("x", 1), ("y", "text")]))
    fails("other text index", 85, lambda: c.create_index([("y", "text")]))
    fails("language", 2, lambda: list(c.find({"$text": {"$search": "x", "$language": "klingon"}})))
    fails("no text index", 27, lambda: list(db.nothing.find({"$text": {"$search": "x"}})))
    c = db.kinds
    c.create_index([("h", "hashed")])
    c.create_index("p", unique=True, partialFilterExpression={"p": {"$gt": 5}})
    c.create_index("s", unique=True, sparse=True)
    c.create_index("when", expireAfterSeconds=3600)
    c.insert_many([{"_id": i, "h": "x%d" % (i % 5), "p": 1} for i in range(20)])
    equal("hashed", c.count_documents({"h": "x3"}), 4)
    check("by hash", "IXSCAN" in str(c.find({"h": "x3"}).explain()["queryPlanner"]["winningPlan"]))
    fails("unique among some", 11000, lambda: c.insert_many([{"p": 7}, {"p": 7}]), kind=BulkWriteError)
    c.insert_one({"_id": "s", "s": 1})
    fails("unique where there", 11000, lambda: c.insert_one({"s": 1}))
    equal("ttl option", c.index_information()["when_1"]["expireAfterSeconds"], 3600)
    fails("hashed and unique", 16764, lambda: c.create_index([("q", "hashed")], unique=True))


def collations(client, db):
    nocase = Collation("en", strength=2)
    c = db.mails
    c.create_index("mail", unique=True, collation=nocase)
    c.insert_one({"_id": 1, "mail": "Ann@example.org"})
    error = fails("unique but for case", 11000, lambda: c.insert_one({"mail": "ann@EXAMPLE.org"}))
    check("the key of a collation", "CollationKey(0x" in error.details["errmsg"], error.details)
    equal("found in other case", c.find_one({"mail": "ANN@EXAMPLE.ORG"}, collation=nocase)["_id"], 1)
    equal("bytes without a collation", c.find_one({"mail": "ANN@EXAMPLE.ORG"}), None)
    plan = c.find({"mail": "ANN@example.org"}, collation=nocase).explain()["queryPlanner"]
    check("by the index", "IXSCAN" in str(plan["winningPlan"]), plan)
    equal("explained collation", plan["collation"]["strength"], 2)
    plan = c.find({"mail": "ANN@example.org"}).explain()["queryPlanner"]
    check("not by another collation's", "COLLSCAN" in str(plan["winningPlan"]), plan)
    c = db.parts
    c.insert_many([{"s": s} for s in ["a10", "a2", "a1"]])
    found = c.find().sort("s").collation(Collation("en", numericOrdering=True))
    equal("numbers in strings", [d["s"] for d in found], ["a1", "a2", "a10"])
    c = db.create_collection("mots", collation=Collation("fr", backwards=True))
    c.insert_many([{"s": s} for s in ["cote", "cot\u00e9", "c\u00f4te", "c\u00f4t\u00e9"]])
    equal("accents from behind", [d["s"] for d in c.find().sort("s")], ["cote", "c\u00f4te", "cot\u00e9", "c\u00f4t\u00e9"])
    equal("the default of a collection", c.options()["collation"]["backwards"], True)



def geometry(client, db):
    places = db.places
    places.insert_many([{"_id": i, "at": {"type": "Point", "coordinates": [i, 0]}, "flat": [i, 0]} for i in range(5)])
    places.create_index([("at", pymongo.GEOSPHERE)])
    places.create_index([("flat", pymongo.GEO2D)])
    here = {"type": "Point", "coordinates": [0, 0]}
    near = places.find({"at": {"$near": {"$geometry": here, "$maxDistance": 250_000}}})
    equal("nearest first, on the sphere", [d["_id"] for d in near], [0, 1, 2])
    equal("nearest first, in the plane", [d["_id"] for d in places.find({"flat": {"$near": [4, 0]}}).limit(2)], [4, 3])
    box = {"flat": {"$geoWithin": {"$box": [[0.5, -1], [2.5, 1]]}}}
    equal("within a box", places.count_documents(box), 2)
    stages = [
        {"$geoNear": {"near": here, "key": "at", "query": {"_id": {"$gt": 1}}}},
        {"$sort": {"x": {"$meta": "geoNearDistance"}}},
        {"$project": {"km": {"$round": [{"$divide": [{"$meta": "geoNearDistance"}, 1000]}, 0]}}},
    ]
    found = [(d["_id"], d["km"]) for d in places.aggregate(stages)]
    equal("distances behind $geoNear", found, [(4, 445.0), (3, 334.0), (2, 223.0)])
    negative = [{"$geoNear": {"near": here, "key": "at", "maxDistance": -1}}]
    error = fails("a negative distance", 2, lambda: list(places.aggregate(negative)))
    check("the text of a negative distance", "nonnegative" in str(error), error)
    fails("a distance that nobody measured", 40218, lambda: list(places.aggregate([{"$project": {"d": {"$meta": "geoNearDistance"}}}])))


def windows(client, db):
    c = db.readings
    rows = [(1, "a", 1.0), (2, "A", 3.0), (4, "a", None), (5, "b", 8.0), (7, "B", 2.0)]
    c.insert_many([{"_id": t, "s": s, "v": v} for t, s, v in rows])
    running = {"$sum": "$v", "window": {"documents": ["unbounded", "current"]}}
    stage = {"$setWindowFields": {"partitionBy": "$s", "sortBy": {"_id": 1}, "output": {"sum": running, "n": {"$rank": {}}}}}
    found = [(d["_id"], d["sum"], d["n"]) for d in c.aggregate([stage], collation=Collation("en", strength=2))]
    equal("windows under a collation", found, [(1, 1.0, 1), (2, 4.0, 2), (4, 4.0, 3), (5, 8.0, 1), (7, 10.0, 2)])
    equal("windows by bytes", len({d["sum"] for d in c.aggregate([stage])}), 4)
    filled = c.aggregate([{"$fill": {"sortBy": {"_id": 1}, "output": {"v": {"method": "linear"}}}}])
    equal("a line through a gap", [d["v"] for d in filled][2], 3.0 + 5.0 * 2 / 3)
    dense = {"$densify": {"field": "_id", "range": {"step": 1, "bounds": "full"}}}
    equal("steps between", c.aggregate([dense, {"$count": "n"}]).next()["n"], 7)
    client.admin.command("setParameter", 1, internalQueryMaxAllowedDensifyDocs=1)
    try:
        fails("too many steps", 5897900, lambda: list(c.aggregate([dense])))
    finally:
        client.admin.command("setParameter", 1, internalQueryMaxAllowedDensifyDocs=500_000)
    shares = {"$percentile": {"input": "$v", "p": [0.5, 1.0], "method": "approximate"}}
    equal("percentiles", c.aggregate([{"$group": {"_id": None, "p": shares}}]).next()["p"], [2.0, 8.0])


def aggregation(client, db):
    c = db.agg
    c.insert_many([{"_id": i, "k": "abc"[i % 3], "v": i, "l": list(range(i % 4))} for i in range(30)])
    equal("group", list(c.aggregate([{"$group": {"_id": "$k", "s": {"$sum": "$v"}, "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}])),
          [{"_id": "abc"[j], "s": sum(range(j, 30, 3)), "n": 10} for j in range(3)])
    equal("match project", list(c.aggregate([{"$match": {"v": {"$lt": 2}}}, {"$project": {"w": {"$multiply": ["$v", 2]}}}])),
          [{"_id": 0, "w": 0}, {"_id": 1, "w": 2}])
    equal("unwind count", list(c.aggregate([{"$unwind": "$l"}, {"$count": "n"}]))[0]["n"], sum(i % 4 for i in range(30)))
    equal("addFields, replaceRoot", list(c.aggregate([
        {"$match": {"_id": 5}}, {"$addFields": {"o": {"x": {"$concat": ["$k", "!"]}}}}, {"$replaceRoot": {"newRoot": "$o"}}])),
        [{"x": "c!"}])
    equal("sort skip limit", [d["_id"] for d in c.aggregate([{"$sort": {"v": -1}}, {"$skip": 2}, {"$limit": 2}])], [27, 26])
    equal("unset", list(c.aggregate([{"$match": {"_id": 1}}, {"$unset": ["l", "v"]}])), [{"_id": 1, "k": "b"}])
    equal("avg, min, max, push", list(c.aggregate([
        {"$match": {"v": {"$lt": 6}}}, {"$group": {"_id": None, "a": {"$avg": "$v"}, "lo": {"$min": "$v"}, "hi": {"$max": "$v"},
                                                   "all": {"$push": "$v"}}}])),
        [{"_id": None, "a": 2.5, "lo": 0, "hi": 5, "all": [0, 1, 2, 3, 4, 5]}])
    equal("cond", [d["r"] for d in c.aggregate([{"$match": {"_id": {"$lt": 3}}},
                                                {"$set": {"r": {"$cond": [{"$gt": ["$v", 1]}, "big", "small"]}}}])],
          ["small", "small", "big"])


def admin(client, db):
    check("database listed", db.name in client.list_database_names())
    info = {d["name"]: d for d in client.list_databases()}
    check("size on disk", info[db.name]["sizeOnDisk"] >= 0 and info[db.name]["empty"] is False)
    check("collections", {"people", "updates", "many"} <= set(db.list_collection_names()))
    equal("list_collections type", [x["type"] for x in db.list_collections(filter={"name": "people"})], ["collection"])
    db.create_collection("made")
    try:
        db.create_collection("made")
        check("create twice", False)
    except CollectionInvalid:
        check("create twice", True)
    db.made.insert_one({"_id": 1})
    db.made.rename("renamed")
    check("rename", "renamed" in db.list_collection_names() and "made" not in db.list_collection_names())
    equal("renamed keeps documents", db.renamed.count_documents({}), 1)
    stats = db.command("collStats", "many")
    check("collStats", stats["count"] == 25000 and stats["size"] > 25000 * 100 and stats["nindexes"] == 1, stats)
    stats = db.command("dbStats")
    check("dbStats", stats["objects"] > 25000 and stats["collections"] >= 5, stats)
    equal("validate", db.command("validate", "many")["valid"], True)
    db.renamed.drop()
    check("drop", "renamed" not in db.list_collection_names())
    client.drop_database("nagi_pymongo_other")
    client.nagi_pymongo_other.x.insert_one({})
    client.drop_database("nagi_pymongo_other")
    check("drop_database", "nagi_pymongo_other" not in client.list_database_names())


def concurrency(client, db):
    c = db.counters
    c.insert_one({"_id": "n", "v": 0})
    problems = []

    def add():
        try:
            for _ in range(100):
                c.update_one({"_id": "n"}, {"$inc": {"v": 1}})
        except Exception as e:
            problems.append(repr(e))

    threads = [threading.Thread(target=add) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    equal("no error under contention", problems, [])
    equal("concurrent increments", c.find_one("n")["v"], 800)
    with client.start_session() as s:
        equal("session", c.count_documents({}, session=s), 1)
        check("causal session", c.find_one({"_id": "n"}, session=s)["v"] == 800)


def compression(client, db):
    for name in ("snappy", "zlib", "zstd"):
        with MongoClient(sys.argv[1], compressors=name) as packed:
            c = packed[db.name]["packed"]
            c.insert_one({"_id": name, "x": "y" * 100000})
            equal("compressor " + name, len(c.find_one(name)["x"]), 100000)


def files(client, db):
    """GridFS: chunks of 255 KB, found by name and revision, renamed, deleted; the index that drivers create."""
    bucket = gridfs.GridFSBucket(db)
    data = os.urandom(700_000)
    first = bucket.upload_from_stream("a.bin", data, metadata={"n": 1})
    bucket.upload_from_stream("a.bin", b"second")
    check("a file comes back", bucket.open_download_stream(first).read() == data)
    equal("the newest revision", bucket.open_download_stream_by_name("a.bin").read(), b"second")
    equal("the first revision", len(bucket.open_download_stream_by_name("a.bin", revision=0).read()), len(data))
    equal("chunks", db["fs.chunks"].count_documents({"files_id": first}), 3)
    names = sorted(row["name"] for row in db["fs.chunks"].list_indexes())
    equal("the index of chunks", names, ["_id_", "files_id_1_n_1"])
    stream = bucket.open_download_stream(first)
    stream.seek(300_000)
    check("a part of a file", stream.read(10) == data[300_000:300_010])
    bucket.rename(first, "b.bin")
    equal("renamed", [f.filename for f in bucket.find({"metadata.n": 1})], ["b.bin"])
    bucket.delete(first)
    equal("no chunk is left behind", db["fs.chunks"].count_documents({"files_id": first}), 0)
    try:
        bucket.open_download_stream(first)
        check("a deleted file", False)
    except gridfs.errors.NoFile:
        check("a deleted file", True)


def main():
    client = MongoClient(sys.argv[1], serverSelectionTimeoutMS=5000, socketTimeoutMS=60000)
    client.drop_database("nagi_pymongo")
    db = client.nagi_pymongo
    only = os.environ.get("ONLY", "").split()
    for f in (handshake, insert_find, updates, errors, cursors, bulk, types, indexes, texts, collations, geometry, windows, aggregation, admin, concurrency,
              compression, files):
        if only and f.__name__ not in only:
            continue
        section(f, client, db)
    client.drop_database("nagi_pymongo")
    finish("pymongo " + pymongo.version)


main()

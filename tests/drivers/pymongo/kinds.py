"""Tests each kind of index through a driver: built on existing data, used, maintained by writes, rebuilt:
kinds.py URI.

A query by the index, which explain names, has the same result as the same query without it. This still holds
after updates and deletes, and `validate` agrees. After `reIndex` the specifications are the same. Then features
of single kinds are tested: documents that expire, by an index and by the `_id` of a clustered collection, and
text searches. The server's `ttlMonitorSleepSecs` is 1.
"""
import datetime
import os
import sys

from bson import ObjectId
from pymongo import MongoClient
from pymongo.collation import Collation

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, fails, finish, section, wait_until  # noqa: E402

NOCASE = {"locale": "en", "strength": 2}
POLYGON = {"type": "Polygon", "coordinates": [[[0, 0], [40, 0], [40, 30], [0, 30], [0, 0]]]}
# Name, keys, options of the index, a query that it serves, options of the query, stage of the plan.
KINDS = [
    ("ascending", [("n", 1)], {}, {"n": {"$gte": 20, "$lt": 60}}, {}, "IXSCAN"),
    ("compound", [("g", 1), ("n", -1)], {}, {"g": 3, "n": {"$lt": 150}}, {}, "IXSCAN"),
    ("multikey", [("tags", 1)], {}, {"tags": "t3"}, {}, "IXSCAN"),
    ("embedded", [("e.f", 1)], {}, {"e.f": {"$in": [4, 5, 6]}}, {}, "IXSCAN"),
    ("unique", [("u", 1)], {"unique": True}, {"u": {"$lte": 17}}, {}, "IXSCAN"),
    ("sparse", [("maybe", 1)], {"sparse": True}, {"maybe": {"$gt": 2}}, {}, "IXSCAN"),
    ("partial", [("n", 1)], {"partialFilterExpression": {"g": {"$gte": 3}}}, {"n": {"$gt": 50}, "g": {"$gte": 4}}, {}, "IXSCAN"),
    ("hashed", [("s", "hashed")], {}, {"s": "name7"}, {}, "IXSCAN"),
    ("compound hashed", [("g", 1), ("s", "hashed")], {}, {"g": 2, "s": "name7"}, {}, "IXSCAN"),
    ("collated", [("s", 1)], {"collation": NOCASE}, {"s": "NAME7"}, {"collation": NOCASE}, "IXSCAN"),
    ("wildcard", [("$**", 1)], {}, {"e.f": 5}, {}, "IXSCAN"),
    ("wildcard of a field", [("e.$**", 1)], {}, {"e.f": {"$gte": 17}}, {}, "IXSCAN"),
    ("compound wildcard", [("g", 1), ("e.$**", 1)], {}, {"g": 1, "e.f": {"$gt": 3}}, {}, "IXSCAN"),
    ("text", [("t", "text")], {"default_language": "english"}, {"$text": {"$search": "running -dogs"}}, {}, "TEXT_MATCH"),
    ("text with a prefix", [("g", 1), ("t", "text")], {}, {"g": 3, "$text": {"$search": "fox"}}, {}, "TEXT_MATCH"),
    ("2dsphere", [("at", "2dsphere")], {}, {"at": {"$geoWithin": {"$geometry": POLYGON}}}, {}, "IXSCAN"),
    ("2d", [("flat", "2d")], {}, {"flat": {"$geoWithin": {"$box": [[0, 0], [25, 25]]}}}, {}, "IXSCAN"),
    ("ttl", [("when", 1)], {"expireAfterSeconds": 10 ** 8}, {"when": {"$gt": datetime.datetime(2026, 1, 9)}}, {}, "IXSCAN"),
]


def document(i):
    doc = {
        "_id": i, "n": i, "g": i % 7, "u": i * 3, "s": ("name%d" if i % 2 else "NAME%d") % (i % 20), "tags": ["t%d" % (i % 5), "t%d" % (i % 9)],
        "e": {"f": i % 19, "h": [i % 3]}, "t": ["the running foxes", "a lazy dog runs", "dogs", "fox"][i % 4], "at": [i % 90, i % 50],
        "flat": [i % 50, i % 40], "when": datetime.datetime(2026, 1, 1) + datetime.timedelta(hours=i),
    }
    return doc | ({"maybe": i % 6} if i % 3 else {})


def ids(cursor):
    return sorted(d["_id"] for d in cursor)


def expected_text(c, query):
    """Text search has no scan to compare with; these words have obvious stems."""
    wanted = {"running -dogs": lambda t: "run" in t and "dog" not in t, "fox": lambda t: "fox" in t}[query["$text"]["$search"]]
    return ids(d for d in c.find({k: v for k, v in query.items() if k != "$text"}) if wanted(d["t"]))


def every_kind(client, db):
    hello = client.admin.command("hello")
    standalone = "setName" not in hello and "msg" not in hello
    for name, keys, options, query, how, stage in KINDS:
        for clustered in (False, True):
            c = db.create_collection(name.replace(" ", "_") + "_c" * clustered, **(
                {"clusteredIndex": {"key": {"_id": 1}, "unique": True}} if clustered else {}))
            what = name + " in a clustered collection" * clustered
            c.insert_many([document(i) for i in range(200)])

            def scan():
                return expected_text(c, query) if "$text" in query else ids(c.find(query, **collated).hint([("$natural", 1)]))
            collated = {"collation": Collation(**how["collation"])} if how else {}
            built = c.create_index(keys, **options)
            plan = c.find(query, **collated).explain()["queryPlanner"]["winningPlan"]
            check(what + ": used", "'stage': '%s'" % stage in str(plan) and "'indexName': '%s'" % built in str(plan), plan)
            found = ids(c.find(query, **collated))
            check(what + ": finds some", 0 < len(found) < 200, len(found))
            equal(what + ": as a scan", found, scan())
            equal(what + ": counted", c.count_documents(query, **collated), len(found))
            changed = c.update_many(query, {"$set": {"seen": 1}}, **collated).modified_count
            equal(what + ": updated", changed, len(found))
            c.delete_many({"_id": {"$mod": [3, 0]}})
            c.insert_many([document(i) for i in range(200, 260)])
            c.update_many({"n": {"$gte": 240}}, {"$inc": {"n": -200, "e.f": 1}, "$set": {"s": "name7", "t": "fox"}})
            equal(what + ": kept by writes", ids(c.find(query, **collated)), scan())
            before = list(c.list_indexes())
            if standalone:
                equal(what + ": reIndex", db.command("reIndex", c.name)["nIndexes"], len(before))
            else:
                fails(what + ": reIndex of a member", 20, lambda: db.command("reIndex", c.name))
            equal(what + ": the same specifications", list(c.list_indexes()), before)
            equal(what + ": as a scan again", ids(c.find(query, **collated)), scan())
            valid = db.command("validate", c.name, full=True)
            check(what + ": valid", valid["valid"] and len(valid["keysPerIndex"]) == len(before), valid)
            c.drop_index(built)
            check(what + ": gone", built not in c.index_information() and (
                "$text" in query or "'indexName': '%s'" % built not in str(c.find(query, **collated).explain())))
            c.drop()


def in_order(client, db):
    """Orders that an index provides: nearest first, best first, by collation, by the clustered `_id`."""
    c = db.ordered
    c.insert_many([{"_id": i, "at": [i, 0], "flat": [i, 0], "t": "fox " * (i + 1), "s": "aBcDeF"[i]} for i in range(6)])
    c.create_index([("at", "2dsphere")])
    c.create_index([("flat", "2d")])
    c.create_index([("t", "text")])
    c.create_index("s", collation=Collation(**NOCASE))
    equal("nearest", [d["_id"] for d in c.find({"at": {"$nearSphere": [3.2, 0]}}).limit(3)], [3, 4, 2])
    equal("nearest in the plane", [d["_id"] for d in c.find({"flat": {"$near": [1.9, 0], "$maxDistance": 1}})], [2, 1])
    score = {"score": {"$meta": "textScore"}}
    scores = [d["score"] for d in c.find({"$text": {"$search": "fox"}}, score).sort(list(score.items()))]
    check("best first", scores == sorted(scores, reverse=True) and len(scores) == 6, scores)
    equal("by collation", [d["s"] for d in c.find().sort("s", 1).collation(Collation(**NOCASE))], list("aBcDeF"))
    plan = str(c.find().sort("s", 1).collation(Collation(**NOCASE)).explain()["queryPlanner"]["winningPlan"])
    check("without a sort", "SORT" not in plan and "IXSCAN" in plan, plan)
    db.create_collection("byid", clusteredIndex={"key": {"_id": 1}, "unique": True})
    db.byid.insert_many([{"_id": i} for i in (5, 1, 4)])
    equal("clustered backwards", [d["_id"] for d in db.byid.find().sort("_id", -1)], [5, 4, 1])


def expiring(client, db):
    now = datetime.datetime.now(datetime.timezone.utc)
    past, future = now - datetime.timedelta(hours=1), now + datetime.timedelta(hours=1)
    docs = [{"_id": "old", "at": past}, {"_id": "new", "at": future}, {"_id": "none"}, {"_id": "text", "at": "x"},
            {"_id": "one old of two", "at": [future, past]}, {"_id": "other", "at": past, "k": 1}]
    for name, keys, options, left in [
        ("ttl", "at", {}, ["new", "none", "text"]),
        ("descending", [("at", -1)], {}, ["new", "none", "text"]),
        ("some", "at", {"partialFilterExpression": {"k": 1}}, ["new", "none", "old", "one old of two", "text"]),
        ("hidden", "at", {"hidden": True}, ["new", "none", "text"]),
    ]:
        db[name].insert_many(docs)
        db[name].create_index(keys, expireAfterSeconds=60, **options)
        check("expired by " + name, wait_until(lambda: ids(db[name].find()) == left, 60), ids(db[name].find()))
    passes = client.admin.command("serverStatus")["metrics"]["ttl"]
    check("counted", passes["passes"] > 0 and passes["deletedDocuments"] >= 10, passes)
    db.later.insert_one({"_id": 1, "at": past})
    db.later.create_index("at", expireAfterSeconds=7200)
    rounds = lambda: client.admin.command("serverStatus")["metrics"]["ttl"]["passes"]  # noqa: E731
    first = rounds()
    check("rounds go on", wait_until(lambda: rounds() > first + 1, 60))
    equal("not yet", db.later.count_documents({}), 1)
    db.command("collMod", "later", index={"keyPattern": {"at": 1}, "expireAfterSeconds": 60})
    check("once collMod says so", wait_until(lambda: db.later.count_documents({}) == 0, 60))
    c = db.create_collection("sessions", clusteredIndex={"key": {"_id": 1}, "unique": True}, expireAfterSeconds=60)
    c.insert_many([{"_id": past}, {"_id": future}, {"_id": ObjectId.from_datetime(past)}])
    check("expired by a clustered _id", wait_until(lambda: c.count_documents({"_id": {"$type": "date"}}) == 1, 60), list(c.find()))


def main():
    client = MongoClient(sys.argv[1], serverSelectionTimeoutMS=5000, socketTimeoutMS=60000)
    client.drop_database("nagi_kinds")
    for f in (every_kind, in_order, expiring):
        section(f, client, client.nagi_kinds)
    client.drop_database("nagi_kinds")
    finish("kinds of indexes")


main()

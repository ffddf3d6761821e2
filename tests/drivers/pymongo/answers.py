"""Cases in which servers easily differ from MongoDB, over the wire: answers.py URI.

Searches for words of one letter, metadata next to `_id`, empty timestamps, geometry on borders and with holes,
the forms of `$near`, keys of missing fields, refusals of createIndexes, create and collMod, explain of a failed
pipeline.
"""
import os
import sys

from bson import Decimal128, Timestamp
from pymongo import MongoClient

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import checks  # noqa: E402
from checks import check, fails, finish, section  # noqa: E402

POINT = {"type": "Point", "coordinates": [5, 52]}


def equal(name, expected, seen):
    checks.equal(name, seen, expected)


def ids(cursor):
    return sorted(doc["_id"] for doc in cursor)


def text(db):
    c = db.texts
    c.insert_many([{"_id": 1, "s": "a d plan"}, {"_id": 2, "s": "d"}, {"_id": 3, "s": "will now"}])
    c.create_index([("s", "text")])
    scores = {d["_id"]: d for d in c.find({"$text": {"$search": "d"}}, {"_id": 1, "score": {"$meta": "textScore"}})}
    equal("a word of one letter, its scores, and no other field",
          {1: {"_id": 1, "score": 0.75}, 2: {"_id": 2, "score": 1.1}}, scores)
    equal("words that are no stop words", [3], ids(c.find({"$text": {"$search": "now"}})))
    equal("stop words", [], ids(c.find({"$text": {"$search": "a the ought"}})))
    found = c.find_one({"$text": {"$search": "plan"}}, {"score": {"$meta": "textScore"}})
    equal("metadata alone leaves the other fields", "a d plan", found.get("s"))


def weights(db):
    db.create_collection("weights")
    db.command("createIndexes", "weights", indexes=[{"key": {"a": "text"}, "name": "i", "weights": "$**"}])
    db.weights.insert_one({"_id": 1, "other": "fox"})
    equal("weights that name all fields", [1], ids(db.weights.find({"$text": {"$search": "fox"}})))
    equal("weights as they are listed", {"$**": 1, "a": 1}, list(db.weights.list_indexes())[1]["weights"].to_dict())


def timestamps(db):
    empty = Timestamp(0, 0)
    db.stamps.insert_many([{"_id": 1, "t": empty, "u": empty}, {"_id": 2, "t": empty}, {"_id": 3, "t": empty}])
    db.stamps.replace_one({"_id": 4}, {"t": empty, "u": empty}, upsert=True)
    db.stamps.update_one({"_id": 5}, {"$currentDate": {"t": {"$type": "timestamp"}}}, upsert=True)
    stamps = [d[f] for d in db.stamps.find() for f in ("t", "u") if f in d]
    check("empty timestamps become the time, each another", len(stamps) == len(set(stamps)) == 7 and empty not in stamps, stamps)


def geometry(db):
    c = db.places
    squares = {"type": "MultiPolygon", "coordinates": [
        [[[102, 2], [103, 2], [103, 3], [102, 3], [102, 2]]],
        [[[100, 0], [101, 0], [101, 1], [100, 1], [100, 0]],
         [[100.2, 0.2], [100.8, 0.2], [100.8, 0.8], [100.2, 0.8], [100.2, 0.2]]]]}
    c.insert_many([{"_id": 1, "p": squares}, {"_id": 2, "p": [5.1, 52.1]}])
    for name in ("without an index", "with an index"):
        equal("a MultiPolygon lies within itself, " + name, [1], ids(c.find({"p": {"$geoWithin": {"$geometry": squares}}})))
        for point in ([5.1, 52.1], {"x": 5.1, "y": 52.1}):
            equal("a pair as $geometry, " + name, [2], ids(c.find({"p": {"$geoIntersects": {"$geometry": point}}})))
        if name == "without an index":
            equal("a point on the circle", [2], ids(c.find({"p": {"$geoWithin": {"$center": [[5.1, 52], 0.1]}}})))
            c.create_index([("p", "2dsphere")])
    for operator in ("$near", "$nearSphere", "$geoNear"):
        for near in ({operator: POINT}, {operator: {"$geometry": POINT}}, {operator: POINT, "$minDistance": 1e6}):
            want = [1] if "$minDistance" in near else [1, 2]
            equal("near as %s" % near, want, ids(c.find({"p": near})))
            equal("the same as the only alternative", want, ids(c.find({"$or": [{"p": near}]})))
    fails("near as one of two alternatives", 2, lambda: list(c.find({"$or": [{"p": {"$near": POINT}}, {"a": 1}]})))
    fails("a pair as $geometry of $near", 2, lambda: list(c.find({"p": {"$near": {"$geometry": [1, 2]}}})))
    shell = [[0, 0], [0, 1], [1, 1], [1, 0], [0, 0]]
    fails("a hole that is the shell", 16755, lambda: c.insert_one({"p": {"type": "Polygon", "coordinates": [shell, shell]}}))
    fails("a collation of $geoNear", 40227, lambda: list(c.aggregate(
        [{"$geoNear": {"near": POINT, "distanceField": "d", "collation": {"locale": "fr"}}}])))


def keys(db):
    db["keys"].insert_many([{"_id": 1, "a": 1, "b": 1}, {"_id": 2, "b": 2}])
    db["keys"].create_index([("a", 1), ("b", -1)], name="ab")
    equal("keys of missing fields", [{"a": None, "b": 2}, {"a": 1, "b": 1}],
          list(db["keys"].find(hint="ab", return_key=True)))


def refused(db):
    db.create_collection("plain")
    for key in ({"_fts": 1}, {"a": 1, "_fts": "hashed"}):
        fails("an index on %s" % key, 67, lambda: db.command("createIndexes", "plain", indexes=[{"key": key, "name": "i"}]))
    fails("a view in system", 73, lambda: db.command("create", "system.shown", viewOn="plain", pipeline=[]))
    for name in ("admin", "config", "local"):
        other = db.client[name]
        fails("a validator in " + name, 72, lambda: other.command("create", "nagi_answers", validator={"a": 1}))
        other.create_collection("nagi_answers")
        fails("a new validator in " + name, 72, lambda: other.command("collMod", "nagi_answers", validator={"a": 1}))
        other.drop_collection("nagi_answers")
    fails("a fraction of a millisecond", 2, lambda: db.command("find", "plain", maxTimeMS=Decimal128("1.5")))
    equal("whole milliseconds", 1, db.command("find", "plain", maxTimeMS=Decimal128("1500.0"))["ok"])


def views(db):
    def chain(prefix, length, base):
        for at in range(length):
            db.command("create", "%s%d" % (prefix, at), viewOn=base if at == 0 else "%s%d" % (prefix, at - 1), pipeline=[])
    chain("low", 10, "base")
    chain("high", 10, "joint")
    fails("a chain of 21 views", 165, lambda: db.command("create", "joint", viewOn="low9", pipeline=[]))
    fails("a chain of 21 views by its base", 165, lambda: db.command("create", "joint", viewOn="plain", pipeline=[{"$unionWith": "low9"}]))
    db.command("create", "joint", viewOn="low8", pipeline=[])
    fails("a chain of 21 views by collMod", 165, lambda: db.command("collMod", "joint", viewOn="low9", pipeline=[]))


def explained(db):
    db.fails.insert_one({"a": "x"})
    pipeline = [{"$group": {"_id": {"$add": [1, "$a"]}}}]
    command = {"aggregate": "fails", "pipeline": pipeline, "cursor": {}}
    fails("explain of a pipeline that fails", 16554, lambda: db.command("explain", command, verbosity="executionStats"))
    equal("its plan", 1, db.command("explain", command, verbosity="queryPlanner")["ok"])


def sizes(db):
    db.sizes.insert_many([{"_id": n} for n in range(5)])
    full = "%s.sizes" % db.name
    for limit, count in (({"maxObjects": 2}, 3), ({"maxSize": 20}, 2)):
        got = db.command("dataSize", full, **limit)
        equal("dataSize with %s" % limit, (count, True), (got["numObjects"], got.get("maxReached")))
    equal("dataSize with limits that hold", (5, None), (lambda got: (got["numObjects"], got.get("maxReached")))(
        db.command("dataSize", full, maxObjects=5, maxSize=1000)))


def names(db):
    statements = {"insert": ("documents", [{}]), "update": ("updates", [{"q": {}, "u": {}}]), "delete": ("deletes", [{"q": {}, "limit": 1}]),
                  "aggregate": ("pipeline", []), "killCursors": ("cursors", [])}
    for command, (name, value) in statements.items():
        more = {"cursor": {}} if command == "aggregate" else {}
        fails("%s of a name that is a document" % command, 2, lambda: db.command({command: {}, name: value, **more}))
    for command in ("find", "count"):
        fails("%s of a name that is a document" % command, 73, lambda: db.command({command: {}}))


def expressions(db):
    def value(expression):
        return next(db.aggregate([{"$documents": [{}]}, {"$project": {"r": expression}}]))["r"]
    nan = Decimal128("NaN")
    for expression in ({"$ln": nan}, {"$log10": nan}, {"$log": [nan, 2]}, {"$log": [Decimal128("2"), float("nan")]}):
        got = value(expression)
        check("NaN of %s" % expression, isinstance(got, float) and got != got, got)
    for text, want in (("18-07-03", "2018-07-03"), ("7/3/69", "2069-07-03"), ("2017-07-04T11:56.02", "2017-07-04T11:56:02")):
        equal("the date " + text, value({"$toDate": want}), value({"$toDate": text}))


def main():
    client = MongoClient(sys.argv[1], serverSelectionTimeoutMS=5000, socketTimeoutMS=60000)
    client.drop_database("nagi_answers")
    for f in (text, weights, timestamps, geometry, keys, refused, views, explained, sizes, names, expressions):
        section(f, client.nagi_answers)
    client.drop_database("nagi_answers")
    finish("answers")


main()

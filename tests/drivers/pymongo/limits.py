"""Limits on size, depth and length of requests and documents: limits.py URI.

Each part sends requests that would overload a server without bounds, and checks the error code. After each part
the server must still reply.
"""
import functools
import os
import sys

from bson import encode
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.errors import WriteError

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, fails, finish, section  # noqa: E402

MIB = 1 << 20
DOC_MAX = 16 * MIB


def nest(levels, value=1):
    return functools.reduce(lambda inner, _: {"a": inner}, range(levels), value)


def wrapped(levels, wrap, value):
    return functools.reduce(lambda inner, _: wrap(inner), range(levels), value)


def doubled(times, start="x", join="$concat"):
    """An expression that doubles a value this many times."""
    return {"$reduce": {"input": {"$range": [0, times]}, "initialValue": start, "in": {join: ["$$value", "$$value"]}}}


def run(t, *stages):
    return list(t.aggregate(list(stages)))


def value(t, expression):
    return run(t, {"$limit": 1}, {"$project": {"_id": 0, "r": expression}})[0]["r"]


def depth(client, db):
    t = db.depth
    equal("a document of 180 levels", t.insert_one(dict(nest(179, {}), _id=1)).inserted_id, 1)
    fails("a document of 181 levels", 15, lambda: t.insert_one(dict(nest(180, {}), _id=2)), WriteError)
    fails("a message of more than 200 levels", 15, lambda: t.insert_one(nest(205)))
    t.insert_one({"_id": 3})
    deep = ".".join("b" * 181)
    fails("$set of a path of 181 fields", 15, lambda: t.update_one({"_id": 3}, {"$set": {deep: 1}}), WriteError)
    fails("$set of a deep value", 15, lambda: t.update_one({"_id": 3}, {"$set": {"q.q.q": nest(178)}}), WriteError)
    fails("$push of a deep value", 15, lambda: t.update_one({"_id": 3}, {"$push": {"q": nest(179)}}), WriteError)
    fails("a deep replacement", 15, lambda: t.replace_one({"_id": 3}, nest(181)), WriteError)
    fails("a deep upsert", 15, lambda: t.replace_one({"_id": 4}, nest(181), upsert=True), WriteError)
    fails("a pipeline that makes a deep document", 15,
          lambda: t.update_one({"_id": 3}, [{"$set": {"q": {"$literal": nest(180)}}}]), WriteError)
    equal("nothing of it is stored", t.find_one({"_id": 3}), {"_id": 3})
    loop = {"$reduce": {"input": {"$range": [0, 300]}, "initialValue": {}, "in": {"a": "$$value"}}}
    fails("$reduce that nests", 15, lambda: value(t, loop))
    loop["$reduce"].update(initialValue=[], **{"in": ["$$value"]})
    fails("$reduce that nests arrays", 15, lambda: value(t, loop))
    loop["$reduce"]["input"] = {"$range": [0, 170]}
    check("$reduce that nests little", value(t, loop) != [])
    wrap = {"$project": {"_id": 0, "a": wrapped(100, lambda inner: {"a": inner}, "$$ROOT")}}
    fails("stages that nest", 15, lambda: run(t, {"$match": {"_id": 3}}, wrap, wrap, wrap))
    fails("a thousand stages that nest", 15, lambda: run(t, {"$match": {"_id": 3}}, *[wrap] * 400, {"$group": {"_id": "$$ROOT"}}))
    t.drop()


def nesting_of_requests(client, db):
    t = db.nesting
    t.insert_one({"_id": 1, "a": [1]})
    equal("$and in $and", t.find_one(wrapped(95, lambda f: {"$and": [f]}, {"_id": 1}))["_id"], 1)
    equal("$nor in $nor", t.find_one(wrapped(94, lambda f: {"$nor": [f]}, {"_id": 1}))["_id"], 1)
    equal("$elemMatch in $elemMatch", t.find_one({"a": wrapped(95, lambda f: {"$elemMatch": {"a": f}}, 1)}), None)
    fails("filters deeper than BSON", 15, lambda: t.find_one(wrapped(110, lambda f: {"$and": [f]}, {"_id": 1})))
    equal("$add in $add", value(t, wrapped(95, lambda e: {"$add": [e, 1]}, 1)), 96)
    equal("$not in $not", value(t, wrapped(190, lambda e: {"$not": e}, True)), True)
    equal("$map in $map", len(value(t, wrapped(60, lambda e: {"$map": {"input": [1], "in": e}}, 1))), 1)
    fails("expressions deeper than BSON", 15, lambda: value(t, wrapped(110, lambda e: {"$add": [e, 1]}, 1)))
    deep = ".".join("a" * 250)
    fails("a long path of an expression", 15, lambda: value(t, "$" + deep))
    fails("a long path of $project", 15, lambda: run(t, {"$project": {deep: 1}}))
    fails("a long path of a projection", 15, lambda: t.find_one({}, {deep: 1}))
    equal("a long path of a filter", t.find_one({".".join("a" * 5000): 1}), None)
    fails("a long regular expression", 51091, lambda: t.find_one({"s": {"$regex": "x" * 32765}}))
    equal("a regular expression of 32764 bytes", t.find_one({"s": {"$regex": "x" * 32764}}), None)
    t.drop()


def lengths(client, db):
    t = db.lengths
    t.insert_one({"_id": 1})
    match = [{"$match": {}}] * 1001
    fails("1001 stages", 7749501, lambda: run(t, *match))
    fails("1001 stages in $facet", 7749501, lambda: run(t, {"$facet": {"a": match}}))
    fails("1001 stages in $lookup", 7749501, lambda: run(t, {"$lookup": {"from": "lengths", "as": "x", "pipeline": match}}))
    fails("1001 stages in $unionWith", 7749501, lambda: run(t, {"$unionWith": {"coll": "lengths", "pipeline": match}}))
    fails("1001 stages of an update", 7749501, lambda: t.update_one({}, [{"$set": {"z": 1}}] * 1001), WriteError)
    equal("1000 stages", len(run(t, *match[1:])), 1)

    def lookups(n):
        return wrapped(n, lambda p: [{"$lookup": {"from": "lengths", "as": "x", "pipeline": p}}], [])
    equal("20 pipelines in each other", len(run(t, *lookups(20))), 1)
    fails("21 pipelines in each other", 232, lambda: run(t, *lookups(21)))
    equal("$in of 100,000 values", t.count_documents({"_id": {"$in": list(range(100000))}}), 1)
    equal("$or of 10,000 parts", t.count_documents({"$or": [{"_id": i} for i in range(10000)]}), 1)
    t.drop()


def stored_sizes(client, db):
    t = db.sizes
    room = DOC_MAX - len(encode({"_id": 1, "s": ""}))
    t.insert_one({"_id": 1, "s": "x" * room})
    equal("a document of 16 MiB", len(t.find_one({"_id": 1})["s"]), room)
    error = db.command("insert", "sizes", documents=[RawBSONDocument(encode({"_id": 2, "s": "x" * (room + 1)}))])
    equal("one byte more", [e["code"] for e in error["writeErrors"]], [2])
    check("its text", "object to insert too large" in error["writeErrors"][0]["errmsg"], error)
    fails("$set beyond 16 MiB", 17419, lambda: t.update_one({"_id": 1}, {"$set": {"b": 1}}), WriteError)
    fails("$rename beyond 16 MiB", 17419, lambda: t.update_one({"_id": 1}, {"$rename": {"s": "longer"}}), WriteError)
    fails("a pipeline beyond 16 MiB", 17419, lambda: t.update_one({"_id": 1}, [{"$set": {"b": 1}}]), WriteError)
    fails("findAndModify beyond 16 MiB", 17419, lambda: t.find_one_and_update({"_id": 1}, {"$set": {"b": 1}}))
    fails("an upsert beyond 16 MiB", 17420,
          lambda: t.update_one({"_id": 3}, [{"$set": {"a": doubled(24)}}], upsert=True), WriteError)
    t.insert_one({"_id": 4, "l": []})
    block = ["x" * MIB] * 8
    t.update_one({"_id": 4}, {"$push": {"l": {"$each": block}}})
    fails("$push beyond 16 MiB", 17419, lambda: t.update_one({"_id": 4}, {"$push": {"l": {"$each": block}}}), WriteError)
    equal("the array is as it was", len(t.find_one({"_id": 4})["l"]), 8)
    t.drop()


def results(client, db):
    t = db.results
    t.insert_many([{"_id": i, "s": "x" * MIB} for i in range(20)])
    equal("a batch ends at 16 MiB", len(db.command("find", "results")["cursor"]["firstBatch"]), 15)
    fails("a result beyond 16 MiB", 10334, lambda: run(t, {"$group": {"_id": 1, "all": {"$push": "$s"}}}))
    equal("an intermediate result beyond 16 MiB",
          run(t, {"$group": {"_id": 1, "all": {"$push": "$s"}}}, {"$project": {"n": {"$size": "$all"}}})[0]["n"], 20)
    fails("three strings beyond 16 MiB", 10334, lambda: run(t, {"$project": {f: doubled(23) for f in "abc"}}))
    fails("distinct beyond 16 MiB", 17217,
          lambda: run(t, {"$match": {}}) and t.update_many({}, [{"$set": {"s": {"$concat": ["$s", {"$toString": "$_id"}]}}}])
          and t.distinct("s"))
    fails("$lookup beyond 16 MiB", 10334, lambda: run(t, {"$limit": 1}, {"$lookup": {"from": "results", "pipeline": [], "as": "x"}}))
    fails("$facet beyond 16 MiB", 10334, lambda: run(t, {"$facet": {"a": [{"$match": {}}]}}))
    t.drop()


def bombs(client, db):
    t = db.bombs
    t.insert_one({"_id": 1})
    length = lambda e: value(t, {"$strLenBytes": e})
    count = lambda e: value(t, {"$size": e})
    equal("a string of 16 MiB", length(doubled(24)), DOC_MAX)
    fails("a string of 128 MiB", 13548, lambda: length(doubled(27)))
    fails("a string of 2^40 bytes", 13548, lambda: length(doubled(40)))
    fails("$replaceAll", 13548, lambda: length({"$replaceAll": {"input": doubled(20), "find": "x", "replacement": doubled(16)}}))
    fails("$replaceAll of nothing", 13548,
          lambda: length({"$replaceAll": {"input": doubled(20), "find": "", "replacement": doubled(16)}}))
    fails("$concatArrays", 10334, lambda: count(doubled(40, [1], "$concatArrays")))
    both = {"$reduce": {"input": {"$range": [0, 40]}, "initialValue": 1, "in": {"a": "$$value", "b": "$$value"}}}
    fails("documents of two", 10334, lambda: value(t, both))
    both["$reduce"]["in"] = ["$$value", "$$value"]
    fails("arrays of two", 10334, lambda: value(t, both))
    fails("$map of ranges", 10334, lambda: count({"$map": {"input": {"$range": [0, 3000]}, "in": {"$range": [0, 100000]}}}))
    fails("$range", 146, lambda: count({"$range": [0, 2147483647]}))
    fails("$split", 10334, lambda: count({"$split": [doubled(24), "x"]}))
    fails("$zip", 146, lambda: count({"$zip": {"inputs": [{"$range": [0, 1000000]}] * 20}}))
    fails("$regexFindAll", 10334, lambda: count({"$regexFindAll": {"input": doubled(22), "regex": "x"}}))
    fails("many strings of one document", 146, lambda: value(t, {"$size": {"$map": {
        "input": {"$range": [0, 1000]}, "in": {"$strLenBytes": {"$concat": [doubled(20), {"$toString": "$$this"}]}}}}}))
    fails("a project of many large fields", 146,
          lambda: run(t, {"$project": {"f%d" % i: doubled(22) for i in range(20)}}))
    t.drop()


def main():
    client = MongoClient(sys.argv[1])
    db = client.limits
    for part in (depth, nesting_of_requests, lengths, stored_sizes, results, bombs):
        section(part, client, db)
        equal("the server answers after %s" % part.__name__, client.admin.command("ping")["ok"], 1.0)
    client.drop_database("limits")
    finish("limits")


main()

"""Requests that use as much memory as they can: for each a name and a function of the database.

They are written by hand, one for each way in which memory can grow. memory_generated.py generates more from the
feature inventory.
"""
import random

from bson import Code
from pymongo import InsertOne, MongoClient, ReplaceOne, UpdateOne

TIME = 30_000


def doubled(times, seed, join):
    """Doubles `seed` this many times."""
    return {"$reduce": {"input": {"$range": [0, times]}, "initialValue": seed, "in": {join: ["$$value", "$$value"]}}}


def nested(times, seed):
    for _ in range(times):
        seed = {"$let": {"vars": {"v": seed}, "in": {"$concatArrays": ["$$v", "$$v"]}}}
    return seed


def mapped(count, body):
    return {"$map": {"input": {"$range": [0, count]}, "in": body}}


ARRAY = {"$range": [0, 1_000_000]}
TEXT = doubled(22, "ab", "$concat")
EACH = {"_id": None, "l": {"$push": "$$ROOT"}}


def insert_large(db, count=10):
    """Documents of 14 MB that cannot be compressed."""
    for i in range(count):
        db.large.replace_one({"_id": i}, {"_id": i, "b": random.Random(i).randbytes(7 << 20), "c": random.Random(-i).randbytes(7 << 20)}, upsert=True)


def fill_large(db):
    """What the kinds of LARGE need, in a replica set."""
    db.client.admin.command("ping")
    insert_large(db)


def large_find(query, **options):
    return lambda db: sum(1 for _ in db.large.find(query, **options).max_time_ms(2 * TIME))


def large_log(db):
    return sum(1 for _ in db.client.local["oplog.rs"].find({"op": "i", "ns": db.name + ".large"}).max_time_ms(2 * TIME))


def large_stream(stages):
    """Reads the events of all documents, as a client does that begins at an old time."""
    def run(db):
        begin = db.client.local["oplog.rs"].find_one({"ns": db.name + ".large"}, {"ts": 1}, sort=[("$natural", 1)])["ts"]
        spec = {"$changeStream": {"startAtOperationTime": begin}}
        reply = db.command("aggregate", "large", pipeline=[spec] + stages, cursor={}, maxTimeMS=2 * TIME)["cursor"]
        seen = len(reply["firstBatch"])
        while seen < 10:
            reply = db.command("getMore", reply["id"], collection="large", maxTimeMS=1000)["cursor"]
            seen += len(reply["nextBatch"])
        db.command("killCursors", "large", cursors=[reply["id"]])
    return run


def large_value():
    """14 MB that cannot be compressed."""
    return random.randbytes(14 << 20)


def large_insert(db):
    db.inserted.insert_one({"b": large_value()})


def large_insert_many(db):
    """One message of 28 MB."""
    db.inserted.insert_many([{"b": large_value()} for _ in range(2)])


def large_modify(db):
    return db.large.find_one_and_update({"_id": random.randrange(10)}, {"$inc": {"n": 1}}, maxTimeMS=2 * TIME)


def large_update(db):
    """Changes a document without sending it."""
    db.command("update", "large", updates=[{"q": {"_id": random.randrange(10)}, "u": {"$inc": {"n": 1}}}], maxTimeMS=2 * TIME)


def large_replace(db):
    db.large.replace_one({"_id": random.randrange(10)}, {"b": large_value()})


def large_bulk(db):
    key = random.randrange(10)
    db.large.bulk_write([InsertOne({"b": large_value()}), ReplaceOne({"_id": key}, {"b": large_value()}), UpdateOne({"_id": key}, {"$inc": {"n": 1}})])


def large_packed(db):
    host, port = db.client.address
    with MongoClient(host, port, compressors="zlib", directConnection=True, socketTimeoutMS=180_000) as client:
        return sum(1 for _ in client[db.name].large.find().limit(3).max_time_ms(2 * TIME))


# Documents of 14 MB, with a bound of 345 MiB for 24 clients. They wait for each other.
LARGE = [
    ("large: find by key", large_find({"_id": {"$lt": 5}})),
    ("large: scan", large_find({"n": {"$ne": -1}})),
    ("large: reverse scan", large_find({"n": {"$ne": -1}}, sort=[("_id", -1)], limit=6)),
    ("large: limit", large_find({"_id": {"$gte": 0}}, limit=8)),
    ("large: aggregate", lambda db: sum(1 for _ in db.large.aggregate([{"$set": {"x": 1}}], maxTimeMS=2 * TIME))),
    ("large: oplog", large_log),
    ("large: stream", large_stream([])),
    ("large: projected stream", large_stream([{"$project": {"operationType": 1}}])),
    ("large: packed", large_packed),
]

# Each makes ten copies of a document on its way to the disk. They wait for each other, and for compactions.
LARGE_WRITES = [
    ("large: insert", large_insert),
    ("large: insertMany", large_insert_many),
    ("large: findAndModify", large_modify),
    ("large: update", large_update),
    ("large: replacement", large_replace),
    ("large: bulkWrite", large_bulk),
]


def fill(db):
    db.c.insert_many([{"_id": i, "k": i % 100, "s": "x" * 50, "a": list(range(20))} for i in range(5000)])
    for start in range(0, 200, 20):
        db.big.insert_many([{"_id": i, "s": random.Random(i).randbytes(250_000).hex()} for i in range(start, start + 20)])
    db.g.insert_many([{"_id": i, "to": [(i * 7 + j) % 20_000 for j in range(20)], "pad": "p" * 500} for i in range(20_000)])
    db.g.create_index("to")
    db.r.insert_many([{"_id": 1, "s": "a" * 5000 + "b"}, {"_id": 2, "s": "ab" * 1_000_000}])
    db.tx.create_index([("t", "text")])
    db.cl.insert_one({"s": "\u0301" * 3_000_000})
    db.cl.insert_one({"s": "xY" * 2_000_000})
    db.near.insert_many([{"_id": i, "l": [i % 180, i % 90], "s": "x" * 5000} for i in range(2000)])
    db.near.create_index([("l", "2dsphere")])
    db.mk.create_index("a")
    db.wc.create_index("$**")


def pipeline(stages, collection="c", **options):
    return lambda db: sum(1 for _ in db[collection].aggregate(stages, maxTimeMS=TIME, **options))


def value(expression):
    """Evaluates one expression for one document."""
    return pipeline([{"$limit": 1}, {"$project": {"n": {"$bsonSize": {"n": expression}}}}])


def script(body):
    return value({"$function": {"body": body, "args": ["$a"], "lang": "js"}})


def count(query, collection="r", **options):
    return lambda db: db[collection].count_documents(query, maxTimeMS=TIME, **options)


def push(db):
    key = random.random()
    db.push.insert_one({"_id": key, "a": []})
    for _ in range(40):
        db.push.update_one({"_id": key}, {"$push": {"a": {"$each": ["z" * 1000] * 1000}}})


def far(db):
    db.far.replace_one({"_id": 1}, {"a": []}, upsert=True)
    db.far.update_one({"_id": 1}, {"$set": {"a.1600000": 1}})
    db.far.update_one({"_id": 1}, {"$set": {"a.1999999999": 1}})


def emit(db):
    return db.command("mapReduce", "c", map=Code("function() { while (1) emit(Math.random(), 'x'.repeat(1000)) }"),
                      reduce=Code("function(k, v) { return 1 }"), out={"inline": 1}, maxTimeMS=TIME)


def sorted_by_text(db):
    find = db.big.find({}, {"_id": 1}).sort("s", 1).collation({"locale": "de", "strength": 3})
    return len(list(find.allow_disk_use(True).max_time_ms(TIME)))


def packed(db):
    """Replies of 16 MB each, compressed for the transfer."""
    host, port = db.client.address
    with MongoClient(host, port, compressors="zstd", directConnection=True, socketTimeoutMS=180_000) as client:
        return sum(len(doc["s"]) for doc in client[db.name].big.find({}, batch_size=1000).max_time_ms(TIME))


def documents(db):
    made = {"$documents": mapped(5_000_000, {"a": "$$this"})}
    return len(list(db.aggregate([made, {"$count": "n"}], maxTimeMS=TIME)))


def graph(collection, source, to, **more):
    spec = dict({"from": "g", "startWith": "$_id", "connectFromField": source, "connectToField": to, "as": "z"}, **more)
    return pipeline([{"$limit": 50}, {"$graphLookup": spec}, {"$count": "n"}], collection)


def search(word):
    return count({"$text": {"$search": "a " + " ".join(word % i for i in range(100_000))}}, "tx")


def fields(count, value):
    """A document with this many fields. The structure built from a field is many times larger than the
    field."""
    return {"f%d" % i: value for i in range(count)}


def statements(db):
    statement = {"q": {"_id": 1}, "u": {"$set": {"a": 1}}}
    db.command("update", "st", updates=[statement] * 100_000, maxTimeMS=TIME)


COLLECT = {"$accumulator": {"init": "function() { return [] }", "accumulateArgs": ["$s"], "lang": "js",
                            "accumulate": "function(s, a) { for (var i = 0; i < 1000; i++) s.push(a); return s }",
                            "merge": "function(a, b) { return a.concat(b) }"}}
LOOKUP = {"from": "c", "pipeline": [], "as": "z"}
CROSS = {"from": "c", "pipeline": [{"$lookup": {"from": "c", "pipeline": [{"$limit": 3000}], "as": "y"}}, {"$limit": 100}], "as": "z"}
WINDOW = {"sortBy": {"_id": 1}, "output": {"p": {"$push": "$a", "window": {"documents": ["unbounded", "current"]}}}}
DENSE = {"field": "_id", "range": {"step": 0.0001, "bounds": [0.0, 10_000_000.0]}}

KINDS = [
    ("arrays doubled", value(doubled(40, "$a", "$concatArrays"))),
    ("documents doubled", value({"$reduce": {"input": {"$range": [0, 60]}, "initialValue": {"a": "$a"}, "in": {"x": "$$value", "y": "$$value"}}})),
    ("variables doubled", value(nested(45, "$a"))),
    ("texts doubled", value(doubled(50, "abc", "$concat"))),
    ("stages doubled", pipeline([{"$limit": 1}] + [{"$set": {"a": {"$concatArrays": ["$a", "$a"]}}}] * 30 + [{"$project": {"n": {"$size": "$a"}}}])),
    ("range of all ints", value({"$range": [0, 2_147_483_647]})),
    ("ranges in a map", value(mapped(100_000, {"$range": [0, 1000]}))),
    ("maps in a map", value({"$sum": mapped(1_000_000, {"$sum": mapped(1_000_000, 1)})})),
    ("zip", value({"$zip": {"inputs": [ARRAY] * 20, "useLongestLength": True}})),
    ("split", value({"$split": [doubled(23, "ab", "$concat"), "a"]})),
    ("every match", value({"$regexFindAll": {"input": TEXT, "regex": "a"}})),
    ("union of arrays", value({"$setUnion": [{"$range": [0, 3_000_000]}] * 2})),
    ("replacing", value({"$reduce": {"input": {"$range": [0, 20]}, "initialValue": "aa",
                                     "in": {"$replaceAll": {"input": "$$value", "find": "a", "replacement": "aaaa"}}}})),
    ("format of a date", value({"$dateToString": {"date": "$$NOW", "format": "%Y" * 5_000_000}})),
    ("facets", pipeline([{"$facet": {"f%d" % i: [{"$group": EACH}] for i in range(50)}}], allowDiskUse=True)),
    ("push of large documents", pipeline([{"$group": EACH}], "big", allowDiskUse=True)),
    ("addToSet", pipeline([{"$unwind": "$a"}, {"$group": {"_id": None, "l": {"$addToSet": {"a": "$a", "i": "$_id", "s": "$s"}}}}], allowDiskUse=True)),
    ("sort of large documents", pipeline([{"$sort": {"s": 1}}, {"$project": {"s": {"$substrBytes": ["$s", 0, 5]}}}], "big", allowDiskUse=True)),
    ("lookup of all", pipeline([{"$lookup": LOOKUP}, {"$count": "n"}])),
    ("lookup of large documents", pipeline([{"$lookup": dict(LOOKUP, **{"from": "big"})}, {"$limit": 3}, {"$project": {"n": {"$size": "$z"}}}])),
    ("lookup in a lookup", pipeline([{"$lookup": CROSS}, {"$count": "n"}])),
    ("graph", graph("c", "to", "_id")),
    ("graph backwards", graph("g", "_id", "to", depthField="d")),
    ("900 unions", pipeline([{"$unionWith": "c"}] * 900 + [{"$count": "n"}])),
    ("densify", pipeline([{"$limit": 2}, {"$densify": DENSE}, {"$count": "n"}])),
    ("window", pipeline([{"$setWindowFields": WINDOW}, {"$count": "n"}])),
    ("bucketAuto", pipeline([{"$bucketAuto": {"groupBy": "$s", "buckets": 5, "output": {"l": {"$push": "$$ROOT"}}}}], "big", allowDiskUse=True)),
    ("documents made", documents),
    ("distinct", lambda db: len(db.big.distinct("s"))),
    ("script: array", script("function(a) { var x = []; while (1) x.push(new Array(1000).join('y')) }")),
    ("script: text", script("function(a) { var x = 'abc'; while (1) x += x }")),
    ("script: caught", script("function(a) { while (1) { try { var y = []; while (1) y.push({}) } catch (e) {} } }")),
    ("script: recursion", script("function f(a) { return f(a) + 1 }")),
    ("script: buffers", script("function(a) { var l = []; while (1) l.push(new ArrayBuffer(50000000)) }")),
    ("script: proxy", script("function(a) { return new Proxy({}, {ownKeys() { while (1) {} }}) }")),
    ("script: numbers", script("function(a) { var x = 2n; while (1) x = x * x }")),
    ("script: sort", script("function(a) { var b = []; for (var i = 0; i < 1000000; i++) b.push(i); b.sort(() => Math.random() - .5); return b.length }")),
    ("script: result", script("function(a) { var b = []; for (var i = 0; i < 3000000; i++) b.push(i); return b }")),
    ("script: cycle", script("function(a) { var b = {}; b.b = b; return b }")),
    ("script: loop", script("function(a) { while (1) {} }")),
    ("script: expression", script("function(a) { return /^(a+)+$/.test('a'.repeat(60) + 'b') }")),
    ("script: accumulator", pipeline([{"$group": {"_id": None, "x": COLLECT}}])),
    ("script: emit", emit),
    ("script: where", lambda db: list(db.c.find({"$where": "function() { while (1) {} }"}).max_time_ms(3000))),
] + [
    ("pattern " + pattern, count({"s": {"$regex": pattern}}))
    for pattern in ("^(a+)+$", "(a|a)*$", "(.*)*x", "(?:(?:a*)*)*c", "((a{0,100}){0,100}){0,100}x", "(a(?1)?b)x", "(?R)", r"^(?=(a+))a*b\1$")
] + [
    ("pattern of alternatives", count({"s": {"$regex": "|".join("a%d" % i for i in range(4500))}})),
    ("pattern of groups", count({"s": {"$regex": "(" * 4000 + "a" + ")" * 4000}})),
    ("5000 patterns", count({"$or": [{"s": {"$regex": "^(a|b|c){50}%d$" % i}} for i in range(5000)]}, "c")),
    ("pattern in an expression", count({"$expr": {"$regexMatch": {"input": "$s", "regex": "(x+x+)+y"}}}, "c")),
    # Machine code is abandoned when its stack is full; the matcher that continues without it uses a frame per
    # iteration.
    ("pattern of many turns", count({"s": {"$regex": "^(?:(a|b)(?=.))*[cd]"}})),
    ("patterns in expressions", value({"$size": mapped(2000, {"$regexFindAll": {"input": "$s", "regex": {"$concat": [
        "(x|y|z){50}", {"$toString": "$$this"}]}}})})),
    ("list of a million", lambda db: list(db.c.find({"k": {"$in": list(range(1_200_000))}}).limit(1).max_time_ms(TIME))),
    ("push to the limit", push),
    ("push of a million", lambda db: db.push2.update_one({"_id": 1}, {"$push": {"a": {"$each": [1] * 1_200_000}}}, upsert=True)),
    ("far element", far),
    ("text of many words", lambda db: db.tx.insert_one({"t": " ".join("w%d" % i for i in range(1_500_000))})),
    ("text of one word", lambda db: db.tx.insert_one({"t": "w" * 15_000_000})),
    ("search for many words", search("w%d")),
    ("search without many words", search("-w%d")),
    ("search for many phrases", search('"w%d"')),
    ("collated sort", sorted_by_text),
    # Requests that need large structures before the first document is read.
    ("many branches", count({"$or": [{"k": i, "c": i} for i in range(200_000)]}, "c")),
    ("many conditions", count(fields(400_000, 1), "c")),
    ("many negations", count({"$nor": [{"k": {"$not": {"$gt": i}}} for i in range(150_000)]}, "c")),
    ("many properties", count({"$jsonSchema": {"properties": fields(150_000, {"bsonType": "int", "minimum": 1})}}, "c")),
    ("many projected fields", lambda db: list(db.c.find({}, fields(500_000, 1)).limit(1).max_time_ms(TIME))),
    ("many computed fields", pipeline([{"$set": fields(300_000, {"$add": ["$_id", 1]})}, {"$count": "n"}])),
    ("many accumulators", pipeline([{"$group": dict(fields(200_000, {"$sum": "$_id"}), _id=None)}, {"$count": "n"}])),
    ("many cases", value({"$switch": {"branches": [{"case": {"$eq": ["$_id", -1]}, "then": 1}] * 150_000, "default": 0}})),
    ("many variables", value({"$let": {"vars": fields(300_000, "$_id"), "in": "$$f1"}})),
    ("many operands", value({"$sum": ["$_id"] * 900_000})),
    ("many set fields", lambda db: db.st.update_one({"_id": 1}, {"$set": fields(500_000, 1)})),
    ("many statements", statements),
    ("collated marks", count({"s": "e" + "\u0300" * 1_000_000}, "cl", collation={"locale": "fr", "strength": 3, "backwards": True})),
    ("collated texts", count({"s": "Xy" * 2_000_000}, "cl", collation={"locale": "en", "strength": 3})),
    ("collated keys", pipeline([{"$group": {"_id": {"s": "$s", "k": {"$mod": ["$_id", 7]}}, "n": {"$sum": 1}}}, {"$count": "n"}], "big",
                               allowDiskUse=True, collation={"locale": "en", "strength": 2})),
    ("packed replies", packed),
    ("keys of an array", lambda db: db.mk.insert_one({"a": list(range(1_200_000))})),
    ("keys of a wide document", lambda db: db.wc.insert_one({"f%d" % i: i for i in range(300_000)})),
    ("polygon", count({"l": {"$geoWithin": {"$polygon": [[i % 180, (i * 7) % 90] for i in range(200_000)]}}}, "geo")),
]

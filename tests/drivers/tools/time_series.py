"""MongoDB's tools on time series collections: time_series.py NAGI MONGODUMP MONGORESTORE FOLDER PORT.

1. `mongodump` and `mongorestore` under other names, as files and as a compressed archive: the same measurements,
   options and indexes.
2. `mongodump --oplog` during inserts, deletes and updates of metadata, and `mongorestore --oplogReplay` on another
   server: the measurements of the time at which the dump ended.
3. Entries of a log, applied one by one: `$out`, indexes, `collMod`.
4. Buckets as servers before 6.0 wrote them (version 1, without compression, several types in a field).
"""
import datetime
import json
import os
import shutil
import sys
import threading

import bson
from bson import ObjectId

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "oplog"), os.path.join(HERE, "..", "common")]
from server import Server, free_port, run  # noqa: E402
from checks import check, equal, finish, require  # noqa: E402

NAGI, DUMP, RESTORE, FOLDER, PORT = sys.argv[1:5] + [int(sys.argv[5])]
BEGIN = datetime.datetime(2024, 1, 1)
SERIES = {
    "meta": {"timeseries": {"timeField": "t", "metaField": "m", "granularity": "minutes"}, "expireAfterSeconds": 10**9},
    "plain": {"timeseries": {"timeField": "t"}},
    "rounded": {"timeseries": {"timeField": "t", "metaField": "m", "bucketMaxSpanSeconds": 300, "bucketRoundingSeconds": 300}},
    "collated": {"timeseries": {"timeField": "t", "metaField": "m"}, "collation": {"locale": "en", "strength": 2}},
}


def path(name):
    return os.path.join(FOLDER, name)


def measurement(n):
    at = BEGIN + datetime.timedelta(seconds=n * 61 % 90000)
    doc = {"_id": n, "t": at, "m": {"id": n % 7, "name": "Sensor %d" % (n % 3)}, "v": n / 8, "s": "x" * (n % 9), "a": [n, {"b": None}]}
    if n % 50 == 0:
        doc["t"] = at.replace(year=1930 if n % 100 else 2150)
    if n % 11 == 0:
        doc["v"] = "text"
    return doc


def measurements(collection):
    return sorted(collection.find({}, no_cursor_timeout=True), key=lambda doc: doc["_id"])


def described(db):
    """Options and indexes of all time series."""
    listed = {row["name"]: row for row in db.list_collections()}
    out = {}
    for name in SERIES:
        equal("type of " + name, listed[name]["type"], "timeseries")
        check("buckets of " + name, "system.buckets." + name in listed, sorted(listed))
        indexes = sorted(db[name].list_indexes(), key=lambda index: index["name"])
        out[name] = (listed[name]["options"], [dict(index) for index in indexes])
    return out


def fill(db):
    for name, options in SERIES.items():
        db.create_collection(name, **options)
        for begin in range(0, 3000, 250):
            db[name].insert_many([measurement(n) for n in range(begin, begin + 250)])
    db.meta.create_index([("m.id", 1), ("t", -1)])
    db.meta.create_index([("v", 1)], partialFilterExpression={"m.id": {"$lt": 3}, "v": {"$gt": 10}})
    db.command("createIndexes", "meta", indexes=[{"key": {"t": 1}, "name": "ttl", "expireAfterSeconds": 10**9,
                                                 "partialFilterExpression": {"m.id": 6}}])


def same(copy, source, what):
    equal("options and indexes, " + what, described(copy), described(source))
    for name in SERIES:
        equal("measurements of %s, %s" % (name, what), measurements(copy[name]), measurements(source[name]))
        equal("count of %s, %s" % (name, what), copy[name].count_documents({"m.id": 2}), source[name].count_documents({"m.id": 2}))
        valid = copy.command("validate", name, full=True)
        check("validate of %s, %s" % (name, what), valid["valid"] and not valid["warnings"], valid)
    # What is restored is a time series as before.
    copy.meta.insert_one({"_id": "new", "t": BEGIN, "m": {"id": 1, "name": "Sensor 1"}, "v": 1.5})
    equal("an insert, " + what, copy.meta.find_one({"_id": "new"})["v"], 1.5)
    equal("a delete, " + what, copy.meta.delete_one({"_id": "new"}).deleted_count, 1)


def dump_and_restore(server):
    source = server.client.series
    fill(source)
    run(DUMP, "--quiet", "--uri", server.uri, "--db=series", "--out", path("dump"))
    check("the dump has the buckets", os.path.exists(path("dump/series/system.buckets.meta.bson")), os.listdir(path("dump/series")))
    names = "--nsFrom=series.*", "--nsTo"
    run(RESTORE, "--quiet", "--uri", server.uri, *names, "restored.*", path("dump"))
    same(server.client.restored, source, "restored")
    archive = "--archive=" + path("archive")
    run(DUMP, "--quiet", "--uri", server.uri, "--db=series", "--gzip", archive)
    run(RESTORE, "--quiet", "--uri", server.uri, "--gzip", archive, *names, "again.*")
    same(server.client.again, source, "from an archive")
    # Over what is there.
    server.client.again.meta.delete_many({"m.id": 1})
    run(RESTORE, "--quiet", "--uri", server.uri, "--drop", "--gzip", archive, *names, "again.*")
    same(server.client.again, source, "restored again")
    run(DUMP, "--quiet", "--uri", server.uri, "--db=series", "--collection=meta", "--out", path("one"))
    run(RESTORE, "--quiet", "--uri", server.uri, "--nsInclude=series.meta", "--nsFrom=series.meta", "--nsTo=one.other", path("one"))
    equal("one collection", measurements(server.client.one.other), measurements(source.meta))
    return source.meta.count_documents({}) * len(SERIES)


class Load(threading.Thread):
    """Inserts with ascending ids; now and then it deletes some, and changes metadata."""

    def __init__(self, db):
        super().__init__()
        self.db, self.done, self.ended = db, 0, threading.Event()
        db.create_collection("load", timeseries={"timeField": "t", "metaField": "m"})
        # The dump takes a while.
        db.other.insert_many([{"p": os.urandom(2000)} for _ in range(8000)])

    def run(self):
        n = 0
        while not self.ended.is_set():
            at = BEGIN + datetime.timedelta(seconds=n)
            self.db.load.insert_many([{"_id": n + i, "t": at, "m": {"id": n % 3}, "n": n + i} for i in range(5)])
            n += 5
            if n % 50 == 0:
                self.db.load.delete_many({"n": n - 3})
                self.db.load.update_many({"m.id": 1}, {"$set": {"m.last": n}})
            self.done = n


def expected(count):
    gone = {n - 3 for n in range(50, count + 1, 50)}
    return [n for n in range(count) if n not in gone]


def dump_with_log(server):
    load = Load(server.client.loaded)
    load.start()
    while load.done < 200:
        load.ended.wait(0.01)
    before = load.done
    run(DUMP, "--quiet", "--uri", server.uri, "--oplog", "--out", path("logged"))
    load.ended.set()
    load.join()
    with open(path("logged/oplog.bson"), "rb") as file:
        entries = bson.decode_all(file.read())
    on_buckets = [entry for entry in entries if entry["ns"] == "loaded.system.buckets.load"]
    check("there are changes of buckets during the dump", len(on_buckets) > 5, len(on_buckets))
    target = Server(NAGI, path("target"), free_port(), member=False)
    run(RESTORE, "--uri", target.uri, "--oplogReplay", path("logged"))
    copy = target.client.loaded
    found = sorted(doc["n"] for doc in copy.load.find())
    last = found[-1] + 1
    check("the restored measurements are those of a moment of the dump", before <= last <= load.done, (before, last, load.done))
    # A statement may be the last one without the deletion that follows it.
    wanted = [expected(last), expected(last) + [last - 3]]
    check("without a gap", found in [sorted(one) for one in wanted], sorted(set(wanted[0]) ^ set(found)))
    valid = copy.command("validate", "load", full=True)
    check("they are valid", valid["valid"], valid)
    same(target.client.series, server.client.series, "from a dump with the log")
    target.remove()
    return len(on_buckets)


def apply_log(server):
    db = server.client.applied
    db.c.insert_many([measurement(n) for n in range(200)])
    into = {"db": "applied", "coll": "meta", "timeseries": {"timeField": "t", "metaField": "m"}}
    db.c.aggregate([{"$out": into}])
    db.meta.create_index([("v", 1)], partialFilterExpression={"m.id": 1})
    db.c.aggregate([{"$match": {"_id": {"$lt": 150}}}, {"$out": "meta"}])
    db.command("createIndexes", "meta", indexes=[{"key": {"t": 1}, "name": "ttl", "expireAfterSeconds": 10**9,
                                                 "partialFilterExpression": {"m.id": 6}}])
    db.command("collMod", "meta", timeseries={"granularity": "hours"})
    db.command("collMod", "meta", expireAfterSeconds=10**9)
    db.command("collMod", "meta", index={"name": "ttl", "hidden": True})
    db.meta.insert_one({"_id": "late", "t": BEGIN, "m": {"id": 1}})
    db.meta.delete_many({"v": {"$gt": 10}, "m.id": 2})
    db.meta.update_many({"m.id": 3}, {"$set": {"m.more": 1}})
    target = Server(NAGI, path("applied"), free_port(), member=False)
    entries = list(server.client.local["oplog.rs"].find({"op": {"$ne": "n"}, "ns": {"$regex": "^applied"}}))
    for entry in entries:
        target.client.admin.command("applyOps", [entry])
    copy = target.client.applied
    equal("measurements by a log", [str(doc) for doc in copy.meta.find().sort("t", 1)], [str(doc) for doc in db.meta.find().sort("t", 1)])
    listed = lambda db: [row for row in db.list_collections() if row["type"] == "timeseries"]
    equal("options by a log", listed(copy), listed(db))
    equal("indexes by a log", list(copy.meta.list_indexes()), list(db.meta.list_indexes()))
    check("valid by a log", copy.command("validate", "meta", full=True)["valid"])
    target.remove()
    return len(entries)


def old_bucket(n, meta, rows):
    """A bucket of version 1: each field is an object of values by their position."""
    begin = BEGIN + datetime.timedelta(hours=n)
    data = {}
    for at, row in enumerate(rows):
        for name, value in {"t": begin + datetime.timedelta(minutes=at), **row}.items():
            data.setdefault(name, {})[str(at)] = value
    # Numbers are less than strings.
    order = lambda value: (isinstance(value, str), value)
    ends = {end: {name: f(values.values(), key=order) for name, values in data.items()} for end, f in (("min", min), ("max", max))}
    seconds = int(begin.replace(tzinfo=datetime.timezone.utc).timestamp())
    bucket = {"_id": ObjectId(seconds.to_bytes(4, "big") + n.to_bytes(8, "big")), "control": {"version": 1, **ends}, "data": data}
    return bucket if meta is None else {**bucket, "meta": meta}


def old_buckets(server):
    folder = path("old/series_old")
    os.makedirs(folder)
    rows = [[{"_id": 100 * n + i, "v": i * n} for i in range(40)] for n in range(5)]
    rows.append([{"_id": 500, "v": 5}, {"_id": 501, "v": "text"}, {"_id": 502}])
    metas = [1, 1, {"a": 1}, None, "m", 1]
    with open(os.path.join(folder, "system.buckets.old.bson"), "wb") as file:
        for n, (meta, own) in enumerate(zip(metas, rows)):
            file.write(bson.encode(old_bucket(n, meta, own)))
    described = {"options": {"timeseries": {"timeField": "t", "metaField": "m", "granularity": "seconds", "bucketMaxSpanSeconds": 3600}},
                 "indexes": [{"v": 2, "key": {"m": 1, "t": 1}, "name": "m_1_t_1"}], "uuid": "00" * 16, "collectionName": "old",
                 "type": "timeseries"}
    with open(os.path.join(folder, "old.metadata.json"), "w") as file:
        json.dump(described, file)
    run(RESTORE, "--quiet", "--uri", server.uri, path("old"))
    old = server.client.series_old.old
    count = sum(len(own) for own in rows)
    equal("measurements of old buckets", old.count_documents({}), count)
    for query, found in [({"m": 1}, 83), ({"v": "text"}, 1), ({"v": {"$gte": 100}}, 21), ({"v": 5}, 2), ({"v": {"$exists": False}}, 1),
                         ({"t": {"$gte": BEGIN + datetime.timedelta(hours=4)}}, 43), ({"m": None}, 40), ({"m.a": 1, "v": 78}, 1)]:
        equal("old buckets, %r" % query, old.count_documents(query), found)
    equal("a measurement", old.find_one({"_id": 207}), {"t": BEGIN + datetime.timedelta(hours=2, minutes=7), "m": {"a": 1}, "_id": 207, "v": 14})
    valid = server.client.series_old.command("validate", "old", full=True)
    check("old buckets are valid", valid["valid"], valid)
    # They are changed in place.
    equal("a delete in an old bucket", old.delete_many({"v": {"$lt": 10}, "m": 1}).deleted_count, 40 + 10 + 1)
    old.insert_one({"_id": 999, "t": BEGIN + datetime.timedelta(hours=1, minutes=50), "m": 1, "v": 7})
    equal("after them", old.count_documents({}), count - 50)
    run(DUMP, "--quiet", "--uri", server.uri, "--db=series_old", "--out", path("newer"))
    run(RESTORE, "--quiet", "--uri", server.uri, "--nsFrom=series_old.*", "--nsTo=series_new.*", path("newer"))
    equal("dumped again", measurements(server.client.series_new.old), measurements(old))
    return count


shutil.rmtree(FOLDER, ignore_errors=True)
os.makedirs(FOLDER)
source = Server(NAGI, path("source"), PORT)
require(source.client.admin.command("hello")["isWritablePrimary"], "a primary")
restored = dump_and_restore(source)
changes = dump_with_log(source)
applied = apply_log(source)
old = old_buckets(source)
source.remove()
print("time series: %d measurements dumped and restored, %d changes of buckets in a log, %d entries applied, %d measurements of old buckets" %
      (restored, changes, applied, old))
finish("mongodump and mongorestore of time series")

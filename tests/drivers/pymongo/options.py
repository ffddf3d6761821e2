"""Checks that options of the commands that read and write take effect, instead of being parsed and ignored:
options.py URI.

A table has every command that takes a filter, with every option it takes. The effect of an option is visible in
the result: a sparse index as hint omits documents, a collation finds more, a variable selects, the time limit
expires.
"""
import os
import sys

import pymongo
from bson import Decimal128, SON
from pymongo import MongoClient

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, fails, finish, section  # noqa: E402

DOCS = [{"_id": i, "a": i % 3, "s": "x" if i % 2 else "X", "h": i} | ({"sp": 9 - i} if i < 4 else {}) for i in range(10)]
NOCASE = {"locale": "en", "strength": 2}
TURNS = {"$range": [0, 10_000]}
INNER = {"$reduce": {"input": TURNS, "initialValue": 0, "in": {"$add": ["$$value", "$$this", "$a"]}}}
SLOW = {"$expr": {"$gte": [{"$reduce": {"input": TURNS, "initialValue": 0, "in": {"$add": ["$$value", INNER]}}}, 0]}}


def fresh(db):
    c = db.options
    c.drop()
    c.insert_many(DOCS)
    c.create_index("sp", sparse=True)
    c.create_index("a")
    c.create_index("h", hidden=True)
    return c


def seen_by_find(db, query, **options):
    return sorted(d["_id"] for d in db.command("find", "options", filter=query, batchSize=100, **options)["cursor"]["firstBatch"])


def seen_by_aggregate(db, query, **options):
    reply = db.command("aggregate", "options", pipeline=[{"$match": query}], cursor={}, **options)
    return sorted(d["_id"] for d in reply["cursor"]["firstBatch"])


def seen_by_count(db, query, **options):
    return db.command("count", "options", query=query, **options)["n"]


def seen_by_distinct(db, query, **options):
    return sorted(db.command("distinct", "options", key="_id", query=query, **options)["values"])


def statement(options, **fields):
    """A statement of a write command: the options of the command itself stay in `options`."""
    for name in ("hint", "collation"):
        if name in options:
            fields[name] = options.pop(name)
    return [fields]


def raised(reply):
    if reply.get("writeErrors"):
        raise pymongo.errors.OperationFailure(reply["writeErrors"][0]["errmsg"], reply["writeErrors"][0]["code"])
    return reply


def seen_by_update(db, query, **options):
    updates = statement(options, q=query, u={"$set": {"z": 1}}, multi=True)
    raised(db.command("update", "options", updates=updates, **options))
    return sorted(d["_id"] for d in db.options.find({"z": 1}))


def seen_by_delete(db, query, **options):
    deletes = statement(options, q=query, limit=0)
    raised(db.command("delete", "options", deletes=deletes, **options))
    left = {d["_id"] for d in db.options.find()}
    return [i for i in range(10) if i not in left]


def seen_by_find_and_modify(db, query, **options):
    """Modifies documents one at a time, until none is left."""
    seen = []
    while True:
        query_left = {"$and": [query, {"z": None}]}
        reply = db.command(SON([("findAndModify", "options"), ("query", query_left), ("update", {"$set": {"z": 1}})] + list(options.items())))
        if reply["value"] is None:
            return sorted(seen)
        seen.append(reply["value"]["_id"])


def seen_by_bulk_write(db, query, **options):
    op = {"update": 0, "filter": query, "updateMods": {"$set": {"z": 1}}, "multi": True}
    for name in ("hint", "collation"):
        if name in options:
            op[name] = options.pop(name)
    reply = db.client.admin.command("bulkWrite", 1, ops=[op], nsInfo=[{"ns": db.name + ".options"}], **options)
    failed = [r for r in reply["cursor"]["firstBatch"] if not r["ok"]]
    if failed:
        raise pymongo.errors.OperationFailure(failed[0]["errmsg"], failed[0]["code"])
    return sorted(d["_id"] for d in db.options.find({"z": 1}))


COMMANDS = [seen_by_find, seen_by_aggregate, seen_by_count, seen_by_distinct, seen_by_update, seen_by_delete,
            seen_by_find_and_modify, seen_by_bulk_write]
WITH_LET = [seen_by_find, seen_by_aggregate, seen_by_update, seen_by_delete, seen_by_find_and_modify, seen_by_bulk_write]
EXPLAINED = [
    ("find", lambda q: {"find": "options", "filter": q}),
    ("aggregate", lambda q: {"aggregate": "options", "pipeline": [{"$match": q}], "cursor": {}}),
    ("count", lambda q: {"count": "options", "query": q}),
    ("distinct", lambda q: {"distinct": "options", "key": "a", "query": q}),
    ("update", lambda q: {"update": "options", "updates": [{"q": q, "u": {"$set": {"z": 1}}}]}),
    ("delete", lambda q: {"delete": "options", "deletes": [{"q": q, "limit": 0}]}),
    ("findAndModify", lambda q: {"findAndModify": "options", "query": q, "remove": True}),
]


def each(db, commands, what, expected, query, **options):
    for command in commands:
        fresh(db)
        wanted = len(expected) if command is seen_by_count else expected
        try:
            equal("%s of %s" % (what, command.__name__[8:]), command(db, query, **options), wanted)
        except pymongo.errors.OperationFailure as error:
            check("%s of %s" % (what, command.__name__[8:]), False, error)


def each_fails(db, commands, what, code, query, **options):
    for command in commands:
        fresh(db)
        fails("%s of %s" % (what, command.__name__[8:]), code, lambda: command(db, query, **options))
        equal("%s of %s has changed nothing" % (what, command.__name__[8:]), list(db.options.find()), DOCS)


def obeyed_by_all(client, db):
    each(db, COMMANDS, "no option", list(range(10)), {})
    each(db, COMMANDS, "hint by name", [0, 1, 2, 3], {}, hint="sp_1")
    each(db, COMMANDS, "hint by key", [0, 1, 2, 3], {}, hint={"sp": 1})
    each_fails(db, COMMANDS, "a hint of no index", 2, {}, hint="nope")
    each_fails(db, COMMANDS, "a hint of a hidden index", 2, {"h": 3}, hint="h_1")
    each(db, COMMANDS, "no collation", [1, 3, 5, 7, 9], {"s": "x"})
    each(db, COMMANDS, "collation", list(range(10)), {"s": "x"}, collation=NOCASE)
    each_fails(db, COMMANDS, "an unknown collation", 2, {}, collation={"locale": "klingon"})
    each(db, WITH_LET, "let", [1, 4, 7], {"$expr": {"$eq": ["$a", "$$v"]}}, let={"v": 1})
    each_fails(db, WITH_LET, "a variable that let does not have", 17276, {"$expr": {"$eq": ["$a", "$$v"]}}, let={"w": 1})
    each_fails(db, COMMANDS, "maxTimeMS", 50, SLOW, maxTimeMS=5)


def explained(client, db):
    fresh(db)
    for name, command in EXPLAINED:
        plan = str(db.command("explain", command({"a": 1}), verbosity="queryPlanner"))
        check("%s takes an index" % name, "'indexName': 'a_1'" in plan, plan)
        plan = str(db.command("explain", command({"h": 1}), verbosity="queryPlanner"))
        check("%s takes no hidden index" % name, "COLLSCAN" in plan and "h_1" not in plan, plan)
        hinted = command({"a": 1})
        (hinted.get("updates") or hinted.get("deletes") or [hinted])[0]["hint"] = "sp_1"
        plan = str(db.command("explain", hinted, verbosity="queryPlanner"))
        check("%s takes the hint" % name, "'indexName': 'sp_1'" in plan, plan)
    db.command("collMod", "options", index={"name": "h_1", "hidden": False})
    for name, command in EXPLAINED:
        plan = str(db.command("explain", command({"h": 1}), verbosity="queryPlanner"))
        check("%s takes it once it is shown" % name, "'indexName': 'h_1'" in plan, plan)


def of_find(client, db):
    c = fresh(db)
    find = lambda **options: db.command("find", "options", **options)["cursor"]["firstBatch"]  # noqa: E731
    equal("min and max", [d["_id"] for d in find(min={"a": 1}, max={"a": 2}, hint="a_1")], [1, 4, 7])
    fails("min without hint", 51173, lambda: find(min={"a": 1}))
    fails("min beyond max", 51175, lambda: find(min={"a": 2}, max={"a": 1}, hint="a_1"))
    fails("min of other fields", 51174, lambda: find(min={"b": 2}, hint="a_1"))
    equal("returnKey", find(filter={"a": 2}, returnKey=True), [{"a": 2}] * 3)
    equal("returnKey without index", find(filter={"s": "X"}, returnKey=True), [{}] * 5)
    shown = find(filter={"_id": 3}, showRecordId=True)
    check("showRecordId", len(shown) == 1 and isinstance(shown[0]["$recordId"], int), shown)
    by_id = lambda **options: [d["_id"] for d in find(**options)]  # noqa: E731
    equal("sort, skip and limit", by_id(sort={"a": -1, "_id": 1}, skip=1, limit=3), [5, 8, 1])
    equal("a negative limit of the driver", [d["_id"] for d in c.find().sort("_id", -1).limit(-2)], [9, 8])
    equal("$natural backwards", by_id(hint={"$natural": -1}, limit=2), [9, 8])
    reply = db.command("find", "options", batchSize=2, singleBatch=True)["cursor"]
    equal("singleBatch", (len(reply["firstBatch"]), reply["id"]), (2, 0))


def memory(client, db):
    db.sorted.drop()
    db.sorted.insert_many([{"_id": i, "k": -i, "fill": "x" * 2000} for i in range(2000)])
    name = "internalQueryMaxBlockingSortMemoryUsageBytes"
    before = client.admin.command("getParameter", 1, **{name: 1})[name]
    client.admin.command("setParameter", 1, **{name: 1 << 20})
    find = lambda **options: db.command("find", "sorted", sort={"k": 1}, **options)["cursor"]["firstBatch"]  # noqa: E731
    pipeline = [{"$sort": {"k": 1}}, {"$limit": 1500}, {"$project": {"fill": 0}}]
    aggregate = lambda **options: db.command("aggregate", "sorted", pipeline=pipeline, cursor={}, **options)["cursor"]["firstBatch"]  # noqa: E731
    try:
        equal("a sort may spill", find()[0]["_id"], 1999)
        equal("allowDiskUse of find", find(allowDiskUse=True)[0]["_id"], 1999)
        fails("find without disk", 292, lambda: find(allowDiskUse=False))
        equal("allowDiskUse of aggregate", aggregate(allowDiskUse=True)[0]["_id"], 1999)
        fails("aggregate without disk", 292, lambda: aggregate(allowDiskUse=False))
        client.admin.command("setParameter", 1, allowDiskUseByDefault=False)
        fails("no disk by default", 292, find)
        equal("but if asked for", find(allowDiskUse=True)[0]["_id"], 1999)
    finally:
        client.admin.command("setParameter", 1, allowDiskUseByDefault=True)
        client.admin.command("setParameter", 1, **{name: before})


def commented(client, db):
    """A comment of any type appears in the profile for every command, and a getMore shows the comment of its
    original command."""
    c = db.commented
    c.insert_many([{"_id": i} for i in range(9)])
    commands = [
        SON(count="commented"), SON(distinct="commented", key="_id"), SON(insert="commented", documents=[{"_id": 9}]),
        SON(update="commented", updates=[{"q": {}, "u": {"$set": {"x": 1}}}]),
        SON(delete="commented", deletes=[{"q": {"_id": 9}, "limit": 1}]),
        SON(findAndModify="commented", query={}, update={"$set": {"x": 2}}),
        SON(createIndexes="commented", indexes=[{"key": {"x": 1}, "name": "x"}]), SON(listIndexes="commented"),
        SON(dropIndexes="commented", index="x"), SON(create="commented2"), SON(drop="commented2"), SON(listCollections=1),
        SON(collStats="commented"), SON(validate="commented"), SON(explain={"find": "commented"}), SON(ping=1),
    ]
    db.command("profile", 2)
    for i, command in enumerate(commands):
        db.command(SON(command, comment={"n": i}))
    for i, command in enumerate([SON(find="commented", batchSize=2), SON(aggregate="commented", pipeline=[], cursor={"batchSize": 2})]):
        cursor = db.command(SON(command, comment=f"c{i}"))["cursor"]["id"]
        db.command(SON(getMore=cursor, collection="commented", batchSize=2))
        running = client.admin.aggregate([{"$currentOp": {"idleCursors": True}}, {"$match": {"cursor.cursorId": cursor}}]).next()
        equal(f"comment of an idle cursor {i}", running["cursor"]["originatingCommand"].get("comment"), f"c{i}")
        db.command(SON(getMore=cursor, collection="commented", comment=[i]))
    db.command("profile", 0)
    seen = list(db.system.profile.find({}, sort=[("$natural", 1)]))
    own = [p["command"].get("comment") for p in seen]
    for i, command in enumerate(commands):
        check(f"comment of {next(iter(command))}", {"n": i} in own, own)
    inherited = [(p["originatingCommand"].get("comment"), p["command"].get("comment")) for p in seen if p["op"] == "getmore"]
    equal("comments of getMore", inherited, [("c0", None), ("c0", [0]), ("c1", None), ("c1", [1])])
    db.system.profile.drop()


def numbers(client, db):
    """A number that MongoDB refuses is not rounded: a limit of half a document must not delete all
    documents."""
    db.numbers.drop()
    db.numbers.insert_many([{"_id": i} for i in range(10)])
    decimal = Decimal128("0.5")
    for limit in (0.5, -0.5, float("nan"), float("inf"), 2, decimal):
        fails(f"delete limit {limit}", 9, lambda limit=limit: db.command("delete", "numbers", deletes=[{"q": {}, "limit": limit}]))
    for n in (0.5, -0.5, float("nan"), 1e300, decimal):
        fails(f"count limit {n}", 9, lambda n=n: db.command("count", "numbers", limit=n))
        fails(f"count skip {n}", 9, lambda n=n: db.command("count", "numbers", skip=n))
        fails(f"$limit {n}", 5107201, lambda n=n: list(db.numbers.aggregate([{"$limit": n}])))
        fails(f"$skip {n}", 5107200, lambda n=n: list(db.numbers.aggregate([{"$skip": n}])))
        fails(f"killOp {n}", 2, lambda n=n: client.admin.command("killOp", op=n))
        fails(f"index version {n}", 2, lambda n=n: db.command(
            "createIndexes", "numbers", indexes=[{"key": {"a": 1}, "name": "a", "v": n}]))
    equal("nothing was deleted", db.numbers.count_documents({}), 10)
    fails("a multi that is no bool", 14, lambda: client.admin.command(
        "bulkWrite", 1, ops=[{"delete": 0, "filter": {}, "multi": 0.5}], nsInfo=[{"ns": "nagi_options.numbers"}]))
    equal("limit -0.0", db.command("delete", "numbers", deletes=[{"q": {"_id": {"$lt": 5}}, "limit": -0.0}])["n"], 5)
    equal("limit 1.0", db.command("delete", "numbers", deletes=[{"q": {}, "limit": 1.0}])["n"], 1)


def main():
    client = MongoClient(sys.argv[1], serverSelectionTimeoutMS=5000, socketTimeoutMS=60000)
    client.drop_database("nagi_options")
    for f in (obeyed_by_all, explained, of_find, memory, commented, numbers):
        section(f, client, client.nagi_options)
    client.drop_database("nagi_options")
    finish("options")


main()

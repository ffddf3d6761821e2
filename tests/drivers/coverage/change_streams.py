"""Change streams: scopes, options, events, tokens, waiting, resuming, images."""
import datetime
import threading
import time

from bson import Timestamp
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from access import login
from probes import code_of, equal, fields, need, probe


def stream(on, *stages, **options):
    return on.watch(list(stages), max_await_time_ms=50, **options)


def events(of, count):
    """So many events; there must be no more."""
    seen = []
    while len(seen) < count:
        event = of.try_next()
        need(event is not None, seen)
        seen.append(event)
    equal(of.try_next() if of.alive else None, None)
    return seen


def kinds(seen):
    return [event["operationType"] for event in seen]


@probe("replica", "cs.open", "cs.event", "cs.insert", "cs.update", "agg.changestream")
def scopes_and_events(client):
    client.streams.c.drop()
    c, other = client.streams.c, client.elsewhere.c
    with stream(c) as one, stream(client.streams) as database, stream(client) as cluster:
        c.insert_one({"_id": 1, "a": [1, 2, 3]})
        c.update_one({"_id": 1}, {"$set": {"b.c": 1, "a.0": 5}, "$unset": {"no": 1}})
        c.update_one({"_id": 1}, {"$push": {"a": {"$each": [], "$slice": 1}}, "$unset": {"b": 1}})
        c.replace_one({"_id": 1}, {"r": 1})
        c.delete_one({"_id": 1})
        client.streams.d.insert_one({"_id": 2})
        other.insert_one({"_id": 3})
        seen = events(one, 5)
        equal(kinds(seen), ["insert", "update", "update", "replace", "delete"])
        for event in seen:
            fields(event, "_id._data clusterTime wallTime ns.db ns.coll documentKey._id")
            need(isinstance(event["clusterTime"], Timestamp) and isinstance(event["wallTime"], datetime.datetime), event)
        equal([event.get("fullDocument") for event in seen], [{"_id": 1, "a": [1, 2, 3]}, None, None, {"_id": 1, "r": 1}, None])
        equal(seen[1]["updateDescription"], {"updatedFields": {"b": {"c": 1}, "a.0": 5}, "removedFields": [], "truncatedArrays": []})
        equal(seen[2]["updateDescription"], {"updatedFields": {}, "removedFields": ["b"], "truncatedArrays": [{"field": "a", "newSize": 1}]})
        equal([event["ns"]["coll"] for event in events(database, 6)], ["c"] * 5 + ["d"])
        equal([event["ns"]["db"] for event in events(cluster, 7)], ["streams"] * 6 + ["elsewhere"])
    for refused, code in ((client.admin, 73), (client.local.c, 73), (client.config, 73), (client.streams["system.js"], 73)):
        equal(code_of(lambda: refused.watch()), code)
    client.streams.command("create", "v", viewOn="c", pipeline=[])
    client.streams.command("create", "m", timeseries={"timeField": "t"})
    for refused in (client.streams.v, client.streams.m):
        equal(code_of(lambda: refused.watch()), 166)
    client.drop_database("streams")
    client.drop_database("elsewhere")


@probe("standalone", "cs.open")
def not_on_a_standalone(client):
    equal(code_of(lambda: client.test.c.watch()), 40573)


@probe("replica", "cs.ddl", "cs.expanded")
def definitions(client):
    db = client.streams
    client.drop_database("streams")
    with stream(db.c) as one, stream(db) as plain, stream(db, show_expanded_events=True) as all:
        db.create_collection("c")
        db.c.create_index("x")
        db.c.drop_index("x_1")
        db.command("collMod", "c", validationLevel="moderate")
        db.create_collection("v", viewOn="c", pipeline=[])
        db.d.insert_one({"_id": 1})
        db.d.rename("e")
        db.c.drop()
        client.drop_database("streams")
        seen = events(one, 2)
        equal((kinds(seen), one.alive), (["drop", "invalidate"], False))
        seen = events(plain, 6)
        equal(kinds(seen), ["insert", "rename", "drop", "drop", "dropDatabase", "invalidate"])
        equal((seen[1]["ns"], seen[1]["to"]), ({"db": "streams", "coll": "d"}, {"db": "streams", "coll": "e"}))
        seen = events(all, 12)
        equal(kinds(seen), ["create", "createIndexes", "dropIndexes", "modify", "create", "create", "insert", "rename", "drop", "drop", "dropDatabase",
                            "invalidate"])
        equal(seen[1]["operationDescription"], {"indexes": [{"v": 2, "key": {"x": 1}, "name": "x_1"}]})
        equal(seen[3]["operationDescription"], {"validationLevel": "moderate"})
        need(all.alive is False and "collectionUUID" in seen[0], seen[0])
        equal([event.get("nsType") for event in seen[:6]], ["collection", None, None, None, "view", "collection"])


@probe("replica", "cs.token", "cs.resume", "cs.pbrt", "cs.opts", "cs.txn")
def resuming(client):
    client.streams.c.drop()
    c = client.streams.c
    with stream(c) as one:
        start = one.resume_token
        c.insert_many([{"_id": n} for n in range(3)])
        with client.start_session() as session, session.start_transaction():
            c.insert_one({"_id": 3}, session=session)
            c.delete_one({"_id": 0}, session=session)
        seen = events(one, 5)
        tokens = [start["_data"]] + [event["_id"]["_data"] for event in seen]
        equal(tokens, sorted(set(tokens)))
        equal((seen[3]["clusterTime"], seen[3]["lsid"], seen[3]["txnNumber"]), (seen[4]["clusterTime"], seen[4]["lsid"], seen[4]["txnNumber"]))
        # Without events, the token follows the log.
        before = one.resume_token["_data"]
        client.streams.other.insert_one({})
        equal(one.try_next(), None)
        need(one.resume_token["_data"] > before, before)
    for at in range(5):
        for option in ("resume_after", "start_after"):
            with stream(c, **{option: seen[at]["_id"]}) as again:
                equal(events(again, 4 - at), seen[at + 1:])
    with stream(c, start_at_operation_time=seen[1]["clusterTime"]) as again:
        equal(events(again, 4), seen[1:])
    c.drop()
    with stream(c, resume_after=seen[4]["_id"]) as again:
        invalid = events(again, 2)[1]["_id"]
    equal(code_of(lambda: c.watch(resume_after=invalid)), 260)
    with stream(c, start_after=invalid) as again:
        c.insert_one({"_id": 9})
        equal(events(again, 1)[0]["documentKey"], {"_id": 9})
    for token, code in (({"_data": "zz"}, 9), ({"a": 1}, 40647), ({"_data": ""}, 40649), ({"_data": "82"}, 50811)):
        equal(code_of(lambda: c.watch(resume_after=token)), code)
    with stream(client.streams.d, resume_after=seen[0]["_id"]) as again:
        client.streams.d.insert_one({})
        try:
            again.next()
            need(False, "a token of another stream")
        except OperationFailure as error:
            equal((error.code, error.has_error_label("NonResumableChangeStreamError")), (280, True))
    client.drop_database("streams")


@probe("replica", "cs.await")
def waiting(client):
    c = client.streams.c
    with c.watch(max_await_time_ms=200) as one:
        begin = time.monotonic()
        equal(one.try_next(), None)
        need(time.monotonic() - begin > 0.15 and one.alive)
    with c.watch(max_await_time_ms=60000) as one:
        writer = threading.Timer(0.05, lambda: c.insert_one({"_id": "late"}))
        writer.start()
        equal(one.next()["documentKey"], {"_id": "late"})
        writer.join()
    client.drop_database("streams")


@probe("replica", "cs.pipeline", "cs.large", "agg.changestreamsplit")
def pipelines(client):
    db = client.streams
    c = db.create_collection("large", changeStreamPreAndPostImages={"enabled": True})
    for stage in ({"$group": {"_id": 1}}, {"$sort": {"a": 1}}, {"$limit": 1}, {"$lookup": {"from": "c", "pipeline": [], "as": "x"}}, {"$out": "x"}):
        equal(code_of(lambda: c.watch([stage])), 20)
    stages = [{"$match": {"fullDocument.n": {"$gt": 1}}}, {"$addFields": {"twice": {"$multiply": ["$fullDocument.n", 2]}}}, {"$unset": "wallTime"},
              {"$set": {"s": 1}}, {"$redact": "$$KEEP"}, {"$replaceWith": "$$ROOT"}, {"$replaceRoot": {"newRoot": "$$ROOT"}}, {"$project": {"twice": 1}}]
    with stream(c, *stages) as some:
        c.insert_many([{"_id": n, "n": n} for n in range(4)])
        equal([event["twice"] for event in events(some, 2)], [4, 6])
    with stream(c, {"$project": {"_id": 0}}) as without, stream(c, {"$set": {"_id": 1}}) as changed:
        c.insert_one({})
        equal((code_of(without.next), code_of(changed.next)), (280, 280))
    images = dict(full_document="required", full_document_before_change="required")
    with stream(c, **images) as whole, stream(c, {"$changeStreamSplitLargeEvent": {}}, **images) as split:
        c.insert_one({"_id": "big", "s": "x" * (9 << 20)})
        whole.next()
        c.update_one({"_id": "big"}, {"$set": {"a": 1}})
        equal(code_of(whole.next), 10334)
        seen = events(split, 3)
        equal([event.get("splitEvent") for event in seen], [None, {"fragment": 1, "of": 2}, {"fragment": 2, "of": 2}])
        with stream(c, {"$changeStreamSplitLargeEvent": {}}, resume_after=seen[1]["_id"], **images) as again:
            equal(events(again, 1), seen[2:])
    client.drop_database("streams")


@probe("replica", "cs.images", "par.changestream")
def images(client):
    db = client.streams
    c = db.create_collection("images", changeStreamPreAndPostImages={"enabled": True})
    wanted = dict(full_document="whenAvailable", full_document_before_change="whenAvailable")
    with stream(c, **wanted) as one, stream(db.without, **wanted) as none, stream(c, full_document="updateLookup") as lookup:
        for each in (c, db.without):
            each.insert_one({"_id": 1, "s": "a text that no difference has", "n": [1, 2]})
            each.update_one({"_id": 1}, {"$set": {"n.1": 3}})
            each.update_one({"_id": 1}, {"$set": {"m": 1}})
            each.delete_one({"_id": 1})
        seen = events(one, 4)
        equal([(e.get("fullDocumentBeforeChange") or {}).get("n") for e in seen], [None, [1, 2], [1, 3], [1, 3]])
        equal([(e.get("fullDocument") or {}).get("n") for e in seen], [[1, 2], [1, 3], [1, 3], None])
        equal([e["fullDocumentBeforeChange"] for e in events(none, 4)[1:]], [None] * 3)
        equal([e["fullDocument"] for e in events(lookup, 4)[1:3]], [None, None])
    with stream(db.without, full_document="required", batch_size=1, start_at_operation_time=seen[0]["clusterTime"]) as required:
        required.next()
        equal(code_of(required.next), 47)
    uuid = db.command("listCollections", filter={"name": "images"})["cursor"]["firstBatch"][0]["info"]["uuid"]
    stored = lambda: list(client.config["system.preimages"].find({"_id.nsUUID": uuid}))
    equal([(doc["preImage"]["n"], doc["_id"]["ts"], doc["_id"]["applyOpsIndex"]) for doc in stored()],
          [(n, event["clusterTime"], 0) for n, event in zip(([1, 2], [1, 3], [1, 3]), seen[1:])])
    equal([doc["operationTime"] for doc in stored()], [event["wallTime"] for event in seen[1:]])
    expire = lambda value: client.admin.command("setClusterParameter", {"changeStreamOptions": {"preAndPostImages": {"expireAfterSeconds": value}}})
    expire(1)
    until = time.monotonic() + 10
    left = True
    while left and time.monotonic() < until:
        with stream(c, full_document_before_change="whenAvailable", start_after=seen[0]["_id"]) as later:
            left = any(e["fullDocumentBeforeChange"] for e in events(later, 3))
    equal((left, stored()), (False, []))
    expire("off")
    client.drop_database("streams")


@probe("auth", "cs.open", "rbac.read", "rbac.readany")
def who_may_watch(root):
    root.shop.command("createUser", "reader", pwd="p", roles=["read"])
    root.shop.command("createRole", "finder", privileges=[{"resource": {"db": "shop", "collection": "orders"}, "actions": ["find"]}], roles=[])
    root.shop.command("createRole", "watcher", privileges=[{"resource": {"db": "shop", "collection": "orders"}, "actions": ["find", "changeStream"]}], roles=[])
    root.shop.command("createUser", "finder", pwd="p", roles=["finder"])
    root.shop.command("createUser", "watcher", pwd="p", roles=["watcher"])
    root.admin.command("createUser", "any", pwd="p", roles=["readAnyDatabase"])
    # Behind the check of privileges, this server is no member of a replica set.
    allowed = 40573
    for user, source, collection, database, cluster in (("reader", "shop", allowed, allowed, 13), ("finder", "shop", 13, 13, 13), ("watcher", "shop", allowed, 13, 13),
                                                        ("any", "admin", allowed, allowed, allowed), (None, None, 13, 13, 13)):
        one = login(root, user, "p", source) if user else MongoClient(*root.address, directConnection=True)
        seen = code_of(lambda: one.shop.orders.watch()), code_of(lambda: one.shop.watch()), code_of(lambda: one.watch())
        equal((user, seen), (user, (collection, database, cluster)))
        equal(code_of(lambda: one.other.c.watch()), cluster)

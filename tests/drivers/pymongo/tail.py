"""Capped collections, tailable cursors, and requests whose client disconnects: tail.py URI

Prints one line with a count; the exit status is 0 if every assertion held.
"""
import os
import socket
import struct
import sys
import threading
import time

import bson
import pymongo
from pymongo import CursorType
from pymongo.errors import WriteError

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import passed, require, require_equal, require_fails  # noqa: E402

uri = sys.argv[1]
client = pymongo.MongoClient(uri, serverSelectionTimeoutMS=10000)
client.drop_database("tail")
db = client.tail
PATIENCE = 60


def follow(coll, patience_ms=10000):
    return coll.find({}, cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(patience_ms)


def following():
    """A tailable cursor gets every document soon after its insert, in order, from several writers."""
    coll = db.create_collection("events", capped=True, size=1 << 20)
    require_equal(list(follow(coll)), [], "an empty capped collection yields a dead cursor")
    coll.insert_one({"w": -1, "n": 0})
    cursor = follow(coll)
    require_equal(next(cursor)["w"], -1, "what is there already comes first")
    writers = [
        threading.Thread(target=lambda w=w: [coll.insert_one({"w": w, "n": n, "at": time.time()}) for n in range(50)])
        for w in range(4)
    ]
    begun = time.time()
    for thread in writers:
        thread.start()
    seen, latest = {w: [] for w in range(4)}, 0.0
    while sum(map(len, seen.values())) < 200:
        doc = next(cursor)
        latest = max(latest, time.time() - doc["at"])
        seen[doc["w"]].append(doc["n"])
    for thread in writers:
        thread.join()
    for w, numbers in seen.items():
        require_equal(numbers, list(range(50)), "writer %d in order, nothing missed" % w)
    require(time.time() - begun < 10, "no wait for the patience of a getMore")
    require(cursor.alive, "the cursor lives at the end")
    cursor.close()
    return latest


def ends():
    """A cursor that falls behind, or whose collection is dropped, gets an error."""
    coll = db.create_collection("ring", capped=True, size=4096, max=3)
    coll.insert_many([{"_id": n} for n in range(3)])
    cursor = coll.find({}, cursor_type=CursorType.TAILABLE)
    require_equal([doc["_id"] for doc in cursor], [0, 1, 2], "the end of a tailable cursor is no end")
    require(cursor.alive, "it stays open")
    coll.insert_many([{"_id": n} for n in range(3, 9)])
    require_equal(next(cursor, None), None, "the position is lost (136): the driver takes it for the end")
    require(not cursor.alive, "and the cursor for dead")
    require_equal([doc["_id"] for doc in coll.find().sort("$natural", -1)], [8, 7, 6], "against the order of insertion")
    require_equal(db.command("collStats", "ring")["max"], 3, "collStats tells the limits")
    db.plain.insert_one({})
    require_fails(2, "", "only capped collections can be followed",
                  lambda: list(db.plain.find({}, cursor_type=CursorType.TAILABLE)))
    waiting = follow(coll)
    [next(waiting) for _ in range(3)]
    dropper = threading.Timer(0.2, coll.drop)
    dropper.start()
    require_equal(next(waiting, None), None, "a drop brings no document")
    require(not waiting.alive, "a drop ends the cursor")
    dropper.join()


def tokens():
    """The scan of a collection continues after a resume token in another cursor, as dump tools do."""
    db.scan.insert_many([{"_id": n} for n in range(10)])
    find = {"find": "scan", "hint": {"$natural": 1}, "$_requestResumeToken": True, "batchSize": 4}
    first = db.command(find)["cursor"]
    token = first["postBatchResumeToken"]
    rest = db.command({**find, "batchSize": 100, "$_resumeAfter": token})["cursor"]
    require_equal([doc["_id"] for doc in first["firstBatch"] + rest["firstBatch"]], list(range(10)), "all documents, each once")


def validation():
    """A refused document is reported with the reasons."""
    schema = {"bsonType": "object", "required": ["name"], "properties": {"age": {"minimum": 18}}}
    coll = db.create_collection("people", validator={"$jsonSchema": schema})
    try:
        coll.insert_one({"_id": 1, "age": 3})
        require(False, "it was taken")
    except WriteError as error:
        info = error.details["errInfo"]
        require_equal(info["failingDocumentId"], 1, "which document")
        rules = info["details"]["schemaRulesNotSatisfied"]
        # In the order of the rules, not of the schema (decision 030).
        require_equal([rule["operatorName"] for rule in rules], ["properties", "required"], "which rules")
        require_equal(rules[1]["missingProperties"], ["name"], "what is missing")


def running(name):
    ops = client.admin.aggregate([{"$currentOp": {}}, {"$match": {"command." + name: {"$exists": True}, "ns": "tail.v"}}])
    return len(list(ops))


def leaving():
    """A read is cancelled soon after its client has disconnected."""
    db.big.insert_one({"a": list(range(1000))})
    db.create_collection("v", viewOn="big", pipeline=[
        {"$set": {"b": "$a", "c": "$a"}}, {"$unwind": "$a"}, {"$unwind": "$b"}, {"$unwind": "$c"},
        {"$match": {"$expr": {"$lt": ["$a", -1]}}},
    ])
    host, port = client.address
    wire = socket.create_connection((host, port))
    body = b"\0" * 4 + b"\0" + bson.encode({"find": "v", "$db": "tail"})
    wire.sendall(struct.pack("<iiii", 16 + len(body), 1, 0, 2013) + body)
    until = time.time() + PATIENCE
    while running("find") == 0:
        require(time.time() < until, "the read does not begin")
    wire.close()
    left = time.time()
    while running("find") > 0:
        require(time.time() < until, "the read does not end")
    return time.time() - left


def queues():
    """Tickets are counted."""
    status = client.admin.command("serverStatus")
    for pool in ("read", "write"):
        tickets = status["wiredTiger"]["concurrentTransactions"][pool]
        require_equal(tickets["totalTickets"], tickets["out"] + tickets["available"], "tickets of " + pool)
        require("normalPriority" in status["queues"]["execution"][pool], "the queue of " + pool)


latest = following()
ends()
tokens()
validation()
gone = leaving()
queues()
client.drop_database("tail")
print("tail: %d assertions; last in line %.0f ms behind its insert, a read ended %.0f ms after its client"
      % (passed(), latest * 1000, gone * 1000))

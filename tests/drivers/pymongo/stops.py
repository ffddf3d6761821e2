"""Stops operations from outside and checks the state afterwards: stops.py URI.

A client polls `$currentOp` until the operation appears, then stops it: by killOp, by its cursor or session, by
disconnecting, by dropping the collection or index that it builds. The operation must finish soon, with the
right code, and leave nothing incomplete. The test does not sleep: each step waits for its condition, for up to
a minute.
"""
import os
import socket
import struct
import sys

import bson
from pymongo import MongoClient

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import Running, check, equal, finish, section, wait_until  # noqa: E402

uri = sys.argv[1]
# Minutes of work: a million documents of ten thousand elements each. It is always stopped before it finishes.
ENDLESS = [{"$set": {"x": {"$range": [0, 1000]}}}, {"$unwind": "$x"}, {"$set": {"y": {"$range": [0, 10000]}}}, {"$unwind": "$y"},
           {"$group": {"_id": {"$mod": ["$y", 7]}, "n": {"$sum": 1}}}]


def running(client, match):
    return list(client.admin.aggregate([{"$currentOp": {"allUsers": True, "idleConnections": False}}, {"$match": match}]))


def shows(client, match):
    """The operation, once `$currentOp` shows it."""
    found = []
    wait_until(lambda: found or found.extend(running(client, match)), 60)
    return found[0] if found else {}


def ends(name, client, match, thread, code, end):
    op = shows(client, match)
    check("%s: $currentOp shows it" % name, op.get("active") is True and op.get("opid", 0) > 0, (op, thread.result))
    if op:
        end(op)
    equal("%s: its code" % name, thread.code(), code)
    check("%s: it is gone" % name, wait_until(lambda: not running(client, match), 60), match)


def kill(client):
    return lambda op: client.admin.command("killOp", 1, op=op["opid"])


def aggregations(client, db):
    db.some.insert_many([{"_id": i} for i in range(1000)])

    def endless(comment, **options):
        return Running(lambda: list(db.some.aggregate(ENDLESS, comment=comment, **options)))

    match = {"command.comment": "killed", "command.aggregate": "some", "active": True}
    thread = endless("killed")
    op = shows(client, match)
    equal("what $currentOp shows", (op.get("ns"), op.get("op"), op.get("type")), (db.name + ".some", "command", "op"))
    ends("killOp", client, match, thread, 11601, kill(client))
    ends("killOp of a write into another collection", client, {"command.comment": "out", "active": True},
         Running(lambda: list(db.some.aggregate(ENDLESS[:-1] + [{"$project": {"_id": 0}}, {"$out": "made"}], comment="out"))), 11601, kill(client))
    equal("$out leaves nothing", sorted(db.list_collection_names()), ["some"])
    equal("maxTimeMS", endless("timed", maxTimeMS=50).code(), 50)
    with client.start_session() as session:
        thread = endless("session", session=session)
        ends("killSessions", client, {"command.comment": "session", "active": True}, thread, 11601,
             lambda op: client.admin.command("killSessions", [session.session_id]))
    cursor = db.command("aggregate", "some", pipeline=ENDLESS, cursor={"batchSize": 0})["cursor"]["id"]
    thread = Running(lambda: db.command("getMore", bson.Int64(cursor), collection="some"))
    ends("killCursors of a cursor in use", client, {"command.getMore": cursor, "active": True}, thread, 237,
         lambda op: equal("killCursors", db.command("killCursors", "some", cursors=[cursor])["cursorsKilled"], [cursor]))
    equal("the cursor is gone", Running(lambda: db.command("getMore", bson.Int64(cursor), collection="some")).code(), 43)


def scripts(client, db):
    where = "function() { while (true) { } }"
    thread = Running(lambda: list(db.some.find({"$where": where}, comment="loop")))
    ends("killOp of JavaScript", client, {"command.comment": "loop", "active": True}, thread, 11601, kill(client))


def leaving(client, db):
    """A client sends a request and disconnects: the reply could not be delivered, so the work is cancelled."""
    host, port = client.address
    peer = socket.create_connection((host, port), 10)
    body = bson.encode({"aggregate": "some", "pipeline": ENDLESS, "cursor": {}, "comment": "left", "$db": db.name})
    peer.sendall(struct.pack("<iiiiIB", 21 + len(body), 1, 0, 2013, 0, 0) + body)
    match = {"command.comment": "left", "active": True}
    check("a request of a client that will leave", shows(client, match) != {}, match)
    peer.close()
    check("it ends when its client has left", wait_until(lambda: not running(client, match), 60), running(client, match))
    # The monitoring connections of drivers: each client leaves one behind.
    version = client.admin.command("hello")["topologyVersion"]
    body = bson.encode({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 600_000, "$db": "admin"})
    connections = lambda name: client.admin.command("serverStatus")["connections"][name]  # noqa: E731
    before, waiting = connections("current"), connections("awaitingTopologyChanges")
    peers = [socket.create_connection((host, port), 10) for _ in range(20)]
    for peer in peers:
        peer.sendall(struct.pack("<iiiiIB", 21 + len(body), 1, 0, 2013, 0, 0) + body)
    # Monitors of clients of earlier tests may end meanwhile, so the sum is not known.
    check("hellos that wait", wait_until(lambda: connections("awaitingTopologyChanges") >= 20, 10), waiting)
    for peer in peers:
        peer.close()
    check("they end when their clients have left", wait_until(lambda: connections("current") <= before + 2, 10), connections("current"))


def builds(client, db):
    """Index builds: progress, killOp, dropIndexes and drop while they run."""
    big = db.big
    text = " ".join("word%d" % i for i in range(40))
    for start in range(0, 20_000, 2000):
        big.insert_many([{"_id": i, "n": i, "t": text + " %d" % i} for i in range(start, start + 2000)])
    match = {"command.createIndexes": "big", "active": True, "progress": {"$exists": True}}

    def build(name, **options):
        return Running(lambda: big.create_index([("t", "text")], name=name, **options))

    thread = build("killed")
    op = shows(client, match)
    progress = op.get("progress", {})
    check("progress of a build", 0 < progress.get("done", 0) <= progress.get("total", 0) == 20_000, op)
    check("message of a build", "Index Build" in op.get("msg", "") and "%" in op.get("msg", ""), op)
    ends("killOp of a build", client, match, thread, 11601, kill(client))
    equal("no half index", list(big.index_information()), ["_id_"])
    thread = build("dropped")
    ends("dropIndexes of a build", client, match, thread, 276, lambda op: db.command("dropIndexes", "big", index="dropped"))
    equal("no dropped index", list(big.index_information()), ["_id_"])
    equal("time limit of a build", Running(lambda: db.command(
        "createIndexes", "big", indexes=[{"key": {"t": "text"}, "name": "t"}], maxTimeMS=50)).code(), 50)
    equal("no late index", list(big.index_information()), ["_id_"])
    check("valid", db.command("validate", "big")["valid"])
    log = [line for line in client.admin.command("getLog", "global")["log"] if '"INDEX"' in line]
    check("builds in the log", any("Index build: starting" in line for line in log) and any("Index build: failed" in line for line in log), log[-5:])
    thread = build("gone")
    ends("drop of the collection while it is built", client, match, thread, 276, lambda op: big.drop())
    equal("no collection", sorted(db.list_collection_names()), ["some"])


def main():
    client = MongoClient(uri, serverSelectionTimeoutMS=5000, socketTimeoutMS=120000)
    client.drop_database("nagi_stops")
    only = os.environ.get("ONLY", "").split()
    for f in (aggregations, scripts, leaving, builds):
        if not only or f.__name__ in only or f is aggregations:
            section(f, client, client.nagi_stops)
    client.drop_database("nagi_stops")
    finish("stops")


main()

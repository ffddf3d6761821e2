"""Spills to disk when memory is full, and the removal of the files: spills.py NAGI FOLDER [FLAG...].

Each operator that spills has the same result as in memory. It needs exactly its limit, and fails with 292 below
the limit where the disk is not allowed. It leaves no file when it finishes, is killed, times out, fails in a
later stage, or loses its client, its cursor or its session. Files of a server that is killed (SIGKILL) are
removed by the next start. `serverStatus().nagi.spills` reports the files.
"""
import os
import signal
import socket
import struct
import subprocess
import sys

import bson
from pymongo import MongoClient
from pymongo.errors import OperationFailure

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import Running, check, equal, fails, finish, section, wait_until  # noqa: E402

nagi, folder, flags = sys.argv[1], sys.argv[2], sys.argv[3:]
COUNT = 1500
SMALL, NORMAL = 20_000, 100 << 20
SORT = "internalQueryMaxBlockingSortMemoryUsageBytes"
GROUP = "internalDocumentSourceGroupMaxMemoryBytes"
BUCKET = "internalDocumentSourceBucketAutoMaxMemoryBytes"
WINDOW = "internalDocumentSourceSetWindowFieldsMaxMemoryBytes"
TEXT = "internalTextOrStageMaxMemoryBytes"
FACET = "internalQueryFacetBufferSizeBytes"
ORDER = {"$sort": {"_id": 1}}
# Name, parameter of its limit, its stages.
ROWS = [
    ("$sort", SORT, [{"$sort": {"k": 1}}]),
    ("$sort by two", SORT, [{"$sort": {"g": -1, "s": 1}}, {"$skip": 3}]),
    ("$group", GROUP, [{"$group": {"_id": "$k", "all": {"$push": "$s"}, "n": {"$sum": 1}}}]),
    ("$group of few", GROUP, [{"$group": {"_id": "$g", "all": {"$push": "$s"}, "a": {"$avg": "$k"}}}]),
    ("$sortByCount", GROUP, [{"$sortByCount": "$s"}, {"$project": {"count": 1}}]),
    ("$bucketAuto", BUCKET, [{"$bucketAuto": {"groupBy": "$k", "buckets": 7, "output": {"all": {"$push": "$s"}}}}]),
    ("$setWindowFields", WINDOW, [{"$setWindowFields": {"partitionBy": "$one", "output": {"n": {"$sum": "$k"}}}}]),
    ("$fill", SORT, [{"$fill": {"partitionBy": {"one": "$one"}, "sortBy": {"_id": 1}, "output": {"x": {"method": "locf"}}}}]),
    # Its input is buffered for a pipeline that needs all of it at once.
    ("$facet", FACET, [{"$facet": {"n": [{"$lookup": {"from": "none", "pipeline": [], "as": "z"}}, {"$count": "n"}], "g": [{"$group": {"_id": "$g", "n": {"$sum": "$k"}}}, {"$sort": {"_id": 1}}]}}]),
    ("text by score", TEXT, [{"$match": {"$text": {"$search": "common other"}}}, {"$project": {"x": {"$meta": "textScore"}}}]),
]
# Endless documents for the operator, so that it is writing when it is interrupted.
ENDLESS = [{"$set": {"x": {"$range": [0, 1000]}}}, {"$unwind": "$x"}, {"$set": {"y": {"$range": [0, 1000]}}}, {"$unwind": "$y"},
           {"$set": {"k": {"$add": ["$k", {"$multiply": ["$x", 1000]}, "$y"]}, "s": {"$concat": ["$s", {"$toString": "$x"}, "-", {"$toString": "$y"}]}}}]


class Server:
    def __init__(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        args = [nagi, "serve", "--dbpath", folder + "/data", "--port", str(self.port), "--bind_ip", "127.0.0.1", "--logpath",
                folder + "/nagi.log", "--logappend", "--setParameter", "clientCursorMonitorFrequencySecs=1"]
        self.process = subprocess.Popen(args + flags, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = MongoClient("127.0.0.1", self.port, serverSelectionTimeoutMS=180000, socketTimeoutMS=120000)
        self.client.admin.command("ping")
        self.db = self.client.spilling

    def spills(self):
        return self.client.admin.command("serverStatus")["nagi"]["spills"]

    def timed_out(self):
        return self.client.admin.command("serverStatus")["metrics"]["cursor"]["timedOut"]

    def limit(self, parameter, value):
        self.client.admin.command("setParameter", 1, **{parameter: value})

    def empty(self, what):
        """Waits until nothing is on disk: an operation that was stopped removes its files on its own thread."""
        gone = wait_until(lambda: all(self.spills()[name] == 0 for name in ("open", "openBytes", "diskBytes")), 60)
        check(what + ": nothing is left", gone, self.spills())

    def running(self, match):
        return list(self.client.admin.aggregate([{"$currentOp": {}}, {"$match": dict(match, active=True)}]))

    def end(self, how):
        self.client.close()
        self.process.send_signal(how)
        return self.process.wait(60)


def disk_bytes():
    return sum(os.stat(os.path.join(path, name)).st_blocks * 512 for path, _, names in os.walk(folder + "/data") for name in names)


def document(i):
    k = (i * 7919) % 1000
    return {"_id": i, "k": k, "g": i % 7, "s": "name %d" % (i * 31 % 1500), "t": "common" if i % 2 else "common other", "pad": "x" * 50}


def plain(server, stages, **options):
    """The result in a canonical order, as text."""
    return sorted(map(repr, server.db.c.aggregate(stages, **options)))


def edges(server):
    """The result is the same in memory and on disk; the least sufficient memory is the limit; below it the
    error is 292."""
    for name, parameter, stages in ROWS:
        expected = plain(server, stages)
        before = server.spills()["runs"]
        server.limit(parameter, SMALL)
        equal(name + ": the same on disk", plain(server, stages, allowDiskUse=True), expected)
        check(name + ": was on disk", server.spills()["runs"] > before, server.spills())
        fails(name + ": not allowed", 292, lambda: plain(server, stages, allowDiskUse=False))
        server.limit("allowDiskUseByDefault", False)
        fails(name + ": not by default", 292, lambda: plain(server, stages))
        equal(name + ": asked for", plain(server, stages, allowDiskUse=True), expected)
        server.limit("allowDiskUseByDefault", True)
        low, high = 1, NORMAL  # the first is too little, the second is enough
        while high - low > 1:
            middle = (low + high) // 2
            server.limit(parameter, middle)
            try:
                plain(server, stages, allowDiskUse=False)
                high = middle
            except OperationFailure as error:
                equal(name + ": too little", error.code, 292)
                low = middle
        server.limit(parameter, high)
        before = server.spills()["runs"]
        equal(name + ": exactly enough", plain(server, stages, allowDiskUse=True), expected)
        equal(name + ": nothing on disk then", server.spills()["runs"], before)
        server.limit(parameter, low)
        equal(name + ": one byte less", plain(server, stages, allowDiskUse=True), expected)
        check(name + ": goes to disk", server.spills()["runs"] > before, server.spills())
        server.limit(parameter, NORMAL)
        server.empty(name)


def endless(stages):
    if "$text" in repr(stages):
        return stages[:1] + ENDLESS + [{"$sort": {"k": 1}}]  # its own part finishes; a sort behind it does not
    return ENDLESS + stages


def writing(server, bytes_min=1):
    """Waits until something is being written to disk."""
    return wait_until(lambda: server.spills()["openBytes"] >= bytes_min, 60)


def stopped(server):
    """Stops each operator from outside while it is writing."""
    server.limit(SORT, SMALL)
    for name, parameter, stages in ROWS:
        server.limit(parameter, SMALL)
        pipeline = endless(stages)
        match = {"command.comment": name}

        def start(**options):
            return Running(lambda: list(server.db.c.aggregate(pipeline, comment=name, allowDiskUse=True, **options)))
        thread = start()
        check(name + ": writes", writing(server), thread.result)
        for op in server.running(match):
            server.client.admin.command("killOp", 1, op=op["opid"])
        equal(name + ": killOp", thread.code(), 11601)
        server.empty(name + " after killOp")
        thread = start(maxTimeMS=1500)
        equal(name + ": maxTimeMS", thread.code(), 50)
        server.empty(name + " after maxTimeMS")
        peer = socket.create_connection(("127.0.0.1", server.port), 10)
        body = bson.encode({"aggregate": "c", "pipeline": pipeline, "cursor": {}, "comment": name, "allowDiskUse": True, "$db": server.db.name})
        peer.sendall(struct.pack("<iiiiIB", 21 + len(body), 1, 0, 2013, 0, 0) + body)
        check(name + ": writes for a peer", writing(server))
        peer.close()
        server.empty(name + " after its client has gone")
        with server.client.start_session() as session:
            thread = start(session=session)
            check(name + ": writes in a session", writing(server), thread.result)
            server.client.admin.command("killSessions", [session.session_id])
            equal(name + ": killSessions", thread.code(), 11601)
        server.empty(name + " after killSessions")
        server.limit(parameter, NORMAL)
    server.limit(SORT, NORMAL)


def cursors(server):
    """Results on disk behind an open cursor: closed, timed out, removed with their session; an error in a later
    stage."""
    db = server.db
    for name, parameter, stages in ROWS:
        server.limit(parameter, SMALL)
        held = stages if name != "$facet" else stages + [{"$unwind": "$g"}]

        def opened(**options):
            cursor = db.c.aggregate(held, batchSize=2, allowDiskUse=True, **options)
            return next(cursor), cursor
        _, cursor = opened()
        if name in ("$sort", "$group"):
            check(name + ": the cursor holds runs", server.spills()["open"] == 1, server.spills())
        cursor.close()
        server.empty(name + ": its cursor is closed")
        _, cursor = opened()
        open_cursor = cursor.alive and cursor.cursor_id
        before = server.timed_out()
        server.limit("cursorTimeoutMillis", 1)
        check(name + ": its cursor times out", not open_cursor or wait_until(lambda: server.timed_out() > before, 60))
        server.empty(name + ": its cursor has timed out")
        server.limit("cursorTimeoutMillis", 600_000)
        if open_cursor:
            fails(name + ": the cursor is gone", 43, lambda: list(cursor))
        with server.client.start_session() as session:
            _, cursor = opened(session=session)
            server.client.admin.command("killSessions", [session.session_id])
            server.empty(name + ": its session has ended")
        bad = held + [{"$set": {"bad": {"$divide": [1, {"$ifNull": ["$nothing", 0]}]}}}]
        check(name + ": an error behind it", Running(lambda: list(db.c.aggregate(bad, allowDiskUse=True))).code() in (2, 16608, 4848401))
        server.empty(name + ": a later stage has failed")
        server.limit(parameter, NORMAL)


def killed(server):
    """The server is killed during each operator; the next start removes the files."""
    at_rest = disk_bytes()
    for name, parameter, stages in ROWS:
        server.limit(SORT, SMALL * 10)
        server.limit(parameter, SMALL * 10)
        thread = Running(lambda: list(server.db.c.aggregate(endless(stages), allowDiskUse=True)))
        check(name + ": writes a lot", writing(server, 4 << 20), (thread.result, server.spills()))
        server.end(signal.SIGKILL)
        thread.join()
        server = Server()
        server.empty(name + ": after the next start")
        equal(name + ": the documents are there", server.db.c.count_documents({}), COUNT)
        check(name + ": the disk is as before", wait_until(lambda: disk_bytes() < at_rest + (64 << 20), 30), (at_rest, disk_bytes()))
    return server


def main():
    os.makedirs(folder + "/data", exist_ok=True)
    server = Server()
    server.db.c.insert_many([document(i) for i in range(COUNT)])
    server.db.c.create_index([("t", "text")])
    only = os.environ.get("ONLY", "").split()
    for part in (edges, cursors, stopped):
        if not only or part.__name__ in only:
            section(part, server)
    if not only or "killed" in only:
        server = killed(server)
    equal("ends", server.end(signal.SIGTERM), 0)
    finish("spills")


main()

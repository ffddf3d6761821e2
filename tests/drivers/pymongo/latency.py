"""Measures how long stopped operations continue: latency.py NAGI FOLDER [--documents N] [--rounds N] [--only
TEXT] [--max-cpu MS] [FLAG...].

Each long operation is started over a large collection and stopped at random moments: by killOp, by its
maxTimeMS, by a client that hangs up. The result is the processor time that its thread still uses until it is
gone (until the reply, or until it is no longer in `$currentOp`): this time is the same on a busy machine. Wall
time is shown next to it. Fails if a thread used more than `--max-cpu`.

Prints a table with a row per operation: how often it was stopped and in which ways, the median and the worst,
in milliseconds. Not part of `make test`: it takes minutes, and its wall times are meaningful on a quiet machine
only.
"""
import argparse
import os
import random
import socket
import struct
import subprocess
import sys
import time

import bson
from bson import Int64

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))

DB = "nagi_latency"
KILLED, TIMED = 11601, 50
INTERRUPTIONS = {KILLED, TIMED, 279, 276}
GIVE_UP_S = 60


class Wire:
    """A connection that knows the server thread that serves it."""

    def __init__(self, server):
        before = server.threads()
        self.server = server
        self.socket = socket.create_connection(("127.0.0.1", server.port), 10)
        self.socket.settimeout(600)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.run("admin", {"ping": 1})
        new = server.threads() - before
        self.thread = next((t for t in new if server.thread_name(t) == "conn"), None)

    def send(self, db, command):
        body = bson.encode(dict(command, **{"$db": db}))
        self.socket.sendall(struct.pack("<iiiiIB", 21 + len(body), 1, 0, 2013, 0, 0) + body)

    def read(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(min(count - len(data), 1 << 20))
            if not part:
                raise OSError("the server hung up")
            data += part
        return data

    def receive(self):
        length = struct.unpack("<i", self.read(4))[0]
        return bson.decode(self.read(length - 4)[17:])

    def run(self, db, command):
        self.send(db, command)
        return self.receive()

    def must(self, db, command):
        reply = self.run(db, command)
        if reply.get("ok") != 1 or reply.get("writeErrors"):
            sys.exit("FAILED: %r: %r" % (command, reply))
        return reply

    def cpu_ms(self):
        return self.server.cpu_ms(self.thread)

    def close(self):
        self.socket.close()


class Server:
    def __init__(self, nagi, folder, flags):
        os.makedirs(folder + "/data", exist_ok=True)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        args = [nagi, "serve", "--dbpath", folder + "/data", "--port", str(self.port), "--bind_ip", "127.0.0.1", "--logpath",
                folder + "/nagi.log", "--setParameter", "ttlMonitorEnabled=false", "--setParameter", "ttlMonitorSleepSecs=1"]
        self.process = subprocess.Popen(args + flags, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        self.admin = Wire(self)

    def threads(self):
        return set(os.listdir("/proc/%d/task" % self.process.pid))

    def thread_name(self, thread):
        try:
            with open("/proc/%d/task/%s/comm" % (self.process.pid, thread)) as f:
                return f.read().strip()
        except OSError:
            return ""

    def cpu_ms(self, thread):
        """Processor time of a thread; none once it is gone."""
        try:
            with open("/proc/%d/task/%s/schedstat" % (self.process.pid, thread)) as f:
                return int(f.read().split()[0]) / 1e6
        except OSError:
            return None

    def running(self, match):
        pipeline = [{"$currentOp": {"allUsers": True, "idleConnections": False}}, {"$match": match}]
        reply = self.admin.must("admin", {"aggregate": 1, "pipeline": pipeline, "cursor": {}})
        return reply["cursor"]["firstBatch"]

    def kill(self, op):
        self.admin.must("admin", {"killOp": 1, "op": op["opid"]})

    def close(self):
        self.process.terminate()
        self.process.wait(120)


def text_of(i):
    return "common w%d x%d y%d other%d" % (i, i % 1000, i % 77, i % 2)


def document(i, n):
    k = (i * 7919) % n
    return {"_id": i, "k": k, "g": i % 1000, "u": i, "next": (i + 1) % n, "s": "name%d" % k, "t": text_of(i), "at": [i % 179, i % 83], "flat": [i % 179, i % 83],
            "a": [i % 7, i % 11, i % 13], "pad": "%08d" % k * 16}


def load(wire, n, name, make, batch=2000):
    wire.run(DB, {"drop": name})
    for start in range(0, n, batch):
        wire.must(DB, {"insert": name, "documents": [make(i) for i in range(start, min(start + batch, n))], "ordered": False})


def agg(*stages, on="c", **more):
    return dict({"aggregate": on, "pipeline": list(stages), "cursor": {}, "allowDiskUse": True}, **more)


NEVER = {"$match": {"never": 1}}
# Backtracks exponentially on a text of a's.
SLOW = "^(a+)+$"
LOOP = "function() { var n = 0; for (var i = 0; i < 2000; i++) n += i; return n < 0; }"


def big(expression):
    """An expression over an array `v` of a million elements, or over a text `w` of megabytes."""
    return agg({"$project": {"n": expression}}, {"$project": {"x": {"$type": "$n"}}}, on="large")


# Name, command, the longest delay in seconds; the state to restore if the operation finished.
ROWS = [
    ("scan with a filter", agg({"$match": {"s": "x"}}), 0.3),
    ("scan, $regex", agg({"$match": {"t": {"$regex": "y[0-9]+ z"}}}), 0.5),
    ("$regex that backtracks", agg({"$match": {"w": {"$regex": SLOW}}}, on="slow"), 1),
    ("$regexFindAll of a long text", big({"$regexFindAll": {"input": "$w", "regex": "(x|y)+z"}}), 1),
    ("sort in memory", agg({"$project": {"k": 1}}, {"$sort": {"k": 1}}, NEVER), 0.6),
    ("sort by text", agg({"$sort": {"s": -1, "t": 1}}, NEVER), 1),
    ("sort on disk", agg({"$set": {"z": ["$pad", "$pad", "$pad"]}}, {"$sort": {"k": 1}}, NEVER), 4),
    ("$sort and $limit", agg({"$sort": {"k": 1}}, {"$limit": 100000}, NEVER), 0.6),
    ("$group of few", agg({"$group": {"_id": "$g", "n": {"$sum": "$k"}}}, NEVER), 0.3),
    ("$group of many", agg({"$group": {"_id": "$u", "n": {"$sum": "$k"}}}, NEVER), 0.8),
    ("$group on disk", agg({"$group": {"_id": "$s", "n": {"$push": "$$ROOT"}}}, NEVER), 3),
    ("$group of one array", agg({"$group": {"_id": None, "n": {"$addToSet": "$u"}}}, NEVER), 0.5),
    ("$bucketAuto", agg({"$bucketAuto": {"groupBy": "$k", "buckets": 1000}}, NEVER), 1),
    ("$bucketAuto on disk", agg({"$bucketAuto": {"groupBy": "$k", "buckets": 1000, "output": {"x": {"$push": "$$ROOT"}}}}, NEVER), 3),
    ("$setWindowFields", agg({"$setWindowFields": {"sortBy": {"k": 1}, "output": {"n": {"$sum": "$u", "window": {"documents": [-50, 50]}}}}}, NEVER), 2),
    ("$setWindowFields, one partition", agg({"$setWindowFields": {"output": {"n": {"$sum": "$u"}}}}, NEVER), 2),
    ("$fill", agg({"$fill": {"sortBy": {"k": 1}, "output": {"x": {"method": "locf"}}}}, NEVER), 1.5),
    ("$densify", agg({"$limit": 2}, {"$densify": {"field": "u", "range": {"step": 0.00001, "bounds": "full"}}}, NEVER), 0.3),
    ("$facet", agg({"$facet": {"a": [{"$sort": {"k": 1}}, NEVER], "b": [{"$group": {"_id": "$u"}}, NEVER]}}), 1.5),
    ("$lookup by _id", agg({"$lookup": {"from": "c", "localField": "next", "foreignField": "_id", "as": "x"}}, {"$match": {"x.k": -1}}), 1.5),
    ("$lookup without an index", agg({"$limit": 100}, {"$lookup": {"from": "c", "localField": "s", "foreignField": "t", "as": "x"}}, {"$match": {"x.k": -1}}), 1),
    ("$lookup with a pipeline", agg({"$limit": 100}, {"$lookup": {"from": "c", "let": {"k": "$k"}, "pipeline": [
        {"$match": {"$expr": {"$lt": ["$k", {"$subtract": ["$$k", 1e9]}]}}}], "as": "x"}}, {"$match": {"x.k": -1}}), 1),
    ("$graphLookup", agg({"$limit": 2}, {"$graphLookup": {"from": "c", "startWith": "$next", "connectFromField": "next", "connectToField": "_id", "as": "x"}},
                         {"$match": {"x.k": -1}}), 1),
    ("$unionWith", agg({"$unionWith": "c"}, NEVER), 0.5),
    ("$unwind", agg({"$set": {"a": {"$range": [0, 300]}}}, {"$unwind": "$a"}, NEVER), 1),
    ("$sample", agg({"$sample": {"size": 100000}}, NEVER), 1),
    ("$redact", agg({"$redact": "$$PRUNE"}), 0.5),
    ("$where", {"find": "c", "filter": {"$where": LOOP}}, 1),
    ("$where without end", {"find": "c", "filter": {"$where": "function() { while (true) { } }"}}, 0.3),
    ("$function", agg({"$match": {"$expr": {"$function": {"body": LOOP, "args": [], "lang": "js"}}}}), 1),
    ("mapReduce", {"mapReduce": "c", "map": "function() { emit(this.u, 1); }", "reduce": "function(k, v) { return Array.sum(v); }", "out": "reduced"}, 2),
    ("$sortArray", big({"$sortArray": {"input": "$v", "sortBy": 1}}), 0.4),
    ("$setUnion", big({"$setUnion": ["$v", [1]]}), 0.4),
    ("$map", big({"$map": {"input": "$v", "in": {"$add": ["$$this", 1]}}}), 0.3),
    ("$reduce", big({"$reduce": {"input": "$v", "initialValue": 0, "in": {"$add": ["$$this", "$$value"]}}}), 0.3),
    ("$concatArrays", big({"$concatArrays": ["$v", "$v", "$v"]}), 0.2),
    ("$reverseArray", big({"$reverseArray": "$v"}), 0.2),
    ("$indexOfArray", big({"$indexOfArray": ["$v", -1]}), 0.1),
    ("$in", big({"$in": [-1, "$v"]}), 0.1),
    ("$sum of an array", big({"$sum": "$v"}), 0.1),
    ("$split", big({"$split": ["$w", "y"]}), 0.2),
    ("$toUpper", big({"$toUpper": "$w"}), 0.1),
    ("$replaceAll", big({"$replaceAll": {"input": "$w", "find": "x", "replacement": "z"}}), 0.2),
    ("$strLenCP", big({"$strLenCP": "$w"}), 0.1),
    ("$match of elements", agg({"$match": {"v": {"$in": ["a", "b"]}}}, on="large"), 0.1),
    ("text by score", {"find": "c", "filter": {"$text": {"$search": "common other1 other0"}}, "projection": {"x": {"$meta": "textScore"}},
                       "sort": {"x": {"$meta": "textScore"}}, "batchSize": 10}, 1.5),
    ("text, a phrase", {"find": "c", "filter": {"$text": {"$search": '"common zebra"'}}}, 1),
    ("$nearSphere", {"find": "c", "filter": {"at": {"$nearSphere": [0, 0]}, "k": -1}}, 1),
    ("$near in the plane", {"find": "c", "filter": {"flat": {"$near": [0, 0]}, "k": -1}}, 1),
    ("$geoWithin", {"count": "c", "query": {"at": {"$geoWithin": {"$centerSphere": [[0, 0], 3]}}, "k": -1}}, 1),
    ("count by an index", {"count": "c", "query": {"u": {"$gte": 0}}}, 0.1),
    ("distinct", {"distinct": "c", "key": "s", "query": {"k": {"$lt": 1000000}}}, 0.5),
    ("distinct by an index", {"distinct": "c", "key": "u"}, 0.3),
    ("update of all", {"update": "c", "updates": [{"q": {}, "u": {"$set": {"z": 1}}, "multi": True}]}, 2),
    ("update of none", {"update": "c", "updates": [{"q": {"s": "x"}, "u": {"$set": {"z": 1}}, "multi": True}]}, 0.4),
    ("delete", {"delete": "copy", "deletes": [{"q": {}, "limit": 0}]}, 1, "copy"),
    ("insert", {"insert": "copy", "documents": [{"s": "x" * 100} for _ in range(90000)], "ordered": False}, 0.5),
    ("findAndModify", {"findAndModify": "c", "query": {"s": "x"}, "update": {"$set": {"z": 1}}}, 0.4),
    ("$out", agg({"$match": {}}, {"$out": "out"}), 2),
    ("$merge", agg({"$match": {}}, {"$merge": "merged"}), 2),
    ("explain", {"explain": {"find": "c", "filter": {"s": "x"}}, "verbosity": "allPlansExecution"}, 0.3),
    ("createIndexes", {"createIndexes": "c", "indexes": [{"key": {"s": 1}, "name": "made"}]}, 1.5, "dropped"),
    ("createIndexes, text", {"createIndexes": "copy", "indexes": [{"key": {"t": "text"}, "name": "made"}]}, 2, "copy"),
    ("reIndex", {"reIndex": "copy"}, 0.5),
    ("validate", {"validate": "c", "full": True}, 2),
    ("dbHash", {"dbHash": 1}, 1),
    ("dataSize", {"dataSize": DB + ".c", "keyPattern": {"u": 1}, "min": {"u": 0}, "max": {"u": 10 ** 9}}, 0.5),
    ("compact", {"compact": "c"}, 1),
    ("convertToCapped", {"convertToCapped": "copy", "size": 1 << 30}, 1, "copy"),
    ("cloneCollectionAsCapped", {"cloneCollectionAsCapped": "c", "toCollection": "capped", "size": 1 << 28}, 1.5, "capped"),
    ("renameCollection to another database", {"renameCollection": DB + ".copy", "to": DB + "_other.copy"}, 1, "copy"),
    ("getMore", {"getMore": None, "collection": "c"}, 0.6),
    ("TTL deletion", None, 0.6),
]
ON_ADMIN = {"renameCollection"}
# Writes requested by a client are completed, even if the client has disconnected meanwhile.
GOES_ON = {"$out", "$merge", "mapReduce", "update of all", "update of none", "delete", "insert", "findAndModify", "createIndexes", "createIndexes, text",
           "reIndex", "convertToCapped", "cloneCollectionAsCapped", "renameCollection to another database"}


def restored(wire, what, n):
    """Restores the state that a finished operation has changed."""
    if what == "dropped":
        wire.run(DB, {"dropIndexes": "c", "index": "made"})
    elif what == "capped":
        wire.run(DB, {"drop": "capped"})
    elif what == "copy":
        wire.run(DB + "_other", {"dropDatabase": 1})
        have = wire.run(DB, {"count": "copy"}).get("n", 0)
        capped = wire.run(DB, {"collStats": "copy"}).get("capped")
        if have != n // 4 or capped or len(wire.must(DB, {"listIndexes": "copy", "cursor": {}})["cursor"]["firstBatch"]) != 1:
            wire.run(DB, {"drop": "copy"})
            wire.must(DB, agg({"$match": {"_id": {"$lt": n // 4}}}, {"$out": "copy"}))


def prepared(wire, name, command, timed_ms):
    """The command to send, with a time limit if one is given."""
    command = dict(command, comment="stopped")
    if "getMore" in command:
        limit = {"maxTimeMS": timed_ms} if timed_ms else {}
        opened = wire.must(DB, agg({"$sort": {"k": 1}}, {"$match": {"s": "x"}}, cursor={"batchSize": 0}, **limit))
        return dict(command, getMore=Int64(opened["cursor"]["id"]))
    return dict(command, maxTimeMS=timed_ms) if timed_ms else command


def stop_by_kill(server, wire, db, command, delay):
    wire.send(db, command)
    until = time.monotonic() + GIVE_UP_S
    found = []
    while not found and time.monotonic() < until and not readable(wire):
        found = server.running({"command.comment": "stopped", "active": True})
    if not found:
        return wire.receive(), None
    waited = wait_for(wire, delay)
    if waited:
        return wire.receive(), None
    begin, cpu = time.monotonic(), wire.cpu_ms()
    server.kill(found[0])
    reply = wire.receive()
    return reply, (wire.cpu_ms() - cpu, (time.monotonic() - begin) * 1000)


def stop_by_time(server, wire, db, command, delay):
    del server
    wire.send(db, command)
    if wait_for(wire, delay):
        return wire.receive(), None
    begin, cpu = time.monotonic(), wire.cpu_ms()
    reply = wire.receive()
    return reply, (wire.cpu_ms() - cpu, (time.monotonic() - begin) * 1000)


def stop_by_leaving(server, wire, db, command, delay):
    wire.send(db, command)
    if wait_for(wire, delay) or not server.running({"command.comment": "stopped", "active": True}):
        return wire.receive(), None
    begin, cpu = time.monotonic(), wire.cpu_ms()
    last = cpu
    wire.close()
    while server.running({"command.comment": "stopped", "active": True}):
        last = wire.cpu_ms() or last
        if time.monotonic() > begin + GIVE_UP_S:
            sys.exit("FAILED: %r goes on without its client" % command)
    # The thread exits with the operation: its last processor time is still readable, or was read just before.
    last = wire.cpu_ms() or last
    return {"code": 279}, (last - cpu, (time.monotonic() - begin) * 1000)


def readable(wire):
    import select
    return bool(select.select([wire.socket], [], [], 0)[0])


def wait_for(wire, seconds):
    """Waits. Returns True if the reply arrived meanwhile."""
    import select
    return bool(select.select([wire.socket], [], [], seconds)[0])


WAYS = {"killOp": stop_by_kill, "maxTimeMS": stop_by_time, "hang up": stop_by_leaving}


def expire(server, n, draw):
    """One pass of the TTL job, killed."""
    admin = server.admin
    load(admin, n // 4, "old", lambda i: {"_id": i, "when": bson.datetime.datetime(2020, 1, 1), "pad": "x" * 200, "u": i})
    admin.must(DB, {"createIndexes": "old", "indexes": [{"key": {"when": 1}, "name": "when", "expireAfterSeconds": 1}, {"key": {"u": 1}, "name": "u"}]})
    admin.must("admin", {"setParameter": 1, "ttlMonitorEnabled": True})
    thread = next(t for t in server.threads() if server.thread_name(t) == "TTLMonitor")
    match = {"desc": "TTLMonitor"}
    try:
        until = time.monotonic() + GIVE_UP_S
        found = []
        while not found and time.monotonic() < until:
            found = server.running(match)
        if not found:
            return None
        time.sleep(draw.uniform(0, 0.3))
        begin, cpu = time.monotonic(), server.cpu_ms(thread)
        server.kill(found[0])
        while any(op["opid"] == found[0]["opid"] for op in server.running(match)):
            pass
        taken = (server.cpu_ms(thread) - cpu, (time.monotonic() - begin) * 1000)
    finally:
        admin.must("admin", {"setParameter": 1, "ttlMonitorEnabled": False})
    left = admin.must(DB, {"count": "old"})["n"]
    return taken if left > 0 else None


def row_of(server, row, options, draw):
    name, command, longest = row[:3]
    what = row[3] if len(row) > 3 else None
    taken, ended, wrong = {way: [] for way in WAYS}, 0, set()
    for at in range(options.rounds):
        if command is None:
            got = expire(server, options.documents, draw)
            if got:
                taken["killOp"].append(got)
            else:
                ended += 1
            continue
        for way, stop in WAYS.items():
            if way == "hang up" and name in GOES_ON:
                continue
            if what:
                restored(server.admin, what, options.documents)
            delay = draw.uniform(0.002, longest)
            timed = max(1, int(delay * 1000)) if way == "maxTimeMS" else None
            wire = Wire(server)
            first = next(iter(command))
            reply, got = stop(server, wire, "admin" if first in ON_ADMIN else DB, prepared(wire, name, command, timed), timed / 1000 if timed else delay)
            wire.close()
            code = code_of(reply)
            if code in INTERRUPTIONS and got:
                taken[way].append(got)
            elif reply.get("ok") == 1 or code in INTERRUPTIONS:
                ended += 1
                longest = max(longest / 2, 0.01)
            else:
                wrong.add("%s: %s" % (code, reply.get("errmsg", reply)))
    return name, taken, ended, wrong


def code_of(reply):
    for error in reply.get("writeErrors", []):
        return error["code"]
    stats = reply.get("executionStats", {})
    return reply.get("code", stats.get("errorCode", 0)) or stats.get("errorCode", 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nagi")
    parser.add_argument("folder")
    parser.add_argument("--documents", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-cpu", type=float, default=10)
    options, flags = parser.parse_known_args()
    server = Server(options.nagi, options.folder, flags)
    try:
        measure(server, options)
    finally:
        server.close()


def measure(server, options):
    draw = random.Random(options.seed)
    n = options.documents
    load(server.admin, n, "c", lambda i: document(i, n))
    load(server.admin, 20, "slow", lambda i: {"_id": i, "w": "a" * 40 + "b"})
    load(server.admin, 20, "large", lambda i: {"_id": i, "v": [(j * 7919) % 1000003 for j in range(500_000)], "w": "xyxyxz y" * 700_000}, 2)
    server.admin.must(DB, {"createIndexes": "c", "indexes": [
        {"key": {"u": 1}, "name": "u"}, {"key": {"t": "text"}, "name": "t"}, {"key": {"at": "2dsphere"}, "name": "at"}, {"key": {"flat": "2d"}, "name": "flat"}]})
    print("%-40s %8s %5s %20s %20s %20s" % ("operation", "stopped", "ended", "killOp cpu/wall", "maxTimeMS cpu/wall", "hang up cpu/wall"), flush=True)
    late, odd = [], []
    for row in ROWS:
        if options.only and options.only not in row[0]:
            continue
        restored(server.admin, "copy", n)
        name, taken, ended, wrong = row_of(server, row, options, draw)
        cells = ["%.1f/%.1f" % (max(c for c, _ in seen), max(w for _, w in seen)) if seen else "-" for seen in taken.values()]
        stopped = sum(map(len, taken.values()))
        print("%-40s %8d %5d %20s %20s %20s" % (name, stopped, ended, *cells), flush=True)
        worst = max((cpu for seen in taken.values() for cpu, _ in seen), default=0)
        if worst > options.max_cpu:
            late.append("%s took %.1f ms" % (name, worst))
        if wrong or not stopped:
            odd.append("%s: %s" % (name, "; ".join(sorted(wrong)) or "was never stopped"))
    print("stops: %d operations; %s; %s" % (len(ROWS), "; ".join(late) or "none goes on for longer than %g ms of CPU" % options.max_cpu, "; ".join(odd) or "none failed otherwise"))
    sys.exit(1 if late or odd else 0)


main()

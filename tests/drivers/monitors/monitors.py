"""What monitoring tools read: python monitors.py NAGI WORK PORT

Loads servers of three kinds - the default engine, the mapped one, a replica set - and checks each row of fields.tsv in
the replies that the tools read: the field is there with its type, or it is not there for the reason that the row gives.
Then that the values make sense: counters grow by what was done, the cache grows with reads, flushes are counted,
resident memory is that of the process, long work shows its progress.
"""
import collections
import datetime
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

from bson import Int64, ObjectId, Timestamp
from pymongo import MongoClient
from pymongo.errors import PyMongoError

HERE = pathlib.Path(__file__).parent
NUMBERS = {"int", "long", "double"}
NOT_HERE = {"removed", "sharded", "absent"}
failures = []


def check(what, holds, seen=""):
    if not holds:
        failures.append("%s: %r" % (what, seen))
        print("FAILED %s: %s" % (what, str(seen)[:400]), flush=True)


def rows():
    for line in (HERE / "fields.tsv").read_text().splitlines():
        if line and not line.startswith("#"):
            tool, command, path, kind, condition, note = line.split("\t")
            yield tool, command, path, kind, condition, note


def kind_of(value):
    """The BSON type of a value that pymongo has decoded."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, Int64):
        return "long"
    for python, name in ((int, "int"), (float, "double"), (str, "string"), (ObjectId, "objectId"), (Timestamp, "timestamp"), (datetime.datetime, "date"), (list, "array"), (dict, "object")):
        if isinstance(value, python):
            return name
    return type(value).__name__


MISSING = object()


def at(doc, path, ns):
    """The value at a path; `{ns}` is the name of the loaded collection, which has a dot."""
    for name in path.split("."):
        name = ns if name == "{ns}" else name
        if isinstance(doc, list) and name.isdigit() and int(name) < len(doc):
            doc = doc[int(name)]
        elif isinstance(doc, dict) and name in doc:
            doc = doc[name]
        else:
            return MISSING
    return doc


class Server:
    def __init__(self, nagi, work, port, *args):
        self.port = port
        work.mkdir(parents=True)
        command = [nagi, "serve", "--dbpath", str(work / "data"), "--port", str(port), "--bind_ip", "127.0.0.1", "--logpath", str(work / "nagi.log"), "--setParameter", "ttlMonitorSleepSecs=1", *args]
        (work / "data").mkdir()
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        self.connect()
        deadline = time.time() + 60
        while True:
            try:
                self.client.admin.command("ping")
                return
            except PyMongoError:
                if time.time() > deadline or self.process.poll() is not None:
                    raise SystemExit("the server did not start: see " + str(work))
                time.sleep(0.2)

    def connect(self):
        self.client = MongoClient("127.0.0.1", self.port, directConnection=True, appname="monitored", serverSelectionTimeoutMS=30000)

    def status(self, **how):
        return self.client.admin.command("serverStatus", **how)

    def stop(self):
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def until(what, holds, seconds=30):
    deadline = time.time() + seconds
    while time.time() < deadline:
        found = holds()
        if found:
            return found
        time.sleep(0.05)
    check(what, False, "not within %d s" % seconds)
    return None


def load(server):
    """Something of everything that the replies count."""
    client, db = server.client, server.client.loaded
    c = db.things
    c.insert_many([{"_id": n, "n": n % 100, "m": n % 7, "text": "x" * 200} for n in range(5000)])
    c.create_index("n")
    c.create_index("m")
    c.create_index("gone", expireAfterSeconds=0)
    c.insert_one({"_id": "old", "gone": datetime.datetime(2020, 1, 1)})
    for n in range(50):
        list(c.find({"n": n}))
        c.find_one({"_id": n})
        c.update_one({"_id": n}, {"$set": {"u": n}})
    list(c.find({"n": 5, "m": 3}))
    list(c.find().sort("text", 1).limit(3000))
    list(c.aggregate([{"$group": {"_id": "$n", "count": {"$sum": 1}}}]))
    list(c.find(batch_size=1000))
    c.count_documents({"text": "y"})
    c.distinct("n")
    c.find_one_and_update({"_id": 1}, {"$set": {"v": 1}})
    c.delete_many({"n": 99})
    db.create_collection("capped", capped=True, size=1 << 20, max=100)
    db.capped.insert_many([{} for _ in range(10)])
    db.create_collection("view", viewOn="things", pipeline=[])
    try:
        c.insert_one({"_id": 1})
    except PyMongoError:
        pass
    until("a pass of the TTL monitor", lambda: c.find_one({"_id": "old"}) is None)


def profile(server):
    """Entries of the profiler: of a query with everything, and what they have."""
    db = server.client.loaded
    db.command("profile", 2)
    list(db.things.find({"n": 5, "m": 2}))
    db.command("profile", 0)
    entry = db["system.profile"].find_one({"op": "query", "command.filter.m": 2})
    check("the profiler has the query", entry, entry)
    return entry or {}


def slow_operation(server):
    """currentOp while a query runs."""
    db = server.client.loaded

    def query():
        try:
            list(db.things.find({"n": {"$gte": 0}, "$where": "sleep(20) || true"}).limit(100))
        except PyMongoError:
            pass  # it is killed

    thread = threading.Thread(target=query)
    thread.start()
    seen = until("currentOp shows a query", lambda: next((op for op in server.client.admin.command("currentOp", active=True, ns="loaded.things")["inprog"] if op.get("op") == "query" and "planSummary" in op), None))
    if seen:
        check("killOp accepts the id", server.client.admin.command("killOp", op=seen["opid"])["ok"] == 1)
        check("a filter on microsecs_running finds it", isinstance(seen["microsecs_running"], Int64), seen["microsecs_running"])
    thread.join(60)
    return seen or {}


def replies(server, is_set):
    """The replies that the tools read, by the names in fields.tsv."""
    client, db, admin = server.client, server.client.loaded, server.client.admin
    cursor = db.things.find(batch_size=10)
    next(cursor)
    idle = next(admin.aggregate([{"$currentOp": {"idleCursors": True, "allUsers": True}}, {"$match": {"type": "idleCursor", "ns": "loaded.things"}}]), {})
    parts = {"latencyStats": {"histograms": False}, "storageStats": {"scale": 1}, "queryExecStats": {}}
    found = {
        "serverStatus": server.status(),
        "top": admin.command("top"),
        "dbStats": db.command("dbStats", scale=1, freeStorage=1),
        "collStats": db.command("collStats", "things"),
        "collStats capped": db.command("collStats", "capped"),
        "$collStats": next(db.things.aggregate([{"$collStats": parts}])),
        "$collStats capped": next(db.capped.aggregate([{"$collStats": {"storageStats": {}}}])),
        "$indexStats": next(db.things.aggregate([{"$indexStats": {}}])),
        "$currentOp idle cursor": idle,
        "currentOp": slow_operation(server),
        "profile entry": profile(server),
        "hostInfo": admin.command("hostInfo"),
        "buildInfo": admin.command("buildInfo"),
        "getCmdLineOpts": admin.command("getCmdLineOpts"),
        "getParameter": admin.command("getParameter", featureCompatibilityVersion=1),
        "connPoolStats": admin.command("connPoolStats"),
    }
    if is_set:
        found["replSetGetStatus"] = admin.command("replSetGetStatus")
        found["replSetGetConfig"] = admin.command("replSetGetConfig")
        found["oplog"] = client.local["oplog.rs"].find_one(sort=[("$natural", -1)])
    cursor.close()
    return found


def check_fields(found, kinds):
    """Every row; `kinds`: the conditions that hold for this server. Returns numbers by tool."""
    counts = collections.Counter()
    for tool, command, path, kind, condition, note in rows():
        if command not in found:
            check("%s %s %s has a reply" % (tool, command, path), condition in ("replica set", "sharded", "absent"))
            continue
        value = at(found[command], path, "loaded.things")
        what = "%s reads %s of %s" % (tool, path, command)
        if condition in NOT_HERE:
            check(what + " (%s)" % condition, value is MISSING, value)
            check(what + " has a reason", note or condition == "sharded")
            counts[tool, "not here"] += 1
        elif condition == "used":
            check(what + " has the note when", note)
            if value is not MISSING:
                check(what + " as " + kind, kind_of(value) == kind or kind == "number" and kind_of(value) in NUMBERS, kind_of(value))
        elif condition in kinds:
            check(what + " as " + kind, value is not MISSING and (kind_of(value) == kind or kind == "number" and kind_of(value) in NUMBERS), "missing" if value is MISSING else kind_of(value))
            counts[tool, "there"] += 1
        elif condition in ("wiredTiger", "mmapv1", "replica set"):
            check(what + " only if " + condition, value is MISSING or path == "repl.setName", value)
    return counts


def grown(server, work):
    """The difference of two serverStatus around some work, as a function of a path."""
    before = server.status()
    work()
    after = server.status()

    def of(path):
        values = [at(doc, path, "") for doc in (before, after)]
        return float("nan") if MISSING in values else values[1] - values[0]
    return of


def check_counters(server):
    db = server.client.loaded
    c = db.counted
    c.drop()
    c.insert_many([{"_id": n, "n": n} for n in range(100)])
    c.create_index("n")

    def work():
        c.insert_many([{"_id": n} for n in range(1000, 1010)])
        for _ in range(5):
            c.update_one({"_id": 1}, {"$inc": {"u": 1}})
        c.delete_many({"_id": {"$gte": 1000}})
        list(c.find({"_id": {"$lt": 50}}, batch_size=10))
        list(c.find({"n": {"$lt": 10}}))
        list(c.find().sort("u", 1))
        db.command("find", "counted", readConcern={"level": "majority"})
        try:
            list(c.find({"$where": "sleep(50) || true"}).max_time_ms(20))
        except PyMongoError:
            pass

    of = grown(server, work)
    exact = {
        "opcounters.insert": 10, "opcounters.update": 5, "opcounters.delete": 1, "opcounters.query": 5, "metrics.document.inserted": 10, "metrics.document.updated": 5, "metrics.document.deleted": 10, "metrics.commands.find.total": 5,
        "metrics.commands.find.failed": 1, "metrics.commands.insert.total": 1, "metrics.commands.update.total": 5, "metrics.commands.delete.total": 1, "metrics.query.sort.totalKeysSorted": 100, "metrics.operation.scanAndOrder": 1,
        "metrics.operation.killedDueToMaxTimeMSExpired": 1, "readConcernCounters.nonTransactionOps.majority": 1, "metrics.cursor.lifespan.lessThan1Second": 1, "metrics.query.sort.spillToDisk": 0,
    }
    for path, wanted in exact.items():
        check("%s grows by %d" % (path, wanted), of(path) == wanted, of(path))
    least = {"opcounters.getmore": 4, "metrics.document.returned": 160, "metrics.queryExecutor.scanned": 60, "metrics.queryExecutor.scannedObjects": 160, "metrics.query.sort.totalBytesSorted": 1000, "network.numRequests": 15, "network.bytesIn": 1000, "network.bytesOut": 5000,
             "opLatencies.reads.ops": 8, "opLatencies.writes.ops": 7, "opLatencies.reads.latency": 1, "locks.Global.acquireCount.w": 7, "locks.Collection.acquireCount.w": 7, "readConcernCounters.nonTransactionOps.none": 4,
             "readConcernCounters.nonTransactionOps.noneInfo.implicitDefault.local": 4, "metrics.queryExecutor.collectionScans.total": 1, "globalLock.totalTime": 1, "uptimeMillis": 1}
    for path, wanted in least.items():
        check("%s grows by %d at least" % (path, wanted), of(path) >= wanted, of(path))
    of = grown(server, lambda: [MongoClient("127.0.0.1", server.port).admin.command("ping") for _ in range(3)])
    check("connections.totalCreated counts connections", of("connections.totalCreated") >= 3, of("connections.totalCreated"))
    of = grown(server, lambda: list(c.aggregate([{"$facet": {"a": [{"$limit": 1}], "b": [{"$limit": 2}]}}, {"$unwind": "$a"}])))
    check("aggStageCounters", [of("metrics.aggStageCounters.$facet"), of("metrics.aggStageCounters.$limit"), of("metrics.aggStageCounters.$sort")] == [1, 2, 0])
    of = grown(server, lambda: c.create_index("u"))
    check("indexBuilds.total counts a build", of("indexBuilds.total") == 1, of("indexBuilds.total"))
    check("indexStats counts it", [of("indexStats.count"), of("indexStats.features.single.count"), of("indexStats.features.normal.count")] == [1, 1, 1])
    of = grown(server, lambda: [list(c.find({"n": n})) for n in range(7)])
    check("indexStats counts its uses", of("indexStats.features.single.accesses") >= 7, of("indexStats.features.single.accesses"))
    of = grown(server, lambda: (db.command("profile", 2), list(c.find()), db.command("profile", 0)))
    check("profiler.totalWrites counts entries", of("profiler.totalWrites") >= 1, of("profiler.totalWrites"))
    c.drop()


def check_process(server):
    def resident():
        pages = pathlib.Path("/proc/%d/statm" % server.process.pid).read_text().split()
        return int(pages[1]) * 4096 / 2**20
    seen, own = server.status(), resident()
    check("mem.resident is that of the process", abs(seen["mem"]["resident"] - own) <= max(16, own * 0.25), (seen["mem"]["resident"], own))
    check("pid", seen["pid"] == server.process.pid, seen["pid"])
    tickets = seen.get("wiredTiger", {}).get("concurrentTransactions")
    for kind in ("read", "write") if tickets else ():
        one = tickets[kind]
        check("tickets of %ss add up" % kind, one["out"] + one["available"] == one["totalTickets"], one)
    executors = seen["network"]["serviceExecutors"]["passthrough"]
    check("threads are connections", executors["clientsInTotal"] == seen["connections"]["current"] >= 1, executors)
    netdata = server.status(repl=1, metrics={"document": True, "cursor": True, "queryExecutor": True, "apiVersions": False, "commands": False, "ttl": False})
    check("Netdata's request has its sections", all(name in netdata["metrics"] for name in ("document", "cursor", "queryExecutor")))


def check_cache(server):
    """The cache follows reads, and flushes are counted with their times."""
    c = server.client.loaded.large
    noise = os.urandom(1 << 20).hex()
    for batch in range(24):
        c.insert_many([{"_id": batch * 100 + n, "v": noise[n * 1000:][:10000]} for n in range(100)])
    before = server.status()["wiredTiger"]
    check("writes are dirty first", before["cache"]["tracked dirty bytes in the cache"] > 1 << 20, before["cache"])
    server.client.admin.command("fsync")
    c.database.command("compact", "large")
    flushed = until("a flush is counted", lambda: (lambda s: s if s["transaction"]["transaction checkpoints"] > before["transaction"]["transaction checkpoints"] else None)(server.status()["wiredTiger"]))
    if flushed:
        for section, prefix in (("transaction", "transaction checkpoint "), ("checkpoint", "")):
            one = flushed[section]
            times = [one[prefix + name + " time (msecs)"] for name in ("min", "most recent", "max", "total")]
            check("times of flushes in " + section, 0 <= times[0] <= times[1] <= times[2] <= times[3], times)
        check("written blocks", flushed["block-manager"]["blocks written"] > 0 and flushed["cache"]["pages written from cache"] > 0, flushed["block-manager"])
        check("evictions of modified pages", flushed["cache"]["modified pages evicted"] >= flushed["transaction"]["transaction checkpoints"] > 0)
    for _ in range(2):
        list(c.find({}, {"v": 1}))
    after = server.status()["wiredTiger"]["cache"]
    check("reads fill the cache", after["bytes currently in the cache"] > 1 << 20 and after["pages currently held in the cache"] > 0, after)
    check("pages are requested", after["pages requested from the cache"] > before["cache"]["pages requested from the cache"], after)
    check("used is below the limit", 0 < after["bytes currently in the cache"] <= after["maximum bytes configured"], after)
    of = grown(server, lambda: c.update_many({"_id": {"$lt": 20}}, {"$set": {"n": 1}}))
    check("commits and keys are counted", of("wiredTiger.transaction.transactions committed") > 0 and of("wiredTiger.cursor.cursor insert calls") >= 20, of("wiredTiger.cursor.cursor insert calls"))
    storage = next(c.aggregate([{"$collStats": {"storageStats": {}}}]))["storageStats"]
    check("the share of a collection in the cache", storage["wiredTiger"]["cache"]["bytes currently in the cache"] >= 0, storage["wiredTiger"])


def check_progress(server):
    """Builds of indexes, compact and validate show how far they are."""
    db = server.client.loaded
    c = db.long
    for batch in range(30):
        c.insert_many([{"n": [batch * n % 977 for n in range(40)], "s": "%d" % (batch * k)} for k in range(1000)])

    def watch(name, work, message):
        seen, thread = [], threading.Thread(target=work)
        thread.start()
        while thread.is_alive():
            for op in server.client.admin.command("currentOp", active=True)["inprog"]:
                if name in op.get("command", {}) and "progress" in op:
                    seen.append((op["msg"], op["progress"]["done"], op["progress"]["total"]))
        thread.join()
        check("%s shows its progress" % name, any(message in text and 0 <= done <= total for text, done, total in seen), seen[:3])

    watch("createIndexes", lambda: c.create_index([("n", 1), ("s", 1)]), "Index Build")
    watch("validate", lambda: db.command("validate", "long"), "Validate")
    c.drop()


def check_transaction(server):
    client, c = server.client, server.client.loaded.things

    def work():
        with client.start_session() as session:
            session.start_transaction()
            c.update_one({"_id": 2}, {"$set": {"t": 1}}, session=session)
            c.find_one({"_id": 2}, session=session)
            open_now.append(server.status()["transactions"]["currentOpen"])
            session.commit_transaction()
            session.start_transaction()
            c.update_one({"_id": 2}, {"$set": {"t": 2}}, session=session)
            session.abort_transaction()
    open_now = []
    of = grown(server, work)
    check("transactions are counted", [of("transactions.totalStarted"), of("transactions.totalCommitted"), of("transactions.totalAborted"), open_now[0]] == [2, 1, 1, 1], open_now)
    check("opLatencies of transactions", of("opLatencies.transactions.ops") == 2, of("opLatencies.transactions.ops"))
    check("queries of transactions", of("readConcernCounters.transactionOps.none") + of("readConcernCounters.transactionOps.snapshot.withoutClusterTime") >= 1)
    of = grown(server, lambda: (client.admin.command("replSetStepDown", 1, force=True), until("it is primary again", lambda: client.admin.command("hello")["isWritablePrimary"])))
    check("an election after a step-down", [of("electionMetrics.freezeTimeout.called"), of("electionMetrics.electionTimeout.called")] == [1, 0])
    seen = server.status()
    check("elections of the start", seen["electionMetrics"]["electionTimeout"] == {"called": 1, "successful": 1}, seen["electionMetrics"])
    check("last transition", seen["metrics"]["repl"]["stateTransition"]["lastStateTransition"] == "stepUp")
    check("last write", seen["repl"]["lastWrite"]["opTime"]["ts"] > Timestamp(1, 0), seen["repl"])


def check_locks(server):
    """fsync with a lock: its state, and the waits for it."""
    client, c = server.client, server.client.loaded.things
    client.admin.command("fsync", lock=True)
    try:
        check("fsyncLock", client.admin.command("currentOp").get("fsyncLock") is True)
        thread = threading.Thread(target=lambda: MongoClient("127.0.0.1", server.port).loaded.things.update_one({"_id": 3}, {"$set": {"l": 1}}))
        thread.start()
        until("a write waits", lambda: any(op.get("waitingForLock") for op in client.admin.command("currentOp", active=True)["inprog"]))
    finally:
        client.admin.command("fsyncUnlock")
    thread.join(30)
    lines = [json.loads(line) for line in client.admin.command("getLog", "global")["log"]]
    check("the end of the lock is in the log", [line["attr"]["lockCount"] for line in lines if line["id"] == 8200400] == [0], lines[-5:])
    locks = server.status()["locks"]["Global"]
    check("waits are counted", locks["acquireWaitCount"]["w"] >= 1 and locks["timeAcquiringMicros"]["w"] > 0 and locks["acquireCount"]["W"] >= 1, locks)


def main():
    nagi, work, port = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    servers = [
        ("default", {"always", "wiredTiger"}, []),
        ("mapped", {"always", "mmapv1"}, ["--storageEngine=mmapv1"]),
        ("set", {"always", "wiredTiger", "replica set"}, ["--replSet=rs0"]),
    ]
    counts = collections.Counter()
    for name, kinds, args in servers:
        server = Server(nagi, work / name, port, *args)
        try:
            if "replica set" in kinds:
                server.client.admin.command("replSetInitiate")
                until("it is primary", lambda: server.client.admin.command("hello")["isWritablePrimary"])
                server.connect()  # the client has to learn that there are sessions
            load(server)
            found = check_fields(replies(server, "replica set" in kinds), kinds)
            counts = found if "replica set" in kinds else counts
            parts = [check_counters, check_process, check_locks]
            parts += [check_cache, check_progress] if name == "default" else []
            parts += [check_transaction] if "replica set" in kinds else []
            for part in parts:
                try:
                    part(server)
                except (KeyError, TypeError, PyMongoError) as error:
                    check(part.__name__, False, repr(error))
        finally:
            server.stop()
        print("%s: %d failures so far" % (name, len(failures)), flush=True)
    tools = sorted({tool for tool, _ in counts})
    print("; ".join("%s %d there, %d not" % (tool, counts[tool, "there"], counts[tool, "not here"]) for tool in tools))
    if failures:
        raise SystemExit("monitors: FAILED, %d checks" % len(failures))
    print("monitors: %d fields of %d tools on 3 servers, passed" % (sum(counts.values()), len(tools)))


if __name__ == "__main__":
    main()

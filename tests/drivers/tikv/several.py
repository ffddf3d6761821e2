"""Several servers at once over one prefix, for tikv.py: what each sees of the others' changes, clients with a list of
servers, a server that is killed under writers, and one that does not run for longer than its lease."""
import json
import os
import signal
import sys
import threading
import time
import urllib.request

import pymongo
from bson import Timestamp
from pymongo.errors import DuplicateKeyError, OperationFailure

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import Running, check, equal, fails, section, wait_until  # noqa: E402
from nodes import CLUSTER, Node, valid  # noqa: E402
from writers import Transfer, Writer, acknowledged, end, gone_on, prepare, progress, transferred  # noqa: E402

AUTH = ("--auth", "--setParameter", "scramSHA256IterationCount=5000")


def seeds(nodes, **options):
    """A client with a list of servers."""
    return pymongo.MongoClient(["127.0.0.1:%d" % node.port for node in nodes], serverSelectionTimeoutMS=40000, **options)


def names(node):
    """The servers that one of them lists."""
    return sorted(d["_id"].split(":")[1] for d in node.client.config.mongos.find())


def ports(*nodes):
    return sorted(str(node.port) for node in nodes)


def run(node, address):
    """Runs the parts, each with two servers at once or more. Returns the one that goes on."""
    other = Node("second", address, 1)
    took = other.ready()
    check("a second server starts beside the first", took < 10, took)
    for part in (beside, changes, spread, times, started, killed):
        begun = time.monotonic()
        section(part, node, other, address)
        print("%s: %.1f s" % (part.__name__, time.monotonic() - begun), flush=True)
        # The one that was killed has a successor.
        other = next(later for later in reversed(Node.started) if later.port == other.port)
    section(at_once, address)
    section(guarded, address)
    return given_up(node, other)


def beside(node, other, _):
    """Both serve the same data; what belongs to a server stays there."""
    equal("the servers", [names(node), names(other)], [ports(node, other)] * 2)
    for one in node, other:
        listed = one.client.config.mongos.find_one({"_id": {"$regex": ":%d$" % one.port}})
        check("their state", listed["up"] >= 0 and listed["waiting"] and listed["mongoVersion"] == "8.0.4", listed)
    equal("the data of the first", other.client.restarts.c.count_documents({}), 501)
    db, same = node.client.beside, other.client.beside
    db.c.insert_many({"_id": n, "n": n} for n in range(300))
    equal("read at the other", same.c.count_documents({}), 300)
    same.c.create_index("n", unique=True)
    fails("its index", 11000, lambda: db.c.insert_one({"_id": "x", "n": 5}), DuplicateKeyError)
    cursor = db.c.find(batch_size=10)
    next(cursor)
    fails("a cursor of another server", 43, lambda: same.command("getMore", cursor.cursor_id, collection="c"))
    cursor.close()
    client = seeds([node, other], localThresholdMS=1000)
    for n in range(40):
        client.beside.c.update_one({"_id": n}, {"$set": {"by": "both"}})
    used = [one.client.admin.command("serverStatus")["opcounters"]["update"] for one in (node, other)]
    check("a client with both uses both", all(used), used)
    equal("all were written", db.c.count_documents({"by": "both"}), 40)
    with client.start_session() as session:
        for n in range(10):
            session.with_transaction(lambda session, n=n: [
                client.beside.c.update_one({"_id": one}, {"$inc": {"n": 1000}}, session=session) for one in (n, n + 100)])
    equal("transactions", db.c.count_documents({"n": {"$gte": 1000}}), 20)
    client.close()
    operations(node, other)
    valid(db)
    same.drop_collection("c")
    equal("dropped", db.list_collection_names(), [])


def operations(node, other):
    """What one runs is shown and killed at the other one, by its name."""
    slow = {"$where": "function() { for (;;) {} }"}
    waiting = Running(lambda: node.client.beside.c.find_one(slow, comment="endless"))
    shown = []

    def is_shown():
        ops = other.client.admin.command("currentOp")["inprog"]
        shown[:] = [op for op in ops if op.get("command", {}).get("comment") == "endless"]
        return shown
    check("an operation of the other server is shown", wait_until(is_shown, 10))
    name = shown[0]["opid"]
    check("it has its server's name", isinstance(name, str) and name.startswith(shown[0]["host"] + ":"), shown)
    by_stage = list(other.client.admin.aggregate([{"$currentOp": {}}, {"$match": {"opid": name}}]))
    equal("by the stage", [op["host"] for op in by_stage], [shown[0]["host"]])
    equal("not among those of this server", [op for op in other.client.admin.aggregate(
        [{"$currentOp": {"localOps": True}}]) if op.get("host") == shown[0]["host"]], [])
    other.client.admin.command("killOp", op=name)
    equal("killed at the other server", waiting.code(), 11601)
    begun = time.monotonic()
    other.client.admin.command("currentOp")
    check("asking takes a fraction of a second", time.monotonic() - begun < 2, time.monotonic() - begun)


def changes(node, other, _):
    """Changes of the catalog at one server, while clients write at the other one."""
    db, same = node.client.changes, other.client.changes
    db.create_collection("c")
    stopped, counts = threading.Event(), [0, 0]

    def write(number):
        while not stopped.is_set():
            n = counts[number]
            same.c.insert_one({"_id": "%d/%d" % (number, n), "a": n, "tags": [n, number]})
            counts[number] += 1
        return 0
    workers = [Running(lambda number=number: write(number)) for number in range(2)]

    def grown(what):
        goals = [count + 5 for count in counts]
        check(what, wait_until(lambda: all(c >= goal for c, goal in zip(counts, goals)), 60), counts)
    grown("writers begin")
    for round_ in range(2):
        begun = time.monotonic()
        db.c.create_index("a")
        db.c.create_index([("tags", 1), ("a", -1)], name="tags")
        db.command("collMod", "c", validator={"a": {"$gte": 0}}, validationLevel="strict")
        fails("the validator at the other", 121, lambda: same.c.insert_one({"a": -1}))
        grown("writers go on beside changes")
        equal("the index at the other", same.c.count_documents({"a": 3}, hint="a_1"), 2)
        db.c.drop_index("a_1")
        db.c.drop_index("tags")
        db.command("collMod", "c", validator={})
        print("eight changes beside writers: %.1f s" % (time.monotonic() - begun), flush=True)
    for n in range(3):
        db.create_collection("made%d" % n)
        same["made%d" % n].insert_one({})
        db["made%d" % n].rename("moved%d" % n)
        equal("renamed", (same["made%d" % n].count_documents({}), same["moved%d" % n].count_documents({})), (0, 1))
    db.command("create", "view", viewOn="c", pipeline=[{"$match": {"a": 0}}])
    equal("a view", same.view.count_documents({}), 2)
    stopped.set()
    equal("no writer has failed", [worker.code() for worker in workers], [0, 0])
    equal("all were inserted", db.c.count_documents({}), sum(counts))
    valid(db)
    valid(same)
    check("counted", wait_until(lambda: db.c.estimated_document_count() == sum(counts), 15))
    node.client.drop_database("changes")
    equal("dropped at the other", same.list_collection_names(), [])


def regions(address):
    """The number of regions of the cluster, as its placement driver knows them."""
    driver = address.split("//")[1].split("/")[0].split(",")[0]
    with urllib.request.urlopen(f"http://{driver}/pd/api/v1/regions", timeout=5) as answer:
        return json.load(answer)["count"]


def spread(node, other, address):
    """10,000 ascending ids by clients of both servers, in a usual collection and in a sharded one: the same is seen, and
    the sharded one has regions for all of its stripes."""
    count, threads, at_once = 10_000, 4, 100
    db, same = node.client.spread, other.client.spread
    db.plain.create_index("n")
    before = regions(address)
    reply = node.client.admin.command("shardCollection", "spread.sharded", key={"_id": "hashed"}, numInitialChunks=16)
    check("the reply", "are spread over the store in 16 parts" in reply["note"], reply)
    db.sharded.create_index("n")
    # Those of records, of the index on _id, and of the hashed index; and of the small keys of all commits.
    made = regions(address) - before
    check("regions", made >= 16 + 16 + 15, made)
    client = seeds([node, other], localThresholdMS=1000)

    def write(name, number):
        for first in range(number * at_once, count, threads * at_once):
            client.spread[name].insert_many({"_id": n, "n": n % 100} for n in range(first, first + at_once))
        return 0
    for name in ("plain", "sharded"):
        begun = time.monotonic()
        workers = [Running(lambda name=name, number=number: write(name, number)) for number in range(threads)]
        equal("inserts into %s" % name, [worker.code() for worker in workers], [0] * threads)
        print("%d ids into %s: %.1f s" % (count, name, time.monotonic() - begun), flush=True)
    for database in db, same:
        def both(read, database=database):
            return read(database.plain), read(database.sharded)
        for what, read in (
                ("counts", lambda of: of.count_documents({})),
                ("an order", lambda of: [d["_id"] for d in of.find({"_id": {"$gte": 700, "$lt": 900}}).sort("_id", -1)]),
                ("first ones", lambda of: [d["_id"] for d in of.find().sort("_id", 1).limit(5)]),
                ("some ids", lambda of: [d["n"] for d in of.find({"_id": {"$in": [9999, -1, 5, 7.0]}}).sort("_id", 1)]),
                ("by another index", lambda of: sorted(d["_id"] for d in of.find({"n": 42}))),
                ("a sum", lambda of: list(of.aggregate([{"$group": {"_id": None, "sum": {"$sum": "$n"}}}])))):
            one, sharded = both(read)
            check(what, one == sharded and one, (one, sharded))
        fails("an id that is there", 11000, lambda database=database: database.sharded.insert_one({"_id": 12}), DuplicateKeyError)
        valid(database, "sharded")
    joined = list(same.sharded.aggregate([
        {"$match": {"_id": {"$lt": 200}}},
        {"$lookup": {"from": "sharded", "localField": "n", "foreignField": "_id", "as": "found"}}]))
    check("joined by _id", all([found["_id"] for found in d["found"]] == [d["n"]] for d in joined) and len(joined) == 200)
    equal("deleted", same.sharded.delete_many({"_id": {"$lt": 5000}}).deleted_count, 5000)
    equal("left", db.sharded.count_documents({"_id": {"$lt": 6000}}), 1000)
    client.close()
    node.client.drop_database("spread")


def times(node, other, _):
    """Snapshots at a time that one server has told are the same at the other one, beside writers of both."""
    db, same = node.client.times, other.client.times
    db.c.insert_many({"_id": n, "sum": 100} for n in range(20))
    db.d.insert_one({"_id": 1})
    client = seeds([node, other], localThresholdMS=1000)
    stopped = threading.Event()

    def write(number):
        n = 0
        while not stopped.is_set():
            n += 1
            with client.start_session() as session:
                session.with_transaction(lambda session, n=n: [
                    client.times.c.update_one({"_id": one}, {"$inc": {"sum": by}}, session=session)
                    for one, by in ((n % 20, -1), ((n * 7 + number + 1) % 20, 1))])
        return 0
    workers = [Running(lambda number=number: write(number)) for number in range(2)]

    def read(database, time_, name="c"):
        concern = {"level": "snapshot", **({"atClusterTime": time_} if time_ else {})}
        return database.command("find", name, sort={"_id": 1}, readConcern=concern)["cursor"]
    views = set()
    for n in range(30):
        first, second = (db, same) if n % 2 else (same, db)
        told = read(first, None)
        again = read(second, told["atClusterTime"])
        equal("the time", again["atClusterTime"], told["atClusterTime"])
        equal("the same at the other", again["firstBatch"], told["firstBatch"])
        equal("the sum", sum(d["sum"] for d in again["firstBatch"]), 2000)
        views.add(str(told["firstBatch"]))
    check("writers go on", len(views) > 5, len(views))
    used = [one.client.admin.command("serverStatus")["opcounters"]["query"] for one in (node, other)]
    for _ in range(5):
        with client.start_session(snapshot=True) as session:
            seen = [list(client.times.c.find(session=session, sort=[("_id", 1)])) for _ in range(6)]
            equal("one snapshot", seen, seen[:1] * 6)
    now = [one.client.admin.command("serverStatus")["opcounters"]["query"] for one in (node, other)]
    check("sessions use both servers", all(a > b for a, b in zip(now, used)), (used, now))
    stopped.set()
    equal("no writer has failed", [worker.code() for worker in workers], [0, 0])
    told = read(db, None)["atClusterTime"]
    same.c.create_index("sum")
    for database in db, same:
        fails("a collection that has changed since", 246, lambda database=database: read(database, told))
        equal("another one", read(database, told, "d")["firstBatch"], [{"_id": 1}])
    fails("a time to come", 72, lambda: read(same, Timestamp(told.time + 3600, 1)))
    fails("a time that is too old", 239, lambda: read(same, Timestamp(told.time - 3600, 1)))
    client.close()
    node.client.drop_database("times")


def started(node, other, address):
    """A third server comes and leaves in good order: nobody waits for it."""
    third = Node("third", address, 8)
    third.ready()
    equal("three", names(third), ports(node, other, third))
    third.client.third.c.insert_one({"_id": 1})
    equal("stopped", third.stop(), 0)
    begun = time.monotonic()
    node.client.third.c.create_index("a")
    node.client.drop_database("third")
    check("a change after that", time.monotonic() - begun < 5, time.monotonic() - begun)
    equal("two", names(node), ports(node, other))


def killed(node, other, address):
    """A server is killed under clients that know both, and started again; each acknowledged write is there once."""
    client = seeds([node, other], localThresholdMS=1000)
    prepare(client, "killed")
    transfers = [Transfer(seeds([node, other], localThresholdMS=1000), number, "killed") for number in range(2)]
    writers = [Writer(seeds([other, node], localThresholdMS=1000), number, "killed") for number in range(4)] + transfers
    for writer in writers:
        writer.start()
    for round_ in range(2):
        progress(writers, "before the server is killed")
        other.stop(signal.SIGKILL)
        gone_on(writers, "server killed")
        begun = time.monotonic()
        node.client.killed.create_collection("round%d" % round_)
        seconds = time.monotonic() - begun
        check("a change waits for the lease of the dead", seconds < 15, seconds)
        print("a change after a kill: %.1f s" % seconds, flush=True)
        node.client.killed.c.create_index("round%d" % round_)
        check("it is not listed any more", names(node) == ports(node), names(node))
        check("the log says so", node.log(8200431) != [])
        other = Node("second", address, 1)
        took = other.ready()
        check("it starts again", took < 10, took)
        gone_on(writers, "server started")
    end(writers)
    for one in node, other:
        acknowledged(one.client, [w for w in writers if w not in transfers], "killed")
        transferred(one.client, transfers, "killed")
    check("the first one was never restarted", node.process.poll() is None)


def at_once(address):
    """Two servers that start at the same moment over an empty prefix."""
    empty = address + "2"
    nodes = [Node("empty%d" % n, empty, 2 + n) for n in range(2)]
    for node in nodes:
        node.ready()
    equal("the servers", [names(node) for node in nodes], [ports(*nodes)] * 2)
    ids = [node.client.config.version.find_one()["clusterId"] for node in nodes]
    equal("one cluster", ids[0], ids[1])
    made = [Running(lambda node=node: node.client.d.c.insert_one({"by": node.port}) and 0) for node in nodes]
    equal("both create a collection", [one.code() for one in made], [0, 0])
    equal("it is one", [node.client.d.c.count_documents({}) for node in nodes], [2, 2])
    stops = [Running(node.stop) for node in nodes]
    equal("both stop", [stop.code() for stop in stops], [0, 0])
    node = Node("empty0", empty, 2)
    node.ready()
    equal("the data are there", node.client.d.c.count_documents({}), 2)
    equal("stopped", node.stop(), 0)


def guarded(address):
    """Users, roles and settings that are changed at one server hold at the other one as soon as that is answered."""
    nodes = [Node("guarded%d" % n, address + "3", 2 + n, *AUTH) for n in range(2)]
    for node in nodes:
        node.ready()
    nodes[0].client.admin.command("createUser", "root", pwd="pwd", roles=["root"])
    fails("a second first user", 13, lambda: nodes[1].client.admin.command("createUser", "more", pwd="pwd", roles=["root"]))
    root = seeds(nodes[:1], username="root", password="pwd")
    root.admin.command("createUser", "user", pwd="pwd", roles=[{"role": "readWrite", "db": "d"}])
    user = seeds(nodes[1:], username="user", password="pwd")
    user.d.c.insert_one({})
    slowest = 0
    for n in range(5):
        begun = time.monotonic()
        root.admin.command("revokeRolesFromUser", "user", roles=[{"role": "readWrite", "db": "d"}])
        slowest = max(slowest, time.monotonic() - begun)
        fails("a revoked role", 13, lambda: user.d.c.insert_one({}))
        root.admin.command("grantRolesToUser", "user", roles=[{"role": "readWrite", "db": "d"}])
        user.d.c.insert_one({"_id": n})
    check("a revocation does not take long", slowest < 3, slowest)
    root.admin.command("setClusterParameter", {"defaultMaxTimeMS": {"readOperations": 200}})
    fails("a limit that was set at the other", 50, lambda: user.d.c.find_one({"$where": "sleep(2000) || true"}))
    root.admin.command("setClusterParameter", {"defaultMaxTimeMS": {"readOperations": 0}})
    nodes[0].client.close()
    root.admin.command("dropUser", "user")
    fails("a dropped user", 13, lambda: user.d.c.find_one())
    equal("stopped", [node.stop() for node in nodes], [0, 0])
    print("slowest revocation: %.2f s" % slowest, flush=True)


def given_up(node, other):
    """A server that does not run for longer than its lease ends; the other one has all it has acknowledged."""
    client = seeds([node, other])
    client.restarts.c.insert_one({"_id": "before", "n": 1})
    before = node.client.restarts.c.count_documents({})
    node.process.send_signal(signal.SIGSTOP)
    begun = time.monotonic()
    other.client.restarts.c.create_index("given_up")
    waited = time.monotonic() - begun
    check("the other one gives it up", waited < 20, waited)
    other.client.restarts.c.insert_one({"_id": "after", "n": 2})
    node.process.send_signal(signal.SIGCONT)
    equal("it ends", node.ended(), CLUSTER)
    equal("and says why", (len(node.log(8200440)), len(node.log(8200414))), (1, 1))
    equal("the other one goes on", other.client.restarts.c.count_documents({}), before + 1)
    try:
        client.restarts.c.insert_one({"_id": "again", "n": 3})
        client.close()
    except OperationFailure as error:
        check("clients go on", False, error)
    print("given up after %.1f s" % waited, flush=True)
    return other

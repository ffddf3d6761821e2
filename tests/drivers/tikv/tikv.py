"""The server over TiKV: tikv.py NAGI FOLDER. Prints each failure and a count.

A placement driver and a store (tests/tikv), and up to three servers over them. Tested: what a driver sees of a server
that is a router, transactions and retryable writes, the suites of pymongo that need no restart, options, refused starts,
kills and orderly restarts of the server, several servers at once (`several.py`), and writers while the store and the
placement driver are killed. FULL=1 in the environment adds what waits for time-outs of 20 seconds.
"""
import os
import re
import signal
import subprocess
import sys
import time
import uuid

import pymongo
from bson import Binary, Int64, ObjectId, Timestamp
from pymongo.errors import DuplicateKeyError, PyMongoError
from pymongo.read_concern import ReadConcern

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
sys.path.insert(0, os.path.join(HERE, "..", "tls"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tikv"))
import several  # noqa: E402
from checks import Running, check, equal, fails, finish, section, wait_until  # noqa: E402
from cluster import Cluster  # noqa: E402
from copies import copies  # noqa: E402
from nodes import CLUSTER, FOLDER, NAGI, PORT, Node, valid  # noqa: E402
from pki import Authority  # noqa: E402
from streams import streams  # noqa: E402
from writers import PASSING, Transfer, Writer, acknowledged, end, gone_on, prepare, progress, transferred  # noqa: E402


FULL = os.environ.get("FULL") == "1"
# Of kills of the placement driver and the store.
ROUNDS = 4 if FULL else 1
RAW = []  # sessions that stay open
TESTS = ("--setParameter", "enableTestCommands=1")
# Of crud.py: without 5,000 updates by _id in one message, which are 20,000 round trips, more than its time-out allows.
PARTS = "handshake insert_find updates errors cursors types indexes texts collations geometry windows aggregation admin " \
    "concurrency compression files"


def run(*arguments, seconds=60):
    done = subprocess.run([NAGI, *arguments], capture_output=True, text=True, timeout=seconds)
    return done.returncode, done.stdout + done.stderr


def options(address):
    """What is refused before anything is opened."""
    serve = ["serve", "--dbpath", FOLDER, "--port", str(PORT)]
    for flags, text in (
            (["--storageEngine", "tikv"], "needs the address of the cluster: storage.uri"),
            (["--storageUri", address], "is for the storage engine tikv"),
            (["--storageEngine", "tikv", "--storageUri", "pd:2379"], "an address of TiKV begins with tikv://"),
            (["--storageEngine", "tikv", "--storageUri", address, "--replSet", "rs"], "it keeps no oplog yet"),
            (["--storageEngine", "tikv", "--storageUri", address, "--repair"], "--repair is not for")):
        status, said = run(*serve, *flags)
        check("options " + " ".join(flags), status == 2 and text in said, (status, said))


def seen(node):
    """What monitoring and drivers see of a server without an oplog."""
    client, admin = node.client, node.client.admin
    status = admin.command("serverStatus")
    engine = status["storageEngine"]
    equal("name of the engine", (engine["name"], engine["persistent"]), ("tikv", True))
    check("counters of the engine", status["nagi"]["storage"]["commits"] > 0 and "retries_region" in status["nagi"]["storage"],
          status["nagi"]["storage"])
    check("no cache of WiredTiger", "wiredTiger" not in status)
    equal("engines of buildInfo", admin.command("buildInfo")["storageEngines"], ["tikv"])
    hello = admin.command("hello")
    check("a router", hello["isWritablePrimary"] and "setName" not in hello and hello["msg"] == "isdbgrid", hello)
    check("with times", "$clusterTime" in hello and "operationTime" in hello, hello)
    equal("to pymongo", client.topology_description.topology_type_name, "Sharded")
    equal("process", status["process"], "mongos")
    equal("its options", admin.command("getCmdLineOpts")["parsed"]["storage"]["engine"], "tikv")
    error = fails("replSetGetStatus", 59, lambda: admin.command("replSetGetStatus"))
    equal("its text", error.details["errmsg"], "replSetGetStatus is not supported through mongos")
    fails("replSetInitiate", 59, lambda: admin.command("replSetInitiate", {}))
    status, said = run("backup", "--uri", "mongodb://127.0.0.1:%d" % node.port, "--out", os.path.join(FOLDER, "backup"))
    check("nagi backup", status != 0 and "the data are in TiKV, which has backups of its own" in said, (status, said))
    status, said = run("doctor", "--dbpath", node.folder)
    check("nagi doctor", status in (0, 1, 3) and "panic" not in said, (status, said))
    client.seen.c.insert_one({"_id": 1})
    valid(client.seen)
    for command in ({"fsync": 1}, {"collStats": "c"}, {"dbStats": 1}, {"compact": "c", "force": True}, {"top": 1},
                    {"currentOp": 1}, {"lockInfo": 1}):
        database = client.seen if next(iter(command)) in ("collStats", "dbStats", "compact") else admin
        equal("command %s" % command, database.command(command)["ok"], 1)
    client.drop_database("seen")


def transactions(node):
    """Transactions of clients: with_transaction of many at once, conflicts, limits, recovery tokens, snapshots."""
    client = node.client
    db = client.bank
    db.accounts.insert_many({"_id": n, "sum": 100} for n in range(5))
    db.create_collection("transfers")

    def transfer(number):
        def once(session, n):
            source, target = (number + n) % 5, (number + 2 * n + 1) % 5
            db.accounts.update_one({"_id": source}, {"$inc": {"sum": -1}}, session=session)
            db.accounts.update_one({"_id": target}, {"$inc": {"sum": 1}}, session=session)
            db.transfers.insert_one({"_id": "%d/%d" % (number, n)}, session=session)
        with client.start_session() as session:
            for n in range(10):
                session.with_transaction(lambda session, n=n: once(session, n))
        return 0

    workers = [Running(lambda number=number: transfer(number)) for number in range(4)]
    equal("transfers", [worker.code() for worker in workers], [0] * 4)
    equal("the sum", sum(d["sum"] for d in db.accounts.find()), 500)
    equal("each was made once", db.transfers.count_documents({}), 40)
    with client.start_session() as one, client.start_session() as other:
        one.start_transaction()
        equal("a read", db.accounts.find_one({"_id": 0}, session=one)["_id"], 0)
        db.accounts.update_one({"_id": 0}, {"$inc": {"sum": 1}}, session=one)
        equal("the token of a write", one._transaction.recovery_token, {"recoveryShardId": "store"})
        other.start_transaction()
        db.accounts.update_one({"_id": 0}, {"$inc": {"sum": 1}}, session=other)
        other.commit_transaction()
        error = fails("a conflict at the commit", 112, one.commit_transaction)
        check("may be repeated", error.has_error_label("TransientTransactionError"), error.details)
        error = fails("and then", 251, lambda: client.admin.command(
            {"commitTransaction": 1, "txnNumber": Int64(one._server_session.transaction_id), "autocommit": False},
            session=one))
    with client.start_session() as session:
        session.start_transaction()
        pad = {"pad": "x" * 15_000_000}
        error = fails("more than a transaction may write", 388, lambda: [
            db.large.insert_one(dict(pad), session=session) for _ in range(5)])
        check("is not repeated", not error.has_error_label("TransientTransactionError"), error.details)
        session.abort_transaction()
        equal("nothing of it is there", db.large.count_documents({}), 0)
    with client.start_session(snapshot=True) as session:
        before = db.accounts.find_one({"_id": 1}, session=session)["sum"]
        db.accounts.update_one({"_id": 1}, {"$inc": {"sum": 7}})
        equal("a snapshot", db.accounts.find_one({"_id": 1}, session=session)["sum"], before)
    fails("a snapshot that is too old", 239, lambda: db.command(
        "find", "accounts", readConcern={"level": "snapshot", "atClusterTime": Timestamp(int(time.time()) - 3600, 1)}))
    for level in ("local", "available", "majority", "linearizable"):
        equal("read concern " + level, db.accounts.with_options(read_concern=ReadConcern(level)).count_documents({}), 5)
    with client.start_session(causal_consistency=True) as session:
        db.accounts.insert_one({"_id": "causal"}, session=session)
        check("a causal read", db.accounts.find_one("causal", session=session))
    valid(client.bank, "accounts")


def retried(node):
    """Retryable writes: replies are lost, connections break before and after the commit, and the server is killed."""
    db, admin = node.client.retried, node.client.admin
    db.c.insert_one({"_id": 1, "n": 0})

    def point(name, **data):
        admin.command({"configureFailPoint": name, "mode": {"times": 1}, "data": data})

    def writes():
        return (lambda: db.c.update_one({"_id": 1}, {"$inc": {"n": 1}}),
                lambda: db.c.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}),
                lambda: db.c.bulk_write([pymongo.UpdateOne({"_id": 1}, {"$inc": {"n": 1}}), pymongo.InsertOne({})]))
    for write in writes():
        point("onPrimaryTransactionalWrite", closeConnection=True, failBeforeCommitExceptionCode=1)
        write()
    equal("broken before the commit", db.c.find_one(1)["n"], 3)
    for command, write in zip(("update", "findAndModify", "update"), writes()):
        point("failCommand", failCommands=[command], writeConcernError={
            "code": 6, "errmsg": "", "errorLabels": ["RetryableWriteError"]})
        write()
    equal("the reply of the commit is lost", db.c.find_one(1)["n"], 6)
    equal("inserts", db.c.count_documents({}), 3)
    with node.client.start_session() as session:
        session.start_transaction()
        db.c.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)
        point("failCommand", failCommands=["commitTransaction"], writeConcernError={
            "code": 6, "errmsg": "", "errorLabels": ["RetryableWriteError"]})
        session.commit_transaction()
    equal("a commit whose reply is lost", db.c.find_one(1)["n"], 7)


def after_kill(node, address):
    """What a session has done is known to the server that comes after one that was killed."""
    client = node.client
    write = {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}], "lsid": {"id": uuid4()},
             "txnNumber": Int64(1)}
    txn = {"lsid": {"id": uuid4()}, "txnNumber": Int64(1), "autocommit": False}
    lost = {"lsid": {"id": uuid4()}, "txnNumber": Int64(1), "autocommit": False}
    commit = {"commitTransaction": 1, "recoveryToken": {"recoveryShardId": "store"}}
    raw(client.retried, write)
    for of in (txn, lost):
        raw(client.retried, {"insert": "d", "documents": [{}], "startTransaction": True, **of})
    raw(client.admin, {**commit, **txn})
    node.stop(signal.SIGKILL)
    node = Node("tikv", address, 0, *TESTS)
    node.ready()
    client = node.client
    equal("a write that is repeated", raw(client.retried, write).get("retriedStmtIds"), [0])
    equal("is not executed again", client.retried.c.find_one(1)["n"], 8)
    equal("a commit that is repeated", raw(client.admin, {**commit, **txn})["ok"], 1)
    for _ in range(2):
        error = fails("a transaction that was open", 251, lambda: raw(client.admin, {**commit, **lost}))
        check("is begun again", error.has_error_label("TransientTransactionError"), error.details)
    equal("it has left nothing", client.retried.d.count_documents({}), 1)
    return node


def raw(database, command):
    """Runs a command in a session that the driver does not know, and that it does not end."""
    client = pymongo.MongoClient("127.0.0.1", database.client.address[1], retryWrites=False)
    RAW.append(client)
    session = client.start_session()
    check("a session", session.session_id)
    session._server_session.session_id = command["lsid"]
    RAW.append(session)
    fields = {name: value for name, value in command.items() if name != "lsid"}
    return client[database.name].command(fields, session=session)


def uuid4():
    return Binary.from_uuid(uuid.uuid4())


def shell(node):
    """What mongosh shows of a sharded cluster."""
    home = os.path.join(FOLDER, "mongosh")
    os.makedirs(home, exist_ok=True)
    command = [*os.environ["MONGOSH"].split(), "--norc", "mongodb://127.0.0.1:%d/test" % node.port]
    done = subprocess.run([*command, "--quiet", "--file", os.path.join(HERE, "sharding.js")], capture_output=True, text=True,
                          timeout=120, env={**os.environ, "HOME": home})
    check("mongosh", done.returncode == 0 and "mongosh: a router" in done.stdout, (done.stdout + done.stderr)[-3000:])
    done = subprocess.run(command, input="exit\n", capture_output=True, text=True, timeout=60,
                          env={**os.environ, "HOME": home})
    check("its prompt", "mongos" in done.stdout, done.stdout[-500:])


def suites(node):
    """Programs of tests/drivers/pymongo that run against any server."""
    for name in ("crud", "answers"):
        begun = time.monotonic()
        uri = "mongodb://127.0.0.1:%d" % node.port
        done = subprocess.run([sys.executable, os.path.join(HERE, "..", "pymongo", name + ".py"), uri], capture_output=True,
                              text=True, timeout=300, env={**os.environ, "ONLY": PARTS})
        check(name, done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:])
        print("%s: %.1f s" % (name, time.monotonic() - begun), flush=True)


def indexes(node):
    """Unique and multikey indexes, cursors that go on, and collections that are dropped and made again."""
    db = node.client.made
    for round_ in range(2):
        c = db.c
        c.create_index("u", unique=True)
        c.insert_many({"_id": n, "u": n, "tags": [n % 7, n % 11], "pad": "x" * 200} for n in range(3000))
        c.create_index("tags")
        fails("a duplicate", 11000, lambda: c.insert_one({"u": 5}), DuplicateKeyError)
        fails("a duplicate by an update", 11000, lambda: c.update_one({"_id": 4}, {"$set": {"u": 5}}), DuplicateKeyError)
        equal("by the multikey index", c.count_documents({"tags": 3}, hint="tags_1"),
              sum(3 in (n % 7, n % 11) for n in range(3000)))
        equal("a cursor goes on", [d["_id"] for d in c.find({}, {"_id": 1}, batch_size=100).sort("u", -1)],
              list(range(2999, -1, -1)))
        totals = {d["_id"]: d["n"] for d in c.aggregate([{"$unwind": "$tags"}, {"$group": {"_id": "$tags", "n": {"$sum": 1}}}])}
        equal("a group", sum(totals.values()), 6000)
        found = next(db.c.aggregate([{"$match": {"_id": {"$lt": 50}}}, {"$lookup": {
            "from": "c", "localField": "u", "foreignField": "u", "as": "same"}}, {"$group": {
                "_id": None, "n": {"$sum": {"$size": "$same"}}}}]))
        equal("a lookup", found["n"], 50)
        valid(db)
        equal("counted", c.estimated_document_count(), 3000)
        c.drop()
        equal("dropped, round %d" % round_, list(db.list_collection_names()), [])


def trips(node):
    """Round trips of reads of many documents: one for the entries of the index, one for the records."""
    c = node.client.trips.c
    c.create_index("a")
    c.insert_many({"_id": n, "a": n, "pad": "x" * 300} for n in range(1000))

    def now():
        figures = node.client.admin.command("serverStatus")["nagi"]["storage"]
        return figures["scans"], figures["batch_gets"]

    def takes(what, expected, run):
        seen = []

        def is_met():  # what was dropped before is still being deleted
            before = now()
            run()
            seen[:] = (b - a for a, b in zip(before, now()))
            return seen == expected
        check(what, wait_until(is_met, 40), (seen, expected))

    def find(where, count, **options):
        equal("found", len(list(c.find(where, hint="a_1", **options))), count)
    takes("a find of 100", [1, 1], lambda: find({"a": {"$gte": 300, "$lt": 400}}, 100))
    takes("with a limit", [1, 1], lambda: find({"a": {"$gte": 300}}, 50, limit=50))
    takes("of one", [1, 0], lambda: find({"a": 300}, 1))
    takes("a lookup of 100", [3, 3], lambda: list(c.aggregate([{"$match": {"_id": {"$lt": 100}}}, {"$lookup": {
        "from": "c", "localField": "a", "foreignField": "a", "as": "same"}}])))


def long_keys(node):
    """Index keys that are longer than TiKV's are cut there, which queries do not notice. Keys beyond 64 KiB, and long ones of
    clustered collections, are refused as MongoDB refused them before 4.2; the data stay as they were."""
    c = node.client.long.c
    c.create_index("a", unique=True)
    texts = sorted("x" * length + end for length in (5000, 6200, 7000, 20000) for end in ("a", "b", "c"))
    c.insert_many({"_id": "i" * 7000 + str(n), "a": text, "b": text} for n, text in reversed(list(enumerate(texts))))
    c.create_index([("b", -1), ("_id", 1)])
    equal("in their order", [d["a"] for d in c.find({}, {"a": 1}).sort("a", 1).hint("a_1")], texts)
    equal("in the other order", [d["b"] for d in c.find({}, {"b": 1}).sort("b", -1).hint("b_-1__id_1")], texts[::-1])
    for n, text in enumerate(texts):
        equal("a look-up", c.find_one({"a": text}, hint="a_1")["_id"], "i" * 7000 + str(n))
        equal("by _id", c.find_one({"_id": "i" * 7000 + str(n)})["a"], text)
        equal("those behind it", c.count_documents({"a": {"$gt": text}}, hint="a_1"), len(texts) - n - 1)
    equal("covered", [d["a"] for d in c.find({"a": {"$gte": texts[3]}}, {"_id": 0, "a": 1}).hint("a_1")], texts[3:])
    fails("a duplicate", 11000, lambda: c.insert_one({"a": texts[7]}), DuplicateKeyError)
    fails("a duplicate _id", 11000, lambda: c.insert_one({"_id": "i" * 7000 + "3"}), DuplicateKeyError)
    c.update_one({"a": texts[-1]}, {"$set": {"a": "y" * 7000}})
    equal("after an update", c.count_documents({"a": {"$in": [texts[-1], "y" * 7000]}}), 1)
    longest = "z" * 70000
    error = fails("an index key", 17280, lambda: c.insert_one({"_id": 2, "a": longest}))
    check("its text", "key too large to index" in str(error), error)
    fails("by an update", 17280, lambda: c.update_one({"a": texts[0]}, {"$set": {"a": longest}}))
    fails("an _id", 17280, lambda: c.insert_one({"_id": longest}))
    c.update_one({"a": texts[0]}, {"$set": {"d": longest}})
    fails("an index on what is there", 17280, lambda: c.create_index("d"))
    clustered = node.client.long.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True})
    fails("an _id of a clustered collection", 17280, lambda: clustered.insert_one({"_id": "x" * 7000}))
    equal("nothing was changed", (c.count_documents({}), clustered.count_documents({}), sorted(c.index_information())),
          (len(texts), 0, ["_id_", "a_1", "b_-1__id_1"]))
    valid(node.client.long)
    c.delete_many({"a": {"$gt": texts[4]}})
    equal("deleted", [d["a"] for d in c.find().sort("a", 1)], texts[:5])
    valid(node.client.long)


def contended(node):
    """Clients that write the same documents: every acknowledged change is there once."""
    db = node.client.contended
    db.c.insert_many({"_id": n, "n": 0} for n in range(4))
    db.c.create_index("k", unique=True, sparse=True)

    def work(number):
        mine = 0
        for n in range(40):
            db.c.update_one({"_id": n % 4}, {"$inc": {"n": 1}})
            try:
                db.c.insert_one({"k": n, "by": number})
                mine += 1
            except DuplicateKeyError:
                pass
        return mine

    workers = [Running(lambda number=number: work(number)) for number in range(6)]
    results = [worker.code() for worker in workers]
    check("no error", all(isinstance(result, int) for result in results), results)
    equal("increments", sum(d["n"] for d in db.c.find({"_id": {"$lt": 4}})), 240)
    equal("each key was inserted once", (sum(results), db.c.count_documents({"k": {"$exists": True}})), (40, 40))
    valid(db)


def restarts(name, address):
    """Kills, orderly stops, and what they cost at the next start. Returns the last server."""
    node = Node(name, address)
    node.ready()
    c = node.client.restarts.c
    c.create_index("n", unique=True)
    c.insert_many({"_id": n, "n": -n} for n in range(500))
    node.stop(signal.SIGKILL)
    node = Node(name, address)
    after_kill = node.ready()
    check("a start after a kill waits for nothing", after_kill < 6, after_kill)
    c = node.client.restarts.c
    equal("the data are there", (c.count_documents({}), c.estimated_document_count()), (500, 500))
    valid(node.client.restarts)
    c.insert_one({"_id": 500, "n": -500})
    equal("status of an orderly stop", node.stop(), 0)
    node = Node(name, address, 0, *TESTS)
    after_stop = node.ready()
    check("a start after an orderly stop waits for nothing", after_stop < 6, after_stop)
    equal("the write before it", node.client.restarts.c.find_one({"n": -500}), {"_id": 500, "n": -500})
    print("starts: %.1f s after a kill, %.1f s after an orderly stop" % (after_kill, after_stop), flush=True)
    return node


def faults(cluster, node):
    """Writers while the placement driver is killed, while the store does not answer, and while the store is killed."""
    prepare(node.client)
    transfers = [Transfer(node.client, number) for number in range(2)]
    writers = [Writer(node.client, number) for number in range(4)] + transfers
    for writer in writers:
        writer.start()
    for round_ in range(ROUNDS):
        progress(writers, "before the placement driver is killed")
        cluster.kill("PD")
        missed(node, 2 * round_ + 1)
        cluster.restart("PD")
        gone_on(writers, "placement driver killed")
        with cluster.stopped("STORE"):
            missed(node, 2 * round_ + 2)
        gone_on(writers, "store stopped")
        for _ in range(3):
            cluster.kill("STORE")
            cluster.restart("STORE")
            gone_on(writers, "store killed")
    end(writers)
    acknowledged(node.client, [w for w in writers if w not in transfers])
    transferred(node.client, transfers)
    cluster.kill("STORE")
    cluster.restart("STORE")
    check("the server goes on with a new store", wait_until(lambda: works(node), 60))
    acknowledged(node.client, [w for w in writers if w not in transfers])
    transferred(node.client, transfers)


def missed(node, times):
    """Waits until the server has noticed so many times that the cluster does not answer."""
    check("the log says that the cluster is away", wait_until(lambda: len(node.log(8200410)) >= times, 60), times)


def limits(cluster, node):
    """A limit of time, and killOp, end what waits for a store that does not answer."""
    c = node.client.limits.c
    c.insert_one({"_id": 1})
    admin = node.client.admin

    def timed(what, code, run):
        begun = time.monotonic()
        fails(what, code, run)
        seconds = time.monotonic() - begun
        check(what + " ends in time", 0.45 < seconds < 1.5, seconds)

    with cluster.stopped("STORE"):
        timed("a find with a limit", 50, lambda: c.find_one({"_id": 1}, max_time_ms=500))
        timed("an insert with a limit", 50, lambda: node.client.limits.command(
            {"insert": "c", "documents": [{"_id": 2}], "maxTimeMS": 500}))
        waiting = Running(lambda: pymongo.MongoClient("127.0.0.1", node.port).limits.c.find_one({"_id": 1}, comment="kill me"))
        shown = []

        def is_shown():
            shown[:] = [o for o in admin.command("currentOp")["inprog"] if o.get("command", {}).get("comment") == "kill me"]
            return shown
        check("it is shown", wait_until(is_shown, 5))
        begun = time.monotonic()
        admin.command("killOp", op=shown[0]["opid"])
        equal("a find that was killed", waiting.code(), 11601)
        check("ends at once", time.monotonic() - begun < 1, time.monotonic() - begun)
    check("it goes on", wait_until(lambda: c.count_documents({}) == 1, 30))


def silent(cluster, node):
    """A placement driver that does not answer: requests end with 6 in bounded time, also many at once."""
    def ask(number):
        client = pymongo.MongoClient("127.0.0.1", node.port, retryReads=False, retryWrites=False)
        try:
            if number % 2:
                client.silent.c.insert_one({"_id": ObjectId()})
            else:
                client.silent.c.find_one()
        finally:
            client.close()
    node.client.silent.c.insert_one({})
    begun = time.monotonic()
    with cluster.stopped("PD"):
        asked = [Running(lambda number=number: ask(number)) for number in range(8)]
        codes = {one.code() for one in asked}
        seconds = time.monotonic() - begun
    check("requests to a silent cluster", codes <= PASSING and codes, codes)
    check("end in time", seconds < 50, seconds)
    check("it goes on", wait_until(lambda: works(node), 60))
    print("silent placement driver: 8 requests ended in %.1f s" % seconds, flush=True)


def stopped_meanwhile(cluster, node):
    """An orderly stop waits for a cluster that does not answer for a bounded time only."""
    begun = time.monotonic()
    with cluster.stopped("PD"):
        status = node.stop()
    seconds = time.monotonic() - begun
    check("a stop without the cluster", status == 0 and seconds < 45, (status, seconds))
    print("orderly stop without the cluster: %.1f s" % seconds, flush=True)


def works(node):
    try:
        node.client.silent.c.insert_one({})
        return True
    except PyMongoError:
        return False


def unreachable(cluster, address):
    """Starts that cannot find their cluster, or find two."""
    node = Node("unreachable", "tikv://127.0.0.1:%d/x" % (PORT + 9), 2)
    status, error = node.refusal()
    check("no cluster", status == CLUSTER and error.startswith("HostUnreachable: no placement driver of TiKV can be reached"),
          (status, error))
    seconds = time.monotonic() - node.begun
    check("is known in time", seconds < 20, seconds)
    pd = re.match("tikv://([^/]*)/", address).group(1)
    node = Node("mixed", "tikv://%s,%s/x" % (pd, cluster.other_driver()), 2)
    status, error = node.refusal()
    check("two clusters", status == 100 and "are not of the same cluster" in error, (status, error))
    if not FULL:
        return
    cluster.kill("STORE")
    node = Node("without", address, 2)
    status, error = node.refusal()
    seconds = time.monotonic() - node.begun
    check("no store", status == CLUSTER and error.startswith("HostUnreachable: "), (status, error))
    check("is known in time", seconds < 45, seconds)
    cluster.restart("STORE")


def encrypted():
    """A cluster with certificates: a server with one works, others learn why they cannot connect."""
    authority, strangers = (Authority(os.path.join(FOLDER, name), "/CN=%s" % name) for name in ("authority", "strangers"))
    both = "subjectAltName = IP:127.0.0.1\nextendedKeyUsage = serverAuth, clientAuth"

    def files(signer, name):
        signer.sign(name, "/CN=%s" % name, both)
        return [authority.file, signer.path(name + ".crt"), signer.path(name + ".key")]

    def flags(paths):
        return [text for flag, path in zip(("--tikvCaPath", "--tikvCertPath", "--tikvKeyPath"), paths) for text in (flag, path)]

    cluster = Cluster(files(authority, "store"), after=6)
    try:
        address = "tikv://%s/encrypted" % cluster.start()["NAGI_TIKV_PD"]
        own = files(authority, "server")
        node = Node("encrypted", address, 4, *flags(own))
        node.ready()
        c = node.client.encrypted.c
        c.insert_many({"_id": n, "text": "x" * 1000} for n in range(300))
        equal("data behind certificates", c.count_documents({"_id": {"$gte": 100}}), 200)
        cluster.kill("STORE")
        cluster.restart("STORE")
        check("it connects again", wait_until(lambda: works(node), 60))
        equal("stopped", node.stop(), 0)
        refused = [(Node(name, address, 5 + n, *options), name, why) for n, (name, options, why) in enumerate((
            ("plain", [], "no placement driver of TiKV can be reached"),
            ("stranger", flags(files(strangers, "stranger")), "no placement driver of TiKV can be reached"),
            ("doubtful", flags([strangers.file, *own[1:]]), "UnknownIssuer")))]
        for node, name, why in refused:
            status, error = node.refusal()
            check("a server that is " + name, status == CLUSTER and why in error, (status, error))
        node = Node("files", address, 5, *flags([*own[:2], own[0]]))
        status, error = node.refusal()
        check("a file without a key", status == 100 and "no private key in PEM" in error, (status, error))
    finally:
        cluster.stop()


def folders(node, address):
    """A folder knows its engine."""
    log = os.path.join(FOLDER, "folders.log")

    def start(folder, *flags):
        return run("serve", "--dbpath", folder, "--port", str(PORT + 3), "--logpath", log, "--fork", *flags)
    status, said = start(os.path.join(FOLDER, "tikv"))
    check("without the address", status == 100 and "over TiKV, needs the address of the cluster" in said, (status, said))
    status, said = start(os.path.join(FOLDER, "tikv"), "--storageEngine", "wiredTiger")
    check("another engine", status == 100 and "created by the 'tikv' storage engine" in said, (status, said))
    other = os.path.join(FOLDER, "rocks")
    os.makedirs(other, exist_ok=True)
    status, said = start(other)
    check("a server of another engine", status == 0, said)
    run("--shutdown", "--dbpath", other)
    status, said = start(other, "--storageEngine", "tikv", "--storageUri", address)
    check("its folder", status == 100 and "created by the 'wiredTiger' storage engine" in said, (status, said))


def main():
    os.makedirs(FOLDER, exist_ok=True)
    cluster = Cluster()
    try:
        address = "tikv://%s/suite" % cluster.start()["NAGI_TIKV_PD"]
        section(options, address)
        node = restarts("tikv", address)
        for part in (seen, transactions, retried, shell, suites, indexes, trips, long_keys, contended, streams, copies):
            begun = time.monotonic()
            section(part, node)
            print("%s: %.1f s" % (part.__name__, time.monotonic() - begun), flush=True)
        node = after_kill(node, address)
        node = several.run(node, address)
        section(limits, cluster, node)
        section(faults, cluster, node)
        if FULL:
            section(silent, cluster, node)
            section(stopped_meanwhile, cluster, node)
        section(folders, node, address)
        section(unreachable, cluster, address)
        section(encrypted)
        cluster.report()
    finally:
        for node in Node.started:
            node.process.kill()
        cluster.stop()
    finish("over TiKV")


main()

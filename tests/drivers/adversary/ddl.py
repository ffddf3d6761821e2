"""Runs pairs of concurrent administrative operations while clients write: ddl.py NAGI FOLDER [--seconds N]
[--seed S] [--engine E].

Every pair of (createIndexes, unique and compound ones, dropIndexes, drop, renameCollection, collMod, compact,
validate with repair, reIndex, backup, user changes, TTL, bulk updates, transactions) is started with 0 to 200
ms between the two, while writers insert, replace and delete. In some rounds the server is killed in the middle
and restarted. Afterwards the writers stop and these must be consistent: `validate {full: true}`, counts and
values by a scan compared with those by each index, unique constraints, the writes acknowledged to the writers,
and indexes whose creation was acknowledged. Standalone and replica set alternate. A seed determines the
sequence of operations; their interleaving depends on the machine.
"""
import argparse
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from bson import SON, Int64, MinKey
from pymongo import MongoClient, WriteConcern
from pymongo.errors import AutoReconnect, ConnectionFailure, OperationFailure, PyMongoError

arguments = argparse.ArgumentParser()
arguments.add_argument("nagi")
arguments.add_argument("folder")
arguments.add_argument("--seconds", type=float, default=60)
arguments.add_argument("--seed", type=int, default=1)
arguments.add_argument("--engine", default="wiredTiger", choices=["wiredTiger", "mmapv1"])
options = arguments.parse_args()

WRITERS = 3
SIZES = [600, 1500]  # indexes over the first are built record by record, over the second from sorted keys
IDS = 4000  # ids of the writers; each writer has those with its number as the remainder
TTL_IDS = 1 << 20
SPECS = {
    "k": ({"k": 1}, {}), "a_k": ({"a": 1, "k": -1}, {}), "tags": ({"tags": 1}, {}), "u": ({"u": 1}, {"unique": True}),
    "part": ({"k": 1, "a": 1}, {"partialFilterExpression": {"a": {"$gt": 3}}}), "a": ({"a": 1}, {}),
    "never": ({"a": -1}, {"unique": True}), "all": ({"$**": 1}, {}), "hash": ({"k": "hashed"}, {}), "when": ({"when": 1}, {"expireAfterSeconds": 1}),
}
# The errors that an operation may get because of another one: aborted and interrupted builds, namespaces that
# appear and disappear, builds and compactions in progress, conflicting options, duplicates, write conflicts,
# transactions aborted by DDL, nothing to compact or repair.
REFUSALS = {11000, 276, 26, 27, 48, 67, 72, 85, 86, 112, 117, 175, 246, 251, 359, 12587, 12586, 51003, 51075, 20, 96, 11601, 11602, 237, 43, 314}
problems, rounds, refused, kills = [], 0, 0, 0
rnd = random.Random(options.seed)


class Server:
    def __init__(self, member):
        self.member, self.process = member, None
        self.data = os.path.join(options.folder, "data")
        shutil.rmtree(self.data, ignore_errors=True)
        os.makedirs(self.data)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.start()

    def start(self):
        flags = ["--replSet", "rs"] if self.member else []
        self.process = subprocess.Popen(
            [options.nagi, "serve", "--dbpath", self.data, "--port", str(self.port), "--bind_ip", "127.0.0.1", "--storageEngine", options.engine,
             "--logpath", os.path.join(options.folder, "nagi.log"), "--logappend", "--setParameter", "ttlMonitorSleepSecs=1"] + flags,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = MongoClient("127.0.0.1", self.port, directConnection=True, serverSelectionTimeoutMS=120000, socketTimeoutMS=120000,
                                  retryWrites=False, retryReads=False)
        self.client.admin.command("ping")
        if self.member:
            try:
                self.client.admin.command("replSetInitiate")
            except OperationFailure as error:
                if error.code != 23:  # initiated already, before a kill
                    raise
            while not self.client.admin.command("hello")["isWritablePrimary"]:
                time.sleep(0.05)
        self.db = self.client.ddl

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.client.close()
        self.process.terminate()
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = "no end within 60 seconds"
        if code != 0:
            problem(f"the server ended with {code}")


def problem(text):
    problems.append(text)
    print("PROBLEM", text, flush=True)


class World:
    """A server, its collection, and the acknowledged changes."""

    def __init__(self, server, size):
        self.server, self.db, self.size = server, server.db, size
        self.lock = threading.Lock()
        self.known, self.doubtful = {}, set()  # _id -> u (None: deleted); ids being written when the server was killed
        self.built = set()
        self.loses = False  # documents or indexes may be lost in this round
        self.fill()

    def fill(self):
        self.db.c.drop()
        docs = [self.document(i, i) for i in range(self.size)]
        self.db.c.insert_many(docs)
        self.known, self.doubtful, self.built = {d["_id"]: d["u"] for d in docs}, set(), set()

    def document(self, _id, u):
        return {"_id": _id, "u": u, "k": u % 97, "a": u % 7, "tags": [u % 5, "t%d" % (u % 11)], "n": 0}

    def write(self, writer, r, db, durable):
        """One write of one of the writer's documents."""
        _id = r.randrange(IDS // WRITERS) * WRITERS + writer
        # Usually a unique value; sometimes one that another document has, which a unique index refuses.
        u = r.randrange(self.size) if r.random() < 0.05 else 10 ** 6 + r.randrange(10 ** 12)
        c = db.get_collection("c", write_concern=WriteConcern(w=1, j=durable))
        kind = r.randrange(4)
        try:
            if kind == 0:
                done = c.delete_one({"_id": _id}).deleted_count
                new = None
            elif kind == 1:
                c.insert_one(self.document(_id, u))
                done, new = 1, u
            else:
                done, new = c.replace_one({"_id": _id}, self.document(_id, u)).matched_count, u
            if done:
                with self.lock:
                    self.known[_id] = new
        except OperationFailure as error:
            if error.code not in REFUSALS:
                problem(f"a write was refused: {error}")
        except ConnectionFailure:
            with self.lock:
                self.doubtful.add(_id)
            raise


def create(world, db, r):
    names = r.sample(sorted(SPECS), r.choice([1, 1, 2]))
    db.command("createIndexes", "c", indexes=[{"key": SON(SPECS[n][0]), "name": n, **SPECS[n][1]} for n in names])
    with world.lock:
        world.built.update(names)


def drop_indexes(world, db, r):
    world.loses = True
    db.command("dropIndexes", "c", index=r.choice(["*", *SPECS, r.sample(sorted(SPECS), 2)]))


def drop(world, db, r):
    world.loses = True
    db.command("drop", "c")
    db.c.insert_one(world.document(IDS + 1, IDS + 1))


def rename(world, db, r):
    # Writers may create another collection with this name. It is replaced by this operation, or at the next
    # start if the server is killed.
    world.loses = True
    client = db.client
    client.admin.command("renameCollection", "ddl.c", to="ddl.away")
    time.sleep(r.random() / 20)
    while True:
        try:
            client.admin.command("renameCollection", "ddl.away", to="ddl.c", dropTarget=True)
            break
        except OperationFailure as error:
            if error.code != 12587:
                raise
            time.sleep(0.005)


def coll_mod(world, db, r):
    change = r.choice([{"hidden": True}, {"hidden": False}, {"prepareUnique": True}, {"unique": True}, {"expireAfterSeconds": 3600}])
    db.command("collMod", "c", index={"name": r.choice(sorted(SPECS)), **change})


def compact(world, db, r):
    db.command("compact", "c", force=True)


def repair(world, db, r):
    reply = db.command("validate", "c", repair=True) if not world.server.member else db.command("validate", "c")
    if not reply["valid"] or reply.get("repaired"):
        problem(f"validate beside writers: {reply['errors'][:3]}")


def reindex(world, db, r):
    if not world.server.member:
        db.command("reIndex", "c")


def backup(world, db, r):
    # A scratch folder per backup, because two backups may run concurrently.
    scratch = tempfile.mkdtemp(prefix="backup", dir=options.folder)
    to = os.path.join(scratch, "out")
    done = subprocess.run([options.nagi, "backup", "--uri", f"mongodb://127.0.0.1:{world.server.port}", "--out", to], capture_output=True, text=True)
    if done.returncode == 0:
        done = subprocess.run([options.nagi, "backup", "--verify", to], capture_output=True, text=True)
        if done.returncode != 0:
            problem(f"a backup is not whole: {done.stdout[-300:]} {done.stderr[-300:]}")
    shutil.rmtree(scratch)


def users(world, db, r):
    name = f"u{r.randrange(1000)}"
    db.command("createUser", name, pwd="x", roles=["read"], mechanisms=["SCRAM-SHA-256"])
    db.command("updateUser", name, roles=["readWrite"])
    db.command("dropUser", name)


def ttl(world, db, r):
    base = TTL_IDS + r.randrange(1 << 40)
    for at in range(20):
        db.c.insert_one({"_id": Int64(base + at), "u": base + at, "k": 1, "a": 1, "when": __import__("datetime").datetime(2020, 1, 1)})
    db.command("createIndexes", "c", indexes=[{"key": {"when": 1}, "name": "when", "expireAfterSeconds": 1}])


def bulk(world, db, r):
    db.c.update_many({"k": {"$gte": r.randrange(97)}}, {"$inc": {"n": 1}, "$push": {"tags": {"$each": [r.randrange(5)], "$slice": -3}}})


def transaction(world, db, r):
    with db.client.start_session() as session:
        with session.start_transaction():
            for _ in range(3):
                db.c.update_one({"_id": r.randrange(world.size)}, {"$inc": {"n": 1}}, session=session)
                db.c.find_one({"k": r.randrange(97)}, session=session)


OPERATIONS = [create, drop_indexes, drop, rename, coll_mod, compact, repair, reindex, backup, users, ttl, bulk, transaction]
# Index builds are the most important: pairs of them run three times as often.
PAIRS = list(itertools.product(OPERATIONS, OPERATIONS)) + [(create, create)] * 6 + [(create, drop_indexes), (create, coll_mod)] * 2


def run(operation, world, r, delay):
    global refused
    time.sleep(delay)
    # A connection of its own, because it is lost when the server is killed.
    client = MongoClient("127.0.0.1", world.server.port, directConnection=True, serverSelectionTimeoutMS=2000, retryWrites=False)
    try:
        operation(world, client.ddl, r)
    except OperationFailure as error:
        refused += 1
        if error.code not in REFUSALS:
            problem(f"{operation.__name__}: {error.code} {error}")
    except (ConnectionFailure, AutoReconnect) as error:
        if not world.killed.is_set():
            problem(f"{operation.__name__}: {error}")
    finally:
        client.close()


def writer(world, number, r, stop):
    client = MongoClient("127.0.0.1", world.server.port, directConnection=True, serverSelectionTimeoutMS=2000, retryWrites=False)
    while not stop.is_set():
        try:
            world.write(number, r, client.ddl, world.kill)
        except ConnectionFailure as error:
            if not world.killed.is_set():
                problem(f"a writer lost its connection: {error}")
            break
    client.close()


def one_round(world, pair, r, kill):
    world.loses, world.kill, world.killed = False, kill, threading.Event()
    stop = threading.Event()
    writers = [threading.Thread(target=writer, args=(world, n, random.Random(r.random()), stop)) for n in range(WRITERS)]
    delays = [0, r.choice([0, r.random() / 50, r.random() / 5])]
    operations = [threading.Thread(target=run, args=(op, world, random.Random(r.random()), d)) for op, d in zip(pair, delays)]
    for thread in writers + operations:
        thread.start()
    if kill:
        time.sleep(r.random() / 4)
        world.killed.set()
        world.server.kill()
    for thread in operations:
        thread.join()
    stop.set()
    for thread in writers:
        thread.join()
    if kill:
        world.server.start()
        world.db = world.server.db


def plain(value):
    return tuple(sorted(map(str, value))) if isinstance(value, list) else value


def check(world, what):
    db, where = world.db, f"after {what}"
    names = db.list_collection_names()
    if "away" in names:  # the server was killed between the two renames
        db.client.admin.command("renameCollection", "ddl.away", to="ddl.c", dropTarget=True)
        names.append("c")
    if "c" not in names:
        if not world.loses:
            problem(f"{where}: the collection is gone")
        return
    reply = db.command("validate", "c", full=True)
    if not reply["valid"]:
        problem(f"{where}: validate: {reply['errors'][:3]}")
    await_expiry(db, where)
    docs = {d["_id"]: d for d in db.c.find().hint([("$natural", 1)])}
    if len(docs) != db.c.count_documents({}, hint=[("$natural", 1)]) or len(docs) != db.command("count", "c")["n"]:
        problem(f"{where}: counts differ from {len(docs)} documents")
    listed = list(db.command("listIndexes", "c", includeBuildUUIDs=True)["cursor"]["firstBatch"])
    if any("buildUUID" in index for index in listed):
        problem(f"{where}: a build is not over: {listed}")
    check_indexes(db, docs, [index for index in listed if "name" in index], where)
    if world.loses:
        return
    there = {index["name"] for index in listed if "name" in index}
    if not world.built <= there:
        problem(f"{where}: acknowledged indexes are gone: {world.built - there}")
    for _id, u in world.known.items():
        stored = docs.get(_id, {}).get("u")
        if stored != u and _id not in world.doubtful:
            problem(f"{where}: document {_id} has {stored}, acknowledged was {u}")
            break


def await_expiry(db, where):
    """Waits for expiry if a TTL index exists: every document with a time expired years ago and must be deleted
    before anything is counted."""
    if not any("expireAfterSeconds" in index for index in db.c.list_indexes()):
        return
    end = time.time() + 60
    while db.c.count_documents({"when": {"$exists": True}}, hint=[("$natural", 1)]):
        if time.time() > end:
            problem(f"{where}: expired documents are there a minute later")
            return
        time.sleep(0.05)


def check_indexes(db, docs, indexes, where):
    for index in indexes:
        name, key = index["name"], list(index["key"].items())
        if name in ("all", "_id_") or index.get("hidden"):
            continue
        field = key[0][0]
        expected = [d for d in docs.values() if not index.get("partialFilterExpression") or d.get("a", 0) > 3]
        query = {"a": {"$gt": 3}} if index.get("partialFilterExpression") else {}
        if key[0][1] != "hashed":
            query = {field: {"$gte": MinKey()}, **query}
        found = [d["_id"] for d in db.c.find(query, {"_id": 1}).hint(name)]
        if len(found) != len(set(found)) or set(found) != {d["_id"] for d in expected}:
            problem(f"{where}: {name} finds {len(found)} ({len(set(found))} of them once), the scan {len(expected)}")
        if field in ("k", "u", "a") and key[0][1] != "hashed":
            covered = {d.get(field) for d in db.c.find(query, {"_id": 0, field: 1}).hint(name)}
            if covered != {d.get(field) for d in expected}:
                problem(f"{where}: the values of {name} are not the stored ones")
        if index.get("unique") and field == "u":
            values = [d["u"] for d in docs.values()]
            if len(values) != len(set(values)):
                problem(f"{where}: a unique index over values that are there twice")
            probe_unique(db, docs, where)


def probe_unique(db, docs, where):
    if docs:
        taken = next(iter(docs.values()))
        try:
            db.c.insert_one({"_id": "probe", "u": taken["u"], "a": -1})
            problem(f"{where}: the unique index takes {taken['u']} twice")
        except OperationFailure as error:
            if error.code != 11000:
                raise
    try:
        db.c.insert_one({"_id": "probe", "u": -5, "a": -1})
    except OperationFailure as error:
        problem(f"{where}: a value that nobody has is refused: {error}")
    db.c.delete_one({"_id": "probe"})


def main():
    global rounds, kills
    end = time.time() + options.seconds
    os.makedirs(options.folder, exist_ok=True)
    order = []
    lives = 0
    while time.time() < end and len(problems) < 20:
        server = Server(member=lives % 2 == 1)
        lives += 1
        world = World(server, SIZES[lives % 2])
        for turn in range(25):
            if time.time() >= end or len(problems) >= 20:
                break
            if not order:
                order = rnd.sample(PAIRS, len(PAIRS))
            pair = order.pop()
            kill = turn % 6 == 5
            what = f"{pair[0].__name__} and {pair[1].__name__}{', killed' if kill else ''} (round {rounds}, {'member' if server.member else 'standalone'})"
            try:
                one_round(world, pair, random.Random(rnd.random()), kill)
                check(world, what)
            except PyMongoError as error:
                problem(f"after {what}: {error}")
            rounds += 1
            kills += kill
            if world.loses or turn % 8 == 7:
                world.size = rnd.choice(SIZES)
                world.fill()
            else:
                world.known = {d["_id"]: d["u"] for d in world.db.c.find({"_id": {"$lt": TTL_IDS}}, {"u": 1})}
                world.doubtful = set()
                # Drops some indexes, so that the next round has fewer to check.
                for name in list(world.built):
                    if rnd.random() < 0.7:
                        try:
                            world.db.c.drop_index(name)
                        except OperationFailure:
                            pass
                        world.built.discard(name)
        server.stop()
    with open(os.path.join(options.folder, "nagi.log"), encoding="utf-8", errors="replace") as log:
        panics = [line for line in log if "panic" in line.lower()]
    if panics:
        problem(f"{len(panics)} panics, the first: {panics[0][:300]}")
    print(f"pairs of operations beside writers on {options.engine}, seed {options.seed}: {rounds} rounds, {kills} kills, {refused} refusals, "
          f"{len(problems)} problems")
    sys.exit(1 if problems else 0)


main()

"""Rebuilds collections from the events of a change stream and compares them with the collections.

model.py NAGI DIR PORT SECONDS KILL_EACH [EVENTS]: writers change collections at random for SECONDS, or until there were
EVENTS if that is earlier: documents, transactions and definitions (indexes, renames, $out, $merge, capped and TTL
collections, drops). A reader applies the events of the
cluster to a model and is stopped at random places, from where it resumes; the server is killed each KILL_EACH seconds
(0: never). Every event has to fit to the model as the events before left it: none is missing, repeated or out of order.
"""
import datetime
import os
import random
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "common"))

import pymongo
from checks import check, equal, finish
from pymongo import DeleteOne, InsertOne, MongoClient, UpdateOne
from pymongo.errors import OperationFailure, PyMongoError

WRITERS, NAMES, IDS = 8, 6, 60
PAST = datetime.datetime(2001, 1, 1)


class Server:
    def __init__(self, nagi, folder, port):
        self.port, self.process = port, None
        os.makedirs(folder, exist_ok=True)
        self.log = os.path.join(folder, "nagi.log")
        self.command = [nagi, "serve", "--dbpath", folder, "--port", str(port), "--bind_ip", "127.0.0.1", "--replSet", "rs0", "--initiate",
                        "--logpath", self.log, "--logappend", "--setParameter", "ttlMonitorSleepSecs=1"]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)

    def kill(self):
        self.process.kill()
        self.process.wait()


def connect(port, **options):
    return MongoClient("127.0.0.1", port, replicaSet="rs0", serverSelectionTimeoutMS=30000, **options)


# ---- the model --------------------------------------------------------------------------------------
class Unfit(Exception):
    pass


def walk(doc, steps):
    for step in steps[:-1]:
        doc = doc[int(step) if isinstance(doc, list) else step]
    return doc, steps[-1]


class Model:
    """Collections by name, and the place up to which events were applied."""

    def __init__(self):
        self.collections, self.token, self.time, self.events, self.kinds = {}, None, None, 0, {}
        self.open_transaction, self.transactions, self.images = None, {}, 0

    def apply(self, event):
        token, kind = event["_id"], event["operationType"]
        if self.token is not None and not token["_data"] > self.token["_data"]:
            raise Unfit("the token of %r is not behind %r" % (event, self.token))
        if self.time is not None and event["clusterTime"] < self.time:
            raise Unfit("the time of %r is before %r" % (event, self.time))
        self.note_transaction(event)
        ns = event["ns"]
        name = ns.get("coll")
        getattr(self, kind)(name, event)
        self.token, self.time = token, event["clusterTime"]
        self.events += 1
        self.kinds[kind] = self.kinds.get(kind, 0) + 1

    def note_transaction(self, event):
        number = (event["lsid"]["id"], event["txnNumber"]) if "lsid" in event else None
        if number is not None:
            self.transactions.setdefault(number, []).append(event["clusterTime"])

    def of(self, name, event):
        if name not in self.collections:
            raise Unfit("no collection %s for %r" % (name, event))
        return self.collections[name]

    def create(self, name, event):
        if name in self.collections:
            raise Unfit("created again: %r" % event)
        self.collections[name] = {}

    def drop(self, name, event):
        self.of(name, event)
        del self.collections[name]

    def dropDatabase(self, name, event):
        # The views of a database have no drops of their own.
        equal("collections of a dropped database", set(self.collections) - {"v"}, set())
        self.collections.clear()

    def rename(self, name, event):
        to, source = event["to"]["coll"], self.of(name, event)
        if to == name:
            # Converted to a capped collection: its documents are those that it has, in their order.
            return
        dropped = "dropTarget" in event["operationDescription"]
        if dropped != (to in self.collections):
            raise Unfit("renamed over %s: %r" % (to in self.collections, event))
        del self.collections[name]
        self.collections[to] = source

    def ignore(self, name, event):
        self.of(name, event)

    createIndexes = dropIndexes = modify = ignore

    def insert(self, name, event):
        documents, key = self.of(name, event), event["documentKey"]["_id"]
        if key in documents:
            raise Unfit("inserted again: %r" % event)
        documents[key] = event["fullDocument"]

    def before(self, name, event):
        documents, key = self.of(name, event), event["documentKey"]["_id"]
        if key not in documents:
            raise Unfit("no document for %r" % event)
        image = event.get("fullDocumentBeforeChange")
        if image is not None:
            self.images += 1
            if image != documents[key]:
                raise Unfit("another document before %r: %r" % (event, documents[key]))
        return documents, key

    def delete(self, name, event):
        documents, key = self.before(name, event)
        del documents[key]

    def replace(self, name, event):
        documents, key = self.before(name, event)
        documents[key] = event["fullDocument"]

    def update(self, name, event):
        documents, key = self.before(name, event)
        change, doc = event["updateDescription"], documents[key]
        steps = lambda path: change["disambiguatedPaths"].get(path, path.split("."))
        for array in change["truncatedArrays"]:
            inside, last = walk(doc, steps(array["field"]))
            del inside[last][array["newSize"]:]
        for path in change["removedFields"]:
            inside, last = walk(doc, steps(path))
            del inside[last]
        for path, value in change["updatedFields"].items():
            inside, last = walk(doc, steps(path))
            if isinstance(inside, list):
                last = int(last)
                inside.extend([None] * (last + 1 - len(inside)))
            inside[last] = value
        after = event.get("fullDocument")
        if after is not None:
            self.images += 1
            if after != doc:
                raise Unfit("another document after %r: %r" % (event, doc))


class Reader(threading.Thread):
    """Applies events until that of the document `end`. Stops at random places and resumes, once by the token of the last event and
    once by that of the stream."""

    def __init__(self, port, token):
        super().__init__(daemon=True)
        self.port, self.model, self.error, self.resumed, self.done = port, Model(), None, 0, False
        self.random, self.start_token = random.Random(7), token

    def run(self):
        while not self.done and self.error is None:
            try:
                self.read()
            except PyMongoError as e:
                if isinstance(e, OperationFailure) and e.code in (280, 286, 260):
                    self.error = e
                time.sleep(0.05)
            except Exception as e:
                self.error = e

    def read(self):
        token = self.model.token or self.start_token
        with connect(self.port) as client:
            options = dict(show_expanded_events=True, full_document="whenAvailable", full_document_before_change="whenAvailable", max_await_time_ms=200,
                           batch_size=self.random.choice([1, 3, 50, 1000]))
            while not self.done:
                how = self.random.choice(["resume_after", "start_after"])
                with client.watch([{"$match": {"ns.db": "m"}}], **{how: token}, **options) as stream:
                    left = self.random.choice([1, 10, 100, 5000])
                    while left and not self.done:
                        event = stream.try_next()
                        if event is None:
                            token = stream.resume_token
                            continue
                        left -= 1
                        if event["ns"].get("coll") == "end":
                            self.done = event["operationType"] == "insert"
                            continue
                        self.model.apply(event)
                        token = event["_id"]
                    token = self.random.choice([stream.resume_token, token]) if not left else token
                    # The token of the stream may be ahead of events that were fetched and not seen.
                    token = min(token, self.model.token or token, key=lambda t: t["_data"]) if self.model.token else token
                self.resumed += 1


# ---- the load ---------------------------------------------------------------------------------------
def document(r, key):
    return {"_id": key, "n": 0, "a": [r.randrange(9) for _ in range(r.randrange(6))], "b": {"c": {"d": r.randrange(9)}, "x.y": 1}, "s": "x" * r.randrange(200)}


def update(r):
    return r.choice([
        {"$inc": {"n": 1}}, {"$set": {"b.c.d": r.random()}}, {"$set": {"b.e": {"f": [1, {"g": 2}]}}}, {"$unset": {"b.e": 1, "s": 1}},
        {"$push": {"a": {"$each": [r.randrange(9)], "$slice": -4}}}, {"$push": {"a": {"$each": [], "$slice": 2}}}, {"$set": {"a.1": {"z": r.random()}}},
        {"$set": {"a": []}}, {"$rename": {"n": "m", "m": "n"}} if r.random() < 0.01 else {"$inc": {"n": 1}}, {"$set": {"0": r.randrange(5)}}, {"$set": {"list.3": 1}},
        [{"$set": {"b": {"$mergeObjects": ["$b", {"p": r.random()}]}, "n": {"$add": [{"$ifNull": ["$n", 0]}, 1]}}}],
        [{"$replaceWith": {"_id": "$_id", "n": 5}}],
    ])


def documents(r, db, session=None):
    c, key = db["c%d" % r.randrange(NAMES)], r.randrange(IDS)
    what = r.random()
    if what < 0.3:
        c.insert_one(document(r, key), session=session)
    elif what < 0.7:
        c.update_one({"_id": key}, update(r), session=session)
    elif what < 0.75:
        c.update_one({"_id": key}, {"$inc": {"n": 1}}, upsert=True, session=session)
    elif what < 0.82:
        c.replace_one({"_id": key}, document(r, key), session=session)
    elif what < 0.9:
        c.delete_one({"_id": key}, session=session)
    elif session is None and what < 0.94:
        c.update_many({"_id": {"$gt": key}}, {"$inc": {"n": 1}})
    elif session is None and what < 0.96:
        c.delete_many({"_id": {"$gt": IDS - 10}})
    elif session is None:
        c.bulk_write([InsertOne(document(r, r.randrange(IDS))), UpdateOne({"_id": key}, {"$inc": {"n": 2}}), DeleteOne({"_id": key + 1})], ordered=False)


def definitions(r, db):
    name, other = "c%d" % r.randrange(NAMES), "c%d" % r.randrange(NAMES)
    c = db[name]
    r.choice([
        lambda: c.drop(), lambda: c.create_index("n"), lambda: c.create_index([("a", 1), ("s", 1)]), lambda: c.drop_indexes(),
        lambda: c.rename(other, dropTarget=True) if other != name else None, lambda: db.create_collection(name, capped=True, size=8000, max=20),
        lambda: db.create_collection(name, changeStreamPreAndPostImages={"enabled": True}),
        lambda: db.command("collMod", name, changeStreamPreAndPostImages={"enabled": r.random() < 0.7}),
        lambda: c.aggregate([{"$match": {"_id": {"$lt": 30}}}, {"$out": other}]), lambda: c.aggregate([{"$set": {"merged": 1}}, {"$merge": {"into": other}}]),
        lambda: (c.create_index("t", expireAfterSeconds=1), c.update_many({"_id": {"$lt": 5}}, {"$set": {"t": PAST}})),
        lambda: db.create_collection("v", viewOn=name, pipeline=[]) if r.random() < 0.5 else db.client.v.c.insert_one({}),
        lambda: db.client.drop_database("m") if r.random() < 0.1 else None,
    ])()


def write(port, number, over, counts):
    r = random.Random(number)
    client = connect(port)
    while not over():
        try:
            what = r.random()
            if what < 0.01:
                definitions(r, client.m)
            elif what < 0.1:
                with client.start_session() as session, session.start_transaction():
                    for _ in range(r.randrange(1, 8)):
                        documents(r, client.m, session)
            else:
                documents(r, client.m)
            counts[number] += 1
        except PyMongoError as e:
            # Duplicate keys, conflicts, collections that another writer has made or dropped, a server that is down.
            if isinstance(e, pymongo.errors.ConfigurationError):
                raise
    client.close()


def actual(client):
    found = {}
    for info in client.m.list_collections():
        name = info["name"]
        if info["type"] == "collection" and not name.startswith("system.") and name != "end":
            found[name] = {doc["_id"]: doc for doc in client.m[name].find()}
    return found


def main():
    nagi, folder, port, seconds, kill_each = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5])
    most = int(sys.argv[6]) if len(sys.argv) > 6 else float("inf")
    server = Server(nagi, folder, port)
    try:
        client = connect(port)
        client.m.command("create", "c0", changeStreamPreAndPostImages={"enabled": True})
        client.m.c0.drop()
        with client.watch(max_await_time_ms=10) as stream:
            stream.try_next()
            token = stream.resume_token
        reader = Reader(port, token)
        reader.start()
        begun, counts = time.monotonic(), [0] * WRITERS
        over = lambda: time.monotonic() > begun + seconds or reader.model.events >= most or reader.error is not None
        writers = [threading.Thread(target=write, args=(port, n, over, counts), daemon=True) for n in range(WRITERS)]
        [w.start() for w in writers]
        kills = 0
        while any(w.is_alive() for w in writers):
            next_kill = time.monotonic() + (kill_each or seconds)
            while time.monotonic() < next_kill and not over():
                time.sleep(0.1)
            if kill_each and not over():
                server.kill()
                server.start()
                kills += 1
            elif over():
                time.sleep(0.1)
        seconds = time.monotonic() - begun
        client.m.end.insert_one({"_id": 1})
        reader.join(120)
        model = reader.model
        check("events fit", reader.error is None, reader.error)
        check("all events came", reader.done, (model.events, model.token))
        found = actual(client) if reader.done else model.collections
        for name in sorted((set(found) | set(model.collections)) - {"v"}):
            if name not in found or name not in model.collections:
                equal("collection " + name, name in model.collections, name in found)
                continue
            if client.m.command("listCollections", filter={"name": name})["cursor"]["firstBatch"][0]["options"].get("capped"):
                # Documents that leave a capped collection for others are no changes.
                check("capped " + name, all(model.collections[name].get(k) == d for k, d in found[name].items()), name)
                continue
            model_has, has = model.collections[name], found[name]
            other = [key for key in set(model_has) | set(has) if model_has.get(key) != has.get(key)]
            check("documents of " + name, not other, [(model_has.get(key), has.get(key)) for key in other[:3]])
        split = [n for n, times in model.transactions.items() if len(set(times)) > 1]
        equal("transactions at several times", split, [])
        check("something happened", model.events > 100 * seconds and model.images > 0, model.events)
        print("%d events of %d operations in %d s, %d resumed, %d kills, %d images, %s" % (model.events, sum(counts), seconds, reader.resumed, kills, model.images, model.kinds))
    finally:
        server.process.terminate()
        server.process.wait()
    finish("change streams rebuilt the collections")


main()

"""Writers that change a source while it is copied, for copying.py."""
import random
import threading
import time

from bson import Code, MaxKey, MinKey, ObjectId, Timestamp
from datetime import datetime, timedelta
from pymongo import DeleteOne, InsertOne, MongoClient, ReplaceOne, UpdateOne
from pymongo.errors import BulkWriteError, CollectionInvalid, ConnectionFailure, OperationFailure

BLOCKED = 371
DOCS = 3000
BEGAN = datetime(2026, 1, 1)


def shapes(client):
    """Collections of all kinds, with documents of all kinds."""
    db = client.shop
    db.orders.insert_many({"_id": n, "n": n, "s": "x" * 200} for n in range(60_000))
    db.orders.create_index("n", unique=True)
    db.orders.create_index("s", partialFilterExpression={"n": {"$gt": 5}}, name="named")
    db.orders.create_index([("t", "text")])
    db.create_collection("capped", capped=True, size=100_000, max=100)
    db.capped.insert_many({"_id": 1000 - n} for n in range(150))
    db.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True}, expireAfterSeconds=10 ** 8)
    db.clustered.insert_many({"_id": n} for n in range(100))
    db.create_collection("collated", collation={"locale": "en", "strength": 2})
    db.collated.insert_many({"_id": word} for word in ("a", "B", "c"))
    db.create_collection("series", timeseries={"timeField": "t", "metaField": "m"}, expireAfterSeconds=10 ** 9)
    db.series.insert_many({"t": BEGAN + timedelta(seconds=n), "m": n % 3, "x": n} for n in range(2000))
    db.series.create_index([("m", 1), ("x", 1)])
    db.create_collection("view", viewOn="orders", pipeline=[{"$match": {"n": 1}}])
    db.create_collection("above", viewOn="view", pipeline=[])
    db.create_collection("empty")
    db.create_collection("checked", validator={"n": {"$type": "int"}}, validationLevel="moderate",
                         changeStreamPreAndPostImages={"enabled": True})
    db.command({"collMod": "checked", "validationLevel": "off"})
    db.checked.insert_one({"_id": 1, "n": "no int"})
    db.command({"collMod": "checked", "validationLevel": "strict"})
    db.expiring.insert_one({"d": datetime.now()})
    db.expiring.create_index("d", expireAfterSeconds=500_000)
    ids = [1, "a", 2.5, ObjectId(), {"a": 1}, None, MinKey(), MaxKey(), True, b"x", {"b": {"c": []}}, Timestamp(0, 0)]
    db["odd .n\u00e4me *"].insert_many({"_id": one, "$x": 1, "a.b": 2, "t": Timestamp(0, 0)} for one in ids)
    db["system.js"].insert_one({"_id": "f", "value": Code("function() { return 1 }")})
    client.large.c.insert_many({"_id": n, "s": "y" * (16 * 1024 * 1024 - 100)} for n in range(2))


class Load:
    """Threads that write until they are stopped, or until the source refuses writes."""

    def __init__(self, uri, seed=1, structures=True):
        self.uri, self.stopped, self.failures, self.count = uri, threading.Event(), [], 0
        kinds = [self.documents, self.documents, self.transactions, self.swaps, self.capped]
        kinds += [self.structures, self.indexes] if structures else []
        client = MongoClient(uri, directConnection=True)
        for left in "busy", "other", "structures", "dropped":
            client.drop_database(left)
        client.busy.documents.insert_many({"_id": n, "n": n, "a": [n]} for n in range(DOCS))
        client.busy.swaps.insert_many({"_id": n, "u": n} for n in range(20))
        client.busy.swaps.create_index("u", unique=True)
        client.busy.create_collection("capped", capped=True, size=1 << 20, max=200)
        client.close()
        self.threads = [threading.Thread(target=self.run, args=(kind, random.Random(seed + at)), daemon=True)
                        for at, kind in enumerate(kinds)]
        for thread in self.threads:
            thread.start()

    def run(self, kind, chance):
        """Repeats one kind of writes; those that a restart of the server has interrupted are made again."""
        client = MongoClient(self.uri, directConnection=True, serverSelectionTimeoutMS=30000)
        while not self.stopped.is_set():
            try:
                kind(client, chance)
                self.count += 1
            except ConnectionFailure:
                continue
            except CollectionInvalid:
                continue
            except OperationFailure as error:
                code = error.details["writeErrors"][0]["code"] if isinstance(error, BulkWriteError) and error.details[
                    "writeErrors"] else error.code
                if code == BLOCKED:
                    break
                # Duplicate keys, conflicts and names that others have taken or removed.
                if code not in (11000, 112, 251, 26, 48, 117, 276, 211, 11601, 175, 27, 85, 86, 20):
                    self.failures.append(error)
                    break
        client.close()

    def documents(self, client, chance):
        def one():
            key, kind = chance.randrange(DOCS * 2), chance.random()
            if kind < 0.3:
                return UpdateOne({"_id": key}, {"$set": {"n": chance.random(), "f%d" % chance.randrange(9): 1}})
            if kind < 0.45:
                return UpdateOne({"_id": key}, {"$push": {"a": {"$each": [key], "$slice": -5}}, "$unset": {
                    "f%d" % chance.randrange(9): 1}})
            if kind < 0.6:
                return ReplaceOne({"_id": key}, {"z": chance.random(), "$d": 1} if kind < 0.46 else {"z": 1}, upsert=True)
            if kind < 0.8:
                return DeleteOne({"_id": key})
            return InsertOne({"_id": key, "new": "x" * chance.randrange(500)})
        operations = [one() for _ in range(40)]
        try:
            client.busy.documents.bulk_write(operations, ordered=False)
        except BulkWriteError as error:
            codes = {one["code"] for one in error.details["writeErrors"]}
            if BLOCKED in codes or codes - {11000, 52}:
                raise

    def transactions(self, client, chance):
        def write(session):
            for _ in range(3):
                client.busy.documents.update_one({"_id": chance.randrange(DOCS)}, {"$inc": {"t": 1}}, session=session)
            client.other.transfers.insert_one({"at": time.time()}, session=session)
        with client.start_session() as session:
            session.with_transaction(write)

    def swaps(self, client, chance):
        """Two documents exchange a unique value: what is read of them at different times violates it."""
        one, other = chance.sample(range(20), 2)
        swaps = client.busy.swaps
        values = {doc["_id"]: doc["u"] for doc in swaps.find({"_id": {"$in": [one, other]}})}
        with client.start_session() as session, session.start_transaction():
            swaps.update_one({"_id": one}, {"$set": {"u": -1 - one}}, session=session)
            swaps.update_one({"_id": other}, {"$set": {"u": values[one]}}, session=session)
            swaps.update_one({"_id": one}, {"$set": {"u": values[other]}}, session=session)

    def capped(self, client, chance):
        client.busy.capped.insert_many({"x": chance.random()} for _ in range(7))
        time.sleep(0.01)

    def structures(self, client, chance):
        """Collections are created, filled, renamed over each other and dropped."""
        db, names = client.structures, ["c%d" % n for n in range(6)]
        name, kind = chance.choice(names), chance.random()
        if kind < 0.3:
            db[name].insert_many({"_id": n, "of": name} for n in range(30))
        elif kind < 0.5:
            db[name].update_many({}, {"$inc": {"n": 1}})
        elif kind < 0.7:
            db[name].rename(chance.choice([other for other in names if other != name]), dropTarget=chance.random() < 0.7)
        elif kind < 0.8:
            db.create_collection(name, collation={"locale": "de"})
        elif kind < 0.9:
            db[name].drop()
        elif kind < 0.95:
            db.drop_collection("view")
            db.create_collection("view", viewOn=name, pipeline=[{"$match": {"n": chance.randrange(3)}}])
        else:
            client.dropped.c.insert_one({})
            client.drop_database("dropped")
        time.sleep(0.02)

    def indexes(self, client, chance):
        """Indexes come and go, and options change."""
        documents, field = client.busy.documents, "f%d" % chance.randrange(5)
        if chance.random() < 0.5:
            documents.create_index(field, sparse=chance.random() < 0.5, name=field)
        else:
            documents.drop_index(field)
        client.busy.command({"collMod": "documents", "validator": {"no": {"$ne": chance.randrange(9)}}})
        time.sleep(0.05)

    def stop(self):
        self.stopped.set()
        return self.ended()

    def ended(self):
        """Waits for the threads; returns the errors that they did not expect."""
        for thread in self.threads:
            thread.join(60)
        return [repr(error) for error in self.failures] + [
            "a thread still writes" for thread in self.threads if thread.is_alive()]


class Trickle:
    """One insert after the other, which no copy is too slow to follow."""

    def __init__(self, uri):
        self.client, self.stopped = MongoClient(uri, directConnection=True), threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.stopped.wait(0.02):
            self.client.other.trickle.insert_one({"at": time.time()})

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join(60)
        self.client.close()

"""Random writes of encrypted values, compactions and kills, compared with a model: model.py NAGI DIR PORT SECONDS KILL_EACH

Writers insert, update, replace and delete documents with an equality and a range field, one by one, in bulks and in
transactions, while compactions and cleanups run and the server is killed each KILL_EACH seconds (0: never). After each
kill, and at the end, a search for each value must find exactly the documents that have it: by tags, and by tests of all
values. The tags of each document must be those of its stored values. Some documents get their value again all the time:
every search finds all of them.
"""
import os
import random
import subprocess
import sys
import threading
import time
import traceback

import bson
import pymongo
from bson import Int64
from pymongo.encryption import Algorithm, ClientEncryption, QueryType
from pymongo.encryption_options import AutoEncryptionOpts, RangeOpts
from pymongo.errors import BulkWriteError, OperationFailure, PyMongoError

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, finish, wait_until  # noqa: E402

NAGI, FOLDER, PORT, SECONDS, KILL_EACH = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5])
URI = "mongodb://127.0.0.1:%d/?replicaSet=rs0" % PORT
KMS = {"local": {"key": bytes(range(96))}}
WRITERS, IDS, CONTENTION = 4, 40, 3
STEADY = range(10000, 10005)
NAMES = ["ada", "bob", "cid", "dan", "eve"]
NUMBERS = RangeOpts(min=0, max=31, sparsity=2, trim_factor=1)
SAFE = "__safeContent__"


class Server:
    def __init__(self):
        os.makedirs(FOLDER, exist_ok=True)
        self.log = os.path.join(FOLDER, "nagi.log")
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [NAGI, "serve", "--dbpath", FOLDER, "--port", str(PORT), "--bind_ip", "127.0.0.1", "--unixSocketPrefix", FOLDER, "--replSet", "rs0",
             "--initiate", "--logpath", self.log, "--logappend"], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)

    def kill(self):
        self.process.kill()
        self.process.wait()


server = Server()
options = {"serverSelectionTimeoutMS": 30000}
plain = pymongo.MongoClient(URI, **options)
keys = ClientEncryption(KMS, "keyvault.datakeys", plain, bson.CodecOptions())
KEY = {path: keys.create_data_key("local") for path in ("name", "number")}
FIELDS = {"fields": [
    {"path": "name", "keyId": KEY["name"], "bsonType": "string", "queries": {"queryType": "equality", "contention": Int64(CONTENTION)}},
    {"path": "number", "keyId": KEY["number"], "bsonType": "int", "queries": {
        "queryType": "range", "contention": Int64(CONTENTION), "min": 0, "max": 31, "sparsity": Int64(2), "trimFactor": 1}},
]}
plain.model.create_collection("c", encryptedFields=FIELDS)


def connect():
    return pymongo.MongoClient(URI, auto_encryption_opts=AutoEncryptionOpts(KMS, "keyvault.datakeys", bypass_query_analysis=True), **options)


def encrypted(document):
    out = dict(document)
    if "name" in document:
        out["name"] = keys.encrypt(document["name"], Algorithm.INDEXED, KEY["name"], contention_factor=CONTENTION)
    if "number" in document:
        out["number"] = keys.encrypt(document["number"], Algorithm.RANGE, KEY["number"], contention_factor=CONTENTION, range_opts=NUMBERS)
    return out


def by_name(name):
    return {"name": keys.encrypt(name, Algorithm.INDEXED, KEY["name"], query_type=QueryType.EQUALITY, contention_factor=CONTENTION)}


def by_number(low, high):
    question = {"$and": [{"number": {"$gte": low}}, {"number": {"$lte": high}}]}
    return keys.encrypt_expression(question, Algorithm.RANGE, KEY["number"], query_type=QueryType.RANGE, contention_factor=CONTENTION, range_opts=NUMBERS)


class Gate:
    """Holds the threads while the collection is compared."""

    def __init__(self):
        self.open, self.inside, self.condition, self.over = True, 0, threading.Condition(), False

    def enter(self):
        with self.condition:
            self.condition.wait_for(lambda: self.open or self.over)
            self.inside += 1

    def leave(self):
        with self.condition:
            self.inside -= 1
            self.condition.notify_all()

    def close(self):
        with self.condition:
            self.open = False
            self.condition.wait_for(lambda: self.inside == 0)

    def reopen(self):
        with self.condition:
            self.open = True
            self.condition.notify_all()


gate, counts = Gate(), {"writes": 0, "unknown": 0, "compactions": 0, "conflicts": 0, "kills": 0, "searches": 0, "compared": 0}


class Writer(threading.Thread):
    """The only writer of its documents. `documents` has what they must be; `unknown` what an interrupted write may have
    made of them."""

    def __init__(self, at):
        super().__init__(daemon=True)
        self.first, self.client, self.random = at * IDS, connect(), random.Random(at)
        self.coll, self.documents, self.unknown, self.errors = self.client.model.c, {}, {}, []

    def run(self):
        while not gate.over:
            gate.enter()
            try:
                if not gate.over and not self.unknown:
                    self.write()
            except Exception:
                self.errors.append(traceback.format_exc())
                gate.over = True
            finally:
                gate.leave()

    def some(self):
        out = {"_id": self.first + self.random.randrange(IDS)}
        if self.random.random() < 0.9:
            out["name"] = self.random.choice(NAMES)
        if self.random.random() < 0.4:
            out["number"] = self.random.randrange(32)
        return out

    def steps(self):
        """Pairs of a document id and what it becomes, and the requests."""
        for _ in range(self.random.choice([1, 1, 1, 3])):
            new = self.some()
            old = self.documents.get(new["_id"])
            if old is None:
                yield new["_id"], new, pymongo.InsertOne(encrypted(new))
            elif (kind := self.random.randrange(5)) == 0:
                yield new["_id"], None, pymongo.DeleteOne({"_id": new["_id"]})
            elif kind == 1:
                yield new["_id"], new, pymongo.ReplaceOne({"_id": new["_id"]}, encrypted(new))
            elif kind == 2:
                yield new["_id"], {name: value for name, value in old.items() if name != "name"}, pymongo.UpdateOne({"_id": new["_id"]}, {"$unset": {"name": 1}})
            else:
                change = {name: value for name, value in encrypted(new).items() if name != "_id"} or {"n": 1}
                becomes = {**old, **({name: new[name] for name in new} if len(new) > 1 else {"n": 1})}
                condition = {"_id": new["_id"], **(by_name(old["name"]) if "name" in old else {})}
                yield new["_id"], becomes, pymongo.UpdateOne(condition, {"$set": change})

    def write(self):
        steps = {}
        for identifier, becomes, request in self.steps():
            if identifier not in steps:
                steps[identifier] = (becomes, request)
        requests = [request for _, request in steps.values()]
        try:
            if len(requests) > 1 and self.random.random() < 0.5:
                with self.client.start_session() as session:
                    session.with_transaction(lambda s: [self.alone(request, s) for request in requests])
            else:
                self.coll.bulk_write(requests)
        except (BulkWriteError, OperationFailure) as e:
            if not e.has_error_label("RetryableWriteError") and not e.has_error_label("TransientTransactionError"):
                raise
            counts["conflicts"] += 1
            self.unknown = {identifier: becomes for identifier, (becomes, _) in steps.items()}
        except PyMongoError:
            self.unknown = {identifier: becomes for identifier, (becomes, _) in steps.items()}
        else:
            counts["writes"] += len(requests)
            for identifier, (becomes, _) in steps.items():
                self.set(identifier, becomes)
            return
        counts["unknown"] += 1
        self.resolve()

    def alone(self, request, session):
        """PyMongo cannot encrypt a bulk in a transaction."""
        if isinstance(request, pymongo.InsertOne):
            self.coll.insert_one(request._doc, session=session)
        elif isinstance(request, pymongo.DeleteOne):
            self.coll.delete_one(request._filter, session=session)
        elif isinstance(request, pymongo.ReplaceOne):
            self.coll.replace_one(request._filter, request._doc, session=session)
        else:
            self.coll.update_one(request._filter, request._doc, session=session)

    def set(self, identifier, becomes):
        if becomes is None:
            self.documents.pop(identifier, None)
        else:
            self.documents[identifier] = becomes

    def resolve(self):
        """Finds out what a write did whose reply was lost: all of it, or for each document the one or the other."""
        while self.unknown and not gate.over:
            try:
                for identifier in list(self.unknown):
                    found, becomes = visible(self.coll.find_one({"_id": identifier})), self.unknown[identifier]
                    check("the one or the other", found in (self.documents.get(identifier), becomes), (found, self.documents.get(identifier), becomes))
                    self.set(identifier, found)
                    del self.unknown[identifier]
            except PyMongoError:
                time.sleep(0.05)


def visible(document):
    return document and {name: value for name, value in document.items() if name != SAFE}


class Compactor(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.client, self.random, self.errors = connect(), random.Random(77), []

    def run(self):
        while not gate.over:
            gate.enter()
            try:
                name = self.random.choice(["compactStructuredEncryptionData", "cleanupStructuredEncryptionData"])
                self.client.model.command(name, "c")
                counts["compactions"] += 1
            except OperationFailure as e:
                if e.code not in (11600, 91):
                    self.errors.append(repr(e))
                    gate.over = True
            except PyMongoError:
                pass
            finally:
                gate.leave()
            time.sleep(self.random.random() / 5)


class Steady(threading.Thread):
    """Stores the same value again in some documents, or searches it."""

    def __init__(self, searches):
        super().__init__(daemon=True)
        self.client, self.searches, self.errors = connect(), searches, []

    def run(self):
        at = 0
        while not gate.over:
            gate.enter()
            try:
                if self.searches:
                    found = sorted(document["_id"] for document in self.client.model.c.find(by_name("steady")))
                    equal("a search beside writes", found, list(STEADY))
                    counts["searches"] += 1
                else:
                    self.client.model.c.update_one({"_id": STEADY[at % len(STEADY)]}, {"$set": encrypted({"name": "steady"})})
                    at += 1
            except PyMongoError:
                pass
            finally:
                gate.leave()


def compare(writers, client):
    documents = {identifier: document for writer in writers for identifier, document in writer.documents.items()}
    stored = {document["_id"]: visible(document) for document in client.model.c.find({"_id": {"$lt": STEADY[0]}})}
    equal("documents", stored, documents)
    for scan in (False, True):
        plain.admin.command("setParameter", 1, internalQueryFLEAlwaysUseEncryptedCollScanMode=scan)
        for name in NAMES + ["none"]:
            found = sorted(document["_id"] for document in client.model.c.find(by_name(name)))
            equal("%s, %s" % (name, scan), found, sorted(i for i, d in documents.items() if d.get("name") == name))
        for low, high in ((0, 31), (3, 3), (5, 20), (30, 31)):
            found = sorted(document["_id"] for document in client.model.c.find(by_number(low, high)))
            equal("%d to %d, %s" % (low, high, scan), found, sorted(i for i, d in documents.items() if low <= d.get("number", -1) <= high))
    plain.admin.command("setParameter", 1, internalQueryFLEAlwaysUseEncryptedCollScanMode=False)
    for document in plain.model.c.find():
        tags = set()
        if "name" in document:
            tags.add(document["name"][-64:-32])
        if "number" in document:
            value = document["number"]
            blocks = value[len(value) - 96 * value[18]:]
            tags |= {blocks[at + 32:at + 64] for at in range(0, len(blocks), 96)}
        seen = document.get(SAFE, [])
        check("tags", len(seen) == len(tags) and set(map(bytes, seen)) == tags, document["_id"])
    counts["compared"] += 1


def main():
    writers = [Writer(at) for at in range(WRITERS)]
    compactor, client = Compactor(), connect()
    client.model.c.insert_many([encrypted({"_id": at, "name": "steady"}) for at in STEADY])
    others = [compactor, Steady(False), Steady(True)]
    for thread in [*writers, *others]:
        thread.start()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and not gate.over:
        wait_until(lambda: gate.over, KILL_EACH or SECONDS)
        if KILL_EACH:
            server.kill()
            counts["kills"] += 1
            server.start()
        gate.close()
        if not gate.over:
            compare(writers, client)
        gate.reopen()
    gate.close()
    gate.over = True
    gate.reopen()
    for thread in [*writers, *others]:
        thread.join(30)
        equal("errors", thread.errors, [])
    client.model.command("cleanupStructuredEncryptionData", "c")
    equal("nothing to compact", plain.model["enxcol_.c.ecoc"].count_documents({}), 0)
    check("anchors only", all("value" in document for document in plain.model["enxcol_.c.esc"].find()))
    compare(writers, client)
    server.kill()
    finish("queryable model, %s" % ", ".join("%d %s" % (count, name) for name, count in counts.items()))


main()

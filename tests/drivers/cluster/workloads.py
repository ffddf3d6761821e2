"""Clients with a list of servers that write while something fails, and what has to be there afterwards: a bank whose sum is
constant, inserts, a unique index, counters, large documents, and lists whose transactions are noted for history.py.

A statement or transaction ends in one of three ways: it was acknowledged; it was refused, so that nothing of it may be there;
or nobody knows. Anything but an error that passes (PASSING, broken connections) is a problem.
"""
import random
import threading
import time

from pymongo import ReturnDocument
from pymongo.errors import ConnectionFailure, DuplicateKeyError, OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

import rig  # noqa: F401, first: it sets the path
from checks import check, equal  # noqa: E402
from history import Transaction, anomalies  # noqa: E402

WORKERS_MAX = 16
LARGE_BYTES, LARGE_PAUSE_SECONDS = 700_000, 0.5
ACCOUNTS, BALANCE, COUNTERS, LISTS, LIST_MAX = 6, 100, 3, 4, 60
JOIN_SECONDS = 150  # for the last request of a worker: a transaction of the driver's is repeated for up to 120 seconds
# What a request may be told while a part of the cluster is away: not reachable (6), 24 (LockTimeout), 91 (the server ends),
# 112 (a conflict that was repeated for long), 189 and 11600 (the same of a server that ends), 11602 (outcome unknown).
PASSING = {6, 24, 91, 112, 189, 11600, 11602}
# Of them, those after which a write may have been made: drivers repeat it once, and the second attempt may end otherwise.
UNKNOWN = {6, 24, 91, 189, 11600, 11602}


class Worker(threading.Thread):
    """Writes until it is stopped. `times`: when something was acknowledged."""

    kind = ""

    def __init__(self, client, name, number):
        super().__init__(daemon=True)
        self.client, self.db, self.number, self.stopped = client, client[name], number, False
        self.random = random.Random(number)
        self.sure, self.unsure, self.refused, self.problems, self.codes, self.times = [], [], [], [], set(), []

    def run(self):
        n = 0
        while not self.stopped:
            element, n = n * WORKERS_MAX + self.number, n + 1
            try:
                self.once(element)
                self.sure.append(element)
                self.times.append(time.monotonic())
            except DuplicateKeyError:
                self.refused.append(element)
                self.times.append(time.monotonic())
            except ConnectionFailure as error:
                self.unsure.append(element)
                self.codes.add(type(error).__name__)
            except OperationFailure as error:
                self.codes.add(error.code)
                (self.unsure if self.is_unknown(error) else self.refused).append(element)
                if error.code not in PASSING and not error.has_error_label("TransientTransactionError"):
                    self.problems.append(repr(error))
            except PyMongoError as error:
                self.problems.append(repr(error))

    @staticmethod
    def is_unknown(error):
        return error.code in UNKNOWN

    def once(self, element):
        raise NotImplementedError


class Bank(Worker):
    """Moves money between accounts in transactions that note it."""

    kind = "bank"

    @staticmethod
    def prepare(db):
        db.accounts.insert_many({"_id": n, "sum": BALANCE} for n in range(ACCOUNTS))
        db.create_collection("transfers")

    def once(self, element):
        with self.client.start_session() as session:
            session.with_transaction(lambda session: self.transfer(session, element))

    @staticmethod
    def is_unknown(error):
        return error.has_error_label("UnknownTransactionCommitResult")

    def transfer(self, session, element):
        source, target = element % ACCOUNTS, (element // 7 + 1 + element) % ACCOUNTS
        self.db.accounts.update_one({"_id": source}, {"$inc": {"sum": -1}}, session=session)
        self.db.accounts.update_one({"_id": target}, {"$inc": {"sum": 1}}, session=session)
        self.db.transfers.insert_one({"_id": element, "source": source, "target": target}, session=session)

    @staticmethod
    def verify(db, workers):
        found = list(db.transfers.find())
        complete("transfers", workers, [one["_id"] for one in found])
        balance = {n: BALANCE for n in range(ACCOUNTS)}
        for one in found:
            balance[one["source"]] -= 1
            balance[one["target"]] += 1
        equal("each transfer took effect once", {d["_id"]: d["sum"] for d in db.accounts.find()}, balance)


class Audit(Worker):
    """Reads all accounts, in two statements of a transaction: the sum is always the same."""

    kind = "audit"

    def once(self, element):
        with self.client.start_session() as session:
            session.with_transaction(self.audit, read_concern=ReadConcern("snapshot"))

    def audit(self, session):
        half = ACCOUNTS // 2
        sums = [d["sum"] for of in ({"$lt": half}, {"$gte": half}) for d in self.db.accounts.find({"_id": of}, session=session)]
        if sum(sums) != ACCOUNTS * BALANCE:
            self.problems.append("a sum of %d in %s" % (sum(sums), sums))


class Plain(Worker):
    """Inserts without retryable writes: nothing is written if the cluster cannot be reached (6)."""

    kind = "plain"

    @staticmethod
    def prepare(db):
        db.create_collection("plain")

    def once(self, element):
        self.db.plain.insert_one({"_id": element})

    @staticmethod
    def is_unknown(error):
        return error.code == 11602

    @staticmethod
    def verify(db, workers):
        complete("plain inserts", workers, [one["_id"] for one in db.plain.find({}, {"_id": 1})])


class Unique(Worker):
    """Inserts keys that another worker inserts, too: one of them has each."""

    kind = "unique"

    @staticmethod
    def prepare(db):
        db.unique.create_index("key", unique=True)

    def once(self, element):
        self.db.unique.insert_one({"_id": element, "key": element // WORKERS_MAX, "number": self.number})

    @staticmethod
    def verify(db, workers):
        found = list(db.unique.find())
        complete("unique keys", workers, [one["_id"] for one in found])
        keys = [one["key"] for one in found]
        equal("no two documents with a key", sorted(keys), sorted(set(keys)))
        by_index = [one["key"] for one in db.unique.find({}, {"_id": 0, "key": 1}).hint("key_1")]
        equal("the index has each", sorted(by_index), sorted(keys))
        tried = set.union(*({e // WORKERS_MAX for e in worker.sure + worker.refused} for worker in workers))
        unknown = set.union(*({e // WORKERS_MAX for e in worker.unsure} for worker in workers))
        equal("no key was refused to all", sorted(tried - unknown - set(keys)), [])


class Counter(Worker):
    """Increments counters, as retryable writes."""

    kind = "counter"

    @staticmethod
    def prepare(db):
        db.counters.insert_many({"_id": n, "n": 0} for n in range(COUNTERS))

    def once(self, element):
        if element // WORKERS_MAX % 2:
            self.db.counters.update_one({"_id": element % COUNTERS}, {"$inc": {"n": 1}})
        else:
            self.db.counters.find_one_and_update({"_id": element % COUNTERS}, {"$inc": {"n": 1}})

    @staticmethod
    def verify(db, workers):
        for counter in db.counters.find():
            sure, unsure = (sum(1 for w in workers for e in getattr(w, what) if e % COUNTERS == counter["_id"])
                            for what in ("sure", "unsure"))
            check("each increment took effect once", sure <= counter["n"] <= sure + unsure, (counter, sure, unsure))


class Large(Worker):
    """Replaces documents that are stored in several pieces, as their only writer, and reads them."""

    kind = "large"

    @staticmethod
    def content(version):
        return ("%d," % version * LARGE_BYTES)[:LARGE_BYTES]

    @staticmethod
    def prepare(db):
        db.large.insert_many({"_id": n, "version": 0, "content": Large.content(0)} for n in range(2))

    def once(self, element):
        of = {"_id": element // WORKERS_MAX % 2}
        self.db.large.replace_one(of, {**of, "version": element, "content": self.content(element)})
        found = self.db.large.find_one(of)
        if found["version"] != element or found["content"] != self.content(element):
            self.problems.append("version %d instead of %d, or with another content" % (found["version"], element))
        threading.Event().wait(LARGE_PAUSE_SECONDS)

    @staticmethod
    def verify(db, workers):
        for found in db.large.find():
            mine = [[e for e in getattr(worker, of) if e // WORKERS_MAX % 2 == found["_id"]]
                    for worker in workers for of in ("sure", "unsure")]
            sure, unsure = mine
            version = found["version"]
            check("the last acknowledged version or one behind it", version >= max(sure, default=0) and version in [0, *sure, *unsure], (version, unsure))
            check("the content of the version", found["content"] == Large.content(version), version)


class Lists(Worker):
    """Appends to lists and reads them, in transactions and single statements, and notes what it has seen."""

    kind = "lists"

    def __init__(self, client, name, number):
        super().__init__(client, name, number)
        self.history, self.appended = [], 0

    @staticmethod
    def prepare(db):
        db.create_collection("lists")

    def key(self):
        """One of some lists, which are followed by others as they grow."""
        return self.appended // LIST_MAX * LISTS + self.random.randrange(LISTS)

    def once(self, element):
        transaction = Transaction(time.monotonic())
        self.history.append(transaction)
        try:
            if self.random.random() < 0.2:
                transaction.outcome = "unknown"
                self.single(transaction, element)
            else:
                self.several(transaction, element)
            transaction.outcome = "sure"
        except OperationFailure as error:
            if transaction.outcome == "unknown" and not self.is_unknown(error):
                transaction.outcome = "refused"
            raise
        finally:
            transaction.ended = time.monotonic()

    def single(self, transaction, element):
        key, value = self.key(), element * 10
        transaction.append(key, value)
        after = self.db.lists.find_one_and_update(
            {"_id": key}, {"$push": {"l": value}}, upsert=True, return_document=ReturnDocument.AFTER)
        transaction.read(key, after["l"])
        self.appended += 1

    def several(self, transaction, element):
        with self.client.start_session() as session:
            session.start_transaction(read_concern=ReadConcern("snapshot"))
            try:
                for n in range(self.random.randrange(1, 5)):
                    key = self.key()
                    if self.random.random() < 0.5:
                        found = self.db.lists.find_one({"_id": key}, session=session)
                        transaction.read(key, found["l"] if found else [])
                    else:
                        transaction.append(key, element * 10 + n)
                        self.db.lists.update_one({"_id": key}, {"$push": {"l": element * 10 + n}}, upsert=True, session=session)
            except PyMongoError:
                abort(session)
                raise
            transaction.outcome = "unknown"
            self.commit(session, transaction)
            self.appended += transaction.appends()

    def commit(self, session, transaction):
        """Commits, and asks again while the outcome is not known."""
        end = time.monotonic() + 30
        while True:
            try:
                return session.commit_transaction()
            except PyMongoError as error:
                if error.has_error_label("TransientTransactionError"):
                    transaction.outcome = "refused"
                    raise
                if not error.has_error_label("UnknownTransactionCommitResult") or time.monotonic() > end:
                    raise

    @staticmethod
    def is_unknown(error):
        return error.code in UNKNOWN and not error.has_error_label("TransientTransactionError")

    @staticmethod
    def verify(db, workers):
        history = [transaction for worker in workers for transaction in worker.history]
        equal("anomalies", anomalies(history, {d["_id"]: d["l"] for d in db.lists.find()}), [])


def abort(session):
    try:
        session.abort_transaction()
    except PyMongoError:
        pass


def complete(what, workers, found):
    """What was acknowledged is there, and nothing that was refused."""
    sure, unsure = ({e for worker in workers for e in getattr(worker, of)} for of in ("sure", "unsure"))
    equal(what + " are there once", len(found), len(set(found)))
    equal("acknowledged %s that are lost" % what, sorted(sure - set(found)), [])
    equal("refused %s that are there" % what, sorted(set(found) - sure - unsure), [])


KINDS = ((Bank, 2), (Audit, 1), (Plain, 1), (Unique, 2), (Counter, 2), (Large, 1), (Lists, 3))


# Those that a workload creates are spread when they are there.
NEW, CREATED = ("accounts", "unique", "counters", "large"), ("transfers", "plain", "lists")


def spread(client, name, collection):
    reply = client.admin.command("shardCollection", "%s.%s" % (name, collection), key={"_id": "hashed"}, numInitialChunks=8)
    check("spread", "in 8 parts" in reply["note"], reply)


def start(cluster, name, sharded=False):
    """Starts all workloads over a database, each worker with a client of its own. `sharded`: their collections are spread
    over the stores before."""
    with cluster.client() as client:
        for collection in NEW if sharded else ():
            spread(client, name, collection)
        for kind, _ in KINDS:
            if hasattr(kind, "prepare"):
                kind.prepare(client[name])
        for collection in CREATED if sharded else ():
            spread(client, name, collection)
    workers, number = [], 0
    for kind, count in KINDS:
        for _ in range(count):
            workers.append(kind(cluster.client(retryWrites=kind is not Plain), name, number))
            number += 1
    for worker in workers:
        worker.start()
    return workers


def end(workers):
    for worker in workers:
        worker.stopped = True
    limit = time.monotonic() + JOIN_SECONDS
    for worker in workers:
        worker.join(max(0, limit - time.monotonic()))
        check("a worker ends", not worker.is_alive(), worker.kind)
        equal("problems of " + worker.kind, worker.problems[:3], [])
        worker.client.close()


def verify(db, workers):
    """Checks what is there, as one server sees it."""
    for kind, _ in KINDS:
        if hasattr(kind, "verify"):
            kind.verify(db, [worker for worker in workers if isinstance(worker, kind)])
    for name in db.list_collection_names(filter={"type": "collection"}):
        report = db.command("validate", name, full=True)
        check("valid", report["valid"], report)

"""Clients that write while something is killed, and what has to be there afterwards."""
import os
import sys
import threading
import time

from pymongo.errors import AutoReconnect, OperationFailure

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, wait_until  # noqa: E402
from nodes import valid  # noqa: E402

# What a request may be told while a part of the cluster is away: not reachable, and an unknown outcome.
PASSING = {6, 11602}


class Writer(threading.Thread):
    """Appends its numbers to lists and inserts them, each once, and notes what it was told."""

    def __init__(self, client, number, database="faults"):
        super().__init__(daemon=True)
        self.client, self.database = client, client[database]
        self.collection = self.database.c
        self.number, self.stopped = number, False
        self.sure, self.unsure, self.problems, self.codes = set(), set(), [], set()

    def run(self):
        n = 0
        while not self.stopped:
            element = n * 10 + self.number
            n += 1
            try:
                if n % 2:
                    self.collection.insert_one({"_id": element, "u": element})
                else:
                    self.collection.update_one({"_id": "list%d" % (n % 3)}, {"$push": {"l": element}}, upsert=True)
                self.sure.add(element)
            except AutoReconnect as error:
                self.problems.append(repr(error))
            except OperationFailure as error:
                self.codes.add(error.code)
                if error.code == 11602:
                    self.unsure.add(element)
                elif error.code not in PASSING:
                    self.problems.append(repr(error))


class Transfer(Writer):
    """Moves money between accounts, in transactions that also note it, and notes what it was told."""

    def run(self):
        n = 0
        with self.client.start_session() as session:
            while not self.stopped:
                element, n = n * 10 + self.number, n + 1
                try:
                    session.with_transaction(lambda session: self.once(session, element))
                    self.sure.add(element)
                except AutoReconnect as error:
                    self.problems.append(repr(error))
                except OperationFailure as error:
                    self.codes.add(error.code)
                    if error.has_error_label("UnknownTransactionCommitResult"):
                        self.unsure.add(element)
                    elif error.code not in PASSING:
                        self.problems.append(repr(error))

    def once(self, session, element):
        db = self.database
        source = element % 4
        db.accounts.update_one({"_id": source}, {"$inc": {"sum": -1}}, session=session)
        db.accounts.update_one({"_id": (source + 1) % 4}, {"$inc": {"sum": 1}}, session=session)
        db.transfers.insert_one({"_id": element}, session=session)


def prepare(client, database="faults"):
    """What writers and transfers need."""
    db = client[database]
    db.c.create_index("u", unique=True, sparse=True)
    db.accounts.insert_many({"_id": n, "sum": 100} for n in range(4))
    db.create_collection("transfers")


def end(writers):
    """Stops them."""
    for writer in writers:
        writer.stopped = True
    for writer in writers:
        writer.join(120)
        check("a writer ends", not writer.is_alive() and not writer.problems, writer.problems[:3])


def transferred(client, transfers, database="faults"):
    """The sum is what it was, and what was told is what is there."""
    sure, unsure = set().union(*(t.sure for t in transfers)), set().union(*(t.unsure for t in transfers))
    found = [d["_id"] for d in client[database].transfers.find()]
    equal("the sum of all accounts", sum(d["sum"] for d in client[database].accounts.find()), 400)
    equal("no acknowledged transaction is lost", sorted(sure - set(found)), [])
    equal("none is there that was refused", sorted(set(found) - sure - unsure), [])
    balance = {n: 100 for n in range(4)}
    for element in found:
        balance[element % 4] -= 1
        balance[(element % 4 + 1) % 4] += 1
    equal("each took effect once", {d["_id"]: d["sum"] for d in client[database].accounts.find()}, balance)
    print("faults: %d transactions, %d with unknown outcome, codes %s" % (
        len(sure), len(unsure), sorted(set().union(*(t.codes for t in transfers)))), flush=True)


def acknowledged(client, writers, database="faults"):
    """What writers were told is what is there."""
    sure, unsure = set().union(*(w.sure for w in writers)), set().union(*(w.unsure for w in writers))
    found = [d["_id"] for d in client[database].c.find({"_id": {"$type": "int"}})]
    found += [n for d in client[database].c.find({"l": {"$exists": True}}) for n in d["l"]]
    equal("nothing is there twice", len(found), len(set(found)))
    equal("no acknowledged write is lost", sorted(sure - set(found)), [])
    equal("nothing is there that was refused", sorted(set(found) - sure - unsure), [])
    valid(client[database])
    print("faults: %d writes, %d with unknown outcome, codes %s" % (
        len(sure), len(unsure), sorted(set().union(*(w.codes for w in writers)))), flush=True)


def progress(writers, what):
    """Waits until each writer has had some writes acknowledged."""
    goals = [len(writer.sure) + 5 for writer in writers]
    check(what, wait_until(lambda: all(len(w.sure) >= goal for w, goal in zip(writers, goals)), 60), [w.codes for w in writers])


def gone_on(writers, what):
    begun = time.monotonic()
    progress(writers, what)
    print("%s: writers go on %.1f s after it is back" % (what, time.monotonic() - begun), flush=True)

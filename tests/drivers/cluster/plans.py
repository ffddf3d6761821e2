"""Every plan of a query has the documents of a collection scan, whichever server wrote them, made the index, and answers: part
`plans` of main.py. PLANS_SECONDS is for how long (60), SEED the first collection's.

As crates/query/tests/it/any_plan.rs, for one node: documents, indexes and queries are random; a failure names the seed.
"""
import datetime
import os
import random
import time

from bson import MaxKey, MinKey, ObjectId
from pymongo.errors import OperationFailure

from checks import check  # rig.py has set the path
from rig import NODES

REFUSED = {171, 16766}  # parallel arrays, and arrays under a hashed index
NO_PLAN = 291  # this index cannot answer the query
DOCUMENTS, QUERIES_EACH, CHANGES_EACH, FAILURES_MAX = 60, 20, 15, 10
SCALARS = (0, 1, 2, 3, 4.5, -1, None, "x", "xy", "X", "y", True, {"x": 1}, {"x": 1, "y": 2}, [], float("nan"),
           datetime.datetime(2020, 1, 1), ObjectId("000000000000000000000001"), MinKey(), MaxKey())
PATHS = ("a", "b", "c", "a.x", "a.y", "b.x", "a.0", "a.0.x")
INDEXES = (
    ({"a": 1}, {}), ({"a": -1}, {}), ({"b": 1}, {}), ({"a": 1, "b": 1}, {}), ({"b": -1, "a": 1}, {}), ({"a": 1, "b": -1, "c": 1}, {}),
    ({"c": 1, "_id": -1}, {}), ({"a.x": 1}, {}), ({"a.x": 1, "a.y": -1}, {}), ({"a.0": 1}, {}), ({"b.x": 1, "c": 1}, {}),
    ({"a": 1}, {"sparse": True, "name": "sparse"}), ({"a": "hashed"}, {}), ({"$**": 1}, {}), ({"c": 1, "a": 1}, {}),
    ({"b": 1}, {"name": "partial", "partialFilterExpression": {"a": {"$gt": 0}}}))


class Case:
    """A collection: `clients` are of one server each."""

    def __init__(self, clients, seed):
        self.random, self.seed = random.Random(seed), seed
        self.collections = [client.plans["c%d" % seed] for client in clients]

    def any(self):
        """The collection at one of the servers."""
        return self.random.choice(self.collections)

    def value(self, depth=0):
        kind = self.random.random()
        if depth < 2 and kind < 0.15:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        if depth < 2 and kind < 0.3:
            return {name: self.value(depth + 1) for name in self.random.sample(("x", "y"), self.random.randrange(1, 3))}
        return self.random.choice(SCALARS)

    def document(self, number):
        fields = {name: self.value() for name in ("a", "b", "c") if self.random.random() < 0.85}
        return {"_id": number, **fields}

    def predicate(self):
        kind = self.random.randrange(8)
        value = self.random.choice(SCALARS)
        if kind == 0:
            return value
        if kind == 1:
            return {"$in": self.random.sample(SCALARS[:13], 3)}
        if kind == 2:
            return {"$exists": self.random.random() < 0.5}
        if kind == 3:
            return {"$not": {"$gt": value}}
        if kind == 4:
            return {"$elemMatch": {"$gte": self.random.randrange(3), "$lt": 4}}
        if kind == 5:
            return {"$gte": 0, "$lte": self.random.randrange(4)}
        return {self.random.choice(("$gt", "$gte", "$lt", "$lte", "$ne", "$eq")): value}

    def filter(self, depth=0):
        if depth < 2 and self.random.random() < 0.25:
            return {self.random.choice(("$or", "$and", "$nor")): [self.filter(depth + 1) for _ in range(self.random.randrange(1, 4))]}
        return {path: self.predicate() for path in self.random.sample(PATHS, self.random.randrange(1, 3))}

    def change(self):
        """One of some writes, at one of the servers."""
        number, c = self.random.randrange(DOCUMENTS), self.any()
        kind = self.random.randrange(3)
        if kind == 0:
            c.replace_one({"_id": number}, self.document(number), upsert=True)
        elif kind == 1:
            c.delete_one({"_id": number})
        else:
            c.update_one({"_id": number}, {"$set": {"a": self.value()}})

    def run(self):
        """The number of plans that were compared."""
        self.any().insert_many([self.document(number) for number in range(DOCUMENTS)])
        indexes = self.random.sample(INDEXES, 5)
        names = [name for index in indexes[:4] for name in self.index(*index)]
        for _ in range(CHANGES_EACH):
            try:
                self.change()
            except OperationFailure as error:
                check("a write that an index refuses", error.code in REFUSED, (self.seed, error))
        names += self.index(*indexes[4])
        plans = sum(self.compare(names) for _ in range(QUERIES_EACH))
        report = self.any().database.command("validate", self.any().name, full=True)
        check("valid", report["valid"], (self.seed, report))
        self.any().drop()
        return plans

    def index(self, key, options):
        """Makes an index at one of the servers; its name, if the documents allow it."""
        try:
            return [self.any().create_index(list(key.items()), **options)]
        except OperationFailure as error:
            check("an index that documents refuse", error.code in REFUSED, (self.seed, error))
            return []

    def compare(self, names):
        filter_ = self.filter()
        sort = [(self.random.choice(PATHS[:6]), self.random.choice((1, -1))), ("_id", 1)] if self.random.random() < 0.6 else None
        limit = self.random.randrange(1, 9) if sort and self.random.random() < 0.3 else 0

        def found(hint):
            cursor = self.any().find(filter_, hint=hint, batch_size=self.random.choice((0, 2, 7)), limit=limit)
            documents = [repr(d) for d in (cursor.sort(sort) if sort else cursor)]
            return documents if sort else sorted(documents)
        scanned, plans = found([("$natural", 1)]), 0
        for hint in (None, *names):
            try:
                by_index = found(hint)
            except OperationFailure as error:
                check("a plan by an index", error.code == NO_PLAN, (self.seed, filter_, sort, hint, error))
                continue
            if hint in ("sparse", "partial") and by_index != scanned:
                continue  # a forced one may omit documents
            plans += 1
            check("plan", by_index == scanned, (self.seed, filter_, sort, limit, hint, by_index, scanned))
        return plans


def plans(rig):
    seconds, seed = float(os.environ.get("PLANS_SECONDS", "60")), int(os.environ.get("SEED", "1"))
    clients = [rig.direct(number) for number in range(NODES)]
    end, compared, cases = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        compared += Case(clients, seed + cases).run()
        cases += 1
    check("plans", compared > 0)
    for client in clients:
        client.close()
    print("plans: %d of %d collections are as collection scans" % (compared, cases), flush=True)

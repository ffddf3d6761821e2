"""Runs finds with the plan cache on while documents and indexes change: soak.py URI SECONDS [SEED].

One client changes a collection at random and mirrors each change in a dictionary: inserts, updates, deletes,
replacements, findAndModify; indexes of several kinds are created, dropped, hidden and unhidden. In between it
runs queries of few shapes with many values, so that plans are cached, become bad and are replanned. Each result
(find, count, distinct, aggregate, in batches) must be equal to that of the dictionary. A failure names the seed
and the step.
"""
import os
import random
import sys
import time

from bson import Int64
from pymongo import MongoClient, ReturnDocument
from pymongo.errors import OperationFailure

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, finish  # noqa: E402

INDEXES = [
    ([("a", 1)], {}), ([("b", -1)], {}), ([("a", 1), ("b", 1)], {}), ([("b", 1), ("c", -1)], {}), ([("c", 1), ("a", -1), ("b", 1)], {}),
    ([("a", "hashed")], {}), ([("c", 1)], {"sparse": True, "name": "sparse"}),
    ([("b", 1)], {"partialFilterExpression": {"a": {"$gte": 5}}, "name": "partial"}), ([("t", 1)], {}), ([("$**", 1)], {}),
    ([("a", 1), ("t", 1)], {}), ([("c", 1), ("$**", 1)], {"wildcardProjection": {"c": 0, "_id": 0}, "name": "compound_wild"}),
]
COUNT_MAX = 3000


class Soak:
    def __init__(self, client, seed):
        self.random, self.seed, self.step = random.Random(seed), seed, 0
        self.c = client.nagi_soak.c
        self.c.drop()
        self.mirror, self.next_id, self.asked, self.done = {}, 0, 0, {}
        self.insert(500)

    # -- changes, each applied to the collection and to the mirror --
    def document(self):
        r = self.random
        doc = {"_id": self.next_id, "a": r.randrange(10), "b": r.randrange(200), "t": [r.randrange(30) for _ in range(r.randrange(4))]}
        if r.random() < 0.7:
            doc["c"] = r.choice([r.randrange(50), Int64(r.randrange(50)), float(r.randrange(50)), "s%d" % r.randrange(20)])
        self.next_id += 1
        return doc

    def insert(self, count=None):
        docs = [self.document() for _ in range(count or self.random.randrange(1, 60))]
        self.c.insert_many(docs)
        self.mirror.update((d["_id"], d) for d in docs)

    def update(self):
        query, matches = self.query()
        n = self.random.randrange(200)
        change = {"$set": {"b": n}} if self.random.random() < 0.5 else {"$inc": {"a": 1}, "$push": {"t": n % 30}}
        if sum(map(matches, self.mirror.values())) > 200:
            return
        self.c.update_many(query, change)
        for doc in filter(matches, list(self.mirror.values())):
            self.mirror[doc["_id"]] = doc | ({"b": n} if "$set" in change else {"a": doc["a"] + 1, "t": doc["t"] + [n % 30]})

    def replace(self):
        for _ in range(10):
            doc = self.document() | {"_id": self.random.choice(list(self.mirror))}
            self.c.replace_one({"_id": doc["_id"]}, doc)
            self.mirror[doc["_id"]] = doc

    def modify(self):
        query, matches = self.query()
        found = sorted(filter(matches, self.mirror.values()), key=lambda d: (-d["b"], d["_id"]))
        seen = self.c.find_one_and_update(query, {"$inc": {"b": 1}}, sort=[("b", -1), ("_id", 1)], return_document=ReturnDocument.BEFORE)
        self.same("findAndModify %r" % query, seen, found[0] if found else None)
        if found:
            self.mirror[found[0]["_id"]] = found[0] | {"b": found[0]["b"] + 1}

    def delete(self):
        query, matches = self.query()
        doomed = [d["_id"] for d in self.mirror.values() if matches(d)]
        if len(doomed) > 300 and len(self.mirror) < COUNT_MAX:
            return
        self.same("delete %r" % query, self.c.delete_many(query).deleted_count, len(doomed))
        for key in doomed:
            del self.mirror[key]

    def index(self):
        keys, options = self.random.choice(INDEXES)
        names = [name for name in self.c.index_information() if name != "_id_"]
        if names and self.random.random() < 0.5:
            name = self.random.choice(names)
            if self.random.random() < 0.5:
                return self.c.drop_index(name)
            hidden = self.random.random() < 0.5
            return self.c.database.command("collMod", "c", index={"name": name, "hidden": hidden})
        try:
            self.c.create_index(keys, **options)
        except OperationFailure as error:  # it exists under another name or with other options, or arrays do not fit it
            if error.code not in (85, 86, 171, 16766):
                raise

    def forget(self):
        self.c.database.command("planCacheClear", "c")

    # -- queries --
    def query(self):
        """A filter of one of a few shapes, and the same as a function."""
        r = self.random
        a, b, t = r.randrange(11), r.choice([0, 3, 100, 190, r.randrange(210)]), r.randrange(31)
        c = r.choice([r.randrange(50), "s%d" % r.randrange(20)])
        some = [r.randrange(60) for _ in range(3)]
        return r.choice([
            ({"a": a, "b": {"$gte": b}}, lambda d: d["a"] == a and d["b"] >= b),
            ({"a": {"$gte": a}, "b": b}, lambda d: d["a"] >= a and d["b"] == b),
            ({"b": {"$lt": b}, "c": c}, lambda d: d["b"] < b and d.get("c") == c),
            ({"c": {"$exists": False}, "a": a}, lambda d: "c" not in d and d["a"] == a),
            ({"t": t, "a": {"$lte": a}}, lambda d: t in d["t"] and d["a"] <= a),
            ({"t": {"$gt": 27}, "b": {"$lte": b}}, lambda d: any(x > 27 for x in d["t"]) and d["b"] <= b),
            ({"c": {"$in": some}, "b": {"$gt": b}}, lambda d: d.get("c") in some and d["b"] > b),
            ({"$or": [{"a": a, "b": b}, {"c": c}]}, lambda d: (d["a"] == a and d["b"] == b) or d.get("c") == c),
            ({"_id": {"$in": [self.next_id - x for x in some]}, "a": {"$ne": a}},
             lambda d: self.next_id - d["_id"] in some and d["a"] != a),
            ({"a": {"$in": [a, a + 2]}, "c": {"$type": "string"}}, lambda d: d["a"] in (a, a + 2) and isinstance(d.get("c"), str)),
        ])

    def ask(self):
        query, matches = self.query()
        found = sorted((d for d in self.mirror.values() if matches(d)), key=lambda d: d["_id"])
        kind = self.random.randrange(6)
        if kind == 0:
            self.same("count %r" % query, self.c.count_documents(query), len(found))
        elif kind == 1:
            self.same("distinct %r" % query, sorted(self.c.distinct("b", query)), sorted({d["b"] for d in found}))
        elif kind == 2:
            groups = {}
            for d in found:
                groups[d["a"]] = groups.get(d["a"], 0) + d["b"]
            seen = self.c.aggregate([{"$match": query}, {"$group": {"_id": "$a", "n": {"$sum": "$b"}}}])
            self.same("group %r" % query, {d["_id"]: d["n"] for d in seen}, groups)
        elif kind == 3:
            way, limit = self.random.choice([1, -1]), self.random.randrange(1, 30)
            found.sort(key=lambda d: (way * d["b"], d["_id"]))
            seen = self.c.find(query).sort([("b", way), ("_id", 1)]).limit(limit).batch_size(self.random.randrange(2, 20))
            self.same("sorted %r %d limit %d" % (query, way, limit), list(seen), found[:limit])
        elif kind == 4:
            seen = self.c.find(query, {"_id": 0, "a": 1, "b": 1})
            self.same("covered %r" % query, sorted((d["a"], d["b"]) for d in seen), sorted((d["a"], d["b"]) for d in found))
        else:
            seen = self.c.find(query).batch_size(self.random.randrange(2, 200))
            self.same("find %r" % query, sorted(seen, key=lambda d: d["_id"]), found)

    def same(self, what, seen, expected):
        self.asked += 1
        if seen != expected:
            indexes = list(self.c.index_information())
            check("seed %d step %d: %s, indexes %s" % (self.seed, self.step, what, indexes), False, (str(seen)[:300], str(expected)[:300]))

    def run(self, seconds):
        changes = [(self.insert, 5), (self.update, 4), (self.replace, 2), (self.modify, 3), (self.delete, 3), (self.index, 2), (self.forget, 0.1)]
        until = time.monotonic() + seconds
        while time.monotonic() < until or self.step < 50:
            self.step += 1
            change = self.random.choices([f for f, _ in changes], [w for _, w in changes])[0]
            change()
            self.done[change.__name__] = self.done.get(change.__name__, 0) + 1
            for _ in range(6):
                self.ask()
            if len(self.mirror) > COUNT_MAX:
                self.c.delete_many({"a": {"$lt": 6}})
                self.mirror = {k: d for k, d in self.mirror.items() if d["a"] >= 6}
        check("valid", self.c.database.command("validate", "c", full=True)["valid"])
        cache = self.c.database.command("serverStatus")["metrics"]["query"]["planCache"]
        check("plans were cached and used", cache["classic"]["hits"] > 0 and cache["classic"]["misses"] > 0, cache)


def main():
    client = MongoClient(sys.argv[1], serverSelectionTimeoutMS=5000, socketTimeoutMS=60000)
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    soak = Soak(client, seed)
    soak.run(float(sys.argv[2]))
    check("answers compared", soak.asked > 100, soak.asked)
    client.drop_database("nagi_soak")
    print("soak: seed %d, %d steps, %d answers compared, changes %s" % (seed, soak.step, soak.asked, soak.done))
    finish("soak")


main()

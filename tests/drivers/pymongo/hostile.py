"""Runs random pipelines over random documents, each in several ways, concurrently with kills: hostile.py URI
SECONDS [SEED [WORKERS]].

Each pipeline runs as planned, from a collection scan, in small batches, in a session and, on a replica set, in
a transaction, while the limits of the blocking stages change at random. All runs that succeed must have the
same result. Another client kills operations, cursors and sessions at random. No reply may be an internal error,
no thread may panic, and when all clients have finished, no cursor, no spill file and no charged memory may be
left. A failure names the seed and the pipeline.
"""
import datetime
import math
import os
import random
import sys
import threading
import time

from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, finish, wait_until  # noqa: E402

uri, seconds = sys.argv[1], float(sys.argv[2])
seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 30)
workers = int(sys.argv[4]) if len(sys.argv) > 4 else 2
FIELDS = ["a", "b", "c", "t", "n", "n.x", "n.y", "l", "l.x", "_id", "none", "at"]
LIMITS = ["internalQueryMaxBlockingSortMemoryUsageBytes", "internalDocumentSourceGroupMaxMemoryBytes", "internalDocumentSourceBucketAutoMaxMemoryBytes",
          "internalDocumentSourceSetWindowFieldsMaxMemoryBytes", "internalTextOrStageMaxMemoryBytes", "internalQueryFacetBufferSizeBytes"]
INDEXES = [("a", 1)], [("b", -1)], [("a", 1), ("b", 1)], [("l", 1)], [("l.x", 1)], [("n.x", 1), ("c", -1)], [("c", "hashed")], [("$**", 1)], [("t", "text")], \
    [("at", "2dsphere")], [("b", 1), ("n.$**", 1)], [("c", 1), ("a", -1)]
# Interrupted (11601), its cursor gone (43, 237), too large for the current limits, no memory: these depend on
# timing.
MOMENT = {11601, 43, 237, 292, 146, 40099, 5414201, 6007200, 5897900, 4568, 279, 251, 225, 206, 246}
BUGS = {1, 8}
# Without a requested order any order is correct, so every pipeline sets one before it limits or keeps
# documents.
TOTAL = {"$sort": {"_id": 1}}
# A total order for groups: arrays sort by one of their elements, but inside a document as a whole.
GROUPS = [{"$set": {"key": {"id": "$_id"}}}, {"$sort": {"key": 1}}, {"$unset": "key"}]


class Gen:
    def __init__(self, number):
        self.r = random.Random(number)

    def one(self, *choices):
        return self.r.choice(choices)

    def scalar(self):
        r = self.r
        return self.one(
            lambda: r.randrange(-5, 20), lambda: r.randrange(-5, 20), lambda: r.randrange(-5, 20), lambda: Int64(r.randrange(-1 << 62, 1 << 62)),
            lambda: r.choice([0.5, 1.5, -0.0, 1e300, math.inf, math.nan, 3.0]), lambda: Decimal128(r.choice(["1.5", "NaN", "0", "-3", "1E+6000"])),
            lambda: r.choice(["", "x", "fox", "Fox runs", "ü", "name %d" % r.randrange(40), "a" * 300]), lambda: r.choice([True, False, None]),
            lambda: datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=r.randrange(1000)), lambda: ObjectId(b"%012d" % r.randrange(20)),
            lambda: Regex("^f", "i"), lambda: Binary(b"x" * r.randrange(4)), lambda: Timestamp(r.randrange(9), 1), lambda: MinKey(), lambda: MaxKey(), lambda: Code("x"))()

    def value(self, depth=2):
        if depth and self.r.random() < 0.25:
            return [self.value(depth - 1) for _ in range(self.r.randrange(5))]
        if depth and self.r.random() < 0.15:
            return {k: self.value(depth - 1) for k in self.r.sample(["x", "y", "z"], self.r.randrange(4))}
        return self.scalar()

    def document(self, i):
        r = self.r
        doc = {"_id": i, "a": r.randrange(12), "b": self.scalar(), "n": {"x": r.randrange(9), "y": self.value(1)},
               "l": [r.choice([r.randrange(9), {"x": r.randrange(5)}]) for _ in range(r.randrange(5))], "t": self.one("fox", "the fox runs", "dog", "a lazy dog")}
        if r.random() < 0.7:
            doc["c"] = self.value()
        if r.random() < 0.8:
            doc["at"] = [r.randrange(-170, 170), r.randrange(-80, 80)]
        return doc

    def path(self):
        return "$" + self.r.choice(FIELDS)

    def expr(self, depth=3):
        r, e = self.r, lambda: self.expr(depth - 1)
        if not depth or r.random() < 0.3:
            return self.one(self.path, self.path, lambda: {"$literal": self.scalar()}, lambda: r.randrange(10), lambda: "$$ROOT")()
        unary = ["$abs", "$ceil", "$type", "$size", "$toString", "$toInt", "$toDouble", "$not", "$isArray", "$reverseArray", "$year", "$strLenCP", "$toUpper", "$first",
                 "$last", "$objectToArray", "$arrayToObject", "$allElementsTrue", "$sqrt", "$ln", "$bsonSize", "$isNumber", "$toBool", "$toDate", "$mergeObjects", "$max", "$sum", "$avg"]
        binary = ["$add", "$subtract", "$multiply", "$divide", "$mod", "$eq", "$gt", "$lte", "$cmp", "$in", "$concat", "$split", "$arrayElemAt", "$setUnion", "$setDifference",
                  "$setIntersection", "$setIsSubset", "$concatArrays", "$ifNull", "$and", "$or", "$pow", "$indexOfArray", "$range", "$strcasecmp", "$trunc", "$round", "$min"]
        return self.one(
            lambda: {r.choice(unary): e()}, lambda: {r.choice(binary): [e(), e()]}, lambda: {"$cond": [e(), e(), e()]},
            lambda: {"$map": {"input": e(), "as": "v", "in": self.one("$$v", {"$add": ["$$v", 1]}, {"x": "$$v"})}},
            lambda: {"$filter": {"input": e(), "cond": {"$gt": ["$$this", e()]}}},
            lambda: {"$reduce": {"input": e(), "initialValue": 0, "in": {"$add": [1, "$$value"]}}},
            lambda: {"$sortArray": {"input": e(), "sortBy": self.one(1, -1, {"x": 1})}}, lambda: {"$let": {"vars": {"v": e()}, "in": ["$$v", e()]}},
            lambda: {"$switch": {"branches": [{"case": e(), "then": e()}], "default": e()}}, lambda: {"$substrCP": [e(), 0, 3]},
            lambda: {"$regexFindAll": {"input": e(), "regex": "o."}}, lambda: {"$convert": {"input": e(), "to": r.choice(["int", "string", "double", "date"]), "onError": e()}},
            lambda: {"$getField": {"field": "x", "input": e()}}, lambda: {"$setField": {"field": "q", "input": "$$ROOT", "value": e()}},
            lambda: {"$dateToString": {"date": e(), "onNull": "none"}}, lambda: {"$slice": [e(), 2]}, lambda: {"$zip": {"inputs": [e(), e()]}})()

    def filter(self, depth=2):
        r = self.r
        if depth and r.random() < 0.3:
            return {r.choice(["$and", "$or", "$nor"]): [self.filter(depth - 1) for _ in range(r.randrange(1, 4))]}
        if r.random() < 0.1:
            return {"$expr": self.expr(2)}
        return {r.choice(FIELDS): self.one(
            lambda: self.scalar(), lambda: {r.choice(["$gt", "$gte", "$lt", "$lte", "$ne"]): self.scalar()}, lambda: {"$in": [self.scalar() for _ in range(r.randrange(4))]},
            lambda: {"$exists": r.random() < 0.5}, lambda: {"$type": r.choice(["number", "string", "array", "object"])}, lambda: {"$not": {"$gt": self.scalar()}},
            lambda: {"$elemMatch": self.one({"x": {"$gt": 1}}, {"$gt": 3})}, lambda: {"$regex": "^" + r.choice(["f", "F", "name 1"])}, lambda: {"$size": r.randrange(4)},
            lambda: {"$mod": [3, r.randrange(3)]}, lambda: {"$gte": r.randrange(8), "$lt": r.randrange(15)},
            lambda: {"$geoWithin": {"$box": [[-50, -50], [r.randrange(60), r.randrange(60)]]}})()}

    def accumulator(self):
        r = self.r
        return {r.choice(["$sum", "$avg", "$min", "$max", "$first", "$last", "$push", "$addToSet", "$mergeObjects", "$count", "$stdDevPop"]): self.expr(1)}

    def accumulators(self):
        made = {}
        for name in self.r.sample(["p", "q", "s"], self.r.randrange(4)):
            one = self.accumulator()
            if "$addToSet" in one:  # its order is undefined
                one = {"$push": one["$addToSet"]}
            made[name] = {"$count": {}} if "$count" in one else one
        return made

    def keys(self):
        return {f: self.one(1, -1) for f in self.r.sample(FIELDS, self.r.randrange(1, 4))}

    def stages(self, depth=2):
        r = self.r
        out = []
        for _ in range(r.randrange(1, 5)):
            out += self.one(*[getattr(self, name) for name in ("s_match", "s_match", "s_project", "s_set", "s_group", "s_sort", "s_unwind", "s_lookup", "s_graph", "s_facet",
                                                               "s_buckets", "s_window", "s_fill", "s_densify", "s_cut", "s_root", "s_union", "s_redact", "s_count")])(depth)
        return out

    def s_match(self, _):
        return [{"$match": self.filter()}]

    def s_project(self, _):
        return [{"$project": self.one({"a": 1, "n": 1}, {"b": 0}, {"a": 1, "q": self.expr()}, {"n.x": 1, "l": self.expr()})}]

    def s_set(self, _):
        return [{"$set": {self.r.choice(["q", "a", "n.x", "l"]): self.expr()}}]

    def s_group(self, _):
        return [{"$group": dict({"_id": self.one(self.expr(1), None, "$a", {"a": "$a", "b": "$b"})}, **self.accumulators())}] + GROUPS

    def s_sort(self, _):
        return [{"$sort": self.keys()}] + self.s_cut(0) * self.r.randrange(2)

    def s_unwind(self, _):
        return [{"$unwind": self.one("$l", "$c", {"path": "$l", "preserveNullAndEmptyArrays": True, "includeArrayIndex": "at_l"})}]

    def inner(self, depth):
        return [TOTAL] + (self.stages(depth - 1) if depth else [])

    def s_lookup(self, depth):
        field = lambda: self.r.choice(["a", "b", "l", "n.x", "_id"])  # noqa: E731
        how = self.one({"localField": field(), "foreignField": field(), "pipeline": [TOTAL]},
                       {"let": {"v": self.path()}, "pipeline": [{"$match": {"$expr": {"$eq": ["$a", "$$v"]}}}] + self.inner(depth) + [{"$limit": 3}]},
                       {"localField": field(), "foreignField": field(), "pipeline": self.inner(depth)})
        return [{"$limit": 40}, {"$lookup": dict(how, **{"from": self.one("c", "d", "nothing"), "as": self.one("j", "l")})}] + self.one([], [{"$unwind": "$j"}])

    def s_graph(self, _):
        return [{"$limit": 20}, {"$graphLookup": {"from": "d", "startWith": self.path(), "connectFromField": "n.x", "connectToField": "a", "as": "g", "maxDepth": 2, "depthField": "far"}},
                {"$set": {"g": {"$sortArray": {"input": "$g", "sortBy": {"_id": 1}}}}}]

    def beginning(self, stages):
        """The first stages; if these end with groups, also the stages that order the groups."""
        count = 4
        while count < len(stages) and stages[count] in GROUPS:
            count += 1
        return stages[:count]

    def s_facet(self, depth):
        return [{"$facet": {"f": self.inner(0) + self.s_group(0), "h": self.beginning(self.inner(depth))}}] if depth else []

    def s_buckets(self, _):
        return self.one([{"$bucketAuto": {"groupBy": self.expr(1), "buckets": self.r.randrange(1, 6), "output": self.accumulators() or {"n": {"$sum": 1}}}}],
                        [{"$bucket": {"groupBy": "$a", "boundaries": [0, 4, 9], "default": "other", "output": {"n": {"$sum": 1}}}}], [{"$sortByCount": self.path()}] + GROUPS)

    def s_window(self, _):
        window = self.one({}, {"window": {"documents": [-2, 3]}}, {"window": {"documents": ["unbounded", "current"]}}, {"window": {"range": [-3, 3]}})
        return [{"$setWindowFields": {"partitionBy": self.one("$a", "$n.x", None, self.expr(1)), "sortBy": {self.one("_id", "a"): 1},
                                      "output": {"w": dict(self.one({"$sum": "$a"}, {"$push": "$_id"}, {"$avg": "$n.x"}, {"$max": "$b"}, {"$first": "$c"}), **window)}}}]

    def s_fill(self, _):
        return [{"$fill": {"sortBy": {"_id": 1}, "output": {"c": self.one({"method": "locf"}, {"value": self.expr(1)})}}}]

    def s_densify(self, _):
        return [{"$project": {"a": 1}}, {"$densify": {"field": "a", "range": {"step": self.one(1, 0.5), "bounds": self.one("full", [0, 30])}}}, {"$sort": {"a": 1, "_id": 1}}]

    def s_cut(self, _):
        return [self.one({"$limit": self.r.randrange(1, 200)}, {"$skip": self.r.randrange(50)})]

    def s_root(self, _):
        return [self.one({"$replaceWith": {"$mergeObjects": [{"_id": "$_id"}, "$n", {"q": self.expr(1)}]}}, {"$unset": self.r.choice(["a", "n.x", "l.x"])})]

    def s_union(self, depth):
        return [{"$unionWith": {"coll": self.one("d", "c"), "pipeline": self.inner(min(depth, 1)) + [{"$limit": 30}]}}] if depth else []

    def s_redact(self, _):
        return [{"$redact": {"$cond": [self.expr(1), "$$KEEP", self.one("$$PRUNE", "$$DESCEND")]}}]

    def s_count(self, _):
        return [{"$count": "many"}] if self.r.random() < 0.2 else []

    def pipeline(self):
        """A filter for the planner, an order for all that comes."""
        first = [{"$match": {"$text": {"$search": self.one("fox", "fox -dog", '"fox runs" dog')}}}] if self.r.random() < 0.05 else [{"$match": self.filter()}]
        return first + [TOTAL] + self.stages()


def rounded(value):
    """A value as text in which floating-point sums of different order are equal."""
    if isinstance(value, float):
        return repr(value) if math.isnan(value) or math.isinf(value) else "%.9g" % value
    if isinstance(value, Decimal128):
        number = value.to_decimal()
        return "dec %s" % (number if not number.is_finite() else "%.9e" % number)
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s: %s" % (k, rounded(v)) for k, v in value.items())
    if isinstance(value, list):
        return "[%s]" % ", ".join(map(rounded, value))
    return "%s %r" % (type(value).__name__, value)


class State:
    over = False
    runs = answers = refused = killed = 0
    lock = threading.Lock()


def answer(run):
    """The result of one way: the documents as texts, or the error."""
    try:
        return [rounded(doc) for doc in run()], None
    except OperationFailure as error:
        return None, error
    except ConnectionFailure as error:
        State.over = True
        return None, error


def work(number, is_set):
    gen = Gen(seed * 1000 + number)
    client = MongoClient(uri, socketTimeoutMS=120000)
    db = client["nagi_hostile_%d" % number]
    until = time.monotonic() + seconds
    while time.monotonic() < until and not State.over:
        try:
            fresh(db, gen)
        except OperationFailure as error:
            check("the set-up", error.code == 11601, (seed, error))  # it was killed
            continue
        for _ in range(60):
            if time.monotonic() >= until or State.over:
                break
            compare(client, db, gen, is_set)
    client.drop_database(db.name)


def fresh(db, gen):
    """Replaces documents and indexes."""
    for name in ("c", "d"):
        db.drop_collection(name)
        if gen.r.random() < 0.2:
            db.create_collection(name, clusteredIndex={"key": {"_id": 1}, "unique": True})
        db[name].insert_many([gen.document(i) for i in range(gen.r.choice([30, 200, 600]))])
        for keys in gen.r.sample(INDEXES, gen.r.randrange(4)):
            try:
                db[name].create_index(keys)
            except OperationFailure as error:  # two arrays, or no point
                check("an index", error.code in (171, 16755, 16572, 17261, 16766, 13027, 11601, 16759, 10083), (seed, keys, error))


def compare(client, db, gen, is_set):
    pipeline = gen.pipeline()
    c, options = db.c, {"allowDiskUse": True}
    text = "$text" in pipeline[0]["$match"]
    ways = [lambda: c.aggregate(pipeline, **options), lambda: c.aggregate(pipeline, batchSize=gen.r.choice([1, 2, 7]), **options)]
    if not text:
        ways.append(lambda: c.aggregate(pipeline, hint={"$natural": gen.one(1, -1)}, **options))

    def in_session():
        with client.start_session() as session:
            if is_set and "$out" not in str(pipeline):
                with session.start_transaction():
                    return list(c.aggregate(pipeline, session=session))
            return list(c.aggregate(pipeline, session=session, **options))
    ways.append(in_session)
    expected = None
    for at, way in enumerate(ways):
        got, error = answer(way)
        State.runs += 1
        if error is not None:
            State.refused += 1
            check("no internal error", getattr(error, "code", 0) not in BUGS, (seed, pipeline, error))
            continue
        State.answers += 1
        if expected is None:
            expected = got
        elif got != expected:
            other = next((pair for pair in zip(expected, got) if pair[0] != pair[1]), (len(expected), len(got)))
            check("the same answer in way %d" % at, False, (seed, pipeline, list(c.index_information()), other))
    # A cursor that is not read to its end.
    if gen.r.random() < 0.2:
        try:
            next(c.aggregate(pipeline, batchSize=1, **options), None)
        except PyMongoError:
            pass
    # A spill is refused instead of written to disk.
    _, error = answer(lambda: c.aggregate(pipeline, allowDiskUse=False, maxTimeMS=gen.r.choice([1, 5, 60000])))
    check("no internal error", getattr(error, "code", 0) not in BUGS, (seed, pipeline, error))
    explained(db, gen, pipeline)


def explained(db, gen, pipeline):
    if gen.r.random() < 0.1:
        verbosity = gen.one("queryPlanner", "executionStats", "allPlansExecution")
        _, error = answer(lambda: [db.command("explain", {"aggregate": "c", "pipeline": pipeline, "cursor": {}}, verbosity=verbosity)] and [])
        check("no internal error of explain", getattr(error, "code", 0) not in BUGS, (seed, pipeline, error))


def disturb():
    """Changes limits and kills operations, repeatedly."""
    r = random.Random(seed)
    admin = MongoClient(uri).admin
    while not State.over:
        try:
            admin.command("setParameter", 1, **{r.choice(LIMITS): r.choice([1, 100, 1000, 5000, 30_000, 100 << 20])})
            if r.random() < 0.1:
                ops = list(admin.aggregate([{"$currentOp": {"idleCursors": True}}, {"$match": {"ns": {"$regex": "^nagi_hostile_"}}}]))
                for op in ops[:1]:
                    State.killed += 1
                    if op.get("type") == "idleCursor":
                        db, name = op["ns"].split(".", 1)
                        admin.client[db].command("killCursors", name, cursors=[op["cursor"]["cursorId"]])
                    elif "opid" in op:
                        admin.command("killOp", 1, op=op["opid"])
        except PyMongoError as error:
            check("the killer", getattr(error, "code", None) in MOMENT, error)
        time.sleep(0.005)


def main():
    client = MongoClient(uri, serverSelectionTimeoutMS=5000, socketTimeoutMS=120000)
    is_set = bool({"setName", "msg"} & set(client.admin.command("hello")))
    was = client.admin.command("getParameter", 1, **{name: 1 for name in LIMITS})
    over = client.admin.command("serverStatus")["nagi"]["memory"]["timesOverBound"]
    threads = [threading.Thread(target=work, args=(n, is_set)) for n in range(workers)]
    killer = threading.Thread(target=disturb)
    for thread in threads + [killer]:
        thread.start()
    for thread in threads:
        thread.join()
    lost, State.over = State.over, True
    killer.join()
    check("the server answers to the end", not lost and client.admin.command("ping")["ok"] == 1.0, seed)
    client.admin.command("killAllSessions", [])
    for name in LIMITS:
        client.admin.command("setParameter", 1, **{name: was[name]})
    status = lambda: client.admin.command("serverStatus")  # noqa: E731
    check("no spill is left", wait_until(lambda: status()["nagi"]["spills"]["open"] == 0, 60), (seed, status()["nagi"]["spills"]))
    check("no file is left", wait_until(lambda: status()["nagi"]["spills"]["diskBytes"] == 0, 60), (seed, status()["nagi"]["spills"]))
    check("no cursor is left", wait_until(lambda: status()["metrics"]["cursor"]["open"]["total"] == 0, 60), (seed, status()["metrics"]["cursor"]))
    check("no memory is held", wait_until(lambda: all(status()["nagi"]["memory"]["pools"][pool]["usedBytes"] == 0 for pool in ("execution", "cursors")), 60),
          (seed, status()["nagi"]["memory"]["pools"]))
    check("memory within its bound", status()["nagi"]["memory"]["timesOverBound"] == over, seed)
    log = [line for line in client.admin.command("getLog", "global")["log"] if "panicked" in line or "Uncaught" in line]
    check("no panic in the log", not log, (seed, log[:3]))
    check("answers", State.answers > 0, State.runs)
    print("hostile, seed %d: %d pipelines and ways, %d answers, %d refused, %d killed" % (seed, State.runs, State.answers, State.refused, State.killed))
    finish("hostile")


main()

"""Advice of `nagi advise`: slow queries become advice, the advice is followed, and what was promised is compared with
what came of it. Also hypothetical indexes by a driver, logins, wrong usage.

The command line is NAGI FOLDER PORT.
"""
import json
import os
import random
import shutil
import subprocess
import sys

from pymongo import DESCENDING, MongoClient

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, fails, finish, section  # noqa: E402

NAGI, WORK, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
URI = "mongodb://127.0.0.1:%d" % PORT
DOCS = 60_000
CUSTOMERS = 1200
WORDS = "the quick brown fox jumps over a lazy dog while seven wizards brew potions".split()


class Server:
    """A server on a new data directory."""

    def __init__(self, name, *args):
        self.folder = os.path.join(WORK, name)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder + "/data")
        self.args = args

    def __enter__(self):
        self.out = open(self.folder + "/stdout", "wb")
        usual = ["--dbpath", self.folder + "/data", "--port", str(PORT), "--bind_ip", "127.0.0.1", "--nounixsocket",
                 "--logpath", self.folder + "/nagi.log"]
        self.process = subprocess.Popen([NAGI, "serve", *usual, *self.args], stdout=self.out, stderr=self.out)
        self.client = MongoClient(URI, directConnection=True, serverSelectionTimeoutMS=30000)
        self.client.admin.command("hello")
        return self

    def __exit__(self, *_):
        self.client.close()
        self.process.terminate()
        equal("the server ends", self.process.wait(60), 0)
        self.out.close()


def advise(*args, uri=URI, env=None):
    """Status, standard output and standard error of the command."""
    done = subprocess.run([NAGI, "advise", "--uri", uri, *args], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **(env or {})})
    return done.returncode, done.stdout, done.stderr


def advice_of(kind, name=None, *args):
    status, out, err = advise("--json", *args)
    equal("advise --json", (status, err), (0, ""))
    rows = [row for row in json.loads(out)["advice"] if row["kind"] == kind and name in (None, row.get("name"))]
    return rows


def fill(orders):
    random.seed(7)
    for first in range(0, DOCS, 5000):
        orders.insert_many([
            {"_id": n, "customer": n * 7919 % CUSTOMERS, "day": random.randrange(365), "total": random.randrange(1000),
             "note": " ".join(random.choices(WORDS, k=30)), "state": "open" if n % 9 else "closed"}
            for n in range(first, first + 5000)])


def examined(explained):
    stats = explained["executionStats"]
    return stats["totalKeysExamined"] + stats["totalDocsExamined"]


QUERY = {"find": "orders", "filter": {"customer": 5, "total": {"$gte": 100}}, "sort": {"day": -1}}


def explain(db, command, **more):
    return db.command("explain", command, verbosity="executionStats", **more)


def create(db):
    """Two shapes are served by one index, whose measured gain must come true."""
    orders = db.orders
    for n in range(5):
        list(orders.find({"customer": n, "total": {"$gte": 100}}).sort("day", DESCENDING))
        list(orders.aggregate([{"$match": {"customer": n}}, {"$group": {"_id": "$state", "n": {"$sum": 1}}}]))
    before = examined(explain(db, QUERY))
    equal("a scan reads all", before, DOCS)
    rows = advice_of("createIndex")
    equal("one index for both shapes", [row["name"] for row in rows], ["customer_1_day_-1_total_1"])
    row = rows[0]
    equal("its shapes", sorted(shape["operation"] for shape in row["shapes"]), ["aggregate", "find"])
    equal("their operations", sum(shape["count"] for shape in row["shapes"]), 10)
    check("the reason", "10 slow operations took" in row["reason"], row["reason"])
    measured = row["measured"]
    # A slow machine copies fewer in the time for it.
    sample = measured["sample"]
    equal("the sample", (sample["documents"], sample["ofDocuments"]), (10000, DOCS))
    equal("expected of the scan", measured["present"]["totalDocsExamined"], DOCS)
    check("the sort is avoided", measured["present"]["sortsInMemory"] and not measured["withIndex"]["sortsInMemory"], measured)

    status, out, _ = advise()
    equal("advise", status, 0)
    for part in ["Create the index { customer: 1, day: -1, total: 1 } on shop.orders", "Measured on 10000 of 60000 documents",
                 'db.getSiblingDB("shop").runCommand({"createIndexes":"orders"', "- find { customer: ?"]:
        check("the text has " + part, part in out, out)

    db.command(row["command"])
    after = explain(db, QUERY)
    plan = after["queryPlanner"]["winningPlan"]
    check("the advised index is used", row["name"] in json.dumps(plan, default=str), plan)
    told = measured["withIndex"]["totalKeysExamined"] + measured["withIndex"]["totalDocsExamined"]
    seen = examined(after)
    check("what is examined is as told", seen <= 2 * told + 20 and told <= 2 * seen + 20, (told, seen))
    ratio = before / seen
    check("the gain is as told", ratio / 2.5 <= measured["examinedRatio"] <= ratio * 2.5, (measured["examinedRatio"], ratio))
    size = db.command("collStats", "orders")["indexSizes"][row["name"]]
    check("the size is about as told", size / 4 <= measured["expectedSizeBytes"] <= size * 4, (measured["expectedSizeBytes"], size))
    equal("it finds as many", len(list(orders.find(QUERY["filter"]).sort("day", DESCENDING))), len(
        [1 for order in orders.find({"total": {"$gte": 100}}, {"customer": 1}) if order["customer"] == 5]))
    equal("followed, it is not advised again", advice_of("createIndex", "customer_1_day_-1_total_1"), [])
    status, out, _ = advise()
    check("it is told why", "begins with the fields that it needs" in out, out)


def drop(db):
    """A prefix of another index, and one that no query has used."""
    db.orders.create_index([("customer", 1)], name="prefix")
    db.orders.create_index([("never", 1)], name="unused")
    db.orders.create_index([("serial", 1)], name="serial", unique=True, sparse=True)
    rows = {row["name"]: row for row in advice_of("dropIndex")}
    equal("only the prefix: the others are new", sorted(rows), ["prefix"])
    equal("what replaces it", rows["prefix"]["prefixOf"], "customer_1_day_-1_total_1")
    check("its size", rows["prefix"]["sizeBytes"] > 0, rows)
    reply = db.client.admin.command("nagiAdvise", 1, unusedSeconds=0, measure=False)
    rows = {row["name"]: row for row in reply["advice"] if row["kind"] == "dropIndex"}
    equal("all that no query has used", sorted(rows), ["prefix", "unused"])
    equal("uses", rows["unused"]["accesses"]["ops"], 0)
    db.command(rows["prefix"]["tryFirst"])
    for name in ["prefix", "unused"]:
        db.command(rows[name]["command"])
    reply = db.client.admin.command("nagiAdvise", 1, unusedSeconds=0, measure=False)
    equal("followed", [row for row in reply["advice"] if row["kind"] == "dropIndex"], [])


def compress(db):
    """The saving by zstd, against a copy of the collection with zstd."""
    equal("small collections get no advice", advice_of("compress"), [])
    reply = db.client.admin.command("nagiAdvise", 1, minCompressBytes=1)
    rows = [row for row in reply["advice"] if row["kind"] == "compress"]
    equal("the collection", [row["ns"] for row in rows], ["shop.orders"])
    row = rows[0]
    db.create_collection("packed", storageEngine={"wiredTiger": {"configString": "block_compressor=zstd"}})
    db.orders.aggregate([{"$merge": "packed"}])
    db.client.admin.command("fsync")
    for name in ["orders", "packed"]:
        db.command("compact", name)
    sizes = [db.command("collStats", name)["storageSize"] for name in ["orders", "packed"]]
    saved = 100 * (sizes[0] - sizes[1]) / sizes[0]
    check("what zstd saves is as told", abs(saved - row["savedPercent"]) <= 15, (saved, row))
    reply = db.client.admin.command("nagiAdvise", 1, minCompressBytes=1, database="shop")
    equal("zstd already", [row["ns"] for row in reply["advice"] if row["kind"] == "compress"], ["shop.orders"])
    db.drop_collection("packed")


def caches(db):
    """Data that fit are read until the evidence suffices: what is known of the cache is told, and nothing is advised."""
    def estimate():
        return db.command("serverStatus")["nagi"]["memory"]["caches"]["blocks"].get("estimate", {})
    for n in range(600):
        ids = random.sample(range(DOCS), 1000)
        list(db.orders.find({"_id": {"$in": ids}}, {"_id": 1}))
        known = estimate()
        if known.get("sampledReads", 0) >= 1500 and "bytesFor99Percent" in known:
            break
    check("enough reads of blocks are sampled", known.get("sampledReads", 0) >= 1500, known)
    reply = db.client.admin.command("nagiAdvise", 1, measure=False)
    told = {one["cache"]: one for one in reply["caches"]}
    check("the cache of blocks", "blocks" in told, reply["caches"])
    own = told["blocks"]
    check("its hits", own["hitRate"] > 0.9 and own["sampledReads"] >= 1500, own)
    check("the size that suffices", 0 < own.get("bytesFor99Percent", 0) <= own["limitBytes"], own)
    equal("it is large enough", [row for row in reply["advice"] if row["kind"] == "cacheSize"], [])
    status, out, _ = advise("--noMeasure")
    check("the text has the cache", status == 0 and "The cache of blocks (" in out and "99 % need " in out, out)


def hypothetical(db):
    """Explain with an index that does not exist, by a driver."""
    index = {"key": {"state": 1, "day": 1}, "name": "state_day"}
    command = {"count": "orders", "query": {"state": "closed", "day": {"$lt": 5}}}
    before = list(db.orders.list_indexes())
    reply = explain(db, command, hypotheticalIndexes=[index])["hypothetical"]
    check("it is used", reply["indexes"][0]["used"], reply)
    equal("nothing is built", list(db.orders.list_indexes()), before)
    told = reply["withIndexes"]["estimate"]["totalKeysExamined"]
    db.orders.create_index([("state", 1), ("day", 1)], name="state_day")
    seen = explain(db, command)["executionStats"]["totalKeysExamined"]
    check("keys are as told", told <= 2 * seen + 30 and seen <= 2 * told + 30, (told, seen))
    fails("it exists now", 68, lambda: explain(db, command, hypotheticalIndexes=[index]))
    fails("no collection", 26, lambda: explain(db, {"find": "none"}, hypotheticalIndexes=[index]))


def usage():
    for args, status, text in [
        (["--nothing"], 2, "unrecognised option '--nothing'"),
        (["--unusedHours", "x"], 2, "--unusedHours has the bad value 'x'"),
        (["--json=1"], 2, "takes no value"),
        (["--database"], 2, "the required argument for option '--database' is missing"),
    ]:
        seen, _, err = advise(*args)
        check("usage: %s" % args, seen == status and text in err, (seen, err))
    status, _, err = advise("--noMeasure", "--database", "none")
    check("a wrong name of a database", status == 1 and "database none does not exist" in err, (status, err))
    status, out, err = advise("--noMeasure", "--database", "admin", "--unusedHours", "1")
    equal("nothing to advise on", (status, err), (0, ""))
    check("no advice", "No advice." in out, out)


def logins():
    with Server("logins", "--auth") as server:
        admin = server.client.admin
        admin.command("createUser", "root", pwd="secret", roles=["root"])
        root = MongoClient(URI, username="root", password="secret", directConnection=True)
        root.admin.command("createUser", "advisor", pwd="pw", roles=["clusterMonitor", "readAnyDatabase"])
        root.admin.command("createUser", "reader", pwd="pw", roles=["readAnyDatabase"])
        root.close()
        status, _, err = advise()
        check("without a login", status == 1 and "Unauthorized" in err, (status, err))
        password = os.path.join(WORK, "password")
        with open(password, "w") as f:
            f.write("pw\n")
        os.chmod(password, 0o600)
        address = "mongodb://%s@127.0.0.1:%d"
        status, out, err = advise("--passwordFile", password, uri=address % ("advisor", PORT))
        check("with a password file", status == 0 and "slow operations" in out, (status, out, err))
        status, out, err = advise(uri=address % ("advisor", PORT), env={"NAGI_PASSWORD": "pw"})
        check("with a password in the environment", status == 0, (status, out, err))
        status, _, err = advise(uri=address % ("reader", PORT), env={"NAGI_PASSWORD": "pw"})
        check("without the right", status == 1 and "not authorized on admin" in err, (status, err))


def main():
    with Server("open") as server:
        db = server.client.shop
        server.client.admin.command("profile", 0, slowms=0)
        fill(db.orders)
        section(create, db)
        section(drop, db)
        section(compress, db)
        section(caches, db)
        section(hypothetical, db)
        section(usage)
    section(logins)
    status, _, err = advise()
    check("no server", status == 1 and "127.0.0.1" in err, (status, err))
    finish("advise")


main()

"""Indexes: options, limits and builds that no golden case covers."""
import threading

from probes import code_of, equal, need, probe
from reads_and_writes import fresh


@probe("standalone", "idx.opt.sparse", "idx.opt.hidden", "idx.opt.prepareunique", "cmd.collmod", "idx.opt.unique", "idx.dup_error")
def options(client):
    c = fresh(client, {"_id": 1, "a": 1, "u": 1}, {"_id": 2, "u": 2})
    c.create_index("a", sparse=True, name="a")
    equal([d["_id"] for d in c.find({}).hint("a")], [1])
    c.create_index("u", name="u")
    client.test.command("collMod", "probe", index={"name": "u", "hidden": True})
    need("COLLSCAN" in str(c.find({"u": 1}).explain()["queryPlanner"]["winningPlan"]))
    client.test.command("collMod", "probe", index={"name": "u", "hidden": False})
    need("IXSCAN" in str(c.find({"u": 1}).explain()["queryPlanner"]["winningPlan"]))
    client.test.command("collMod", "probe", index={"name": "u", "prepareUnique": True})
    equal(client.test.command("insert", "probe", documents=[{"u": 2}])["writeErrors"][0]["code"], 11000)
    equal(c.count_documents({"u": 2}), 1)
    client.test.command("collMod", "probe", index={"name": "u", "unique": True})
    error = client.test.command("insert", "probe", documents=[{"u": 2}])["writeErrors"][0]
    equal((error["code"], error["keyPattern"], error["keyValue"]), (11000, {"u": 1}, {"u": 2}))


@probe("standalone", "idx.lim.multikey", "idx.lim.text")
def limits(client):
    c = fresh(client)
    c.create_index("a")
    error = client.test.command("insert", "probe", documents=[{"a": list(range(100_001))}])["writeErrors"][0]
    need("too many" in error["errmsg"] or "xceeded" in error["errmsg"] or "cannot exceed" in error["errmsg"], error)
    equal(client.test.command("insert", "probe", documents=[{"a": list(range(99_999))}])["n"], 1)
    c.drop()
    c.create_index([("t", "text")])
    c.insert_one({"_id": 1, "t": " ".join("w%d" % i for i in range(20_000))})
    equal(c.count_documents({"$text": {"$search": "w19999"}}), 1)
    c.drop()


@probe("standalone", "cmd.reindex", "idx.build.hybrid", "idx.build.memory")
def builds(client):
    c = fresh(client, *({"_id": i, "n": i % 50, "s": "x" * 100} for i in range(20_000)))
    client.admin.command("setParameter", 1, maxIndexBuildMemoryUsageMegabytes=50)
    written = []

    def write():
        for i in range(300):
            c.insert_one({"_id": 100_000 + i, "n": 7})
            written.append(i)
    writer = threading.Thread(target=write)
    writer.start()
    c.create_index([("n", 1), ("s", 1)])
    writer.join()
    client.admin.command("setParameter", 1, maxIndexBuildMemoryUsageMegabytes=200)
    equal((len(written), len(list(c.find({"n": 7}, {"_id": 1}).hint([("n", 1), ("s", 1)])))), (300, 700))
    equal(client.test.command("reIndex", "probe")["nIndexes"], 2)
    need(client.test.command("validate", "probe")["valid"])
    c.drop()


@probe("replica", "cmd.setindexcommitquorum", "idx.build.quorum")
def quorum(client):
    client.test.quorum.insert_one({"n": 1})
    reply = client.test.command("createIndexes", "quorum", indexes=[{"key": {"n": 1}, "name": "n_1"}], commitQuorum="majority")
    equal((reply["numIndexesAfter"], reply["commitQuorum"]), (2, "majority"))

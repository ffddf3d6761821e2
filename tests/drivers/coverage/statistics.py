"""Counters of serverStatus and similar commands: the fields exist, and the counters count."""
from pymongo import MongoClient

from probes import equal, fields, need, probe
from reads_and_writes import fresh


def status(client):
    return client.admin.command("serverStatus")


@probe("standalone", "cmd.serverstatus", "stat.ss.basic", "stat.ss.asserts", "stat.ss.connections", "stat.ss.network", "stat.ss.mem", "stat.ss.extra",
       "stat.ss.globallock", "stat.ss.queues", "stat.ss.security", "stat.ss.sessions", "stat.ss.locks")
def sections(client):
    seen = status(client)
    fields(seen, "host version process pid uptime uptimeMillis uptimeEstimate localTime "
           "asserts.regular asserts.warning asserts.msg asserts.user asserts.rollovers "
           "connections.current connections.available connections.totalCreated connections.active connections.rejected "
           "network.bytesIn network.bytesOut network.numRequests network.compression "
           "mem.bits mem.resident mem.virtual mem.supported extra_info.note extra_info.page_faults "
           "globalLock.totalTime globalLock.currentQueue.total globalLock.activeClients.total queues.execution "
           "security.authentication.mechanisms logicalSessionRecordCache.activeSessionsCount locks")
    need(seen["mem"]["resident"] > 0 and seen["connections"]["current"] > 0, seen["mem"])
    with MongoClient(*client.address) as other:
        other.admin.command("ping")
        need(status(client)["connections"]["totalCreated"] > seen["connections"]["totalCreated"])
    later = status(client)
    need(later["network"]["numRequests"] > seen["network"]["numRequests"] and later["network"]["bytesIn"] > seen["network"]["bytesIn"])
    need(later["locks"], later["locks"])


@probe("standalone", "stat.ss.opcounters", "stat.ss.oplatencies", "stat.ss.metrics")
def counters(client):
    c = fresh(client, {"_id": 1})
    before = status(client)
    c.insert_many([{"_id": i} for i in range(10, 15)])
    list(c.find({"_id": {"$gte": 10}}, batch_size=2))
    c.update_one({"_id": 10}, {"$set": {"n": 1}})
    c.delete_one({"_id": 11})
    after = status(client)
    grown = {n: after["opcounters"][n] - before["opcounters"][n] for n in ("insert", "query", "update", "delete", "getmore")}
    need(grown["insert"] == 5 and grown["query"] == 1 and grown["update"] == 1 and grown["delete"] == 1 and grown["getmore"] >= 1, grown)
    fields(after, "opcountersRepl.insert opLatencies.reads.latency opLatencies.writes.ops opLatencies.commands.ops opLatencies.transactions")
    need(after["opLatencies"]["writes"]["ops"] - before["opLatencies"]["writes"]["ops"] >= 3)
    documents = [s["metrics"]["document"] for s in (before, after)]
    equal([documents[1][n] - documents[0][n] for n in ("inserted", "updated", "deleted", "returned")], [5, 1, 1, 5])
    need(after["metrics"]["queryExecutor"]["scannedObjects"] > before["metrics"]["queryExecutor"]["scannedObjects"])
    fields(after, "metrics.commands.find.total metrics.cursor.open.total metrics.ttl.passes metrics.operation.scanAndOrder metrics.queryExecutor.scanned")


@probe("replica", "stat.ss.repl", "stat.ss.transactions", "stat.exporter")
def of_a_set(client):
    seen = status(client)
    fields(seen, "repl.setName repl.hosts repl.isWritablePrimary repl.me repl.rbid transactions.retriedCommandsCount transactions.currentOpen "
           "transactions.totalStarted transactions.totalCommitted transactions.totalAborted")
    client.test.exported.insert_one({})
    for db, name in [("admin", "buildInfo"), ("admin", "replSetGetStatus"), ("admin", "replSetGetConfig"), ("test", "dbStats"), ("admin", "top"), ("admin", "hello"),
                     ("admin", "listDatabases"), ("test", "listCollections")]:
        equal(client[db].command(name)["ok"], 1)
    storage = next(client.test.exported.aggregate([{"$collStats": {"latencyStats": {}, "storageStats": {}}}]))
    fields(storage, "latencyStats.reads.ops storageStats.size")

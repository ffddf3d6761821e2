"""Query statistics, and telemetry sent by OTLP: python querystats.py NAGI WORK PORT

Servers without and with authorization; then a collector that receives, refuses, is away, hangs, and has TLS.
"""
import hmac
import base64
import datetime
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time

from bson import Decimal128, Int64
from bson.binary import Binary
from pymongo import MongoClient

import otlp

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tls"))
import checks  # noqa: E402
import pki  # noqa: E402
from checks import check, equal, fails, section, wait_until  # noqa: E402

NAGI, WORK, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
KEY = Binary(b"a key of the client", 8)


def seen_until(entry):
    """When the entry was read. It has whole seconds."""
    return entry["asOf"].as_datetime().replace(tzinfo=None) + datetime.timedelta(seconds=1)


class Server:
    def __init__(self, name, *args):
        self.folder = os.path.join(WORK, name)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder + "/data")
        self.log, self.args = self.folder + "/nagi.log", args

    def __enter__(self):
        usual = ["--dbpath", self.folder + "/data", "--port", str(PORT), "--bind_ip", "127.0.0.1", "--nounixsocket", "--noconsole",
                 "--logpath", self.log]
        self.out = open(self.folder + "/stdout", "wb")
        self.process = subprocess.Popen([NAGI, "serve", *usual, *self.args], stdout=self.out, stderr=self.out)
        self.client = self.connect(appname="suite")
        self.client.admin.command("hello")
        return self

    def connect(self, **options):
        return MongoClient("127.0.0.1", PORT, directConnection=True, serverSelectionTimeoutMS=30000, **options)

    def __exit__(self, *_):
        self.client.close()
        begin = time.time()
        self.process.terminate()
        equal(self.folder + " ends", self.process.wait(60), 0)
        self.took = time.time() - begin
        self.out.close()

    def lines(self, log_id):
        with open(self.log, errors="replace") as f:
            complete = f.read().rpartition("\n")[0]
        return [line for line in map(json.loads, complete.splitlines()) if line["id"] == log_id]


def query_stats(client, **options):
    return list(client.admin.aggregate([{"$queryStats": options}]))


def of_collection(entries, coll):
    return [e for e in entries if e["key"]["queryShape"]["cmdNs"]["coll"] == coll]


def record_all(server):
    server.client.admin.command("setParameter", 1, internalQueryStatsRateLimit=-1)


def test_entries(server):
    record_all(server)
    c = server.client.test.c
    c.insert_many({"_id": n, "a": n % 10} for n in range(1000))
    for n in range(20):
        c.find_one({"a": n})
    equal("batches of a cursor", len(list(c.find({"a": {"$gte": 0}}, batch_size=100))), 1000)
    c.count_documents({"a": 3})
    c.distinct("a", {"a": {"$lt": 5}})
    entries = of_collection(query_stats(server.client), "c")
    equal("an entry for each shape", len(entries), 4)
    found = {(e["key"]["queryShape"]["command"], str(e["key"]["queryShape"].get("filter"))): e for e in entries}
    one = found[("find", "{'a': {'$eq': '?number'}}")]
    equal("executions", one["metrics"]["execCount"], 20)
    equal("documents", one["metrics"]["docsReturned"], {"sum": 10, "max": 1, "min": 0, "sumOfSquares": Decimal128("10")})
    equal("types of numbers", type(one["metrics"]["docsReturned"]["sum"]), Int64)
    check("times", 0 < one["metrics"]["totalExecMicros"]["min"] <= one["metrics"]["lastExecutionMicros"], one["metrics"])
    equal("the driver", one["key"]["client"]["driver"]["name"].split("|")[0], "PyMongo")
    equal("the application", one["key"]["client"]["application"]["name"], "suite")
    whole = found[("find", "{'a': {'$gte': '?number'}}")]
    equal("a cursor is one execution", (whole["metrics"]["execCount"], whole["metrics"]["docsReturned"]["sum"]), (1, 1000))
    check("its first batch", whole["metrics"]["firstResponseExecMicros"]["sum"] < whole["metrics"]["totalExecMicros"]["sum"], whole)
    check("the seen times", one["metrics"]["firstSeenTimestamp"] <= one["metrics"]["latestSeenTimestamp"] <= seen_until(one), one)
    # Another application has entries of its own.
    with server.connect(appname="other") as other:
        other.test.c.find_one({"a": 1})
    equal("an entry for each application", len(of_collection(query_stats(server.client), "c")), 5)
    # The log names queries by the same hash.
    server.client.admin.command("profile", -1, slowms=0)
    c.find_one({"a": 7})
    server.client.admin.command("profile", -1, slowms=100)
    hashes = {line["attr"].get("queryShapeHash") for line in server.lines(51803)}
    check("the hash of the log", one["queryShapeHash"] in hashes, hashes)
    stages = [{"$queryStats": {}}, {"$match": {"key.queryShape.command": "distinct"}}, {"$project": {"metrics.execCount": 1}}]
    equal("stages may follow", [d["metrics"] for d in server.client.admin.aggregate(stages)], [{"execCount": 1}])


def test_streams_and_kills(server):
    record_all(server)
    c = server.client.test.killed
    c.insert_many({"a": n} for n in range(500))
    cursor = c.find({"a": {"$gt": 0}}, batch_size=10)
    next(cursor)
    equal("an open cursor has no entry", of_collection(query_stats(server.client), "killed"), [])
    cursor.close()
    entries = of_collection(query_stats(server.client), "killed")
    equal("a killed one has", [e["metrics"]["docsReturned"]["sum"] for e in entries], [10])


def test_concurrent(server):
    record_all(server)
    c = server.client.test.busy
    c.insert_one({"_id": 1})

    def work(number):
        with server.connect() as client:
            for n in range(200):
                client.test.busy.find_one({"field%d" % (n % 7): number})
                if n % 50 == 0:
                    query_stats(client)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    entries = of_collection(query_stats(server.client), "busy")
    equal("shapes of four clients", len(entries), 7)
    equal("none is lost", sum(e["metrics"]["execCount"] for e in entries), 800)
    status = server.client.admin.command("serverStatus")["metrics"]["queryStats"]
    check("serverStatus", status["queryStatsStoreSizeEstimateBytes"] > 1000 and status["numEvicted"] == 0, status)


def test_limits(server):
    admin = server.client.admin
    before = admin.command("serverStatus")["metrics"]["queryStats"]["numRateLimitedRequests"]
    admin.command("setParameter", 1, internalQueryStatsRateLimit=5)
    for _ in range(100):
        server.client.test.limited.find_one({"a": 1})
    after = admin.command("serverStatus")["metrics"]["queryStats"]["numRateLimitedRequests"]
    check("the rate limit", after - before >= 80, (before, after))
    record_all(server)
    admin.command("setParameter", 1, internalQueryStatsCacheSize="100KB")
    for n in range(500):
        server.client.test.many.find_one({"field%d" % n: 1})
    status = admin.command("serverStatus")["metrics"]["queryStats"]
    check("the size", status["queryStatsStoreSizeEstimateBytes"] <= 100 << 10 and status["numEvicted"] > 100, status)
    admin.command("setParameter", 1, internalQueryStatsCacheSize="1%")
    admin.command("setParameter", 1, internalQueryStatsRateLimit=0)
    count = sum(e["metrics"]["execCount"] for e in of_collection(query_stats(server.client), "many"))
    server.client.test.many.find_one({"field499": 1})
    again = sum(e["metrics"]["execCount"] for e in of_collection(query_stats(server.client), "many"))
    equal("off again", again, count)


def test_names(server):
    record_all(server)
    secrets = ["verysecretfield", "otherfield", "secretcollection", "secretdb", "joinedcollection", "aliasname"]
    db = server.client.secretdb
    list(db.secretcollection.find({"verysecretfield.otherfield": {"$gt": 1}, "$expr": {"$eq": ["$verysecretfield", 1]}}))
    list(db.secretcollection.aggregate([
        {"$lookup": {"from": "joinedcollection", "as": "aliasname", "let": {"v": "$otherfield"}, "pipeline": [
            {"$match": {"$expr": {"$eq": ["$$v", "$verysecretfield"]}}}]}},
        {"$group": {"_id": "$otherfield", "aliasname": {"$sum": "$verysecretfield"}}}]))
    plain = json.dumps([e["key"] for e in query_stats(server.client)], default=str)
    check("names without a transformation", all(name in plain for name in secrets), plain)
    hidden = query_stats(server.client, transformIdentifiers={"algorithm": "hmac-sha-256", "hmacKey": KEY})
    text = json.dumps([e["key"] for e in hidden], default=str)
    check("no name with one", not any(name in text for name in secrets), text)
    digest = hmac.new(bytes(KEY), b"secretdb", hashlib.sha256).digest()
    databases = {e["key"]["queryShape"]["cmdNs"]["db"] for e in hidden}
    check("the hash of a name", base64.b64encode(digest).decode() in databases, databases)
    check("words of the language stay", "$lookup" in text and '"from"' in text and "?number" in text, text)


def test_privileges():
    with Server("auth", "--auth", "--setParameter", "internalQueryStatsRateLimit=-1") as server:
        admin = server.client.admin
        admin.command("createUser", "root", pwd="x", roles=["root"])
        cluster = {"cluster": True}
        with server.connect(username="root", password="x") as root:
            for name, actions in [("plain", ["queryStatsRead"]), ("transformed", ["queryStatsReadTransformed"])]:
                privileges = [{"resource": cluster, "actions": actions}]
                root.admin.command("createRole", name, privileges=privileges, roles=[])
                root.admin.command("createUser", name, pwd="x", roles=[name])
            root.admin.command("createUser", "monitor", pwd="x", roles=["clusterMonitor"])
            root.admin.command("createUser", "reader", pwd="x", roles=["readAnyDatabase"])
            root.test.c.find_one({"a": 1})
        hidden = {"transformIdentifiers": {"algorithm": "hmac-sha-256", "hmacKey": KEY}}
        for user, plain, transformed in [("monitor", True, True), ("transformed", False, True), ("plain", False, False),
                                         ("reader", False, False)]:
            with server.connect(username=user, password="x") as client:
                for options, allowed in [({}, plain), (hidden, transformed)]:
                    name = "%s %s" % (user, "transformed" if options else "plain")
                    if allowed:
                        check(name, len(query_stats(client, **options)) > 0)
                    else:
                        fails(name, 13, lambda: query_stats(client, **options))
        fails("without a login", 13, lambda: query_stats(server.client))


def test_counters(server):
    def counters():
        return server.client.admin.command("serverStatus")["metrics"]["operatorCounters"]

    before = counters()
    server.client.test.c.find_one({"a": {"$mod": [3, 1]}})
    list(server.client.test.c.aggregate([
        {"$group": {"_id": None, "m": {"$stdDevPop": "$a"}}}, {"$project": {"x": {"$sqrt": "$m"}}},
        {"$setWindowFields": {"sortBy": {"x": 1}, "output": {"r": {"$denseRank": {}}}}}]))
    after = counters()
    for family, name in [("match", "$mod"), ("groupAccumulators", "$stdDevPop"), ("expressions", "$sqrt"),
                         ("windowAccumulators", "$denseRank")]:
        equal("%s %s" % (family, name), after[family][name] - before[family][name], 1)
    equal("families", set(after), {"expressions", "match", "groupAccumulators", "windowAccumulators"})


def headers_file(name, text):
    path = os.path.join(WORK, name)
    with open(path, "w") as f:
        f.write(text)
    return path


def test_telemetry():
    collector = otlp.Collector(0)
    headers = headers_file("headers", "# of a service\nx-team: databases\nAuthorization: Bearer t0ken\n")
    args = ["--otlpEndpoint", "http://127.0.0.1:%d/" % collector.port, "--otlpSampleRatio", "1", "--otlpIntervalMillis", "200",
            "--otlpHeadersFile", headers]
    with Server("otlp", *args) as server:
        c = server.client.test.c
        c.insert_many({"a": n} for n in range(50))
        c.find_one({"a": 3})
        fails("a failure", 2, lambda: c.find_one({"a": {"$nothing": 1}}))
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        c.find_one({}, comment={"traceparent": trace})
        check("spans arrive", wait_until(lambda: len(collector.named("find c")) == 3, 10), collector.spans)
        ok, failed, continued = collector.named("find c")
        seen = otlp.attributes(ok)
        for name, value in {"db.system.name": "mongodb", "db.namespace": "test", "db.collection.name": "c", "db.operation.name": "find",
                            "server.address": seen.get("server.address"), "server.port": PORT, "client.address": "127.0.0.1",
                            "db.response.returned_rows": 1, "nagi.plan": "COLLSCAN"}.items():
            equal("attribute " + name, seen.get(name), value)
        equal("the kind of a span", ok["kind"], 2)
        check("its times", abs(ok["end"] / 1e9 - time.time()) < 60 and 0 <= ok["end"] - ok["start"] < 10e9, ok)
        check("its ids", len(ok["trace_id"]) == 16 and len(ok["span_id"]) == 8 and "parent" not in ok and "status" not in ok, ok)
        equal("an error", (otlp.attributes(failed)["error.type"], otlp.attributes(failed)["db.response.status_code"]), ("BadValue", "2"))
        equal("its status", failed["status"], {"code": 2})
        equal("a trace of the client", (continued["trace_id"].hex(), continued["parent"].hex()), tuple(trace.split("-")[1:3]))
        check("writes are there, handshakes are not", collector.named("insert c") and not collector.named("hello admin"))
        resource = collector.resources[-1]
        equal("the resource", (resource["service.name"], resource["process.pid"]), ("nagi", server.process.pid))
        sent = {name.lower(): value for name, value in collector.headers[-1].items()}
        equal("headers", (sent.get("x-team"), sent.get("authorization")), ("databases", "Bearer t0ken"))

        inserted = collector.value("nagi.documents", outcome="inserted")
        c.insert_many({"a": n} for n in range(25))
        grown = lambda: collector.value("nagi.documents", outcome="inserted") >= (inserted or 50) + 25  # noqa: E731
        check("a counter follows", wait_until(grown, 10), collector.metrics.get("nagi.documents"))
        counter, gauge = collector.metrics["nagi.documents"], collector.metrics["nagi.memory_resident_bytes"]
        equal("counters are cumulative sums", (counter["sum"]["temporality"], counter["sum"]["monotonic"]), (2, 1))
        point = counter["sum"]["points"][0]
        check("their times", 0 < point["start"] < point["time"], point)
        check("a gauge", gauge["gauge"]["points"][0]["double"] > 10 << 20 and gauge["unit"] == "By", gauge)
        times = collector.metrics["nagi.operation_duration_seconds"]
        equal("kinds of times", [otlp.attributes(p)["kind"] for p in times["histogram"]["points"]], ["read", "write", "command"])
        for point in times["histogram"]["points"]:
            check("buckets", sum(point["counts"]) == point.get("count", 0) and len(point["counts"]) == len(point["bounds"]) + 1, point)
        check("all figures", len(collector.metrics) > 50, len(collector.metrics))
        collector_stops_and_returns(server, collector)
    check("a stop is fast", server.took < 10, server.took)


def collector_stops_and_returns(server, collector):
    """While the collector refuses, clients notice nothing."""
    collector.status = 503
    c = server.client.test.c
    check("a failure is logged", wait_until(lambda: c.find_one({}) and server.lines(8200320), 10))
    begin = time.time()
    for _ in range(3000):
        c.find_one({"_id": 1})
    check("requests go on", time.time() - begin < 30, time.time() - begin)
    equal("it is logged once", len(server.lines(8200320)), 1)
    status = server.client.admin.command("serverStatus")["nagi"]["openTelemetry"]
    check("failures are counted", status["exportsFailed"] >= 1 and status["exportsSent"] >= 2, status)
    collector.status = 200
    check("it continues", wait_until(lambda: c.find_one({}) and server.lines(8200321), 90))
    status = server.client.admin.command("serverStatus")["nagi"]["openTelemetry"]
    check("lost spans are counted", status["spansLost"] > 0 and status["spansRecorded"] > 3000, status)


def test_sampling():
    collector = otlp.Collector(0)
    args = ["--otlpEndpoint", "http://127.0.0.1:%d" % collector.port, "--otlpSampleRatio", "0.2", "--otlpIntervalMillis", "60000"]
    with Server("sampled", *args) as server:
        for n in range(1000):
            server.client.test.c.find_one({"a": n})
        recorded = server.client.admin.command("serverStatus")["nagi"]["openTelemetry"]["spansRecorded"]
        check("a share of operations", 120 < recorded < 280, recorded)
    check("the rest is sent at the end", len(collector.spans) >= recorded, (len(collector.spans), recorded))
    collector.close()


def test_hanging_collector():
    """A collector that accepts connections and never answers delays neither requests nor the stop."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        args = ["--otlpEndpoint", "http://127.0.0.1:%d" % listener.getsockname()[1], "--otlpSampleRatio", "1"]
        with Server("hanging", *args) as server:
            begin = time.time()
            for _ in range(6000):
                server.client.test.c.find_one({"_id": 1})
            check("requests do not wait", time.time() - begin < 60, time.time() - begin)
            status = server.client.admin.command("serverStatus")["nagi"]["openTelemetry"]
            check("what the queue holds is bounded", status["spansRecorded"] - status["spansLost"] <= 2 * 4096, status)
            check("it is logged", wait_until(lambda: server.lines(8200320), 15))
        check("the stop does not wait long", server.took < 10, server.took)


def test_tls():
    shutil.rmtree(os.path.join(WORK, "pki"), ignore_errors=True)
    authority = pki.Authority(os.path.join(WORK, "pki"), "/CN=authority")
    certificate = authority.sign("collector", "/CN=collector", pki.LOCAL)
    collector = otlp.Collector(0, certificate, certificate)
    endpoint = ["--otlpEndpoint", "https://127.0.0.1:%d" % collector.port, "--otlpSampleRatio", "1", "--otlpIntervalMillis", "200"]
    with Server("tls", *endpoint, "--otlpCAFile", authority.file) as server:
        server.client.test.c.find_one({})
        check("spans by TLS", wait_until(lambda: collector.named("find c"), 10), server.lines(8200320))
    count = collector.requests
    with Server("distrusted", *endpoint) as server:
        check("an unknown authority", wait_until(lambda: server.lines(8200320), 15))
        equal("nothing is sent", collector.requests, count)
    collector.close()


def test_options():
    def refused(name, text, *args):
        shutil.rmtree(WORK + "/refused", ignore_errors=True)
        os.makedirs(WORK + "/refused")
        done = subprocess.run([NAGI, "serve", "--dbpath", WORK + "/refused", "--port", str(PORT), "--noconsole", *args], capture_output=True,
                              text=True, timeout=60)
        output = done.stdout + done.stderr
        check(name, done.returncode != 0 and text in output, (done.returncode, output[-500:]))

    refused("an endpoint without a scheme", "otlpEndpoint", "--otlpEndpoint", "127.0.0.1:4318")
    refused("headers without encryption", "https", "--otlpEndpoint", "http://example.com", "--otlpHeadersFile", "/x")
    here = ["--otlpEndpoint", "http://127.0.0.1:9"]
    refused("a file of headers that is not there", "nowhere", *here, "--otlpHeadersFile", "/nowhere")
    bad = headers_file("bad_headers", "no header\n")
    refused("a line that is no header", "line 1", *here, "--otlpHeadersFile", bad)
    refused("a file of authorities that is not there", "nowhere", *here, "--otlpCAFile", "/nowhere")


def main():
    os.makedirs(WORK, exist_ok=True)
    with Server("plain") as server:
        equal("off at the start", query_stats(server.client), [])
        for test in (test_entries, test_streams_and_kills, test_concurrent, test_names, test_counters, test_limits):
            section(test, server)
    for test in (test_privileges, test_telemetry, test_sampling, test_hanging_collector, test_tls, test_options):
        section(test)
    checks.finish("querystats")


main()

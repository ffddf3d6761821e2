"""Options at startup, each tested by its effect; durable.py tests state that outlives a start."""
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.parse
from types import SimpleNamespace

from pymongo.errors import OperationFailure
from pymongo import MongoClient

import replica
from probes import code_of, equal, fields, need, probe


@probe("start", "conf.syslog.destination", "conf.syslog.path", "conf.syslog.append", "conf.syslog.verbosity", "conf.syslog.component", "conf.syslog.ts",
       "conf.storage.dbpath", "conf.net.port", "conf.net.bindip", "conf.net.compression", "conf.net.unix", "conf.net.maxconn", "conf.net.backlog", "conf.net.objcheck",
       "conf.proc.pid", "conf.prof.mode", "conf.prof.slow", "conf.prof.sample", "conf.setparameter", "conf.wt.cachesize", "conf.wt.block", "conf.sec.js", "conf.storage.engine",
       "diag.log_json", "ops.ready_log", "ops.startup_warnings")
def from_a_file(start):
    with start.server("file", keep=False) as seed:
        folder = seed.folder
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with open(folder + "/conf", "w") as f:
        f.write(f"""
systemLog: {{destination: file, path: {folder}/own.log, logAppend: true, verbosity: 1, timeStampFormat: iso8601-utc, component: {{command: {{verbosity: 2}}}}}}
storage: {{dbPath: {folder}/data, engine: wiredTiger, wiredTiger: {{engineConfig: {{cacheSizeGB: 0.3}}, collectionConfig: {{blockCompressor: zstd}}}}}}
net: {{port: {port}, bindIp: 127.0.0.1, maxIncomingConnections: 123, wireObjectCheck: true, listenBacklog: 64, compression: {{compressors: "zstd,snappy"}},
  unixDomainSocket: {{enabled: true, pathPrefix: {folder}, filePermissions: 0700}}}}
processManagement: {{pidFilePath: {folder}/pid}}
operationProfiling: {{mode: all, slowOpThresholdMs: 0, slowOpSampleRate: 1.0}}
security: {{javascriptEnabled: false}}
setParameter: {{ttlMonitorSleepSecs: 17}}
""")
    with open(folder + "/own.log", "w") as f:
        f.write("kept\n")
    process = subprocess.Popen([start.nagi, "serve", "-f", folder + "/conf"], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    try:
        client = MongoClient("127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=20000)
        parsed = client.admin.command("getCmdLineOpts")["parsed"]
        equal((parsed["storage"]["dbPath"], parsed["net"]["port"]), (folder + "/data", port))
        with open(folder + "/pid") as f:
            equal(int(f.read()), process.pid)
        with MongoClient("mongodb://%s" % urllib.parse.quote_plus(folder + "/mongodb-%d.sock" % port)) as local:
            equal(local.admin.command("ping")["ok"], 1)
        equal(os.stat(folder + "/mongodb-%d.sock" % port).st_mode & 0o777, 0o700)
        equal(sorted(client.admin.command("hello", compression=["zlib", "zstd", "snappy"])["compression"]), ["snappy", "zstd"])
        status = client.admin.command("serverStatus")
        need(status["connections"]["current"] + status["connections"]["available"] <= 123, status["connections"])
        equal(status["wiredTiger"]["cache"]["maximum bytes configured"] // 2**20, 307)
        equal(status["storageEngine"]["name"], "wiredTiger")
        need(status["wiredTiger"]["transaction"]["transaction checkpoints"] >= 0, "where mongostat reads flushes")
        equal(client.test.command("profile", -1), {"was": 2, "slowms": 0, "sampleRate": 1.0, "ok": 1.0})
        client.test.c.insert_one({"_id": 1})
        equal(client.test["system.profile"].count_documents({"op": "insert"}), 1)
        need("zstd" in client.test.command("collStats", "c")["wiredTiger"]["creationString"])
        need(code_of(lambda: client.test.c.find_one({"$where": "true"})) is not None)
        got = client.admin.command("getParameter", 1, ttlMonitorSleepSecs=1, logLevel=1, logComponentVerbosity=1)
        equal((got["ttlMonitorSleepSecs"], got["logLevel"], got["logComponentVerbosity"]["command"]["verbosity"]), (17, 1, 2))
        client.close()
    finally:
        process.send_signal(signal.SIGTERM)
        equal(process.wait(60), 0)
    with open(folder + "/own.log") as f:
        first, *lines = f.read().splitlines()
    equal(first, "kept")
    lines = [json.loads(line) for line in lines]
    need(all({"t", "s", "c", "id", "ctx", "msg"} <= set(line) for line in lines) and lines[0]["t"]["$date"].endswith("Z"), lines[0])
    need(any(line["id"] == 23016 and line["msg"] == "Waiting for connections" for line in lines))
    need(any(line["id"] == 22120 and line["s"] == "W" for line in lines))
    versions = subprocess.run([start.nagi, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    need(versions.startswith("db version v8.0"), versions)


@probe("start", "conf.net.bindall", "conf.net.ipv6", "conf.wt.cachepct", "conf.wt.zstd", "conf.storage.sync", "conf.storage.journal", "conf.storage.commitinterval",
       "conf.repl.majority", "conf.wt.configstring", "conf.storage.directio", "conf.storage.cachecompressor", "conf.storage.cachewarmup",
       "conf.sec.allowunsafe")
def by_flags(start):
    with start.server("flags", "--bind_ip_all", "--allowUnsafe", "--ipv6", "--zstdDefaultCompressionLevel", "9", "--syncdelay", "30", "--journal", "--journalCommitInterval", "50",
                      "--enableMajorityReadConcern", "true", "--directIO", "true", "--cacheCompressor", "zstd", "--cacheWarmUp", "true", "--wiredTigerCollectionConfigString", "block_compressor=zlib", "--wiredTigerCacheSizePct", "10") as server:
        with MongoClient("[::1]:%d" % server.port, directConnection=True) as six:
            equal(six.admin.command("ping")["ok"], 1)
        parsed = server.client.admin.command("getCmdLineOpts")["parsed"]
        server.client.test.c.insert_one({"_id": 1})
        equal(server.client.test.c.find_one(), {"_id": 1})
        need("block_compressor=zlib" in server.client.test.command("collStats", "c")["wiredTiger"]["creationString"])
        fields(parsed, "net.ipv6 storage.syncPeriodSecs")
        equal(code_of(lambda: server.client.test.command("find", "c", readConcern={"level": "majority"})), None)


@probe("start", "conf.sec.redact", "x.redaction", "conf.sec.allowlist", "par.localhost", "conf.net.ipallowlist")
def for_strangers(start):
    with start.server("strangers", "--redactClientLogData", "--slowms", "0", "--ipAllowlist", "127.0.0.0/8", "--clusterIpSourceAllowlist", "10.0.0.0/8,::1") as server:
        def logged():
            return " ".join(server.client.admin.command("getLog", "global")["log"])
        server.client.test.command("profile", 0, slowms=-1)
        server.client.test.c.create_index("a", unique=True)
        server.client.test.c.insert_one({"a": "hidden one"})
        equal(code_of(lambda: server.client.test.c.insert_one({"a": "hidden one"})), 11000)
        equal(server.client.test.c.count_documents({"a": "hidden one"}), 1)
        need("hidden one" not in logged() and '"a":"###"' in logged(), logged()[-3000:])
        server.client.admin.command("setParameter", 1, redactClientLogData=False)
        server.client.test.c.find_one({"a": "hidden one"})
        need("hidden one" in logged())
        equal(server.client.admin.command("serverStatus")["connections"]["rejectedByAddress"], 0)
        need("No other member" in str(server.client.admin.command("getLog", "startupWarnings")))
    with start.server("others", "--ipAllowlist", "127.0.0.1,10.0.0.0/8") as server:
        with socket.create_connection(("127.0.0.1", server.port), source_address=("127.0.0.2", 0), timeout=10) as other:
            equal(other.recv(1), b"")
        equal(server.client.admin.command("serverStatus")["connections"]["rejectedByAddress"], 1)
        equal(server.client.admin.command("ping")["ok"], 1)
    with start.server("bypass", "--auth", "--setParameter", "enableLocalhostAuthBypass=false") as server:
        equal(code_of(lambda: server.client.admin.command("createUser", "a", pwd="p", roles=["root"])), 13)
    refused = subprocess.run([start.nagi, "serve", "--bind_ip_all", "--dbpath", start.work], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    need(refused.returncode == 2 and "--allowUnsafe" in refused.stderr, refused)


@probe("start", "conf.repl.set")
def a_set_that_initiates_itself(start):
    with start.server("initiated", "--replSet", "rs0", "--initiate") as server:
        with MongoClient(*server.client.address, replicaSet="rs0") as client:
            with client.start_session() as session, session.start_transaction():
                client.test.c.insert_one({"n": 1}, session=session)
            equal(client.test.c.count_documents({}), 1)
    # It has another port now, and stays the member that it is.
    with start.server("initiated", "--replSet", "rs0", "--initiate", keep=True) as server:
        equal(server.client.test.c.count_documents({}), 1)
        equal(server.client.local["oplog.rs"].count_documents({"o.msg": "initiating set"}), 1)
        equal(server.client.admin.command("replSetGetConfig")["config"]["version"], 1)
    refused = subprocess.run([start.nagi, "serve", "--dbpath", "/nonexistent", "--initiate"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    need(refused.returncode == 2 and "add --replSet NAME" in refused.stdout, refused)


@probe("start", "conf.repl.oplogsize", "conf.storage.oplogmin")
def oplog_limits(start):
    def fill(client):
        """Logs twice the size, then waits until the oldest half is gone, or a while if nothing may go."""
        for n in range(80):
            client.test.c.insert_one({"_id": n, "s": os.urandom(25_000).hex()})
        return client.local["oplog.rs"]

    with start.server("oplog", "--replSet", "rs0", "--oplogSize", "2") as server:
        log = fill(replica.initiate(server.client))
        equal(server.client.local.command("collStats", "oplog.rs")["maxSize"], 2 << 20)

        def oldest():
            try:
                return log.find({"op": "i"}).sort("$natural", 1).next()["o"]["_id"]
            except OperationFailure as e:
                equal(e.code, 136)  # removed while it was read
                return 0

        until(lambda: oldest() > 30)
        equal(log.count_documents({"op": "i"}), 80 - oldest())
        equal(server.client.test.c.count_documents({}), 80)
    with start.server("oplog_hours", "--replSet", "rs0", "--oplogSize", "2", "--oplogMinRetentionHours", "0.5") as server:
        log = fill(replica.initiate(server.client))
        time.sleep(2.5)
        equal(log.count_documents({"op": "i"}), 80)


@probe("start", "conf.proc.fork", "ops.signals")
def forked(start):
    with start.server("fork_seed") as seed:
        folder = seed.folder
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    done = subprocess.run([start.nagi, "serve", "--dbpath", folder + "/data", "--port", str(port), "--bind_ip", "127.0.0.1", "--nounixsocket", "--fork",
                           "--logpath", folder + "/log", "--pidfilepath", folder + "/pid"], stdout=subprocess.PIPE, text=True, timeout=60)
    equal(done.returncode, 0)
    with open(folder + "/pid") as f:
        pid = int(f.read())
    with MongoClient("127.0.0.1", port, directConnection=True) as client:
        equal(client.admin.command("serverStatus")["pid"], pid)
    os.kill(pid, signal.SIGTERM)
    for _ in range(3000):
        if not os.path.exists("/proc/%d" % pid):
            break
        time.sleep(0.01)
    need(not os.path.exists("/proc/%d" % pid))


def until(what):
    """Returns the first result that is true, within a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        seen = what()
        if seen:
            return seen
        time.sleep(0.01)
    raise AssertionError("nothing in a minute")


@probe("start", "hello.shutdown")
def quiesce_mode(start):
    with start.server("quiesce", "--replSet", "rs0") as server:
        client = replica.initiate(server.client)
        client.test.c.insert_one({"_id": 1})
        known = client.admin.command("hello")["topologyVersion"]
        client.close()
        answers = {}

        def ask(raw, command, db="admin"):
            raw.message(dict(command, **{"$db": db}))
            return raw.answer()[2]

        def begin(name, command, db="admin"):
            def run():
                with replica.Raw(address) as own:
                    own.socket.settimeout(60)
                    answers[name] = ask(own, command, db)
            thread = threading.Thread(target=run)
            thread.start()
            return thread
        # A driver would treat the refusals as a lost server and wait for another one.
        address = SimpleNamespace(address=("127.0.0.1", server.port))
        with replica.Raw(address) as raw:
            def opid(name):
                return next((op["opid"] for op in ask(raw, {"currentOp": 1})["inprog"] if name in op.get("command", {})), None)

            def refused():
                reply = ask(raw, {"hello": 1})
                return reply if reply["ok"] == 0 else None
            read = begin("find", {"find": "c", "filter": {"$where": "while (true) {}"}}, "test")
            until(lambda: opid("find"))
            waiting = begin("waiting", {"hello": 1, "topologyVersion": known, "maxAwaitTimeMS": 50000})
            until(lambda: opid("hello"))
            stop = begin("shutdown", {"shutdown": 1, "timeoutSecs": 40})
            first = until(refused)
            waiting.join(30)
            with replica.Raw(address) as late:
                for reply in (first, answers["waiting"], ask(raw, {"isMaster": 1}), ask(late, {"hello": 1})):
                    equal((reply["code"], reply["codeName"], reply["errmsg"]),
                          (91, "ShutdownInProgress", "The server is in quiesce mode and will shut down"))
                    need(0 < reply["remainingQuiesceTimeMillis"] <= 40000, reply)
                    equal(reply["topologyVersion"], dict(known, counter=known["counter"] + 1))
            equal(ask(raw, {"insert": "c", "documents": [{"_id": 2}]}, "test")["n"], 1)
            ask(raw, {"killOp": 1, "op": opid("find")})
        for thread in (read, stop):
            thread.join(30)
        equal((answers["find"]["code"], answers["shutdown"]["ok"]), (11601, 1))
        equal(server.process.wait(60), 0)


@probe("start", "conf.sec.keyfile")
def key_file(start):
    path = os.path.join(start.work, "key")
    with open(path, "w") as f:
        f.write("c2VjcmV0IGtleSBvZiB0aGUgc2V0\n")
    os.chmod(path, 0o600)
    with start.server("key_file", "--keyFile", path, "--replSet", "rs0") as server:
        equal(code_of(lambda: server.client.test.c.find_one()), 13)
        equal(server.client.admin.command("ping")["ok"], 1)


@probe("start", "conf.inmemory", "x.inmemory")
def in_memory(start):
    with start.server("memory", "--storageEngine", "inMemory", "--inMemorySizeGB", "0.25") as server:
        server.client.test.c.insert_one({"_id": 1})
        equal(server.client.admin.command("serverStatus")["storageEngine"]["name"], "inMemory")
        equal(server.client.admin.command("serverStatus")["storageEngine"]["persistent"], False)
        equal(server.client.test.c.find_one(), {"_id": 1})


@probe("start", "conf.mmapv1")
def mapped(start):
    with start.server("mapped", "--storageEngine", "mmapv1", "--smallfiles", "--noprealloc") as server:
        server.client.test.c.insert_one({"_id": 1})
        status = server.client.admin.command("serverStatus")
        equal(status["storageEngine"]["name"], "mmapv1")
        need(status["backgroundFlushing"]["flushes"] >= 0 and "wiredTiger" not in status, "where mongostat reads flushes")
    with start.server("mapped", "--storageEngine", "mmapv1", "--smallfiles", "--noprealloc", keep=True) as server:
        equal(server.client.test.c.find_one(), {"_id": 1})

"""003: what mapped files and scans take of the machine's memory, sorts without an index, replica sets."""
import os
import re
import subprocess

import pymongo
from seed import MB, check, equal, step
from stall import STATE


@step("003", "straceを使ってmongodプロセスを追ってみると")
def the_file_is_mapped(bench):
    """`mmap(..., MAP_SHARED, 6, 0)` without MAP_LOCKED: the system may take the memory back."""
    server = STATE["server"]
    with open("/proc/%d/smaps" % server.process.pid) as f:
        maps = re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", f.read())
    mapped = [one for one in maps if one.split("\n")[0].endswith("/lmdb/data.mdb")]
    check("one mapping", len(mapped) == 1, [one.split("\n")[0] for one in mapped])
    check("shared", re.match(r"\S+ r-[w-]?-?s|\S+ r..s", mapped[0]), mapped[0].split("\n")[0])
    flags = re.search(r"VmFlags: (.*)", mapped[0]).group(1).split()
    check("not locked", "lo" not in flags and server.proc("VmLck") == 0, flags)
    check("only read", "wr" not in flags, flags)


@step("003", "/proc/PID/statusのVmRSS項目を見るのが確実です")
def resident_memory(bench):
    server = STATE["server"]
    resident, said = server.proc("VmRSS"), server.status()["mem"]["resident"]
    check("serverStatus.mem.resident is VmRSS", abs(resident / MB - said) <= 32, (resident / MB, said))
    with open("/proc/meminfo") as f:
        check("Mapped of the machine", re.search(r"^Mapped:\s+\d+ kB", f.read(), re.M), "")


@step("003", "MongoDBのデータファイルをcatして/dev/nullに流す")
def files_can_be_read_beside_the_server(bench):
    server = STATE["server"]
    done = subprocess.run("cat $(find . -type f) >/dev/null", shell=True, cwd=server.data, capture_output=True, text=True)
    equal("cat", (done.returncode, done.stderr), (0, ""))
    check("the server runs", server.client.test.test.find_one() is not None, "")


@step("003", "ソートをあっさりあきらめる")
def a_sort_without_an_index(bench):
    """It spills to disk; with `allowDiskUse: false` it fails with the advice of the article."""
    with bench.server("sort", "--setParameter", "internalQueryMaxBlockingSortMemoryUsageBytes=1000000") as server:
        c = server.client.test.c
        c.insert_many([{"_id": n, "a": (n * 7919) % 4001, "text": "x" * 1000} for n in range(4001)])
        found = [d["a"] for d in c.find({}, {"a": 1, "text": 1}).sort("a").allow_disk_use(True)]
        equal("spilled", found, sorted(found))
        try:
            list(c.find().sort("a").allow_disk_use(False))
            check("refused", False, "no error")
        except pymongo.errors.OperationFailure as error:
            equal("code", error.code, 292)
            check("advice", "Add an index" in str(error) or "add an index" in str(error) or "allowDiskUse" in str(error), str(error))
        c.create_index("a")
        equal("with an index", len(list(c.find().sort("a").allow_disk_use(False))), 4001)
        equal("with few results", [d["a"] for d in c.find({}, {"a": 1}).sort("a").limit(3).allow_disk_use(False)], [0, 1, 2])


@step("003", "/proc/sys/vm/swappinessを低い値にする")
def the_doctor_looks_at_swappiness(bench):
    done = subprocess.run([bench.nagi, "doctor", "--quick", "--dbpath", STATE["server"].data], capture_output=True, text=True)
    with open("/proc/sys/vm/swappiness") as f:
        swappiness = int(f.read())
    check("the doctor", "swap" in done.stdout, done.stdout)
    return "swappiness %d" % swappiness


@step("003", "インデックスの使用が正しくなされているか日々チェックしておく")
def queries_without_an_index(bench):
    server = STATE["server"]
    metrics = lambda: server.status()["metrics"]["queryExecutor"]["collectionScans"]["total"]
    before = metrics()
    server.client.test.test.find_one({"no": "index"})
    equal("counted", metrics(), before + 1)


@step("003", "MongoDB(Replica Sets)")
def a_replica_set(bench):
    with bench.server("set", "--replSet", "rs0", "--initiate") as server:
        hello = server.client.admin.command("hello")
        equal("the set", (hello["setName"], hello["isWritablePrimary"]), ("rs0", True))
        equal("majority", server.client.test.c.with_options(write_concern=pymongo.WriteConcern("majority")).insert_one({}).acknowledged, True)

"""000: one writer and one counter, the log of the server meanwhile, and files that are used again after a drop."""
import os
import threading
import time

from legacy import Legacy
from seed import FULL, MB, check, equal, step, wait_until

DOCUMENTS = 800_000 if FULL else 15_000
# On a machine that is busy with other work an insert may wait for the processor.
INSERT_MS_MAX = 500 if FULL else 5000
STATE = {}


def program(server, documents):
    """What MMongoTest1.java does, with the messages of its driver: inserts random strings of 1,024 characters one by one,
    and counts once a second in another thread. Returns the counts and the milliseconds of the slowest insert and count."""
    counts, worst, done = [], [0, 0], threading.Event()

    def count():
        client = Legacy(server.port)
        while not done.is_set():
            begin = time.monotonic()
            reply = client.command("test", {"count": "test", "query": {}, "fields": None})
            counts.append(int(reply["n"]))
            worst[1] = max(worst[1], (time.monotonic() - begin) * 1000)
            done.wait(1)
    counter = threading.Thread(target=count)
    counter.start()
    client = Legacy(server.port)
    for _ in range(documents):
        begin = time.monotonic()
        error = client.insert_safe("test", "test", {"data": os.urandom(1024).decode("latin-1")})
        worst[0] = max(worst[0], (time.monotonic() - begin) * 1000)
        if error.get("err") is not None:
            check("insert", False, error)
            break
    done.set()
    counter.join()
    return counts, worst


@step("000", "mapped:976")
def begin_mapped(bench):
    """The server that the steps below use; the line about memory appears a minute after its start."""
    STATE["server"] = bench.server("mapped", "--storageEngine", "mmapv1").__enter__()
    STATE["begin"] = time.monotonic()


@step("000", "java test.MMongoTest1 127.0.0.1 800000")
def inserts_do_not_freeze(bench):
    server = STATE["server"]
    counts, (insert_ms, count_ms) = program(server, DOCUMENTS)
    check("counts grow", counts == sorted(counts), counts)
    check("no insert waits", insert_ms < INSERT_MS_MAX, insert_ms)
    check("no count waits", count_ms < INSERT_MS_MAX, count_ms)
    equal("all are there", server.client.test.test.estimated_document_count(), DOCUMENTS)
    return "%d inserts, the slowest %.0f ms, the slowest count %.0f ms" % (DOCUMENTS, insert_ms, count_ms)


@step("000", "[initandlisten] journal dir=/fast/testdb/journal")
def lines_of_the_start(bench):
    server = STATE["server"]
    lines = {line["msg"]: line for line in server.lines()}
    check("journal dir", "journal dir=%s/journal" % server.data in lines, list(lines))
    check("recover", any("no recovery needed" in msg for msg in lines), list(lines))
    equal("options", lines["Options set by command line"]["attr"]["options"]["storage"]["dbPath"], server.data)
    check("pid, port and dbpath", lines["Nagi starting"]["attr"]["port"] == server.port, lines["Nagi starting"])
    equal("waiting for connections", lines["Waiting for connections"]["attr"]["port"], server.port)
    check("connection accepted", lines["Connection accepted"]["ctx"] == "listener", lines["Connection accepted"])


@step("000", "[conn1] build index done 0 records 0 secs")
def line_of_the_first_index(bench):
    lines = [line for line in STATE["server"].lines() if line["msg"] == "Index build: done building"]
    built = [line["attr"]["index"] for line in lines if line["attr"]["namespace"] == "test.test"]
    equal("the index of _id", built, ["_id_"])


@step("000", "[conn1] insert test.test 719ms")
def slow_inserts_are_logged(bench):
    server = STATE["server"]
    server.client.test.command("profile", 0, slowms=-1)
    legacy = Legacy(server.port)
    legacy.insert_safe("test", "slow", {"_id": 1})
    server.client.test.command("profile", 0, slowms=100)
    slow = [line["attr"] for line in server.lines() if line["msg"] == "Slow query" and line["attr"].get("ns") == "test.slow"]
    check("a line of the insert with its time", any("durationMillis" in attr and attr.get("ninserted") == 1 for attr in slow), slow)


@step("000", "データベースファイルが必要な数だけ生成されるのを確認したら、insertを終了します。")
def files_of_the_engine(bench):
    """`ls -l`: a file of 64 MB, 192 MB, 448 MB ..., and log files in journal/. The gauges say the same."""
    server = STATE["server"]
    server.client.test.command("compact", "test")  # writes what is in memory only
    file = os.stat(os.path.join(server.data, "lmdb", "data.mdb"))
    storage = server.status()["nagi"]["storage"]
    equal("the size", storage["disk_bytes"], file.st_size)
    check("allocated ahead", file.st_blocks * 512 >= storage["disk_used_bytes"] and file.st_size > storage["disk_used_bytes"], storage)
    steps = (file.st_size - 24576) // MB
    check("by steps of 64, 128, 256 ... MB", any(steps == 64 * (2 ** n - 1) for n in range(1, 8)), steps)
    names = os.listdir(os.path.join(server.data, "journal"))
    check("log files", any(name.startswith("j._") for name in names), names)
    return "data.mdb has %d MB, of which %d MB are used" % (file.st_size // MB, storage["disk_used_bytes"] // MB)


@step("000", "/fast/testdb/test.ns, size: 16MB")
def namespaces(bench):
    """What a `.ns` file contained: the namespaces of a database, as old shells read them."""
    legacy = Legacy(STATE["server"].port)
    names = [one["name"] for one in legacy.query("test.system.namespaces", {})]
    check("collection and index", {"test.test", "test.test.$_id_"} <= set(names), names)
    indexes = legacy.query("test.system.indexes", {"ns": "test.test"})
    equal("indexes", [(one["key"], one["ns"]) for one in indexes], [({"_id": 1}, "test.test")])


@step("000", "コレクションを削除しても、プリアロケート済みのデータベースファイルは削除されず、次回再利用されます。")
def files_are_used_again_after_a_drop(bench):
    server = STATE["server"]
    storage = lambda: server.status()["nagi"]["storage"]
    used = storage()["disk_used_bytes"]
    bench.shell(server, "db.test.drop();")
    check("the drop reaches the file", wait_until(lambda: storage()["ranges_to_reclaim"] == 0, 60), storage())
    server.client.test.command("compact", "slow")
    before = os.stat(os.path.join(server.data, "lmdb", "data.mdb")).st_size
    allocated = len(server.said("done allocating datafile"))
    counts, (insert_ms, _) = program(server, DOCUMENTS)
    server.client.test.command("compact", "test")
    after = os.stat(os.path.join(server.data, "lmdb", "data.mdb")).st_size
    again = storage()["disk_used_bytes"]
    check("the space is used again", again < used * 1.6, (used, again))
    check("the file does not shrink", after >= before, (before, after))
    check("nothing was allocated", len(server.said("done allocating datafile")) == allocated, server.said("done alloc"))
    check("no insert waits", insert_ms < INSERT_MS_MAX, insert_ms)
    return "%d MB before, %d MB after; %d MB used before, %d MB after" % (before // MB, after // MB, used // MB, again // MB)


def end_mapped(bench):
    """The last step of all: the line about memory, and the end of connections."""
    server = STATE["server"]
    pattern = r"^mem \(MB\) res:(\d+) virt:(\d+) mapped:(\d+)$"
    check("after a minute", wait_until(lambda: server.said(pattern), 75), server.lines()[-3:])
    line = [line for line in server.lines() if line["msg"].startswith("mem (MB)")][0]
    equal("of the thread", line["ctx"], "clientcursormon")
    resident, virtual, mapped = [int(n) for n in server.said(pattern)[0].groups()]
    check("plausible", 0 < resident < virtual and 0 < mapped < virtual, line)
    mem = server.status()["mem"]
    check("serverStatus.mem", mem["mapped"] >= mapped and abs(mem["virtual"] - virtual) < 2048, (mem, line))
    check("end connection", server.said("Connection ended"), "")
    server.__exit__()
    return line["msg"]

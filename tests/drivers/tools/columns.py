"""Every column of mongostat and mongotop: columns.py MONGOSTAT MONGOTOP NAGI FOLDER PORT

Three servers - the default engine, the mapped one, a replica set - are watched by both tools in all of their formats while
a load runs whose operations are counted and whose proportions are known. The columns must follow it: rates, the caches,
flushes, the memory of the process, connections, queued and active operations, network.
"""
import json
import os
import re
import subprocess
import sys
import threading
import time

import pymongo
from pymongo.errors import PyMongoError

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "oplog"), os.path.join(HERE, "..", "common")]
from server import Server  # noqa: E402
from checks import Running, check, equal, finish, wait_until  # noqa: E402

STAT, TOP, NAGI, FOLDER, PORT = sys.argv[1:5] + [int(sys.argv[5])]
ROWS = 3
CACHE_GB = 0.25
EXTRA_CONNECTIONS = 40
LARGE_DOCUMENTS, LARGE_BYTES = 4000, 10_000
FLUSHES, FLUSHED_DOCUMENTS = 2, 4000
# What one round of the load does, as the counters of operations see it.
ROUND = {"insert": 10, "query": 21, "update": 5, "delete": 3, "getmore": 5, "command": 4}
EVERYWHERE = ["insert", "query", "update", "delete", "getmore", "command", "flushes", "vsize", "res", "qrw", "arw", "net_in", "net_out", "conn", "time"]
COLUMNS = {
    "default": EVERYWHERE + ["dirty", "used"],
    "mapped": EVERYWHERE + ["faults"],
    "set": EVERYWHERE + ["dirty", "used", "set", "repl"],
}
# With --all. Of a mapped engine there are also `mapped`, which mongostat fills for mongos only, and `lrw` and `lrwt`, which are
# empty until operations have waited for locks of collections.
ALL = {"default": [], "mapped": ["nonmapped"], "set": []}


class Load:
    """Rounds of operations in known proportions, from one thread."""

    def __init__(self, uri):
        self.uri, self.rounds, self.stopping = uri, 0, threading.Event()
        client = pymongo.MongoClient(uri)
        client.loaded.read.insert_many([{"_id": n, "v": "x" * 500} for n in range(1000)])
        client.close()

    def __enter__(self):
        self.began = time.monotonic()
        self.thread = Running(self.run)
        return self

    def __exit__(self, *_):
        self.stopping.set()
        equal("the load had no error", self.thread.code(), None)
        self.seconds = time.monotonic() - self.began

    def run(self):
        client = pymongo.MongoClient(self.uri, retryWrites=False)
        read, written = client.loaded.read, client.loaded.written
        while not self.stopping.is_set():
            n = self.rounds * 10
            written.insert_many([{"_id": n + k, "v": "y" * 200} for k in range(10)])
            for k in range(20):
                read.find_one({"_id": (n * 7 + k) % 1000})
            for k in range(5):
                written.update_one({"_id": n + k}, {"$set": {"u": k}})
            for k in range(3):
                written.delete_one({"_id": n + k})
            assert len(list(read.find(limit=60, batch_size=10))) == 60
            for _ in range(4):
                client.admin.command("ping")
            self.rounds += 1
        client.close()


class Watcher:
    """A tool in the background. One without a number of rows runs until `finish`."""

    def __init__(self, *command):
        self.command, self.lines = command, []
        self.is_endless = "--rowcount" not in command
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.thread = Running(self.read)

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def until(self, count):
        """Waits until so many lines are there."""
        what = " ".join(self.command[3:])
        check("%s prints" % what, wait_until(lambda: len(self.lines) >= count or self.process.poll() is not None, 60), self.lines)

    def finish(self):
        """Ends it, or waits for its end. What it has printed is in `lines`."""
        if self.is_endless:
            self.process.terminate()
        status = self.process.wait(120)
        self.thread.code()
        check("exit status of %s" % " ".join(self.command[3:]), self.is_endless or status == 0, (status, self.process.stderr.read()[-500:]))

    def rows(self):
        """The rows of JSON, without the name of the host; a failed poll is a failure."""
        rows = [row for line in self.lines for row in json.loads(line).values()]
        check("no row of an error", rows and not any("error" in row for row in rows), rows)
        return [row for row in rows if "error" not in row]


def number(text):
    """The number of a column: `*12` counts replicated operations only, `12|0` adds those."""
    return float(text.lstrip("*").partition("|")[0].rstrip("%"))


def size(text):
    """Bytes of a column for people, such as 93.0M or 1.20G (powers of 1024) or 12.3k (of 1000, for bits)."""
    value, unit = re.fullmatch(r"([0-9.]+)([bkmBKMGT])", text).groups()
    return float(value) * {"b": 1, "k": 1e3, "m": 1e6, "B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}[unit]


def within(name, value, expected, factor):
    check(name, expected / factor <= value <= expected * factor, (value, expected))


def statm(pid, column):
    with open("/proc/%d/statm" % pid) as f:
        return int(f.read().split()[column]) * os.sysconf("SC_PAGE_SIZE")


# ---- what happens while the tools watch ---------------------------------------------------------------

def fill_large(client):
    """A large collection, in files."""
    large = client.loaded.large
    noise = os.urandom(1 << 19).hex()
    for start in range(0, LARGE_DOCUMENTS, 100):
        large.insert_many([{"_id": n, "v": noise[n * 97 % 1_000_000:][:LARGE_BYTES]} for n in range(start, start + 100)])
    client.admin.command("fsync")


def read_large(client):
    for _ in range(2):
        sum(1 for _ in client.loaded.large.find({}, {"v": 1}))


def slow_reads(uri, count):
    """So many queries of a second and a half."""
    def slow():
        client = pymongo.MongoClient(uri)
        list(client.loaded.read.find({"$where": "sleep(150) || true"}).limit(10))
        client.close()
    return [Running(slow) for _ in range(count)]


def events(server):
    """Meanwhile: a cache that fills, flushes, connections, queries that wait for tickets. Returns the flushes."""
    client = server.client
    open_ones = [pymongo.MongoClient(server.uri, maxPoolSize=1) for _ in range(EXTRA_CONNECTIONS)]
    for one in open_ones:
        one.admin.command("ping")
    for one in slow_reads(server.uri, 9):
        equal("a slow query", one.code(), None)
    flushes = FLUSHES
    for _ in range(flushes):
        client.loaded.flushed.insert_many([{"v": "z" * 1000} for _ in range(FLUSHED_DOCUMENTS)])
        client.loaded.command("compact", "flushed", force=True)  # fsync syncs the log, which is no flush of a memtable
    read_large(client)
    return open_ones, flushes


# ---- mongostat ------------------------------------------------------------------------------------------

def check_rates(rows, load):
    """The columns of operations have the proportions of the load, and its speed."""
    sums = {name: sum(number(row[name]) for row in rows) for name in ROUND}
    rounds = sums["update"] / ROUND["update"]
    within("rounds of the load in a second", rounds / len(rows), load.rounds / load.seconds, 2.5)
    sums["insert"] -= FLUSHES * FLUSHED_DOCUMENTS
    for name in ("insert", "query", "delete", "getmore"):
        within("%s in proportion to update" % name, sums[name], rounds * ROUND[name], 1.35)
    check("commands of the load", sums["command"] >= rounds * ROUND["command"] * 0.8, sums)
    check("no replicated operations", all(row["command"].endswith("|0") for row in rows), rows[-1])


def check_memory(rows, people, pid):
    seen, own = number(rows[-1]["res"]), statm(pid, 1)
    within("res in bytes follows the process", seen, own, 1.4)
    within("vsize in bytes follows the process", number(rows[-1]["vsize"]), statm(pid, 0), 1.4)
    within("res for people", size(people[-1]["res"]), seen, 1.4)
    check("vsize for people", size(people[-1]["vsize"]) > 0, people[-1]["vsize"])


def check_cache(rows, after):
    used = [number(row["used"]) for row in rows]
    dirty = [number(row["dirty"]) for row in rows]
    check("used grows by the documents that were read", max(used) >= used[0] + 100 * LARGE_DOCUMENTS * LARGE_BYTES / (CACHE_GB * 2**30) / 4, used)
    check("used never exceeds the limit", all(0 <= one <= 100 for one in used), used)
    cache = after["wiredTiger"]["cache"]
    at_last = 100 * cache["bytes currently in the cache"] / cache["maximum bytes configured"]
    check("used at last is that of serverStatus", abs(used[-1] - at_last) <= 3, (used, at_last))
    check("dirty shows the written and not flushed", max(dirty) > 0.3, dirty)


def check_row_formats(name, rows):
    for row in rows:
        for column in COLUMNS[name]:
            check("%s: %s is filled" % (name, column), row.get(column, "") != "", row)
        check("%s: time" % name, re.fullmatch(r"\d\d:\d\d:\d\d", row["time"]), row["time"])
        check("%s: qrw and arw" % name, all(re.fullmatch(r"\d+\|\d+", row[column]) for column in ("qrw", "arw")), row)
    unknown = set(rows[0]) - set(COLUMNS[name]) - {"mapped"}
    equal("%s: no other columns" % name, unknown, set())


def check_mongostat(server, name, tools, load, statuses, flushes):
    before, after = statuses
    people, rows, every = (tools[key].rows() for key in ("json", "bytes", "all"))
    check_row_formats(name, people)
    check_rates(people, load)
    check_memory(rows, people, server.process.pid)
    grown = [after["network"][key] - before["network"][key] for key in ("bytesIn", "bytesOut")]
    for column, whole in zip(("net_in", "net_out"), grown):
        within("%s: %s in bytes" % (name, column), sum(number(row[column]) for row in rows), whole, 2.5)
        check("%s: %s for people" % (name, column), all(size(row[column]) > 0 for row in people), people)
    check("%s: conn" % name, max(int(row["conn"]) for row in people) >= EXTRA_CONNECTIONS + 5, [row["conn"] for row in people])
    check("%s: active readers" % name, max(int(row["arw"].split("|")[0]) for row in people) >= 2, [row["arw"] for row in people])
    queued = [int(row["qrw"].split("|")[0]) for row in people]
    check("%s: queued readers" % name, (max(queued) >= 1 or name == "mapped") and max(queued) <= 9 and min(queued) == 0, queued)
    seen = sum(int(row["flushes"]) for row in people)
    if name == "mapped":
        check("%s: faults" % name, all(int(row["faults"]) >= 0 for row in people), people[-1])
        check("%s: flushes" % name, seen >= 1, seen)
    else:
        check("%s: flushes" % name, seen >= flushes, (seen, flushes))
        check_cache(people, after)
    for row in every:
        for column in ALL[name]:
            check("%s: --all has %s" % (name, column), row.get(column, "") != "", row)
    if name == "set":
        equal("set and repl", {(row["set"], row["repl"]) for row in people}, {("rs0", "SLV")})  # this version reads `ismaster`, which was renamed in 5.0


def check_formats(server, name, tools):
    """Output as a table, custom columns, old names of columns, and the discovery of members."""
    grid = tools["grid"].lines
    head, body = grid[0].split(), [line.split() for line in grid[1:]]
    words = len(head) + 2 - ("mapped" in head)  # a time has three words, and `mapped` none
    check("%s: head of the table" % name, head[:6] == ["insert", "query", "update", "delete", "getmore", "command"] and head[-1] == "time", head)
    check("%s: rows of the table" % name, len(body) == ROWS and all(len(row) == words for row in body), body)
    without = tools["without head"].lines
    check("%s: --noheaders" % name, len(without) == 2 and not without[0].strip().startswith("insert"), without)
    custom = tools["custom"].rows()
    paths = ["metrics.document.inserted.diff()", "metrics.document.inserted.rate()", "mem.bits", "host", "version", "no.such"]
    equal("%s: -o has these columns" % name, sorted(custom[0]), sorted(paths[:5] + ["nothing"]))
    check("%s: .diff() and .rate()" % name, sum(int(row[paths[0]]) for row in custom) > 0 and max(int(row[paths[1]]) for row in custom) > 0, custom)
    equal("%s: fields of serverStatus" % name, [(row["mem.bits"], row["nothing"]) for row in custom], [("64", "INVALID")] * len(custom))
    more = tools["appended"].rows()
    check("%s: -O adds to the usual ones" % name, all(int(row["network.numRequests"]) > 0 and row["insert"] for row in more), more)
    old = tools["old names"].rows()
    wanted = {"ar|aw", "qr|qw", "netIn", "netOut"} | ({"% used", "% dirty"} if name != "mapped" else {"faults"})
    check("%s: --useDeprecatedJsonKeys" % name, all(wanted <= set(row) for row in old), old)
    if "discover" in tools:
        hosts = [host for line in tools["discover"].lines for host in json.loads(line).items()]
        equal("members that --discover finds", {host for host, _ in hosts}, {"127.0.0.1:%d" % server.port})
        # Its clock is not that of the polls: a row may come before there is new data, and says so.
        good = [row for _, row in hosts if row.get("error") != "no data received"]
        check("rows of --discover", good and all(row.get("set") == "rs0" for row in good), hosts)


def watch(server, name):
    """Starts mongostat and mongotop in every format."""
    stat = [STAT, "--uri", "mongodb://127.0.0.1:%d/" % server.port]
    top = [TOP, "--uri", "mongodb://127.0.0.1:%d/" % server.port]
    few = ["--rowcount", "2"]
    tools = {
        "json": Watcher(*stat, "--json"),
        "bytes": Watcher(*stat, "--json", "--humanReadable=false"),
        "all": Watcher(*stat, *few, "--json", "--all"),
        "grid": Watcher(*stat, "--rowcount", str(ROWS)),
        "without head": Watcher(*stat, *few, "--noheaders"),
        "custom": Watcher(*stat, *few, "--json", "-o", "metrics.document.inserted.diff(),metrics.document.inserted.rate(),mem.bits,host,version,no.such=nothing"),
        "appended": Watcher(*stat, *few, "--json", "-O", "network.numRequests"),
        "old names": Watcher(*stat, *few, "--json", "--useDeprecatedJsonKeys"),
        "top": Watcher(*top, "--json"),
        "top grid": Watcher(*top, "--rowcount", "1"),
    }
    if name == "set":
        tools["discover"] = Watcher(*stat, *few, "--json", "--discover")
    return tools


# ---- mongotop -------------------------------------------------------------------------------------------

def check_mongotop(server, name, tools):
    tops = [json.loads(line)["totals"] for line in tools["top"].lines]
    check("%s: rows of mongotop" % name, len(tops) >= 3, len(tops))
    for totals in tops:
        for ns, one in totals.items():
            good = one["total"]["count"] >= one["read"]["count"] + one["write"]["count"] and all(0 <= part["time"] <= 60_000 for part in one.values())
            check("%s: total has reads and writes" % ns, good, one)

    def total(ns, kind, what):
        return sum(totals.get(ns, {kind: {what: 0}})[kind][what] for totals in tops)
    check("%s: reads of the collection that is read" % name, total("loaded.read", "read", "count") > 100 and total("loaded.read", "read", "time") > 0, tops[-1])
    equal("%s: no writes there" % name, total("loaded.read", "write", "count"), 0)
    check("%s: writes of the written" % name, total("loaded.written", "write", "count") > 50 and total("loaded.written", "write", "time") >= 0, tops[-1])
    grid = [line for line in tools["top grid"].lines if line.strip()]
    check("%s: head of mongotop" % name, grid[0].split()[:4] == ["ns", "total", "read", "write"], grid[0])
    check("%s: the collections are there" % name, any(re.match(r"\s*loaded\.read\s+\d+ms\s+\d+ms\s+\d+ms", line) for line in grid), grid)
    locks = subprocess.run([TOP, "--uri", "mongodb://127.0.0.1:%d/" % server.port, "--locks", "--rowcount", "1"], capture_output=True, text=True, timeout=60)
    check("%s: --locks as since MongoDB 3.0" % name, locks.returncode != 0 and "does not support reporting lock information" in locks.stderr, locks.stderr)


class Watched(Server):
    """A server with five tickets for reads, so that queries wait for them."""

    def __init__(self, name, member, *more):
        usual = ["--wiredTigerCacheSizeGB", str(CACHE_GB), "--setParameter", "storageEngineConcurrentReadTransactions=5", "--setParameter",
                 "ttlMonitorSleepSecs=1"]
        super().__init__(NAGI, os.path.join(FOLDER, name), PORT, member, [*usual, *more])
        wait_until(lambda: self.client.admin.command("hello")["isWritablePrimary"])

        fill_large(self.client)
        self.stop()  # the cache is empty after a start
        self.start()

    def status(self):
        return self.client.admin.command("serverStatus")


def main():
    for name, member, more in (("default", False, []), ("mapped", False, ["--storageEngine=mmapv1", "--syncdelay=1"]), ("set", True, [])):
        server = Watched(name, member, *more)
        open_ones = []
        try:
            load = Load(server.uri)
            with load:
                wait_until(lambda: load.rounds > 2)
                before, tools = server.status(), watch(server, name)
                endless = [tool for tool in tools.values() if tool.is_endless]
                for tool in endless:
                    tool.until(1)
                open_ones, flushes = events(server)
                for tool in endless:
                    tool.until(len(tool.lines) + 2)
                after = server.status()
                for tool in tools.values():
                    tool.finish()
            check_mongostat(server, name, tools, load, (before, after), flushes)
            check_formats(server, name, tools)
            check_mongotop(server, name, tools)
        except (KeyError, ValueError, AttributeError, PyMongoError) as error:
            check("%s: %r" % (name, error), False)
        finally:
            for one in open_ones:
                one.close()
            server.stop()
        print("columns of %s checked" % name, flush=True)
    finish("mongostat and mongotop")


if __name__ == "__main__":
    main()

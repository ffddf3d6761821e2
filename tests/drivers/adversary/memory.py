"""Tests the memory bound of the process with requests that use as much memory as they can: memory.py NAGI
FOLDER [--gb 0.25] [--parallel 1,8,24] [--seconds N] [--kinds PATTERN] [--generated].

Each kind of memory_kinds.py, and with `--generated` of memory_generated.py, runs several times concurrently, on
a server of its own. These must hold: resident memory, sampled every 20 ms, stays below cacheSizeGB x 1.10 + 64
MiB; the server stays alive; the requests of another client (probe.py) succeed meanwhile. The client's p99, less
the time for which it was runnable without a processor (as if it ran on another machine), must stay below
`--factor` times its value before (10; 0 disables the check; the best of three runs counts). Idle cursors are
tested at the end, and then documents of 14 MB with 24 clients, in a replica set. `--seconds` stops the run after
the kind that is running then; it is also the time limit of each request.
"""
import argparse
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, finish, require  # noqa: E402
from memory_generated import generated  # noqa: E402
from memory_kinds import KINDS, LARGE, LARGE_WRITES, fill, fill_large  # noqa: E402

INVENTORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docs", "features.tsv")
# A p99 below this is not significant; neither is a single larger one among many.
P99_FLOOR_MS = 5
WINDOWS = 3
# Longer than any noise of the machine.
STALL_MS = 5000


class Server:
    def __init__(self, nagi, folder, gb, *options):
        with socket.socket() as s:
            s.bind(("127.0.0.1", int(os.environ.get("PORT", 0))))
            self.port = s.getsockname()[1]
        self.bound = int(gb * 1024 * 1.10 + 64) << 20
        os.makedirs(folder + "/data", exist_ok=True)
        self.process = subprocess.Popen([nagi, "serve", "--dbpath", folder + "/data", "--port", str(self.port), "--bind_ip", "127.0.0.1",
                                         "--logpath", folder + "/nagi.log", "--wiredTigerCacheSizeGB", str(gb), *options],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = self.connect()
        self.client.admin.command("ping")

    def connect(self):
        return MongoClient("127.0.0.1", self.port, serverSelectionTimeoutMS=60_000, socketTimeoutMS=180_000, directConnection=True, maxPoolSize=100)

    def alive(self):
        return self.process.poll() is None

    def resident(self):
        try:
            with open("/proc/%d/statm" % self.process.pid) as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0


class Watch:
    """Measures the effect on others while something runs: latencies and errors of a small client in a process
    of its own, and the peak of resident memory."""

    def __init__(self, server):
        self.server, self.over, self.peak = server, threading.Event(), 0
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "probe.py")
        self.probe = subprocess.Popen([sys.executable, program, str(server.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self.measure, daemon=True).start()

    def begin(self):
        """Begins a new count."""
        self.end()
        self.peak = 0

    def end(self):
        """The measurements since the last count began."""
        self.probe.stdin.write("\n")
        self.probe.stdin.flush()
        return Seen(json.loads(self.probe.stdout.readline()))

    def measure(self):
        while not self.over.wait(0.02):
            self.peak = max(self.peak, self.server.resident())

    def close(self):
        self.over.set()
        self.probe.stdin.close()
        self.probe.wait(30)


class Seen:
    """The latencies of the small client, in milliseconds."""

    def __init__(self, lists):
        self.errors, self.lists = lists["errors"], lists

    def p99(self, name):
        seen = sorted(self.lists[name]) or [0.0]
        return seen[int(len(seen) * 0.99)]

    def __str__(self):
        return "%.1f ms, without its own wait for a processor %.1f" % (self.p99("all"), self.p99("remote"))


def at_once(run, times, db):
    """Runs something several times concurrently and counts the results."""
    results = []

    def one():
        try:
            run(db)
            results.append("ok")
        except OperationFailure as error:
            results.append(str(error.code))
        except Exception as error:  # also errors that the driver raises itself
            results.append(type(error).__name__)

    threads = [threading.Thread(target=one, daemon=True) for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
    return {result: results.count(result) for result in sorted(set(results))}


def run_kind(server, watch, name, run, times, factor, idle):
    what = "%s, %d at once" % (name, times)
    p99_max = max(idle.p99("remote"), P99_FLOOR_MS) * factor
    for _ in range(WINDOWS):
        watch.begin()
        begin = time.monotonic()
        results = at_once(run, times, server.client.bombs)
        took, seen = time.monotonic() - begin, watch.end()
        print("%-40s %6.1f s  peak %4d MiB  p99 %s, %.1f times idle  %s" % (
            what, took, watch.peak >> 20, seen, seen.p99("remote") / max(idle.p99("remote"), 0.1), results), flush=True)
        require(server.alive(), what + ": the server ended")
        check(what + ": the bound", watch.peak <= server.bound, "%d of %d MiB" % (watch.peak >> 20, server.bound >> 20))
        check(what + ": others", not seen.errors, seen.errors[:2])
        check(what + ": others do not stall", seen.p99("remote") < STALL_MS, "%.0f ms" % seen.p99("remote"))
        check(what + ": all ended", sum(results.values()) == times, results)
        if not factor or seen.p99("remote") <= p99_max:
            break
    else:
        check(what + ": p99 of others", False, "%.0f of %.0f ms" % (seen.p99("remote"), p99_max))


def idle_cursors(server, watch, count):
    """Opens cursors and leaves them idle: they are counted, and at the limit another cursor is refused instead
    of the process being killed."""
    watch.begin()
    db, opened, refused = server.client.bombs, 0, None
    plain = {"find": "c", "filter": {"k": {"$gte": 0}}, "batchSize": 1}
    # Their plans keep the arguments of the request.
    long = {"aggregate": "c", "pipeline": [{"$match": {"s": {"$nin": ["y" * 100 + str(n) for n in range(500)]}}}, {"$set": {"x": 1}}],
            "cursor": {"batchSize": 1}}
    for n in range(count):
        try:
            db.command(long if n % 2 else plain)
            opened += 1
        except OperationFailure as error:
            refused = error
            break
    used = server.client.admin.command("serverStatus")["nagi"]["memory"]["pools"]["openCursors"]
    print("%d idle cursors: %d KiB charged, peak %d MiB, then %s" % (opened, used["usedBytes"] >> 10, watch.peak >> 20, refused), flush=True)
    check("idle cursors: counted", used["usedBytes"] >= opened * 4096, used)
    check("idle cursors: within their pool", used["usedBytes"] <= used["limitBytes"], used)
    check("idle cursors: the bound", watch.peak <= server.bound, watch.peak >> 20)
    check("idle cursors: 146 beyond", refused is None or refused.code == 146, refused)
    seen = watch.end()
    check("idle cursors: others", not seen.errors, seen.errors[:2])


def settle(server):
    """Waits until no flush or compaction is running or due."""
    quiet, until = 0, time.monotonic() + 60
    while quiet < 10 and time.monotonic() < until:
        storage = server.client.admin.command("serverStatus")["nagi"]["storage"]
        busy = storage["flushes_running"] or storage["compactions_running"] or storage["compactions_pending_bytes"]
        quiet = 0 if busy else quiet + 1
        time.sleep(0.1)


def large_documents(given):
    """Documents near the limit of their size, in a replica set: its log has them, too."""
    kinds = [kind for kind in LARGE + LARGE_WRITES if re.search(given.kinds, kind[0])]
    if not kinds:
        return 0
    server = Server(given.nagi, given.folder + "-large", given.gb, "--replSet", "rs0", "--initiate")
    while not server.client.admin.command("hello").get("isWritablePrimary"):
        time.sleep(0.1)
    server.client.probed.c.insert_many([{"_id": i} for i in range(1000)])
    watch = Watch(server)
    try:
        fill_large(server.client.bombs)
        settle(server)
        for name, run in kinds:
            # Its processors are busy with copies: others are slower, but they must not wait for memory.
            run_kind(server, watch, name, run, 24, 0, watch.end())
        if any(kind in LARGE_WRITES for kind in kinds):
            settle(server)
            pool = server.client.admin.command("serverStatus")["nagi"]["memory"]["pools"]["compactions"]
            check("large: compactions were charged, and are no more", pool["peakBytes"] > 0 and pool["usedBytes"] == 0, pool)
    finally:
        watch.close()
        server.process.terminate()
    check("large: a clean end", server.process.wait(60) == 0, server.process.returncode)
    return len(kinds)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("nagi")
    options.add_argument("folder")
    options.add_argument("--gb", type=float, default=0.25)
    options.add_argument("--parallel", default="1,8,24")
    options.add_argument("--seconds", type=float, default=3600)
    options.add_argument("--kinds", default="")
    options.add_argument("--generated", action="store_true")
    options.add_argument("--cursors", type=int, default=10_000)
    options.add_argument("--factor", type=float, default=10)
    given = options.parse_args()
    server = Server(given.nagi, given.folder, given.gb)
    server.client.probed.c.insert_many([{"_id": i} for i in range(1000)])
    watch = Watch(server)
    try:
        fill(server.client.bombs)
        watch.begin()
        time.sleep(3)
        idle = watch.end()
        print("idle: p99 %s" % idle, flush=True)
        until, kinds = time.monotonic() + given.seconds, list(KINDS)
        made, uncovered = generated(INVENTORY)
        check("every row of the inventory has a kind or a reason", not uncovered, uncovered)
        if given.generated:
            kinds += made
        kinds = [kind for kind in kinds if re.search(given.kinds, kind[0])]
        require(kinds or any(re.search(given.kinds, name) for name, _ in LARGE + LARGE_WRITES), "no kind is called so: " + given.kinds)
        done = 0
        for name, run in kinds:
            for times in map(int, given.parallel.split(",")):
                if time.monotonic() < until:
                    run_kind(server, watch, name, run, times, given.factor, idle)
                    done += 1
        idle_cursors(server, watch, given.cursors)
        memory = server.client.admin.command("serverStatus")["nagi"]["memory"]
        check("no step above the bound", memory["timesOverBound"] == 0, "%d steps, at most %d MiB" % (memory["timesOverBound"], memory["residentBytesMax"] >> 20))
    finally:
        watch.close()
        server.process.terminate()
    check("a clean end", server.process.wait(60) == 0, server.process.returncode)
    done += large_documents(given)
    finish("memory bombs, %d runs of %d kinds" % (done, len(kinds)))


main()

"""Another client, in a process of its own: probe.py PORT PID. Reads and updates a small document about a hundred times a second.

Each line of input begins a new count; for each, a line of JSON says what was seen since the one before: milliseconds of every
read and update (`all`), the same less the time for which this process and the server's thread were ready and had no processor
(`own`: what the server made it wait for, and no other program of the machine), and errors.
"""
import glob
import json
import random
import select
import sys
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

PAUSE = 0.008


def schedule(path):
    """Milliseconds that a thread was ready without a processor, and how often it was given one."""
    try:
        with open(path) as file:
            _, waited, turns = file.read().split()
    except OSError:
        return 0.0, 0
    return int(waited) / 1e6, int(turns)


def connections(pid):
    """The files of those threads of a server that have a connection each."""
    for folder in glob.glob("/proc/%d/task/*" % pid):
        with open(folder + "/comm") as file:
            if file.read().strip() == "conn":
                yield folder + "/schedstat"


class Probe:
    def __init__(self, port, pid):
        client = MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=60_000, socketTimeoutMS=180_000, directConnection=True)
        self.db, self.threads = client.probed, ["/proc/thread-self/schedstat"]
        self.begin()
        self.round()
        # Of the threads of connections, this one's is the one that has a turn for each request.
        before = {path: schedule(path)[1] for path in connections(pid)}
        for _ in range(100):
            self.round()
        self.threads.append(max(before, key=lambda path: schedule(path)[1] - before[path]))
        self.begin()

    def begin(self):
        self.seen = {"all": [], "own": [], "errors": []}

    def ready(self):
        return sum(schedule(path)[0] for path in self.threads)

    def timed(self, work):
        ready, start = self.ready(), time.monotonic()
        try:
            work()
        except PyMongoError as error:
            self.seen["errors"].append(repr(error)[:200])
        took = (time.monotonic() - start) * 1000
        self.seen["all"].append(took)
        self.seen["own"].append(max(0.0, took - (self.ready() - ready)))

    def round(self):
        self.timed(lambda: self.db.c.find_one({"_id": random.randrange(1000)}))
        self.timed(lambda: self.db.p.update_one({"_id": random.randrange(50)}, {"$inc": {"n": 1}}, upsert=True))


def main():
    probe = Probe(int(sys.argv[1]), int(sys.argv[2]))
    while True:
        probe.round()
        time.sleep(PAUSE)
        if select.select([sys.stdin], [], [], 0)[0]:
            if not sys.stdin.readline():
                return
            print(json.dumps(probe.seen), flush=True)
            probe.begin()


main()

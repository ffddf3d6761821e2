"""Another client, in a process of its own: probe.py PORT. Reads and updates a small document about a hundred
times a second.

Each line of input begins a new count and prints a line of JSON with the measurements since the previous one:
milliseconds of every read and update (`all`), the same less the time for which this process was runnable
without a processor (`remote`: the latency of a client on another machine), and errors.
"""
import json
import random
import select
import sys
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

PAUSE = 0.008


def waited():
    """Milliseconds for which this thread was runnable without a processor."""
    try:
        with open("/proc/thread-self/schedstat") as file:
            return int(file.read().split()[1]) / 1e6
    except OSError:
        return 0.0


class Probe:
    def __init__(self, port):
        client = MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=60_000, socketTimeoutMS=180_000, directConnection=True)
        self.db = client.probed
        self.begin()
        for _ in range(100):
            self.round()
        self.begin()

    def begin(self):
        self.seen = {"all": [], "remote": [], "errors": []}

    def timed(self, work):
        before, start = waited(), time.monotonic()
        try:
            work()
        except PyMongoError as error:
            self.seen["errors"].append(repr(error)[:200])
        took = (time.monotonic() - start) * 1000
        self.seen["all"].append(took)
        self.seen["remote"].append(max(0.0, took - (waited() - before)))

    def round(self):
        self.timed(lambda: self.db.c.find_one({"_id": random.randrange(1000)}))
        self.timed(lambda: self.db.p.update_one({"_id": random.randrange(50)}, {"$inc": {"n": 1}}, upsert=True))


def main():
    probe = Probe(int(sys.argv[1]))
    while True:
        probe.round()
        time.sleep(PAUSE)
        if select.select([sys.stdin], [], [], 0)[0]:
            if not sys.stdin.readline():
                return
            print(json.dumps(probe.seen), flush=True)
            probe.begin()


main()

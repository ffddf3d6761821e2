"""Shutdown under load: it keeps its time limit, and no acknowledged write is lost.

Eight writers insert with a journaled write concern and note what was acknowledged; a query runs meanwhile that takes a
known time or does not end. Then the server is stopped by a signal or by `shutdown`, and started again.
"""
import signal
import time

import pymongo
from pymongo.errors import PyMongoError
from pymongo.write_concern import WriteConcern

from server import URI, Server, check, figure, wait_until
from checks import Running

WRITERS = 8
# Allowed beyond the limit: the flush at the end, on a machine that does other work.
GRACE_SECONDS = 10


class Writer:
    """Inserts until the server is gone; `acknowledged` has the ids that it has confirmed."""

    def __init__(self, port, number):
        self.port, self.number, self.acknowledged = port, number, []
        self.thread = Running(self.run)

    def run(self):
        client = pymongo.MongoClient(URI % self.port, retryWrites=False, socketTimeoutMS=60000)
        c = client.load.get_collection("docs", write_concern=WriteConcern(w=1, j=True))
        try:
            while True:
                key = "%d-%d" % (self.number, len(self.acknowledged))
                c.insert_one({"_id": key, "v": "x" * 300})
                self.acknowledged.append(key)
        except PyMongoError:
            pass
        finally:
            client.close()


class Reader:
    """A query that takes so many seconds; `outcome` is the number of its documents, or the code of its error."""

    def __init__(self, port, seconds):
        self.seconds, self.port = seconds, port
        self.thread = Running(self.run)

    def run(self):
        client = pymongo.MongoClient(URI % self.port, retryReads=False, socketTimeoutMS=120000)
        try:
            found = list(client.load.read.find({"$where": "sleep(%d) || true" % (self.seconds * 100)}, comment="the long one"))
            return len(found)
        finally:
            client.close()

    def outcome(self):
        self.thread.join(60)
        return getattr(self.thread.result, "code", self.thread.result)


def case(name, how, reader_seconds, at_least, at_most, finishes, member=False, options=()):
    """Stops a loaded server by `how`, checks the time in seconds, what became of the query, and the data after a restart."""
    args = ["--replSet", "rs0", "--initiate"] if member else []
    server = Server("stops", *args, *options)
    wait_until(lambda: server.admin.command("hello")["isWritablePrimary"], 60)
    server.client.load.read.insert_many([{"_id": n} for n in range(10)])
    writers = [Writer(server.port, number) for number in range(WRITERS)]
    reader = Reader(server.port, reader_seconds)
    query = {"command.comment": "the long one", "active": True}
    check("%s: the query runs" % name, wait_until(lambda: list(server.admin.aggregate([{"$currentOp": {}}, {"$match": query}])), 30))
    check("%s: writes run" % name, wait_until(lambda: all(len(writer.acknowledged) > 5 for writer in writers), 60))
    began = time.monotonic()
    how(server)
    status = server.wait(120)
    seconds = time.monotonic() - began
    server.client.close()
    check("%s: exit status 0" % name, status == 0, status)
    check("%s: between %.1f and %.1f s" % (name, at_least, at_most + GRACE_SECONDS), at_least <= seconds <= at_most + GRACE_SECONDS, seconds)
    outcome = reader.outcome()
    # An interrupted query has the error of the interruption, or its connection is closed first.
    check("%s: the query %s" % (name, "finishes" if finishes else "is interrupted"), (outcome == 10) == finishes, outcome)
    for writer in writers:
        writer.thread.join(60)
    acknowledged = {key for writer in writers for key in writer.acknowledged}
    server.start()
    found = {doc["_id"] for doc in server.client.load.docs.find({}, {"_id": 1})}
    check("%s: no acknowledged write is lost" % name, acknowledged <= found, sorted(acknowledged - found)[:5])
    check("%s: at most one more of each writer" % name, len(found - acknowledged) <= WRITERS, len(found - acknowledged))
    figure("stop by %s: %.2f s; %d acknowledged writes, all there; start %.2f s", name, seconds, len(acknowledged), server.start_seconds)
    server.remove()


def by_signal(server):
    server.process.send_signal(signal.SIGTERM)


def by_command(**options):
    def stop(server):
        try:
            server.admin.command("shutdown", 1, **options)
        except PyMongoError:
            pass  # the connection closes without a reply
    return stop


def run():
    case("SIGTERM", by_signal, 60, 0, 0, False)
    case("SIGTERM of a member, which lets a query finish", by_signal, 2, 0.5, 15, True, member=True)
    limit = ["--setParameter", "shutdownTimeoutMillisForSignaledShutdown=2000"]
    case("SIGTERM of a member with a limit of 2 s", by_signal, 60, 1.9, 2, False, member=True, options=limit)
    case("shutdown, which lets a query finish", by_command(timeoutSecs=30), 2, 0.5, 30, True)
    case("shutdown with timeoutSecs of 2", by_command(timeoutSecs=2), 60, 1.9, 2, False)
    case("shutdown by force", by_command(force=True), 60, 0, 0, False)

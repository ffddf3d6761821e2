"""Moving in and out of a cluster, for tikv.py: `nagi copy` from an embedded server to a server over the cluster and from
there to another embedded server, each under writers; mongodump and mongorestore the same way."""
import os
import shutil
import subprocess
import sys

from bson import ObjectId, Timestamp
from pymongo import MongoClient

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "copy"))
from checks import check, equal, wait_until  # noqa: E402
from load import Load  # noqa: E402
from nodes import FOLDER  # noqa: E402
from servers import Copy, Server, contents  # noqa: E402

# The databases of this part; the other parts leave theirs behind.
OURS = ("inside", "busy", "other")
INCLUDED = [word for name in OURS for word in ("--include", name)]


def fill(client):
    db = client.inside
    db.plain.insert_many({"_id": n, "n": n, "s": "x" * 100} for n in range(3000))
    db.plain.create_index("n", unique=True)
    db.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True})
    db.clustered.insert_many({"_id": one} for one in (1, "a", 2.5, ObjectId(), {"a": 1}, b"x"))
    db.create_collection("collated", collation={"locale": "en", "strength": 2})
    db.collated.insert_many({"_id": word, "t": Timestamp(0, 0)} for word in ("a", "B", "c"))
    db.create_collection("view", viewOn="plain", pipeline=[{"$match": {"n": 1}}])
    db.create_collection("checked", validator={"n": {"$type": "int"}})
    db.create_collection("series", timeseries={"timeField": "t", "metaField": "m"})
    db.expiring.create_index("d", expireAfterSeconds=500_000)


def of(client):
    """What a server has of this part. `system.js` and internal collections apart, since they are of no interest here."""
    return {name: what for name, what in contents(client).items() if name[0] in OURS}


def alike(name, one, other):
    here, there = of(one), of(other)
    equal(name + ": names", sorted(here), sorted(there))
    for key in here.keys() & there.keys():
        for what, left, right in zip(("options", "documents", "indexes"), here[key], there[key]):
            seen = (len(left), len(right)) if what == "documents" else (left, right)
            check("%s: %s of %s.%s" % (name, what, *key), left == right, seen)


def moved(name, source, target):
    """Copies under writers, until the source is blocked."""
    load = Load(source.uri, structures=False)
    copy = Copy(source, target, *INCLUDED)
    follows = wait_until(lambda: "follows the changes" in copy.text() or copy.process.poll() is not None, 90)
    check(name + ": it follows", follows and copy.process.poll() is None, copy.text())
    before = load.count
    check(name + ": writers go on", wait_until(lambda: load.count > before + 30), (before, load.count))
    copy.kill()
    status, said = Copy(source, target, *INCLUDED, "--cutOver", "--verify").end(180)
    check(name + ": the end", status == 0 and "all documents compared" in said, (status, said))
    equal(name + ": writers", load.ended(), [])
    alike(name, source.client, target.client)
    source.client.admin.command({"setUserWriteBlockMode": 1, "global": False})


class Over:
    """The server over the cluster, as one that can be copied."""

    def __init__(self, node):
        self.uri = "mongodb://127.0.0.1:%d" % node.port
        self.client = MongoClient(self.uri)


def clear(*clients):
    for client in clients:
        for name in OURS:
            client.drop_database(name)


def tool(name, *args):
    done = subprocess.run([os.path.join(os.environ["TOOLS"], name), *args], capture_output=True, text=True, timeout=120)
    check("%s %s" % (name, args[1]), done.returncode == 0, done.stderr[-800:])


def dumped(name, source, target):
    """The same with the tools, without writers."""
    folder = os.path.join(FOLDER, "dump")
    shutil.rmtree(folder, ignore_errors=True)
    for db in OURS:
        tool("mongodump", "--uri", source.uri, "--db", db, "--out", folder)
    tool("mongorestore", "--uri", target.uri, folder)
    alike(name, source.client, target.client)


def copies(node):
    over = Over(node)
    inside = Server("inside", "--replSet", "in", "--initiate")
    outside = Server("outside", "--replSet", "out", "--initiate")
    try:
        clear(over.client)
        fill(inside.client)
        moved("into the cluster", inside, over)
        if os.environ.get("TOOLS"):
            clear(over.client)
            dumped("dumped into the cluster", inside, over)
            dumped("dumped out of the cluster", over, outside)
            clear(outside.client)
        # Transactions of other routers are waited for this long.
        over.client.admin.command("setParameter", 1, transactionLifetimeLimitSeconds=5)
        moved("out of the cluster", over, outside)
    finally:
        over.client.admin.command("setParameter", 1, transactionLifetimeLimitSeconds=60)
        clear(over.client)
        over.client.close()
        for server in inside, outside:
            server.end()

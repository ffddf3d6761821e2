"""MongoDB's tools on the log: tools.py NAGI MONGODUMP MONGORESTORE FOLDER PORT [SECONDS].

1. `mongodump --oplog` during a load; `mongorestore --oplogReplay` of it on another server, which must then have
   exactly what the source's log says for the time at which the dump ended.
2. `mongodump` of the whole log, and `mongorestore --oplogReplay --oplogLimit` of it to moments of the load, which has
   renames as well. (The tool refuses a dump during renames.)
"""
import os
import random
import shutil
import sys
import time

import bson

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from load import Load  # noqa: E402
from model import differences, found, model_at, read_log  # noqa: E402
from server import Server, run  # noqa: E402
from checks import check, equal, finish, require, wait_until  # noqa: E402

NAGI, DUMP, RESTORE, FOLDER, PORT = sys.argv[1:5] + [int(sys.argv[5])]
SECONDS = float(sys.argv[6]) if len(sys.argv) > 6 else 1.0
DUMPED, LOGGED = 8000, 500  # documents before the load


def path(name):
    return os.path.join(FOLDER, name)


def begin(name, documents, renames):
    source = Server(NAGI, path(name), PORT)
    db = source.client.load
    db.create_collection("capped", capped=True, size=4096, max=30)
    # The dump takes a while, and finds documents that were changed after it began.
    db.a.insert_many([{"_id": i, "k": i % 20, "n": 0, "a": [1, 2, 3], "d": {"x": 0, "p": os.urandom(2000)}} for i in range(documents)])
    load = Load(source.uri, random.randrange(10**6), renames=renames, pace=0.002)
    require(wait_until(lambda: load.done > 100), "the load begins")
    return source, load


def end(source, load):
    load.stop()
    equal("only expected errors", load.errors, [])
    entries = list(read_log(source.client))
    check("the log is the data", not differences(model_at(entries).state(), found(source.client)),
          differences(model_at(entries).state(), found(source.client)))
    return entries


def dump_and_replay():
    source, load = begin("dumped", DUMPED, renames=False)
    run(DUMP, "--quiet", "--uri", source.uri, "--oplog", "--out", path("dump"))
    with open(path("dump/oplog.bson"), "rb") as file:
        dumped = bson.decode_all(file.read())
    time.sleep(0.2)  # the load goes on beyond the dump
    entries = end(source, load)
    source.stop()
    check("there are changes during the dump", len(dumped) > 100, len(dumped))
    kinds = {e["op"] if e["op"] != "c" else next(iter(e["o"])) for e in dumped}
    check("of many kinds", {"i", "u"} < kinds, kinds)
    restored = Server(NAGI, path("replayed"), PORT, member=False)
    run(RESTORE, "--uri", restored.uri, "--oplogReplay", path("dump"))
    wrong = differences(model_at(entries, dumped[-1]["ts"]).state(), found(restored.client))
    check("the restored server is the source at the end of the dump", not wrong, wrong)
    restored.stop()
    return len(dumped)


def whole_log(moments):
    source, load = begin("logged", LOGGED, renames=True)
    time.sleep(SECONDS)
    entries = end(source, load)
    run(DUMP, "--quiet", "--uri", source.uri, "--db", "local", "--collection", "oplog.rs", "--out", path("log"))
    source.stop()
    os.makedirs(path("empty"), exist_ok=True)
    stamps = sorted(random.sample(range(LOGGED, len(entries)), moments)) + [None]
    for at in stamps:
        # The limit is exclusive.
        limit = [] if at is None else ["--oplogLimit", "%d:%d" % (entries[at]["ts"].time, entries[at]["ts"].inc)]
        until = None if at is None else entries[at - 1]["ts"]
        target = Server(NAGI, path("target"), PORT, member=at is None)
        run(RESTORE, "--uri", target.uri, "--oplogReplay", "--oplogFile", path("log/local/oplog.rs.bson"), *limit,
            path("empty"))
        wrong = differences(model_at(entries, until).state(), found(target.client))
        check("the log applied up to %s" % until, not wrong, wrong)
        target.remove()
    return len(entries)


os.makedirs(FOLDER, exist_ok=True)
replayed = dump_and_replay()
applied = whole_log(1 if SECONDS < 10 else 10)
print("replayed %d entries of a dump; %d entries of a whole log" % (replayed, applied))
if not os.environ.get("KEEP"):
    shutil.rmtree(path("dump"))
finish("mongodump --oplog, mongorestore --oplogReplay")

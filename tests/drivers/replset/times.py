"""Compares the times of writes with those of snapshots: times.py NAGI DATA_FOLDER PORT [SECONDS].

Writers insert and delete, one thread drops and renames, and all record the `operationTime` of each acknowledged
change. Readers take snapshots of both collections and record `atClusterTime`. Afterwards each snapshot must be
equal to the state that the records up to its time produce: nothing later, nothing missing. The server is killed
in between.
"""
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from replset import Raw, Server, check, equal, finish, lsid, section  # noqa: E402
from bson import Timestamp  # noqa: E402
from pymongo.errors import AutoReconnect, OperationFailure  # noqa: E402

SECONDS = float(sys.argv[4]) if len(sys.argv) > 4 else 4.0
NAMES = ("h1", "h2")
DB = "nagi_times"
SERVER = Server()
# Errors of a collection that changed or was dropped, of an expired snapshot, and of a missing collection.
EXPECTED = {26, 48, 112, 117, 175, 239, 246}


def forever(stop, f):
    """Runs `f` with a connection of its own until the test is over or the server is killed."""
    try:
        with Raw() as raw:
            while not stop.is_set():
                try:
                    f(raw)
                except OperationFailure as e:
                    check("only what may fail fails", e.code in EXPECTED, e.details)
    except (OSError, AutoReconnect):
        pass


def writer(seed, notes):
    chance, ids = random.Random(seed), [0]

    def write(raw):
        name = chance.choice(NAMES)
        if ids[0] and chance.random() < 0.2:
            gone = "%d-%d" % (seed, chance.randrange(ids[0]))
            reply = raw.command({"delete": name, "deletes": [{"q": {"_id": gone}, "limit": 1}]}, DB)
            if reply["n"]:
                notes.append((reply["operationTime"], "delete", name, [gone]))
            return
        new = ["%d-%d" % (seed, ids[0] + at) for at in range(chance.choice((1, 1, 3)))]
        ids[0] += len(new)
        reply = raw.command({"insert": name, "documents": [{"_id": one} for one in new]}, DB)
        equal("all are inserted", reply["n"], len(new))
        notes.append((reply["operationTime"], "insert", name, new))

    return write


def changer(notes):
    def change(raw):
        time.sleep(0.01)
        if random.random() < 0.5:
            name = random.choice(NAMES)
            reply = raw.command({"drop": name}, DB)
            if "nIndexesWas" in reply:
                notes.append((reply["operationTime"], "drop", name, []))
            return
        source, target = random.sample(NAMES, 2)
        reply = raw.command({"renameCollection": "%s.%s" % (DB, source), "to": "%s.%s" % (DB, target), "dropTarget": True}, "admin")
        notes.append((reply["operationTime"], "rename", source, target))

    return change


def reader(views):
    def read(raw):
        concern = {"level": "snapshot"}
        session, seen = lsid(), {}
        for name in NAMES:
            body = {"find": name, "batchSize": 1_000_000, "readConcern": concern, "lsid": session}
            cursor = raw.command(body, DB)["cursor"]
            concern = {"level": "snapshot", "atClusterTime": cursor["atClusterTime"]}
            seen[name] = {doc["_id"] for doc in cursor["firstBatch"]}
        views.append((concern["atClusterTime"], seen))

    return read


def replay(notes, views):
    """Compares each snapshot with the state that the records up to its time produce."""
    world, rest, wrong = {name: set() for name in NAMES}, sorted(notes, key=lambda note: note[0], reverse=True), 0
    for at, seen in sorted(views, key=lambda view: view[0]):
        while rest and rest[-1][0] <= at:
            _, what, name, of = rest.pop()
            if what == "insert":
                world[name] |= set(of)
            elif what == "delete":
                world[name] -= set(of)
            elif what == "drop":
                world[name] = set()
            else:
                world[of], world[name] = world[name], set()
        for name in NAMES:
            if seen[name] != world[name]:
                wrong += 1
                if wrong < 4:
                    check("%s at %s" % (name, at), False, (sorted(seen[name] - world[name])[:5], sorted(world[name] - seen[name])[:5]))
    return wrong


def history(kill):
    with Raw() as raw:
        raw.command({"dropDatabase": 1}, DB)
    notes, views, stop = [], [], threading.Event()
    threads = [threading.Thread(target=forever, args=(stop, f)) for f in
               [writer(seed, notes) for seed in range(3)] + [changer(notes), reader(views), reader(views)]]
    for thread in threads:
        thread.start()
    time.sleep(SECONDS)
    stop.set()
    for thread in threads:
        thread.join()
    times = [note[0] for note in notes]
    equal("each write has a time of its own", len(set(times)), len(times))
    check("times are Timestamps", all(isinstance(at, Timestamp) for at in times))
    check("enough happened", len(notes) > 100 and len(views) > 10, (len(notes), len(views)))
    equal("snapshots that are wrong", replay(notes, views), 0)
    print("times: %d writes, %d snapshots" % (len(notes), len(views)), flush=True)
    if kill:
        SERVER.kill()
        SERVER.start("--replSet", "rs0")
        with Raw() as raw:
            after = raw.command({"insert": NAMES[0], "documents": [{"_id": "after"}]}, DB)["operationTime"]
        check("times go on after a kill", after > max(times), (after, max(times)))


if __name__ == "__main__":
    SERVER.start("--replSet", "rs0")
    with Raw() as raw:
        raw.command({"replSetInitiate": {}}, "admin")
    for kill in (True, False):
        section(history, kill)
    SERVER.kill()
    finish("times")

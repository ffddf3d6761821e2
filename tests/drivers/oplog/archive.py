"""An archive of a log that is cut all the time, and what is removed from it: archive.py NAGI FOLDER PORT.

The log is smaller than what is written while a base copy is made, so that the copy is of no use unless the log is
archived from before it on. Then another base copy is made beside the archiver, and old ones are removed.
"""
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from model import differences, found  # noqa: E402
from server import Server, free_port, run  # noqa: E402
from checks import check, equal, finish, require, wait_until  # noqa: E402

NAGI, FOLDER, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
ARCHIVE = os.path.join(FOLDER, "archive")
OTHER_PORT = free_port()


def path(name):
    return os.path.join(FOLDER, name)


class Writer:
    """Writes two megabytes a second that cannot be compressed."""

    def __init__(self, client):
        self.collection, self.count, self.going = client.load.written, 0, True
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while self.going:
            self.collection.replace_one({"_id": self.count % 20}, {"n": self.count, "bytes": os.urandom(100000)}, upsert=True)
            self.count += 1
            time.sleep(0.05)

    def stop(self):
        self.going = False
        self.thread.join()


def archive(*more):
    return [NAGI, "backup", "--archive", ARCHIVE, "--uri", source.uri.split("/?")[0], "--segmentSeconds", "1", *more]


def oldest():
    return source.client.local["oplog.rs"].find().sort("$natural", 1).limit(1).next()["ts"]


def newest():
    return source.client.local["oplog.rs"].find().sort("$natural", -1).limit(1).next()["ts"]


def bases():
    folder = os.path.join(ARCHIVE, "base")
    listed = sorted(os.listdir(folder)) if os.path.exists(folder) else []
    return [name for name in listed if os.path.exists(os.path.join(folder, name, "nagi.backup"))]


def segments():
    return sorted(name for name in os.listdir(os.path.join(ARCHIVE, "log")) if name.endswith(".nagilog"))


def restored(to, expected):
    text = run(NAGI, "restore", "--from", ARCHIVE, "--to", to, "--dbpath", path("restored"))
    server = Server(NAGI, path("restored"), OTHER_PORT, member=False)
    wrong = differences(expected, found(server.client))
    check("restored %s" % to, not wrong, (wrong, text))
    server.remove()


os.makedirs(FOLDER, exist_ok=True)
source = Server(NAGI, path("source"), PORT, more=("--oplogSize", "2"))
source.client.load.still.insert_many([{"bytes": os.urandom(100000)} for _ in range(60)])
source.client.admin.command("fsync")

# A signal during the base copy.
ended = subprocess.Popen(archive("--rateMBps", "1"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
require(wait_until(lambda: os.path.exists(os.path.join(ARCHIVE, "base"))), "a base copy begins")
ended.send_signal(signal.SIGTERM)
said = ended.communicate(timeout=60)[0]
check("an archiver that is stopped during the base copy says so", ended.returncode == 1 and "before the base copy was finished" in said, said)
equal("and leaves no base copy", bases(), [])

# The log is cut while the base copy is made.
writer, begun = Writer(source.client), newest()
log = open(path("archiver.log"), "wb")
archiver = subprocess.Popen(archive("--rateMBps", "1"), stdout=log, stderr=subprocess.STDOUT)
said = lambda: open(path("archiver.log")).read()
require(wait_until(lambda: bases() or archiver.poll() is not None, 120), "a base copy is made: %s" % said())
check("the log was cut behind the beginning of the copy", oldest() > begun, (oldest(), begun))
first = bases()
time.sleep(2)
middle = newest()
require(wait_until(lambda: newest() > middle), "the next base copy begins after this moment")

# Another base copy beside the archiver.
text = run(*archive("--newBase", "--rateMBps", "2"))
check("another base copy is complete", "is complete" in text and len(bases()) == 2, (text, bases()))
time.sleep(1)
writer.stop()
state = found(source.client)
source.client.admin.command("appendOplogNote", 1, data={"msg": "end"})
time.sleep(2)
require(archiver.poll() is None, "the archiver runs: %s" % said())
restored("latest", state)

# What is not needed is removed. A copy that was not finished keeps its log for a day.
before = segments()
prune = [NAGI, "backup", "--prune", ARCHIVE]
for wrong in ([], ["--keepHours", "0"], ["--keepHours", "1", "--out", "x"]):
    run(*prune, *wrong, expect=2)
text = run(*prune, "--keepBases", "1", "--dryRun")
check("a dry run removes nothing", "would be removed" in text and (segments(), len(bases())) == (before, 2), text)
text = run(*prune, "--keepHours", "1")
check("all is younger than an hour", "0 base copies" in text and bases()[0] == first[0], text)
aged = []
for folder, _, files in os.walk(os.path.join(ARCHIVE, "base")):
    if os.path.relpath(folder, os.path.join(ARCHIVE, "base")).split(os.sep)[0] not in bases():
        for name in files:
            aged.append(os.path.join(folder, name))
            os.utime(aged[-1], (time.time() - 2 * 86400,) * 2)
check("the stopped copy left files", aged, bases())
text = run(*prune, "--keepBases", "1")
check("the older base copy is removed", len(bases()) == 1 and bases()[0] > first[0], (text, bases()))
check("and the files of the stopped copy", not any(os.path.exists(name) for name in aged), aged)
check("with its log", segments() and len(segments()) < len(before), (text, before, segments()))
check("and its files", not os.path.exists(os.path.join(ARCHIVE, "base", first[0])))
restored("latest", state)
text = run(NAGI, "restore", "--from", ARCHIVE, "--to", "%d,%d" % (middle.time, middle.inc), "--dbpath", path("none"), expect=1)
check("moments before the base copy are gone", "before the first moment that can be restored" in text, text)

# The archiver continues, and so does the next one.
source.client.load.late.insert_one({"_id": 1})
archiver.send_signal(signal.SIGTERM)
equal("the archiver ends", archiver.wait(60), 0)
source.client.load.late.insert_one({"_id": 2})
run(*archive("--once"))
restored("latest", found(source.client))
source.stop()
finish("archives of a small log")

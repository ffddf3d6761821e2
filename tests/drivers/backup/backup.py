"""Backs up a server during writes: backup.py NAGI FOLDER PORT. Prints each failure and a count.

A writer numbers its documents. A restored copy must contain a prefix of them, including at least those
acknowledged before the backup began, and every index and counter must agree with them. Also tested: a second
backup over the first, damage, folders that are not empty, a data directory without a server, and a plain copy
under the lock of fsync.
"""
import os
import shutil
import signal
import subprocess
import sys
import threading

import pymongo
from pymongo.errors import PyMongoError

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, fails, finish, wait_until  # noqa: E402

NAGI, FOLDER, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
URI = "mongodb://127.0.0.1:%d" % PORT


def path(name):
    return os.path.join(FOLDER, name)


class Served:
    """A server on a folder, and a client of it."""

    def __init__(self, name, *flags):
        os.makedirs(path(name), exist_ok=True)
        self.process = subprocess.Popen(
            [NAGI, "serve", "--dbpath", path(name), "--port", str(PORT), "--bind_ip", "127.0.0.1", "--logpath",
             path(name + ".log"), *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = pymongo.MongoClient(URI, serverSelectionTimeoutMS=30000)
        self.client.admin.command("ping")

    def stop(self, how=signal.SIGTERM):
        self.client.close()
        self.process.send_signal(how)
        self.process.wait(60)


def nagi(*args):
    done = subprocess.run([NAGI, *args], capture_output=True, text=True, timeout=300)
    return done.returncode, (done.stdout + done.stderr).strip()


class Writer(threading.Thread):
    """Inserts 0, 1, 2, ... until it is stopped, and counts the acknowledged ones."""

    def __init__(self, first=0):
        super().__init__()
        self.acknowledged, self.stopped, self.error = first, False, None

    def run(self):
        client = pymongo.MongoClient(URI)
        numbers = client.test.numbers
        try:
            while not self.stopped:
                n = self.acknowledged
                if n % 3:
                    numbers.insert_one({"_id": n, "x": n * 7919 % 1000003, "text": "%d " % n * 60})
                    self.acknowledged += 1
                else:
                    numbers.insert_many([{"_id": n + i, "x": -n - i, "text": "y" * 500} for i in range(3)])
                    self.acknowledged += 3
        except PyMongoError as error:
            self.error = error
        client.close()

    def wait_for(self, count):
        reached = wait_until(lambda: self.acknowledged >= count or not self.is_alive(), 300)
        check("the writer goes on", reached and self.acknowledged >= count, (self.acknowledged, count))

    def end(self):
        self.stopped = True
        self.join()
        check("the writer is never refused", self.error is None, self.error)


def is_prefix(what, name, least, most):
    """Starts a server on a folder, checks its content, and returns the number of documents."""
    server = Served(name)
    numbers = server.client.test.numbers
    found = [d["_id"] for d in numbers.find({}, {"_id": 1}).sort("_id", 1)]
    check(what + ": the first so many", found == list(range(len(found))), len(found))
    check(what + ": all that was acknowledged before", len(found) >= least, (len(found), least))
    check(what + ": nothing that was never written", len(found) <= most, (len(found), most))
    check(what + ": the count", numbers.count_documents({}) == numbers.estimated_document_count() == len(found))
    check(what + ": the index", len(list(numbers.find({}, {"x": 1, "_id": 0}).hint([("x", 1)]))) == len(found))
    report = server.client.test.command("validate", "numbers", full=True)
    check(what + ": valid", report["valid"], report["errors"])
    numbers.insert_one({"_id": "written after"})
    server.stop()
    return len(found)


def while_writing():
    server = Served("data")
    server.client.test.numbers.create_index([("x", 1)])
    writer = Writer()
    writer.start()
    writer.wait_for(2000)
    before = writer.acknowledged
    code, text = nagi("backup", "--uri", URI, "--out", path("first"))
    after = writer.acknowledged + 3
    check("a backup while serving", code == 0, text)
    status = server.client.admin.command("serverStatus")
    check("no backup is open afterwards", not status["storageEngine"]["backupCursorOpen"])
    check("nothing is left beside the data", not os.path.exists(path("data/nagi.backup")))
    writer.wait_for(after + 2000)
    second_before = writer.acknowledged
    code, text = nagi("backup", "--uri=" + URI, "--out", path("second"), "--base", path("first"), "--rateMBps", "500")
    second_after = writer.acknowledged + 3
    check("a backup over an earlier one", code == 0, text)
    check("it takes unchanged files from there", "(0 bytes taken" not in text, text)
    writer.end()
    server.stop()
    return (before, after), (second_before, second_after), writer.acknowledged


def restores(first, second):
    for name, (least, most) in (("first", first), ("second", second)):
        code, text = nagi("backup", "--verify", path(name))
        check(name + " verifies", code == 0, text)
        code, text = nagi("restore", "--from", path(name), "--dbpath", path(name + "-restored"))
        check(name + " restores", code == 0, text)
        is_prefix(name, name + "-restored", least, most)
    code, text = nagi("restore", "--from", path("first"), "--dbpath", path("first-restored"))
    check("a folder with something in it is refused", code == 1 and "is not empty" in text, text)
    code, text = nagi("backup", "--uri", URI, "--out", path("first"))
    check("so is one for a backup", code == 1 and "is not empty" in text, text)
    code, text = nagi("restore", "--from", FOLDER, "--dbpath", path("nothing"))
    check("a folder without a backup", code == 1 and "no finished backup" in text, text)


def damage():
    shutil.copytree(path("first"), path("damaged"))
    tables = [os.path.join(at, name) for at, _, names in os.walk(path("damaged")) for name in names
              if name.endswith(".sst")]
    with open(max(tables, key=os.path.getsize), "r+b") as file:
        file.seek(os.path.getsize(file.name) // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    code, text = nagi("backup", "--verify", path("damaged"))
    check("a flipped byte is found", code == 1 and os.path.basename(file.name) in text, text)
    code, text = nagi("restore", "--from", path("damaged"), "--dbpath", path("damaged-restored"))
    check("and not restored", code == 1 and "damaged" in text, text)
    code, text = nagi("serve", "--dbpath", path("damaged-restored"), "--port", str(PORT))
    check("nor served", code == 100 and "unfinished restore" in text, text[-300:])


def closed(count):
    server = Served("data")
    code, text = nagi("backup", "--dbpath", path("data"), "--out", path("of-a-running-one"))
    check("a folder in use needs --uri", code == 1 and "--uri" in text, text)
    server.stop(signal.SIGKILL)
    code, text = nagi("backup", "--dbpath", path("data"), "--out", path("closed"))
    check("a backup of a closed folder", code == 0, text)
    code, text = nagi("restore", "--from", path("closed"), "--dbpath", path("closed-restored"))
    check("it restores", code == 0, text)
    is_prefix("closed", "closed-restored", count, count)


def locked_copy(first):
    server = Served("data")
    admin = server.client.admin
    writer = Writer(first)
    writer.start()
    writer.wait_for(first + 500)
    check("locked", admin.command("fsync", lock=True)["lockCount"] == 1)
    check("locked again", admin.command("fsync", lock=True)["lockCount"] == 2)
    check("once unlocked", admin.command("fsyncUnlock")["lockCount"] == 1)
    op = admin.command("currentOp")
    check("currentOp says so", op.get("fsyncLock") is True, list(op))
    check("reads go on", server.client.test.numbers.find_one({"_id": 5}) is not None)
    inserts = {"active": True, "op": "insert", "ns": "test.numbers", "waitingForLock": True}
    check("the writer waits", wait_until(lambda: admin.command("currentOp", **inserts)["inprog"]))
    before = writer.acknowledged
    subprocess.run(["cp", "-r", path("data"), path("copied")], check=True)
    check("nothing is written meanwhile", writer.acknowledged == before, (before, writer.acknowledged))
    check("unlocked", admin.command("fsyncUnlock")["lockCount"] == 0)
    fails("not locked any more", 20, lambda: admin.command("fsyncUnlock"))
    writer.wait_for(before + 500)
    writer.end()
    server.stop()
    is_prefix("copy under the lock", "copied", before, before)


def space():
    """Loads, drops and loads again: disk usage does not grow; compact releases the space of deleted
    documents."""
    server = Served("space", "--wiredTigerCacheSizeGB", "0.25")
    db = server.client.space

    def disk():
        total = 0
        for at, _, names in os.walk(path("space")):
            for name in names:
                try:
                    total += os.path.getsize(os.path.join(at, name)) if name.endswith(".sst") else 0
                except FileNotFoundError:
                    pass  # removed meanwhile, as this test expects
        return total

    def load():
        for part in range(40):
            db.docs.insert_many([{"_id": part * 200 + i, "text": os.urandom(4000)} for i in range(200)])

    load()
    db.command("compact", "docs")  # moves all data into files: data in memory is not part of the estimate
    stats = db.command("dbStats", freeStorage=1)
    check("dbStats", stats["objects"] == 8000 and stats["totalSize"] >= stats["dataSize"] > 32e6, stats)
    db.docs.delete_many({"_id": {"$mod": [4, 1]}})
    db.docs.delete_many({"_id": {"$mod": [4, 2]}})
    dry = db.command("compact", "docs", dryRun=True)
    check("compact says what it would free", dry["estimatedBytesFreed"] > 4e6, dry)
    freed = db.command("compact", "docs")
    check("compact frees it", freed["bytesFreed"] > 8e6, freed)
    stats = next(db.docs.aggregate([{"$collStats": {"storageStats": {}}}]))["storageStats"]
    check("$collStats shows that", stats["storageSize"] < 24e6 and stats["freeStorageSize"] < 4e6, stats)
    db.drop_collection("docs")
    stats = db.command("dbStats", freeStorage=1)
    check("dbStats after the drop", stats["totalSize"] == 0 and stats["objects"] == 0, stats)
    most = 0
    for _ in range(4):
        load()
        most = max(most, disk())
        db.drop_collection("docs")
    # Four loads without reuse are 132 MB; two may exist at the same time while the files of a dropped
    # collection are being removed.
    check("loads after drops reuse the space", most < 3 * 33e6, most)
    check("a drop gives its space back", wait_until(lambda: disk() <= 12e6), disk())
    server.stop()


def main():
    first, second, count = while_writing()
    restores(first, second)
    damage()
    closed(count)
    locked_copy(count)
    space()
    finish("backup")


main()

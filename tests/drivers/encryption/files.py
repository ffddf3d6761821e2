"""Tests the files of encrypted data directories with pymongo: files.py NAGI WORK PORT, or `run` from another program.

- Markers: a random text in every place that a user can put one is in no file of the data directory, nor in the ring
  buffer in shared memory, nor in what `kill -9` leaves. The same run without encryption finds it, so the search works.
- Kills: what was acknowledged with j: true is there afterwards.
- Damage: a flipped bit in each kind of file is an error that names the file, and a repair saves the rest.
- Copies: a data directory without its keys, with the keys of another one, or with a file of another one, is refused.
"""
import base64
import glob
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading

from pymongo import MongoClient, WriteConcern
from pymongo.errors import PyMongoError

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, finish, section  # noqa: E402

HEADER_BYTES = 4096
BEGIN = b"NagiFile"
KEYS = "encryption.keys"
# Files in which nothing of a user's is, and which are not encrypted.
PLAIN = {KEYS, "LOCK", "SPOOL", "SYNCED", "mongod.lock", "nagi.storage", "nagi.closed", "nagi.lock"}
LARGE_BYTES = 14 << 20
UNRECOVERABLE = 14


class Setting:
    """The program, the folder of the tests and the port."""

    def __init__(self, nagi, work, port):
        self.nagi, self.work, self.port = nagi, work, port

    def key_file(self, name="master.key"):
        path = os.path.join(self.work, name)
        if not os.path.exists(path):
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
                f.write(base64.b64encode(secrets.token_bytes(32)).decode() + "\n")
        return path

    def encrypted(self, key="master.key"):
        return ["--enableEncryption", "--encryptionKeyFile", self.key_file(key)]


class Server:
    """A server on a data directory, which it keeps when it ends."""

    def __init__(self, setting, name, *more, fresh=True):
        self.setting, self.more = setting, list(more)
        self.folder = os.path.join(setting.work, name)
        self.data, self.log = self.folder + "/data", self.folder + "/nagi.log"
        if fresh:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.data, exist_ok=True)

    def args(self):
        return [self.setting.nagi, "serve", "--dbpath", self.data, "--port", str(self.setting.port), "--bind_ip",
                "127.0.0.1", "--nounixsocket", "--logpath", self.log, "--logappend", "--slowms", "100000", *self.more]

    def __enter__(self):
        self.process = subprocess.Popen(self.args(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        uri = "mongodb://127.0.0.1:%d/?directConnection=true" % self.setting.port
        self.client = MongoClient(uri, serverSelectionTimeoutMS=30000)
        self.client.admin.command("ping")
        return self

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)

    def __exit__(self, *_):
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            equal("exit of " + self.folder, self.process.wait(120), 0)

    def refused(self):
        """The exit code and the log's last lines of a start that fails; (None, ...) if it does not."""
        size = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        process = subprocess.Popen(self.args(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            code = process.wait(60)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait(60)
            code = None
        with open(self.log, errors="replace") as f:
            f.seek(size)
            return code, f.read()

    def repair(self):
        args = [self.setting.nagi, "--repair", "--dbpath", self.data, "--logpath", self.folder + "/repair.log",
                *self.more]
        return subprocess.run(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300).returncode


def all_files(folder):
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]


def rings(data):
    """The ring buffers of the data directory."""
    try:
        with open(data + "/rocksdb/SPOOL") as f:
            return re.findall("^ring: (.*)$", f.read(), re.M)
    except FileNotFoundError:
        return []


def unnamed(process):
    """The files without a name that a process has open, such as those of a sort, as paths that can be read."""
    found = []
    for link in glob.glob("/proc/%d/fd/*" % process.pid):
        try:
            if os.readlink(link).endswith("(deleted)") and os.path.isfile(link):
                found.append(link)
        except OSError:
            pass  # closed meanwhile
    return found


def found_in(path, marker):
    """How the marker is in a file: as it is, in hexadecimal digits of either case, or in base64; "" if it is not."""
    try:
        with open(path, "rb") as f:
            content = f.read()
    except OSError:
        return ""
    digits = marker.encode().hex().encode()
    base = base64.b64encode(marker.encode())[:-4]
    forms = {"text": marker.encode(), "hex": digits, "HEX": digits.upper(), "base64": base}
    return ",".join(name for name, form in forms.items() if form in content)


class Search:
    """Looks for markers, and remembers in which files they were."""

    def __init__(self, markers):
        self.markers, self.found = markers, {}

    def look(self, paths, but=()):
        for path in paths:
            for place, marker in self.markers.items():
                how = place not in but and found_in(path, marker)
                if how:
                    self.found.setdefault(place, {})[path] = how


PLACES = ["id", "field", "value", "index", "collection", "database", "large", "transaction", "series", "update",
          "dropped", "view", "comment"]


def write_markers(client, m):
    """Puts each marker where its name says. All but names of collections are values of documents."""
    db = client["markers"]
    client[m["database"]]["c"].insert_one({"x": 1})
    db[m["collection"]].insert_one({"x": 1})
    c = db["c"]
    c.insert_one({"_id": m["id"], m["field"]: 1, "v": m["value"]})
    c.create_index("k")
    c.insert_many([{"_id": "%s %d" % (m["id"], n), "k": "%s %d" % (m["index"], n % 7), "v": m["value"]}
                   for n in range(3000)])
    unit = m["large"] + " "
    c.insert_one({"_id": "large", "text": unit * (LARGE_BYTES // len(unit))})
    for n in range(20):
        c.update_one({"_id": m["id"]}, {"$set": {"u": "%s %d" % (m["update"], n)}})
    with client.start_session() as session:
        try:
            with session.start_transaction(write_concern=WriteConcern(w=1, j=True)):
                db["t"].insert_one({"v": m["transaction"]}, session=session)
                c.update_one({"_id": m["id"]}, {"$set": {"t": m["transaction"]}}, session=session)
        except PyMongoError as error:
            check("a transaction", False, error)
    db.create_collection("s", timeseries={"timeField": "at", "metaField": "meta"})
    now = __import__("datetime").datetime(2026, 1, 1)
    db["s"].insert_many([{"at": now, "meta": m["series"], "v": m["series"], "n": n} for n in range(500)])
    db.create_collection("view", viewOn="c", pipeline=[{"$match": {"v": m["view"]}}])
    db["gone"].insert_many([{"v": m["dropped"], "n": n} for n in range(2000)])
    client.admin.command("fsync")
    db["gone"].drop()
    db.command({"find": "c", "filter": {"_id": 1}, "comment": m["comment"]})


def spill(server, marker):
    """A sort that does not fit into memory; returns copies of the files without a name that the server has meanwhile."""
    client = server.client
    c = client["markers"]["sorted"]
    c.insert_many([{"_id": n, "k": secrets.token_bytes(40), "v": "%s %d" % (marker, n), "x": secrets.token_bytes(400)}
                   for n in range(40000)])
    client.admin.command("setParameter", 1, internalQueryMaxBlockingSortMemoryUsageBytes=1 << 20)
    cursor = c.aggregate([{"$sort": {"k": 1}}], allowDiskUse=True, batchSize=10)
    next(cursor)
    kept = os.path.join(server.folder, "unnamed")
    os.makedirs(kept, exist_ok=True)
    copies = []
    for link in unnamed(server.process):
        copies.append(os.path.join(kept, os.path.basename(link)))
        shutil.copyfile(link, copies[-1])
    equal("sorted documents", 1 + sum(1 for _ in cursor), 40000)
    return copies


def markers(setting, name, more):
    m = {place: "mk" + secrets.token_hex(12) for place in [*PLACES, "spilled"]}
    search = Search(m)
    m["option"] = "mk" + secrets.token_hex(12)
    own = ["--pidfilepath", os.path.join(setting.work, m["option"])]
    server = Server(setting, name, *more, *own, "--replSet", "rs", "--initiate")
    with server:
        write_markers(server.client, m)
        spilled = spill(server, m["spilled"])
        check(name + ": a sort has spilled", spilled, "no file without a name was seen")
        server.client["markers"]["c"].insert_one({"_id": "last", "v": m["value"]})
        search.look(all_files(server.data) + rings(server.data) + spilled)
        server.kill()
        search.look(all_files(server.data) + rings(server.data))
    # Names of collections and databases, and the command line, belong into the log.
    search.look([server.log], but={"collection", "database", "option"})
    with server:
        equal(name + ": after the kill", server.client["markers"]["c"].find_one({"_id": "last"})["v"], m["value"])
        server.client["markers"].command("compact", "c", force=True)
    search.look(all_files(server.data) + rings(server.data))
    return server, search


def no_marker_is_anywhere(setting):
    server, search = markers(setting, "encrypted", setting.encrypted())
    equal("markers in encrypted files", search.found, {})
    for path in all_files(server.data):
        name = os.path.basename(path)
        with open(path, "rb") as f:
            begins = f.read(len(BEGIN)) == BEGIN
        inside = os.path.dirname(path) == server.data + "/rocksdb"
        check("header of " + name, begins or name in PLAIN or not inside, path)
        if "/diagnostic.data/" in path:
            check("header of " + name, begins, path)
    check("diagnostic data", glob.glob(server.data + "/diagnostic.data/metrics.*"), server.data)
    server, search = markers(setting, "plain", [])
    missed = [place for place in [*PLACES, "spilled", "option"] if place not in search.found and place != "comment"]
    equal("places that the search misses without encryption", missed, [])
    paths = [path for places in search.found.values() for path in places]
    for kind in [".sst", ".log", "/nagi-", "unnamed", "/diagnostic.data/metrics."]:
        check("the search reaches " + kind, any(kind in path for path in paths), paths)


def kills(setting):
    """Journaled inserts, and a kill amid them, again and again on one data directory."""
    server = Server(setting, "kills", *setting.encrypted())
    known = 0
    for round in range(5):
        with server:
            c = server.client["kills"].get_collection("c", write_concern=WriteConcern(w=1, j=True))
            count = c.count_documents({})
            check("kill %d: nothing acknowledged is missing" % round, count >= known, "%d of %d" % (count, known))
            equal("kill %d: no hole" % round, c.count_documents({"_id": {"$lt": count}}), count)
            timer = threading.Timer(0.7 + 0.3 * round, server.kill)
            timer.start()
            known = count
            try:
                while True:
                    c.insert_one({"_id": known, "text": "x" * (known * 37 % 3000)})
                    known += 1
            except PyMongoError:
                timer.join()


def kinds(data):
    """A file of each kind: the newest one, or the largest table."""
    files = all_files(data + "/rocksdb")
    name = os.path.basename
    tables = [f for f in files if f.endswith(".sst")]
    return {
        "table": max(tables, key=os.path.getsize),
        "list": max(f for f in files if name(f).startswith("MANIFEST-")),
        "CURRENT": data + "/rocksdb/CURRENT",
    }


def flip(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 0x10]))


def reads_all(server):
    """The documents of the collection, or the error's code."""
    try:
        return server.client["damage"]["c"].aggregate([{"$group": {"_id": None, "n": {"$sum": "$n"}}}]).next()["n"]
    except PyMongoError as error:
        return error.code


def damage(setting):
    server = Server(setting, "damage", *setting.encrypted())
    with server:
        c = server.client["damage"]["c"]
        for at in range(0, 40000, 2000):
            c.insert_many([{"_id": n, "n": 1, "text": secrets.token_hex(100)} for n in range(at, at + 2000)])
        server.client["damage"].command("compact", "c")
    whole = server.folder + "/whole"
    shutil.copytree(server.data, whole)
    places = [("table", HEADER_BYTES + 5000), ("table", 60), ("list", HEADER_BYTES + 300), ("list", 100),
              ("CURRENT", 60), ("CURRENT", HEADER_BYTES + 3)]
    for kind, at in places:
        what = "%s flipped at %d" % (kind, at)
        shutil.rmtree(server.data)
        shutil.copytree(whole, server.data)
        path = kinds(server.data)[kind]
        flip(path, at)
        code, log = server.refused()
        if code is None:
            with server:
                equal(what + ": a read", reads_all(server), 301)
        else:
            equal(what + ": exit code", code, UNRECOVERABLE)
            check(what + ": the file is named", os.path.basename(path) in log, log[-400:])
        equal(what + ": repair", server.repair(), 0)
        with server:
            left = reads_all(server)
            least = 40000 if at < HEADER_BYTES or kind != "table" else 39000
            check(what + ": what is left", isinstance(left, int) and least <= left <= 40000, left)
    shutil.rmtree(server.data)
    shutil.copytree(whole, server.data)
    return server, whole


def damaged_name(server, whole):
    """The engine's name of its files, which nothing refers to: the start makes it anew, and says so."""
    for at in (60, HEADER_BYTES + 3):
        shutil.rmtree(server.data)
        shutil.copytree(whole, server.data)
        name = server.data + "/rocksdb/IDENTITY"
        flip(name, at)
        size = os.path.getsize(server.log)
        with server:
            equal("IDENTITY flipped at %d: all documents" % at, reads_all(server), 40000)
        with open(server.log) as f:
            f.seek(size)
            text = f.read()
        equal("IDENTITY flipped at %d: told" % at, '"id":7702047' in text and name in text, at < HEADER_BYTES)


def copies(setting, server, whole):
    """Data directories that were put together from parts."""
    def again():
        shutil.rmtree(server.data)
        shutil.copytree(whole, server.data)

    again()
    os.remove(os.path.join(server.data, KEYS))
    code, log = server.refused()
    check("without its keys a folder is refused", code not in (None, 0), code)
    check("and the reason is told", "not encrypted" in log or KEYS in log, log[-400:])
    other = Server(setting, "other", *setting.encrypted())
    with other:
        other.client["damage"]["c"].insert_many([{"n": n, "text": "x" * 500} for n in range(5000)])
        other.client["damage"].command("compact", "c")
    again()
    shutil.copy(os.path.join(other.data, KEYS), server.data)
    code, log = server.refused()
    equal("with the keys of another folder", code, UNRECOVERABLE)
    check("the reason", "belongs to the keys of another data directory" in log, log[-400:])
    again()
    os.remove(os.path.join(server.data, "nagi.closed"))
    shutil.copy(kinds(other.data)["CURRENT"], server.data + "/rocksdb/CURRENT")
    code, log = server.refused()
    equal("with a file of another folder", code, UNRECOVERABLE)
    check("the file", "CURRENT" in log and "another data directory" in log, log[-400:])
    again()
    os.remove(os.path.join(server.data, "nagi.closed"))
    with open(server.data + "/rocksdb/CURRENT", "w") as f:
        f.write("MANIFEST-000005\n")
    code, log = server.refused()
    equal("with a file that is not encrypted", code, UNRECOVERABLE)
    check("the file that is not", "CURRENT" in log and "it is too short" in log or "it is not one" in log, log[-400:])
    again()
    wrong = Server(setting, "damage", *setting.encrypted("wrong.key"), fresh=False)
    code, log = wrong.refused()
    check("a wrong key is refused", code not in (None, 0), code)
    check("and told", "master key" in log, log[-400:])
    # None of that has changed anything.
    again()
    with server:
        equal("with everything in its place", reads_all(server), 40000)


def damaged_journal(setting):
    """A journal that changed after a kill, and a ring buffer that is gone."""
    server = Server(setting, "journal", *setting.encrypted())
    with server:
        c = server.client["j"].get_collection("c", write_concern=WriteConcern(w=1, j=True))
        for n in range(300):
            c.insert_one({"_id": n, "text": "x" * (n * 53 % 700)})
        server.kill()
    logs = [f for f in all_files(server.data + "/rocksdb") if f.endswith(".log")]
    log = max(logs)
    whole = server.folder + "/whole"
    shutil.copytree(server.data, whole)
    for at in [60, HEADER_BYTES + 200, HEADER_BYTES + os.path.getsize(log) // 3]:
        flip(log, at)
        code, text = server.refused()
        equal("a journal flipped at %d" % at, code, UNRECOVERABLE)
        check("it is named", os.path.basename(log) in text, text[-400:])
        flip(log, at)
    with server:
        equal("the journal as it was", server.client["j"]["c"].count_documents({}), 300)


def run(nagi, work, port):
    """All parts; failures are counted by `checks`."""
    setting = Setting(nagi, work, port)
    os.makedirs(work, exist_ok=True)
    section(no_marker_is_anywhere, setting)
    section(kills, setting)
    section(damaged_journal, setting)

    def damage_and_copies():
        server, whole = damage(setting)
        damaged_name(server, whole)
        copies(setting, server, whole)
    section(damage_and_copies)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    finish("encrypted files")

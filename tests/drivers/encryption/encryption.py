"""Encryption at rest: options, keys, rotation under load and kills, KMIP, spilled data, backups.

encryption.py NAGI FOLDER PORT. Prints each failure and a count. The parts of files.py look into the data files.
"""
import glob
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pymongo
from pymongo.errors import PyMongoError

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tls"))  # behind: it has a module `server` too
import files  # noqa: E402
import pki  # noqa: E402
import server as shared  # noqa: E402
from checks import check, equal, fails, finish, section, wait_until  # noqa: E402
from server import PORT, URI, WORK, Server, files_with, key_file, key_text, keys, nagi, path, refused  # noqa: E402

MARKER = "planted-%032x" % random.getrandbits(128)


def says(name, seen, status, *texts):
    code, text = seen
    equal(name + ": status", code, status)
    for part in texts:
        check("%s: %s" % (name, part), part in text, text[-1500:])


def options():
    """Each wrong combination ends with a status and a text, before anything is written."""
    good = key_file("good.key")
    for flags, part in (
        (["--enableEncryption"], "needs the place of the master key"),
        (["--encryptionKeyFile", good], "needs security.enableEncryption"),
        (keys(good, "--storageEngine", "mmapv1"), "mmapv1 cannot encrypt its data file"),
        (keys(good, "--storageEngine", "inMemory"), "inMemory has no data files"),
        (keys(good, "--encryptionCipherMode", "AES256-CBC"), "AES-256 in counter mode"),
        (keys(good, "--encryptionCipherMode", "AES256-GCM"), "AES-256 in counter mode"),
        (keys(good, "--kmipServerName", "localhost"), "exclude each other"),
        (keys(good, "--kmipRotateMasterKey"), "needs security.kmip.serverName"),
    ):
        says(" ".join(flags[2:]) or flags[0], refused("options", flags), 2, part)
    pipe = path("pipe.key")
    os.mkfifo(pipe, 0o600)
    for name, file, part in (
        ("missing", path("none.key"), "error opening encryption key file"),
        ("open to others", key_file("open.key", mode=0o644), "too open"),
        ("empty", key_file("empty.key", ""), "has 0 bytes, must be between 16 and 32"),
        ("short", key_file("short.key", "AAAA"), "has 3 bytes"),
        ("not base64", key_file("text.key", "correct horse battery staple!"), "not a base64 string"),
        ("a directory", WORK, "not an encryption key file"),
        ("a pipe", pipe, "not an encryption key file"),
        ("no variable", "env:NAGI_NO_SUCH_KEY", "NAGI_NO_SUCH_KEY, which has the encryption key, is not set"),
        ("no credential", "credential:key", "systemd has passed no credentials"),
    ):
        says(name, refused("options", keys(file)), 1, part)
    check("nothing was made", not os.path.exists(path("options", "encryption.keys")), os.listdir(path("options")))


def directories():
    """Plain and encrypted directories are told apart, and a wrong or damaged key is named."""
    good, wrong = key_file("first.key"), key_file("wrong.key")
    with Server("encrypted", *keys(good)) as one:
        one.client.test.c.insert_one({"_id": 1, "m": MARKER})
        at_rest = one.at_rest()
        equal("shown", (at_rest["encryptionEnabled"], at_rest["encryptionCipherMode"], at_rest["generation"]),
              (True, "AES256-CTR", 1))
        check("key id", len(at_rest["encryptionKeyId"]) == 32, at_rest)
        equal("logged", one.lines(8200200)[0]["attr"]["keyId"], at_rest["encryptionKeyId"])
        parsed = one.client.admin.command("getCmdLineOpts")["parsed"]["security"]
        equal("parsed", (parsed["enableEncryption"], parsed["encryptionKeyFile"]), (True, good))
    file = path("encrypted", "encryption.keys")
    equal("mode of the keys", os.stat(file).st_mode & 0o777, 0o600)
    says("without options", refused("encrypted", []), 100, "the data files are encrypted", "--enableEncryption")
    says("repair without options", refused("encrypted", ["--repair"]), 100, "the data files are encrypted")
    says("wrong key", refused("encrypted", keys(wrong)), 100, "encryption.keys", at_rest["encryptionKeyId"],
         "the given one is")
    content = open(file, "rb").read()
    for name, damaged in (("truncated", content[:60]), ("empty", b""), ("flipped", content[:90] + bytes([content[90] ^ 4]) + content[91:]),
                          ("foreign", os.urandom(len(content)))):
        with open(file, "wb") as f:
            f.write(damaged)
        says("keys " + name, refused("encrypted", keys(good)), 14, "file of the encryption keys is damaged", file)
    os.unlink(file)
    for name, flags in (("with options", keys(good)), ("without options", []), ("repair", ["--repair"]),
                        ("repair with options", keys(good, "--repair"))):
        began = time.time()
        says("keys lost, " + name, refused("encrypted", flags), 100, "the files are encrypted and", file + " is missing: restore it")
        check("keys lost, %s: at once" % name, time.time() - began < 20)
    check("keys lost: nothing is made", not [name for name in os.listdir(path("encrypted")) if "damaged" in name or name == "encryption.keys"])
    with open(file, "wb") as f:
        f.write(content)
    with Server("encrypted", *keys(good)) as one:
        equal("data is there", one.client.test.c.find_one()["m"], MARKER)
    with Server("plain") as one:
        one.client.test.c.insert_one({"_id": 1})
        check("no section", one.at_rest() is None)
        fails("no key to rotate", 20, lambda: one.client.admin.command("rotateEncryptionKey"))
    says("plain data", refused("plain", keys(good)), 100, "contains data that is not encrypted")
    check("plain stays plain", not os.path.exists(path("plain", "encryption.keys")))
    for name, options, status, part in (
        ("encrypted", "", 3, "the configuration has no key"),
        ("plain", "security: {enableEncryption: true, encryptionKeyFile: %s}" % good, 3, "is not encrypted"),
        ("encrypted", "security: {enableEncryption: true, encryptionKeyFile: %s}" % key_file("encrypted/key"), None,
         "is in the data directory"),
    ):
        with open(path("doctor.conf"), "w") as f:
            f.write("storage: {dbPath: %s}\n%s\n" % (path(name), options))
        code, text = nagi("doctor", "--config", path("doctor.conf"), "--quick", "--json")
        check("doctor: " + part, part in text and status in (None, code), (code, text))
    with Server("mapped", "--storageEngine", "mmapv1") as one:
        one.client.test.c.insert_one({"_id": 1})
    says("plain mapped data", refused("mapped", keys(good)), 100)


def first_starts():
    """Starts on an empty directory that are killed at any moment, and two at once: the directory stays usable."""
    file = key_file("fresh.key")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for turn in range(12):
        process = subprocess.Popen(shared.command("fresh", keys(file)), **quiet)
        time.sleep(random.uniform(0, 0.15))
        process.kill()
        process.wait()
    with Server("fresh", *keys(file)) as one:
        one.client.test.c.insert_one({"_id": 1})
    equal("left", [name for name in os.listdir(path("fresh")) if name.endswith(".new")], [])
    with Server("fresh", *keys(file)) as one:
        equal("after kills", one.client.test.c.count_documents({}), 1)
    second = free_port()
    other = [flag if flag != str(PORT) else str(second) for flag in shared.command("twice", keys(file))]
    both = [subprocess.Popen(flags, **quiet) for flags in (shared.command("twice", keys(file)), other)]
    ended = lambda: [process.poll() for process in both if process.poll() is not None]  # noqa: E731
    check("one of two ends", wait_until(ended, 30))
    equal("its status", ended(), [100])
    listens = lambda: any(socket.socket().connect_ex(("127.0.0.1", port)) == 0 for port in (PORT, second))  # noqa: E731
    check("the other one serves", wait_until(listens, 30))
    for process in both:
        if process.poll() is None:
            process.terminate()
            equal("the other one", process.wait(60), 0)
    with Server("twice", *keys(file)) as one:
        equal("one set of keys", one.at_rest()["generation"], 1)


def places():
    """A key in the environment or in a credential, which nobody sees afterwards."""
    text = key_text()
    env = dict(os.environ, NAGI_TEST_KEY=text)
    with Server("places", *keys("env:NAGI_TEST_KEY"), env=env) as one:
        one.client.test.c.insert_one({"_id": 1})
        pid = one.process.pid
        for name in ("environ", "cmdline"):
            with open("/proc/%d/%s" % (pid, name), "rb") as f:
                content = f.read()
            check("not in " + name, text.encode() not in content, content)
        shown = str(one.client.admin.command("getCmdLineOpts")) + str(one.client.admin.command("serverStatus"))
        check("not shown", text not in shown and text not in one.text() and "env:NAGI_TEST_KEY" in shown, shown)
        equal("no core dumps", [line.split()[4] for line in open("/proc/%d/limits" % pid) if "core file" in line], ["0"])
    folder = path("credentials")
    os.makedirs(folder, exist_ok=True)
    key_file("credentials/key", text, mode=0o440)
    with Server("places", *keys("credential:key"), env=dict(os.environ, CREDENTIALS_DIRECTORY=folder)) as one:
        equal("the same key", one.client.test.c.count_documents({}), 1)
    with Server("places", *keys(key_file("same.key", text))) as one:
        equal("the same key in a file", one.client.test.c.count_documents({}), 1)


class Writer(threading.Thread):
    """Inserts numbered documents until it is stopped or the server is gone; counts the acknowledged ones."""

    def __init__(self, first):
        super().__init__(daemon=True)
        self.acknowledged, self.stopped = first, False
        self.start()

    def run(self):
        with pymongo.MongoClient(URI, retryWrites=False) as client:
            numbers = client.get_database("test", write_concern=pymongo.WriteConcern(j=True)).numbers
            try:
                while not self.stopped:
                    first = self.acknowledged
                    numbers.insert_many([{"_id": first + i, "m": MARKER, "x": os.urandom(500)} for i in range(20)])
                    self.acknowledged = first + 20
            except PyMongoError:
                pass


def rotation():
    """Keys are rotated while a writer writes and the server is killed: every acknowledged document stays."""
    files = [key_file("rotation-%d.key" % i) for i in range(4)]
    acknowledged, generation = 0, 1
    current = files[0]
    for turn in range(6):
        flags = keys(current)
        if turn in (2, 4):
            # The master key changes at this start, which is killed once and repeated.
            following = files[turn // 2]
            flags = keys(following, "--encryptionOldKeyFile", current)
            process = subprocess.Popen(shared.command("rotated", flags), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(random.choice((0.02, 0.05, 0.1, 0.2)))
            process.kill()
            process.wait()
            current = following
        one = Server("rotated", *flags)
        at_rest = one.at_rest()
        check("generation of turn %d" % turn, at_rest["generation"] >= generation, (at_rest, generation))
        found = [d["_id"] for d in one.client.test.numbers.find({}, {"_id": 1}).sort("_id")]
        check("documents of turn %d" % turn, found == list(range(len(found))) and len(found) >= acknowledged,
              (len(found), acknowledged))
        # What was not acknowledged may be there; it stays from now on.
        writer = Writer(len(found))
        for _ in range(3):
            time.sleep(0.3)
            generation = one.client.admin.command("rotateEncryptionKey")["generation"]
            if turn % 2:
                one.client.admin.command("fsync")
        equal("generation shown", one.at_rest()["generation"], generation)
        one.stop(signal.SIGKILL)
        writer.stopped = True
        writer.join(30)
        acknowledged = writer.acknowledged
    says("the first key", refused("rotated", keys(files[0])), 100, "the given one is")
    with Server("rotated", *keys(current)) as one:
        check("there was work", acknowledged > 100, acknowledged)
        equal("all documents", one.client.test.numbers.count_documents({"m": MARKER, "_id": {"$lt": acknowledged}}), acknowledged)
        equal("valid", one.client.test.command("validate", "numbers", full=True)["valid"], True)
    equal("no marker", files_with(path("rotated"), MARKER.encode()), [])
    audit = path("audit.json")
    flags = keys(current, "--auth", "--auditDestination", "file", "--auditPath", audit)
    with Server("rotated", *flags) as one:
        one.client.admin.command("createUser", "root", pwd="swordfish", roles=["root"])
        root = pymongo.MongoClient(URI, username="root", password="swordfish")
        root.admin.command("createUser", "w", pwd="w", roles=["readWriteAnyDatabase"])
        weak = pymongo.MongoClient(URI, username="w", password="w")
        fails("without the right", 13, lambda: weak.admin.command("rotateEncryptionKey"))
        fails("other database", 13, lambda: root.test.command("rotateEncryptionKey"))
        equal("with the right", root.admin.command("rotateEncryptionKey")["ok"], 1)
        logged = lambda: "rotateEncryptionKey" in open(audit).read()  # noqa: E731
        check("audited", wait_until(logged, 10))
        check("audited once", open(audit).read().count('"atype" : "rotateEncryptionKey"') == 1 or logged())
        weak.close()
        root.close()


class Rotator(threading.Thread):
    """Makes generations of keys without a pause until the server is gone; remembers the last acknowledged one."""

    def __init__(self, newest):
        super().__init__(daemon=True)
        self.newest, self.wrong = newest, None
        self.start()

    def run(self):
        with pymongo.MongoClient(URI) as client:
            try:
                while True:
                    newest = client.admin.command("rotateEncryptionKey")["generation"]
                    if newest != self.newest + 1:
                        self.wrong = (newest, self.newest)
                    self.newest = newest
            except PyMongoError:
                pass


def killed_rotation():
    """Kills in the middle of rotateEncryptionKey: every acknowledged generation is there, and files of each are read."""
    flags = keys(key_file("killed.key"))
    newest, acknowledged = 1, 0
    for turn in range(10):
        one = Server("killed-rotation", *flags)
        found = one.at_rest()["generation"]
        check("generation of turn %d" % turn, newest <= found <= newest + 1, (newest, found))
        count = one.client.test.numbers.count_documents({})
        check("documents of turn %d" % turn, count >= acknowledged, (count, acknowledged))
        rotator, writer = Rotator(found), Writer(count)
        # On a busy machine neither may have begun yet.
        wait_until(lambda: rotator.newest > found and writer.acknowledged > count, 30)
        time.sleep(random.uniform(0, 0.3))
        one.stop(signal.SIGKILL)
        rotator.join(30)
        writer.join(30)
        equal("one after the other in turn %d" % turn, rotator.wrong, None)
        check("rotated in turn %d" % turn, rotator.newest > found, (rotator.newest, found))
        newest, acknowledged = rotator.newest, writer.acknowledged
    with Server("killed-rotation", *flags) as one:
        check("there was work", acknowledged > 100 and newest > 20, (acknowledged, newest))
        equal("all documents", one.client.test.numbers.count_documents({"m": MARKER, "_id": {"$lt": acknowledged}}), acknowledged)
        one.client.admin.command("rotateEncryptionKey")
        one.client.test.command("compact", "numbers", force=True)
        equal("valid", one.client.test.command("validate", "numbers", full=True)["valid"], True)
    left = [name for name in os.listdir(path("killed-rotation")) if name.endswith(".new")]
    equal("no half-written keys", left, [])


def deleted_files(pid):
    """The contents of the files without a name that a process has open."""
    for entry in glob.glob("/proc/%d/fd/*" % pid):
        try:
            if os.readlink(entry).endswith("(deleted)"):
                with open(entry, "rb") as f:
                    yield f.read()
        except OSError:
            pass


def spill():
    """What sorts and groups write to disk is encrypted, too; without encryption it is found there."""
    for name, flags, expected in (("spilled-plain", [], True), ("spilled", keys(key_file("spill.key")), False)):
        with Server(name, *flags) as one:
            c = one.client.test.c
            c.insert_many([{"_id": i, "r": os.urandom(40), "m": "%s-%d" % (MARKER, i), "x": os.urandom(400)} for i in range(40000)])
            one.client.admin.command("setParameter", 1, internalQueryMaxBlockingSortMemoryUsageBytes=1 << 20)
            cursor = c.aggregate([{"$sort": {"r": 1}}], allowDiskUse=True, batchSize=10)
            first = next(cursor)["r"]
            found = any(MARKER.encode() in content for content in deleted_files(one.process.pid))
            equal(name + ": the marker is found", found, expected)
            order = [first] + [d["r"] for d in cursor]
            equal(name + ": the order", (len(order), order == sorted(order)), (40000, True))
            grouped = c.aggregate([{"$group": {"_id": "$m", "n": {"$sum": 1}}}, {"$count": "n"}], allowDiskUse=True)
            equal(name + ": groups", list(grouped), [{"n": 40000}])


def backup():
    """Copies of an encrypted server are encrypted, and their restored directory needs the same key."""
    key, other = key_file("backup.key"), key_file("other.key")
    flags = keys(key, "--replSet", "rs", "--initiate")
    uri = "mongodb://127.0.0.1:%d" % PORT
    with Server("source", *flags) as one:
        one.client.test.c.insert_many([{"_id": i, "m": MARKER} for i in range(1000)])
        one.client.admin.command("rotateEncryptionKey")
        one.client.admin.command("fsync")
        code, text = nagi("backup", "--uri", uri, "--out", path("copy"))
        equal("backup", code, 0)
        check("keys in the copy", os.path.exists(path("copy", "data", "encryption.keys")), text)
        equal("verified", nagi("backup", "--verify", path("copy"))[0], 0)
        says("archive without key", nagi("backup", "--uri", uri, "--archive", path("archive"), "--once"), 1, "--plain")
        says("archive with another key", nagi("backup", "--uri", uri, "--archive", path("archive"), "--once",
             "--encryptionKeyFile", other), 1, "the given one is")
        code, text = nagi("backup", "--uri", uri, "--archive", path("archive"), "--once", "--encryptionKeyFile", key)
        check("archive", code == 0, text)
        one.client.test.c.insert_many([{"_id": 1000 + i, "m": MARKER} for i in range(1000)])
        env = dict(os.environ, NAGI_ENCRYPTION_KEY=open(key).read().strip())
        code, text = nagi("backup", "--uri", uri, "--archive", path("archive"), "--once", env=env)
        check("archive continued", code == 0, text)
        for turn in range(2):
            code, text = nagi("backup", "--uri", uri, "--archive", path("archive-plain"), "--once", "--plain")
            check("plain archive", code == 0, text)
            one.client.test.d.insert_one({"_id": turn, "m": MARKER})
    for folder in ("source", "copy", "archive"):
        equal("no marker in " + folder, files_with(path(folder), MARKER.encode()), [])
    beginnings = {open(f, "rb").read(8) for f in glob.glob(path("archive", "log", "*.nagilog"))}
    equal("segments are encrypted", beginnings, {b"NagiFile"})
    plain = {open(f, "rb").read(8) for f in glob.glob(path("archive-plain", "log", "*.nagilog"))}
    equal("plain segments", plain, {b"NAGI-LOG"})
    equal("restored", nagi("restore", "--from", path("copy"), "--dbpath", path("restored"))[0], 0)
    says("restored without key", refused("restored", []), 100, "the data files are encrypted")
    with Server("restored", *keys(key)) as one:
        equal("documents", one.client.test.c.count_documents({"m": MARKER}), 1000)
    archive = ("restore", "--from", path("archive"), "--to", "latest", "--dbpath")
    says("moment without key", nagi(*archive, path("moment-1")), 1, "encrypted")
    says("moment with another key", nagi(*archive, path("moment-2"), "--encryptionKeyFile", other), 1, "the given one is")
    code, text = nagi(*archive, path("moment"), "--encryptionKeyFile", key)
    check("moment", code == 0, text)
    equal("no marker in the moment", files_with(path("moment"), MARKER.encode()), [])
    with Server("moment", *keys(key)) as one:
        equal("documents of the moment", one.client.test.c.count_documents({"m": MARKER}), 2000)
    says("closed without key", nagi("backup", "--dbpath", path("source"), "--out", path("closed-1")), 1, "encrypted")
    code, text = nagi("backup", "--dbpath", path("source"), "--out", path("closed"), "--encryptionKeyFile", key)
    check("closed", code == 0, text)
    equal("no marker in the closed copy", files_with(path("closed"), MARKER.encode()), [])
    equal("closed restored", nagi("restore", "--from", path("closed"), "--dbpath", path("again"))[0], 0)
    with Server("again", *keys(key)) as one:
        equal("documents of the closed copy", one.client.test.c.count_documents({"m": MARKER}), 2000)
    for args in (("backup", "--uri", uri, "--out", path("x"), "--encryptionKeyFile", key),
                 ("backup", "--uri", uri, "--out", path("x"), "--plain"),
                 ("restore", "--from", path("copy"), "--dbpath", path("x"), "--encryptionKeyFile", key)):
        equal(" ".join(args[:1] + args[-2:]), nagi(*args)[0], 2)


def archive_across_rotation():
    """A base copy and a log that was archived before and after a change of the master key, over the wire."""
    old, new, other = key_file("archive-1.key"), key_file("archive-2.key"), key_file("archive-3.key")
    replica_set = ("--replSet", "rs", "--initiate")
    uri, to = "mongodb://127.0.0.1:%d" % PORT, path("rotated-archive")

    def archive(name, key, status=0):
        code, text = nagi("backup", "--uri", uri, "--archive", to, "--once", "--encryptionKeyFile", key)
        check(name, code == status, text)
        return text

    def insert(one, first):
        one.client.test.c.insert_many([{"_id": first + i, "m": MARKER} for i in range(500)])

    def moment():
        """A time with a second on either side in which nothing was written."""
        time.sleep(1.1)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        time.sleep(1.1)
        return now

    with Server("rotated-source", *keys(old, *replica_set)) as one:
        insert(one, 0)
        archive("base", old)
        insert(one, 500)
        before = moment()
        insert(one, 1000)
        archive("log with the old key", old)
    between = moment()
    with Server("rotated-source", *keys(new, "--encryptionOldKeyFile", old, "--replSet", "rs")) as one:
        insert(one, 1500)
        one.client.admin.command("rotateEncryptionKey")
        text = archive("the old key is not the server's any more", old, 1)
        check("and both are named", "the given one is" in text, text)
        archive("log with the new key", new)
        insert(one, 2000)
        archive("log continued", new)
    equal("no marker in the archive", files_with(to, MARKER.encode()), [])
    restore = lambda name, when, key: nagi(  # noqa: E731
        "restore", "--from", to, "--to", when, "--dbpath", path(name), "--encryptionKeyFile", key)
    says("the new key alone", restore("rotated-none-1", "latest", new), 1, "the given one is")
    says("the old key alone", restore("rotated-none-2", "latest", old), 1, "another master key than")
    says("a third key", restore("rotated-none-3", "latest", "%s,%s" % (old, other)), 1, "another master key than")
    for name, when, key, count in (
        ("rotated-latest", "latest", "%s,%s" % (old, new), 2500),
        ("rotated-order", "latest", "%s,%s,%s" % (other, new, old), 2500),
        ("rotated-between", between, "%s,%s" % (new, old), 1500),
        ("rotated-before", before, old, 1000),
    ):
        code, text = restore(name, when, key)
        check(name, code == 0, text)
        equal("no marker in " + name, files_with(path(name), MARKER.encode()), [])
        # The directory has the keys of the base copy, wrapped with the master key of that time.
        says(name + " with the new key", refused(name, keys(new)), 100, "the given one is")
        with Server(name, *keys(old)) as one:
            equal("documents of " + name, one.client.test.c.count_documents({"m": MARKER}), count)
            equal("valid " + name, one.client.test.command("validate", "c", full=True)["valid"], True)
    with Server("rotated-latest", *keys(new, "--encryptionOldKeyFile", old)) as one:
        equal("with the new key afterwards", one.client.test.c.count_documents({}), 2500)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Kmip:
    """PyKMIP's server, with certificates of an authority of its own."""

    def __init__(self, folder):
        self.folder, self.port = path(folder), free_port()
        os.makedirs(self.folder, exist_ok=True)
        self.ca = pki.Authority(path(folder, "ca"), "/O=Keys/CN=authority")
        server = self.ca.sign("server", "/O=Keys/CN=localhost", pki.LOCAL + "\nextendedKeyUsage=serverAuth")
        self.client = self.ca.sign("client", "/O=Keys/CN=nagi", "extendedKeyUsage=clientAuth")
        self.server = server
        self.start()

    def start(self):
        here = os.path.dirname(os.path.abspath(__file__))
        self.out = open(os.path.join(self.folder, "out"), "w")
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(here, "kmip_server.py"), self.folder, str(self.port), self.server, self.server,
             self.ca.file], stdout=self.out, stderr=self.out)
        up = lambda: socket.socket().connect_ex(("127.0.0.1", self.port)) == 0  # noqa: E731
        if not wait_until(up, 30):
            raise RuntimeError("the KMIP server did not start: " + open(os.path.join(self.folder, "out")).read())

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.out.close()

    def flags(self, *more, **other):
        return ["--enableEncryption", "--kmipServerName", other.get("host", "localhost"), "--kmipPort", str(self.port),
                "--kmipServerCAFile", other.get("ca", self.ca.file), "--kmipClientCertificateFile",
                other.get("certificate", self.client), *more]


def kmip():
    """A key of a KMIP server: made at the first start, found again, rotated, and every failure told."""
    service = Kmip("kmip")
    try:
        with Server("keys", *service.flags()) as one:
            one.client.test.c.insert_one({"_id": 1, "m": MARKER})
            at_rest = one.at_rest()
            check("id of the key", at_rest["kmipKeyId"], at_rest)
            equal("made", one.lines(8200204)[0]["attr"]["kmipKeyId"], at_rest["kmipKeyId"])
        with Server("keys", *service.flags("--kmipKeyIdentifier", at_rest["kmipKeyId"], host="127.0.0.1")) as one:
            equal("found by its id", one.at_rest()["kmipKeyId"], at_rest["kmipKeyId"])
        with Server("keys", *service.flags("--kmipUseLegacyProtocol", host="127.0.0.9,localhost")) as one:
            equal("found by the directory", one.client.test.c.find_one()["m"], MARKER)
        code, text = refused("keys", service.flags("--kmipRotateMasterKey"))
        check("rotated and ended", code == 0 and "The master key was rotated" in text, (code, text[-1500:]))
        with Server("keys", *service.flags()) as one:
            rotated = one.at_rest()
            check("another key", rotated["kmipKeyId"] != at_rest["kmipKeyId"], rotated)
            equal("data after the rotation", one.client.test.c.find_one()["m"], MARKER)
        says("the old key", refused("keys", service.flags("--kmipKeyIdentifier", at_rest["kmipKeyId"])), 100, "the given one is")
        says("no such key", refused("keys", service.flags("--kmipKeyIdentifier", "no-such-key")), 1, "refuses the request")
        stranger = pki.Authority(path("stranger"), "/O=Stranger/CN=authority")
        says("wrong authority", refused("keys", service.flags(ca=stranger.file)), 1, "the certificate of the server is not accepted")
        own = stranger.sign("client", "/O=Stranger/CN=nagi", "extendedKeyUsage=clientAuth")
        says("wrong certificate", refused("keys", service.flags(certificate=own)), 1, "no KMIP server answers")
        says("a file instead", refused("keys", keys(key_file("kmip.key"))), 100, "the given one is")
        # From the key of a file to one of the server.
        file = key_file("before.key")
        with Server("moved", *keys(file)) as one:
            one.client.test.c.insert_one({"_id": 1})
        says("key of a file", refused("moved", service.flags()), 1, "wrapped with the key of a file")
        with Server("moved", *service.flags("--encryptionOldKeyFile", file)) as one:
            check("moved", one.at_rest()["kmipKeyId"], one.at_rest())
        inactive = service.flags("--kmipActivateKeys", "false")
        with Server("inactive", *inactive) as one:
            check("a key that is not activated", one.at_rest()["kmipKeyId"])
        says("inactive", refused("inactive", service.flags()), 1, "is not active, its state is: pre-active")
    finally:
        service.stop()
    says("no server", refused("keys", service.flags("--kmipConnectTimeoutMS", "500", "--kmipConnectRetries", "1")), 1,
         "no KMIP server answers", "localhost:%d" % service.port)
    hostile = socket.create_server(("127.0.0.1", service.port))
    threading.Thread(target=lambda: [hostile.accept()[0].sendall(b"HTTP/1.1 400\r\n\r\n" * 9) for _ in range(2)], daemon=True).start()
    says("no TLS", refused("keys", service.flags("--kmipConnectTimeoutMS", "2000")), 1, "no KMIP server answers")
    hostile.close()


def data_files():
    files.run(shared.NAGI, path("files"), PORT)


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    parts = [options, directories, first_starts, places, rotation, killed_rotation, spill, backup, archive_across_rotation, kmip,
             data_files]
    wanted = os.environ.get("PARTS", "").split()
    for part in parts:
        if not wanted or part.__name__ in wanted:
            section(part)
    finish("encryption")


main()

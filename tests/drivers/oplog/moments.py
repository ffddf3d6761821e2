"""Restores of moments: moments.py NAGI FOLDER PORT [MOMENTS] [bucket].

A load changes documents and the catalog of a member of a replica set, and `nagi backup --archive` archives its log.
The archiver is killed and started again, the server is killed once, and a second base copy is made. Then moments are
restored: some at which the load was stopped for a moment, so that the server itself could be read, the others at
random entries of the log. Each restored server must have exactly what the server had, or what the log says for this
entry. Also tested: what is refused, damage, and the archive after the log was cut. With `bucket` the archive is in a
store that speaks S3 (bucket.py).
"""
import atexit
import os
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from load import Load  # noqa: E402
from model import Model, differences, found, model_at, read_log  # noqa: E402
from server import Server, free_port, run  # noqa: E402
from checks import check, equal, finish, require, wait_until  # noqa: E402

NAGI, FOLDER, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
MOMENTS = int(sys.argv[4]) if len(sys.argv) > 4 else 4
LOCAL = len(sys.argv) <= 5
STORE_PORT = free_port()
ARCHIVE = os.path.join(FOLDER, "archive") if LOCAL else "s3://bucket/some/prefix"
ENDPOINT = [] if LOCAL else ["--endpoint", "http://127.0.0.1:%d" % STORE_PORT]
OTHER_PORT = free_port()


def path(name):
    return os.path.join(FOLDER, name)


def stamp(time):
    return "%d,%d" % (time.time, time.inc)


class Archiver:
    """`nagi backup --archive`, with short segments."""

    def __init__(self, uri):
        self.output = open(path("archiver.log"), "ab")
        self.process = subprocess.Popen(
            [NAGI, "backup", "--archive", ARCHIVE, "--uri", uri.split("/?")[0], "--segmentSeconds", "1", *ENDPOINT],
            stdout=self.output, stderr=subprocess.STDOUT)

    def end(self, how):
        require(self.process.poll() is None, "the archiver runs: %s" % self.said())
        self.process.send_signal(how)
        code = self.process.wait(60)
        self.output.close()
        return code

    def said(self):
        with open(path("archiver.log")) as file:
            return file.read()[-1000:]


def restore(to, name, expect=0):
    return run(NAGI, "restore", "--from", ARCHIVE, "--to", to, "--dbpath", path(name), *ENDPOINT, expect=expect)


def quiet_moment(load, client):
    """Stops the load, and returns the time of the newest entry and what the server has."""
    load.gate.close()
    try:
        newest = client.local["oplog.rs"].find().sort("$natural", -1).limit(1).next()["ts"]
        return newest, found(client)
    finally:
        load.gate.open()


def run_load(source):
    """Returns the quiet moments and the time from which moments can be restored."""
    archiver = Archiver(source.uri)
    has_base = lambda: "base copy of" in archiver.said()
    require(wait_until(has_base), "the archiver makes a base copy: %s" % archiver.said())
    first = source.client.local["oplog.rs"].find().sort("$natural", -1).limit(1).next()["ts"]
    load = Load(source.uri, random.randrange(10**6), pace=0.003)
    quiet = []
    for part in range(4):
        time.sleep(random.uniform(0.5, 1.0) + 0.1 * MOMENTS)
        quiet.append(quiet_moment(load, source.client))
        if part == 0:
            archiver.end(signal.SIGKILL)
            time.sleep(0.3)
            archiver = Archiver(source.uri)
        elif part == 1:
            source.kill()
            source.start()
            require(wait_until(lambda: source.client.admin.command("hello")["isWritablePrimary"]), "it is primary again")
        elif part == 2:
            run(NAGI, "backup", "--archive", ARCHIVE, "--uri", source.uri.split("/?")[0], "--newBase", *ENDPOINT)
            archiver.end(signal.SIGKILL)
            archiver = Archiver(source.uri)
    load.stop()
    equal("only expected errors", load.errors, [])
    large_transaction(source)
    newest = source.client.local["oplog.rs"].find().sort("$natural", -1).limit(1).next()["ts"]
    source.client.admin.command("appendOplogNote", 1, data={"msg": "end"})
    time.sleep(1)
    equal("the archiver ends", archiver.end(signal.SIGTERM), 0)
    once = run(NAGI, "backup", "--archive", ARCHIVE, "--uri", source.uri.split("/?")[0], "--once", *ENDPOINT)
    check("what is left is archived", "log archived up to" in once, once)
    return first, quiet, newest


def large_transaction(source):
    """It is logged in several entries, because it does not fit into a document."""
    big = source.client.load.big
    with source.client.start_session() as session, session.start_transaction():
        for i in range(20):
            big.insert_one({"_id": i, "text": "x" * (1 << 20)}, session=session)


def compare(what, to, expected):
    text = restore(to, "restored")
    # A server drops temporary collections, such as those of $out, when it starts.
    expected = {ns: of for ns, of in expected.items() if not of.get("options", {}).get("temp")}
    server = Server(NAGI, path("restored"), OTHER_PORT, member=False)
    wrong = differences(expected, found(server.client))
    check("%s %s" % (what, to), not wrong, (wrong, text))
    invalid = [ns for ns, of in expected.items() if "docs" in of
               and not server.client[ns.split(".")[0]].command("validate", ns.split(".", 1)[1])["valid"]]
    check("%s %s: valid collections" % (what, to), not invalid, invalid)
    server.remove()


def moments():
    source = Server(NAGI, path("source"), PORT)
    db = source.client.load
    db.command("create", "capped", capped=True, size=4096, max=30)
    db.a.insert_many([{"_id": i, "k": i % 20, "n": 0, "a": [1, 2, 3], "d": {"x": 0, "p": "p" * 200}} for i in range(300)])
    if not LOCAL:
        db.large.insert_many([{"bytes": os.urandom(2 << 20)} for _ in range(20)])  # a file of several parts
    first, quiet, newest = run_load(source)
    entries = list(read_log(source.client))
    last = found(source.client)
    check("the log is the data", not differences(model_at(entries).state(), last), differences(model_at(entries).state(), last))
    for at, state in random.sample(quiet, 1 if MOMENTS < 10 else len(quiet)):
        check("the model is the server", not differences(model_at(entries, at).state(), state))
        compare("a quiet moment", stamp(at), state)
    # An insert and the deletes that keep a capped collection within its limits are one commit, so there is no moment
    # between their entries: a restore to one of them has deleted as well.
    within = lambda one, next_one: one["ns"] == next_one["ns"] == "load.capped"
    between = [one["ts"] for one, next_one in zip(entries, entries[1:])
               if first <= one["ts"] <= newest and not within(one, next_one)]
    chosen, model = sorted(random.sample(between, MOMENTS)), Model()
    for entry in entries:
        model.apply(entry)
        if entry["ts"] in chosen:
            compare("entry", stamp(entry["ts"]), model.state())
    parts = [at for at, entry in enumerate(entries) if entry["o"].get("partialTxn")]
    require(parts, "a transaction in several entries")
    within, end = parts[0], parts[-1] + 1
    for at in [random.choice((within, end))] if MOMENTS < 10 else [within, end]:
        time = entries[at]["ts"]
        compare("a transaction as a whole or not at all", stamp(time), model_at(entries, time).state())
    compare("all", "latest", last)
    return source, entries, newest


def seconds(source):
    """A date means the end of its second."""
    uri, written = source.uri.split("/?")[0], None
    while True:
        at = int(time.time())
        source.client.load.later.insert_one({"_id": at})
        written = source.client.local["oplog.rs"].find().sort("$natural", -1).limit(1).next()
        state = found(source.client)
        require(wait_until(lambda: int(time.time()) > written["ts"].time), "time goes on")
        source.client.load.later.insert_one({"_id": -at})
        if int(time.time()) < at + 3:
            break
    date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(written["ts"].time))
    run(NAGI, "backup", "--archive", ARCHIVE, "--uri", uri, "--once", *ENDPOINT)
    compare("a date", date, state)
    # Its last second may go on: what it will have in the end is not known.
    newest = source.client.local["oplog.rs"].find().sort("$natural", -1).limit(1).next()["ts"].time
    text = restore(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(newest)), "none", expect=1)
    check("the last second", "is not archived yet" in text, text)


def refusals(entries, newest):
    future = "%d,1" % (time.time() + 1000)
    text = restore(future, "none", expect=1)
    check("a moment that is not archived", "is not archived yet: the log is archived up to" in text, text)
    text = restore("5,1", "none", expect=1)
    check("a moment before the first one", "before the first moment that can be restored" in text, text)
    text = restore("yesterday", "none", expect=2)
    check("no moment", "expected a time such as" in text, text)
    check("nothing was created", not os.path.exists(path("none")))
    os.makedirs(path("full/of"))
    text = restore("latest", "full", expect=1)
    check("a folder that is not empty", "is not empty" in text, text)
    if not LOCAL:
        return
    log = os.path.join(ARCHIVE, "log")
    segments = sorted(os.listdir(log))
    # What a killed archiver leaves has no such name; the restores that follow ignore it.
    with open(os.path.join(log, segments[-1] + "#1"), "w") as file:
        file.write("half a segment")
    damaged = os.path.join(log, segments[-1])
    with open(damaged, "r+b") as file:
        whole = file.read()
        file.seek(len(whole) // 2)
        file.write(bytes([whole[len(whole) // 2] ^ 1]))
    text = restore("latest", "damaged", expect=1)
    check("a damaged segment", "the checksum does not match" in text and segments[-1] in text, text)
    server = subprocess.run([NAGI, "serve", "--dbpath", path("damaged"), "--port", str(OTHER_PORT)], capture_output=True, timeout=60)
    check("an unfinished restore is no data directory", server.returncode != 0, server)
    os.rename(damaged, damaged + ".aside")
    text = restore(stamp(newest), "missing", expect=1)
    check("a missing segment", "is not archived" in text, text)
    shutil.rmtree(path("missing"), ignore_errors=True)
    with open(damaged, "wb") as file:
        file.write(whole)


def cut(source, first):
    """The server's log is cut while nobody archives it."""
    source.client.admin.command("replSetResizeOplog", 1, size=990.0)
    source.stop()
    data = path("source")
    # Another log: as after it has been removed.
    plain = Server(NAGI, data, PORT, member=False)
    plain.client.local["oplog.rs"].drop()
    plain.stop()
    source.start()
    require(wait_until(lambda: source.client.admin.command("hello")["isWritablePrimary"]), "it is primary")
    source.client.load.after_the_cut.insert_one({"_id": 1})
    uri = source.uri.split("/?")[0]
    text = run(NAGI, "backup", "--archive", ARCHIVE, "--uri", uri, "--once", *ENDPOINT, expect=1)
    check("a gap is reported", "has no entry at" in text and "--newBase" in text, text)
    run(NAGI, "backup", "--archive", ARCHIVE, "--uri", uri, "--newBase", *ENDPOINT)
    source.client.load.after_the_cut.insert_one({"_id": 2})
    run(NAGI, "backup", "--archive", ARCHIVE, "--uri", uri, "--once", *ENDPOINT)
    compare("after a gap", "latest", found(source.client))
    text = run(NAGI, "backup", "--prune", ARCHIVE, "--keepBases", "1", *ENDPOINT)
    check("older base copies are removed", text.strip().split(" base copies")[0].split()[-1] != "0" and " removed" in text, text)
    compare("after older ones were removed", "latest", found(source.client))
    text = restore(stamp(first), "none", expect=1)
    check("their moments are gone", "before the first moment that can be restored" in text, text)


def member(source):
    """A restored folder is a member again: its log begins anew."""
    restore("latest", "again")
    again = Server(NAGI, path("again"), OTHER_PORT)
    require(wait_until(lambda: again.client.admin.command("hello")["isWritablePrimary"]), "the restored member is primary")
    again.client.load.as_member.insert_one({"_id": 1})
    entries = list(again.client.local["oplog.rs"].find())
    check("the log begins anew", entries and all(e["op"] == "n" or "as_member" in str(e) for e in entries), entries[:3])
    equal("and has the new write", entries[-1]["o"], {"_id": 1})
    again.stop()


os.makedirs(FOLDER, exist_ok=True)
if not LOCAL:
    os.environ.update(AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret", AWS_REGION="somewhere")
    store = subprocess.Popen([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "bucket.py"), str(STORE_PORT)])
    atexit.register(store.kill)
source, entries, newest = moments()
refusals(entries, newest)
seconds(source)
member(source)
cut(source, newest)
source.stop()
finish("restores of moments")

"""Damages data directories of both engines and repairs them: damage.py NAGI FOLDER [--seconds N] [--seed S]
[--engine NAME] [--only KIND].

One data directory is created for each engine, and its server is stopped in order. Then the directory is copied
repeatedly. Each copy is damaged in one way, repaired with `--repair`, and started. These must hold:

  - the repair exits with code 0, or refuses with 14 or 100 and a reason; it never fails in another way
  - after exit code 0 the server starts, and `validate {full: true}` finds every collection valid
  - no document has other contents than the ones that were written
  - no document is lost, unless the damaged bytes were the only copy of it

The seed is printed; with it and --only a case can be repeated.
"""

import argparse
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pymongo
from pymongo.errors import PyMongoError

NAMES = ["one", "two", "three"]
COUNT = 700
FOOTER = 53  # of a table file
MAGIC = bytes.fromhex("f7cff485b741e288")


def document(name, n):
    filler = random.Random(f"{name} {n}")
    return {"_id": n, "k": n % 7, "t": [n % 5, -1], "pad": "%0120x" % filler.getrandbits(480)}


class Server:
    def __init__(self, nagi, folder, engine):
        self.nagi, self.folder, self.engine = nagi, folder, engine
        self.process = None

    def command(self, port):
        return [self.nagi, "serve", "--dbpath", self.folder, "--port", str(port), "--bind_ip", "127.0.0.1",
                "--nounixsocket", "--storageEngine", self.engine, "--wiredTigerCacheSizeGB", "0.25",
                *(["--smallfiles", "--noprealloc"] if self.engine == "lmdb" else [])]

    def repair(self):
        done = subprocess.run(self.command(0) + ["--repair"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        return done.returncode, done.stdout.decode(errors="replace")

    def start(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.log = open(self.folder + ".log", "wb")
        self.process = subprocess.Popen(self.command(port), stdout=self.log, stderr=self.log)
        until = time.time() + 120
        while time.time() < until and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return pymongo.MongoClient("127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=20000)
            except OSError:
                time.sleep(0.05)
        return None

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode


def make(nagi, folder, engine):
    """A data directory with tables of several ages, whose server was stopped in order."""
    os.makedirs(folder)
    server = Server(nagi, folder, engine)
    for part in range(2):
        client = server.start()
        assert client, "the server does not start"
        db = client.damage
        for name in NAMES:
            if part == 0:
                db[name].create_index("k")
                db[name].create_index("t")
            half = range(part * COUNT // 2, (part + 1) * COUNT // 2)
            db[name].insert_many([document(name, n) for n in half])
        client.close()
        assert server.stop() == 0


# ---- kinds of damage ----------------------------------------------------------------------------------


def varint(text, at):
    value, shift = 0, 0
    while True:
        value |= (text[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if text[at - 1] < 128:
            return value, at


def data_end(text):
    """The end of a table's data blocks: the offset of the first block that the table's list of other blocks
    names."""
    assert text[-8:] == MAGIC
    size = int.from_bytes(text[-FOOTER + 13:-FOOTER + 17], "little")
    block = text[-FOOTER - 5 - size:-FOOTER - 5]
    end = len(block) - 4 - 4 * int.from_bytes(block[-4:], "little")
    at, first = 0, len(text)
    while at < end:
        _, at = varint(block, at)
        own, at = varint(block, at)
        length, at = varint(block, at)
        first = min(first, varint(block, at + own)[0])
        at += own + length
    return first


def tables(folder):
    """The tables, largest first: (path, end of its data blocks)."""
    found = []
    for name in os.listdir(folder + "/rocksdb"):
        if not name.endswith(".sst"):
            continue
        path = f"{folder}/rocksdb/{name}"
        with open(path, "rb") as file:
            found.append((path, data_end(file.read())))
    return sorted(found, key=lambda table: -os.path.getsize(table[0]))


def one_of(folder, pattern, rng):
    names = sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)
    names = [name for name in names if re.search(pattern, name[len(folder):]) and os.path.getsize(name)]
    return rng.choice(names) if names else None


def flip(path, first, last, rng):
    with open(path, "r+b") as file:
        at = rng.randrange(first, max(last, first + 1))
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << rng.randrange(8)]))
    return f"bit of byte {at} of {os.path.basename(path)} ({os.path.getsize(path)} bytes)"


def flip_data(folder, rng):
    path, end = rng.choice(tables(folder))
    return flip(path, 0, end, rng)


def flip_meta(folder, rng):
    """Filter, index, properties and the list of these blocks."""
    path, end = rng.choice(tables(folder))
    return flip(path, end, os.path.getsize(path) - FOOTER, rng)


def flip_footer(folder, rng):
    path, _ = rng.choice(tables(folder))
    return flip(path, os.path.getsize(path) - FOOTER, os.path.getsize(path), rng)


def flips_meta_everywhere(folder, rng):
    return "; ".join(flip(path, end, os.path.getsize(path) - FOOTER, rng) for path, end in tables(folder))


def junk(folder, rng, pattern=r"\.sst$"):
    path = one_of(folder, pattern, rng)
    length = rng.choice([1, 100, 4096, 100000])
    with open(path, "ab") as file:
        file.write(rng.choice([bytes(length), rng.randbytes(length)]))
    return f"{length} bytes after {os.path.basename(path)}"


def junk_everywhere(folder, rng):
    for path, _ in tables(folder):
        with open(path, "ab") as file:
            file.write(rng.randbytes(100))
    return "100 bytes after each table"


def doubled(folder, rng, pattern=r"\.sst$"):
    path = one_of(folder, pattern, rng)
    with open(path, "rb") as file:
        text = file.read()
    with open(path, "ab") as file:
        file.write(text)
    return f"{os.path.basename(path)} twice in one file"


def swapped(folder, rng):
    (a, _), (b, _) = rng.sample(tables(folder), 2)
    os.rename(a, a + ".x"), os.rename(b, a), os.rename(a + ".x", b)
    return f"{os.path.basename(a)} and {os.path.basename(b)} swapped"


def truncated(folder, rng, pattern=r"\.sst$"):
    path = one_of(folder, pattern, rng)
    size = os.path.getsize(path)
    left = rng.choice([0, 1, size // 2, max(size - 1, 0), max(size - 60, 0)])
    os.truncate(path, left)
    return f"{os.path.basename(path)} has {left} of {size} bytes"


def removed(folder, rng, pattern=r"\.sst$"):
    path = one_of(folder, pattern, rng)
    os.remove(path)
    return f"{os.path.basename(path)} removed"


def zeroed(folder, rng, pattern=r"\.sst$"):
    path = one_of(folder, pattern, rng)
    at = rng.randrange(os.path.getsize(path)) // 4096 * 4096
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(bytes(min(4096, os.path.getsize(path) - at)))
    return f"page at {at} of {os.path.basename(path)} is zero"


def any_flip(folder, rng, pattern):
    path = one_of(folder, pattern, rng)
    return flip(path, 0, os.path.getsize(path), rng)


def current(folder, rng):
    path = folder + "/rocksdb/CURRENT"
    text = rng.choice([b"", b"MANIFEST-999999\n", b"MANIFEST-", b"\0" * 16, b"../../etc/passwd\n", rng.randbytes(40)])
    open(path, "wb").write(text)
    return f"CURRENT is {text!r}"


LIST = r"/MANIFEST-\d+$"
MAPPED = r"/lmdb/data\.mdb$"
MARKER = r"/nagi\.storage$"
# name, engine, True if a document may be lost, damage function
KINDS = [
    ("flip_data", "rocks", True, flip_data),
    ("flip_meta", "rocks", False, flip_meta),
    ("flips_meta_everywhere", "rocks", False, flips_meta_everywhere),
    ("flip_footer", "rocks", False, flip_footer),
    ("junk", "rocks", False, junk),
    ("junk_everywhere", "rocks", False, junk_everywhere),
    ("doubled", "rocks", False, doubled),
    ("swapped", "rocks", True, swapped),
    ("truncated", "rocks", True, truncated),
    ("removed", "rocks", True, removed),
    ("zeroed", "rocks", True, zeroed),
    ("current", "rocks", False, current),
    ("current_removed", "rocks", False, lambda f, r: removed(f, r, "/CURRENT$")),
    ("manifest_flip", "rocks", False, lambda f, r: any_flip(f, r, LIST)),
    ("manifest_junk", "rocks", False, lambda f, r: junk(f, r, LIST)),
    ("manifest_doubled", "rocks", False, lambda f, r: doubled(f, r, LIST)),
    ("manifest_truncated", "rocks", False, lambda f, r: truncated(f, r, LIST)),
    ("manifest_removed", "rocks", False, lambda f, r: removed(f, r, LIST)),
    ("options_flip", "rocks", False, lambda f, r: any_flip(f, r, r"/OPTIONS-\d+$")),
    ("options_removed", "rocks", False, lambda f, r: removed(f, r, r"/OPTIONS-\d+$")),
    ("closed_flip", "rocks", False, lambda f, r: any_flip(f, r, r"/nagi.closed$")),
    ("log_flip", "rocks", True, lambda f, r: any_flip(f, r, r"\.log$")),
    ("mapped_flip", "lmdb", True, lambda f, r: any_flip(f, r, MAPPED)),
    ("mapped_junk", "lmdb", False, lambda f, r: junk(f, r, MAPPED)),
    ("mapped_doubled", "lmdb", False, lambda f, r: doubled(f, r, MAPPED)),
    ("mapped_truncated", "lmdb", True, lambda f, r: truncated(f, r, MAPPED)),
    ("mapped_zeroed", "lmdb", True, lambda f, r: zeroed(f, r, MAPPED)),
    *((f"marker_{how}_{engine}", engine, True, damage) for engine in ("rocks", "lmdb") for how, damage in [
        ("flip", lambda f, r: any_flip(f, r, MARKER)),
        ("removed", lambda f, r: removed(f, r, MARKER)),
        ("truncated", lambda f, r: truncated(f, r, MARKER)),
        ("junk", lambda f, r: junk(f, r, MARKER)),
        ("zeroed", lambda f, r: zeroed(f, r, MARKER)),
    ]),
]
REFUSALS = (14, 100)


# ---- a case -------------------------------------------------------------------------------------------


def check(server, may_lose):
    """Problems after a successful repair, and the number of lost documents."""
    client = server.start()
    if client is None:
        return [f"the server does not start: exit {server.process.returncode}"], 0
    wrong, lost = [], 0
    db = client.damage
    try:
        for name in NAMES:
            if name not in db.list_collection_names():
                lost += COUNT
                continue
            report = db.command("validate", name, full=True)
            if not report["valid"]:
                wrong.append(f"{name} is not valid: {str(report['errors'])[:300]}")
            for found in db[name].find():
                expected = document(name, found.get("_id"))
                if found != expected:
                    wrong.append(f"{name} has {found}, not {expected}")
            numbers = {found["_id"] for found in db[name].find({}, {"_id": 1})}
            lost += COUNT - len(numbers)
            for hint in report["keysPerIndex"]:
                if hint == "t_1" and db[name].count_documents({"t": -1}, hint=hint) != len(numbers):
                    wrong.append(f"{name}: an index has other documents than the collection")
        db.fresh.insert_one({"_id": 1})
    except PyMongoError as error:
        wrong.append(str(error)[:300])
    client.close()
    if server.stop() != 0:
        wrong.append(f"the end in order gives exit {server.process.returncode}")
    if lost and not may_lose:
        wrong.append(f"{lost} documents are lost without need")
    return wrong, lost


def run(args):
    rng = random.Random(args.seed)
    kinds = [kind for kind in KINDS if args.engine in ("both", kind[1]) and args.only in (None, kind[0])]
    for engine in sorted({kind[1] for kind in kinds}):
        make(args.nagi, f"{args.folder}/whole-{engine}", engine)
    until, cases, refused, lost_all, failures = time.time() + args.seconds, 0, 0, 0, 0
    while time.time() < until or cases < len(kinds):
        name, engine, may_lose, damage = kinds[cases % len(kinds)]
        cases += 1
        seed = rng.getrandbits(32)
        folder = f"{args.folder}/case"
        for old in (folder, folder + ".log"):
            shutil.rmtree(old) if os.path.isdir(old) else os.path.exists(old) and os.remove(old)
        shutil.copytree(f"{args.folder}/whole-{engine}", folder)
        what = damage(folder, random.Random(args.case if args.case is not None else seed))
        server = Server(args.nagi, folder, engine)
        code, text = server.repair()
        wrong, lost = [], 0
        if code in REFUSALS and name.startswith("marker"):
            # The file is written again by hand, as the documentation says; nothing else was damaged.
            refused += 1
            shutil.copy(f"{args.folder}/whole-{engine}/nagi.storage", folder)
            wrong, lost = check(server, False)
        elif code in REFUSALS and may_lose:
            refused += 1
        elif code != 0:
            wrong.append(f"repair ends with {code}: {text[-600:]}")
        else:
            wrong, lost = check(server, may_lose)
            lost_all += lost
        if wrong:
            failures += 1
            print(f"FAILED {name} (--only {name} --case {args.case if args.case is not None else seed}), {what}:", flush=True)
            for line in wrong[:4]:
                print("   ", line[:700], flush=True)
            kept = f"{args.folder}/failed-{cases}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(folder, kept)
        elif args.verbose:
            print(f"{name}: {what}: exit {code}, {lost} lost", flush=True)
    print(f"damage: {cases} damaged folders, {refused} refused, {lost_all} documents lost, {failures} failures; seed {args.seed}")
    return failures


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("nagi")
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, default=0, help="each kind once, and on until then")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--engine", default="both", choices=["both", "rocks", "lmdb"])
    parser.add_argument("--only")
    parser.add_argument("--case", type=int, help="seed of one case of --only")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    sys.exit(1 if run(options) else 0)

"""Opens a data directory of an earlier version and checks its content.

   upgrade.py make OLD_NAGI WORK          fills a directory of each engine with the binary of an earlier version and packs it
   upgrade.py check NAGI WORK             unpacks each packed directory, starts the server on it and compares

The packed directories are next to this file, named by the commit whose binary wrote them. The recipe below
defines their whole content: `make` runs it, `check` compares with it, so a later change of the format is tested
against every version that was packed.
"""

import datetime
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time

import bson
import pymongo
from bson.decimal128 import Decimal128

ENGINES = ["wiredTiger", "mmapv1"]
HERE = pathlib.Path(__file__).parent
DAY = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)


def documents():
    """Every kind of value, arrays, sub-documents, and the fields for each kind of index."""
    for n in range(300):
        yield {
            "_id": n, "n": n % 17, "u": f"user{n}", "tags": [n % 5, f"t{n % 3}"], "sub": {"a": n, "b": [1, n]},
            "day": DAY + datetime.timedelta(days=n), "dec": Decimal128(f"{n}.5"), "long": 2**40 + n, "bin": bytes([n % 256] * 3),
            "oid": bson.ObjectId(f"{n:024x}"), "text": f"the quick fox number {n}", "at": {"type": "Point", "coordinates": [n % 90, n % 45]},
            "flat": [n % 100, n % 50], "none": None, "code": bson.Code("f()"), "re": bson.Regex("^a", "i"), "ts": bson.Timestamp(1600000000 + n, n + 1),
        }


INDEXES = [
    ([("n", 1), ("day", -1)], {}),
    ([("u", 1)], {"unique": True}),
    ([("tags", 1)], {"sparse": True}),
    ([("sub.a", 1)], {"partialFilterExpression": {"n": {"$gt": 8}}}),
    ([("long", "hashed")], {}),
    ([("text", "text")], {}),
    ([("at", "2dsphere")], {}),
    ([("flat", "2d")], {}),
    ([("sub.$**", 1)], {}),
    ([("u", 1), ("n", 1)], {"collation": {"locale": "de", "strength": 2}, "name": "german"}),
]
PAD = "x" * 40_000


def fill(client):
    """Runs the recipe."""
    db = client.old
    db.create_collection("kinds")
    for keys, options in INDEXES:
        db.kinds.create_index(keys, **options)
    db.kinds.insert_many(documents())
    db.kinds.update_many({"n": 3}, {"$set": {"changed": True}})
    db.kinds.delete_many({"n": 5})
    db.create_collection("capped", capped=True, size=1 << 20, max=50)
    db.capped.insert_many([{"_id": n} for n in range(80)])
    db.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True, "name": "by_id"})
    db.clustered.insert_many([{"_id": f"k{n:04}", "v": n} for n in range(200)])
    db.clustered.create_index("v")
    db.create_collection("valid", validator={"v": {"$gt": 0}}, collation={"locale": "fr"})
    db.valid.insert_many([{"_id": n, "v": n + 1, "s": f"É{n}"} for n in range(20)])
    db.create_collection("packed", storageEngine={"wiredTiger": {"configString": "block_compressor=zstd"}})
    db.packed.insert_many([{"_id": n, "pad": PAD + str(n)} for n in range(20)])
    db.command("create", "view", viewOn="kinds", pipeline=[{"$match": {"n": 2}}, {"$project": {"u": 1}}])
    db.create_collection("dropped").insert_one({"_id": 1})
    db.drop_collection("dropped")
    db.create_collection("before").insert_one({"_id": 1})
    db.before.rename("after")
    client.admin.command("createUser", "ada", pwd="lovelace", roles=["root"])
    with client.start_session() as session:
        # Retryable writes and transactions leave session records in a replica set.
        db.kinds.update_one({"_id": 1}, {"$set": {"once": 1}}, session=session)


def expected():
    docs = [dict(doc) for doc in documents() if doc["n"] != 5]
    for doc in docs:
        if doc["n"] == 3:
            doc["changed"] = True
        if doc["_id"] == 1:
            doc["once"] = 1
    return docs


def compare(client):
    """Checks that the content of the recipe is present, by every index, and that the collections accept
    writes."""
    db = client.get_database("old", codec_options=bson.CodecOptions(tz_aware=True))
    docs = expected()
    found = sorted(db.kinds.find(), key=lambda doc: doc["_id"])
    assert found == docs, next(pair for pair in zip(found, docs) if pair[0] != pair[1])
    names = set(db.kinds.index_information())
    assert len(names) == len(INDEXES) + 1, names
    by = lambda query, **more: sorted(doc["_id"] for doc in db.kinds.find(query, {"_id": 1}, **more))
    where = lambda keep: sorted(doc["_id"] for doc in docs if keep(doc))
    assert by({"n": 7}, hint="n_1_day_-1") == where(lambda d: d["n"] == 7)
    assert by({"u": "user44"}, hint="u_1") == [44]
    assert by({"tags": "t1"}, hint="tags_1") == where(lambda d: "t1" in d["tags"])
    assert by({"sub.a": {"$gte": 250}, "n": {"$gt": 8}}, hint="sub.a_1") == where(lambda d: d["_id"] >= 250 and d["n"] > 8)
    assert by({"long": 2**40 + 9}, hint="long_hashed") == [9]
    assert by({"$text": {"$search": "123"}}) == [123]
    assert by({"at": {"$geoWithin": {"$centerSphere": [[10, 10], 0.001]}}}, hint="at_2dsphere") == where(lambda d: d["at"]["coordinates"] == [10, 10])
    assert by({"flat": {"$geoWithin": {"$box": [[1, 1], [1, 1]]}}}, hint="flat_2d") == where(lambda d: d["flat"] == [1, 1])
    assert by({"sub.b": 77}, hint="sub.$**_1") == [77]
    assert by({"u": "USER12"}, collation={"locale": "de", "strength": 2}, hint="german") == [12]
    assert [doc["_id"] for doc in db.capped.find()] == list(range(30, 80))
    assert [doc["_id"] for doc in db.clustered.find()] == [f"k{n:04}" for n in range(200)]
    assert db.clustered.find_one({"_id": "k0042"})["v"] == 42 and db.clustered.find_one({"v": 42}, hint="v_1")["_id"] == "k0042"
    assert [doc["_id"] for doc in db.clustered.find({"_id": {"$gte": "k0010", "$lt": "k0013"}})] == ["k0010", "k0011", "k0012"]
    assert db.valid.count_documents({}) == 20
    assert all(doc["pad"] == PAD + str(doc["_id"]) for doc in db.packed.find())
    assert sorted(doc["_id"] for doc in db.view.find()) == where(lambda d: d["n"] == 2)
    assert set(db.list_collection_names()) == {"kinds", "capped", "clustered", "valid", "packed", "view", "after", "system.views"}
    assert client.admin.command("usersInfo", "ada")["users"][0]["user"] == "ada"
    for name in ["kinds", "capped", "clustered", "valid", "packed", "after"]:
        report = db.command("validate", name, full=True)
        assert report["valid"] and not report["errors"], report
    refused = 0
    for collection, doc in [("kinds", {"_id": 2}), ("kinds", {"u": "user44"}), ("valid", {"v": 0}), ("clustered", {"_id": "k0001"})]:
        try:
            db[collection].insert_one(doc)
        except pymongo.errors.WriteError:
            refused += 1
    assert refused == 4, refused


def change(client):
    """The collections of the earlier layout accept writes like those of the current one."""
    db = client.old
    db.clustered.insert_one({"_id": "k9999", "v": 9999})
    assert db.clustered.find_one({"v": 9999}, hint="v_1")["_id"] == "k9999"
    assert db.clustered.delete_one({"_id": "k9999"}).deleted_count == 1
    db.kinds.insert_one({"_id": 1000, "u": "new", "n": 99})
    assert db.kinds.find_one({"n": 99}, hint="n_1_day_-1")["_id"] == 1000
    db.kinds.delete_one({"_id": 1000})


def start(program, data, work, engine="wiredTiger"):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    args = [program, "serve", "--dbpath", data, "--port", str(port), "--bind_ip", "127.0.0.1", "--logpath", f"{work}/nagi.log", "--logappend"]
    args += ["--storageEngine", engine]
    server = subprocess.Popen(args, stdout=subprocess.DEVNULL)
    client = pymongo.MongoClient("127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=60_000)
    client.admin.command("ping")
    return server, client


def stop(server, client):
    client.close()
    server.send_signal(signal.SIGTERM)
    assert server.wait(60) == 0, server.returncode


def make(program, work):
    for engine in ENGINES:
        data = f"{work}/{engine}"
        os.makedirs(data)
        server, client = start(program, data, work, engine)
        version = client.admin.command("buildInfo")["gitVersion"]
        fill(client)
        stop(server, client)
        name = HERE / f"folder-{version[:7]}-{engine}.tar.xz"
        with tarfile.open(name, "w:xz") as packed:
            packed.add(data, "data")
        print(name, name.stat().st_size, "bytes")


def engine_of(folder):
    """The part of the name of a packed directory after the commit."""
    return folder.name.removesuffix(".tar.xz").rsplit("-", 1)[1]


def check(program, work):
    folders = sorted(HERE.glob("folder-*.tar.xz"))
    assert folders, "no packed directory"
    for folder in folders:
        here = f"{work}/{folder.name}"
        shutil.rmtree(here, ignore_errors=True)
        with tarfile.open(folder) as packed:
            # The filter is part of Python since 3.11.4, and of some distributions' older ones.
            packed.extractall(here, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        for turn in ["opened", "opened again"]:
            server, client = start(program, f"{here}/data", here, engine_of(folder))
            compare(client)
            change(client)
            stop(server, client)
            print(folder.name, turn)
    begin = time.monotonic()
    for engine in ENGINES:
        data = f"{work}/own-{engine}"
        os.makedirs(data)
        server, client = start(program, data, work, engine)
        fill(client)
        compare(client)
        stop(server, client)
    print(f"the recipe with this version: {time.monotonic() - begin:.1f} s")
    print(f"upgrade: {len(folders)} packed directories, all as their recipe says")


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](sys.argv[2], sys.argv[3])

"""mongoexport, mongoimport, bsondump and mongofiles: exchange.py URI TOOLS FOLDER

TOOLS is a folder with the tools. Each mode of each tool is run, and its files or its effects are compared with what pymongo
reads.
"""
import base64
import csv
import datetime
import hashlib
import io
import json
import os
import random
import subprocess
import sys

import bson
import gridfs
import pymongo
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp, json_util

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, finish, section  # noqa: E402

URI, TOOLS, FOLDER = sys.argv[1:4]
DB = "nagi_exchange"
UTC = bson.CodecOptions(tz_aware=True)
DAY = datetime.datetime(2024, 2, 29, 12, 30, 15, 123000, tzinfo=datetime.timezone.utc)
ODD = {
    "_id": ObjectId("65e0a1f00000000000000001"), "int": 7, "long": Int64(2**53 + 1), "double": 1.5, "whole": 3.0, "decimal": Decimal128("1.10"),
    "text": "caf\u00e9, \"quoted\"\nsecond line", "when": DAY, "old": datetime.datetime(1900, 1, 1, tzinfo=datetime.timezone.utc),
    "bin": Binary(b"\x00\xff", 5), "uuid": Binary(b"u" * 16, 4), "yes": True, "nothing": None, "re": Regex("^a/b", "i"), "ts": Timestamp(9, 1),
    "code": Code("f()"), "min": MinKey(), "max": MaxKey(), "sub": {"a": {"b": 1}}, "list": [1, [2], {"c": 3}], "empty": {}, "none": [],
}


def path(name):
    return os.path.join(FOLDER, name)


def write(name, text):
    with open(path(name), "w", encoding="utf-8", newline="") as f:
        f.write(text)
    return path(name)


def read(name, mode="r"):
    with open(path(name), mode, **({} if "b" in mode else {"encoding": "utf-8", "newline": ""})) as f:
        return f.read()


def tool(name, *args, status=0, given=None, connect=True):
    """Runs a tool; returns what it prints to standard output and to standard error."""
    where = ["--uri", URI] if connect else []
    done = subprocess.run([os.path.join(TOOLS, name), *where, *args], input=given, capture_output=True, timeout=120, cwd=FOLDER)
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    check("%s %s: status %d" % (name, " ".join(args)[:80], status), done.returncode == status, (done.returncode, err[-600:]))
    return out, err


def on(collection):
    return ["--db", DB, "--collection", collection]


def canonical(doc):
    return json_util.dumps(doc, json_options=json_util.CANONICAL_JSON_OPTIONS)


def documents(db, name, order="_id"):
    return list(db.get_collection(name, codec_options=UTC).find().sort(order, 1))


# ---- mongoexport ------------------------------------------------------------------------------------------

def exports(client, db):
    db.people.insert_many([{"_id": n, "name": "name %d" % n, "age": n % 40, "at": {"city": "c%d" % (n % 3)}, "tags": ["t%d" % n, n]} for n in range(200)])
    db.people.create_index("age")
    db.odd.insert_one(ODD)
    db.command("create", "view", viewOn="people", pipeline=[{"$match": {"age": 3}}, {"$project": {"name": 1}}])

    out, err = tool("mongoexport", *on("odd"), "--jsonFormat", "canonical")
    seen = json_util.loads(out, json_options=json_util.JSONOptions(tz_aware=True, json_mode=json_util.JSONMode.CANONICAL))
    equal("canonical JSON has every type", canonical(seen), canonical(ODD))
    check("says how many", "exported 1 record" in err, err)
    out, _ = tool("mongoexport", *on("odd"))
    relaxed = json.loads(out)
    equal("relaxed JSON", (relaxed["int"], relaxed["double"], relaxed["long"], relaxed["when"]), (7, 1.5, 2**53 + 1, {"$date": "2024-02-29T12:30:15.123Z"}))
    check("a date before 1970 in relaxed JSON", relaxed["old"] == {"$date": {"$numberLong": "-2208988800000"}}, relaxed["old"])

    tool("mongoexport", *on("people"), "--jsonArray", "--pretty", "--out", path("people.json"))
    equal("an array of all", [doc["_id"] for doc in sorted(json.loads(read("people.json")), key=lambda doc: doc["_id"])], list(range(200)))
    out, _ = tool("mongoexport", *on("people"), "--query", '{"age": {"$gte": 38}}', "--sort", '{"_id": -1}', "--fields", "name")
    lines = [json.loads(line) for line in out.splitlines()]
    equal("query, sort and fields", [(doc["_id"], sorted(doc)) for doc in lines], [(n, ["_id", "name"]) for n in reversed(range(200)) if n % 40 >= 38])
    write("query.json", '{"_id": {"$mod": [50, 0]}}')
    out, _ = tool("mongoexport", *on("people"), "--queryFile", path("query.json"), "--sort", '{"_id": 1}')
    equal("a query of a file", [json.loads(line)["_id"] for line in out.splitlines()], [0, 50, 100, 150])
    out, _ = tool("mongoexport", *on("people"), "--sort", '{"_id": 1}', "--skip", "10", "--limit", "5")
    equal("skip and limit", [json.loads(line)["_id"] for line in out.splitlines()], list(range(10, 15)))
    out, _ = tool("mongoexport", *on("view"))
    equal("a view", sorted(json.loads(line)["_id"] for line in out.splitlines()), [n for n in range(200) if n % 40 == 3])
    _, err = tool("mongoexport", *on("absent"), "--assertExists", status=1)
    check("a collection that must exist", "does not exist" in err, err)
    out, _ = tool("mongoexport", *on("absent"))
    equal("one that need not", out, "")
    _, err = tool("mongoexport", *on("people"), "--query", '{"$nope": 1}', status=1)
    check("the server's error", "unknown top level operator: $nope" in err, err)

    out, _ = tool("mongoexport", *on("people"), "--type", "csv", "--fields", "_id,at.city,tags.0,absent", "--sort", '{"_id": 1}', "--limit", "3")
    equal("CSV", list(csv.reader(io.StringIO(out))), [["_id", "at.city", "tags.0", "absent"]] + [[str(n), "c%d" % (n % 3), "t%d" % n, ""] for n in range(3)])
    write("fields", "text\nwhen\nuuid\n")
    out, _ = tool("mongoexport", *on("odd"), "--type=csv", "--fieldFile", path("fields"), "--noHeaderLine")
    row = list(csv.reader(io.StringIO(out)))
    check("CSV with quotes and line ends, without a head", len(row) == 1 and row[0][:2] == [ODD["text"], "2024-02-29T12:30:15.123Z"], row)
    _, err = tool("mongoexport", *on("odd"), "--type=csv", status=1)
    check("CSV needs fields", "CSV mode requires a field list" in err, err)


# ---- mongoimport ------------------------------------------------------------------------------------------

def imports(client, db):
    write("odd.json", canonical(ODD) + "\n")
    tool("mongoimport", *on("odd_again"), "--file", path("odd.json"))
    equal("a document of every type", [canonical(doc) for doc in documents(db, "odd_again")], [canonical(ODD)])
    out, err = tool("mongoimport", *on("people_again"), "--jsonArray", path("people.json"), "--numInsertionWorkers", "4")
    equal("an array", documents(db, "people_again"), documents(db, "people"))
    check("says how many", "200 document(s) imported successfully. 0 document(s) failed to import." in err, err)
    write("other.json", '{"_id": 1, "legacy": {"$date": "2024-01-01T00:00:00Z"}, "id": {"$oid": "65e0a1f00000000000000001"}}')
    tool("mongoimport", *on("legacy"), "--legacy", path("other.json"))
    equal("the older notation", db.legacy.find_one()["id"], ObjectId("65e0a1f00000000000000001"))

    modes(db)
    tables(db)
    failures(db)


def modes(db):
    """insert, upsert, merge and delete; by _id and by other fields."""
    db.stock.insert_many([{"_id": n, "sku": "s%d" % n, "count": n, "kept": True} for n in range(4)])
    rows = "\n".join(json.dumps({"_id": n, "sku": "s%d" % n, "count": 100 + n}) for n in range(2, 6))
    write("stock.json", rows)
    _, err = tool("mongoimport", *on("stock"), path("stock.json"))
    check("insert keeps what is there", "2 document(s) imported successfully. 2 document(s) failed to import." in err and "E11000 duplicate key error" in err, err)
    equal("stock after insert", [doc["count"] for doc in documents(db, "stock")], [0, 1, 2, 3, 104, 105])
    tool("mongoimport", *on("stock"), "--mode", "upsert", path("stock.json"))
    equal("upsert replaces", [(doc["count"], doc.get("kept")) for doc in documents(db, "stock")], [(0, True), (1, True), (102, None), (103, None), (104, None), (105, None)])
    write("stock.json", "\n".join(json.dumps({"sku": sku, "count": 7, "new": [1]}) for sku in ("s0", "s9")))
    tool("mongoimport", *on("stock"), "--mode", "merge", "--upsertFields", "sku", path("stock.json"))
    equal("merge keeps other fields", db.stock.find_one({"sku": "s0"}), {"_id": 0, "sku": "s0", "count": 7, "kept": True, "new": [1]})
    check("merge inserts", isinstance(db.stock.find_one({"sku": "s9"})["_id"], ObjectId))
    _, err = tool("mongoimport", *on("stock"), "--mode", "delete", "--upsertFields", "sku", path("stock.json"))
    equal("delete", sorted(doc["sku"] for doc in documents(db, "stock")), ["s1", "s2", "s3", "s4", "s5"])
    tool("mongoimport", *on("stock"), "--drop", path("stock.json"))
    equal("--drop", sorted(doc["sku"] for doc in documents(db, "stock")), ["s0", "s9"])


def tables(db):
    """CSV and TSV with heads, given fields and types."""
    write("t.csv", 'name,n,at.city,blank\n"Ada, the first",1,London,\n"two\nlines",2.5,"""Bath""",x\n')
    tool("mongoimport", *on("csv"), "--type", "csv", "--headerline", "--ignoreBlanks", path("t.csv"))
    without_id = [{key: value for key, value in doc.items() if key != "_id"} for doc in documents(db, "csv", "n")]
    equal("CSV", without_id, [{"name": "Ada, the first", "n": 1, "at": {"city": "London"}}, {"name": "two\nlines", "n": 2.5, "at": {"city": '"Bath"'}, "blank": "x"}])
    write("t.tsv", "1\t0123\t2024-02-29 10:00:00\taGk=\ttrue\t12.50\n")
    fields = "_id.int64(),zip.string(),when.date(2006-01-02 15:04:05),bytes.binary(base64),yes.boolean(),price.decimal()"
    tool("mongoimport", *on("tsv"), "--type=tsv", "--columnsHaveTypes", "--fields", fields, given=read("t.tsv", "rb"))
    doc = db.get_collection("tsv", codec_options=UTC).find_one()
    when = datetime.datetime(2024, 2, 29, 10, tzinfo=datetime.timezone.utc)
    equal("TSV with types, from standard input", doc, {"_id": 1, "zip": "0123", "when": when, "bytes": base64.b64decode("aGk="), "yes": True, "price": Decimal128("12.50")})
    check("an int64", isinstance(doc["_id"], Int64), type(doc["_id"]))
    write("arrays.csv", "a.0,a.1,b\n1,2,3\n")
    tool("mongoimport", *on("arrays"), "--type=csv", "--headerline", "--useArrayIndexFields", path("arrays.csv"))
    equal("array indexes as fields", db.arrays.find_one({}, {"_id": 0}), {"a": [1, 2], "b": 3})
    write("bad.csv", "n\n1\nx\n3\n")
    _, err = tool("mongoimport", *on("strict"), "--type=csv", "--columnsHaveTypes", "--fields", "n.int32()", "--parseGrace", "skipRow", path("bad.csv"))
    equal("rows of a wrong type are skipped", sorted(doc["n"] for doc in documents(db, "strict")), [1, 3])


def failures(db):
    """Documents that the server refuses."""
    db.create_collection("checked", validator={"n": {"$lt": 10}})
    write("n.json", "\n".join(json.dumps({"_id": n, "n": n}) for n in (1, 20, 3)))
    _, err = tool("mongoimport", *on("checked"), path("n.json"))
    check("a validator refuses one", "2 document(s) imported successfully. 1 document(s) failed to import." in err and "Document failed validation" in err, err)
    db.drop_collection("checked")
    db.create_collection("checked", validator={"n": {"$lt": 10}})
    tool("mongoimport", *on("checked"), "--bypassDocumentValidation", path("n.json"))
    equal("without validation", db.checked.count_documents({}), 3)
    db.ordered.insert_one({"_id": 20})
    _, err = tool("mongoimport", *on("ordered"), "--maintainInsertionOrder", path("n.json"), status=1)
    equal("stops at the first error", [doc["_id"] for doc in documents(db, "ordered")], [1, 20])
    write("broken.json", '{"a": 1}\n{"a": \n')
    _, err = tool("mongoimport", *on("broken"), path("broken.json"), status=1)
    check("a broken file", "Failed" in err, err)


# ---- mongodump to a pipe, bsondump -------------------------------------------------------------------------

def dumps(client, db):
    done = subprocess.run([os.path.join(TOOLS, "mongodump"), "--quiet", "--uri", URI, *on("people"), "--query", '{"age": {"$lt": 2}}', "--out", "-"], capture_output=True, timeout=60)
    equal("mongodump to standard output", done.returncode, 0)
    equal("the documents of the query", sorted(doc["_id"] for doc in bson.decode_all(done.stdout)), [n for n in range(200) if n % 40 < 2])
    out, err = tool("bsondump", connect=False, given=done.stdout)
    equal("bsondump of standard input", sorted(int(json.loads(line)["_id"]["$numberInt"]) for line in out.splitlines()), [n for n in range(200) if n % 40 < 2])
    check("bsondump counts", "10 objects found" in err, err)

    tool("mongodump", "--db", DB, "--out", path("views"), "--viewsAsCollections")
    equal("only views, as collections", [name for name in os.listdir(path("views/" + DB)) if name.endswith(".bson")], ["view.bson"])
    tool("mongodump", "--db", DB, "--out", path("dump"), "--excludeCollection", "people")
    dumped = os.listdir(path("dump/" + DB))
    check("without the excluded, with what a view is", "people.bson" not in dumped and "view.metadata.json" in dumped, dumped)
    out, _ = tool("bsondump", "--bsonFile", path("dump/%s/odd.bson" % DB), connect=False)
    equal("bsondump of every type", json.loads(out), json.loads(canonical(ODD)))
    out, _ = tool("bsondump", "--pretty", "--outFile", path("odd.txt"), path("dump/%s/odd.bson" % DB), connect=False)
    equal("pretty, into a file", json.loads(read("odd.txt")), json.loads(canonical(ODD)))
    out, _ = tool("bsondump", "--type", "debug", path("dump/%s/odd.bson" % DB), connect=False)
    check("the types of its fields", all(one in out for one in ("--- new object ---", "type:   16 size", "type:   18 size")), out[:500])
    with open(path("dump/%s/odd.bson" % DB), "rb") as f:
        whole = f.read()
    with open(path("cut.bson"), "wb") as f:
        f.write(whole[:-5])
    tool("bsondump", "--objcheck", path("cut.bson"), connect=False, status=1)
    tool("mongorestore", "--dryRun", "--nsFrom", DB + ".*", "--nsTo", "nagi_dry.*", path("dump"))
    check("a dry run changes nothing", "nagi_dry" not in client.list_database_names())


# ---- mongofiles --------------------------------------------------------------------------------------------

def files(client, db):
    r = random.Random(3)
    contents = {"empty": b"", "small.txt": b"text", "large.bin": r.randbytes(700_000)}
    for name, data in contents.items():
        with open(path(name), "wb") as f:
            f.write(data)
    grid, where = gridfs.GridFS(db), ["--db", DB]
    tool("mongofiles", *where, "put", "empty", "small.txt", "large.bin")
    for name, data in contents.items():
        found = grid.get_last_version(name)
        equal("what pymongo reads of " + name, hashlib.sha256(found.read()).hexdigest(), hashlib.sha256(data).hexdigest())
        equal("length of " + name, found.length, len(data))
    equal("chunks of the large file", [len(chunk["data"]) for chunk in db.fs.chunks.find({"files_id": grid.get_last_version("large.bin")._id}).sort("n", 1)],
          [255 * 1024, 255 * 1024, 700_000 - 2 * 255 * 1024])
    equal("the index of chunks", db.fs.chunks.index_information()["files_id_1_n_1"], {"v": 2, "key": [("files_id", 1), ("n", 1)], "unique": True})
    out, _ = tool("mongofiles", *where, "list")
    equal("list", sorted(line.split("\t") for line in out.splitlines() if line), sorted([name, str(len(data))] for name, data in contents.items()))
    out, _ = tool("mongofiles", *where, "list", "sma")
    equal("list by prefix", out.split(), ["small.txt", "4"])
    out, _ = tool("mongofiles", *where, "search", "n$")
    equal("search", out.split(), ["large.bin", "700000"])
    tool("mongofiles", *where, "get", "large.bin", "--local", path("back.bin"))
    equal("get", read("back.bin", "rb"), contents["large.bin"])
    out, _ = tool("mongofiles", *where, "get", "small.txt", "--local", "-")
    equal("get to standard output", out, "text")
    os.remove(path("small.txt"))
    tool("mongofiles", *where, "get_regex", "^SMALL", "--regexOptions", "i")
    equal("get_regex", read("small.txt", "rb"), b"text")
    tool("mongofiles", *where, "put_id", "small.txt", '{"$numberLong": "17"}', "--type", "text/plain")
    equal("put_id with a type of content", grid.get(17).read(), b"text")
    equal("its metadata", db.fs.files.find_one({"_id": 17})["metadata"], {"contentType": "text/plain"})
    tool("mongofiles", *where, "get_id", '{"$numberLong": "17"}', "--local", path("by_id"))
    equal("get_id", read("by_id", "rb"), b"text")
    tool("mongofiles", *where, "delete_id", '{"$numberLong": "17"}')
    check("delete_id", not grid.exists(17))
    write("small.txt", "second")
    tool("mongofiles", *where, "put", "small.txt", "--replace")
    equal("--replace leaves one", [(one.filename, one.length) for one in grid.find({"filename": "small.txt"})], [("small.txt", 6)])
    tool("mongofiles", *where, "put", "small.txt", "--prefix", "other")
    equal("another bucket", gridfs.GridFS(db, "other").get_last_version("small.txt").read(), b"second")
    tool("mongofiles", *where, "delete", "large.bin")
    equal("delete takes the chunks", db.fs.chunks.count_documents({}), 1)
    tool("mongofiles", *where, "get", "large.bin", status=1)
    names = sorted(["fs.files", "fs.chunks", "other.files", "other.chunks"])
    equal("its collections", sorted(name for name in db.list_collection_names() if name.endswith((".files", ".chunks"))), names)


def main():
    client = pymongo.MongoClient(URI)
    client.drop_database(DB)
    os.makedirs(FOLDER, exist_ok=True)
    for part in (exports, imports, dumps, files):
        section(part, client, client[DB])
    client.drop_database(DB)
    finish("mongoexport, mongoimport, bsondump and mongofiles")


main()

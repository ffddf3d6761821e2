"""Documents for the test of MongoDB's tools: documents.py URI fill N | compare."""
import datetime
import random
import sys

import bson
import pymongo
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.raw_bson import RawBSONDocument

INDEXES = [([("k", 1)], {}), ([("k", 1), ("when", -1)], {}), ([("u", 1)], {"unique": True}), ([("tags", 1)], {"sparse": True}),
           ([("n.x", -1)], {"partialFilterExpression": {"k": {"$gt": 50}}, "name": "part"})]


def document(i, r):
    d = {"_id": i if i % 3 else ObjectId(i.to_bytes(12, "big")), "k": i % 100, "u": "unique %d" % i,
         "when": datetime.datetime(2020, 1, 1) + datetime.timedelta(seconds=i), "n": {"x": r.random(), "y": [i, None]},
         "text": "".join(r.choices("abcdefgh \u00e9", k=r.randrange(200)))}
    if i % 2:
        d["tags"] = [r.randrange(10) for _ in range(r.randrange(4))]
    if i % 50 == 0:
        d["all"] = [1.5, -0.0, Int64(i), Decimal128("1.10"), Binary(b"\0\1", 0), Binary(b"u" * 16, 4), True, None, Regex("^a", "i"),
                    Timestamp(i, 1), Code("f()"), Code("g()", {"a": 1}), MinKey(), MaxKey(), {}, []]
    return d


def fill(client, count):
    client.drop_database("nagi_dump")
    r = random.Random(7)
    c = client.nagi_dump.docs
    for keys, options in INDEXES:
        c.create_index(keys, **options)
    for start in range(0, count, 5000):
        c.insert_many([document(i, r) for i in range(start, min(start + 5000, count))], ordered=False)
    client.nagi_dump.create_collection("empty")
    print("filled %d documents, %d indexes" % (c.estimated_document_count(), len(INDEXES)))


def compare(client):
    raw = bson.CodecOptions(document_class=RawBSONDocument)
    problems = 0
    for name in ("nagi_restored", "nagi_again"):
        source, copy = client.nagi_dump, client[name]
        if sorted(source.list_collection_names()) != sorted(copy.list_collection_names()):
            print("other collections in %s: %s" % (name, copy.list_collection_names()))
            problems += 1
        strip = lambda info: {k: {x: y for x, y in v.items() if x != "ns"} for k, v in info.items()}
        if strip(source.docs.index_information()) != strip(copy.docs.index_information()):
            print("other indexes in %s: %s" % (name, copy.docs.index_information()))
            problems += 1
        a = source.get_collection("docs", codec_options=raw).find().sort("u", 1)
        b = copy.get_collection("docs", codec_options=raw).find().sort("u", 1)
        count = 0
        for x, y in zip(a, b):
            count += 1
            if x.raw != y.raw:
                problems += 1
                if problems < 5:
                    print("other document: %r %r" % (x, y))
        total = source.docs.count_documents({})
        if count != total or copy.docs.count_documents({}) != total:
            print("%s: %d documents of %d" % (name, copy.docs.count_documents({}), total))
            problems += 1
        client.drop_database(name)
    print("mongodump and mongorestore: %d documents and %d indexes compared twice (folder, gzip archive), %d differences"
          % (total, len(INDEXES), problems))
    sys.exit(1 if problems else 0)


client = pymongo.MongoClient(sys.argv[1])
fill(client, int(sys.argv[3])) if sys.argv[2] == "fill" else compare(client)

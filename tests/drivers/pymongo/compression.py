"""Collections with a configured compressor, as a driver sees them: compression.py URI"""
import os
import sys

import pymongo

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import passed, require, require_fails  # noqa: E402

database = pymongo.MongoClient(sys.argv[1], serverSelectionTimeoutMS=5000).compression
database.client.drop_database("compression")


def engine(config):
    return {"wiredTiger": {"configString": config}}


def creation(name):
    return database.command("collStats", name)["wiredTiger"]["creationString"]


text = "0123456789" * 100_000
for name in ["none", "snappy", "zlib", "zstd", "lz4"]:
    collection = database.create_collection(name, storageEngine=engine("block_compressor=" + name))
    collection.insert_many([{"_id": n, "small": "x" * n, "n": n} for n in range(100)])
    collection.insert_one({"_id": "large", "text": text})
    require("block_compressor=%s," % name in creation(name), name + ": creationString")
    require(collection.options()["storageEngine"] == engine("block_compressor=" + name), name + ": options")
    require(collection.find_one("large")["text"] == text, name + ": by _id")
    require([d.get("n") for d in collection.find()] == [*range(100), None], name + ": in order")
    require(collection.update_one({"_id": "large"}, {"$set": {"n": 7}}).modified_count == 1, name + ": update")
    require(collection.find_one({"n": 7, "_id": "large"})["text"] == text, name + ": after the update")
    stats = database.command("collStats", name)
    require(stats["size"] > 1_000_000, name + ": the size is that of the documents")
    require((stats["storageSize"] < 200_000) == (name != "none"), "%s: on disk %d" % (name, stats["storageSize"]))
    require(database.command("validate", name)["valid"], name + ": validate")
    collection.rename(name + "2")
    require("block_compressor=%s," % name in creation(name + "2"), name + ": renamed")
    list(database[name + "2"].aggregate([{"$match": {"n": 7}}, {"$out": name + "2"}]))
    require("block_compressor=%s," % name in creation(name + "2"), name + ": replaced by $out")
    require(database[name + "2"].count_documents({}) == 2, name + ": $out")

for config, code in [("block_compressor=lzo", 2), ("nonsense=1", 2), ("leaf_page_max=64KB", 115), (5, 14)]:
    require_fails(code, "", repr(config), lambda: database.create_collection("bad", storageEngine=engine(config)))

indexed = database.create_collection("indexed")
indexed.create_index("n", name="own", storageEngine=engine("block_compressor=zlib"))
require(indexed.index_information()["own"]["storageEngine"] == engine("block_compressor=zlib"), "an index's choice is listed")
for config, code in [("block_compressor=lzo", 2), ("nonsense=1", 2), ("leaf_page_max=64KB", 115)]:
    require_fails(code, "", repr(config), lambda: indexed.create_index("m", storageEngine=engine(config)))
require(list(indexed.index_information()) == ["_id_", "own"], "no index of a refused string")
database.client.drop_database("compression")
print("compressors: %d assertions" % passed())

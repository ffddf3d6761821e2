"""Collections that choose their compressor, as a driver sees them: compression.py URI"""
import sys
import pymongo
from pymongo.errors import OperationFailure

database = pymongo.MongoClient(sys.argv[1], serverSelectionTimeoutMS=5000).compression
database.client.drop_database("compression")
count = 0


def check(condition, what):
    global count
    count += 1
    if not condition:
        sys.exit("FAILED: " + what)


def engine(config):
    return {"wiredTiger": {"configString": config}}


def creation(name):
    return database.command("collStats", name)["wiredTiger"]["creationString"]


text = "0123456789" * 100_000
for name in ["none", "snappy", "zlib", "zstd", "lz4"]:
    collection = database.create_collection(name, storageEngine=engine("block_compressor=" + name))
    collection.insert_many([{"_id": n, "small": "x" * n, "n": n} for n in range(100)])
    collection.insert_one({"_id": "large", "text": text})
    check("block_compressor=%s," % name in creation(name), name + ": creationString")
    check(collection.options()["storageEngine"] == engine("block_compressor=" + name), name + ": options")
    check(collection.find_one("large")["text"] == text, name + ": by _id")
    check([d.get("n") for d in collection.find()] == [*range(100), None], name + ": in order")
    check(collection.update_one({"_id": "large"}, {"$set": {"n": 7}}).modified_count == 1, name + ": update")
    check(collection.find_one({"n": 7, "_id": "large"})["text"] == text, name + ": after the update")
    stats = database.command("collStats", name)
    check(stats["size"] > 1_000_000, name + ": the size is that of the documents")
    check((stats["storageSize"] < 200_000) == (name != "none"), "%s: on disk %d" % (name, stats["storageSize"]))
    check(database.command("validate", name)["valid"], name + ": validate")
    collection.rename(name + "2")
    check("block_compressor=%s," % name in creation(name + "2"), name + ": renamed")
    list(database[name + "2"].aggregate([{"$match": {"n": 7}}, {"$out": name + "2"}]))
    check("block_compressor=%s," % name in creation(name + "2"), name + ": replaced by $out")
    check(database[name + "2"].count_documents({}) == 2, name + ": $out")

for config, code in [("block_compressor=lzo", 2), ("nonsense=1", 2), ("leaf_page_max=64KB", 115), (5, 14)]:
    try:
        database.create_collection("bad", storageEngine=engine(config))
        check(False, "%r: no error" % config)
    except OperationFailure as error:
        check(error.code == code, "%r: %s" % (config, error))
database.client.drop_database("compression")
print("compressors: %d assertions" % count)

"""Queryable Encryption as drivers use it: prose.py URI

The prose tests "Explicit Encryption", "Range Explicit Encryption" and "String Explicit Encryption" of the drivers'
specification, and the commands that these leave out: updates, deletes, bulk writes, transactions, compaction. PyMongo
and libmongocrypt encrypt; with `bypass_query_analysis` the driver sends `encryptionInformation`, and decrypts replies.
Prints one line with a count; the exit status is 0 if every assertion held.
"""
import base64
import datetime
import os
import sys

import bson
import pymongo
from bson import Decimal128, Int64
from bson.binary import Binary
from pymongo.encryption import Algorithm, ClientEncryption, QueryType
from pymongo.encryption_options import AutoEncryptionOpts, RangeOpts, StringOpts

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, fails, finish, section  # noqa: E402

URI = sys.argv[1]
KMS = {"local": {"key": bytes(range(96))}}
plain = pymongo.MongoClient(URI, serverSelectionTimeoutMS=10000)
for name in ("keyvault", "queryable"):
    plain.drop_database(name)
client = pymongo.MongoClient(URI, serverSelectionTimeoutMS=10000, auto_encryption_opts=AutoEncryptionOpts(
    KMS, "keyvault.datakeys", bypass_query_analysis=True))
keys = ClientEncryption(KMS, "keyvault.datakeys", plain, bson.CodecOptions(tz_aware=True))
db, raw = client.queryable, plain.queryable
KEY = {path: keys.create_data_key("local") for path in ("a", "b")}
SAFE = "__safeContent__"


def field(path, key, bson_type, queries=None):
    return {"path": path, "keyId": KEY[key], "bsonType": bson_type, **({"queries": queries} if queries else {})}


def create(name, *fields):
    raw.drop_collection(name, encrypted_fields={"fields": list(fields)})
    raw.create_collection(name, encryptedFields={"fields": list(fields)})
    return db[name]


def equality(contention=0):
    return {"queryType": "equality", "contention": Int64(contention)}


def indexed(value, contention=0, query=False, key="a"):
    return keys.encrypt(value, Algorithm.INDEXED, KEY[key], query_type=QueryType.EQUALITY if query else None,
                        contention_factor=contention)


def information(name):
    options = raw.command("listCollections", filter={"name": name})["cursor"]["firstBatch"][0]["options"]
    return {"type": 1, "schema": {"queryable." + name: options["encryptedFields"]}}


def compact(name, command="compactStructuredEncryptionData"):
    """With the tokens that libmongocrypt appends."""
    return db.command(command, name)["stats"]


def state(name):
    return tuple(raw["enxcol_.%s.%s" % (name, kind)].count_documents({}) for kind in ("esc", "ecoc"))


def explicit():
    one = create("one", field("encryptedIndexed", "a", "string", equality()), field("encryptedUnindexed", "b", "string"))
    text = "encrypted indexed value"
    one.insert_one({"encryptedIndexed": indexed(text)})
    found = list(one.find({"encryptedIndexed": indexed(text, query=True)}))
    equal("case 1", [doc["encryptedIndexed"] for doc in found], [text])
    equal("a tag", [len(tag) for tag in found[0][SAFE]], [32])
    stored = raw.one.find_one()
    equal("the stored kind", (stored["encryptedIndexed"].subtype, stored["encryptedIndexed"][0]), (6, 14))
    equal("state documents", state("one"), (1, 1))
    ten = create("ten", field("encryptedIndexed", "a", "string", equality(10)))
    for _ in range(10):
        ten.insert_one({"encryptedIndexed": indexed(text, 10)})
    found = list(ten.find({"encryptedIndexed": indexed(text, 10, query=True)}))
    equal("case 2", [doc["encryptedIndexed"] for doc in found], [text] * 10)
    equal("every tag is another", len({tag for doc in found for tag in doc[SAFE]}), 10)
    payload = keys.encrypt("encrypted unindexed value", Algorithm.UNINDEXED, KEY["b"])
    one.insert_one({"_id": 1, "encryptedUnindexed": payload})
    equal("case 3", one.find_one({"_id": 1}), {"_id": 1, "encryptedUnindexed": "encrypted unindexed value"})
    equal("case 4", keys.decrypt(indexed(text)), text)
    equal("case 5", keys.decrypt(payload), "encrypted unindexed value")


RANGES = {  # type: (options, conversion)
    "DecimalNoPrecision": ({}, lambda n: Decimal128(str(n))),
    "DecimalPrecision": ({"min": Decimal128("0"), "max": Decimal128("200"), "precision": 2}, lambda n: Decimal128(str(n))),
    "DoubleNoPrecision": ({}, float),
    "DoublePrecision": ({"min": 0.0, "max": 200.0, "precision": 2}, float),
    "Date": ({"min": 0, "max": 200}, lambda n: datetime.datetime.fromtimestamp(n / 1000, datetime.timezone.utc)),
    "Int": ({"min": 0, "max": 200}, int),
    "Long": ({"min": 0, "max": 200}, Int64),
}
BSON_TYPES = {"De": "decimal", "Do": "double", "Da": "date", "In": "int", "Lo": "long"}


def ranges(kind):
    limits, convert = RANGES[kind]
    given = {name: value if name == "precision" else convert(value) if isinstance(value, int) else value for name, value in limits.items()}
    options = RangeOpts(sparsity=1, trim_factor=1, **given)
    name, path = "range" + kind, "encrypted" + kind
    coll = create(name, field(path, "a", BSON_TYPES[kind[:2]], {"queryType": "range", "contention": Int64(0), "sparsity": Int64(1), "trimFactor": 1, **given}))
    values = [convert(n) for n in (0, 6, 30, 200)]
    common = {"algorithm": Algorithm.RANGE, "key_id": KEY["a"], "contention_factor": 0, "range_opts": options}
    coll.insert_many([{"_id": at, path: keys.encrypt(value, **common)} for at, value in enumerate(values)])

    def query(expression):
        return keys.encrypt_expression(expression, query_type=QueryType.RANGE, **common)

    def between(low, high):
        return query({"$and": [{path: {"$gte": convert(low)}}, {path: {"$lte": convert(high)}}]})

    def ids(condition):
        return [doc["_id"] for doc in coll.find(condition).sort("_id")]

    equal(kind + " case 1", keys.decrypt(keys.encrypt(values[1], **common)), values[1])
    equal(kind + " case 2", ids(between(6, 200)), [1, 2, 3])
    equal(kind + " case 3", ids(between(0, 6)), [0, 1])
    equal(kind + " case 4", ids(query({"$and": [{path: {"$gt": convert(30)}}]})), [3])
    below = query({"$and": [{"$lt": ["$" + path, convert(30)]}]})
    equal(kind + " case 5", ids({"$expr": below}), [0, 1])
    equal(kind + " $match", [doc["_id"] for doc in coll.aggregate([{"$match": {"$expr": below}}, {"$sort": {"_id": 1}}])], [0, 1])
    equal(kind + " count", coll.count_documents(between(6, 30)), 2)
    stored = raw[name].find_one({"_id": 1})
    equal(kind + " stored", (stored[path][0], len(stored[SAFE])), (15, stored[path][18]))
    test_values(True)
    try:
        equal(kind + " tests of values", ids(between(6, 30)), [1, 2])
        equal(kind + " tests of values in $expr", ids({"$expr": below}), [0, 1])
        equal(kind + " negated", ids({path: {"$not": {"$gt": between(6, 200)["$and"][0][path]["$gte"]}}}), [0])
    finally:
        test_values(False)
    equal(kind + " negated by tags", ids({path: {"$not": {"$gt": between(6, 200)["$and"][0][path]["$gte"]}}}), [0])
    equal(kind + " compacted", compact(name)["ecoc"]["deleted"], sum(len(doc[SAFE]) for doc in raw[name].find()))
    equal(kind + " after compaction", ids(between(6, 30)), [1, 2])
    coll.update_one({"_id": 0}, {"$set": {path: keys.encrypt(convert(30), **common)}})
    equal(kind + " updated", (ids(between(30, 30)), ids(between(0, 29))), ([0, 2], [1]))


def test_values(on):
    plain.admin.command("setParameter", 1, internalQueryFLEAlwaysUseEncryptedCollScanMode=on)


LIMITS = {"strMinQueryLength": 2, "strMaxQueryLength": 10}
TEXTS = {
    "prefix": ("$encStrStartsWith", LIMITS, "foo", "baz"),
    "suffix": ("$encStrEndsWith", LIMITS, "baz", "foo"),
    "substring": ("$encStrContains", {"strMaxLength": 10, **LIMITS, "strMaxQueryLength": 6}, "bar", "qux"),
}


def texts(kind):
    operator, limits, there, absent = TEXTS[kind]
    options = StringOpts(case_sensitive=True, diacritic_sensitive=True, **{kind: limits})
    # The description of the index is for the client's library only.
    coll = create("text_" + kind, field("encryptedText", "a", "string"))
    common = {"algorithm": "String", "key_id": KEY["a"], "contention_factor": 0, "string_opts": options}
    coll.insert_one({"_id": 0, "encryptedText": keys.encrypt("foobarbaz", **common)})
    for scan in (False, True):
        test_values(scan)
        for text, found in ((there, [0]), (absent, [])):
            question = {operator: {"input": "$encryptedText", kind: keys.encrypt(text, query_type=kind, **common)}}
            seen = [doc["_id"] for doc in coll.find({"$expr": question})]
            equal("%s %s %s" % (kind, text, scan), seen, found)
    test_values(False)
    equal("decrypted", coll.find_one()["encryptedText"], "foobarbaz")
    equal("the stored kind", raw["text_" + kind].find_one()["encryptedText"][0], 17)


def writes():
    coll = create("writes", field("ssn", "a", "string", equality(4)), field("in.code", "b", "int", equality(4)))

    def ssn(value, query=False):
        return indexed(value, 4, query)

    def ids(value):
        return [doc["_id"] for doc in coll.find({"ssn": ssn(value, True)}).sort("_id")]

    def tags(identifier):
        return len(raw.writes.find_one({"_id": identifier})[SAFE])

    coll.insert_many([{"_id": at, "ssn": ssn("x")} for at in range(3)])
    equal("inserted", ids("x"), [0, 1, 2])
    coll.update_one({"ssn": ssn("x", True), "_id": 1}, {"$set": {"ssn": ssn("y"), "in.code": indexed(7, 4, key="b")}})
    equal("updated", (ids("x"), ids("y"), tags(1)), ([0, 2], [1], 2))
    coll.replace_one({"_id": 2}, {"ssn": ssn("y"), "n": 1})
    equal("replaced", (ids("x"), ids("y"), tags(2)), ([0], [1, 2], 1))
    coll.update_one({"_id": 2}, [{"$set": {"ssn": ssn("z"), "n": 2}}])
    equal("updated by a pipeline", (ids("y"), ids("z"), tags(2)), ([1], [2], 1))
    coll.update_one({"_id": 1}, {"$unset": {"ssn": 1}})
    equal("unset", (ids("y"), tags(1)), ([], 1))
    equal("another field", coll.find_one({"in.code": indexed(7, 4, True, "b")})["_id"], 1)
    coll.update_one({"_id": 9}, {"$set": {"ssn": ssn("u")}}, upsert=True)
    equal("upserted", ids("u"), [9])
    found = coll.find_one_and_update({"ssn": ssn("u", True)}, {"$set": {"ssn": ssn("v")}}, return_document=True)
    equal("findAndModify", (found["ssn"], ids("u"), ids("v")), ("v", [], [9]))
    equal("findAndModify removes", coll.find_one_and_delete({"ssn": ssn("v", True)})["_id"], 9)
    equal("in", [doc["_id"] for doc in coll.find({"ssn": {"$in": [ssn("x", True), ssn("z", True)]}}).sort("_id")], [0, 2])
    equal("not in", [doc["_id"] for doc in coll.find({"ssn": {"$nin": [ssn("x", True)]}}).sort("_id")], [1, 2])
    equal("not equal", coll.count_documents({"ssn": {"$ne": ssn("x", True)}}), 2)
    either = {"$or": [{"ssn": ssn("x", True)}, {"$nor": [{"ssn": {"$not": {"$eq": ssn("z", True)}}}]}], "_id": {"$gte": 0}}
    equal("or", [doc["_id"] for doc in coll.find(either).sort("_id")], [0, 2])
    shown = list(coll.aggregate([{"$match": {"ssn": {"$exists": True}}}, {"$sort": {"_id": 1}},
                                 {"$project": {"is": {"$eq": ["$ssn", ssn("x", True)]}}}]))
    equal("an expression", [doc["is"] for doc in shown], [True, False])
    equal("joined", [doc["found"][0]["_id"] for doc in coll.aggregate([
        {"$match": {"_id": 0}}, {"$lookup": {"from": "writes", "pipeline": [{"$match": {"ssn": ssn("z", True)}}], "as": "found"}}])], [2])
    raw.plain_side.insert_one({"_id": 0})
    joined = {"aggregate": "plain_side", "cursor": {}, "encryptionInformation": information("writes"), "pipeline": [
        {"$lookup": {"from": "writes", "pipeline": [{"$match": {"ssn": ssn("z", True)}}], "as": "found"}}]}
    equal("joined with a plain collection", raw.command(joined)["cursor"]["firstBatch"][0]["found"][0]["_id"], 2)
    plan = coll.find({"ssn": ssn("x", True)}).explain()["queryPlanner"]["winningPlan"]
    check("the index of tags", SAFE in str(plan) and "IXSCAN" in str(plan), plan)
    coll.update_many({"_id": {"$gte": 0}}, {"$set": {"n": 5}})
    equal("tags remain", (ids("x"), ids("z")), ([0], [2]))
    equal("deleted", coll.delete_one({"ssn": ssn("z", True)}).deleted_count, 1)
    equal("gone", ids("z"), [])
    many = coll.bulk_write([pymongo.InsertOne({"_id": at, "ssn": ssn("many")}) for at in range(20, 700)], ordered=False)
    equal("bulk", (many.inserted_count, len(ids("many"))), (680, 680))
    coll.delete_many({"ssn": ssn("many", True)})
    equal("bulk deleted", ids("many"), [])
    schema = information("writes")
    mixed = plain.admin.command({"bulkWrite": 1, "nsInfo": [{"ns": "queryable.writes", "encryptionInformation": schema}], "ops": [
        {"insert": 0, "document": {"_id": 1000, "ssn": ssn("bulk")}}, {"insert": 0, "document": {"_id": 1001, "ssn": ssn("bulk")}},
        {"update": 0, "filter": {"ssn": ssn("bulk", True)}, "updateMods": {"$set": {"ssn": ssn("other")}}},
        {"delete": 0, "filter": {"ssn": ssn("bulk", True)}}]})
    equal("bulkWrite", (mixed["nErrors"], mixed["nInserted"], mixed["nModified"], mixed["nDeleted"]), (0, 2, 1, 1))
    equal("after bulkWrite", (ids("bulk"), len(ids("other"))), ([], 1))
    equal("distinct", plain.queryable.command({"distinct": "writes", "key": "_id", "query": {"ssn": ssn("other", True)}, "encryptionInformation": schema})["values"], ids("other"))


def transactions():
    coll = create("txn", field("ssn", "a", "string", equality()))
    with client.start_session() as session:
        with session.start_transaction():
            coll.insert_one({"_id": 1, "ssn": indexed("t")}, session=session)
            coll.insert_one({"_id": 2, "ssn": indexed("t")}, session=session)
            equal("own writes", len(list(coll.find({"ssn": indexed("t", query=True)}, session=session))), 2)
            equal("not seen outside", list(coll.find({"ssn": indexed("t", query=True)})), [])
            session.abort_transaction()
        equal("aborted", state("txn"), (0, 0))
        session.with_transaction(lambda s: coll.insert_one({"_id": 3, "ssn": indexed("t")}, session=s))
    equal("committed", [doc["_id"] for doc in coll.find({"ssn": indexed("t", query=True)})], [3])
    equal("state documents", state("txn"), (1, 1))


def compaction():
    coll = create("compacted", field("ssn", "a", "string", equality()))
    for at in range(7):
        coll.insert_one({"ssn": indexed("v%d" % (at % 2))})

    def counts():
        return [coll.count_documents({"ssn": indexed("v%d" % at, query=True)}) for at in range(3)]

    equal("before", (state("compacted"), counts()), ((7, 7), [4, 3, 0]))
    stats = compact("compacted")
    equal("ecoc", stats["ecoc"], {"read": 7, "deleted": 7})
    equal("esc", {name: stats["esc"][name] for name in ("inserted", "updated", "deleted")}, {"inserted": 2, "updated": 0, "deleted": 7})
    equal("anchors", (state("compacted"), counts()), ((2, 0), [4, 3, 0]))
    coll.insert_many([{"ssn": indexed("v0")}, {"ssn": indexed("v2")}])
    equal("between", (state("compacted"), counts()), ((4, 2), [5, 3, 1]))
    compact("compacted")
    equal("more anchors", (state("compacted"), counts()), ((4, 0), [5, 3, 1]))
    coll.insert_one({"ssn": indexed("v0")})
    stats = compact("compacted", "cleanupStructuredEncryptionData")
    equal("cleaned", stats["esc"]["deleted"], 4)  # a position, and three anchors of v0
    equal("a null anchor", (state("compacted"), counts()), ((3, 0), [6, 3, 1]))
    coll.insert_one({"ssn": indexed("v0")})
    compact("compacted", "cleanupStructuredEncryptionData")
    equal("moved", (state("compacted"), counts()), ((3, 0), [7, 3, 1]))
    equal("no other collection", len([name for name in raw.list_collection_names() if name.startswith("enxcol_.compacted")]), 2)
    raw.command("create", "ordinary")
    tokens = {"ssn": Binary(bytes(32), 0)}
    fails("no encrypted fields", 6346807, lambda: raw.command("compactStructuredEncryptionData", "ordinary", compactionTokens=tokens))
    fails("no collection", 26, lambda: raw.command("compactStructuredEncryptionData", "absent", compactionTokens=tokens))
    fails("no tokens", 40414, lambda: raw.command("compactStructuredEncryptionData", "compacted"))
    fails("a short token", 6373501, lambda: raw.command("cleanupStructuredEncryptionData", "compacted", cleanupTokens={"ssn": Binary(bytes(31), 0)}))
    coll.insert_one({"ssn": indexed("v0")})
    fails("no token of the field", 6346806, lambda: raw.command("compactStructuredEncryptionData", "compacted", compactionTokens={}))


def automatic_keys():
    coll, fields = keys.create_encrypted_collection(
        db, "created", {"fields": [{"path": "ssn", "bsonType": "string", "keyId": None, "queries": equality()}]}, "local")
    key = fields["fields"][0]["keyId"]
    equal("state collections", sorted(name for name in raw.list_collection_names() if name.startswith("enxcol_.created")),
          ["enxcol_.created.ecoc", "enxcol_.created.esc"])
    payload = keys.encrypt("123-45-6789", Algorithm.INDEXED, key, contention_factor=0)
    fails("a plain value", 121, lambda: plain.queryable.created.insert_one({"ssn": "123-45-6789"}))
    fails("a payload without the argument", 121, lambda: plain.queryable.created.insert_one({"ssn": payload}))
    coll.insert_one({"_id": 1, "ssn": payload})
    equal("decrypted", coll.find_one()["ssn"], "123-45-6789")
    raw.drop_collection("enxcol_.created.esc")
    raw.drop_collection("enxcol_.created.ecoc")
    second = {"_id": 2, "ssn": keys.encrypt("123-45-6789", Algorithm.INDEXED, key, contention_factor=0)}
    fails("documents without their state", 26, lambda: coll.insert_one(second))
    raw.created.delete_many({})
    coll.insert_one(second)
    equal("created again", state("created"), (1, 1))


RECORDED_MASTER = "Mng0NCt4ZHVUYUJCa1kxNkVyNUR1QURhZ2h2UzR2d2RrZzh0cFBwM3R6NmdWMDFBMUN3YkQ5aXRRMkhGRGdQV09wOGVNYUMxT2k3NjZKelhaQmRCZGJkTXVyZG9uSjFk"
RECORDED_KEY = "EjRWeBI0mHYSNBI0VniQEg=="
RECORDED_MATERIAL = "sHe0kz57YW7v8g9VP9sf/+K1ex4JqKc5rf/URX3n3p8XdZ6+15uXPaSayC6adWbNxkFskuMCOifDoTT+rkqMtFkDclOy884RuGGtUysq3X7zkAWYTKi8QAfKkajvVbZl2y23UqgVasdQu3OVBQCrH/xY00nNAs/52e958nVjBuzQkSb1T8pKJAyjZsHJ60+FtnfafDZSTAIBJYn7UWBCwQ=="
RECORDED_EQUALITY = ["31eCYlbQoVboc5zwC8IoyJVSkag9PxREka8dkmbXJeY="]
RECORDED_RANGE = [
    "25j9sQXZCihCmHKvTHgaBsAVZFcGPn7JjHdrCGlwyyw=",
    "FA74j21GUEJb1DJBOpR9nVnjaDZnd8yAQNuaW9Qi26g=",
    "kJv//KVkbrobIBf+QeWC5jxn20mx/P0R1N6aCSMgKM8=",
    "zB+Whi9IUUGxfLEe+lGuIzLX4LFbIhaIAm5lRk65QTc=",
    "ybO1QU3CgvhO8JgRXH+HxKszWcpl5aGDYYVa75fHa1g=",
    "X3Y3eSAbbMg//JgiHHiFpYOpV61t8kkDexI+CQyitH4=",
    "SlNHXyqVFGDPrX/2ppwog6l4pwj3PKda2TkZbqgfSfA=",
    "McjV8xwTF3xI7863DYOBdyvIv6UpzThl6v9vBRk05bI=",
]


def recorded():
    """The tags of the first values, as the drivers' specification has recorded them from a MongoDB server: they follow
    from the keys and the values."""
    key = Binary(base64.b64decode(RECORDED_KEY), 4)
    plain.keyvault.recorded.insert_one({
        "_id": key, "keyMaterial": base64.b64decode(RECORDED_MATERIAL), "status": 0, "masterKey": {"provider": "local"},
        "creationDate": datetime.datetime.now(), "updateDate": datetime.datetime.now()})
    own = ClientEncryption({"local": {"key": base64.b64decode(RECORDED_MASTER)}}, "keyvault.recorded", plain, bson.CodecOptions())
    limits = {"min": 0, "max": 200}
    indexes = {"string": equality(), "int": {"queryType": "range", "contention": Int64(0), "trimFactor": 1, "sparsity": Int64(1), **limits}}
    options = RangeOpts(trim_factor=1, sparsity=1, **limits)
    payloads = {
        "string": [own.encrypt("123", Algorithm.INDEXED, key, contention_factor=0)],
        "int": [own.encrypt(n, Algorithm.RANGE, key, contention_factor=0, range_opts=options) for n in (0, 1)],
    }
    for kind, tags in (("string", RECORDED_EQUALITY), ("int", RECORDED_RANGE)):
        name = "recorded_" + kind
        raw.create_collection(name, encryptedFields={"fields": [{"path": "v", "keyId": key, "bsonType": kind, "queries": indexes[kind]}]})
        for payload in payloads[kind]:
            raw.command({"insert": name, "documents": [{"v": payload}], "encryptionInformation": information(name)})
        last = list(raw[name].find())[-1]
        equal("the tags of " + kind, [base64.b64encode(tag).decode() for tag in last[SAFE]], tags)


def mapped():
    """Fields that the client knows by itself: the driver creates the collection with its state, and drops all of it."""
    fields = {"fields": [field("ssn", "a", "string", equality()), field("note", "b", "string")]}
    options = AutoEncryptionOpts(KMS, "keyvault.datakeys", bypass_query_analysis=True, encrypted_fields_map={"queryable.mapped": fields})
    with pymongo.MongoClient(URI, serverSelectionTimeoutMS=10000, auto_encryption_opts=options) as own:
        coll = own.queryable.create_collection("mapped")
        names = sorted(name for name in raw.list_collection_names() if "mapped" in name)
        equal("created by the driver", names, ["enxcol_.mapped.ecoc", "enxcol_.mapped.esc", "mapped"])
        check("the index of tags", any(SAFE in index["key"] for index in raw.mapped.list_indexes()))
        note = keys.encrypt("a note", Algorithm.UNINDEXED, KEY["b"])
        coll.insert_many([{"_id": at, "ssn": indexed("s%d" % (at % 2)), "note": note} for at in range(6)])
        equal("found", [doc["_id"] for doc in coll.find({"ssn": indexed("s1", query=True)}).sort("_id")], [1, 3, 5])
        equal("updated", coll.update_many({"_id": {"$lt": 2}}, {"$set": {"n": 1}}).modified_count, 2)
        equal("changed", coll.update_one({"ssn": indexed("s0", query=True), "_id": 0}, {"$set": {"ssn": indexed("s1")}}).modified_count, 1)
        equal("replaced", coll.find_one_and_replace({"ssn": indexed("s1", query=True), "_id": 3}, {"ssn": indexed("s3")})["note"], "a note")
        equal("deleted", coll.delete_one({"ssn": indexed("s3", query=True)}).deleted_count, 1)
        with pymongo.MongoClient(URI, auto_encryption_opts=AutoEncryptionOpts(KMS, "keyvault.datakeys", bypass_auto_encryption=True)) as reader:
            seen = [(doc["_id"], doc["ssn"], doc["note"]) for doc in reader.queryable.mapped.find().sort("_id")]
        equal("decrypted by a client that does not encrypt", seen, [(at, "s1" if at in (0, 1, 5) else "s0", "a note") for at in (0, 1, 2, 4, 5)])
        coll.drop()
        equal("dropped with its state", [name for name in raw.list_collection_names() if "mapped" in name], [])


def field_level():
    """Client-side field level encryption: the server stores values that it cannot tell from others."""
    def value(text, algorithm):
        return keys.encrypt(text, algorithm, KEY["a"])

    fixed, random = Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Deterministic, Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Random
    raw.drop_collection("fields")
    raw.create_collection("fields", validator={"$jsonSchema": {"properties": {"ssn": {"encrypt": {
        "bsonType": "string", "algorithm": fixed, "keyId": [KEY["a"]]}}}}})
    with pymongo.MongoClient(URI, auto_encryption_opts=AutoEncryptionOpts(KMS, "keyvault.datakeys", bypass_auto_encryption=True)) as own:
        coll = own.queryable.fields
        coll.insert_many([{"_id": at, "ssn": value("s%d" % (at % 2), fixed), "note": value("n%d" % at, random)} for at in range(4)])
        fails("a plain value", 121, lambda: coll.insert_one({"ssn": "s1"}))
        equal("found", [(doc["_id"], doc["ssn"], doc["note"]) for doc in coll.find({"ssn": value("s1", fixed)}).sort("_id")], [(1, "s1", "n1"), (3, "s1", "n3")])
        equal("not found", coll.count_documents({"note": value("n1", random)}), 0)
        equal("updated", coll.update_one({"ssn": value("s0", fixed)}, {"$set": {"ssn": value("s2", fixed)}}).modified_count, 1)
        fails("updated to a plain value", 121, lambda: coll.update_one({"_id": 2}, {"$set": {"ssn": "plain"}}))
        equal("found and changed", coll.find_one_and_update({"ssn": value("s2", fixed)}, {"$unset": {"note": 1}}, return_document=True), {"_id": 0, "ssn": "s2"})
        equal("grouped", sorted((doc["_id"], doc["n"]) for doc in coll.aggregate([{"$group": {"_id": "$ssn", "n": {"$sum": 1}}}])), [("s0", 1), ("s1", 2), ("s2", 1)])
        equal("deleted", coll.delete_many({"ssn": {"$in": [value("s1", fixed), value("s2", fixed)]}}).deleted_count, 3)
        equal("left", [doc["_id"] for doc in coll.find()], [2])


def refused():
    fields = {"fields": [field("ssn", "a", "string", equality())]}
    create("refused", *fields["fields"])
    information = {"type": 1, "schema": {"queryable.refused": {"escCollection": "enxcol_.refused.esc", "ecocCollection": "enxcol_.refused.ecoc", **fields}}}

    def insert(document, **change):
        return lambda: raw.command({"insert": "refused", "documents": [document], "encryptionInformation": {**information, **change}})

    def first(document, code, name):
        seen = insert(document)().get("writeErrors", [{}])[0].get("code")
        equal(name, seen, code)

    payload = indexed("x")
    first({"other": payload}, 6371211, "a payload elsewhere")
    first({"ssn": payload, SAFE: []}, 6666200, "tags of the client's")
    first({"ssn": Binary(payload[:40], 6)}, 22, "a payload that is cut")
    first({"ssn": Binary(b"\x0b" + bson.encode({"u": 1}), 6)}, 14, "a field of the wrong type")
    fails("another type", 2, insert({}, type=2))
    fails("another namespace", 6371205, insert({}, schema={"queryable.x": fields}))
    fails("another state collection", 6371207, insert({}, schema={"queryable.refused": {"escCollection": "x", **fields}}))
    fails("no schema", 40414, lambda: raw.command({"find": "refused", "encryptionInformation": {"type": 1}}))
    fails("not encrypted", 6371209, lambda: raw.command(
        {"insert": "plain", "documents": [{}], "encryptionInformation": {"type": 1, "schema": {"queryable.plain": fields}}}))
    equal("nothing is stored", (raw.refused.count_documents({}), state("refused")), (0, (0, 0)))


section(explicit)
for kind in RANGES:
    section(ranges, kind)
for kind in TEXTS:
    section(texts, kind)
section(writes)
section(transactions)
section(compaction)
section(automatic_keys)
section(mapped)
section(field_level)
section(recorded)
section(refused)
finish("queryable encryption")

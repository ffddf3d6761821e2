"""Encrypted text fields of Queryable Encryption, as a driver uses them: encrypted.py URI

libmongocrypt, in PyMongo, encrypts values and queries. `stored` converts an insert payload to the value that a
server of 8.2 stores, block by block, and libmongocrypt must be able to decrypt it. So both sides of the
predicates come from a client. Prints one line with a count; the exit status is 0 if every assertion held.
"""
import hashlib
import hmac
import os
import struct
import sys

import bson
import pymongo
from bson.binary import Binary
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from pymongo.encryption import ClientEncryption
from pymongo.encryption_options import StringOpts

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, fails, finish, section  # noqa: E402

LIMITS = {"strMinQueryLength": 2, "strMaxQueryLength": 6}
KINDS = {
    "prefix": ("$encStrStartsWith", "prefix", LIMITS),
    "suffix": ("$encStrEndsWith", "suffix", LIMITS),
    "substring": ("$encStrContains", "substring", {"strMaxLength": 12, **LIMITS}),
}
NAMES = ["Margaret", "Margo", "garden", "Bert", "Egbert"]

client = pymongo.MongoClient(sys.argv[1], serverSelectionTimeoutMS=10000)
client.drop_database("encrypted")
db = client.encrypted
keys = ClientEncryption({"local": {"key": bytes(range(96))}}, "encrypted.keys", client, bson.CodecOptions())
key_id = keys.create_data_key("local")


def options(kind):
    return StringOpts(case_sensitive=False, diacritic_sensitive=True, **{kind: KINDS[kind][2]})


def encrypt(text, kind, query_type=None):
    return keys.encrypt(text, "String", key_id, query_type=query_type, contention_factor=0, string_opts=options(kind))


def derive(token, data):
    return hmac.new(token, struct.pack("<Q", data) if isinstance(data, int) else data, hashlib.sha256).digest()


def counter_mode(token, plain):
    iv = os.urandom(16)
    out = Cipher(algorithms.AES(token), modes.CTR(iv)).encryptor()
    return iv + out.update(plain) + out.finalize()


def block(tokens, count=1):
    """The metadata of one text: its encrypted count, its tag, its encrypted zeros."""
    server = bytes(tokens["l"])
    tag = derive(derive(bytes(tokens["d"]), 1), count)
    return counter_mode(derive(server, 1), struct.pack("<QQ", count, 0)) + tag + counter_mode(derive(server, 2), bytes(16))


def stored(payload):
    """The text-indexed value that a server derives from a client's insert payload."""
    check("an insert payload", payload.subtype == 6 and payload[0] == 11, payload[:1])
    doc = bson.decode(payload[1:])
    sets = doc["b"]
    groups = [[sets["e"]], sets["s"], sets["u"], sets["p"]]
    counts = struct.pack("<III", sum(map(len, groups)), len(groups[1]), len(groups[2]))
    head = b"\x11" + bytes(doc["u"].bytes if hasattr(doc["u"], "bytes") else doc["u"]) + bytes([doc["t"]]) + counts
    blocks = b"".join(block(tokens) for group in groups for tokens in group)
    return Binary(head + counter_mode(bytes(doc["e"]), bytes(doc["v"])) + blocks, 6)


def found(coll, operator, field, payload):
    question = {operator: {"input": "$name", field: payload}}
    by_filter = [doc["_id"] for doc in coll.find({"$expr": question}).sort("_id")]
    by_stage = [doc["_id"] for doc in coll.aggregate([{"$sort": {"_id": 1}}, {"$match": {"$expr": question}}])]
    equal("find and $match agree", by_filter, by_stage)
    return by_filter


def one_kind(kind):
    operator, field, _ = KINDS[kind]
    coll = db[kind]
    values = [stored(encrypt(name, kind)) for name in NAMES]
    for name, value in zip(NAMES, values):
        equal("libmongocrypt decrypts what is stored", keys.decrypt(value), name)
    coll.insert_many([{"_id": at, "name": value} for at, value in enumerate(values)])
    coll.insert_many([{"_id": 10, "name": None}, {"_id": 11}, {"_id": 12, "name": "Margaret"}])
    fits = {"prefix": str.startswith, "suffix": str.endswith, "substring": str.__contains__}[kind]
    for text in ["ma", "Marg", "gar", "gard", "bert", "ert", "et", "zz", "Margar"]:
        # Queries fold case as the field does.
        wanted = [at for at, name in enumerate(NAMES) if fits(name.lower(), text.lower())]
        payload = encrypt(text, kind, kind)
        check("a payload of a question", payload[0] == 18, payload[:1])
        equal("%s %s" % (operator, text), found(coll, operator, field, payload), wanted)
    payload = encrypt("Marg", kind, kind)
    shown = {doc["_id"]: doc for doc in coll.aggregate([{"$project": {"y": {operator: {"input": "$name", field: payload}}}}])}
    equal("null for null and missing", [shown[10]["y"], shown[11]["y"]], [None, None])
    equal("false for what is not encrypted", shown[12]["y"], False)
    other = [name for name in KINDS if name != kind][0]
    wrong = encrypt("Marg", other, other)
    equal("a token of another kind fits nothing", found(coll, operator, field, wrong), [])


def exact():
    """Matches the whole string by the token of the insert payload: drivers send it only with automatic
    encryption."""
    coll, tokens = db.exact, {}
    for at, name in enumerate(NAMES):
        payload = encrypt(name, "prefix")
        tokens[name] = bson.decode(payload[1:])["b"]["e"]
        coll.insert_one({"_id": at, "name": stored(payload)})
    for at, name in enumerate(NAMES):
        asked = {"ts": {"e": {n: tokens[name][n] for n in "dsl"}}, "cm": bson.Int64(0), "cf": True, "df": False}
        payload = Binary(b"\x12" + bson.encode(asked), 6)
        equal("$encStrNormalizedEq", found(coll, "$encStrNormalizedEq", "string", payload), [at])


def refused():
    coll = db.prefix

    def ask(operator="$encStrStartsWith", **fields):
        return lambda: list(coll.find({"$expr": {operator: {"input": "$name", **fields}}}))

    fails("a text that is not encrypted", 10111808, ask(prefix="Marg"))
    fails("a number", 10111802, ask(prefix=5))
    fails("a value instead of a question", 10112803, ask(prefix=stored(encrypt("Margo", "prefix"))))
    fails("no text", 40414, ask())
    coll = db.odd
    coll.insert_one({"name": encrypt("Margo", "prefix")})
    fails("a value that is no indexed text", 6672400, ask(prefix=encrypt("Marg", "prefix", "prefix")))


for kind in KINDS:
    section(one_kind, kind)
section(exact)
section(refused)
finish("encrypted text")

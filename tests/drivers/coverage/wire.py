"""Messages of the wire protocol, as bytes, and the replies to a handshake."""
import datetime
import socket
import struct
import uuid
import zlib

import bson
import pymongo
from bson import SON, Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from pymongo import MongoClient

from probes import code_of, equal, fields, need, probe

MSG, QUERY, REPLY, COMPRESSED = 2013, 2004, 1, 2012


class Raw:
    """A connection that sends raw messages."""

    def __init__(self, client):
        self.socket = socket.create_connection(client.address, 20)
        self.number = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, kind, body):
        self.number += 1
        self.socket.sendall(struct.pack("<iiii", 16 + len(body), self.number, 0, kind) + body)
        return self.number

    def read(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            need(part, "the server closed the connection")
            data += part
        return data

    def receive(self):
        size, _, answers, kind = struct.unpack("<iiii", self.read(16))
        return answers, kind, self.read(size - 16)

    def message(self, document, flags=0, sections=b""):
        return self.send(MSG, struct.pack("<i", flags) + b"\0" + bson.encode(document) + sections)

    def answer(self):
        answers, kind, body = self.receive()
        equal(kind, MSG)
        return answers, struct.unpack("<i", body[:4])[0], bson.decode(body[5:])

    def query(self, collection, document, flags=0, skip=0, limit=0):
        """(flags, cursor, documents)"""
        self.send(QUERY, struct.pack("<i", flags) + collection.encode() + b"\0" + struct.pack("<ii", skip, limit) + bson.encode(document))
        return self.reply()

    def reply(self):
        _, kind, body = self.receive()
        equal(kind, REPLY)
        flags, cursor, _, count = struct.unpack("<iqii", body[:20])
        documents = bson.decode_all(body[20:])
        equal(len(documents), count)
        return flags, cursor, documents


@probe("standalone", "wire.header", "wire.op_msg", "wire.op_msg.kind0", "wire.reply.envelope", "wire.cmd.first_field")
def message(client):
    with Raw(client) as raw:
        sent = raw.message(SON([("ping", 1), ("$db", "admin")]))
        equal(raw.answer(), (sent, 0, {"ok": 1.0}))


@probe("standalone", "wire.pipelining")
def pipelining(client):
    with Raw(client) as raw:
        sent = [raw.message(SON([("ping", 1), ("$db", "admin")])) for _ in range(20)]
        equal([raw.answer()[0] for _ in sent], sent)


@probe("standalone", "wire.op_msg.kind1")
def document_sequence(client):
    client.test.sequence.drop()
    with Raw(client) as raw:
        items = b"documents\0" + b"".join(bson.encode({"_id": i}) for i in range(5))
        raw.message(SON([("insert", "sequence"), ("$db", "test")]), sections=b"\1" + struct.pack("<i", 4 + len(items)) + items)
        equal(raw.answer()[2]["n"], 5)
    equal(client.test.sequence.count_documents({}), 5)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@probe("standalone", "wire.op_msg.checksum")
def checksum(client):
    with Raw(client) as raw:
        body = struct.pack("<i", 1) + b"\0" + bson.encode(SON([("ping", 1), ("$db", "admin")]))
        whole = struct.pack("<iiii", 20 + len(body), 77, 0, MSG) + body
        raw.socket.sendall(whole + struct.pack("<I", crc32c(whole)))
        _, kind, answer = raw.receive()
        raw.socket.sendall(whole + struct.pack("<I", crc32c(whole) ^ 1))
        need(kind == MSG and bson.decode(answer[5:5 + struct.unpack("<i", answer[5:9])[0]])["ok"] == 1, answer)
        refused = raw.answer()[2]
        need(refused["ok"] == 0 and "hecksum" in refused["errmsg"], refused)


@probe("standalone", "wire.op_msg.more_to_come")
def unacknowledged(client):
    client.test.silent.drop()
    with Raw(client) as raw:
        raw.message(SON([("insert", "silent"), ("documents", [{"_id": 1}]), ("writeConcern", {"w": 0}), ("$db", "test")]), flags=2)
        sent = raw.message(SON([("count", "silent"), ("$db", "test")]))
        equal(raw.answer()[::2], (sent, {"n": 1, "ok": 1.0}))


@probe("standalone", "wire.op_msg.exhaust", "hello.arg.topology_version")
def exhaust(client):
    with Raw(client) as raw:
        raw.message(SON([("hello", 1), ("$db", "admin")]))
        version = raw.answer()[2]["topologyVersion"]
        raw.message(SON([("hello", 1), ("topologyVersion", version), ("maxAwaitTimeMS", 50), ("$db", "admin")]), flags=1 << 16)
        flags = [raw.answer()[1] & 2 for _ in range(3)]
        equal(flags, [2, 2, 2])
    client.test.exhaust.drop()
    client.test.exhaust.insert_many([{"_id": i} for i in range(300)])
    with Raw(client) as raw:
        raw.message(SON([("find", "exhaust"), ("batchSize", 100), ("$db", "test")]))
        cursor = raw.answer()[2]["cursor"]["id"]
        raw.message(SON([("getMore", Int64(cursor)), ("collection", "exhaust"), ("batchSize", 100), ("$db", "test")]), flags=1 << 16)
        seen, more = 100, 2
        while more:
            _, more, reply = raw.answer()
            seen += len(reply["cursor"]["nextBatch"])
        equal(seen, 300)


@probe("standalone", "wire.op_msg.generic_args", "cmd.common.comment", "cmd.common.hint_shape", "ses.lsid", "cmd.common.free_form")
def generic_arguments(client):
    reply = client.test.command(SON([("find", "none"), ("comment", {"any": 1}), ("maxTimeMS", 1000), ("readConcern", {"level": "local"}),
                                     ("lsid", {"id": Binary(uuid.uuid4().bytes, 4)}), ("$readPreference", {"mode": "secondaryPreferred"})]))
    equal(reply["cursor"]["firstBatch"], [])


@probe("standalone", "wire.cmd.strict_fields", "wire.reply.location_codename")
def strict(client):
    try:
        client.test.command("find", "c", nothing=1)
    except pymongo.errors.OperationFailure as error:
        equal((error.code, error.details["codeName"]), (40415, "IDLUnknownField"))
    try:
        list(client.test.c.aggregate([{"$nothing": 1}]))
    except pymongo.errors.OperationFailure as error:
        equal((error.code, error.details["codeName"]), (40324, "Location40324"))


@probe("standalone", "wire.bson.validate")
def broken_documents(client):
    for broken in (b"\x0c\0\0\0\x10a\0\1\0\0\0\1", b"\x0b\0\0\0\x02a\0\x09\0\0\0"):
        with Raw(client) as raw:
            raw.send(MSG, struct.pack("<i", 0) + b"\0" + broken)
            try:
                need(raw.answer()[2]["ok"] == 0)
            except (AssertionError, ConnectionError) as error:
                need("closed" in str(error) or isinstance(error, ConnectionError), error)
    equal(client.admin.command("ping")["ok"], 1)


@probe("standalone", "wire.bson.types", "wire.bson.binary.subtypes", "wire.bson.decimal128")
def types(client):
    values = SON(double=1.5, string="x\0y", document={"a": 1}, array=[1, [2]], binary=Binary(b"abc", 0), old=Binary(b"abc", 2),
                 uuid=Binary(b"\1" * 16, 4), md5=Binary(b"\2" * 16, 5), sensitive=Binary(b"s", 8), vector=Binary(b"\x27\0\0\0", 9), own=Binary(b"u", 128),
                 oid=ObjectId(), true=True, date=datetime.datetime(2020, 1, 2, 3, 4, 5, 678000), null=None, regex=Regex("a.b", "im"),
                 ref=DBRef("c", 1), code=Code("f()"), int32=5, stamp=Timestamp(7, 8), int64=Int64(2**40), decimal=Decimal128("1.10"),
                 nan=Decimal128("NaN"), least=MinKey(), most=MaxKey())
    client.test.types.drop()
    with Raw(client) as raw:
        sent = bson.encode(SON([("_id", 1)] + list(values.items())))
        raw.send(MSG, struct.pack("<i", 0) + b"\0" + bson.encode(SON([("insert", "types"), ("$db", "test")]))
                 + b"\1" + struct.pack("<i", 4 + 10 + len(sent)) + b"documents\0" + sent)
        equal(raw.answer()[2]["n"], 1)
        raw.message(SON([("find", "types"), ("$db", "test")]))
        need(sent in raw.receive()[2], "not the same bytes")


@probe("standalone", "wire.limits.doc", "wire.limits.batch", "wire.limits.message", "hello.reply.limits")
def limits(client):
    hello = client.admin.command("hello")
    equal([hello[n] for n in ("maxBsonObjectSize", "maxMessageSizeBytes", "maxWriteBatchSize")], [16777216, 48000000, 100000])
    c = client.test.limits
    c.drop()
    c.insert_one({"_id": 1, "s": "x" * (16777216 - 50)})
    equal(code_of(lambda: client.test.command("insert", "limits", documents=[{"_id": i} for i in range(100_001)])), 16)
    equal(client.test.command("insert", "limits", documents=[{"_id": i} for i in range(10, 100_010)])["n"], 100_000)
    with Raw(client) as raw:
        raw.socket.sendall(struct.pack("<iiii", 48_000_001, 1, 0, MSG))
        equal(raw.socket.recv(1), b"")
    c.drop()


@probe("standalone", "wire.limits.depth")
def depth(client):
    def nested(levels):
        document = {"_id": levels}
        for _ in range(levels - 1):
            document = {"_id": levels, "a": document}
        return document
    client.test.depth.drop()
    client.test.depth.insert_one(nested(180))
    equal(code_of(lambda: client.test.command("insert", "depth", documents=[nested(210)])), 15)


@probe("standalone", "wire.op_query", "wire.op_query.find", "wire.op_query.flags", "wire.op_reply", "wire.op_get_more", "wire.op_kill_cursors",
       "wire.op_insert", "wire.op_update", "wire.op_delete", "wire.op_query.cmd", "wire.gle")
def legacy(client):
    client.test.legacy.drop()
    name = b"test.legacy\0"
    with Raw(client) as raw:
        raw.send(2002, struct.pack("<i", 0) + name + b"".join(bson.encode({"_id": i, "n": i}) for i in range(10)))
        raw.send(2001, struct.pack("<i", 0) + name + struct.pack("<i", 2) + bson.encode({"n": {"$gte": 5}}) + bson.encode({"$set": {"m": 1}}))
        last = raw.query("test.$cmd", {"getlasterror": 1}, limit=-1)[2][0]
        equal((last["n"], last["updatedExisting"], last["err"], last["ok"]), (5, True, None, 1.0))
        raw.send(2006, struct.pack("<i", 0) + name + struct.pack("<i", 1) + bson.encode({"n": {"$lt": 3}}))
        _, cursor, found = raw.query("test.legacy", {"$query": {}, "$orderby": {"_id": -1}}, flags=4 | 16, limit=3)
        equal([d["_id"] for d in found], [9, 8, 7])
        raw.send(2005, struct.pack("<i", 0) + name + struct.pack("<iq", 2, cursor))
        equal([d["_id"] for d in raw.reply()[2]], [6, 5])
        raw.send(2007, struct.pack("<iiq", 0, 1, cursor))
        raw.send(2005, struct.pack("<i", 0) + name + struct.pack("<iq", 2, cursor))
        equal(raw.reply()[0] & 1, 1)


@probe("standalone", "wire.op_compressed", "wire.compress.zlib", "wire.compress.snappy", "wire.compress.zstd", "wire.compress.negotiate",
       "hello.arg.compression")
def compressed(client):
    hello = client.admin.command("hello", compression=["zstd", "zlib", "none", "snappy"])
    equal(sorted(hello["compression"]), ["snappy", "zlib", "zstd"])
    with Raw(client) as raw:
        raw.message(SON([("hello", 1), ("compression", ["zlib"]), ("$db", "admin")]))
        equal(raw.answer()[2]["compression"], ["zlib"])
        plain = struct.pack("<i", 0) + b"\0" + bson.encode(SON([("listCommands", 1), ("$db", "admin")]))
        raw.send(COMPRESSED, struct.pack("<iib", MSG, len(plain), 2) + zlib.compress(plain))
        _, kind, body = raw.receive()
        original, size, by = struct.unpack("<iib", body[:9])
        text = zlib.decompress(body[9:])
        equal((kind, original, size, by, bson.decode(text[5:])["ok"]), (COMPRESSED, MSG, len(text), 2, 1.0))
    for name in ("snappy", "zstd"):
        with MongoClient(*client.address, compressors=name) as other:
            before = client.admin.command("serverStatus")["network"]["compression"][name]["compressor"]["bytesIn"]
            equal(other.test.command("find", "none", comment="y" * 5000)["ok"], 1)
            need(client.admin.command("serverStatus")["network"]["compression"][name]["compressor"]["bytesIn"] > before, name)


@probe("standalone", "wire.gle.prev")
def previous_error(client):
    with Raw(client) as raw:
        raw.send(2002, struct.pack("<i", 0) + b"test.legacy_errors\0" + bson.encode({"_id": 1}) * 2)
        answer = raw.query("test.$cmd", {"getpreverror": 1}, limit=-1)[2][0]
        need(answer["ok"] == 1.0 and answer["nPrev"] >= 1, answer)
        equal(raw.query("test.$cmd", {"reseterror": 1}, limit=-1)[2][0]["ok"], 1.0)


@probe("standalone", "hello.command", "hello.ismaster", "hello.reply.role", "hello.reply.wire", "hello.reply.session", "hello.reply.time",
       "hello.reply.topology_version", "hello.reply.hello_ok", "hello.arg.client", "hello.arg.backpressure", "cmd.hello_ok")
def handshake(client):
    with Raw(client) as raw:
        raw.message(SON([("hello", 1), ("helloOk", True), ("backpressure", "2"), ("client", {"driver": {"name": "d", "version": "1"}, "os": {"type": "x"},
                                                                     "application": {"name": "probe"}}), ("$db", "admin")]))
        hello = raw.answer()[2]
        equal([hello[n] for n in ("isWritablePrimary", "helloOk", "maxWireVersion", "logicalSessionTimeoutMinutes", "readOnly")], [True, True, 25, 30, False])
        fields(hello, "localTime connectionId minWireVersion topologyVersion.processId topologyVersion.counter")
        running = client.admin.aggregate([{"$currentOp": {"idleConnections": True}}, {"$match": {"connectionId": hello["connectionId"]}}])
        equal(next(running)["clientMetadata"]["application"]["name"], "probe")
        _, _, old = raw.query("admin.$cmd", {"isMaster": 1, "helloOk": True}, limit=-1)
        equal((old[0]["ismaster"], old[0]["helloOk"]), (True, True))


@probe("standalone", "diag.appname")
def names_of_clients(client):
    with MongoClient(*client.address, appname="the probe") as other:
        seen = list(other.admin.aggregate([{"$currentOp": {}}, {"$match": {"appName": "the probe"}}]))
        need(seen and all(o["clientMetadata"]["application"]["name"] == "the probe" for o in seen), seen)

"""Sessions, retryable writes and transactions through pymongo: replset.py NAGI DATA_FOLDER PORT.

Starts the server itself, as a replica set of one member, kills it with SIGKILL and restarts it. Prints each
failure and a count.
"""
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import uuid

import bson
import pymongo
from bson import Binary, Int64, Timestamp
from pymongo import DeleteOne, InsertOne, MongoClient, ReturnDocument, UpdateOne
from pymongo.errors import AutoReconnect, DuplicateKeyError, OperationFailure, WriteConcernError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, fails, finish, section, wait_until  # noqa: E402

NAGI, DATA, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
URI = "mongodb://127.0.0.1:%d/" % PORT


class Raw:
    """Sends raw commands: a driver adds sessions of its own."""

    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", PORT), 60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def command(self, body, db="nagi_replset"):
        payload = b"\0\0\0\0\0" + bson.encode({**body, "$db": db})
        self.socket.sendall(struct.pack("<iiii", 16 + len(payload), 1, 0, 2013) + payload)
        size = struct.unpack("<i", self.read(4))[0]
        reply = bson.decode(self.read(size - 4)[17:])
        if not reply["ok"]:
            raise OperationFailure(reply["errmsg"], reply["code"], reply)
        return reply

    def read(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise AutoReconnect("closed")
            data += part
        return data


def lsid():
    return {"id": Binary(uuid.uuid4().bytes, 4)}


def listens():
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", PORT)) == 0


class Server:
    def start(self, *flags):
        os.makedirs(DATA, exist_ok=True)
        command = [NAGI, "serve", "--dbpath", DATA, "--port", str(PORT), "--bind_ip", "127.0.0.1", "--logpath", DATA + "/../nagi.log",
                   "--logappend", "--unixSocketPrefix", DATA, "--setParameter", "enableTestCommands=1", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if not wait_until(listens):
            sys.exit("the server did not start")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


SERVER = Server()


def standalone():
    """Without --replSet drivers send no transaction numbers and do not retry."""
    SERVER.start()
    with MongoClient(URI) as client:
        check("standalone has no set", "setName" not in client.admin.command("hello"))
        check("standalone has no times", "$clusterTime" not in client.admin.command("ping"))
        e = fails("numbers on a standalone", 20, lambda: client.test.command(
            {"insert": "c", "documents": [{"_id": 1}], "txnNumber": Int64(1)}))
        check("text", "Transaction numbers are only allowed on a replica set member or mongos" in str(e), e)
        fails("status", 76, lambda: client.admin.command("replSetGetStatus"))
        fails("cluster time reads", 20, lambda: client.test.command(
            {"find": "c", "readConcern": {"afterClusterTime": Timestamp(1, 1)}}))
    SERVER.stop()


def initiate():
    SERVER.start("--replSet", "rs0")
    with MongoClient(URI, directConnection=True) as direct:
        hello = direct.admin.command("hello")
        check("not initiated", hello["isreplicaset"] and not hello["isWritablePrimary"] and not hello["secondary"], hello)
        fails("config before", 94, lambda: direct.admin.command("replSetGetConfig"))
        with Raw() as raw:
            fails("write before", 10107, lambda: raw.command({"insert": "c", "documents": [{}]}))
            fails("read before", 13436, lambda: raw.command({"find": "c"}))
        fails("foreign name", 93, lambda: direct.admin.command(
            "replSetInitiate", {"_id": "other", "members": [{"_id": 0, "host": "127.0.0.1:%d" % PORT}]}))
        direct.admin.command("replSetInitiate", {"_id": "rs0", "members": [{"_id": 0, "host": "127.0.0.1:%d" % PORT}]})
        fails("twice", 23, lambda: direct.admin.command("replSetInitiate"))
        equal("config", direct.admin.command("replSetGetConfig")["config"]["members"][0]["host"], "127.0.0.1:%d" % PORT)
        status = direct.admin.command("replSetGetStatus")
        equal("status", (status["set"], status["myState"], status["members"][0]["stateStr"]), ("rs0", 1, "PRIMARY"))
    with MongoClient(URI, replicaSet="rs0", serverSelectionTimeoutMS=5000) as client:
        client.admin.command("ping")
        equal("discovered", (client.primary, client.topology_description.replica_set_name), (("127.0.0.1", PORT), "rs0"))


def failpoint(client, **data):
    client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=data)


def retryable(client, db):
    c = db.retry
    for name, f, check_it in (
            ("insert", lambda: c.insert_one({"_id": 1, "n": 0}), lambda: c.find_one(1) == {"_id": 1, "n": 0}),
            ("update", lambda: c.update_one({"_id": 1}, {"$inc": {"n": 1}}), lambda: c.find_one(1)["n"] == 1),
            ("findAndModify", lambda: c.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}), lambda: c.find_one(1)["n"] == 2),
            ("delete", lambda: c.delete_one({"_id": 1}), lambda: c.count_documents({}) == 0)):
        failpoint(client, failCommands=[name], closeConnection=True)
        f()
        check("retried before, " + name, check_it())
    # An error after the write: the driver retries and gets the recorded reply.
    for name, f in (("insert", lambda: c.insert_one({"_id": 1, "n": 0}).inserted_id),
                    ("update", lambda: c.update_one({"_id": 1}, {"$inc": {"n": 1}}).modified_count),
                    ("findAndModify", lambda: c.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}},
                                                                    return_document=ReturnDocument.AFTER)["n"]),
                    ("delete", lambda: c.delete_one({"_id": 1}).deleted_count)):
        expected = {"insert": 1, "update": 1, "findAndModify": 2, "delete": 1}[name]
        before = client.admin.command("serverStatus")["transactions"]["retriedCommandsCount"]
        failpoint(client, failCommands=[name], writeConcernError={"code": 91, "errmsg": "Replication is being shut down"})
        equal("retried behind, " + name, f(), expected)
        after = client.admin.command("serverStatus")["transactions"]["retriedCommandsCount"]
        equal("counted, " + name, after - before, 1)
    failpoint(client, failCommands=["find"], closeConnection=True)
    equal("retried read", c.count_documents({}) + len(list(c.find())), 0)
    failpoint(client, failCommands=["insert"], errorCode=10107)
    equal("retried not primary", c.insert_one({"_id": 9}).inserted_id, 9)
    failpoint(client, failCommands=["insert"], errorCode=8)
    fails("not retried", 8, lambda: c.insert_one({"_id": 10}))
    operations = [InsertOne({"_id": i}) for i in range(20, 1500)] + [UpdateOne({"_id": 20}, {"$inc": {"n": 1}}), DeleteOne({"_id": 21})]
    failpoint(client, failCommands=["insert"], writeConcernError={"code": 91, "errmsg": "x"})
    result = c.bulk_write(operations)
    equal("bulk", (result.inserted_count, result.modified_count, result.deleted_count), (1480, 1, 1))
    equal("bulk once", (c.count_documents({"_id": {"$gte": 20}}), c.find_one(20)["n"]), (1479, 1))
    failpoint(client, failCommands=["bulkWrite"], writeConcernError={"code": 91, "errmsg": "x"})
    result = client.bulk_write([InsertOne({"_id": 5000}, namespace="nagi_replset.retry"),
                                UpdateOne({"_id": 20}, {"$inc": {"n": 1}}, namespace="nagi_replset.retry")])
    equal("client bulk", (result.inserted_count, result.modified_count, c.find_one(20)["n"]), (1, 1, 2))
    equal("update_many is not numbered", c.update_many({"_id": {"$lt": 100}}, {"$set": {"m": 1}}).matched_count, 80)
    try:
        c.with_options(write_concern=WriteConcern(w=3)).insert_one({"_id": "w3"})
        check("w: 3", False)
    except WriteConcernError as e:
        equal("w: 3", (e.code, c.count_documents({"_id": "w3"})), (100, 1))


def races(client, db):
    """Many sessions send the same retryable increments several times each: each increment takes effect once."""
    c = db.races
    c.insert_many([{"_id": i, "n": 0} for i in range(4)])

    def work(seed):
        session = sessions[seed // 2]
        with Raw() as raw:
            for number in range(25):
                command = {"update": "races", "updates": [{"q": {"_id": (seed + number) % 4}, "u": {"$inc": {"n": 1}}}],
                           "lsid": session, "txnNumber": Int64(number)}
                together.wait()
                for _ in range(3):
                    raw.command({**command, "updates": [{"q": {"_id": (seed // 2 + number) % 4}, "u": {"$inc": {"n": 1}}}]})
    sessions = [lsid() for _ in range(4)]
    together = threading.Barrier(8)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    equal("each once", sum(d["n"] for d in c.find()), 100)


def transactions(client, db):
    c, other = db.txn, db.txn_other
    with client.start_session() as s:
        with s.start_transaction(read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority")):
            c.insert_one({"_id": 1}, session=s)
            figures = client.admin.command("serverStatus")["transactions"]
            equal("figures", [figures["current" + kind] for kind in ("Active", "Inactive", "Open", "Prepared")], [0, 1, 1, 0])
            other.insert_many([{"_id": i, "v": i} for i in range(300)], session=s)
            equal("own writes", (c.count_documents({}, session=s), other.count_documents({}, session=s)), (1, 300))
            equal("not others'", (c.count_documents({}), other.count_documents({})), (0, 0))
            equal("own update", other.update_many({"v": {"$lt": 10}}, {"$inc": {"v": 1000}}, session=s).modified_count, 10)
            equal("own delete", other.delete_many({"v": {"$gte": 1000}}, session=s).deleted_count, 10)
            equal("distinct", len(other.distinct("v", session=s)), 290)
            equal("aggregate", list(other.aggregate([{"$group": {"_id": None, "s": {"$sum": "$v"}}}], session=s))[0]["s"], sum(range(10, 300)))
            equal("lookup", len(list(other.aggregate([{"$lookup": {"from": "txn", "localField": "_id", "foreignField": "_id", "as": "x"}},
                                                      {"$limit": 5}], session=s))), 5)
            equal("batches", len(list(other.find({}, session=s, batch_size=7))), 290)
            equal("sorted", [d["_id"] for d in other.find({}, session=s).sort("v", -1).limit(2)], [299, 298])
            equal("findAndModify", other.find_one_and_update({"_id": 50}, {"$set": {"x": 1}}, session=s,
                                                             return_document=ReturnDocument.AFTER)["x"], 1)
            equal("by id", other.find_one({"_id": 50}, session=s)["x"], 1)
            check("by id outside", other.find_one({"_id": 50}) is None)
            client.bulk_write([InsertOne({"_id": 400}, namespace="nagi_replset.txn_other")], session=s)
            fails("count", 263, lambda: db.command({"count": "txn"}, session=s))
        equal("committed", (c.count_documents({}), other.count_documents({})), (1, 291))
        s.commit_transaction()
        s.start_transaction()
        c.insert_one({"_id": 2}, session=s)
        s.abort_transaction()
        equal("aborted", c.count_documents({}), 1)
        s.start_transaction()
        c.insert_one({"_id": 3}, session=s)
        try:
            c.insert_one({"_id": 1}, session=s)
            check("duplicate", False)
        except DuplicateKeyError as e:
            check("duplicate is not transient", not e.has_error_label("TransientTransactionError"))
        fails("aborted by the error", 251, lambda: c.find_one({}, session=s), label="TransientTransactionError")
        s.abort_transaction()
        equal("nothing of it", c.count_documents({"_id": 3}), 0)
        s.start_transaction()
        fails("out", 263, lambda: list(c.aggregate([{"$out": "x"}], session=s)))
        s.abort_transaction()
        with s.start_transaction():
            db.create_collection("made", session=s)
            db.made.create_index("a", unique=True, session=s)
            db.made.insert_one({"_id": 1, "a": 1}, session=s)
            check("not there yet", "made" not in db.list_collection_names())
        equal("made", sorted(i["name"] for i in db.made.list_indexes()), ["_id_", "a_1"])
    with client.start_session() as s:
        with s.start_transaction():
            c.find_one({}, session=s)
            c.insert_one({"_id": 77})
            check("one state", c.find_one({"_id": 77}, session=s) is None)
            equal("one state, scan", c.count_documents({"_id": 77}, session=s), 0)


def conflicts(client, db):
    c = db.conflicts
    c.insert_one({"_id": 1, "n": 0})
    with client.start_session() as a, client.start_session() as b:
        a.start_transaction(), b.start_transaction()
        c.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=a)
        fails("later writer", 112, lambda: c.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=b), label="TransientTransactionError")
        waited = threading.Thread(target=lambda: c.update_one({"_id": 1}, {"$inc": {"n": 10}}))
        waited.start()
        a.commit_transaction()
        waited.join(10)
        equal("a plain write waits for the commit", c.find_one(1)["n"], 11)
        b.abort_transaction()
        a.start_transaction()
        c.find_one({"_id": 1}, session=a)
        c.update_one({"_id": 1}, {"$inc": {"n": 1}})
        fails("changed since the snapshot", 112, lambda: c.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=a),
              label="TransientTransactionError")
        a.abort_transaction()
    # with_transaction retries until it succeeds.
    c.insert_many([{"_id": i, "balance": 100} for i in range(10, 14)])

    def transfer(s, source, target):
        c.update_one({"_id": source}, {"$inc": {"balance": -1}}, session=s)
        c.update_one({"_id": target}, {"$inc": {"balance": 1}}, session=s)

    def work(seed):
        with client.start_session() as s:
            for i in range(15):
                s.with_transaction(lambda s: transfer(s, 10 + (seed + i) % 4, 10 + (seed + i + 1 + i % 3) % 4))
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    sums = []
    while any(t.is_alive() for t in threads):
        with client.start_session() as s, s.start_transaction(read_concern=ReadConcern("snapshot")):
            sums.append(sum(d["balance"] for d in c.find({"balance": {"$exists": 1}}, session=s)))
    [t.join() for t in threads]
    check("every state balances", set(sums) <= {400}, set(sums))
    equal("and the last", sum(d["balance"] for d in c.find({"balance": {"$exists": 1}})), 400)


def ddl(client, db):
    c = db.ddl
    c.insert_one({"_id": 1})
    with client.start_session() as s:
        for name, change in (("index", lambda: c.create_index("a")), ("drop", lambda: c.drop())):
            s.start_transaction()
            c.insert_one({"_id": name}, session=s)
            began = time.monotonic()
            change()
            check(name + " does not wait", time.monotonic() - began < 5)
            fails(name + " ends it", 246, lambda: c.insert_one({"_id": 2}, session=s), label="TransientTransactionError")
            s.abort_transaction()
        s.start_transaction()
        db.elsewhere.find_one({}, session=s)
        c.insert_one({"_id": 1})
        fails("made since", 246, lambda: c.find_one({}, session=s), label="TransientTransactionError")
        s.abort_transaction()


def lives(client, db):
    """Events that abort a transaction from outside."""
    c = db.lives
    c.insert_one({"_id": 0})
    client.admin.command("setParameter", 1, transactionLifetimeLimitSeconds=1)
    s = client.start_session()
    s.start_transaction()
    c.insert_one({"_id": 1}, session=s)
    wait_until(lambda: client.admin.command("serverStatus")["transactions"]["currentOpen"] == 0)
    fails("time limit", 251, lambda: c.insert_one({"_id": 2}, session=s), label="TransientTransactionError")
    equal("its key is free", c.insert_one({"_id": 1}).inserted_id, 1)
    client.admin.command("setParameter", 1, transactionLifetimeLimitSeconds=60)
    s.abort_transaction()
    for name, end in (("endSessions", lambda s: client.admin.command("endSessions", [s.session_id])),
                      ("killSessions", lambda s: client.admin.command("killSessions", [s.session_id])),
                      ("killAllSessions", lambda s: client.admin.command("killAllSessions", []))):
        s = client.start_session()
        s.start_transaction()
        c.insert_one({"_id": name}, session=s)
        end(s)
        fails(name, 251, lambda: c.insert_one({"_id": 3}, session=s), label="TransientTransactionError")
        equal(name + " frees the key", c.insert_one({"_id": name}).inserted_id, name)
    failpoint(client, failCommands=["commitTransaction"], closeConnection=True)
    with client.start_session() as s:
        with s.start_transaction():
            c.insert_one({"_id": "lost commit"}, session=s)
    equal("commit sent again", c.count_documents({"_id": "lost commit"}), 1)
    failpoint(client, failCommands=["commitTransaction"], writeConcernError={"code": 91, "errmsg": "x"})
    with client.start_session() as s:
        with s.start_transaction():
            c.insert_one({"_id": "commit twice"}, session=s)
    equal("commit answered again", c.count_documents({"_id": "commit twice"}), 1)


def causal(client, db):
    c = db.causal
    with client.start_session(causal_consistency=True) as s:
        c.insert_one({"_id": 1}, session=s)
        check("operation time", isinstance(s.operation_time, Timestamp) and s.cluster_time is not None)
        first = s.operation_time
        equal("reads its write", c.find_one({"_id": 1}, session=s), {"_id": 1})
        c.insert_one({"_id": 2}, session=s)
        check("time grows", s.operation_time > first)
        with client.start_session(causal_consistency=True) as t:
            # A member of another clock was there first: its time comes with $clusterTime.
            ahead = Timestamp(s.operation_time.time + 30, 1)
            t.advance_cluster_time({**s.cluster_time, "clusterTime": ahead})
            t.advance_operation_time(ahead)
            equal("a time to come", c.find_one({"_id": 2}, session=t), {"_id": 2})
            check("is taken over", t.operation_time.time >= s.operation_time.time + 30)
    for level in ("local", "available", "majority", "linearizable"):
        equal("level " + level, c.with_options(read_concern=ReadConcern(level)).find_one({"_id": 1}), {"_id": 1})
    with client.start_session(snapshot=True) as s:
        equal("snapshot session", len(list(c.find({}, session=s))), 2)
        c.insert_one({"_id": 3})
        equal("in batches", len(list(c.find({}, session=s, batch_size=1))), 2)
        equal("keeps its state", (len(list(c.find({}, session=s))), c.distinct("_id", session=s),
                                  len(list(c.aggregate([{"$match": {}}], session=s)))), (2, [1, 2], 2))
    equal("others go on", c.count_documents({}), 3)
    for ahead in (Timestamp(2 ** 32 - 1, 1), Timestamp(int(time.time()) + 100, 1)):
        fails("a time to come", 72, lambda: db.command({"find": "causal", "readConcern": {"afterClusterTime": ahead}}))


def step_down(client, db):
    fails("nobody else", 262, lambda: client.admin.command({"replSetStepDown": 10, "secondaryCatchUpPeriodSecs": 1}))
    term = client.admin.command("replSetGetStatus")["term"]
    client.admin.command({"replSetStepDown": 1, "force": True})
    db.stepped.insert_one({"_id": 1})  # waits for the next election
    equal("written after", db.stepped.count_documents({}), 1)
    equal("next term", client.admin.command("replSetGetStatus")["term"], term + 1)


def encrypted(client, db):
    """Encrypted fields accept encrypted values only, whatever command writes them."""
    key = Binary(bytes(range(16)), 4)
    stored = Binary(bytes([14]) + bytes(16) + bytes([2]) + bytes(40), 6)
    client.drop_database("nagi_encrypted")
    db = client.nagi_encrypted
    db.create_collection("e", encryptedFields={"fields": [{"path": "name.first", "keyId": key, "bsonType": "string"}]})
    # The collections that the driver creates in addition, and the options it reads back.
    made = {coll["name"]: coll["options"] for coll in db.list_collections()}
    equal("the collections of a driver", sorted(made), ["e", "enxcol_.e.ecoc", "enxcol_.e.esc"])
    check("state collections are clustered", all("clusteredIndex" in made["enxcol_.e." + kind] for kind in ["esc", "ecoc"]), made)
    listed = made["e"]["encryptedFields"]
    equal("encryptedFields is listed", listed["fields"], [{"path": "name.first", "keyId": key, "bsonType": "string"}])
    equal("the index of a driver", db.e.index_information()["__safeContent___1"]["key"], [("__safeContent__", 1)])
    db.e.insert_one({"_id": 1, "name": {"first": stored}})
    db.e.insert_many([{"_id": 2}, {"_id": 3, "name": "no document"}])
    plain = {"name": {"first": "plain"}}
    error = fails("insert", 121, lambda: db.e.insert_one({"_id": 4, **plain}))
    details = error.details["writeErrors"][0] if "writeErrors" in error.details else error.details
    details = details["errInfo"]["details"]
    equal("the rule", details["operatorName"], "implicitFLESchema")
    check("no value is shown", "plain" not in repr(details), details)
    fails("update", 121, lambda: db.e.update_one({"_id": 1}, {"$set": {"name.first": "plain"}}))
    fails("update by pipeline", 121, lambda: db.e.update_one({"_id": 1}, [{"$set": {"name.first": "plain"}}]))
    fails("replace", 121, lambda: db.e.replace_one({"_id": 1}, plain))
    fails("upsert", 121, lambda: db.e.update_one({"_id": 5}, {"$set": plain}, upsert=True))
    fails("findAndModify", 121, lambda: db.e.find_one_and_update({"_id": 1}, {"$set": plain}))
    fails("bulk", 121, lambda: db.e.bulk_write([pymongo.InsertOne(plain)]))
    fails("another type", 121, lambda: db.e.update_one({"_id": 1}, {"$set": {"name.first": Binary(bytes(18), 6)}}))
    fails("an array on the way", 121, lambda: db.e.update_one({"_id": 1}, {"$set": {"name": [plain]}}))
    db.plain.insert_one({"_id": 9, **plain})
    fails("$merge", 121, lambda: list(db.plain.aggregate([{"$merge": "e"}])))
    fails("$out", 121, lambda: list(db.plain.aggregate([{"$out": "e"}])))
    equal("nothing plain was stored", db.e.count_documents({"name.first": {"$type": "string"}}), 0)
    db.e.insert_one({"_id": 4, **plain}, bypass_document_validation=True)
    client.drop_database("nagi_encrypted")


def refused(client, db):
    """Replies of failed commands contain more than the error."""
    db.refused.drop()
    db.refused.insert_one({"_id": 1})
    error = fails("a failure of its own", 66, lambda: db.command(
        "findAndModify", "refused", query={"_id": 1}, update={"$set": {"_id": 2}}, writeConcern={"w": 5}))
    equal("and what the write concern lacks", error.details.get("writeConcernError", {}).get("code"), 100)
    for code, told in ((91, False), (11600, False), (10107, True)):
        failpoint(client, failCommands=["ping"], errorCode=code)
        # Unchecked: the driver would replace the reply by a lost connection.
        reply = client.admin.command("ping", check=False)
        equal("ping %d" % code, reply.get("code"), code)
        equal("topologyVersion of %d" % code, "topologyVersion" in reply, told)
    names = [d["name"] for d in client.admin.command("listDatabases", nameOnly=True)["databases"]]
    check("databases of every server", {"admin", "config", "local"} <= set(names), names)


def restart():
    """Acknowledged writes are known after SIGKILL: retries get the recorded reply, commits can be repeated."""
    insert = {"insert": "restart", "documents": [{"_id": i} for i in range(2500)], "lsid": lsid(), "txnNumber": Int64(7)}
    modify = {"findAndModify": "restart", "query": {"_id": "f"}, "update": {"$inc": {"n": 1}}, "upsert": True, "new": True,
              "lsid": lsid(), "txnNumber": Int64(3)}
    in_txn = {"lsid": lsid(), "txnNumber": Int64(5), "autocommit": False}
    in_open = {"lsid": lsid(), "txnNumber": Int64(1), "autocommit": False}
    status = {"replSetGetStatus": 1}
    with Raw() as raw:
        raw.command(insert)
        first = raw.command(modify)
        raw.command({"insert": "restart", "documents": [{"_id": "t"}], **in_txn, "startTransaction": True})
        raw.command({"commitTransaction": 1, **in_txn}, "admin")
        raw.command({"insert": "restart", "documents": [{"_id": "open"}], **in_open, "startTransaction": True})
        term = raw.command(status, "admin")["term"]
        time_before = raw.command({"ping": 1})["operationTime"]
    SERVER.kill()
    SERVER.start("--replSet", "rs0")
    with Raw() as raw:
        equal("still a member", raw.command({"hello": 1})["setName"], "rs0")
        equal("a term later", raw.command(status, "admin")["term"], term + 1)
        check("time goes on", raw.command({"ping": 1})["operationTime"] >= time_before)
        again = raw.command(insert)
        equal("insert answered", (again["n"], len(again["retriedStmtIds"])), (2500, 2500))
        again = raw.command(modify)
        equal("findAndModify answered", (again["value"], again.get("retriedStmtId")), (first["value"], 0))
        equal("once", raw.command({"count": "restart"})["n"], 2502)
        equal("commit again", raw.command({"commitTransaction": 1, **in_txn}, "admin")["ok"], 1)
        fails("commit of the open one", 251, lambda: raw.command({"commitTransaction": 1, **in_open}, "admin"),
              label="TransientTransactionError")
        equal("the open one is gone", raw.command({"count": "restart", "query": {"_id": "open"}})["n"], 0)
        fails("old number", 225, lambda: raw.command({**insert, "txnNumber": Int64(6)}))
        fails("initiated for good", 23, lambda: raw.command({"replSetInitiate": {}}, "admin"))
        equal("valid", raw.command({"validate": "restart"})["valid"], True)


def crash():
    """SIGKILL during transfers and retryable increments: each is applied fully or not at all, acknowledged ones
    are present, retries take effect once."""
    accounts, rounds = 6, int(os.environ.get("CRASH_ROUNDS", 4))
    with MongoClient(URI, replicaSet="rs0") as client:
        db = client.nagi_replset
        db.crash.insert_many([{"_id": i, "balance": 100} for i in range(accounts)])
        db.crash_counters.insert_many([{"_id": i, "n": 0} for i in range(4)])
    sent = [0] * 4
    for number in range(rounds):
        notes, stop = [], threading.Event()

        def transfer(seed):
            session, txn = lsid(), 0
            try:
                with Raw() as raw:
                    while not stop.is_set():
                        txn += 1
                        numbered = {"lsid": session, "txnNumber": Int64(txn), "autocommit": False}
                        note = "%d-%d-%d" % (number, seed, txn)
                        try:
                            raw.command({"update": "crash", "updates": [
                                {"q": {"_id": (seed + txn) % accounts}, "u": {"$inc": {"balance": -1}}},
                                {"q": {"_id": (seed + 2 * txn + 1) % accounts}, "u": {"$inc": {"balance": 1}}}],
                                **numbered, "startTransaction": True})
                            raw.command({"insert": "crash_notes", "documents": [{"_id": note}], **numbered})
                            raw.command({"commitTransaction": 1, **numbered}, "admin")
                            notes.append(note)
                        except OperationFailure as e:
                            if e.code not in (112, 251, 246):
                                check("transfer", False, e.details)
            except (OSError, AutoReconnect):
                pass

        def increment(at):
            try:
                with Raw() as raw:
                    while not stop.is_set():
                        raw.command({"update": "crash_counters", "updates": [{"q": {"_id": at}, "u": {"$inc": {"n": 1}}}],
                                     "lsid": sessions[at], "txnNumber": Int64(numbers[at])})
                        numbers[at] += 1
            except (OSError, AutoReconnect):
                pass
        sessions, numbers = [lsid() for _ in range(4)], [1] * 4
        threads = [threading.Thread(target=f, args=(i,)) for i in range(4) for f in (transfer, increment)]
        [t.start() for t in threads]
        check("writes go on", wait_until(lambda: len(notes) >= 20 * (1 + number % 5) and min(numbers) > 10))
        SERVER.kill()
        stop.set()
        [t.join() for t in threads]
        SERVER.start("--replSet", "rs0")
        with Raw() as raw:
            for at in range(4):  # the write in flight, sent again
                raw.command({"update": "crash_counters", "updates": [{"q": {"_id": at}, "u": {"$inc": {"n": 1}}}],
                             "lsid": sessions[at], "txnNumber": Int64(numbers[at])})
                sent[at] += numbers[at]
        with MongoClient(URI, replicaSet="rs0") as client:
            db = client.nagi_replset
            equal("money", sum(d["balance"] for d in db.crash.find()), 100 * accounts)
            there = {d["_id"] for d in db.crash_notes.find()}
            check("acknowledged commits are there", set(notes) <= there, set(notes) - there)
            check("few others", len([n for n in there if n.startswith("%d-" % number)]) <= len(notes) + 4)
            equal("increments once", [db.crash_counters.find_one(at)["n"] for at in range(4)], sent)
            for name in ("crash", "crash_notes", "crash_counters"):
                check("valid " + name, db.command("validate", name)["valid"])
    check("something happened", len(there) > 20 and min(sent) > 20, (len(there), sent))
    print("%d times SIGKILL: %d transactions and %d numbered writes kept" % (rounds, len(there), sum(sent)))


def main():
    standalone()
    initiate()
    # A short heartbeat: after a write concern error of shutdown the driver waits for the next reply of its
    # monitor.
    client = MongoClient(URI, replicaSet="rs0", serverSelectionTimeoutMS=10000, heartbeatFrequencyMS=500)
    client.drop_database("nagi_replset")
    db = client.nagi_replset
    only = os.environ.get("ONLY", "").split()
    for f in (retryable, races, transactions, conflicts, ddl, lives, causal, encrypted, refused, step_down):
        if only and f.__name__ not in only:
            continue
        began = time.monotonic()
        section(f, client, db)
        if os.environ.get("TIMES"):
            print("%s: %.1f s" % (f.__name__, time.monotonic() - began))
    client.close()
    for f in (restart, crash):
        section(f)
    if not os.environ.get("LEAVE"):
        SERVER.stop()
    finish("pymongo %s, replica set" % pymongo.version)


if __name__ == "__main__":
    main()

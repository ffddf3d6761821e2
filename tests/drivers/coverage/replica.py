"""Features that need a replica set: times, retryable writes, transactions."""
import time
import uuid

import pymongo
from bson import SON, Binary, Int64, Timestamp
from pymongo import CursorType, MongoClient
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from probes import code_of, equal, fields, need, probe
from wire import Raw


def initiate(client):
    """Initiates the set, waits until it accepts writes, and returns a client that uses it as a replica set."""
    host = "127.0.0.1:%d" % client.address[1]
    client.admin.command("replSetInitiate", {"_id": "rs0", "members": [{"_id": 0, "host": host}]})
    until = time.monotonic() + 30
    while time.monotonic() < until and not client.admin.command("hello")["isWritablePrimary"]:
        time.sleep(0.02)
    return MongoClient(*client.address, directConnection=True, heartbeatFrequencyMS=500)


def fresh(client, *documents):
    client.test.probe.drop()
    if documents:
        client.test.probe.insert_many(list(documents))
    return client.test.probe


@probe("replica", "cmd.replsetinitiate", "cmd.replsetgetstatus", "cmd.replsetgetconfig", "cmd.replsetreconfig", "conf.repl.set", "hello.reply.set")
def the_set(client):
    hello = client.admin.command("hello")
    equal((hello["setName"], hello["primary"], hello["isWritablePrimary"]), ("rs0", hello["me"], True))
    fields(hello, "setVersion electionId hosts lastWrite.opTime lastWrite.majorityOpTime")
    status = client.admin.command("replSetGetStatus")
    equal((status["set"], status["myState"], status["members"][0]["stateStr"]), ("rs0", 1, "PRIMARY"))
    config = client.admin.command("replSetGetConfig")["config"]
    config["version"] += 1
    config["members"][0]["tags"] = {"dc": "here"}
    client.admin.command("replSetReconfig", config)
    equal(client.admin.command("replSetGetConfig")["config"]["members"][0]["tags"], {"dc": "here"})


@probe("replica", "ses.cluster_time", "ses.operation_time", "hello.reply.cluster_time", "causal", "rc.aftercluster", "rc.atcluster", "ses.snapshot", "rc.levels", "wc.w", "wc.j",
       "wc.error_shape")
def times(client):
    c = fresh(client, {"_id": 1, "n": 1})
    first = client.test.command("insert", "probe", documents=[{"_id": 2}])
    need(isinstance(first["operationTime"], Timestamp) and first["$clusterTime"]["clusterTime"] >= first["operationTime"], first)
    found = client.test.command("find", "probe", readConcern={"level": "majority", "afterClusterTime": first["operationTime"]})
    equal(len(found["cursor"]["firstBatch"]), 2)
    one = client.test.command("find", "probe", filter={"_id": 1}, readConcern={"level": "snapshot"})["cursor"]
    c.update_one({"_id": 1}, {"$set": {"n": 2}})
    old = client.test.command("find", "probe", filter={"_id": 1}, readConcern={"level": "snapshot", "atClusterTime": one["atClusterTime"]})
    equal((old["cursor"]["firstBatch"], c.find_one({"_id": 1})["n"]), ([{"_id": 1, "n": 1}], 2))
    with client.start_session(snapshot=True) as session:
        equal(c.find_one({"_id": 1}, session=session)["n"], 2)
        c.update_one({"_id": 1}, {"$set": {"n": 3}})
        equal(c.find_one({"_id": 1}, session=session)["n"], 2)
    with client.start_session(causal_consistency=True) as session:
        c.insert_one({"_id": 3}, session=session)
        equal(c.with_options(read_concern=ReadConcern("majority")).find_one({"_id": 3}, session=session), {"_id": 3})
    for level in ("local", "available", "majority", "linearizable"):
        equal(client.test.command("find", "probe", filter={"_id": 3}, readConcern={"level": level})["cursor"]["firstBatch"], [{"_id": 3}])
    equal(c.with_options(write_concern=WriteConcern(w="majority", j=True)).insert_one({"_id": 4}).inserted_id, 4)
    reply = client.test.command("insert", "probe", documents=[{"_id": 5}], writeConcern={"w": 1, "j": True})
    need("writeConcernError" not in reply, reply)
    more = client.test.command("insert", "probe", documents=[{"_id": 6}], writeConcern={"w": 3, "wtimeout": 50})
    need(more["n"] == 1 and more["writeConcernError"]["code"] in (64, 100), more)


@probe("replica", "rp.modes")
def read_preferences(client):
    c = fresh(client, {"_id": 1})
    for mode in ("primary", "primaryPreferred", "secondaryPreferred", "nearest"):
        with MongoClient(*client.address, replicaSet="rs0", readPreference=mode) as other:
            equal(other.test.probe.find_one(), {"_id": 1})
    equal(client.test.command(SON([("find", "probe"), ("$readPreference", {"mode": "nearest", "tags": [{"dc": "here"}]})]))["cursor"]["firstBatch"], [{"_id": 1}])


def lsid():
    return {"id": Binary(uuid.uuid4().bytes, 4)}


@probe("replica", "retry.writes", "retry.multi", "retry.reads", "retry.labels", "cmd.findandmodify.retry", "retry.nonretryable_cmd")
def retried(client):
    c = fresh(client, {"_id": 1, "n": 0})
    session = lsid()
    with Raw(client) as raw:  # a driver would add a session of its own to these

        def numbered(number, name, **rest):
            raw.message(SON([(name, "probe"), ("lsid", session), ("txnNumber", Int64(number)), ("$db", "test"), *rest.items()]))
            return raw.answer()[2]
        increase = {"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}
        first, second = numbered(1, "update", updates=[increase]), numbered(1, "update", updates=[increase])
        equal((first["nModified"], second["nModified"], second["retriedStmtIds"], c.find_one()["n"]), (1, 1, [0], 1))
        equal([numbered(2, "findAndModify", query={"_id": 1}, update=increase["u"], new=True)["value"]["n"] for _ in range(2)], [2, 2])
        equal(numbered(3, "update", updates=[dict(increase, multi=True)])["code"], 72)
        equal(numbered(4, "count")["code"], 50768)
        client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data={"failCommands": ["insert"], "errorCode": 91})
        equal(numbered(5, "insert", documents=[{}])["errorLabels"], ["RetryableWriteError"])
    client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data={"failCommands": ["find"], "closeConnection": True})
    equal(c.find_one()["n"], 2)


@probe("standalone", "retry.standalone", "txn.requires_rs")
def numbers_need_a_set(client):
    equal(code_of(lambda: client.test.command(SON([("insert", "probe"), ("documents", [{}]), ("lsid", lsid()), ("txnNumber", Int64(1))]))), 20)


@probe("replica", "txn.start", "txn.snapshot", "txn.cursor", "txn.wc", "txn.labels", "txn.abort_on_error", "txn.commit_retry", "txn.ops", "cmd.committransaction",
       "cmd.aborttransaction", "idx.build.txn", "cmd.common.readonly_reject")
def transactions(client):
    c = fresh(client, *({"_id": i, "n": 0} for i in range(5)))
    with client.start_session() as session:
        session.start_transaction(read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority"))
        c.update_one({"_id": 1}, {"$set": {"n": 1}}, session=session)
        c.insert_one({"_id": 9}, session=session)
        c.insert_one({"_id": "outside"})
        equal(sorted(str(d["_id"]) for d in c.find({}, session=session, batch_size=2)), ["0", "1", "2", "3", "4", "9"])
        equal(c.find_one({"_id": 1})["n"], 0)
        session.commit_transaction()
        session.commit_transaction()
        equal(c.find_one({"_id": 1})["n"], 1)
        session.start_transaction()
        c.delete_many({}, session=session)
        session.abort_transaction()
        equal(c.count_documents({}), 7)
        session.start_transaction()
        made = client.test["made_in_transaction"]
        made.drop()
        made.insert_one({"_id": 1}, session=session)
        session.commit_transaction()
        equal(made.find_one(), {"_id": 1})
        session.start_transaction()
        equal(code_of(lambda: client.test.command("dbStats", session=session)), 263)
        session.abort_transaction()
        made.drop()
        session.start_transaction()
        client.test.command("createIndexes", "made_in_transaction", indexes=[{"key": {"n": 1}, "name": "n_1"}], session=session)
        session.commit_transaction()
        need("n_1" in made.index_information())
        session.start_transaction()
        try:
            c.insert_one({"_id": 1}, session=session)
        except pymongo.errors.DuplicateKeyError:
            pass
        equal(code_of(lambda: c.find_one({}, session=session)), 251)
        session.abort_transaction()
    with client.start_session() as a, client.start_session() as b:
        a.start_transaction()
        b.start_transaction()
        c.update_one({"_id": 2}, {"$set": {"by": "a"}}, session=a)
        try:
            c.update_one({"_id": 2}, {"$set": {"by": "b"}}, session=b)
            need(False, "no conflict")
        except OperationFailure as error:
            need(error.code == 112 and error.has_error_label("TransientTransactionError"), error.details)
        a.commit_transaction()


@probe("replica", "txn.ddl", "txn.limits", "par.txn")
def limits_of_transactions(client):
    c = fresh(client, {"_id": 1})
    was = client.admin.command("setParameter", 1, transactionLifetimeLimitSeconds=1)["was"]
    try:
        equal((was, client.admin.command("getParameter", 1, maxTransactionLockRequestTimeoutMillis=1)["maxTransactionLockRequestTimeoutMillis"]), (60, 5))
        with client.start_session() as session:
            session.start_transaction()
            c.insert_one({"_id": 2}, session=session)
            client.test.command("drop", "probe")
            equal(code_of(lambda: c.insert_one({"_id": 3}, session=session)), 246)
        with client.start_session() as session:
            session.start_transaction()
            c.insert_one({"_id": 2}, session=session)
            until = time.monotonic() + 20
            while time.monotonic() < until and client.admin.command("serverStatus")["transactions"]["currentOpen"]:
                time.sleep(0.05)
            equal(code_of(lambda: c.insert_one({"_id": 3}, session=session)), 251)
    finally:
        client.admin.command("setParameter", 1, transactionLifetimeLimitSeconds=was)


@probe("replica", "cmd.applyops", "cmd.setdefaultrwconcern", "cmd.getdefaultrwconcern")
def defaults(client):
    fresh(client)
    equal(code_of(lambda: client.admin.command("applyOps", [{"op": "i", "ns": "test.probe", "o": {"_id": 7}}])), 26)
    client.test.create_collection("probe")
    client.admin.command("applyOps", [{"op": "i", "ns": "test.probe", "o": {"_id": 7}}])
    equal(client.test.probe.find_one(), {"_id": 7})
    client.admin.command("setDefaultRWConcern", 1, defaultReadConcern={"level": "local"}, defaultWriteConcern={"w": 1})
    got = client.admin.command("getDefaultRWConcern")
    equal((got["defaultReadConcern"], got["defaultWriteConcern"]["w"]), ({"level": "local"}, 1))
    client.admin.command("setDefaultRWConcern", 1, defaultWriteConcern={"w": "majority"})


@probe("replica", "cmd.replsetstepdown", "cmd.replsetfreeze")
def steps_down(client):
    equal(client.admin.command("replSetStepDown", 1, force=True)["ok"], 1)
    need(not client.admin.command("hello")["isWritablePrimary"])
    equal(client.admin.command("replSetFreeze", 0)["ok"], 1)
    until = time.monotonic() + 30
    # The client must have seen it, too: to anything but a primary it sends writes that are not retryable.
    seen = lambda: [server.server_type_name for server in client.topology_description.server_descriptions().values()]
    while time.monotonic() < until and not (client.admin.command("hello")["isWritablePrimary"] and seen() == ["RSPrimary"]):
        time.sleep(0.02)
    equal(seen(), ["RSPrimary"])
    equal(client.test.stepped.insert_one({"_id": 1}).inserted_id, 1)
    client.test.stepped.drop()


@probe("replica", "cs.oplog", "cmd.appendoplognote", "cmd.replsetresizeoplog", "mnt.oplog_resize")
def oplog(client):
    log = client.local["oplog.rs"]
    c = fresh(client)
    last = log.find().sort("$natural", -1).next()["ts"]
    tail = log.find({"ts": {"$gt": last}}, cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(10_000)
    c.insert_many([{"_id": 1, "s": "x" * 100, "a": [1, 2, 3]}, {"_id": 2}])
    c.update_one({"_id": 1}, {"$set": {"a.1": 5}, "$unset": {"s": ""}})
    c.replace_one({"_id": 2}, {"r": 1})
    c.create_index("r")
    with client.start_session() as session, session.start_transaction():
        c.insert_one({"_id": 3}, session=session)
        c.delete_one({"_id": 1}, session=session)
    c.delete_one({"_id": 2})
    c.rename("probed", dropTarget=True)
    client.test.probed.drop()
    client.admin.command("appendOplogNote", 1, data={"note": 1})
    entries = []
    while not entries or entries[-1]["op"] != "n":
        entries.append(tail.next())
    need(all(e["v"] == 2 and e["t"] > 0 and "wall" in e for e in entries), entries)
    need([e["ts"] for e in entries] == sorted({e["ts"] for e in entries}), entries)
    create, first, second, update, replace, index, txn, delete, rename, drop, note = entries
    equal((create["ns"], create["o"]["create"], first["ns"], first["o2"]), ("test.$cmd", "probe", "test.probe", {"_id": 1}))
    equal((second["op"], second["stmtId"], second["txnNumber"]), ("i", 1, first["txnNumber"]))
    equal(update["o"], {"$v": 2, "diff": {"d": {"s": False}, "sa": {"a": True, "u1": 5}}})
    equal((replace["op"], replace["o"], replace["o2"]), ("u", {"_id": 2, "r": 1}, {"_id": 2}))
    equal((index["o"]["createIndexes"], index["o"]["name"], index["ui"]), ("probe", "r_1", first["ui"]))
    equal([(op["op"], op["o"]) for op in txn["o"]["applyOps"]], [("i", {"_id": 3}), ("d", {"_id": 1})])
    need("lsid" in txn and txn["prevOpTime"] == {"ts": Timestamp(0, 0), "t": -1}, txn)
    equal((delete["op"], delete["o"]), ("d", {"_id": 2}))
    equal((rename["o"]["renameCollection"], rename["o"]["to"]), ("test.probe", "test.probed"))
    equal((drop["o"], note["o"]), ({"drop": "probed"}, {"note": 1}))
    equal(log.count_documents({"ts": {"$gte": first["ts"], "$lt": update["ts"]}}), 2)
    stats = client.local.command("collStats", "oplog.rs")
    need(stats["capped"] and stats["count"] >= len(entries) and stats["maxSize"] >= 990 << 20, stats)
    client.admin.command("replSetResizeOplog", 1, size=2000.0, minRetentionHours=1.0)
    equal(client.local.command("collStats", "oplog.rs")["maxSize"], 2000 << 20)
    equal(code_of(lambda: log.insert_one({"a": 1})), 73)
    equal(code_of(log.drop), 20)

"""Debezium's connector against Nagi: its snapshot, inserts, updates, deletes, transactions, a kill of the connector and one of the
server. debezium.py NAGI DIR PORT CLASSPATH
"""
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "common"))

from checks import check, equal, finish
from pymongo import MongoClient

NAGI, FOLDER, PORT, CLASSPATH = sys.argv[1:5]
URI = "mongodb://127.0.0.1:%s/?replicaSet=rs0" % PORT
STATE = os.path.join(FOLDER, "connector")


def serve():
    return subprocess.Popen([NAGI, "serve", "--dbpath", os.path.join(FOLDER, "data"), "--port", PORT, "--bind_ip", "127.0.0.1", "--replSet", "rs0", "--initiate",
                             "--logpath", os.path.join(FOLDER, "nagi.log"), "--logappend"], stdout=subprocess.DEVNULL)


def connector():
    out = open(os.path.join(FOLDER, "connector.log"), "a")
    return subprocess.Popen(["java", "-cp", CLASSPATH, "Stream", URI, STATE], stdout=out, stderr=subprocess.STDOUT)


def events():
    path = os.path.join(STATE, "events")
    return [line.rstrip("\n").split("\t") for line in open(path)] if os.path.exists(path) else []


def come(name, are_there, seconds=90):
    until = time.monotonic() + seconds
    while not are_there() and time.monotonic() < until:
        time.sleep(0.1)
    check(name, are_there(), [event[:2] for event in events()])


def main():
    os.makedirs(os.path.join(FOLDER, "data"))
    os.makedirs(STATE)
    server = serve()
    c = MongoClient(URI, serverSelectionTimeoutMS=30000).dbz.c
    c.insert_many([{"_id": n, "n": 0} for n in range(20)])
    debezium = connector()
    try:
        come("snapshot", lambda: len(events()) == 20)
        c.insert_one({"_id": 100, "n": 1})
        c.update_one({"_id": 1}, {"$set": {"n": 5}})
        c.delete_one({"_id": 2})
        c.replace_one({"_id": 3}, {"n": 7})
        with c.database.client.start_session() as session, session.start_transaction():
            c.insert_one({"_id": 101}, session=session)
            c.update_one({"_id": 4}, {"$inc": {"n": 3}}, session=session)
        come("changes", lambda: len(events()) == 26)
        equal("kinds", [event[:2] for event in events()[20:]], [["c", "100"], ["u", "1"], ["d", "2"], ["u", "3"], ["c", "101"], ["u", "4"]])
        debezium.kill()
        debezium.wait()
        c.update_one({"_id": 5}, {"$set": {"n": 9}})
        c.delete_one({"_id": 100})
        debezium = connector()
        come("after a kill of the connector", lambda: ["d", "100"] in [event[:2] for event in events()])
        server.kill()
        server.wait()
        server = serve()
        c.insert_one({"_id": 200, "n": 2})
        come("after a kill of the server", lambda: any(event[1] == "200" for event in events()))
        for n in range(300):
            c.update_one({"_id": n % 20}, {"$inc": {"n": 1}})
        c.insert_one({"_id": "end"})
        equal("end", debezium.wait(120), 0)
        state = {}
        for op, key, after in events():
            state[key] = None if op == "d" else json.loads(after)
        state = {key: doc["n"] if "n" in doc else None for key, doc in state.items() if doc}
        equal("documents", state, {'"end"' if doc["_id"] == "end" else str(doc["_id"]): doc.get("n") for doc in c.find()})
    finally:
        debezium.kill()
        server.terminate()
        server.wait()
    finish("Debezium: %d records" % len(events()))


main()

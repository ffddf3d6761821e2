"""Kills a server (SIGKILL) while it builds indexes: killed_build.py NAGI FOLDER [FLAG...].

In each phase of a build of two indexes the server is killed, then restarted on the same data. Each index is
then either absent or complete, all documents are present, `validate` agrees, and the same build succeeds.
"""
import os
import signal
import socket
import subprocess
import sys
import threading

from pymongo import MongoClient
from pymongo.errors import PyMongoError

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, finish, wait_until  # noqa: E402

nagi, folder, flags = sys.argv[1], sys.argv[2], sys.argv[3:]
COUNT = 8_000
SPECS = [{"key": {"t": "text"}, "name": "text"}, {"key": {"u": 1}, "name": "u", "unique": True}]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start():
    port = free_port()
    args = [nagi, "serve", "--dbpath", folder + "/data", "--port", str(port), "--bind_ip", "127.0.0.1", "--logpath", folder + "/nagi.log",
            "--logappend"]
    server = subprocess.Popen(args + flags, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    client = MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=60000, socketTimeoutMS=120000)
    client.admin.command("ping")
    return server, client


def progress(client):
    """The phase of the build, and its progress in percent."""
    match = {"command.createIndexes": "c", "progress": {"$exists": True}}
    for op in client.admin.aggregate([{"$currentOp": {}}, {"$match": match}]):
        return op["msg"], 100 * op["progress"]["done"] // max(op["progress"]["total"], 1)
    return "", 0


def reached(client, phase, percent):
    msg, done = progress(client)
    return phase in msg and done >= percent


def rewrite(client, words, ended):
    """Changes every key of every document repeatedly: the build must catch up with these changes."""
    try:
        for turn in range(1000):
            if ended.is_set():
                return
            client.killed.c.update_many({}, {"$set": {"t": words + " again" * (turn % 7)}})
    except PyMongoError:
        pass  # the server is killed


def build(client):
    try:
        client.killed.command("createIndexes", "c", indexes=SPECS)
    except PyMongoError:
        pass  # the server is killed


def die(server):
    server.send_signal(signal.SIGKILL)
    server.wait()


def whole(client, when):
    c = client.killed.c
    names = sorted(c.index_information())
    equal(when + ": documents", c.count_documents({}), COUNT)
    valid = client.killed.command("validate", "c", full=True)
    check(when + ": valid", valid["valid"], valid)
    for name in names:
        if name == "text":
            equal(when + ": the text index is whole", c.count_documents({"$text": {"$search": "word0"}}), COUNT)
        if name == "u":
            equal(when + ": the other is whole", len(list(c.find({}, {"u": 1, "_id": 0}).hint("u"))), COUNT)
    return names


def main():
    os.makedirs(folder + "/data", exist_ok=True)
    server, client = start()
    words = " ".join("word%d" % i for i in range(25))
    for at in range(0, COUNT, 2000):
        client.killed.c.insert_many([{"_id": i, "u": -i, "t": words + " w%d" % i} for i in range(at, at + 2000)])
    client.admin.command("fsync")  # what was not acknowledged as durable may go with the machine, not with the server
    points = [("scanning", 0), ("scanning", 40), ("scanning", 80), ("inserting keys", 0), ("inserting keys", 50), ("draining", 0)]
    for phase, percent in points:
        when = "killed while %s, at %d %%" % (phase, percent)
        ended = threading.Event()
        threads = [threading.Thread(target=build, args=(client,), daemon=True)]
        if phase == "draining":
            threads.append(threading.Thread(target=rewrite, args=(client, words, ended), daemon=True))
        for thread in threads:
            thread.start()
        check(when + ": it is there", wait_until(lambda: reached(client, phase, percent), 60))
        die(server)
        ended.set()
        for thread in threads:
            thread.join()
        server, client = start()
        equal(when + ": no half index", whole(client, when), ["_id_"])
    build(client)
    equal("built again", whole(client, "built again"), ["_id_", "text", "u"])
    die(server)
    server, client = start()
    equal("and kept", whole(client, "and kept"), ["_id_", "text", "u"])
    server.terminate()
    equal("ends", server.wait(60), 0)
    finish("killed builds")


main()

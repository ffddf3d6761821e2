"""Exhausts file descriptors by silent clients: descriptors.py NAGI FOLDER [--seconds N] [--seed S].

A server with a low limit of open files gets more connections than that from clients that never send a byte,
with and without --auth, while another client writes with {j: true}. These must hold:

  - the server stays alive, continues to write (the journal needs new files), and reads
  - the number of open connections is at most that given by its log and `serverStatus`, and the others are closed
  - once the silent clients have left, a new client can connect, and a kill loses no acknowledged write
"""

import argparse
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time

import pymongo
from pymongo.errors import PyMongoError


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Server:
    def __init__(self, nagi, folder, engine, files, auth):
        self.folder, self.engine = folder, engine
        self.port = free_port()
        os.makedirs(folder)
        self.command = ["bash", "-c", f'ulimit -n {files}; exec "$0" "$@"', nagi, "serve", "--dbpath", folder, "--port",
                        str(self.port), "--bind_ip", "127.0.0.1", "--nounixsocket", "--cacheSizeGB", "0.25",
                        "--storageEngine", engine] + (["--auth"] if auth else [])
        if engine == "lmdb":
            self.command += ["--smallfiles", "--noprealloc"]
        self.auth = auth

    def start(self):
        self.log = open(self.folder + ".log", "ab")
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        until = time.time() + 60
        while time.time() < until and self.process.poll() is None:
            try:
                return socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.05)
        sys.exit(f"the server does not start: exit {self.process.poll()}")

    def client(self, login=True):
        user = {"username": "root", "password": "p"} if self.auth and login else {}
        return pymongo.MongoClient("127.0.0.1", self.port, directConnection=True, serverSelectionTimeoutMS=10000,
                                   socketTimeoutMS=600_000, maxPoolSize=2, **user)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def case(nagi, folder, engine, files, auth, seconds):
    server = Server(nagi, folder, engine, files, auth)
    server.start()
    if auth:
        first = server.client(login=False)
        first.admin.command("createUser", "root", pwd="p", roles=["root"])
        first.close()
    client = server.client()
    db, acked = client.t, set()
    durable = db.big.with_options(write_concern=pymongo.WriteConcern(1, j=True))

    def write(count):
        ids = range(len(acked), len(acked) + count)
        durable.insert_many([{"_id": n, "s": os.urandom(3000)} for n in ids])
        acked.update(ids)

    write(200)
    status = client.admin.command("serverStatus")["connections"]
    limit = status["current"] + status["available"]
    assert limit <= files * 4 // 5, f"{limit} connections with {files} files"
    silent = []
    for _ in range(files + 50):
        try:
            silent.append(socket.create_connection(("127.0.0.1", server.port), 2))
        except OSError:
            break
    until, writes, highest = time.time() + seconds, 0, 0
    while time.time() < until or writes < 40:
        write(100)
        writes += 1
        highest = max(highest, server.descriptors())
    assert server.process.poll() is None, f"the server ended with {server.process.poll()}"
    assert db.big.find_one({"_id": 1}, {"s": 0}) == {"_id": 1}
    status = client.admin.command("serverStatus")["connections"]
    assert status["current"] <= limit and status["current"] + status["available"] == limit, status
    assert status["rejected"] > 0 and highest < files, (status, highest)
    for one in silent:
        one.close()
    until = time.time() + 20
    while True:
        try:
            late = server.client()
            late.t.late.insert_one({})
            late.close()
            break
        except PyMongoError:
            if time.time() > until:
                raise
    client.close()
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    server.start()
    client = server.client()
    found = {one["_id"] for one in client.t.big.find({}, {"_id": 1})}
    assert acked <= found, f"{len(acked - found)} acknowledged documents are lost"
    assert client.t.command("validate", "big", full=True)["valid"]
    client.close()
    server.process.terminate()
    assert server.process.wait(60) == 0
    print(f"{engine}, {files} files{', auth' if auth else ''}: {limit} connections of {files + 50}, "
          f"{highest} descriptors at most, {writes} writes, nothing lost", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("nagi")
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, default=0, help="of all cases together; each runs once at least")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    rng = random.Random(options.seed)
    begin, number = time.time(), 0
    cases = [("rocks", 1024, True), ("rocks", 256, False), ("lmdb", 256, True)]
    while number < len(cases) or time.time() - begin < options.seconds:
        engine, files, auth = cases[number] if number < len(cases) else (
            rng.choice(["rocks", "lmdb"]), rng.randrange(128, 2048), rng.random() < 0.5)
        case(options.nagi, f"{options.folder}/{number}", engine, files, auth, options.seconds / 20)
        number += 1
    print(f"descriptors: {number} full tables survived; seed {options.seed}")

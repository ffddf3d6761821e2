"""Tests the package nagi_server as a project does that has installed it: python_checks.py FOLDER."""
import asyncio
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import nagi_server
import pymongo
from pymongo.errors import OperationFailure

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, finish, require, section, wait_until  # noqa: E402

FOLDER = sys.argv[1]
STARTS = 20
MEDIAN_MS_MAX = 300
ROUNDS = 3

# The server is started by a thread that ends before the program does.
PARENT = """
import threading, time, nagi_server
servers = []
thread = threading.Thread(target=lambda: servers.append(nagi_server.start()))
thread.start()
thread.join()
print(servers[0].pid, servers[0].uri, flush=True)
time.sleep(600)
"""
PLUGIN = """
import os
import pytest
NAMES = []

@pytest.mark.parametrize("number", range(6))
def test_its_own_database(nagi_database, nagi_client, nagi, number):
    assert not set(NAMES) & set(nagi_client.list_database_names())
    assert nagi_database.list_collection_names() == []
    nagi_database.c.insert_one({"_id": number})
    NAMES.append(nagi_database.name)
    with open(os.path.join(os.environ["SEEN"], str(nagi.pid)), "a") as f:
        f.write(nagi.uri)
"""


def alive(pid):
    """True for a process that runs. A zombie, whose parent has not waited for it, does not."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def replica_set():
    with nagi_server.run(cache_mb=32) as uri, pymongo.MongoClient(uri) as client:
        orders = client.shop.orders
        with orders.watch() as changes, client.start_session() as session:
            session.with_transaction(lambda s: orders.insert_one({"_id": 1}, session=s))
            equal("a change", next(changes)["fullDocument"], {"_id": 1})
        options = client.admin.command("getCmdLineOpts")["parsed"]
        equal("engine", options["storage"]["engine"], "inMemory")
        try:
            for _ in range(64):
                client.shop.big.insert_one({"x": os.urandom(1 << 20)})
            check("cache_mb", False)
        except OperationFailure:
            check("cache_mb", True)
    with nagi_server.run(replset="other", args=["--oplogSize=8"]) as uri:
        check("the set's name", uri.endswith("?replicaSet=other"), uri)
        check("a client of it", pymongo.MongoClient(uri).admin.command("hello")["setName"] == "other")


def standalone():
    async def body():
        async with nagi_server.run(replset=False) as uri:
            return pymongo.MongoClient(uri).admin.command("hello").get("setName")
    equal("no set", asyncio.run(body()), None)
    with nagi_server.start(replset=False, args=["--storageEngine", "wiredTiger", "--dbpath", FOLDER]) as server:
        engine = pymongo.MongoClient(server.uri).admin.command("serverStatus")["storageEngine"]["name"]
        equal("an option replaces the package's", engine, "wiredTiger")


def times_of_starts(replset):
    times = []
    for _ in range(STARTS):
        begin = time.perf_counter()
        with nagi_server.run(replset=replset) as uri, pymongo.MongoClient(uri) as client:
            client.shop.orders.find_one({})
            times.append(1000 * (time.perf_counter() - begin))
    print("Python, replset=%s: start to first reply in ms: median %.0f, most %.0f of %d" % (
        replset, statistics.median(times), max(times), STARTS))
    return times


def starts():
    for replset in (True, False):
        # A machine that is busy with other work has a quiet moment in one of the rounds.
        quick = any(statistics.median(times_of_starts(replset)) < MEDIAN_MS_MAX for _ in range(ROUNDS))
        check("start to first reply", quick)


def several_at_once():
    with ThreadPoolExecutor(8) as pool:
        servers = list(pool.map(lambda _: nagi_server.start(), range(8)))
    equal("ports", len({server.port for server in servers}), 8)
    names = [pymongo.MongoClient(s.uri).admin.command("hello")["me"] for s in servers]
    equal("each answers for itself", names, ["127.0.0.1:%d" % s.port for s in servers])
    for server in servers:
        server.stop()
        server.stop()
        check("stopped", not alive(server.pid) and "Now exiting" in server.log(3), server.log())


def refused():
    # A program that is never ready; the real one can be ready at the first look.
    idle = os.path.join(tempfile.mkdtemp(dir=FOLDER), "idle")
    with open(idle, "w") as file:
        file.write("#!/bin/sh\nexec cat >/dev/null\n")
    os.chmod(idle, 0o700)
    with nagi_server.start() as server:
        for options, says in [
            ({"port": server.port}, "Address already in use"),
            ({"args": ["--nonsense"]}, "unrecognised option '--nonsense'"),
            ({"binary": "/no/such/program"}, "No such file"),
            ({"binary": idle, "timeout": 0.5}, "did not start in 0.5 seconds"),
        ]:
            begin = time.perf_counter()
            try:
                nagi_server.start(**options)
                check("refused: %s" % options, False)
            except nagi_server.StartError as error:
                check("refused: %s" % options, says in str(error), error)
            check("refused at once: %s" % options, time.perf_counter() - begin < 5)
        for refused in ("--logpath=/dev/null", "--replSet=other", "--bind_ip=127.0.0.2", "--config=nagi.conf", "-f"):
            try:
                nagi_server.start(args=[refused])
                check(refused, False)
            except ValueError:
                check(refused, True)


def killed_parent():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    pid, uri = parent.stdout.readline().split()
    require(alive(int(pid)), "the server lives on after the thread that started it")
    client = pymongo.MongoClient(uri)
    client.shop.orders.insert_one({})
    begin = time.perf_counter()
    parent.kill()
    parent.wait()
    check("the server ends with its parent", wait_until(lambda: not alive(int(pid)), 20))
    print("the server ended %.0f ms after kill -9 of its parent" % (1000 * (time.perf_counter() - begin)))
    parent.stdout.close()


def forked():
    """A fork of the program does not stop its server; `stop` also works while a fork still has the pipe."""
    server = nagi_server.start()
    child = os.fork()
    if child == 0:
        server.stop()
        os._exit(0)
    os.waitpid(child, 0)
    pymongo.MongoClient(server.uri).admin.command("ping")
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    begin = time.perf_counter()
    server.stop()
    check("stopped despite a fork", not alive(server.pid) and time.perf_counter() - begin < 5)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def no_place_for_the_log():
    """A folder for temporary files that is missing, or has no free space, as far as this process may write."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    tempfile.tempdir = "/no/such/folder"
    for name, most in (("a missing folder", hard), ("no space", 100_000)):
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
        try:
            with nagi_server.start() as server:
                check("starts with %s" % name, pymongo.MongoClient(server.uri).admin.command("ping")["ok"] == 1)
                equal("no lines", server.log(0), "")
                equal("one line", server.log(1).count("\n"), 1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            tempfile.tempdir = None


def plugin():
    folder = os.path.join(FOLDER, "plugin")
    for workers, servers in ((), 1), (("-n", "2"), 2):
        seen = os.path.join(folder, "seen%d" % servers)
        os.makedirs(seen)
        with open(os.path.join(folder, "test_plugin.py"), "w") as f:
            f.write(PLUGIN)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", *workers, folder]
        ended = subprocess.run(command, env=dict(os.environ, SEEN=seen), stdout=subprocess.PIPE, text=True)
        check("pytest %s" % (workers,), "6 passed" in ended.stdout, ended.stdout)
        equal("one server a worker", len(os.listdir(seen)), servers)
        check("stopped with the session", not any(alive(int(pid)) for pid in os.listdir(seen)))


for part in (replica_set, standalone, starts, several_at_once, refused, killed_parent, forked, no_place_for_the_log, plugin):
    section(part)
finish("Python")

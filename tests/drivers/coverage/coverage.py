"""Tests every supported row of the inventory over the wire: coverage.py NAGI WORK [PROBE...]

Runs the probes of this folder and the golden cases of tests/golden, and writes the ids of the rows that they
prove to the file that NAGI_COVERS names. Prints each failure and a count.
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

from pymongo import MongoClient

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from checks import check, finish, wait_until  # noqa: E402
import golden  # noqa: E402
import inventory  # noqa: E402
import probes  # noqa: E402
import access, administration, change_streams, durable, indexes, reads_and_writes, replica, starts, statistics, time_series, wire  # noqa: E402,F401,E401

NAGI, WORK = sys.argv[1:3]
ONLY = sys.argv[3:]
FLAGS = {
    "standalone": ["--wiredTigerCacheSizeGB", "0.25", "--setParameter", "enableTestCommands=1"],
    "replica": ["--wiredTigerCacheSizeGB", "0.25", "--replSet", "rs0", "--setParameter", "enableTestCommands=1"],
    "auth": ["--auth", "--wiredTigerCacheSizeGB", "0.25"],
    "golden": ["--wiredTigerCacheSizeGB", "0.25", "--setParameter", "enableTestCommands=1"],
}


class Server:
    """A server with these flags; `client` is None until it is first used."""

    def __init__(self, name, *flags, keep=False, wait=True):
        self.folder = os.path.join(WORK, name)
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.makedirs(os.path.join(self.folder, "data"))
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        usual = ["--dbpath", os.path.join(self.folder, "data"), "--port", str(self.port), "--logpath", os.path.join(self.folder, "log"),
                 "--unixSocketPrefix", self.folder]
        if "--bind_ip_all" not in flags:
            usual += ["--bind_ip", "127.0.0.1"]
        self.process = subprocess.Popen([NAGI, "serve", *usual, *flags], stdout=open(os.path.join(self.folder, "stdout"), "w"), stderr=subprocess.STDOUT)
        if wait:
            self.ready()

    def ready(self):
        def listens():
            with socket.socket() as s:
                return self.process.poll() is not None or s.connect_ex(("127.0.0.1", self.port)) == 0
        wait_until(listens, 60)
        with open(os.path.join(self.folder, "stdout")) as f:
            probes.need(self.process.poll() is None, f.read()[-2000:])
        self.client = MongoClient("127.0.0.1", self.port, directConnection=True, serverSelectionTimeoutMS=20000, heartbeatFrequencyMS=500, socketTimeoutMS=60000)
        return self

    def log(self):
        with open(os.path.join(self.folder, "log")) as f:
            return f.read()

    def stop(self, kind=signal.SIGTERM):
        if hasattr(self, "client"):
            self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(kind)
        return self.process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Starter:
    """The context of probes that start servers of their own."""
    server, nagi, work = Server, NAGI, WORK


def main():
    chosen = [(s, rows, f) for s, rows, f in probes.PROBES if not ONLY or f.__name__ in ONLY]
    names = [n for n in FLAGS if (n == "golden" and not ONLY) or any(s == n for s, _, _ in chosen)]
    servers = {name: Server(name, *FLAGS[name], wait=False) for name in names}
    proven, times = set(), []
    try:
        for server in servers.values():
            server.ready()
        if "replica" in servers:
            servers["replica"].client = replica.initiate(servers["replica"].client)
        if "auth" in servers:
            servers["auth"].client = access.first_user(servers["auth"].client)
        for name, rows, f in chosen:
            began = time.monotonic()
            try:
                f(Starter if name == "start" else servers[name].client)
                proven.update(rows)
                check(f.__name__, True)
            except Exception as error:  # the other probes still run
                check("%s (%s)" % (f.__name__, " ".join(rows)), False, "%s: %s" % (type(error).__name__, str(error)[:600]))
            times.append((time.monotonic() - began, f.__name__))
        if "golden" in servers:
            found, asked = golden.replay(servers["golden"].client, inventory.by_name())
            proven |= found
            print("%d golden cases over the wire" % asked)
    finally:
        for server in servers.values():
            server.stop()
    print("slowest: " + ", ".join("%s %.1f s" % (name, t) for t, name in sorted(times, reverse=True)[:5]))
    if os.environ.get("NAGI_COVERS"):
        with open(os.environ["NAGI_COVERS"], "a") as f:
            f.write("".join(row + "\n" for row in sorted(proven)))
    finish("coverage: %d rows of the inventory" % len(proven))


main()

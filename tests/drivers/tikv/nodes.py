"""Servers over a prefix of the cluster, for tikv.py NAGI FOLDER and what it imports."""
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time

import pymongo

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
from checks import check  # noqa: E402


def quiet_ports(count):
    """The first of so many free ports, and of those of their consoles. Servers are started on them again and again, so
    they are not of the range that the system takes for connections. NAGI_TIKV_PORTS in the environment is the first."""
    def is_free(port):
        with socket.socket() as free:
            return free.connect_ex(("127.0.0.1", port)) != 0
    while True:
        first = int(os.environ.get("NAGI_TIKV_PORTS") or random.randrange(20_000, 31_000))
        if all(is_free(port + more) for port in range(first, first + count) for more in (0, 1000)):
            return first


NAGI, FOLDER, PORT = sys.argv[1], sys.argv[2], quiet_ports(10)
CLUSTER = 5  # the exit status for a cluster that does not answer, or of a node that the others have given up


class Node:
    """A server over a prefix of the cluster, and a client of it."""

    started = []

    def __init__(self, name, address, number=0, *flags, environment=None):
        self.folder = os.path.join(FOLDER, name)
        self.log_path = self.folder + ".log"
        os.makedirs(self.folder, exist_ok=True)
        self.port = PORT + number
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            [NAGI, "serve", "--dbpath", self.folder, "--port", str(self.port), "--bind_ip", "127.0.0.1", "--logpath",
             self.log_path, "--logappend", "--noconsole", "--storageEngine", "tikv", "--storageUri", address,
             *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **(environment or {})})
        self.client = None
        Node.started.append(self)

    def ready(self):
        """Waits until it answers; the seconds since its start."""
        self.client = pymongo.MongoClient("127.0.0.1", self.port, serverSelectionTimeoutMS=40000)
        self.client.admin.command("ping")
        return time.monotonic() - self.begun

    def answers(self):
        """Returns True if it accepts connections."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self, how=signal.SIGTERM, seconds=60):
        """Its exit status."""
        if self.client:
            self.client.close()
        self.process.send_signal(how)
        return self.ended(seconds)

    def ended(self, seconds=60):
        return self.process.wait(seconds)

    def log(self, number):
        """The attributes of the lines of the log with an id."""
        with open(self.log_path, encoding="utf-8") as log:
            lines = (json.loads(line) for line in log if '"id":%d,' % number in line)
            return [line.get("attr", {}) for line in lines]

    def refusal(self):
        """The exit status of a start that is refused, and the error of its log."""
        status = self.ended()
        errors = self.log(28595) + self.log(20557)
        return status, errors[-1]["error"] if errors else ""


def valid(database, name="c"):
    report = database.command("validate", name, full=True)
    check("valid", report["valid"], report)

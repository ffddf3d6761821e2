"""What the parts of the suite `service` share: servers, figures, and raw connections.

The command line of the suite is NAGI BENCH FOLDER PORT, and the environment variable FULL.
"""
import os
import shutil
import socket
import struct
import subprocess
import sys
import time

import bson
import pymongo

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, require, wait_until  # noqa: E402

NAGI, BENCH, WORK, PORT = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
FULL = os.environ.get("FULL") == "1"
URI = "mongodb://127.0.0.1:%d/?directConnection=true&serverSelectionTimeoutMS=2000"
PAGE = os.sysconf("SC_PAGE_SIZE")


def figure(text, *values):
    """Prints a measured figure, which the log of the suite keeps."""
    print("  " + text % values, flush=True)


def frame(command, request=1):
    body = bson.encode(command)
    return struct.pack("<iiiiIB", 21 + len(body), request, 0, 2013, 0, 0) + body


HELLO = frame({"hello": 1, "$db": "admin"})
PING = frame({"ping": 1, "$db": "admin"})


class Server:
    """A server on a data directory, which it keeps when it ends."""

    def __init__(self, name, *args, port=PORT, keep=False):
        self.folder, self.port, self.args = os.path.join(WORK, name), port, list(args)
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder + "/data", exist_ok=True)
        self.start()

    def start(self):
        """Starts it; `start_seconds` is the time until it has answered a ping."""
        command = [NAGI, "serve", "--dbpath", self.folder + "/data", "--port", str(self.port), "--bind_ip", "127.0.0.1",
                   "--nounixsocket", "--logpath", self.folder + "/nagi.log", "--logappend", *self.args]
        with open(self.folder + "/stdout", "ab") as out:
            began = time.monotonic()
            self.process = subprocess.Popen(command, stdout=out, stderr=out)
        require(wait_until(self.answers, 120), "%s answers" % self.folder)
        self.start_seconds = time.monotonic() - began
        self.client = pymongo.MongoClient(URI % self.port, retryWrites=False)
        self.admin = self.client.admin

    def answers(self):
        require(self.process.poll() is None, "%s runs: status %s" % (self.folder, self.process.returncode))
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as peer:
                peer.sendall(PING)
                return len(peer.recv(4096)) > 16
        except OSError:
            return False

    def wait(self, seconds=60):
        """Waits for its end; returns its exit status, or None if it does not end in time."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        if self.wait() is None:
            self.process.kill()
            check("%s ends" % self.folder, False)
        self.client.close()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.client.close()

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def resident(self):
        """Resident bytes."""
        with open("/proc/%d/statm" % self.process.pid) as f:
            return int(f.read().split()[1]) * PAGE

    def threads(self):
        return len(os.listdir("/proc/%d/task" % self.process.pid))

"""A server of the suites of the log, and the tools that they run."""
import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys

import pymongo

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import require  # noqa: E402


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server on `folder`; with `member` the only member of a replica set."""

    def __init__(self, nagi, folder, port, member=True, more=()):
        self.nagi, self.folder, self.port, self.member, self.more = nagi, folder, port, member, more
        self.uri = "mongodb://127.0.0.1:%d/?directConnection=true" % port
        self.start()

    def start(self):
        os.makedirs(self.folder, exist_ok=True)
        options = ["--replSet", "rs0", "--initiate"] if self.member else []
        self.process = subprocess.Popen(
            [self.nagi, "serve", "--dbpath", self.folder, "--port", str(self.port), "--bind_ip", "127.0.0.1", "--logappend",
             "--logpath", self.folder + ".log", *options, *self.more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        atexit.register(self.process.kill)  # without an effect on a process that has ended
        self.client = pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=30000, retryWrites=False)
        self.client.admin.command("ping")

    def stop(self, how=signal.SIGTERM):
        self.client.close()
        self.process.send_signal(how)
        self.process.wait(60)

    def kill(self):
        self.stop(signal.SIGKILL)

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder)


def run(*command, expect=0):
    """Runs a program, and requires its exit code. Returns what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    text = done.stdout + done.stderr
    require(done.returncode == expect, "%s: exit code %d, %s" % (" ".join(command[:3]), done.returncode, text[-2000:]))
    return text

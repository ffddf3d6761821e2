"""What the parts of the suite `diagnostic` share: servers, and their files of diagnostic data.

The command line of the suite is NAGI FOLDER PORT.
"""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys

from pymongo import MongoClient

import decode

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import equal, wait_until  # noqa: E402

NAGI, WORK, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
URI = "mongodb://127.0.0.1:%d/?directConnection=true&serverSelectionTimeoutMS=30000" % PORT
FAST = ["--setParameter", "diagnosticDataCollectionPeriodMillis=100"]
FOLDER = "diagnosticDataCollectionDirectoryPath"


class Server:
    """A server on a data directory, which it keeps when it ends."""

    def __init__(self, name, *args, keep=False, diagnostic=None):
        self.folder = os.path.join(WORK, name)
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.data, self.log = self.folder + "/data", self.folder + "/nagi.log"
        os.makedirs(self.data, exist_ok=True)
        self.diagnostic = diagnostic or self.data + "/diagnostic.data"
        self.args = list(args) + (["--setParameter", "%s=%s" % (FOLDER, diagnostic)] if diagnostic else [])

    def __enter__(self):
        self.out = open(self.folder + "/stdout", "wb")
        usual = ["--dbpath", self.data, "--port", str(PORT), "--bind_ip", "127.0.0.1", "--nounixsocket", "--logpath", self.log,
                 "--logappend"]
        self.process = subprocess.Popen([NAGI, "serve", *usual, *self.args], stdout=self.out, stderr=self.out)
        self.client = MongoClient(URI)
        self.admin = self.client.admin
        self.admin.command("hello")
        return self

    def __exit__(self, *_):
        self.client.close()
        if self.process.poll() is None:
            self.process.terminate()
            equal(self.folder + " ends", self.process.wait(60), 0)
        self.out.close()

    def kill(self):
        self.client.close()  # before: without a server it waits for one
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def sample(self):
        """The newest sample; waits for the first one."""
        wait_until(lambda: self.admin.command("getDiagnosticData")["data"], 10)
        return self.admin.command("getDiagnosticData")["data"]

    def set(self, **parameters):
        return self.admin.command("setParameter", 1, **{"diagnosticDataCollection" + n: v for n, v in parameters.items()})

    def files(self, interim=False):
        paths = sorted(glob.glob(self.diagnostic + "/metrics.*"))
        return [path for path in paths if interim or "interim" not in path]

    def samples(self):
        return [sample for file in self.files() for sample in decode.read(file)[1]]

    def size(self):
        """Bytes of the folder, or 0 if files disappear meanwhile."""
        try:
            return sum(os.path.getsize(path) for path in self.files(interim=True))
        except FileNotFoundError:
            return 0

    def lines(self, log_id):
        with open(self.log, errors="replace") as f:
            complete = f.read().rpartition("\n")[0]  # the last line may be in the middle of its write
        return [line for line in map(json.loads, complete.splitlines()) if line["id"] == log_id]


def nagi(*args, env=None):
    """Status and output of a command."""
    done = subprocess.run([NAGI, *args], capture_output=True, text=True, timeout=120, env=env)
    return done.returncode, (done.stdout + done.stderr).strip()

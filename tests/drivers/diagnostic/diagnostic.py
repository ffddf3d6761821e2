"""Tests the diagnostic data: diagnostic.py NAGI WORK PORT.

The files are read by decode.py; their figures are compared with what clients did and with serverStatus.
"""
import glob
import os
import shutil
import subprocess
import sys
import time

from pymongo import MongoClient

import decode

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, fails, finish, section, wait_until  # noqa: E402

NAGI, WORK, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
URI = "mongodb://127.0.0.1:%d/?directConnection=true&serverSelectionTimeoutMS=30000" % PORT
INSERTS = ("serverStatus", "opcounters", "insert")


class Server:
    def __init__(self, name, *args, keep=False):
        self.folder = os.path.join(WORK, name)
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(os.path.join(self.folder, "data"), exist_ok=True)
        self.args = list(args)

    def __enter__(self):
        self.out = open(self.folder + "/stdout", "wb")
        usual = ["--dbpath", self.folder + "/data", "--port", str(PORT), "--bind_ip", "127.0.0.1", "--nounixsocket", "--logpath", self.folder + "/nagi.log"]
        self.process = subprocess.Popen([NAGI, "serve", *usual, *self.args], stdout=self.out, stderr=self.out)
        self.client = MongoClient(URI)
        self.client.admin.command("hello")
        return self

    def __exit__(self, *_):
        self.client.close()
        self.process.terminate()
        equal(self.folder + " ends", self.process.wait(60), 0)
        self.out.close()

    def kill(self):
        self.client.close()
        self.process.kill()
        self.process.wait()
        self.out.close()

    def files(self):
        return sorted(f for f in glob.glob(self.folder + "/data/diagnostic.data/metrics.*") if "interim" not in f)


FAST = ["--setParameter", "diagnosticDataCollectionPeriodMillis=100"]


def counts_what_clients_do():
    with Server("counts", *FAST, "--replSet", "rs0", "--initiate") as server:
        check("a first sample", wait_until(lambda: server.client.admin.command("getDiagnosticData")["data"]))
        for i in range(400):
            server.client.test.c.insert_one({"_id": i})
            time.sleep(0.005)
        data = server.client.admin.command("getDiagnosticData")["data"]
        check("sections", {"start", "serverStatus", "replSetGetStatus", "systemMetrics", "end"} <= set(data), list(data))
        check("the machine", {"cpu", "memory", "disks", "vmstat", "netstat"} <= set(data["systemMetrics"]), list(data["systemMetrics"]))
        time.sleep(0.3)
        last = server.client.admin.command("serverStatus")["opcounters"]["insert"]
        time.sleep(0.3)
        fails("another database", 13, lambda: server.client.test.command("getDiagnosticData"))
        fails("an unknown field", 40415, lambda: server.client.admin.command("getDiagnosticData", x=1))
    (file,) = server.files()
    facts, samples = decode.read(file)
    equal("one record of facts", len(facts), 1)
    check("facts", {"buildInfo", "getCmdLineOpts", "hostInfo"} <= set(facts[0]), list(facts[0]))
    check("samples each 100 ms", len(samples) > 20, len(samples))
    series = [s[INSERTS] for s in samples]
    check("a counter that only grows", series == sorted(series) and series[-1] - series[0] > 100, series)
    equal("the last sample", series[-1], last)
    times = [s[("start",)] for s in samples]
    check("times in order", times == sorted(times) and times[-1] - times[0] < 120_000, (times[0], times[-1]))
    check("no interim file after a clean end", not glob.glob(server.folder + "/data/diagnostic.data/*interim*"))
    modes = {oct(os.stat(f).st_mode & 0o777) for f in server.files()}
    equal("modes", modes, {"0o600"})


def survives_a_kill():
    server = Server("killed", *FAST)
    server.__enter__()
    server.client.test.c.insert_many([{} for _ in range(77)])
    check("an interim file", wait_until(lambda: os.path.exists(server.folder + "/data/diagnostic.data/metrics.interim")))
    time.sleep(1.5)
    server.kill()
    with Server("killed", *FAST, keep=True) as again:
        check("a second file", wait_until(lambda: len(again.files()) == 2))
        time.sleep(0.5)
    samples = [s for f in again.files() for s in decode.read(f)[1]]
    check("samples of the killed process", any(s[INSERTS] == 77 for s in samples), [s[INSERTS] for s in samples])
    check("samples of the next one", any(s[INSERTS] == 0 for s in samples))


def is_switched_off_and_bounded():
    with Server("off", *FAST, "--setParameter", "diagnosticDataCollectionEnabled=false") as server:
        time.sleep(1)
        equal("no sample", server.client.admin.command("getDiagnosticData")["data"], {})
        equal("no file", server.files(), [])
        folder = server.folder + "/data/diagnostic.data"
        os.mkdir(folder)
        for i in range(6):
            with open("%s/metrics.2020-01-0%dT00-00-00Z-00000" % (folder, i + 1), "wb") as f:
                f.write(b"\0" * (3 << 20))
        server.client.admin.command("setParameter", 1, diagnosticDataCollectionDirectorySizeMB=10, diagnosticDataCollectionEnabled=True)
        check("old files are removed", wait_until(lambda: len(server.files()) == 4))
        fails("a folder that is too small", 2, lambda: server.client.admin.command("setParameter", 1, diagnosticDataCollectionDirectorySizeMB=9))
        server.client.admin.command("setParameter", 1, diagnosticDataCollectionEnabled=False)
        check("the file ends", wait_until(lambda: decode.read(server.files()[-1])[1]))


def needs_no_disk():
    with Server("memory", *FAST, "--storageEngine", "inMemory") as server:
        check("samples in memory", wait_until(lambda: server.client.admin.command("getDiagnosticData")["data"]))
    equal("no folder", os.listdir(server.folder + "/data"), [])


for part in (counts_what_clients_do, survives_a_kill, is_switched_off_and_bounded, needs_no_disk):
    section(part)
finish("diagnostic")

"""Servers over a cluster with three placement drivers and three stores: main.py NAGI FOLDER PART...

    golden    the golden set, with cases set up at one server, asked at another and read at a third; GOLDEN_SAMPLE=n: each n-th
    pymongo   the programs of tests/drivers/pymongo that need no restart, with a list of the servers
    plans     every plan of a query has the documents of a collection scan, whichever server made the index and answers
    faults    workloads whose history is checked, under faults (faults.py); FAULTS has names of some, with
              commas, FAULT_ROUNDS how often each is made
    idle      only starts it, and prints the addresses until it is interrupted

Differences to one server with data of its own are listed, with their reasons, in ../../golden-set/cluster.txt and in
differences.txt here; any other fails the run.
"""
import os
import signal
import subprocess
import sys
import time

from faults import faults
from plans import plans
from suites import pymongo
from rig import HERE, NODES, Rig

from checks import check, finish, section  # noqa: E402, rig.py has set the path


def golden(rig):
    sample = os.environ.get("GOLDEN_SAMPLE", "1" if os.environ.get("FULL") == "1" else "20")
    done = subprocess.run(
        [sys.executable, os.path.join(HERE, "..", "..", "golden-set", "run.py"), "--uri", "mongodb://" + rig.seeds(), "--jobs",
         str(NODES), "--timeout", "60", "--sample", sample, "--listed", "cluster.txt", *os.environ.get("GOLDEN_ARGS", "").split()])
    check("golden", done.returncode == 0, done.returncode)


def idle(rig):
    print(rig.address, rig.seeds(), rig.cluster.folder, rig.cluster.admins, flush=True)
    sys.stdin.read()


PARTS = {"golden": golden, "pymongo": pymongo, "plans": plans, "faults": faults, "idle": idle}
TTL = ("--setParameter", "ttlMonitorSleepSecs=1")  # as the suite of one server has it


def ended(*_):
    sys.exit(1)


def main():
    signal.signal(signal.SIGTERM, ended)
    names = sys.argv[3:] or [name for name in PARTS if name != "idle"]
    for name in names:
        rig = Rig(*(TTL if name == "pymongo" else ()), proxied=name == "faults")
        begun = time.monotonic()
        try:
            rig.start()
            section(PARTS[name], rig)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is about to end
            rig.stop()
            signal.signal(signal.SIGTERM, ended)
        print("%s: %.1f s" % (name, time.monotonic() - begun), flush=True)
    finish("over a cluster")


main()

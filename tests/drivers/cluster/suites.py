"""Programs of tests/drivers/pymongo with a list of servers: part `pymongo` of main.py.

differences.txt lists the assertions that fail here and not over data of a server's own, each with its reason; any other that
fails, and a listed one that does not, fails the run.
"""
import os
import re
import subprocess
import sys
import time

from rig import HERE  # first: it sets the path
from checks import check, equal  # noqa: E402
from nodes import FOLDER  # noqa: E402

PROGRAM_SECONDS_MAX = 900
# What programs are run with. Of crud.py without 5,000 updates by _id in one message, which are 20,000 round trips, more than
# its time-out allows.
CRUD = "handshake insert_find updates errors cursors types indexes texts collations geometry windows aggregation admin concurrency " \
    "compression files"
PROGRAMS = (("crud",), ("answers",), ("tail",), ("compression",), ("limits",), ("options",), ("kinds",), ("stops",), ("encrypted",),
            ("soak", "20"), ("hostile", "20"))
# Programs whose requests have to reach one server: they look at operations and memory of it, kill, and set its parameters.
OF_ONE = {"tail", "stops", "hostile", "options", "limits"}


def listed():
    """The lines of differences.txt: program, text, and whether it always fails."""
    with open(os.path.join(HERE, "differences.txt"), encoding="utf-8") as lines:
        for line in lines:
            found = re.fullmatch(r"(\w+)([:?]) (.*)", line.rstrip("\n"))
            if found:
                yield found[1], found[3], found[2] == ":"


def pymongo(rig):
    wanted = os.environ.get("PROGRAMS")
    for name, *arguments in PROGRAMS:
        if wanted and name not in wanted.split(","):
            continue
        uri = "mongodb://" + (rig.seeds() if name not in OF_ONE else "127.0.0.1:%d" % rig.nodes[1].port)
        begun = time.monotonic()
        try:
            done = subprocess.run([sys.executable, os.path.join(HERE, "..", "pymongo", name + ".py"), uri, *arguments],
                                  capture_output=True, text=True, timeout=PROGRAM_SECONDS_MAX, env={**os.environ, "ONLY": CRUD})
            said, status = done.stdout + done.stderr, done.returncode
        except subprocess.TimeoutExpired as error:
            said, status = "%s" % error, -1
        with open(os.path.join(FOLDER, name + ".out"), "w", encoding="utf-8") as out:
            out.write(said)
        lines = said.strip().splitlines() or [""]
        names = {line[len("FAILED "):].strip() for line in lines if line.startswith("FAILED ")}
        if status and not names:  # it has ended at an error
            names = {lines[-1]}
        mine = [(text, always) for program, text, always in listed() if program == name]
        unexplained = [one for one in sorted(names) if not any(one.startswith(text) for text, _ in mine)]
        stale = [text for text, always in mine if always and not any(one.startswith(text) for one in names)]
        check(name, not unexplained, ([one[:300] for one in unexplained], said[-2000:]))
        equal("listed differences of %s that are none" % name, stale, [])
        print("%s: %.1f s, %d differences; %s" % (name, time.monotonic() - begun, len(names), lines[-1][:200]), flush=True)

"""What statistics cost point reads, as `nagi-bench limit --statistics true` measures it on three servers in turn.

One server collects no diagnostic data and has neither console nor alerts. The second one has them all, its console is
watched and /metrics is scraped each second. On the third one $queryStats records each query as well.
"""
import json
import os
import subprocess

from server import BENCH, FULL, NAGI, WORK, check, figure
from checks import equal

ROUNDS, SECONDS = (20, 2.0) if FULL else (5, 0.4)
CONNECTIONS = [1, 16]
DOCUMENTS = 20_000
# The goal is 0.97 of the reads; short rounds on a busy machine scatter by more than that.
RATIO_MIN = 0.95 if FULL else 0.8


def run():
    path = os.path.join(WORK, "statistics.json")
    done = subprocess.run([
        BENCH, "limit", "--statistics", "true", "--nagi", NAGI, "--dbpath", os.path.join(WORK, "statistics"), "--rounds", str(ROUNDS),
        "--seconds", str(SECONDS), "--documents", str(DOCUMENTS), "--connections", ",".join(map(str, CONNECTIONS)), "--json", path,
    ], capture_output=True, text=True, timeout=600)
    check("nagi-bench limit --statistics: exit status 0", done.returncode == 0, done.stderr[-500:])
    with open(path) as f:
        rows = {(row["side"], row["connections"]): row for row in json.load(f)}
    equal("its rows", sorted(rows), sorted((side, n) for side in ["off", "statistics", "query stats"] for n in CONNECTIONS))
    for n in CONNECTIONS:
        equal("the server without statistics is the measure", rows["off", n]["of_off"], 1)
        for side, name in [("statistics", "all statistics"), ("query stats", "these and $queryStats")]:
            row = rows[side, n]
            # $queryStats is off unless somebody turns it on: its cost is only printed.
            least = RATIO_MIN if side == "statistics" else 0.1
            check("reads with %s, %d connections: %.2f of those without" % (name, n, least), row["of_off"] >= least, row)
            figure("point reads with %s, %d connections: %.3f of those without (median of %d rounds, %.3f to %.3f)", name, n,
                   row["of_off"], ROUNDS, row["of_off_least"], row["of_off_greatest"])
            figure("processor time for a read, %d connections: %.1f us without, %.1f us with %s", n,
                   rows["off", n]["cpu_us_per_op"], row["cpu_us_per_op"], name)

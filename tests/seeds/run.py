"""Runs the steps of the articles: run.py NAGI WORK MONGOSTAT SHELL... (see seed.py). FULL=1: in their sizes.

ONLY=NAME,... runs some steps, besides those of the server that many use.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import seed  # noqa: E402
import stall  # noqa: E402
import allocate  # noqa: E402,F401
import engines  # noqa: E402,F401
import neighbours  # noqa: E402,F401
import working_set  # noqa: E402,F401

nagi, work, mongostat, *shell = sys.argv[1:]
os.makedirs(work, exist_ok=True)
seed.step("000", "[clientcursormon] mem (MB) res:501 virt:2219 mapped:976")(stall.end_mapped)
only = os.environ.get("ONLY")
if only:
    wanted = set(only.split(",")) | {"begin_mapped", "inserts_do_not_freeze"}
    seed.STEPS[:] = [row for row in seed.STEPS if row[2].__name__ in wanted]
seed.look_up()
try:
    seed.run_all(seed.Bench(nagi, work, mongostat, shell))
finally:
    server = stall.STATE.get("server")
    if server is not None and server.process.poll() is None:
        server.__exit__()
done = len(seed.STEPS) - len(seed.SKIPPED)
seed.checks.finish("%d steps of the articles%s" % (done, ", %d skipped" % len(seed.SKIPPED) if seed.SKIPPED else ""))

"""Figures of the service: service.py NAGI BENCH FOLDER PORT [PART...]

Thousands of connections, shutdown under load, the time of a start, what statistics cost. The figures are printed; the bounds
of the checks are generous unless FULL=1.
"""
import os
import sys

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common")]
from checks import finish, section  # noqa: E402
import connections, costs, restarts, stops  # noqa: E402,E401

for part in (connections, stops, restarts, costs):
    if part.__name__ in sys.argv[5:] or not sys.argv[5:]:
        print("%s:" % part.__name__, flush=True)
        section(part.run)
finish("service")

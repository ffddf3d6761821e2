#!/usr/bin/env python3
"""Starts a placement driver and a store on loopback and runs a command with their addresses.

    tests/tikv/run.py COMMAND...

The command finds NAGI_TIKV_PD (host:port of the placement driver), NAGI_TIKV_ADMIN (host:port at which the store counts
requests and splits regions) and NAGI_TIKV_CONTROL (host:port at which processes PD and STORE are stopped, killed and
started: POST /kill/STORE). Its exit code is this program's.
"""

import os
import signal
import subprocess
import sys
import time

from cluster import Cluster


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    cluster = Cluster()
    begun = time.monotonic()
    try:
        addresses = cluster.start()
        addresses["NAGI_TIKV_CONTROL"] = cluster.controlled()
        print(f"tikv: a placement driver and a store after {time.monotonic() - begun:.1f} s", flush=True)
        status = subprocess.call(sys.argv[1:], env={**os.environ, **addresses})
        cluster.report()
        return status
    finally:
        cluster.stop()


if __name__ == "__main__":
    sys.exit(main())

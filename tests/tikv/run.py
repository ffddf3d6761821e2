#!/usr/bin/env python3
"""Starts a placement driver and a store on loopback and runs a command with their addresses.

    tests/tikv/run.py COMMAND...

The command finds NAGI_TIKV_PD (host:port of the placement driver), NAGI_TIKV_ADMIN (host:port at which the store counts
requests and splits regions), NAGI_TIKV_PD_PID and NAGI_TIKV_STORE_PID (their processes). Its exit code is this program's.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
START_SECONDS_MAX = 60


def free_ports(count):
    """Different ports; one port in NAGI_TIKV_PORT is the first of consecutive ones."""
    first = os.environ.get("NAGI_TIKV_PORT")
    if first:
        return [int(first) + n for n in range(count)]
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    """One placement driver and one store. Their data are removed at the end."""

    def __init__(self):
        self.programs = subprocess.check_output([os.path.join(HERE, "build")], text=True).strip()
        self.folder = tempfile.mkdtemp(prefix="nagi-tikv-")
        self.processes = []

    def spawn(self, name, program, *arguments):
        log = open(os.path.join(self.folder, name + ".log"), "wb")
        command = [os.path.join(self.programs, program), *arguments]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        self.processes.append((name, process))

    def wait_for(self, what, is_there):
        end = time.monotonic() + START_SECONDS_MAX
        while not is_there():
            for name, process in self.processes:
                if process.poll() is not None:
                    raise SystemExit(f"{name} ended at the start:\n{self.log(name)}")
            if time.monotonic() > end:
                raise SystemExit(f"no {what} after {START_SECONDS_MAX} seconds")
            time.sleep(0.05)

    def log(self, name):
        with open(os.path.join(self.folder, name + ".log"), encoding="utf-8", errors="replace") as log:
            return log.read()[-4000:]

    def start(self):
        pd, peer, store, admin = (f"127.0.0.1:{port}" for port in free_ports(4))
        self.spawn(
            "PD", "pd-server", "--name=pd1", "--data-dir=pd1", f"--client-urls=http://{pd}", f"--peer-urls=http://{peer}",
            f"--initial-cluster=pd1=http://{peer}", "--log-level=warn", "--log-file=pd1.log")
        self.wait_for("placement driver", lambda: self.answers(f"http://{pd}/pd/api/v1/leader"))
        self.spawn("STORE", "tikvd", "-pd", pd, "-addr", store, "-admin", admin, "-dir", "kv1")
        self.wait_for("store", lambda: "ready" in self.log("STORE"))
        # One store: the placement driver need not look for others.
        one = urllib.request.Request(f"http://{pd}/pd/api/v1/config", data=b'{"max-replicas": 1}', method="POST")
        self.wait_for("setting of the placement driver", lambda: self.answers(one))
        pids = {f"NAGI_TIKV_{name}_PID": str(process.pid) for name, process in self.processes}
        return {"NAGI_TIKV_PD": pd, "NAGI_TIKV_ADMIN": admin, **pids}

    @staticmethod
    def answers(request):
        try:
            return urllib.request.urlopen(request, timeout=2).status == 200
        except urllib.error.HTTPError as error:
            if error.code >= 500:
                return False
            raise SystemExit(f"the placement driver refuses a request: {error.read().decode()}") from error
        except OSError:
            return False

    def report(self):
        """Says which process has ended too early, and why."""
        for name, process in self.processes:
            if process.poll() is not None:
                print(f"{name} ended with {process.returncode}:\n{self.log(name)}", file=sys.stderr)

    def stop(self):
        for _, process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    cluster = Cluster()
    begun = time.monotonic()
    try:
        addresses = cluster.start()
        print(f"tikv: a placement driver and a store after {time.monotonic() - begun:.1f} s", flush=True)
        status = subprocess.call(sys.argv[1:], env={**os.environ, **addresses})
        cluster.report()
        return status
    finally:
        cluster.stop()


if __name__ == "__main__":
    sys.exit(main())

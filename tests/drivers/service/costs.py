"""What statistics cost point reads: `nagi-bench limit` on two servers in turn.

One server collects no diagnostic data and has no console. The other does all of it: files of diagnostic data, the console
open in a browser - the stream of its samples is read - and /metrics scraped each second. Each round runs both, in
alternating order; the ratio is the median of those of the rounds, which the noise of the machine affects least.
"""
import http.client
import json
import os
import socket
import statistics
import subprocess
import threading

from server import BENCH, FULL, PORT, WORK, Server, check, figure, free_port, require, wait_until

ROUNDS, SECONDS = (20, 2.0) if FULL else (5, 0.4)
CONNECTIONS = "1,16"
DOCUMENTS = 20_000
# The goal is 0.97 of the reads; short rounds on a busy machine scatter by more than that.
RATIO_MIN = 0.95 if FULL else 0.5
QUIET = ["--noconsole", "--setParameter", "diagnosticDataCollectionEnabled=false"]


def is_open(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


class Watching:
    """A browser with the console's page open, and a scraper."""

    def __init__(self, port):
        self.port, self.stopping, self.samples, self.scrapes = port, threading.Event(), 0, 0
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self.stream, self.scrape)]
        for thread in self.threads:
            thread.start()

    def stream(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", "/api/stream")
        reply = connection.getresponse()
        while not self.stopping.is_set():
            self.samples += reply.readline().startswith(b"event: sample")
        connection.close()

    def scrape(self):
        while not self.stopping.wait(1):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
            connection.request("GET", "/metrics")
            self.scrapes += b"nagi_operations_total" in connection.getresponse().read()
            connection.close()

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(15)


def bench(servers):
    """Reads in a second by server and number of connections."""
    path = os.path.join(WORK, "limit.json")
    command = [BENCH, "limit", "--without-nagi", "true", "--operations", "read", "--connections", CONNECTIONS, "--rounds", "1",
               "--seconds", str(SECONDS), "--documents", str(DOCUMENTS), "--json", path]
    for name, server in servers:
        command += ["--uri", "%s=mongodb://127.0.0.1:%d" % (name, server.port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    check("nagi-bench limit: exit status 0", done.returncode == 0, done.stderr[-500:])
    with open(path) as f:
        rows = json.load(f)
    return {(row["server"], row["connections"]): row["operations"] / row["seconds"] for row in rows}


def run():
    quiet = Server("quiet", *QUIET)
    console = free_port(PORT)
    servers = [("quiet", quiet), ("watched", Server("watched", "--consolePort", str(console), port=free_port(console)))]
    require(wait_until(lambda: is_open(console), 10), "the console listens, a moment after the server")
    watching = Watching(console)
    try:
        ratios = {}
        used = {name: server.cpu_seconds() for name, server in servers}
        done = dict.fromkeys(used, 0.0)
        for round_ in range(ROUNDS):
            rates = bench(servers if round_ % 2 == 0 else servers[::-1])
            for name, connections in rates:
                if name == "watched":
                    ratios.setdefault(connections, []).append(rates[name, connections] / rates["quiet", connections])
                if name in done:
                    done[name] += rates[name, connections] * SECONDS
        for connections, seen in sorted(ratios.items()):
            middle = statistics.median(seen)
            check("reads with all statistics, %d connections: %.2f of those without" % (connections, RATIO_MIN), middle >= RATIO_MIN, seen)
            figure("point reads with all statistics, %d connections: %.3f of those without (median of %d rounds, %.3f to %.3f)", connections, middle, len(seen), min(seen), max(seen))
        each = {name: (server.cpu_seconds() - used[name]) / done[name] * 1e6 for name, server in servers}
        figure("processor time for a read, loading included: %.1f us without, %.1f us with all statistics", each["quiet"], each["watched"])
    finally:
        watching.stop()
        for _, server in servers:
            server.remove()
    check("the stream had samples", watching.samples >= 2, watching.samples)
    check("metrics were scraped", watching.scrapes >= 2, watching.scrapes)

"""Mutated handshakes, certificates, records, logins and tokens against a running server, beside good clients:
hostile.py NAGI FOLDER PORT COUNT [SECONDS [SEED]]

COUNT is the number of mutated messages: a handshake, a certificate, a record, each login or token of a connection. They
end after SECONDS at the latest (without a number: never), and the number that was sent is printed. The same number of
good connections per second runs before, so that what is compared is not the work of handshakes, but what mutated ones
add. The server must not end, grow or keep connections, and the 99th percentile of the good clients' requests must at most
double.
"""
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import time

import pymongo

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, finish, wait_until  # noqa: E402
from strangers import KINDS, Arsenal, Files, Peer, Stranger, command, context  # noqa: E402

# Processes, and threads of each: a stranger that waits for an answer does not keep the next one waiting.
WORKERS, THREADS = max(2, os.cpu_count() or 2), 8
# What a scheduler may add on a machine with other work, in milliseconds.
NOISE_MS = 10
GROWTH_BYTES_MAX = 64 << 20
# The time of the good connections to compare with, in seconds.
PEACE_SECONDS = 20


def crowd(work):
    """Runs `work(index)` on all threads of this process."""
    threads = [threading.Thread(target=work, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def hostile(files, folder, port, count, seconds, rate, seed, out):
    """Strangers that send `count` messages, with `rate` connections a second, for `seconds` at most."""
    own = os.path.join(folder, "worker-%d" % seed)
    os.makedirs(own)
    arsenal = Arsenal(files, own, seed)
    shutil.rmtree(own)
    strangers = [Stranger(arsenal, port, seed * 1000 + index) for index in range(THREADS)]
    started = time.monotonic()

    def run(index):
        stranger, connections = strangers[index], 0
        while sum(stranger.sent) < max(1, count // THREADS) and time.monotonic() - started < seconds:
            stranger.attack()
            connections += 1
            pause(started, connections, rate / THREADS)

    crowd(run)
    total = lambda name: [sum(kind) for kind in zip(*(getattr(one, name) for one in strangers))]  # noqa: E731
    out.put({"connections": total("connections"), "sent": total("sent"), "seconds": time.monotonic() - started,
             "accepted": sum(one.accepted for one in strangers), "lost": sum(one.lost for one in strangers)})


def peaceful(files, _, port, count, seconds, rate, seed, out):
    """Good connections at the same rate, with some requests each."""
    started, contexts, lost = time.monotonic(), [context(files), context(files, files.alice)], []

    def run(index):
        done = 0
        while done < max(1, count // THREADS) and time.monotonic() - started < seconds:
            try:
                peer = Peer(port, contexts[(done + index) % 2], "127.%d.0.%d" % (seed % 200 + 1, index + 1))
                peer.socket.settimeout(5)
                peer.handshake()
                for _ in range(4):
                    peer.send(command(ping=1))
                    peer.answer()
                peer.close()
            except OSError:
                lost.append(done)
            done += 1
            pause(started, done, rate / THREADS)

    crowd(run)
    out.put({"lost": len(lost), "seconds": time.monotonic() - started})


def pause(started, done, rate):
    ahead = started + done / rate - time.monotonic()
    if ahead > 0:
        time.sleep(ahead)


def good(files, port, until, out):
    """A good client: requests of an open connection, and one new connection in twenty requests."""
    options = {"tls": True, "tlsCAFile": files.ca, "directConnection": True, "serverSelectionTimeoutMS": 60000}
    times, connects = [], []
    with pymongo.MongoClient("localhost", port, **options) as client:
        client.admin.command("ping")
        while not until.is_set():
            before = time.perf_counter()
            if len(times) % 20 == 19:
                with pymongo.MongoClient("localhost", port, **options) as another:
                    another.admin.command("ping")
                connects.append(time.perf_counter() - before)
                before = time.perf_counter()
            client.admin.command("ping")
            times.append(time.perf_counter() - before)
            time.sleep(0.002)
    out.put((times, connects))


def at(times, share):
    return sorted(times)[min(len(times) - 1, int(len(times) * share))] * 1000 if times else 0.0


class Resident(threading.Thread):
    """The server's resident memory, every half second."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.sizes, self.ended = server, [], threading.Event()
        self.start()

    def run(self):
        while not self.ended.wait(0.5):
            self.sizes.append(self.server.resident())

    def stop(self):
        """The sizes after a tenth of the time and at the end."""
        self.ended.set()
        self.join()
        sizes = self.sizes or [self.server.resident()]
        return sizes[len(sizes) // 10], sizes[-1]


def phase(name, files, folder, port, work, count=0, seconds=0.0, rate=1.0):
    """Runs good clients beside `work`. Returns their 99th percentile in milliseconds and what the workers report."""
    until, times, reports = multiprocessing.Event(), multiprocessing.Queue(), multiprocessing.Queue()
    clients = [multiprocessing.Process(target=good, args=(files, port, until, times)) for _ in range(2)]
    workers = [multiprocessing.Process(target=work, args=(files, folder, port, count // WORKERS, seconds, rate / WORKERS, seed, reports))
               for seed in range(SEED, SEED + WORKERS)] if work else []
    for process in clients + workers:
        process.start()
    if not work:
        time.sleep(3)
    found = [reports.get() for _ in workers]
    until.set()
    measured = [times.get(timeout=60) for _ in clients]
    for process in clients + workers:
        process.join(60)
    requests = [one for of in measured for one in of[0]]
    connects = [one for of in measured for one in of[1]]
    print("%-9s requests: p50 %.2f ms, p99 %.2f ms of %d; new connections: p50 %.1f ms, p99 %.1f ms of %d" % (
        name, at(requests, 0.5), at(requests, 0.99), len(requests), at(connects, 0.5), at(connects, 0.99), len(connects)), flush=True)
    return at(requests, 0.99), found


def per_second(reports):
    return sum(sum(one["connections"]) / one["seconds"] for one in reports)


def kinds(reports, name):
    return dict(zip(KINDS, (sum(kind) for kind in zip(*(one[name] for one in reports)))))


class Server:
    def __init__(self, nagi, folder, port, files):
        self.log = os.path.join(folder, "nagi.log")
        flags = ["--storageEngine", "inMemory", "--dbpath", folder, "--port", str(port), "--bind_ip", "127.0.0.1", "--nounixsocket",
                 "--logpath", self.log, "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", files.server, "--tlsCAFile", files.ca,
                 "--tlsAllowConnectionsWithoutCertificates", "--auth", "--setParameter", "oidcIdentityProviders=" + files.provider(),
                 "--setParameter", "authenticationMechanisms=SCRAM-SHA-1,SCRAM-SHA-256,MONGODB-X509,MONGODB-OIDC"]
        self.process = subprocess.Popen([nagi, "serve", *flags], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.client = pymongo.MongoClient("localhost", port, tls=True, tlsCAFile=files.ca, directConnection=True,
                                          serverSelectionTimeoutMS=60000)
        self.client.admin.command("createUser", "root", pwd="p", roles=["root"])
        self.client.close()
        self.client = pymongo.MongoClient("localhost", port, tls=True, tlsCAFile=files.ca, directConnection=True, username="root",
                                          password="p")

    def status(self):
        return self.client.admin.command("serverStatus")

    def resident(self):
        with open("/proc/%d/status" % self.process.pid) as f:
            return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmRSS"))

    def stop(self):
        self.client.close()
        self.process.terminate()
        return self.process.wait(60), self.process.stderr.read()


def main():
    nagi, folder, port, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    files = Files(folder)
    server = Server(nagi, folder, port, files)
    phase("alone", files, folder, port, None)
    # The first hostile connections fill caches and pools, and tell how many a second the workers manage.
    _, warm = phase("warm-up", files, folder, port, hostile, min(count, max(2000, count // 20)), min(30, SECONDS), 1e9)
    rate = 0.7 * per_second(warm)
    peace, _ = phase("peaceful", files, folder, port, peaceful, int(rate * PEACE_SECONDS), PEACE_SECONDS, rate)
    before, open_before = server.resident(), server.status()["connections"]["current"]
    resident = Resident(server)
    war, reports = phase("hostile", files, folder, port, hostile, count, SECONDS, rate)
    early, late = resident.stop()
    done, sent = sum(sum(one["connections"]) for one in reports), sum(sum(one["sent"]) for one in reports)
    print("%d mutated messages in %d connections, %.0f and %.0f a second; messages by kind: %s" % (
        sent, done, sent / max(one["seconds"] for one in reports), per_second(reports), kinds(reports, "sent")))
    print("99th percentile beside mutated messages: %.2f times that beside good connections" % (war / peace))
    equal("what was accepted with changes", sum(one["accepted"] for one in reports), 0)
    check("the port accepts connections", sum(one["lost"] for one in reports) <= done // 1000, reports)
    check("p99 of good clients at most doubled", war <= max(2 * peace, peace + NOISE_MS), "%.2f ms, was %.2f ms" % (war, peace))
    check("connections are closed", wait_until(lambda: server.status()["connections"]["current"] <= open_before + 2, 60),
          server.status()["connections"])
    grown = server.resident() - before
    print("resident memory: %.1f MiB, %+.1f MiB; %+.1f MiB from a tenth of the time to the end" % (
        server.resident() / 2**20, grown / 2**20, (late - early) / 2**20))
    check("the server did not grow", grown < GROWTH_BYTES_MAX, grown)
    status, errors = server.stop()
    equal("the server's exit status", status, 0)
    check("nothing on the standard error", "panick" not in errors and "ERROR: AddressSanitizer" not in errors, errors[-2000:])
    with open(server.log) as log:
        fatal = [line for line in log if json.loads(line)["s"] == "F" or "panic" in line]
    equal("no panic", fatal[:3], [])
    finish("%d mutated messages, %d connections" % (sent, done))


SECONDS = float(sys.argv[5]) if len(sys.argv) > 5 and float(sys.argv[5]) else float("inf")
SEED = int(sys.argv[6]) if len(sys.argv) > 6 else 1
if __name__ == "__main__":
    main()

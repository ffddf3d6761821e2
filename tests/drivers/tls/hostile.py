"""Mutated handshakes, certificates, records and logins against a running server, beside good clients:
hostile.py NAGI FOLDER PORT COUNT [SEED]

COUNT is the number of hostile connections. The same number of good handshakes per second runs before, so that what is
compared is not the work of handshakes, but what mutated ones add. The server must not end, grow or keep connections, and
the 99th percentile of the good clients' requests must at most double.
"""
import json
import multiprocessing
import os
import random
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import time

import pymongo

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import pki  # noqa: E402
from checks import check, equal, finish, wait_until  # noqa: E402

WORKERS = 2
# What a scheduler may add on a machine with other work, in milliseconds.
NOISE_MS = 10
GROWTH_BYTES_MAX = 64 << 20
# A mutated length makes the server wait for more; the client gives up then.
PATIENCE_SECONDS = 0.05


class Files:
    """The certificates of a run."""

    def __init__(self, folder):
        ca = pki.Authority(os.path.join(folder, "ca"), "/O=Nagi/CN=authority")
        other = pki.Authority(os.path.join(folder, "other"), "/O=Other/CN=authority")
        self.ca = ca.file
        self.server = ca.sign("server", "/O=Nagi/OU=Servers/CN=localhost", pki.LOCAL)
        self.alice = ca.sign("alice", "/O=Nagi/OU=Clients/CN=alice", "extendedKeyUsage=clientAuth")
        self.stranger = other.sign("mallory", "/O=Nagi/OU=Clients/CN=alice", "extendedKeyUsage=clientAuth")


def context(files, certificate=None, version=None):
    made = ssl.create_default_context(cafile=files.ca)
    if version:
        made.maximum_version = version
    if certificate:
        made.load_cert_chain(certificate)
    return made


def changed_certificates(files, folder, rng):
    """Contexts with certificates whose bytes are changed, as far as openssl can still read them."""
    text = open(files.alice).read()
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    der = ssl.PEM_cert_to_DER_cert(begin + rest.partition(end)[0] + end)
    contexts = []
    for number in range(200):
        changed = bytearray(der)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(len(der))] ^= 1 << rng.randrange(8)
        path = os.path.join(folder, "changed.pem")
        with open(path, "w") as f:
            f.write(head + ssl.DER_cert_to_PEM_cert(bytes(changed)) + tail)
        try:
            contexts.append(context(files, path))
        except (ssl.SSLError, ValueError):
            continue
        if len(contexts) == 40:
            break
    return contexts


def mutate(rng, data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(data)) if data else 0
        what = rng.randrange(7)
        if what == 0:
            del data[at:]
        elif what == 1:
            data[at:at] = bytes([rng.randrange(256)]) * rng.choice([1, 2, 255, 5000])
        elif what == 2:
            del data[at:at + rng.choice([1, 2, 16])]
        elif what == 3:
            data[at:at] = data[at:at + rng.randrange(1, 400)]
        elif data:
            at %= len(data)
            data[at] = rng.choice([0, 0xFF, data[at] ^ (1 << rng.randrange(8)), rng.randrange(256)])
    return bytes(data)


class Peer:
    """One connection with its TLS in memory, so that every flight can be changed before it is sent."""

    def __init__(self, port, how):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.socket.settimeout(PATIENCE_SECONDS)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = how.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def receive(self):
        data = self.socket.recv(65536)
        self.incoming.write(data)
        return data

    def handshake(self, change=None, flight=None):
        """True if it is done. `change` is applied to a flight."""
        for number in range(8):
            try:
                self.tls.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                done = False
            sent = self.outgoing.read()
            if sent:
                self.socket.sendall(change(sent) if number == flight else sent)
            if done:
                return True
            if not self.receive():
                return False
        return False

    def send(self, data, change=None):
        self.tls.write(data)
        sent = self.outgoing.read()
        self.socket.sendall(change(sent) if change else sent)

    def answer(self):
        while self.receive():
            try:
                return self.tls.read(65536)
            except ssl.SSLWantReadError:
                continue
        return b""

    def close(self, abruptly=False):
        if abruptly:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def message(body):
    return struct.pack("<iiiii", len(body) + 21, 1, 0, 2013, 0) + b"\0" + body


def document(*fields):
    body = b"".join(fields)
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def number(name, value):
    return b"\x10" + name + b"\0" + struct.pack("<i", value)


def text(name, value):
    return b"\x02" + name + b"\0" + struct.pack("<i", len(value) + 1) + value + b"\0"


def binary(name, value):
    return b"\x05" + name + b"\0" + struct.pack("<ib", len(value), 0) + value


def sasl(rng):
    """A frame of a login, with changes in its payload or anywhere."""
    payload, mechanism = b"n,,n=root,r=clientnonce", rng.choice([b"SCRAM-SHA-256", b"SCRAM-SHA-1", b"PLAIN", b"MONGODB-X509", b"MONGODB-OIDC"])
    payload = rng.choice([payload, b"\0root\0p", b"", mutate(rng, payload), os.urandom(rng.randrange(300))])
    start = document(number(b"saslStart", 1), text(b"mechanism", mechanism), binary(b"payload", payload), text(b"$db", b"admin"))
    more = document(number(b"saslContinue", 1), number(b"conversationId", 1), binary(b"payload", mutate(rng, b"c=biws,r=x,p=AAAA")), text(b"$db", b"admin"))
    frame = message(rng.choice([start, start, more]))
    return mutate(rng, frame) if rng.randrange(2) else frame


def attack(rng, port, contexts, changed, counts):
    """One hostile connection. Returns True if a changed certificate was accepted."""
    kind = rng.randrange(8)
    change = lambda data: mutate(rng, data)  # noqa: E731
    peer = Peer(port, rng.choice(changed) if kind == 2 and changed else rng.choice(contexts))
    try:
        if kind == 0:
            peer.handshake(change, 0)
        elif kind == 1:
            peer.handshake(change, 1)
        elif kind == 2:
            # TLS 1.3: the client believes that it is done before the server has seen the certificate.
            if peer.handshake():
                peer.send(message(document(number(b"ping", 1), text(b"$db", b"admin"))))
                return bool(peer.answer())
        elif kind == 3:
            peer.handshake()
            peer.send(message(document(number(b"ping", 1), text(b"$db", b"admin"))), change)
            peer.answer()
        elif kind in (4, 5):
            peer.handshake()
            for _ in range(rng.randrange(1, 4)):
                peer.send(sasl(rng))
                peer.answer()
        elif kind == 6:
            garbage = rng.choice([b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", sasl(rng), os.urandom(rng.randrange(1, 2000)), b"\x16", b"\x16\x03\x01\xff\xff"])
            peer.socket.sendall(garbage)
            peer.receive()
        else:
            try:
                peer.tls.do_handshake()
            except ssl.SSLWantReadError:
                pass
            hello = peer.outgoing.read()
            peer.socket.sendall(hello[:rng.randrange(1, len(hello))])
    except (OSError, ValueError):
        pass
    finally:
        counts[kind] += 1
        peer.close(abruptly=kind == 7)
    return False


def hostile(files, folder, port, count, seed, rate, out):
    rng = random.Random(seed)
    own = os.path.join(folder, "worker-%d" % seed)
    os.makedirs(own)
    contexts = [context(files, certificate, version) for certificate in (None, files.alice, files.stranger)
                for version in (None, ssl.TLSVersion.TLSv1_2)]
    changed, counts, accepted, lost = changed_certificates(files, own, rng), [0] * 8, 0, 0
    started = time.monotonic()
    for number_ in range(count):
        try:
            accepted += attack(rng, port, contexts, changed, counts)
        except OSError:
            # The port accepts no connection for a moment.
            lost += 1
        pause(started, number_ + 1, rate)
    out.put({"counts": counts, "accepted": accepted, "lost": lost, "seconds": time.monotonic() - started})


def peaceful(files, _, port, count, seed, rate, out):
    """Good handshakes at the same rate."""
    contexts, lost = [context(files), context(files, files.alice)], 0
    started = time.monotonic()
    for number_ in range(count):
        try:
            peer = Peer(port, contexts[(number_ + seed) % 2])
            peer.socket.settimeout(5)
            peer.handshake()
            peer.close()
        except OSError:
            lost += 1
        pause(started, number_ + 1, rate)
    out.put({"lost": lost, "seconds": time.monotonic() - started})


def pause(started, done, rate):
    ahead = started + done / rate - time.monotonic()
    if ahead > 0:
        time.sleep(ahead)


def good(files, port, until, out):
    """A good client: requests of an open connection, and one new connection in twenty requests."""
    options = {"tls": True, "tlsCAFile": files.ca, "directConnection": True, "serverSelectionTimeoutMS": 20000}
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


def phase(name, files, folder, port, work, count, rate):
    """Runs good clients beside `work`. Returns their 99th percentile in milliseconds and what the workers report."""
    until, times, reports = multiprocessing.Event(), multiprocessing.Queue(), multiprocessing.Queue()
    clients = [multiprocessing.Process(target=good, args=(files, port, until, times)) for _ in range(2)]
    workers = [multiprocessing.Process(target=work, args=(files, folder, port, count // WORKERS, seed, rate / WORKERS, reports))
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


class Server:
    def __init__(self, nagi, folder, port, files):
        self.log = os.path.join(folder, "nagi.log")
        flags = ["--storageEngine", "inMemory", "--dbpath", folder, "--port", str(port), "--bind_ip", "127.0.0.1", "--nounixsocket",
                 "--logpath", self.log, "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", files.server, "--tlsCAFile", files.ca,
                 "--tlsAllowConnectionsWithoutCertificates", "--auth"]
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
    phase("alone", files, folder, port, None, 0, 1)
    # The first hostile connections fill caches and pools, and tell how many a second the workers manage.
    _, warm = phase("warm-up", files, folder, port, hostile, min(count, max(400, count // 20)), 1e9)
    rate = 0.7 * sum(sum(one["counts"]) / one["seconds"] for one in warm)
    shutil.rmtree(os.path.join(folder, "worker-%d" % SEED), ignore_errors=True)
    for seed in range(SEED, SEED + WORKERS):
        shutil.rmtree(os.path.join(folder, "worker-%d" % seed), ignore_errors=True)
    peace, _ = phase("peaceful", files, folder, port, peaceful, min(count, int(rate * 20)), rate)
    before, open_before = server.resident(), server.status()["connections"]["current"]
    war, reports = phase("hostile", files, folder, port, hostile, count, rate)
    done = sum(sum(one["counts"]) for one in reports)
    print("%d hostile connections, %.0f a second; by kind: %s" % (done, rate, [sum(kind) for kind in zip(*(r["counts"] for r in reports))]))
    equal("accepted certificates with changes", sum(one["accepted"] for one in reports), 0)
    check("the port accepts connections", sum(one["lost"] for one in reports) <= done // 1000, reports)
    check("p99 of good clients at most doubled", war <= max(2 * peace, peace + NOISE_MS), "%.2f ms, was %.2f ms" % (war, peace))
    check("connections are closed", wait_until(lambda: server.status()["connections"]["current"] <= open_before + 2, 60),
          server.status()["connections"])
    grown = server.resident() - before
    print("resident memory: %.1f MiB, %+.1f MiB" % (server.resident() / 2**20, grown / 2**20))
    check("the server did not grow", grown < GROWTH_BYTES_MAX, grown)
    status, errors = server.stop()
    equal("the server's exit status", status, 0)
    check("nothing on the standard error", "panick" not in errors and "ERROR: AddressSanitizer" not in errors, errors[-2000:])
    with open(server.log) as log:
        fatal = [line for line in log if json.loads(line)["s"] == "F" or "panic" in line]
    equal("no panic", fatal[:3], [])
    finish("%d hostile connections" % done)


SEED = int(sys.argv[5]) if len(sys.argv) > 5 else 1
if __name__ == "__main__":
    main()

"""Hostile handshakes beside good clients: attack.py NAGI FOLDER PORT [RESUMPTIONS].

Half-open handshakes, clients that send a byte a second, files that change or expire while clients connect, and many
resumptions. Prints each failure, the figures, and a count.
"""
import os
import shutil
import signal
import socket
import ssl
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import bson  # noqa: E402
import hello  # noqa: E402
import pki  # noqa: E402
import pymongo  # noqa: E402
import server  # noqa: E402
from checks import check, equal, fails, finish, section, wait_until  # noqa: E402
from pymongo.errors import PyMongoError  # noqa: E402

NAGI, WORK, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
RESUMPTIONS = int(sys.argv[4]) if len(sys.argv) > 4 else 1000
CLIENT = "extendedKeyUsage=clientAuth"
SERVER = "/O=Nagi/OU=Servers/CN=localhost"
HALF_OPEN = 500

shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(WORK)
ca = pki.Authority(os.path.join(WORK, "ca"), "/O=Nagi/CN=authority")
server_pem = ca.sign("server", SERVER, pki.LOCAL)
alice_pem = ca.sign("alice", "/O=Nagi/OU=Clients/CN=alice", CLIENT)


def tls(*flags, pem=server_pem):
    return server.Server(NAGI, WORK, PORT, "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", pem, "--tlsCAFile", ca.file, *flags)


def client(**options):
    options = {"tls": True, "tlsCAFile": ca.file, "tlsCertificateKeyFile": alice_pem, "directConnection": True,
               "serverSelectionTimeoutMS": 5000, **options}
    return pymongo.MongoClient("localhost", PORT, **options)


def context(version=ssl.TLSVersion.TLSv1_3):
    made = ssl.create_default_context(cafile=ca.file)
    made.load_cert_chain(alice_pem)
    made.minimum_version = made.maximum_version = version
    return made


def message(body):
    body = b"\0\0\0\0\0" + bson.encode(body)
    return (len(body) + 16).to_bytes(4, "little") + b"\1\0\0\0\0\0\0\0\xdd\7\0\0" + body


def exchange(made, session=None):
    """A handshake and a ping; returns the session and whether it was resumed."""
    with made.wrap_socket(hello.connect(PORT), server_hostname="localhost", session=session) as s:
        s.sendall(message({"ping": 1, "$db": "admin"}))
        reply = s.recv(4096)
        check("reply", len(reply) > 20) if len(reply) <= 20 else None
        return s.session, s.session_reused


def p99_ms(run, count):
    times = []
    for _ in range(count):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return 1000 * sorted(times)[int(count * 0.99) - 1]


def half_open():
    made = context()
    with tls() as running, client() as c:
        ping = lambda: c.admin.command("ping")  # noqa: E731
        ping()
        before = p99_ms(ping, 500), p99_ms(lambda: exchange(made), 100)
        whole = hello.hello(more=hello.extension(43, hello.words([0x0304], 1)))
        held = []
        for number in range(HALF_OPEN):
            s = hello.connect(PORT, "127.0.0.%d" % (2 + number % 20))
            # Nothing but the header, a part, or all: then the server waits for the client's answer.
            s.sendall(hello.hello() if number % 3 == 0 else whole[:11 + number % (len(whole) - 12)])
            held.append(s)
        during = p99_ms(ping, 500), p99_ms(lambda: exchange(made), 100)
        print("p99 of a ping %.2f ms, with %d half-open handshakes %.2f ms; of a connection %.2f and %.2f ms" % (
            before[0], HALF_OPEN, during[0], before[1], during[1]))
        for name, was, now in zip(("ping", "connection"), before, during):
            check("p99 of a %s" % name, now < max(2 * was, was + 20), (was, now))
        began = time.time()
        for s in held[:3]:
            s.settimeout(30)
            while s.recv(4096):
                pass
        check("half of a handshake ends", time.time() - began < 15)
        check("the log has the reason", running.logged("timed out while in the TLS handshake"))
        for s in held:
            s.close()
        check("no thread is left", wait_until(lambda: c.admin.command("serverStatus")["connections"]["current"] < 20, 30))


def slowly():
    """A byte a second does not extend the time: ten seconds until the server knows that it is a handshake, and ten for it."""
    with tls():
        whole = hello.hello()
        held = [hello.connect(PORT) for _ in range(20)]
        began, ended = time.time(), 0
        for second in range(24):
            for s in list(held):
                try:
                    s.sendall(whole[second:second + 1])
                    s.setblocking(False)
                    try:
                        closed = s.recv(100) == b""
                    except BlockingIOError:
                        closed = False
                    s.setblocking(True)
                except OSError:
                    closed = True
                if closed:
                    held.remove(s)
                    ended += 1
            if not held:
                break
            time.sleep(1)
        check("clients that send a byte a second are disconnected", ended == 20 and time.time() - began < 23, (ended, time.time() - began))
        # Just enough to be known as a client of TLS in time, and then a byte a second again.
        with hello.connect(PORT) as s:
            began = time.time()
            s.sendall(whole[:1])
            time.sleep(8)
            s.sendall(whole[1:20])
            s.settimeout(0.9)
            for second in range(20, 40):
                try:
                    if s.recv(100) == b"":
                        break
                except socket.timeout:
                    s.sendall(whole[second:second + 1])
            check("nor does a late beginning help", 15 < time.time() - began < 22, time.time() - began)


def rotation():
    pem = os.path.join(WORK, "rotated.pem")
    second = ca.sign("second", SERVER, pki.LOCAL)
    shutil.copy(server_pem, pem)
    with tls(pem=pem) as running, client() as c:
        made = context()
        # The handshake begins with the old files and ends after the new ones were read.
        raw = hello.connect(PORT)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tied = made.wrap_bio(incoming, outgoing, server_hostname="localhost")
        try:
            tied.do_handshake()
        except ssl.SSLWantReadError:
            pass
        raw.sendall(outgoing.read())
        first = raw.recv(4096)
        shutil.copy(second, pem)
        equal("rotate", c.admin.command("rotateCertificates")["ok"], 1)
        incoming.write(first)
        for _ in range(10):
            try:
                tied.do_handshake()
                break
            except ssl.SSLWantReadError:
                incoming.write(raw.recv(4096))
        raw.sendall(outgoing.read())
        tied.write(message({"ping": 1, "$db": "admin"}))
        raw.sendall(outgoing.read())
        incoming.write(raw.recv(4096))
        check("a handshake across a rotation", len(read(tied, incoming, raw)) > 20)
        raw.close()
        for name, make in (("a pipe", os.mkfifo), ("a folder", os.mkdir)):
            os.remove(pem) if os.path.isfile(pem) else None
            make(pem)
            began = time.time()
            error = fails(name, 140, lambda: c.admin.command("rotateCertificates"))
            check(name + " is named", "it is not a file" in str(error), error)
            running.process.send_signal(signal.SIGHUP)
            check(name + " by a signal", wait_until(lambda: ping(), 10))
            check(name + ": nobody waits", time.time() - began < 5)
            (os.remove if name == "a pipe" else os.rmdir)(pem)
        fails("no file", 140, lambda: c.admin.command("rotateCertificates"))
        with open(pem, "w") as f:
            f.write(open(server_pem).read()[:300])
        fails("half a file", 140, lambda: c.admin.command("rotateCertificates"))
        equal("the old files still serve", ping(), 1)
        shutil.copy(server_pem, pem)
        equal("rotate again", c.admin.command("rotateCertificates")["ok"], 1)
        storm(running)


def read(tied, incoming, raw):
    while True:
        try:
            return tied.read(4096)
        except ssl.SSLWantReadError:
            incoming.write(raw.recv(4096))


def ping():
    with client() as c:
        return c.admin.command("ping")["ok"]


def storm(running):
    """Signals as fast as they come, while clients connect."""
    failed, ended = [], threading.Event()

    def connect():
        while not ended.is_set():
            try:
                ping()
            except PyMongoError as error:
                failed.append(error)

    threads = [threading.Thread(target=connect) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    before = running.resident()
    for _ in range(300):
        running.process.send_signal(signal.SIGHUP)
        time.sleep(0.005)
    ended.set()
    for thread in threads:
        thread.join()
    check("clients during 300 signals", not failed, failed[:2])
    grown = running.resident() - before
    print("300 signals: %.1f MB more" % (grown / 1e6))
    check("memory after the signals", grown < 30e6, grown)


def expiring_list():
    ca.list_revoked("soon.pem", seconds=6)
    crl = ca.path("soon.pem")
    began = time.time()
    with tls("--tlsCRLFile", crl) as running:
        equal("before", ping(), 1)
        time.sleep(max(0, began + 8 - time.time()))
        try:
            with client(serverSelectionTimeoutMS=1000) as c:
                c.admin.command("ping")
            check("an expired list refuses all", False)
        except PyMongoError:
            check("an expired list refuses all", running.logged("CRL has expired"), running.text()[-1000:])
        ca.list_revoked("soon.pem")
        running.process.send_signal(signal.SIGHUP)
        check("a new list", wait_until(lambda: server.s_client(PORT, "-CAfile", ca.file, "-cert", alice_pem) and connects(), 10))


def connects():
    try:
        return ping() == 1
    except PyMongoError:
        return False


def resumptions():
    with tls() as running:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            made, session, reused = context(version), None, 0
            for number in range(RESUMPTIONS // 2 + 200):
                if number == 200:
                    before = running.resident()
                found, was_reused = exchange(made, session)
                reused += was_reused
                # A ticket of 1.3 is used once.
                session = found
            grown = running.resident() - before
            print("%s: %d resumptions, %.1f MB more" % (version.name, reused, grown / 1e6))
            check("resumed %s" % version.name, reused >= RESUMPTIONS // 2 + 198, reused)
            check("memory %s" % version.name, grown < 10e6, grown)


for part in (half_open, slowly, rotation, expiring_list, resumptions):
    if not os.environ.get("ONLY") or part.__name__ in os.environ["ONLY"].split():
        section(part)
finish("attacks on TLS")

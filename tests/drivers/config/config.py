"""Tests configurations, the password of backups, and clients of other protocols: config.py NAGI WORK PORT.

Each packaged configuration starts a server; only paths, the port and settings that need files of the machine
are replaced.
"""
import base64
import bisect
import os
import pty
import random
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import termios
import time
import urllib.request

import bson
import pymongo
from pymongo import MongoClient

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, finish, section  # noqa: E402

NAGI, WORK, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGED = os.path.join(HERE, "..", "..", "..", "crates", "app", "tests", "configurations")
URI = "mongodb://127.0.0.1:%d" % PORT
HTTP_TEXT = "It looks like you are trying to access MongoDB over HTTP on the native driver port."


class Server:
    """A server in the foreground, or the one that a forking process left in the background."""
    port = PORT

    def __init__(self, name, *args):
        self.folder = os.path.join(WORK, name)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(os.path.join(self.folder, "data"))
        self.args = [a.replace("FOLDER", self.folder) for a in args]

    def __enter__(self):
        usual = ["--dbpath", os.path.join(self.folder, "data"), "--port", str(self.port)]
        if "-f" not in self.args:
            usual += ["--bind_ip", "127.0.0.1", "--nounixsocket", "--logpath", os.path.join(self.folder, "nagi.log")]
        self.process = subprocess.Popen([NAGI, "serve", *usual, *self.args], stdout=subprocess.DEVNULL)
        self.client = MongoClient("mongodb://127.0.0.1:%d" % self.port, directConnection=True, serverSelectionTimeoutMS=60_000)
        self.client.admin.command("hello")
        return self

    def log(self):
        with open(os.path.join(self.folder, "nagi.log")) as f:
            return f.read()

    def logs(self, text):
        """Returns True once the log contains a line: the last line of a connection is written after it is
        closed."""
        for _ in range(100):
            if text in self.log():
                return True
            time.sleep(0.1)
        return False

    def __exit__(self, *_):
        self.client.close()
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)
            return
        with open(os.path.join(self.folder, "data", "mongod.lock")) as f:
            pid = int(f.read() or 0)
        os.kill(pid, signal.SIGTERM)
        for _ in range(600):
            if not os.path.exists("/proc/%d" % pid):
                return
            time.sleep(0.1)


def packaged():
    for name in sorted(os.listdir(PACKAGED)):
        with open(os.path.join(PACKAGED, name)) as f:
            text = f.read()
        folder = os.path.join(WORK, name)
        for before, after in [
            (r"/var/log/mongodb/[a-z]*\.log", folder + "/nagi.log"),
            (r"/(var/)?run/mongodb", folder),
            (r"/usr/share/zoneinfo", WORK),
            (r"/tmp/mongod.sock", folder + "/mongod.sock"),
            (r"/var/lib/mongo(db)?\b", folder + "/data"),
            (r"(bindIp: \S+)", r"\1"),
            (r"port: 27017", "port: %d" % PORT),
            (r".*keyFile.*\n", ""),
            (r"authorization: enabled", "authorization: disabled"),
        ]:
            text = re.sub(before, after, text)
        server = Server(name, "-f", "FOLDER/mongod.conf")
        with open(os.path.join(server.folder, "mongod.conf"), "w") as f:
            f.write(text)
        with server:
            answer = server.client.admin.command("getCmdLineOpts")
            equal(name, answer["parsed"]["storage"]["dbPath"], folder + "/data")
            warnings = " ".join(server.client.admin.command("getLog", "startupWarnings")["log"])
            equal(name + " warns", "All databases share the files" in warnings, "directoryPerDB" in text)
            equal(name + " profile", server.client.test.command("profile", -1)["was"], 1 if "slowOp\n" in text else 0)
            stamp = re.search(r'"\$date":"[^"]*([Z0]0?)"', server.log()).group(1)
            equal(name + " stamp", stamp[0] == "Z", "iso8601-utc" in text)


def compressors():
    offered = ["zlib", "snappy", "zstd"]
    for chosen, agreed in [("zstd", ["zstd"]), ("snappy,zlib", ["zlib", "snappy"]), ("disabled", None)]:
        with Server("compressors", "--networkMessageCompressors", chosen) as server:
            hello = server.client.admin.command("hello", compression=offered)
            equal("compressors " + chosen, hello.get("compression"), agreed)
            with MongoClient(URI, compressors="zlib") as client:
                equal("ping with " + chosen, client.admin.command("ping")["ok"], 1)


def other_protocols():
    with Server("protocols") as server:
        with urllib.request.urlopen("http://127.0.0.1:%d/" % PORT, timeout=10) as reply:
            equal("http", reply.read().decode().strip(), HTTP_TEXT)
        began = time.time()
        context = ssl.create_default_context()
        try:
            with socket.create_connection(("127.0.0.1", PORT)) as plain:
                context.wrap_socket(plain, server_hostname="localhost")
            check("tls", False)
        except ssl.SSLError as e:
            check("tls", "HANDSHAKE_FAILURE" in str(e).upper().replace(" ", "_"), str(e))
        check("tls at once", time.time() - began < 5, time.time() - began)
        check("http in the log", server.logs("Client sent an HTTP request over a native MongoDB connection"))
        check("tls in the log", server.logs("SSL handshake received but server is started without SSL support"))


def at_a_terminal(command, password):
    """Runs a command on a pseudo-terminal and types the password. Returns True if it succeeded without showing
    the password, and the details."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.pop("NAGI_PASSWORD", None)
        os.execv(command[0], command)
    seen = b""
    while not seen.endswith(b"Password for root: "):
        seen += os.read(terminal, 1)
    echoes = termios.tcgetattr(terminal)[3] & termios.ECHO
    os.write(terminal, password.encode() + b"\n")
    try:
        while True:
            seen += os.read(terminal, 1024)
    except OSError:  # the child has closed the terminal
        pass
    status = os.waitpid(child, 0)[1]
    return status == 0 and not echoes and password.encode() + b"\r" not in seen, (status, echoes, seen)


def passwords():
    with Server("passwords", "--auth") as server:
        server.client.admin.command("createUser", "root", pwd="s3cret", roles=["root"])
        secret = os.path.join(server.folder, "secret")
        with open(os.open(secret, os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
            f.write("s3cret\n")
        uri = URI.replace("//", "//root@") + "/?authSource=admin"

        def backup(name, *more, **variables):
            env = {k: v for k, v in os.environ.items() if k != "NAGI_PASSWORD"} | variables
            command = [NAGI, "backup", "--uri", uri, "--out", os.path.join(server.folder, name), *more]
            return subprocess.run(command, env=env, capture_output=True, text=True, start_new_session=True)

        equal("password from a file", backup("one", "--passwordFile", secret).returncode, 0)
        equal("password from the environment", backup("two", NAGI_PASSWORD="s3cret").returncode, 0)
        check("a wrong one", "Authentication failed" in backup("three", NAGI_PASSWORD="x").stderr)
        check("none and no terminal", "--passwordFile" in backup("four").stderr)
        check("a prompt", *at_a_terminal([NAGI, "backup", "--uri", uri, "--out", os.path.join(server.folder, "six")], "s3cret"))
        check("a wrong word at the prompt", not at_a_terminal([NAGI, "backup", "--uri", uri, "--out", os.path.join(server.folder, "seven")], "x")[0])
        os.chmod(secret, 0o644)
        check("a file for all", "too open" in backup("five", "--passwordFile", secret).stderr)


def strangers():
    """Unknown user names get the same replies as users, also after the iteration count has changed."""
    with Server("strangers", "--auth", "--setParameter", "scramSHA256IterationCount=20000") as server:
        server.client.admin.command("createUser", "ann", pwd="x", roles=[], mechanisms=["SCRAM-SHA-256"])

        def first(user, mechanism):
            payload = ("n,,n=%s,r=nonce" % user).encode()
            try:
                reply = server.client.admin.command("saslStart", mechanism=mechanism, payload=payload)
            except pymongo.errors.OperationFailure as e:
                return e.code, str(e.details.get("errmsg"))
            parts = dict(part.split("=", 1) for part in reply["payload"].decode().split(","))
            return len(parts["s"]), parts["i"]

        def shown(user):
            mechanisms = server.client.admin.command("hello", saslSupportedMechs="admin." + user).get("saslSupportedMechs")
            return mechanisms, first(user, "SCRAM-SHA-1"), first(user, "SCRAM-SHA-256")

        known = shown("ann")
        for n in range(5):
            equal("nobody%d" % n, shown("nobody%d" % n), known)


class Logins:
    """Logins on one connection, as raw bytes, with the time of each step."""

    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", PORT), 20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def timed(self, command):
        body = bytes(5) + bson.encode(dict(command, **{"$db": "admin"}))
        message = struct.pack("<iiii", 16 + len(body), 1, 0, 2013) + body
        began = time.perf_counter_ns()
        self.socket.sendall(message)
        reply = self.socket.recv(4096)
        return time.perf_counter_ns() - began, bson.decode(reply[21:])

    def login(self, user):
        """Nanoseconds of both steps of a login with a wrong password."""
        first, reply = self.timed({"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": ("n,,n=%s,r=nonce" % user).encode()})
        nonce = reply["payload"].split(b",")[0]
        last, reply = self.timed({"saslContinue": 1, "conversationId": reply["conversationId"],
                                  "payload": b"c=biws," + nonce + b",p=" + base64.b64encode(bytes(32))})
        equal_code.append(reply["code"])
        return first, last


equal_code = []


def same_times():
    """The time of a refusal does not reveal if the user exists: of one time for a known and one for an unknown
    name, each is the larger equally often."""
    with Server("times", "--auth", "--setParameter", "authFailedDelayMaxMs=0") as server:
        admin = server.client.admin
        admin.command("createUser", "root", pwd="x", roles=["root"])
        admin.client.close()
        root = MongoClient(URI, username="root", password="x")
        count, rounds = 40, 60
        for n in range(count):
            root.admin.command("createUser", "some%03d" % n, pwd="x", roles=[], mechanisms=["SCRAM-SHA-256"])
        root.close()
        logins, rng = Logins(), random.Random(7)
        steps = {"some": ([], []), "none": ([], [])}
        names = [(kind, "%s%03d" % (kind, n)) for kind in steps for n in range(count)]
        for turn in range(rounds + 3):
            rng.shuffle(names)
            for kind, name in names:
                times = logins.login(name)
                if turn >= 3:
                    for step in range(2):
                        steps[kind][step].append(times[step])
        equal("all are refused", set(equal_code), {18})
        for step, what in enumerate(("the first answer", "the refusal")):
            known, unknown = sorted(steps["some"][step]), sorted(steps["none"][step])
            larger = sum(bisect.bisect_left(unknown, t) + (bisect.bisect_right(unknown, t) - bisect.bisect_left(unknown, t)) / 2 for t in known)
            share = larger / len(known) / len(unknown)
            print("%s: medians %d and %d ns, a known name takes longer in %.3f of pairs" % (what, known[len(known) // 2], unknown[len(unknown) // 2], share))
            check("times of " + what, abs(share - 0.5) < 0.06, share)


def refused_at_start(name, says, *args):
    """The server does not start, and reports the reason."""
    folder = os.path.join(WORK, "refused")
    os.makedirs(folder, exist_ok=True)
    ended = subprocess.run([NAGI, "serve", "--dbpath", folder, "--port", str(PORT), *args], capture_output=True, text=True, timeout=120)
    check(name, ended.returncode != 0 and says in ended.stdout + ended.stderr, (ended.returncode, ended.stdout[-2000:], ended.stderr))


def code_of(run):
    try:
        run()
    except pymongo.errors.OperationFailure as e:
        return e.code, e.details["errmsg"]
    return None


def mechanisms():
    """Only supported mechanisms can be enabled, and a user gets no credentials for other mechanisms."""
    for text in ["", "plain", "scram-sha-256", "SCRAM-SHA-256,GSSAPI", "SCRAM-SHA-256 SCRAM-SHA-1"]:
        refused_at_start("mechanism '%s'" % text, "SCRAM-SHA-1, SCRAM-SHA-256", "--setParameter", "authenticationMechanisms=" + text)
    refused_at_start("a flag's value", "bad type", "--setParameter", "notablescan=5")
    with Server("mechanisms", "--auth", "--setParameter", "authenticationMechanisms=SCRAM-SHA-256") as server:
        admin = server.client.admin
        equal("not enabled", code_of(lambda: admin.command("createUser", "root", pwd="x", roles=["root"], mechanisms=["SCRAM-SHA-1"])),
              (2, "SCRAM-SHA-1 not supported in authMechanisms"))
        equal("no credentials left", code_of(lambda: admin.command("createUser", "root", pwd="x", roles=["root"], digestPassword=False)),
              (2, "User document must provide credentials for all non-external users"))
        admin.command("createUser", "root", pwd="x", roles=["root"])
        with MongoClient(URI, username="root", password="x") as root:
            equal("credentials", root.admin.command("usersInfo", "root")["users"][0]["mechanisms"], ["SCRAM-SHA-256"])


def addresses():
    """Options of a backup's address are honoured, or refused by name; a password in the address causes a
    warning."""
    with Server("addresses", "--auth") as server:
        server.client.admin.command("createUser", "root", pwd="s3cret", roles=["root"], mechanisms=["SCRAM-SHA-1"])
        made = [0]

        def backup(options, login="root:s3cret@"):
            made[0] += 1
            out = os.path.join(server.folder, "out%d" % made[0])
            command = [NAGI, "backup", "--uri", "mongodb://%s127.0.0.1:%d/?%s" % (login, PORT, options), "--out", out]
            return subprocess.run(command, capture_output=True, text=True, start_new_session=True)

        good = backup("authMechanism=SCRAM-SHA-1&appName=nightly&directConnection=true&connectTimeoutMS=5000&tls=false")
        equal("options", good.returncode, 0)
        check("a warning of the password", "--passwordFile" in good.stderr, good.stderr)
        check("the application's name", '"nightly"' in server.log())
        equal("a user with one mechanism", backup("authSource=admin").returncode, 0)
        for option in ["tls=true", "ssl=true"]:
            ended = backup(option)
            check(option, ended.returncode == 1 and "refuses the handshake" in ended.stderr and "s3cret" not in ended.stderr, ended.stderr)
        for option, says in [("tlsCAFile=/x", "needs tls=true"),
                             ("authMechanism=PLAIN", "SCRAM-SHA-1 or SCRAM-SHA-256"), ("readPreference=nearest", "'readPreference'"),
                             ("replicaSet=rs", "not of 'rs'"), ("connectTimeoutMS=x", "milliseconds")]:
            before = server.log().count("Connection accepted")
            ended = backup(option)
            # The set of a server is known only after the connection.
            expected = 1 if option == "replicaSet=rs" else 2
            check(option, ended.returncode == expected and says in ended.stderr and "s3cret" not in ended.stderr, ended.stderr)
            if option != "replicaSet=rs":
                equal(option + " connects nowhere", server.log().count("Connection accepted"), before)


def quiet():
    for args, expected in [((), True), (("--quiet",), False)]:
        with Server("quiet", *args) as server:
            client = server.client
            client.admin.command("createUser", "ann", pwd="x", roles=["root"])
            with MongoClient(URI, username="ann", password="x") as ann:
                ann.test.c.insert_one({})
                ann.test.c.drop()
            check("client metadata", server.logs("client metadata"))
            for text in ["Connection accepted", "Successfully authenticated", "CMD: drop"]:
                equal("%s %s" % (text, args), text in server.log(), expected)
            if expected:
                check("connection ended", server.logs("Connection ended"))
            else:
                check("connection ended", "Connection ended" not in server.log())
            # The parameter takes effect at once: the last connections are closed under it.
            client.admin.command("setParameter", 1, quiet=False)
        check("connection ended %s" % (args,), "Connection ended" in server.log())


def verbosity_and_marks():
    """A component's verbosity as a parameter, and a file that begins with a byte order mark."""
    with Server("verbosity", "--setParameter", "logComponentVerbosity={command: {verbosity: 2}, storage: 1}") as server:
        shown = server.client.admin.command("getParameter", 1, logComponentVerbosity=1)["logComponentVerbosity"]
        equal("verbosity", (shown["command"]["verbosity"], shown["storage"]["verbosity"]), (2, 1))
    refused_at_start("an unknown component", "invalid component", "--setParameter", "logComponentVerbosity={nothing: 1}")
    server = Server("mark", "-f", "FOLDER/mongod.conf")
    with open(os.path.join(server.folder, "mongod.conf"), "w", encoding="utf-8-sig") as f:
        f.write("systemLog:\n  destination: file\n  path: %s/nagi.log\nnet:\n  bindIp: 127.0.0.1\n  unixDomainSocket:\n    enabled: false\n" % server.folder)
    with server:
        equal("mark", server.client.admin.command("getCmdLineOpts")["parsed"]["net"]["bindIp"], "127.0.0.1")


def repair_in_the_background():
    with Server("repaired") as server:
        server.client.test.c.insert_one({})
    command = [NAGI, "serve", "--dbpath", os.path.join(server.folder, "data"), "--repair", "--fork", "--logpath", os.path.join(server.folder, "repair.log")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    check("repair", ended.returncode == 0 and "failed" not in ended.stdout + ended.stderr, (ended.returncode, ended.stdout, ended.stderr))


class Again(Server):
    """Starts a server on the data of another one."""

    def __init__(self, server, *args):
        self.folder, self.args = server.folder, list(args)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def replica_data():
    """Configurations of replica sets, and starts on their data in another role."""
    def warnings(server):
        return " ".join(server.client.admin.command("getLog", "startupWarnings")["log"])

    with Server("replica", "--replSet", "rs") as server:
        client = server.client
        member = {"_id": 0, "host": "127.0.0.1:%d" % PORT}

        def initiate(**fields):
            client.admin.command("replSetInitiate", {"_id": "rs", "members": [member], **fields})

        equal("configsvr", code_of(lambda: initiate(configsvr=True)),
              (2, "Nodes being used for config servers must be started with the --configsvr flag"))
        equal("protocolVersion", code_of(lambda: initiate(protocolVersion=2)), (2, "protocolVersion field value of 2 is not 1 or 0"))
        equal("settings", code_of(lambda: initiate(settings={"nothing": 1}))[0], 40415)
        initiate(settings={"chainingAllowed": False}, writeConcernMajorityJournalDefault=False)
        config = client.admin.command("replSetGetConfig")["config"]
        equal("shown", (config["settings"]["chainingAllowed"], config["writeConcernMajorityJournalDefault"]), (False, False))
        with client.test.c.watch() as stream:
            client.test.c.insert_one({"_id": 1})
            equal("change streams", stream.next()["documentKey"], {"_id": 1})
        check("snapshot reads", client.admin.command("serverStatus")["storageEngine"]["supportsSnapshotReadConcern"])
        check("no warning", "system.replset" not in warnings(server) and "valid entry" not in warnings(server))
    with Again(server) as alone:
        check("without --replSet", "started without --replSet" in warnings(alone), warnings(alone))
        equal("change streams without a set", code_of(lambda: alone.client.test.c.watch())[0], 40573)
    moved = Again(server, "--replSet", "rs")
    moved.port = free_port()
    with moved:
        check("at another address", "does not have a valid entry" in warnings(moved), warnings(moved))


def version():
    said = subprocess.run([NAGI, "--version"], capture_output=True, text=True).stdout
    # The expression by which mongodb-memory-server reads the version.
    found = re.search(r"^\s*db\s+version\s+v?(\d+\.\d+\.\d+)(-\d*)?(-[a-zA-Z0-9].*)?\s*$", said, re.I | re.M)
    check("version", found and found.group(1).startswith("8.0."), said)


parts = [version, packaged, compressors, other_protocols, passwords, strangers, mechanisms, addresses, quiet,
         verbosity_and_marks, repair_in_the_background, replica_data]
if os.environ.get("FULL"):  # statistics of times, which a busy machine can distort
    parts.append(same_times)
for part in parts:
    section(part)
finish("configurations")

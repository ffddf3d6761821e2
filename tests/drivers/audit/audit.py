"""Tests the audit log with pymongo: audit.py NAGI WORK PORT.

Each part starts a server of its own, runs actions of several clients, and compares the messages in the file, at
the syslog socket or on standard output with what was done.
"""
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

import bson
from bson import json_util
from pymongo import MongoClient

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, fails, finish, section  # noqa: E402

NAGI, WORK, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
URI = "mongodb://127.0.0.1:%d/?directConnection=true&serverSelectionTimeoutMS=30000" % PORT
FIELDS = ["atype", "ts", "uuid", "local", "remote", "users", "roles", "param", "result"]


class Server:
    def __init__(self, name, *args, auth=False):
        self.folder = os.path.join(WORK, name)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(os.path.join(self.folder, "data"))
        self.path = os.path.join(self.folder, "audit.json")
        self.args = [a.replace("FOLDER", self.folder) for a in args] + (["--auth"] if auth else [])
        self.auth = auth

    def __enter__(self):
        usual = ["--dbpath", self.folder + "/data", "--port", str(PORT), "--bind_ip", "127.0.0.1", "--nounixsocket",
                 "--logpath", self.folder + "/nagi.log", "--storageEngine", "inMemory"]
        self.out = open(self.folder + "/stdout", "wb")
        self.process = subprocess.Popen([NAGI, "serve", *usual, *self.args], stdout=self.out, stderr=self.out,
                                        restore_signals=False)  # SIGXFSZ stays ignored, for the limit of files
        self.client = MongoClient(URI, appname="auditor")
        self.client.admin.command("hello")
        if self.auth:
            self.client.admin.command("createUser", "root", pwd="swordfish", roles=["root"])
            self.client.close()
            self.client = self.login("root", "swordfish", "admin")
        return self

    def login(self, user, password, source):
        client = MongoClient(URI, username=user, password=password, authSource=source)
        client.admin.command("ping")
        return client

    def __exit__(self, *_):
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        equal(self.folder + " ends", self.process.wait(60), 0)
        self.out.close()

    def text(self):
        with open(self.path) as f:
            return f.read()


def messages(text):
    found = [json.loads(line) for line in text.splitlines() if line.startswith('{ "atype"')]
    for message in found:
        if list(message) != FIELDS:
            check("fields of a message", False, message)
    return found


def of(found, *kinds):
    return [(m["atype"], m["param"], m["result"]) for m in found if m["atype"] in kinds]


FILE = ("--auditDestination", "file", "--auditPath", "FOLDER/audit.json")


def actions():
    """Successes and failures of several clients; each message names its client's user, roles and connection."""
    with Server("actions", *FILE, auth=True) as server:
        root = server.client
        root.shop.command("createRole", "r", privileges=[], roles=["read"])
        root.shop.command("createUser", "u", pwd="swordfish", roles=["readWrite"], customData={"n": 1})
        root.shop.command("grantRolesToUser", "u", roles=[{"role": "dbAdmin", "db": "shop"}])
        user = server.login("u", "swordfish", "shop")
        user.shop.orders.insert_one({"a": 1})
        user.shop.orders.create_index("a")
        user.shop.orders.rename("old")
        user.shop.old.drop_index("a_1")
        user.shop.old.drop()
        fails("another database", 13, lambda: user.other.c.find_one({"secret": 1}))
        fails("a wrong password", 18, lambda: server.login("u", "wrong", "shop"))
        root.admin.command("setParameter", 1, auditAuthorizationSuccess=True)
        user.shop.orders.count_documents({"b": 2})
        root.admin.command("setParameter", 1, auditAuthorizationSuccess=False)
        root.admin.command("logApplicationMessage", "hello")
        fails("a long message", 2, lambda: root.admin.command("logApplicationMessage", "x" * 1025))
        user.close()
        root.shop.command("updateUser", "u", pwd="swordfish2")
        root.shop.command("dropUser", "u")
        root.shop.command("dropRole", "r")
        root.drop_database("shop")
    found = messages(server.text())
    check("no password", "swordfish" not in server.text())
    equal("the start", found[0]["atype"], "startup")
    # Connections may end after the beginning of the shutdown.
    check("the end", "shutdown" in [m["atype"] for m in found[-5:]], found[-5:])
    roles = [{"role": "readWrite", "db": "shop"}]
    index = {"ns": "shop.orders", "indexName": "a_1", "indexSpec": {"v": 2, "key": {"a": 1}, "name": "a_1"}}
    mine = [m for m in found if m["param"].get("ns", "").startswith("shop") or m["param"].get("db") == "shop"
            or "old" in m["param"]]
    equal("changes of users and roles", of(mine, "createRole", "createUser", "grantRolesToUser", "updateUser", "dropUser",
                                           "dropRole"), [
        ("createRole", {"role": "r", "db": "shop", "roles": [{"role": "read", "db": "shop"}], "privileges": []}, 0),
        ("createUser", {"user": "u", "db": "shop", "customData": {"n": 1}, "roles": roles}, 0),
        ("grantRolesToUser", {"user": "u", "db": "shop", "roles": [{"role": "dbAdmin", "db": "shop"}]}, 0),
        ("updateUser", {"user": "u", "db": "shop", "passwordChanged": True}, 0),
        ("dropUser", {"user": "u", "db": "shop"}, 0),
        ("dropRole", {"role": "r", "db": "shop"}, 0),
    ])
    ddl = of(mine, "createDatabase", "createCollection", "createIndex", "renameCollection", "dropIndex", "dropCollection",
             "dropDatabase")
    equal("collections and indexes", [one for one in ddl if one[1].get("indexName") != "_id_"], [
        ("createDatabase", {"ns": "shop"}, 0),
        ("createCollection", {"ns": "shop.orders"}, 0),
        ("createIndex", dict(index, indexBuildState="IndexBuildStarted"), 0),
        ("createIndex", dict(index, indexBuildState="IndexBuildSucceeded"), 0),
        ("renameCollection", {"old": "shop.orders", "new": "shop.old"}, 0),
        ("dropIndex", {"ns": "shop.old", "indexName": "a_1"}, 0),
        ("dropCollection", {"ns": "shop.old"}, 0),
    ])
    by_user = [m for m in found if m["atype"] == "createCollection" and m["param"]["ns"] == "shop.orders"][0]
    equal("the user of a message", by_user["users"], [{"user": "u", "db": "shop"}])
    check("its roles", {"role": "dbAdmin", "db": "shop"} in by_user["roles"], by_user["roles"])
    equal("the server's end", by_user["local"], {"ip": "127.0.0.1", "port": PORT})
    logins = of(found, "authenticate")
    equal("results of logins", sorted({(p["user"], p["db"], r) for _, p, r in logins}),
          [("root", "admin", 0), ("u", "shop", 0), ("u", "shop", 18)])
    refused, allowed = [[p for _, p, r in of(found, "authCheck") if r == code] for code in (13, 0)]
    equal("refused commands", [(p["command"], p["ns"], p["args"]["filter"]) for p in refused],
          [("find", "other.c", {"secret": 1})])
    check("allowed commands", ("aggregate", "shop.orders") in [(p["command"], p["ns"]) for p in allowed], allowed)
    check("allowed only while it was set", "logApplicationMessage" not in [p["command"] for p in allowed], allowed)
    equal("messages of applications", of(found, "applicationMessage"), [("applicationMessage", {"msg": "hello"}, 0)])
    check("logouts", {p["reason"] for _, p, _ in of(found, "logout")} == {"Implicit logout due to client connection closure"})
    client = [m["param"]["clientMetadata"] for m in found if m["atype"] == "clientMetadata"]
    check("clients", client and client[0]["driver"]["name"].startswith("PyMongo"), client[:1])
    one = {m["uuid"]["$binary"] for m in found if m["remote"] == by_user["remote"]}
    equal("one uuid a connection", len(one), 1)


def filtered():
    """Only what the filter selects is written, and the rest is counted."""
    wanted = '{atype: {$in: ["createCollection", "dropCollection"]}, "param.ns": {$regex: "^shop[.]"}}'
    with Server("filtered", *FILE, "--auditFilter", wanted) as server:
        for name in ("shop", "other"):
            server.client[name].create_collection("c")
            server.client[name].c.drop()
        counts = server.client.admin.command("serverStatus")["nagi"]["audit"]
        check("filtered messages are counted", counts["filtered"] > 5 and counts["dropped"] == 0, counts)
    equal("filtered", [(k, p["ns"]) for k, p, _ in of(messages(server.text()), "createCollection", "dropCollection")],
          [("createCollection", "shop.c"), ("dropCollection", "shop.c")])
    for option, text in (("{a: {$foo: 1}}", "unknown operator: $foo"), ("{a: ", "bad auditLog.filter")):
        args = ["--auditDestination", "console", "--auditFilter", option]
        ended = subprocess.run([NAGI, "serve", "--dbpath", WORK, "--port", str(PORT), *args], capture_output=True, text=True)
        check("refused filter", ended.returncode == 2 and text in ended.stderr, ended)


def runtime():
    """setAuditConfig, which is stored with the data."""
    with Server("runtime", *FILE, "--auditRuntimeConfiguration") as server:
        admin = server.client.admin
        config = admin.command("getAuditConfig")
        equal("the first configuration", (config["filter"], config["auditAuthorizationSuccess"]), ({}, False))
        admin.command("setAuditConfig", 1, filter={"atype": "dropCollection"}, auditAuthorizationSuccess=True)
        server.client.shop.create_collection("c")
        server.client.shop.c.drop()
        config = admin.command("getAuditConfig")
        equal("the next one", (config["filter"], config["auditAuthorizationSuccess"]), ({"atype": "dropCollection"}, True))
        fails("a bad filter", 2, lambda: admin.command("setAuditConfig", 1, filter={"$x": 1}, auditAuthorizationSuccess=True))
    equal("after the change", [m["atype"] for m in messages(server.text())][-1], "dropCollection")
    with Server("not-runtime", *FILE) as server:
        set_config = lambda: server.client.admin.command("setAuditConfig", 1, filter={}, auditAuthorizationSuccess=False)
        fails("345", 345, set_config)
    with Server("none") as server:
        fails("344", 344, set_config)


def rotation():
    """SIGUSR1 and logRotate begin new files; no message is lost meanwhile."""
    with Server("rotation", *FILE) as server:
        stop = threading.Event()
        sent = []

        def talk():
            client = MongoClient(URI)
            while not stop.is_set():
                client.admin.command("logApplicationMessage", str(len(sent)))
                sent.append(len(sent))
            client.close()

        talker = threading.Thread(target=talk)
        talker.start()
        # Names of rotated files have seconds; the second rotation of a second has a number.
        for _ in range(3):
            server.process.send_signal(signal.SIGUSR1)
            time.sleep(0.2)
            server.client.admin.command("logRotate", "audit")
        stop.set()
        talker.join()
    files = [os.path.join(server.folder, n) for n in os.listdir(server.folder) if n.startswith("audit.json")]
    check("rotated files", len(files) >= 5, files)
    found = [m for path in files for m in messages(open(path).read())]
    texts = sorted(int(p["msg"]) for _, p, _ in of(found, "applicationMessage"))
    equal("every message is in one of the files", texts, sent)
    check("rotations are recorded", len(of(found, "rotateLog")) >= 5)


def destinations():
    """BSON, OCSF, and standard output."""
    with Server("bson", *FILE, "--auditFormat", "BSON") as server:
        server.client.shop.create_collection("c")
    with open(server.path, "rb") as f:
        found = bson.decode_all(f.read())
    check("BSON", found[0]["atype"] == "startup" and list(found[0]) == FIELDS, found[:1])
    with Server("ocsf", *FILE, "--auditSchema", "OCSF", auth=True) as server:
        server.client.shop.create_collection("c")
    found = [json_util.loads(line) for line in server.text().splitlines()]
    kinds = {m["unmapped"]["atype"]: m for m in found}
    equal("OCSF", [kinds[k]["type_uid"] for k in ("startup", "createUser", "authenticate", "createCollection")],
          [100701, 300101, 300201, 300401])
    equal("OCSF: the actor", kinds["createCollection"]["actor"]["user"]["name"], "admin.root")
    with Server("console", "--auditDestination", "console") as server:
        server.client.shop.create_collection("c")
    with open(server.folder + "/stdout") as f:
        check("console", "createCollection" in [m["atype"] for m in messages(f.read())])


def full_disk():
    """A file that cannot grow: requests continue, the log tells, and once it can grow again every message is there."""
    def limit(soft):
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))

    def counts_once(what):
        for _ in range(300):
            counts = server.client.admin.command("serverStatus")["nagi"]["audit"]
            if what(counts):
                break
            time.sleep(0.1)
        return counts

    with Server("full", *FILE) as server:
        limit(64 << 10)
        for n in range(300):
            server.client.admin.command("logApplicationMessage", "%d %s" % (n, "x" * 1000))
        counts = counts_once(lambda c: c["writeErrors"] and c["queued"])
        check("errors are counted", counts["writeErrors"] > 0 and counts["queuedBytes"] > 100_000, counts)
        with open(server.folder + "/nagi.log") as f:
            check("errors are logged", '"id":9000172' in f.read())
        limit(resource.RLIM_INFINITY)
        counts = counts_once(lambda c: c["queuedBytes"] == 0)
        equal("nothing is lost", (counts["queuedBytes"], counts["dropped"], counts["failed"]), (0, 0, 0))
    texts = [int(p["msg"].split()[0]) for _, p, _ in of(messages(server.text()), "applicationMessage")]
    equal("every message is written", texts, list(range(300)))


def system_log():
    """The system's log, where nothing else has its socket."""
    import socket
    if os.path.exists("/dev/log") or not os.access("/dev", os.W_OK):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("/dev/log")
        try:
            receiver.settimeout(30)
            with Server("syslog", "--auditDestination", "syslog", "--auditFilter", '{atype: "createCollection"}') as server:
                server.client.shop.create_collection("c")
                head, text = receiver.recv(65536).decode().split("]: ", 1)
            check("the system's log", head.startswith("<13>nagi[") and json.loads(text)["param"] == {"ns": "shop.c"}, text)
        finally:
            os.unlink("/dev/log")


def main():
    for part in (actions, filtered, runtime, rotation, destinations, system_log, full_disk):
        section(part)
    finish("the audit log")


main()

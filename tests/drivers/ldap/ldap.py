"""Tests logins by LDAP with pymongo and mongosh: ldap.py NAGI WORK PORT NODE:MONGOSH.

The directory is slapd, and servers of the tests' own that misbehave (`fake.py`).
"""
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("common", "tls"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))
import fake  # noqa: E402
from checks import Running, check, equal, fails, finish, section, wait_until  # noqa: E402
from directory import GROUPS, PEOPLE, QUERY, QUERY_PASSWORD, Directory, free_port, group  # noqa: E402
from pki import Authority  # noqa: E402
from raw import Raw, plain  # noqa: E402

NAGI, WORK, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
NODE, MONGOSH = sys.argv[4].split(":")
ROOT, ROOT_PASSWORD = "root", "root-secret-7"
BY_NAME = '[{match: "(.+)", substitution: "uid={0},%s"}]' % PEOPLE
BY_MAIL = '[{match: "(.+@.+)", ldapQuery: "%s??one?(mail={0})"}]' % PEOPLE
MEMBER_OF = "{USER}?memberOf?base"
MEMBERS = GROUPS + "??sub?(&(objectClass=groupOfNames)(member={USER}))"
SECRETS = [b"-secret-7"]


class Server:
    """A server with LDAP. `settings`: keys below security.ldap, and server parameters."""

    def __init__(self, name, servers, parameters=(), options=(), auth=True, env=None,
                 mechanisms="PLAIN,SCRAM-SHA-256", **settings):
        self.folder = os.path.join(WORK, name)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder + "/data")
        self.env = {**os.environ, **(env or {})}
        lines = ["security:", "  ldap:", "    servers: '%s'" % servers]
        if "queryUser" not in settings:
            settings = {"queryUser": QUERY, "queryPassword": QUERY_PASSWORD, **settings}
        bind = {key: settings.pop(key) for key in ("queryUser", "queryPassword", "method") if settings.get(key)}
        settings = {key: value for key, value in settings.items() if value}
        template = settings.pop("queryTemplate", None)
        if bind:
            lines += ["    bind:", *("      %s: '%s'" % pair for pair in bind.items())]
        if template:
            lines += ["    authz:", "      queryTemplate: '%s'" % template]
        lines += ["    %s: '%s'" % pair for pair in settings.items()]
        if auth:
            lines.append("  authorization: enabled")
        lines += ["setParameter:", "  authenticationMechanisms: '%s'" % mechanisms, "  authFailedDelayMaxMs: 0",
                  *("  %s: '%s'" % pair for pair in parameters)]
        self.config = self.folder + "/nagi.conf"
        with open(self.config, "w") as f:
            f.write("\n".join(lines) + "\n")
        os.chmod(self.config, 0o600)
        self.args = ["serve", "--config", self.config, "--dbpath", self.folder + "/data", "--port", str(PORT), "--bind_ip",
                     "127.0.0.1", "--nounixsocket", "--storageEngine", "inMemory", *options]

    def __enter__(self):
        self.log = self.folder + "/nagi.log"
        with open(self.folder + "/stdout", "wb") as out:
            self.process = subprocess.Popen([NAGI, *self.args, "--logpath", self.log], stdout=out, stderr=out, env=self.env)
        client = MongoClient("127.0.0.1", PORT, directConnection=True, serverSelectionTimeoutMS=30000)
        try:
            client.admin.command("createUser", ROOT, pwd=ROOT_PASSWORD, roles=["root"])
        except PyMongoError:
            self.process.kill()
            self.process.wait()
            print(self.text()[-3000:], open(self.folder + "/stdout").read())
            raise
        client.close()
        self.root = self.client(ROOT, ROOT_PASSWORD, authSource="admin", authMechanism="SCRAM-SHA-256")
        self.root.admin.command("createRole", group("dbas"), roles=["root"], privileges=[])
        self.root.admin.command("createRole", group("readers"), roles=[{"role": "read", "db": "test"}], privileges=[])
        self.root.test.c.insert_one({"_id": 1})
        return self

    def client(self, user, password, **options):
        usual = {"authMechanism": "PLAIN", "authSource": "$external", "directConnection": True, "maxPoolSize": 1,
                 "serverSelectionTimeoutMS": 30000}
        return MongoClient("127.0.0.1", PORT, username=user, password=password, **{**usual, **options})

    def login(self, user, password):
        client = self.client(user, password)
        client.admin.command("ping")
        return client

    def parameter(self, **value):
        self.root.admin.command({"setParameter": 1, **value})

    def text(self):
        with open(self.log) as f:
            return f.read()

    def __exit__(self, *_):
        self.root.close()
        self.process.send_signal(signal.SIGTERM)
        equal(self.folder + " ends", self.process.wait(60), 0)
        for name in ("nagi.log", "stdout"):
            with open(self.folder + "/" + name, "rb") as f:
                text = f.read()
            check("no password in " + name, not any(secret in text for secret in SECRETS), self.folder)


def tls(directory, authority, **more):
    return {"servers": "localhost:%d" % directory.tls_port, "tlsCAFile": authority.file, **more}


def plainly(directory, **more):
    return {"servers": "127.0.0.1:%d" % directory.port, "transportSecurity": "none", **more}


def roles_of(client):
    return client.admin.command("connectionStatus")["authInfo"]["authenticatedUserRoles"]


def logins(directory, authority):
    """Users, their roles, and every refused login, over TLS to slapd."""
    settings = tls(directory, authority, userToDNMapping=BY_NAME, queryTemplate=MEMBER_OF)
    audit = WORK + "/audit.json"
    options = ("--auditDestination", "file", "--auditPath", audit)
    with Server("logins", options=options, **settings) as server:
        ann = server.login("ann", "ann-secret-7")
        status = ann.admin.command("connectionStatus", showPrivileges=True)["authInfo"]
        equal("the user", status["authenticatedUsers"], [{"user": "ann", "db": "$external"}])
        check("its roles", {"role": group("dbas"), "db": "admin"} in status["authenticatedUserRoles"], status)
        check("root by the role", {"role": "root", "db": "admin"} in status["authenticatedUserRoles"], status)
        for who in (server.root, ann):
            equal("a user that is not stored is not listed", who["$external"].command("usersInfo", "ann")["users"], [])
        ann.other.c.insert_one({})
        bob = server.login("bob", "bob-secret-7")
        equal("a reader reads", bob.test.c.count_documents({}), 1)
        fails("a reader does not write", 13, lambda: bob.test.c.insert_one({}))
        check("a group of groups", {"role": group("readers"), "db": "admin"} in roles_of(bob), roles_of(bob))
        server.root.admin.command("createRole", group("staff"), privileges=[], roles=[{"role": "read", "db": "staff"}])
        check("a nested group", {"role": group("staff"), "db": "admin"} in roles_of(bob), roles_of(bob))
        carl = server.login("carl", "carl-secret-7")
        equal("no group", roles_of(carl), [])
        fails("no role, no rights", 13, lambda: carl.test.c.find_one())
        equal("a name with a comma", server.login("o,neil", "neil-secret-7").test.c.count_documents({}), 1)
        check("a name in UTF-8", roles_of(server.login("m\u00fcller", "m\u00fcller-secret-7")) != [])
        fails("a wrong password", 18, lambda: server.login("ann", "wrong-secret-7"))
        fails("an unknown user", 18, lambda: server.login("nobody", "ann-secret-7"))
        refusals()
        restrictions(server)
        shown(server)
        equal("mongosh", mongosh("ann", "ann-secret-7", "print(db.runCommand({connectionStatus: 1}).authInfo"
                                 ".authenticatedUsers[0].user)"), "ann")
        info = server.root.admin.command("serverStatus")
        mechanism = info["security"]["authentication"]["mechanisms"]["PLAIN"]["authenticate"]
        check("counted", 0 < mechanism["successful"] < mechanism["received"], mechanism)
        equal("one server", [s["isDown"] for s in info["ldapConnPool"]["ldapServerStats"]], [False])
        check("binds", info["ldapOperations"]["bindStats"]["numOp"] > 5, info["ldapOperations"])
        # Passwords are checked on connections that are kept: most logins open none.
        created = info["ldapConnPool"]["ldapServerStats"][0]["totalCreated"]
        check("kept connections", created < info["ldapOperations"]["bindStats"]["numOp"], info["ldapConnPool"])
        text = server.text()
        for sign in ('"id":5286306', '"id":5286307', '"mechanism":"PLAIN"', "LDAP bind failed: invalidCredentials (49)"):
            check("the log has " + sign, sign in text)
        for client in (ann, bob, carl):
            client.close()
    with open(audit) as f:
        text = f.read()
    check("no password in the audit log", "-secret-7" not in text)
    messages = [line for line in text.splitlines() if '"authenticate"' in line and '"PLAIN"' in line]
    results = {line.rsplit('"result"', 1)[1].strip(' :}') for line in messages}
    check("audited", {"0", "18"} <= results, results)


def refusals():
    """Bare messages: injections, missing parts, other databases."""
    for name in ("*", "*)(uid=*", "ann)(uid=*", "ann)(|(uid=*", "ann,ou=people", "ann+uid=bob", "uid=ann", "ann\\2c", "a*",
                 "#ann", "ann\n", '"ann"', "ann=", "<ann>", "ann;x", "\u0430nn", ""):
        equal("refused: %r" % name, plain(PORT, name, "ann-secret-7"), 18)
    for payload in (b"", b"\0", b"\0\0", b"\0ann\0", b"\0\0ann-secret-7", b"bob\0ann\0ann-secret-7", b"\0ann\0ann-secret-7\0",
                    b"\0ann\0wrong\0ann-secret-7", b"ann", b"\xff\xfe\0\xff", b"\0ann\0" + b"x" * 20_000, b"\0" * 1000):
        with Raw(PORT) as raw:
            reply = raw.plain(payload)
            equal("refused: %r" % payload[:20], (reply["ok"], reply.get("code")), (0, 18))
            equal("nothing to continue", raw.run({"saslContinue": 1, "conversationId": 1, "payload": b""}, "$external")["code"], 17)
    # The directory compares names without regard to case and outer spaces: these are the same entry.
    for name in ("ANN", " ann "):
        equal("another spelling: %r" % name, plain(PORT, name, "ann-secret-7"), 0)
    equal("another database", plain(PORT, "ann", "ann-secret-7", "admin"), 18)
    with Raw(PORT) as raw:
        reply = raw.plain(b"ann\0ann\0ann-secret-7")
        equal("with an identity", (reply["ok"], reply["done"], reply["payload"]), (1, True, b""))
        equal("another user", raw.plain(b"\0bob\0bob-secret-7")["code"], 5626701)
    with Raw(PORT) as raw:
        equal("a mechanism that is not enabled",
              raw.run({"saslStart": 1, "mechanism": "SCRAM-SHA-1", "payload": b""}, "$external")["code"], 334)


def restrictions(server):
    role = {"authenticationRestrictions": [{"clientSource": ["10.9.8.7"]}]}
    server.root.admin.command("updateRole", group("readers"), **role)
    fails("a role restricts the address", 18, lambda: server.login("bob", "bob-secret-7"))
    server.root.admin.command("updateRole", group("readers"), authenticationRestrictions=[])
    server.login("bob", "bob-secret-7").close()


def shown(server):
    """The password of queries is shown nowhere; the other settings are."""
    admin = server.root.admin
    options = str(admin.command("getCmdLineOpts"))
    check("options", "<password>" in options and "-secret-7" not in options, options)
    value = admin.command("getParameter", 1, ldapQueryPassword=1, ldapQueryUser=1, ldapTimeoutMS=1, ldapServers=1)
    equal("parameters", (value["ldapQueryPassword"], value["ldapQueryUser"], value["ldapTimeoutMS"]), ("###", QUERY, 10000))
    check("everything", "-secret-7" not in str(admin.command("getParameter", "*")))
    admin.command("profile", 2)
    server.parameter(ldapQueryPassword=QUERY_PASSWORD)
    admin.command("profile", 0)
    check("the profile", "-secret-7" not in str(list(admin["system.profile"].find())))
    check("getLog", "-secret-7" not in str(admin.command("getLog", "global")))
    fails("a bad value", 2, lambda: server.parameter(ldapServers=""))
    fails("a bad mapping", 2, lambda: server.parameter(ldapUserToDNMapping="{"))
    server.parameter(ldapTimeoutMS=9000)
    equal("a number", admin.command("getParameter", 1, ldapTimeoutMS=1)["ldapTimeoutMS"], 9000)
    server.parameter(ldapQueryPassword="wrong-secret-7")
    # Its roles were read before, so they are not read again.
    equal("the password of queries is wrong", plain(PORT, "m\u00fcller", "m\u00fcller-secret-7"), 18)
    server.parameter(ldapQueryPassword=QUERY_PASSWORD)
    equal("and right again", plain(PORT, "m\u00fcller", "m\u00fcller-secret-7"), 0)


def mongosh(user, password, script):
    uri = "mongodb://%s:%s@127.0.0.1:%d/test?authMechanism=PLAIN&authSource=%%24external" % (user, password, PORT)
    done = subprocess.run([NODE, MONGOSH, "--quiet", uri, "--eval", script], capture_output=True, text=True, timeout=120)
    return done.stdout.strip() or done.stderr[-500:]


def queries(directory, authority):
    """Names and groups by queries."""
    settings = tls(directory, authority, userToDNMapping=BY_MAIL, queryTemplate=MEMBERS)
    with Server("queries", env={"LDAPTLS_CACERT": authority.file}, **{**settings, "tlsCAFile": None}) as server:
        ann = server.login("ann@example.org", "ann-secret-7")
        check("the group", {"role": group("dbas"), "db": "admin"} in roles_of(ann), roles_of(ann))
        equal("a name with a comma", plain(PORT, "neil@example.org", "neil-secret-7"), 0)
        for name in ("twin@example.org", "ann", "*@example.org", "ann@*", "x@example.org)(uid=*", "none@example.org"):
            equal("refused: %r" % name, plain(PORT, name, "twin-secret-7"), 18)
            equal("refused with another password: %r" % name, plain(PORT, name, "ann-secret-7"), 18)
        check("two entries", "finds several entries" in server.text())
        # The only group of this user is no role.
        equal("a group without a role", plain(PORT, "mueller@example.org", "m\u00fcller-secret-7"), 0)
        told = [line for line in server.text().splitlines() if '"id":8200240' in line]
        check("the log tells of it", len(told) == 1 and group("staff") in told[0], told)
        server.parameter(ldapUserToDNMapping=BY_NAME)
        equal("another mapping", plain(PORT, "ann", "ann-secret-7"), 0)
        server.parameter(ldapAuthzQueryTemplate="%s??sub?(|(cn=readers)(member={USER}))" % GROUPS)
        carl = server.login("carl", "carl-secret-7")
        equal("another query", [r["role"] for r in roles_of(carl) if r["db"] == "admin"], [group("readers")])
        try:
            server.parameter(ldapAuthzQueryTemplate="%s??sub?(cn=readers)" % GROUPS)
            check("a query of all groups for everyone is refused", False)
        except OperationFailure as error:
            check("a query of all groups for everyone is refused", "neither {USER}" in str(error), error)
        server.parameter(ldapAuthzQueryTemplate="ou=nope,%s??sub?(member={USER})" % GROUPS)
        equal("a base that does not exist", plain(PORT, "bob", "bob-secret-7"), 18)
        text = server.text()
        check("the log names the code and the base", "noSuchObject (32)" in text and "base 'ou=nope," in text)
        server.parameter(ldapAuthzQueryTemplate="uid={PROVIDED_USER},%s?cn" % PEOPLE)
        server.root.admin.command("invalidateUserCache")
        equal("values that are no names grant nothing", roles_of(carl), [])


def changes(directory, authority):
    """Groups that change and users that go take effect on open connections."""
    directory.add("eve", "eve-secret-7", "eve@example.org")
    settings = tls(directory, authority, userToDNMapping=BY_NAME, queryTemplate=MEMBER_OF)
    with Server("changes", parameters=(("ldapUserCacheRefreshInterval", 1),), **settings) as server:
        eve = server.login("eve", "eve-secret-7")
        reads = lambda: not raises(lambda: eve.test.c.find_one())  # noqa: E731
        check("no group yet", not reads())
        directory.join("readers", "eve")
        check("the role appears", wait_until(reads, 10))
        directory.leave("readers", "eve")
        check("the role disappears", wait_until(lambda: not reads(), 10))
        server.parameter(ldapUserCacheRefreshInterval=3600)
        time.sleep(1.5)
        directory.join("readers", "eve")
        check("no refresh, no change", not reads())
        server.root.admin.command("invalidateUserCache")
        check("after invalidateUserCache", reads())
        directory.leave("readers", "eve")
        server.parameter(ldapShouldRefreshUserCacheEntries=False, ldapUserCacheInvalidationInterval=1)
        check("after the invalidation interval", wait_until(lambda: not reads(), 10))
        directory.join("readers", "eve")
        check("and again", wait_until(reads, 10))
        server.parameter(ldapShouldRefreshUserCacheEntries=True)
        server.parameter(ldapUserCacheRefreshInterval=1)
        directory.delete("eve")
        check("a deleted user has no rights", wait_until(lambda: not reads(), 10))
        equal("and is logged out", eve.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"], [])
        equal("and cannot log in", plain(PORT, "eve", "eve-secret-7"), 18)


def raises(f):
    try:
        f()
    except OperationFailure:
        return True
    return False


def outages(directory, authority):
    """slapd is killed and started again while users log in."""
    settings = tls(directory, authority, userToDNMapping=BY_NAME, queryTemplate=MEMBER_OF, timeoutMS="2000")
    dead = free_port()
    settings["servers"] = "localhost:%d,%s" % (dead, settings["servers"])
    with Server("outages", parameters=(("ldapUserCacheRefreshInterval", 1),), **settings) as server:
        bob = server.login("bob", "bob-secret-7")
        stats = server.root.admin.command("serverStatus")["ldapConnPool"]["ldapServerStats"]
        equal("the first server is down", [s["isDown"] for s in stats], [True, False])
        codes, stop = [], threading.Event()

        def log_in():
            while not stop.is_set():
                codes.append(plain(PORT, "ann", "ann-secret-7"))

        threads = [threading.Thread(target=log_in) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        directory.kill()
        until = time.monotonic() + 4
        while time.monotonic() < until:
            server.client(ROOT, ROOT_PASSWORD, authSource="admin", authMechanism="SCRAM-SHA-256").admin.command("ping")
            equal("an open connection keeps its roles", bob.test.c.count_documents({}), 1)
            time.sleep(0.2)
        directory.start()
        check("logins succeed again", wait_until(lambda: plain(PORT, "carl", "carl-secret-7") == 0, 40))
        stop.set()
        for thread in threads:
            thread.join(60)
        equal("nothing but successes and refusals", set(codes), {0, 18})
        equal("the role is still there", bob.test.c.count_documents({}), 1)
        check("refreshed again", "could not be refreshed" in server.text())


def hostile():
    """Servers that misbehave: a login fails within its time, and nothing else does."""
    settings = {"transportSecurity": "none", "timeoutMS": "1500", "validateLDAPServerConfig": "false", "queryUser": None}
    fakes = {name: fake.Fake(answer) for name, answer in {**fake.HOSTILE, **fake.HOSTILE_SEARCH}.items()}
    with Server("hostile", servers="127.0.0.1:1", queryTemplate="{USER}?memberOf", **settings) as server:
        before = server.root.admin.command("serverStatus")["mem"]["resident"]
        for name, one in fakes.items():
            server.parameter(ldapServers="127.0.0.1:%d" % one.port)
            began = time.monotonic()
            equal(name, plain(PORT, "uid=" + name, "x-secret-7"), 18)
            check(name + " in time", time.monotonic() - began < 8, time.monotonic() - began)
            equal(name + " harms nobody", server.root.test.c.count_documents({}), 1)
        after = server.root.admin.command("serverStatus")["mem"]["resident"]
        check("memory", after - before < 200, (before, after))
        text = server.text()
        for reason in ("is not LDAP", "more than 1048576 bytes", "did not answer in time", "closed the connection", "another request",
                       "another message", "referrals are not followed", "busy", "shutting down", "more than 8388608 bytes"):
            check("the log has: " + reason, reason in text)
        # The next server is tried, and each has its share of the time.
        good = fake.Fake(fake.honest)
        server.parameter(ldapServers="127.0.0.1:%d,127.0.0.1:%d" % (fakes["silent"].port, good.port))
        equal("another server answers", plain(PORT, "uid=other", "x-secret-7"), 0)
        began = time.monotonic()
        equal("and is tried first", plain(PORT, "uid=another", "x-secret-7"), 0)
        check("at once", time.monotonic() - began < 0.5, time.monotonic() - began)


def crowd():
    """Two hundred logins at once, with an LDAP server that takes two seconds, beside logins and requests of others."""
    slow = fake.Fake(fake.slow(2))
    settings = {"transportSecurity": "none", "validateLDAPServerConfig": "false", "queryUser": None, "timeoutMS": "30000"}
    with Server("crowd", servers="127.0.0.1:%d" % slow.port, **settings) as server:
        server.root["$external"].command("createUser", "uid=x", roles=[{"role": "read", "db": "test"}])
        codes = []
        began = time.monotonic()
        threads = [threading.Thread(target=lambda: codes.append(plain(PORT, "uid=x", "x-secret-7"))) for _ in range(200)]
        for thread in threads:
            thread.start()
        pings, scrams = [], []
        while any(thread.is_alive() for thread in threads):
            at = time.monotonic()
            server.root.admin.command("ping")
            pings.append(time.monotonic() - at)
            at = time.monotonic()
            with server.client(ROOT, ROOT_PASSWORD, authSource="admin", authMechanism="SCRAM-SHA-256") as other:
                other.admin.command("ping")
            scrams.append(time.monotonic() - at)
            time.sleep(0.02)
        took = time.monotonic() - began
        equal("all logins succeed", (len(codes), set(codes)), (200, {0}))
        check("at most 64 at the same time", slow.most <= 64, slow.most)
        check("in four rounds", took < 20, took)
        check("pings go on", sorted(pings)[len(pings) // 2] < 0.1 and max(pings) < 1, (sorted(pings)[-5:]))
        check("SCRAM logins go on", sorted(scrams)[len(scrams) // 2] < 0.5 and max(scrams) < 2, sorted(scrams)[-5:])
        print("crowd: 200 logins in %.1f s, ping p50 %.1f ms max %.1f ms, SCRAM login p50 %.1f ms max %.1f ms" % (
            took, *(1000 * n for n in (sorted(pings)[len(pings) // 2], max(pings), sorted(scrams)[len(scrams) // 2], max(scrams)))))
        # Beyond the time, a login that waits for others is refused.
        def in_use():
            return server.root.admin.command("serverStatus")["ldapConnPool"]["inUse"]

        server.parameter(ldapServers="127.0.0.1:%d" % fake.Fake(fake.slow(6)).port)
        first = [Running(lambda: plain(PORT, "uid=x", "x-secret-7")) for _ in range(64)]
        check("all slots are in use", wait_until(lambda: in_use() == 64, 5))
        server.parameter(ldapTimeoutMS=500)
        second = [Running(lambda: plain(PORT, "uid=x", "x-secret-7")) for _ in range(30)]
        equal("those that waited too long are refused", {thread.code() for thread in second}, {18})
        equal("the others are not", {thread.code() for thread in first}, {0})
        equal("counted", server.root.admin.command("serverStatus")["ldapConnPool"]["timedOutWaiting"], 30)
        log = server.text()
        check("the reason", "too many requests wait for the LDAP servers" in log)


def throttle():
    """Guesses of passwords are delayed as for SCRAM; failures of LDAP itself are not."""
    def refuse(request, id_, send):
        send(fake.message(id_, fake.result(0x61, 49)))

    one = fake.Fake(refuse)
    settings = {"transportSecurity": "none", "validateLDAPServerConfig": "false", "queryUser": None, "timeoutMS": "1000"}
    parameters = (("authFailedDelayMaxMs", 2000),)
    server = Server("throttle", servers="127.0.0.1:%d" % one.port, **settings)
    with open(server.config) as f:
        text = f.read().replace("authFailedDelayMaxMs: 0", "%s: %d" % parameters[0])
    with open(server.config, "w") as f:
        f.write(text)
    with server:
        times = []
        for _ in range(6):
            began = time.monotonic()
            equal("refused", plain(PORT, "uid=x", "x-secret-7"), 18)
            times.append(time.monotonic() - began)
        check("delays grow", times[0] < 0.1 and times[3] >= 0.1 and times[5] >= 0.4, times)
        one.close()
        server.parameter(ldapServers="127.0.0.1:1")
        began = time.monotonic()
        equal("no server", plain(PORT, "uid=x", "x-secret-7"), 18)
        check("not delayed", time.monotonic() - began < 0.3, time.monotonic() - began)


def stored(directory):
    """Without a query for groups, users have the roles of their documents."""
    with Server("stored", **plainly(directory, userToDNMapping=BY_NAME)) as server:
        fails("a user without a document", 18, lambda: server.login("ann", "ann-secret-7"))
        external = server.root["$external"]
        external.command("createUser", "ann", roles=[{"role": "readWrite", "db": "test"}])
        ann = server.login("ann", "ann-secret-7")
        ann.test.c.insert_one({})
        fails("only its roles", 13, lambda: ann.other.c.insert_one({}))
        external.command("revokeRolesFromUser", "ann", roles=[{"role": "readWrite", "db": "test"}])
        fails("revoked", 13, lambda: ann.test.c.insert_one({}))
        info = external.command("usersInfo", "ann")["users"][0]
        equal("usersInfo", (info["user"], info["db"], info["roles"]), ("ann", "$external", []))
        external.command("dropUser", "ann")
        fails("dropped", 13, lambda: ann.test.c.find_one())
        ann.close()
        text = server.text()
        check("PLAIN without TLS is told", '"id":8200221' in text)


def certificates(directory, authority):
    """A user with a certificate has the roles of its groups, too."""
    rules = '[{match: "CN=([^,]+),O=Users", substitution: "uid={0},%s"}]' % PEOPLE
    own = authority.sign("nagi", "/O=Example/OU=Servers/CN=nagi", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    options = ("--tlsMode", "allowTLS", "--tlsCertificateKeyFile", own, "--tlsCAFile", authority.file,
               "--tlsAllowConnectionsWithoutCertificates")
    settings = plainly(directory, userToDNMapping=rules, queryTemplate=MEMBER_OF)
    with Server("certificates", options=options, mechanisms="MONGODB-X509,PLAIN,SCRAM-SHA-256", **settings) as server:
        def client(name, *more):
            file = authority.sign(name, "/O=Users/CN=" + name, "extendedKeyUsage=clientAuth")
            return server.client(None, None, authMechanism="MONGODB-X509", tls=True, tlsCAFile=authority.file,
                                 tlsCertificateKeyFile=file)

        bob = client("bob")
        equal("reads by its group", bob.test.c.count_documents({}), 1)
        equal("the user", bob.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"],
              [{"user": "CN=bob,O=Users", "db": "$external"}])
        fails("and does not write", 13, lambda: bob.test.c.insert_one({}))
        fails("a certificate of nobody in the directory", 18, lambda: client("nobody").admin.command("ping"))
        equal("the name of a certificate with a password", plain(PORT, "CN=bob,O=Users", "bob-secret-7"), 0)


def starts(directory, authority, other):
    """Configurations with which the server does not start, and why."""
    good = plainly(directory, userToDNMapping=BY_NAME)
    dead = {"servers": "127.0.0.1:%d" % free_port(), "transportSecurity": "none"}
    for name, settings, reason in [
        ("dead", dead, "Can't connect to the specified LDAP servers"),
        ("password", {**good, "queryUser": QUERY, "queryPassword": "wrong-secret-7"}, "the login of the user of queries failed"),
        ("authority", {**tls(directory, authority), "tlsCAFile": other.file}, "the certificate of the server is not accepted"),
        ("host", {**tls(directory, authority), "servers": "127.0.0.2:%d" % directory.tls_port}, "Can't connect"),
        ("file", tls(directory, authority, tlsCAFile="/none.pem"), "tlsCAFile /none.pem"),
        ("mapping", {**good, "userToDNMapping": "{}"}, "userToDNMapping"),
        ("template", {**good, "queryTemplate": "{NAME}"}, "queryTemplate"),
        ("template-of-all", {**good, "queryTemplate": "%s??sub?(objectClass=groupOfNames)" % GROUPS}, "neither {USER} nor {PROVIDED_USER}"),
        ("srv", {**good, "servers": "srv:example.org"}, "not looked up by SRV records"),
        ("sasl", {**good, "method": "sasl"}, "simple binds"),
        ("half", {**good, "queryUser": QUERY, "queryPassword": None}, "must be used together"),
    ]:
        server = Server("start-" + name, **settings)
        done = subprocess.run([NAGI, *server.args], capture_output=True, text=True, timeout=60, env=server.env)
        said = done.stdout + done.stderr
        check("does not start: " + name, done.returncode != 0 and reason in said, (done.returncode, said[-800:]))
        check("no password: " + name, "-secret-7" not in said)
    with Server("start-unchecked", validateLDAPServerConfig="false", **dead) as server:
        equal("logins fail", plain(PORT, "ann", "ann-secret-7"), 18)


def ldap_check(settings, *args, user="ann", password="ann-secret-7", **more):
    """Exit status, verdicts by step, and text of `nagi ldap-check`."""
    server = Server("check", **settings, **more)
    env = {**server.env, "NAGI_PASSWORD": password} if password else server.env
    done = subprocess.run([NAGI, "ldap-check", "--config", server.config, "--user", user, *args],
                          capture_output=True, text=True, timeout=60, env=env)
    text = done.stdout + done.stderr
    check("no password in a check", "-secret-7" not in text, text)
    lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
    return done.returncode, {line[7:].split(" '")[0].split()[0]: line[:6].strip() for line in lines}, text


def checked(directory, authority, other):
    """`nagi ldap-check` goes through a login without a server, and tells each step that fails."""
    good = tls(directory, authority, userToDNMapping=BY_NAME, queryTemplate=MEMBER_OF)
    steps = ["security.ldap", "authenticationMechanisms", "server", "bind.queryUser", "userToDNMapping", "password",
             "authz.queryTemplate"]
    status, verdicts, text = ldap_check(good)
    equal("all steps pass", (status, verdicts), (0, dict.fromkeys(steps, "[OK]")))
    check("the groups", "* " + group("dbas") in text and "'uid=ann," + PEOPLE + "'" in text, text)
    status, verdicts, text = ldap_check(good, password="wrong-secret-7")
    equal("a wrong password", (status, verdicts), (1, {**dict.fromkeys(steps, "[OK]"), "password": "[FAIL]"}))
    check("its reason", "LDAP bind failed: invalidCredentials (49)" in text, text)
    status, verdicts, _ = ldap_check(good, password=None)
    equal("no password", (status, verdicts["password"], verdicts["authz.queryTemplate"]), (0, "[SKIP]", "[OK]"))
    file = WORK + "/ann.password"
    with open(file, "w") as f:
        f.write("ann-secret-7\n")
    os.chmod(file, 0o600)
    equal("from a file", ldap_check(good, "--passwordFile", file, password=None)[:2], (0, dict.fromkeys(steps, "[OK]")))
    equal("as an argument", ldap_check(good, "--password", "ann-secret-7", password=None)[0], 0)
    after = {"password": "[SKIP]", "authz.queryTemplate": "[SKIP]"}
    for name, settings, more, expected, reason in [
        ("an unknown user", {**good, "userToDNMapping": BY_MAIL}, {"user": "nobody@example.org"},
         {"userToDNMapping": "[FAIL]", **after}, "finds no entry"),
        ("no rule", {**good, "userToDNMapping": BY_MAIL}, {}, {"userToDNMapping": "[FAIL]", **after}, "no document of"),
        ("the user of queries", {**good, "queryUser": QUERY, "queryPassword": "wrong-secret-7"}, {},
         {"bind.queryUser": "[FAIL]", "userToDNMapping": "[SKIP]", **after}, "invalidCredentials (49)"),
        ("another authority", {**good, "tlsCAFile": other.file}, {},
         {"server": "[FAIL]", "userToDNMapping": "[SKIP]", **after}, "certificate of the server is not accepted"),
        ("no PLAIN", good, {"mechanisms": "SCRAM-SHA-256"}, {"authenticationMechanisms": "[FAIL]"}, "PLAIN is missing"),
        ("no template", {**good, "queryTemplate": None}, {}, {"authz.queryTemplate": "[SKIP]"}, "roles of their documents"),
    ]:
        status, verdicts, text = ldap_check(settings, **more)
        found = {step: verdicts.get(step) for step in expected}
        equal(name, (status, found), (int("[FAIL]" in expected.values()), expected))
        check(name + ": its reason", reason in text, text)
    dead = "127.0.0.1:%d" % free_port()
    status, verdicts, text = ldap_check({**plainly(directory, userToDNMapping=BY_NAME, queryTemplate=MEMBER_OF),
                                         "servers": "127.0.0.1:%d,%s" % (directory.port, dead)})
    equal("one server of two", (status, verdicts["password"]), (1, "[OK]"))
    check("names it", "[FAIL] server " + dead in text and "without TLS" in text, text)
    empty = WORK + "/none.conf"
    with open(empty, "w") as f:
        f.write("security:\n  authorization: enabled\n")
    done = subprocess.run([NAGI, "ldap-check", "--config", empty, "--user", "ann"], capture_output=True, text=True, timeout=60)
    check("without LDAP", done.returncode == 1 and "[FAIL] security.ldap.servers" in done.stdout, done.stdout)


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    authority = Authority(WORK + "/authority", "/O=Example/CN=Authority")
    other = Authority(WORK + "/other", "/O=Other/CN=Other")
    directory = Directory(WORK + "/slapd", authority)
    try:
        section(logins, directory, authority)
        section(queries, directory, authority)
        section(changes, directory, authority)
        section(outages, directory, authority)
        section(stored, directory)
        section(certificates, directory, authority)
        section(starts, directory, authority, other)
        section(checked, directory, authority, other)
        section(hostile)
        section(crowd)
        section(throttle)
    finally:
        directory.stop()
    finish("ldap")


main()

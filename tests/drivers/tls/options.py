"""Options around TLS: options.py NAGI FOLDER PORT.

Parameters, warnings at the start, passwords in the command line, names of members, horizons, and this program as a client
with TLS. Prints each failure and a count.
"""
import os
import shutil
import subprocess
import sys

import pymongo

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import pki  # noqa: E402
import server  # noqa: E402
from checks import check, equal, fails, finish, section, wait_until  # noqa: E402

NAGI, WORK, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
CLIENT = "extendedKeyUsage=clientAuth"
SERVER = "/O=Nagi/OU=Servers/CN=localhost"
ALICE = "CN=alice,OU=Clients,O=Nagi"

shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(WORK)
ca = pki.Authority(os.path.join(WORK, "ca"), "/O=Nagi/CN=authority")
other = pki.Authority(os.path.join(WORK, "other"), "/O=Other/CN=authority")
server_pem = ca.sign("server", SERVER, pki.LOCAL)
alice_pem = ca.sign("alice", "/O=Nagi/OU=Clients/CN=alice", CLIENT)
KEY = ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", server_pem]
TLS = [*KEY, "--tlsCAFile", ca.file]


def start(*flags, **how):
    return server.Server(NAGI, WORK, PORT, *flags, **how)


def client(host="localhost", **options):
    options = {"tls": True, "tlsCAFile": ca.file, "tlsCertificateKeyFile": alice_pem, "serverSelectionTimeoutMS": 5000,
               "directConnection": True, **options}
    return pymongo.MongoClient(host, PORT, **options)


def set_to(*pairs):
    return [flag for pair in pairs for flag in ("--setParameter", pair)]


def parameters():
    told = ("disabledSecureAllocatorDomains=*", "ocspCacheSize=10", "ocspStaplingRefreshPeriodSecs=60", "ocspValidationRefreshPeriodSecs=60",
            "opensslDiffieHellmanParameters=/nowhere.pem", "sslWithholdClientCertificate=true", "tlsWithholdClientCertificate=true",
            "tlsOCSPSlowResponderWarningSecs=1", "tlsOCSPStaplingTimeoutSecs=1", "tlsOCSPVerifyTimeoutSecs=1")
    kept = ("ocspEnabled=false", "tlsUseSystemCA=false", "tlsX509ExpirationWarningThresholdDays=0", "suppressNoTLSPeerCertificateWarning=true")
    with start(*TLS, *set_to(*told, *kept)) as running, client() as c:
        for pair in told:
            name = pair.split("=")[0]
            logged = [line for line in running.text().splitlines() if name in line and "no effect" in line]
            equal(name + " is logged to have no effect", len(logged), 1)
            check(name + " is shown", name in c.admin.command("getParameter", 1, **{name: 1}))
    for pair in ("ocspEnabled=true", "tlsUseSystemCA=true"):
        server.starts_not(NAGI, WORK, PORT, pair, "can only be set to its default", *TLS, *set_to(pair), status=2)
    for pair, says in (("tlsOCSPVerifyTimeoutSecs=0", "greater than or equal to 1"), ("tlsX509ExpirationWarningThresholdDays=-1", "greater than or equal to 0")):
        server.starts_not(NAGI, WORK, PORT, pair, says, *TLS, *set_to(pair), status=2)


def refused_options():
    for name, says, *flags in (
            ("tlsCertificateSelector", "certificates are in files", "--tlsCertificateSelector", "subject=x"),
            ("tlsClusterCertificateSelector", "certificates are in files", "--tlsClusterCertificateSelector", "subject=x"),
            ("clusterAuthMode x509", "clusterAuthMode", "--clusterAuthMode", "x509"),
            ("clusterAuthMode sendX509", "clusterAuthMode", "--clusterAuthMode", "sendX509"),
            ("FIPS", "not certified by FIPS 140", "--tlsFIPSMode", "true")):
        server.starts_not(NAGI, WORK, PORT, name, says, *TLS, *flags, status=2)
    config = os.path.join(WORK, "x509.conf")
    for key in ("attributes: 'O=Nagi'", "extensionValue: x"):
        with open(config, "w") as f:
            f.write("net:\n  tls:\n    mode: requireTLS\n    certificateKeyFile: %s\n    clusterAuthX509:\n      %s\n" % (server_pem, key))
        server.starts_not(NAGI, WORK, PORT, key, "no other one logs in", "--config", config, status=2)


def warnings_of(*flags):
    with start(*flags) as running:
        return {line["id"]: line for line in running.lines(*range(8200181, 8200189)) if "startupWarnings" in line.get("tags", [])}


def warnings():
    seen = warnings_of(*TLS, "--auth", *set_to("enableTestCommands=1"))
    equal("no users, test commands", sorted(seen), [8200183, 8200185])
    check("what closes the door", "create a user" in seen[8200183]["attr"]["fix"], seen)
    equal("none without logins of the first user", sorted(warnings_of(*TLS, "--auth", *set_to("enableLocalhostAuthBypass=false"))), [])
    sealed = os.path.join(WORK, "sealed.pem")
    with open(sealed, "w") as f:
        f.write(open(ca.path("server.crt")).read() +
                pki.openssl("pkcs8", "-topk8", "-passout", "pass:s3cret", "-in", ca.path("server.key")))
    os.chmod(sealed, 0o600)
    config = os.path.join(WORK, "nagi.conf")
    with open(config, "w") as f:
        f.write("net:\n  tls:\n    mode: requireTLS\n    certificateKeyFile: %s\n    certificateKeyFilePassword: s3cret\n" % sealed)
    for mode, expected in ((0o644, [8200184]), (0o600, [])):
        os.chmod(config, mode)
        equal("a configuration with a password, mode %o" % mode, sorted(warnings_of("--config", config)), expected)
    for flags in (["--tlsCertificateKeyFilePassword", "s3cret"], ["--tlsCertificateKeyFilePassword=s3cret"]):
        with start("--tlsMode", "requireTLS", "--tlsCertificateKeyFile", sealed, *flags) as running:
            line = open("/proc/%d/cmdline" % running.process.pid).read()
            check("the password is erased", "s3cret" not in line and "--tlsCertificateKeyFilePassword" in line and "xxxxxx" in line, line)
            equal("and warned of", [line["attr"]["place"] for line in running.lines(8200187)], ["--tlsCertificateKeyFilePassword"])
            check("in no line of the log", "s3cret" not in running.text())
    fork = [NAGI, "--fork", "--storageEngine", "inMemory", "--dbpath", WORK, "--port", str(PORT), "--unixSocketPrefix", WORK, "--logpath",
            os.path.join(WORK, "forked.log"), "--pidfilepath", os.path.join(WORK, "pid"), "--tlsMode", "requireTLS",
            "--tlsCertificateKeyFile", sealed, "--tlsCertificateKeyFilePassword", "s3cret"]
    done = subprocess.run(fork, capture_output=True, text=True, timeout=60)
    equal("--fork", done.returncode, 0)
    pid = int(open(os.path.join(WORK, "pid")).read())
    check("the forked process", "s3cret" not in open("/proc/%d/cmdline" % pid).read())
    os.kill(pid, 15)
    wait_until(lambda: not os.path.exists("/proc/%d" % pid) or open("/proc/%d/stat" % pid).read().split(") ")[1][0] == "Z", 30)


def members():
    """While the certificates of members change, those with the old and with the new name are members'."""
    new = ca.sign("new-member", "/O=Nagi/OU=New/CN=member", CLIENT)
    for override, is_members in ((None, False), ("CN=any,OU=New,O=Nagi", True)):
        more = set_to("tlsX509ClusterAuthDNOverride=" + override) if override else []
        with start(*TLS, "--auth", *more) as running:
            with client() as c:
                c.admin.command("createUser", "root", pwd="secret", roles=["root"])
            with client(username="root", password="secret") as c:
                create = lambda: c["$external"].command("createUser", "CN=member,OU=New,O=Nagi", roles=[])  # noqa: E731
                if is_members:
                    fails("a member's name", 2, create)
                else:
                    equal("a user's name", create()["ok"], 1)
            with client(tlsCertificateKeyFile=new, authMechanism="MONGODB-X509") as c:
                if is_members:
                    fails("a member's login", 18, lambda: c.admin.command("ping"))
                    check("the reason", running.logged("can only be used for cluster authentication"))
                else:
                    equal("a user's login", c.admin.command("ping")["ok"], 1)
    server.starts_not(NAGI, WORK, PORT, "no name", "Unable to parse tlsX509ClusterAuthDNOverride", *TLS,
                      *set_to("tlsX509ClusterAuthDNOverride=nothing"))


def horizons():
    """A client sees the address of its side, by the name in its handshake."""
    with start(*TLS, "--replSet", "rs0", "--initiate"):
        with client() as c:
            config = c.admin.command("replSetGetConfig")["config"]
            config["version"] += 1
            config["members"][0]["host"] = "127.0.0.1:%d" % PORT
            config["members"][0]["horizons"] = {"outside": "localhost:%d" % PORT}
            equal("reconfigure", c.admin.command("replSetReconfig", config)["ok"], 1)
            equal("shown", c.admin.command("replSetGetConfig")["config"]["members"][0]["horizons"], {"outside": "localhost:%d" % PORT})
            for bad, code in (({}, 2), ({"__default": "a:1"}, 2), ({"a": "b:1", "c": "b:2"}, 2), ({"a": 1}, 14), ({"": "a:1"}, 2)):
                config["version"] += 1
                config["members"][0]["horizons"] = bad
                fails("horizons %r" % bad, code, lambda: c.admin.command("replSetReconfig", config))
        for host in ("localhost", "127.0.0.1"):
            with client(host) as c:
                seen = c.admin.command("hello")
                here = "%s:%d" % (host, PORT)
                equal("seen from " + host, (seen["hosts"], seen["me"], seen["primary"]), ([here], here, here))
            with client(host, directConnection=False, replicaSet="rs0") as c:
                equal("a driver stays at " + host, (c.shop.things.insert_one({}).acknowledged, c.address), (True, (host, PORT)))


def nagi(*args, **how):
    done = subprocess.run([NAGI, *args], capture_output=True, text=True, timeout=120, **how)
    return done.returncode, done.stdout + done.stderr


def subcommands():
    uri = "mongodb://localhost:%d" % PORT
    files = ["--tls", "--tlsCAFile", ca.file]
    own = ["--tlsCertificateKeyFile", alice_pem]
    x509 = "/?authMechanism=MONGODB-X509&authSource=%24external"
    with start(*TLS, "--auth", "--replSet", "rs0", "--initiate", engine="wiredTiger", bind="localhost,127.0.0.2"):
        with client() as c:
            c.admin.command("createUser", "root", pwd="secret", roles=["root"])
        with client(username="root", password="secret") as c:
            c["$external"].command("createUser", ALICE, roles=[{"role": "backup", "db": "admin"}, {"role": "clusterAdmin", "db": "admin"}])
            c.shop.things.insert_many([{"_id": i} for i in range(1000)])
        for name, status, says, args in (
                ("ping", 0, "answered after", ["--uri", uri, *files, *own]),
                ("ping by the address", 0, "answered after", ["--uri", "%s/?tls=true&tlsCAFile=%s&tlsCertificateKeyFile=%s" % (uri, ca.file, alice_pem)]),
                ("ping with x.509", 0, "answered after", ["--uri", uri + x509, *files, *own]),
                ("no certificate", 1, "refuses the handshake", ["--uri", uri, *files]),
                ("no TLS", 1, "use --tls", ["--uri", uri]),
                ("wrong authority", 1, "unable to get local issuer certificate", ["--uri", uri, "--tls", "--tlsCAFile", other.file, *own]),
                ("the system's authorities", 1, "certificate", ["--uri", uri, "--tls", *own]),
                ("wrong host", 1, "it is that of another host", ["--uri", uri.replace("localhost", "127.0.0.2"), *files, *own]),
                ("any certificate", 0, "answered after", ["--uri", uri, "--tls", "--tlsAllowInvalidCertificates", *own]),
                ("no file", 1, "/nowhere.pem: No such file", ["--uri", uri, "--tls", "--tlsCAFile", "/nowhere.pem"]),
                ("x.509 without a certificate", 2, "needs tlsCertificateKeyFile", ["--uri", uri + x509, *files]),
                ("a file without TLS", 2, "--tlsCAFile needs --tls", ["--uri", uri, "--tlsCAFile", ca.file])):
            code, text = nagi("ping", *args)
            equal(name + ": status", code, status)
            check(name, says in text, text)
        for name, more, env in (("SCRAM", [uri.replace("//", "//root@")], {"NAGI_PASSWORD": "secret"}), ("x.509", [uri + x509], {})):
            out = os.path.join(WORK, "copy-" + name)
            code, text = nagi("backup", "--out", out, "--uri", *more, *files, *own, env={**os.environ, **env})
            equal("backup with " + name, code, 0)
            code, text = nagi("backup", "--verify", out)
            equal("its copy", code, 0)
        code, text = nagi("backup", "--archive", os.path.join(WORK, "archive"), "--once", "--uri", uri + x509, *files, *own)
        check("archive", code == 0, text)
    code, text = nagi("ping", "--uri", uri, *files, *own)
    check("nobody there", code == 1 and "refused" in text, text)


for part in (parameters, refused_options, warnings, members, horizons, subcommands):
    if not os.environ.get("ONLY") or part.__name__ in os.environ["ONLY"].split():
        section(part)
finish("options of TLS")

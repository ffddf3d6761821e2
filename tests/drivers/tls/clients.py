"""Drivers and tools over TLS: clients.py NAGI FOLDER PORT PROGRAMS.

PROGRAMS is a JSON document: `drivers` with the command of each one, and the paths of the tools. Makes certificates and key
stores and starts its own servers. Each driver runs the same cases in one process. Prints each failure and a count.
"""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import pki  # noqa: E402
import pymongo  # noqa: E402
import server  # noqa: E402
from checks import check, equal, finish, section, wait_until  # noqa: E402

NAGI, WORK, PORT, PROGRAMS = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
CLIENT = "extendedKeyUsage=clientAuth"
SERVER = "/O=Nagi/OU=Servers/CN=localhost"
ALICE = "CN=alice,OU=Clients,O=Nagi"
# The address of this machine that the server's certificate does not have.
OTHER_HOST = "127.0.0.2"

shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(WORK)
ca = pki.Authority(os.path.join(WORK, "ca"), "/O=Nagi/CN=authority")
other = pki.Authority(os.path.join(WORK, "other"), "/O=Other/CN=authority")
PEM = {"server": ca.sign("server", SERVER, pki.LOCAL, "rsa"), "alice": ca.sign("alice", "/O=Nagi/OU=Clients/CN=alice", CLIENT),
       "nobody": ca.sign("nobody", "/O=Nagi/OU=Clients/CN=nobody", CLIENT), "stranger": other.sign("stranger", "/O=Nagi/CN=s", CLIENT)}
TRUST = {"ca": ca.file, "other": other.file}


def stores():
    """The same as key stores of Java: those of authorities by keytool, in its older format, too."""
    for name, path in TRUST.items():
        subprocess.run(["keytool", "-importcert", "-noprompt", "-alias", name, "-file", path, "-keystore", store(name), "-storetype", "PKCS12",
                        "-storepass", "changeit"], check=True, capture_output=True)
    for name in ("alice", "nobody", "stranger"):
        pki.openssl("pkcs12", "-export", "-in", PEM[name], "-out", store(name), "-name", name, "-passout", "pass:changeit")
    subprocess.run(["keytool", "-importkeystore", "-noprompt", "-srckeystore", store("alice"), "-srcstoretype", "PKCS12", "-srcstorepass", "changeit",
                    "-destkeystore", store("alice").replace(".p12", ".jks"), "-deststoretype", "JKS", "-deststorepass", "changeit"],
                   check=True, capture_output=True)


def store(name):
    return os.path.join(WORK, name + ".p12")


def running(*flags):
    return server.Server(NAGI, WORK, PORT, "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", PEM["server"], "--tlsCAFile", ca.file,
                         "--auth", *flags, bind="localhost," + OTHER_HOST)


def prepare():
    """A user with a password, and one with a certificate."""
    options = {"tls": True, "tlsCAFile": ca.file, "tlsCertificateKeyFile": PEM["alice"], "directConnection": True}
    with pymongo.MongoClient("localhost", PORT, **options) as c:
        c.admin.command("createUser", "root", pwd="secret", roles=["root"])
    with pymongo.MongoClient("localhost", PORT, username="root", password="secret", **options) as c:
        c["$external"].command("createUser", ALICE, roles=[{"role": "readWrite", "db": "shop"}])


X509 = "authMechanism=MONGODB-X509&authSource=$external"
# Name, trusted, certificate, login, further options, host; who is logged in, or words of which the error has one.
OPTIONAL = (
    ("no certificate", "ca", "", "", "", "localhost", ""),
    ("a certificate", "ca", "alice", "", "", "localhost", ""),
    ("an address", "ca", "", "", "", "127.0.0.1", ""),
    ("SCRAM", "ca", "", "root:secret@", "authSource=admin", "localhost", "root"),
    ("SCRAM-SHA-1", "ca", "", "root:secret@", "authSource=admin&authMechanism=SCRAM-SHA-1", "localhost", "root"),
    ("SCRAM with a certificate", "ca", "alice", "root:secret@", "authSource=admin", "localhost", "root"),
    ("wrong password", "ca", "", "root:wrong@", "authSource=admin", "localhost", ("authentication", "Authentication", "auth error")),
    ("x.509", "ca", "alice", "%s@" % ALICE.replace("=", "%3D").replace(",", "%2C"), X509, "localhost", ALICE),
    ("x.509 of nobody", "ca", "nobody", "CN%3Dnobody%2COU%3DClients%2CO%3DNagi@", X509, "localhost", ("uthentication failed", "auth error")),
    ("x.509 with another's name", "ca", "nobody", "%s@" % ALICE.replace("=", "%3D").replace(",", "%2C"), X509, "localhost",
     ("uthentication failed", "auth error")),
    ("wrong authority", "other", "", "", "", "localhost", ("self-signed certificate", "unable to", "unknown authority", "PKIX path", "signed by")),
    ("wrong host", "ca", "", "", "", OTHER_HOST, ("altnames", "valid for", "No subject alternative names", "doesn't contain any IP")),
)
STRICT = (
    ("a certificate is shown", "ca", "alice", "", "", "localhost", ""),
    ("no certificate is shown", "ca", "", "", "", "localhost", None),
    # Some drivers show it, and others none, because the server names the authorities that it trusts.
    ("a stranger's certificate", "ca", "stranger", "", "", "localhost", None),
)


def lines(cases, is_java, drops=()):
    for name, trust, own, login, options, host, _ in cases:
        if name in drops:
            continue
        uri = "mongodb://%s%s:%d/?" % (login, host, PORT)
        if is_java:
            options = "&".join(filter(None, [options, "ssl=true" if "wrong host" not in drops else ""]))
        else:
            options = "&".join(filter(None, [options, "tls=true", "tlsCAFile=" + TRUST[trust], "tlsCertificateKeyFile=" + PEM[own] if own else ""]))
        uri += options + "&serverSelectionTimeoutMS=4000&connectTimeoutMS=4000"
        yield "\t".join([name, uri, store(trust), store(own) if own else ""])


def drive(driver, cases, more=()):
    about = PROGRAMS["drivers"][driver]
    drops = about.get("drops", ())
    path = os.path.join(WORK, "cases")
    with open(path, "w") as f:
        f.write("\n".join(lines(cases, about.get("java", False), drops)) + "\n")
    done = subprocess.run([about["command"][0], *more, *about["command"][1:], path], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **about.get("env", {})})
    seen = {line.split("\t")[0]: line.split("\t")[1:] for line in done.stdout.splitlines() if line.count("\t") >= 2}
    for name, *_, expected in cases:
        if name in drops:
            continue
        what = "%s: %s" % (driver, name)
        how, text = (seen.get(name) or ["nothing", done.stdout + done.stderr])[:2]
        if isinstance(expected, str):
            equal(what, (how, text), ("ok", expected))
        else:
            check(what, how == "error" and (expected is None or any(word in text for word in expected)), (how, text[-800:]))


def drivers():
    with running("--tlsAllowConnectionsWithoutCertificates"):
        prepare()
        for driver in PROGRAMS["drivers"]:
            drive(driver, OPTIONAL)
        java = [name for name, about in PROGRAMS["drivers"].items() if about.get("java")]
        old_list = "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256,TLS_RSA_WITH_AES_128_CBC_SHA256,TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,TLS_RSA_WITH_AES_128_CBC_SHA"
        java8 = old_list + ",TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_AES_128_GCM_SHA256"
        one = [case for case in OPTIONAL if case[0] in ("x.509", "SCRAM")]
        refused = [("SCRAM", *OPTIONAL[3][1:6], ("handshake_failure", "Timed out"))]
        for driver in java[-1:]:
            # Java 8 has TLS 1.2 with these suites; Java 7 only those without GCM, of which none has both forward secrecy and AEAD.
            drive(driver, one, ["-Djdk.tls.client.protocols=TLSv1.2", "-Djdk.tls.client.cipherSuites=" + java8])
            drive(driver, refused, ["-Djdk.tls.client.protocols=TLSv1.2", "-Djdk.tls.client.cipherSuites=" + old_list])
    with running() as strict:
        for driver in PROGRAMS["drivers"]:
            drive(driver, STRICT)
        check("the log has the reason", strict.logged("no SSL certificate provided by peer; connection rejected"))


def run(*command, seconds=120):
    """Status and output; 124 if the program does not end in time."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env={**os.environ, "HOME": WORK})
    except subprocess.TimeoutExpired:
        return 124, "it does not end"
    return done.returncode, done.stdout + done.stderr


def shell():
    def eval_in(text, *args):
        return run(*PROGRAMS["mongosh"], "--norc", "--quiet", *args, "--eval", text)

    at = "mongodb://localhost:%d/shop?serverSelectionTimeoutMS=4000" % PORT
    files = ["--tls", "--tlsCAFile", ca.file]
    user = "db.runCommand({connectionStatus: 1}).authInfo.authenticatedUsers[0].user"
    with running():
        prepare()
        equal("mongosh x.509", eval_in(user, *files, "--tlsCertificateKeyFile", PEM["alice"], "--authenticationMechanism", "MONGODB-X509", at),
              (0, ALICE + "\n"))
        equal("mongosh SCRAM", eval_in(user, *files, "--tlsCertificateKeyFile", PEM["alice"], "-u", "root", "-p", "secret",
                                       "--authenticationDatabase", "admin", at), (0, "root\n"))
        for name, args in (("no certificate", files), ("wrong authority", ["--tls", "--tlsCAFile", other.file, "--tlsCertificateKeyFile", PEM["alice"]]),
                           ("a stranger", [*files, "--tlsCertificateKeyFile", PEM["stranger"]])):
            code, text = eval_in("1", *args, at)
            check("mongosh %s" % name, code != 0, text)
        code, text = eval_in("1", *files, "--tlsCertificateKeyFile", PEM["alice"], at.replace("localhost", OTHER_HOST))
        check("mongosh wrong host", code != 0 and "altnames" in text, text)
        code, text = eval_in("db.hello().ok", *files, "--tlsCertificateKeyFile", PEM["alice"], "--tlsAllowInvalidHostnames", at.replace("localhost", OTHER_HOST))
        equal("mongosh any host", (code, text.strip()), (0, "1"))


def tools():
    tool = PROGRAMS["tools"]
    where = ["--host", "localhost", "--port", str(PORT), "--ssl", "--sslCAFile", ca.file]
    x509 = [*where, "--sslPEMKeyFile", PEM["alice"], "--authenticationMechanism", "MONGODB-X509", "--authenticationDatabase", "$external",
            "--username", ALICE]
    scram = [*where, "--sslPEMKeyFile", PEM["alice"], "-u", "root", "-p", "secret", "--authenticationDatabase", "admin"]
    out = os.path.join(WORK, "dump")
    with running("--tlsLogVersions", "TLS1_2,TLS1_3"):
        prepare()
        options = {"tls": True, "tlsCAFile": ca.file, "tlsCertificateKeyFile": PEM["alice"], "directConnection": True}
        with pymongo.MongoClient("localhost", PORT, username="root", password="secret", **options) as c:
            c.shop.things.insert_many([{"_id": i, "text": "x" * 1000} for i in range(2000)])
            code, text = run(tool["mongodump"], *x509, "--db", "shop", "--out", out)
            check("mongodump x.509", code == 0 and os.path.getsize(out + "/shop/things.bson") > 2000000, text)
            c.shop.things.drop()
            code, text = run(tool["mongorestore"], *x509, "--nsInclude", "shop.*", out)
            equal("mongorestore x.509", (code, c.shop.things.count_documents({})), (0, 2000))
            code, text = run(tool["mongorestore"], *scram, "--drop", out)
            equal("mongorestore SCRAM", (code, c.shop.things.count_documents({})), (0, 2000))
            code, text = run(tool["mongostat"], *scram, "--rowcount", "1", "--json")
            check("mongostat", code == 0 and "localhost" in text, text)
        x509 = "&authMechanism=MONGODB-X509&authSource=$external"
        uri = "mongodb://%s:%d/shop?serverSelectionTimeoutMS=2000&connectTimeoutMS=2000%s"
        good = "&tls=true&tlsCAFile=%s&tlsCertificateKeyFile=%s" % (ca.file, PEM["alice"])
        for name, host, options, is_good in (
                ("by a URI", "localhost", good + x509, True), ("without a certificate", "localhost", "&tls=true&tlsCAFile=" + ca.file, False),
                ("wrong authority", "localhost", good.replace(ca.file, other.file) + x509, False), ("wrong host", OTHER_HOST, good + x509, False),
                ("without TLS", "localhost", "", False)):
            # The tool tries again for a long time where the server refuses it.
            code, text = run(tool["mongodump"], "--uri", uri % (host, PORT, options), "--out", out, seconds=120 if is_good else 10)
            check("mongodump " + name, (code == 0) == is_good, text)


def resumed():
    """The sessions of openssl: five connections after the first resume it."""
    with running("--tlsAllowConnectionsWithoutCertificates"):
        seen = server.s_client(PORT, "-CAfile", ca.file, "-tls1_2", "-reconnect")
        equal("-reconnect", (seen.count("New, TLSv1.2"), seen.count("Reused, TLSv1.2")), (1, 5))
        for version in ("-tls1_2", "-tls1_3"):
            path = os.path.join(WORK, "session" + version)
            # A ticket of 1.3 comes after the handshake, with the first bytes that are read.
            connect = ["openssl", "s_client", "-connect", "localhost:%d" % PORT, "-CAfile", ca.file, version]
            with subprocess.Popen([*connect, "-sess_out", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as first:
                wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 0, 10)
                first.communicate(b"")
            seen = server.s_client(PORT, "-CAfile", ca.file, version, "-sess_in", path)
            check("a stored session " + version, "Reused, TLSv1" in seen, seen[-600:])


for part in (stores, drivers, shell, tools, resumed):
    if not os.environ.get("ONLY") or part.__name__ in os.environ["ONLY"].split() + ["stores"]:
        section(part)
finish("clients over TLS")

"""TLS, client certificates and logins by them: tls.py NAGI FOLDER PORT [MONGODUMP] [NODE:MONGOSH].

Makes certificates with openssl and starts its own servers. Prints each failure and a count.
"""
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time

import bson
import pymongo
from pymongo.errors import ConnectionFailure, OperationFailure, ServerSelectionTimeoutError

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import pki  # noqa: E402
import server  # noqa: E402
from checks import check, equal, fails, finish, section, wait_until  # noqa: E402

NAGI, WORK, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
TOOLS = sys.argv[4:]
CLIENT = "extendedKeyUsage=clientAuth"
SERVER = "/O=Nagi/OU=Servers/CN=localhost"

shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(WORK)
ca = pki.Authority(os.path.join(WORK, "ca"), "/O=Nagi/CN=authority")
other = pki.Authority(os.path.join(WORK, "other"), "/O=Other/CN=authority")
server_pem = ca.sign("server", SERVER, pki.LOCAL)
alice_pem = ca.sign("alice", "/DC=com/DC=example/O=Nagi/OU=Clients/CN=alice, the first", CLIENT)
ALICE = "CN=alice\\, the first,OU=Clients,O=Nagi,DC=example,DC=com"


def Server(*flags, **how):  # noqa: N802
    return server.Server(NAGI, WORK, PORT, *flags, **how)


def starts_not(name, says, *flags, status=1):
    server.starts_not(NAGI, WORK, PORT, name, says, *flags, status=status)


def s_client(*args):
    return server.s_client(PORT, "-CAfile", ca.file, *args)


def tls(*flags):
    return Server("--tlsMode", "requireTLS", "--tlsCertificateKeyFile", server_pem, *flags)


def client(**options):
    options = {"tls": True, "tlsCAFile": ca.file, "serverSelectionTimeoutMS": 3000, "directConnection": True, **options}
    return pymongo.MongoClient("localhost", PORT, **options)


def ping(**options):
    with client(**options) as c:
        return c.admin.command("ping")["ok"]


def refused(name, **options):
    """The error of a client that cannot connect."""
    try:
        ping(serverSelectionTimeoutMS=1000, **options)
    except (ServerSelectionTimeoutError, ConnectionFailure) as error:
        check(name, True)
        return str(error)
    check(name, False, "connected")
    return ""


def modes():
    files = ["--tlsCertificateKeyFile", server_pem]
    for mode, plain, encrypted in (("allowTLS", True, True), ("preferTLS", True, True), ("requireTLS", False, True)):
        with Server("--tlsMode", mode, *files) as server:
            equal(mode, ping(), 1)
            if plain:
                equal(mode + " plain", ping(tls=False, tlsCAFile=None), 1)
            else:
                refused(mode + " plain", tls=False, tlsCAFile=None)
                check(mode + " log", server.logged("The server is configured to only allow SSL connections"))
                entry = server.lines(22988)[0]["attr"]["error"]
                equal(mode + " code", (entry["code"], entry["codeName"]), (141, "SSLHandshakeFailed"))
                # A Unix socket stays on the machine.
                path = os.path.join(WORK, "mongodb-%d.sock" % PORT)
                with pymongo.MongoClient(path.replace("/", "%2F").join(["mongodb://", ""]), serverSelectionTimeoutMS=3000) as c:
                    equal("Unix socket", c.admin.command("ping")["ok"], 1)
            with client() as c:
                equal(mode + " shown", c.admin.command("getParameter", 1, tlsMode=1)["tlsMode"], mode)
                old = mode.replace("TLS", "SSL")
                equal(mode + " old", c.admin.command("getParameter", 1, sslMode=1)["sslMode"], old)
    with Server("--sslMode", "allowSSL", "--sslPEMKeyFile", server_pem) as server, client() as c:
        change = lambda **to: c.admin.command({"setParameter": 1, **to})  # noqa: E731
        text = fails("two steps", 2, lambda: change(tlsMode="requireTLS"))
        check("step", "attempt to change from allowTLS to requireTLS" in str(text), text)
        equal("first step", change(sslMode="preferSSL")["was"], "allowSSL")
        equal("second step", change(tlsMode="requireTLS")["was"], "preferTLS")
        fails("back", 2, lambda: change(tlsMode="preferTLS"))
        fails("unknown mode", 2, lambda: change(tlsMode="always"))
        equal("the connection stays", c.admin.command("ping")["ok"], 1)
        refused("plain after the steps", tls=False, tlsCAFile=None)
    with Server("--sslOnNormalPorts", "--sslPEMKeyFile", server_pem):
        equal("sslOnNormalPorts", ping(), 1)
        refused("sslOnNormalPorts plain", tls=False, tlsCAFile=None)
    with Server() as server:
        refused("no TLS")
        check("no TLS log", server.logged("server is started without SSL support"))
        with pymongo.MongoClient("localhost", PORT) as c:
            equal("disabled", c.admin.command("getParameter", 1, tlsMode=1)["tlsMode"], "disabled")
            fails("nothing to rotate", 20, lambda: c.admin.command("rotateCertificates"))


def keys():
    for kind in sorted(set(pki.KEYS) - {"rsa1024"}):
        pem = ca.sign("key-" + kind, SERVER, pki.LOCAL, kind)
        with Server("--tlsMode", "requireTLS", "--tlsCertificateKeyFile", pem):
            equal(kind, ping(), 1)
    certificate = open(ca.path("server.crt")).read()
    sealed = {
        "pkcs8": ["pkcs8", "-topk8", "-v2", "aes-256-cbc", "-passout", "pass:secret", "-in", ca.path("server.key")],
        "pkcs8 with scrypt": ["pkcs8", "-topk8", "-scrypt", "-passout", "pass:secret", "-in", ca.path("server.key")],
        "traditional": ["ec", "-aes256", "-passout", "pass:secret", "-in", ca.path("server.key")],
        "traditional with 3DES": ["ec", "-des3", "-passout", "pass:secret", "-in", ca.path("server.key")],
    }
    for kind, command in sealed.items():
        pem = os.path.join(WORK, "sealed.pem")
        key = pki.openssl(*command)
        check(kind + " is encrypted", "ENCRYPTED" in key, key)
        with open(pem, "w") as f:
            f.write(certificate + key)
        flags = ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", pem]
        with Server(*flags, "--tlsCertificateKeyFilePassword", "secret"):
            with client() as c:
                equal(kind, c.admin.command("ping")["ok"], 1)
                shown = str(c.admin.command("getCmdLineOpts"))
                check(kind + " password is not shown", "secret" not in shown and "<password>" in shown, shown)
        for name, password, says in (("wrong", ["--tlsCertificateKeyFilePassword", "bad"], "the password is wrong"),
                                     ("missing", [], "no password is configured")):
            starts_not("%s, password %s" % (kind, name), says, *flags, *password)


def chains():
    between = pki.Authority(os.path.join(WORK, "between"), "/O=Nagi/CN=between", ca)
    leaf = between.sign("chained", SERVER, pki.LOCAL)
    user = between.sign("chained-user", "/O=Nagi/OU=Clients/CN=chained", CLIENT)
    chain = os.path.join(WORK, "chain.pem")
    user_chain = os.path.join(WORK, "user-chain.pem")
    for path, own in ((chain, leaf), (user_chain, user)):
        with open(path, "w") as f:
            f.write(open(own).read() + open(between.file).read())
    sealed = os.path.join(WORK, "cluster.pem")
    with open(sealed, "w") as f:
        f.write(open(ca.path("server.crt")).read() +
                pki.openssl("pkcs8", "-topk8", "-passout", "pass:secret", "-in", ca.path("server.key")))
    cluster = ["--tlsClusterFile", sealed, "--tlsClusterPassword"]
    with Server("--tlsMode", "requireTLS", "--tlsCertificateKeyFile", chain, "--tlsCAFile", ca.file, *cluster, "secret"):
        equal("both send their chain", ping(tlsCertificateKeyFile=user_chain), 1)
        refused("the client sends no chain", tlsCertificateKeyFile=user)
    with Server("--tlsMode", "requireTLS", "--tlsCertificateKeyFile", leaf):
        check("the server sends no chain", "verify failed" in refused("no chain"))
    starts_not("cluster password", "Can not set up cluster file.", "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", chain,
               *cluster, "wrong")


def bad_files():
    mode = ["--tlsMode", "requireTLS"]
    key = ["--tlsCertificateKeyFile", server_pem]
    junk = os.path.join(WORK, "junk.pem")
    with open(junk, "w") as f:
        f.write("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    mixed = os.path.join(WORK, "mixed.pem")
    with open(mixed, "w") as f:
        f.write(open(ca.path("alice.crt")).read() + open(ca.path("server.key")).read())
    expired = ca.sign("expired-server", SERVER, pki.LOCAL, dates=pki.PAST)
    future = ca.sign("future-server", SERVER, pki.LOCAL, dates=pki.FUTURE)
    setup = "InvalidSSLConfiguration: Can not set up PEM key file."
    for name, says, flags, status in (
            ("no file", "need tlsCertificateKeyFile", mode, 2),
            ("no mode", "need to enable TLS via the sslMode/tlsMode flag", key, 2),
            ("two modes", "different values", [*mode, "--sslMode", "allowSSL", *key], 2),
            ("no protocol", "All supported TLS protocols have been disabled", [*mode, *key, "--tlsDisabledProtocols", "TLS1_2,TLS1_3"], 2),
            ("unknown protocol", "Unrecognized disabledProtocols 'SSL3'", [*mode, *key, "--tlsDisabledProtocols", "SSL3"], 2),
            ("FIPS", "not certified by FIPS 140", [*mode, *key, "--tlsFIPSMode", "true"], 2),
            ("CRL without CA", "need tlsCAFile", [*mode, *key, "--tlsCRLFile", server_pem], 2),
            ("missing file", "No such file", [*mode, "--tlsCertificateKeyFile", "/nowhere.pem"], 1),
            ("a folder", "it is not a file", [*mode, "--tlsCertificateKeyFile", WORK], 1),
            ("junk", setup, [*mode, "--tlsCertificateKeyFile", junk], 1),
            ("no key", "no private key", [*mode, "--tlsCertificateKeyFile", ca.path("server.crt")], 1),
            ("no certificate", "no certificate", [*mode, "--tlsCertificateKeyFile", ca.path("server.key")], 1),
            ("other key", "does not fit", [*mode, "--tlsCertificateKeyFile", mixed], 1),
            ("expired", "expired or not yet valid", [*mode, "--tlsCertificateKeyFile", expired], 1),
            ("not yet valid", "expired or not yet valid", [*mode, "--tlsCertificateKeyFile", future], 1),
            ("CA", "Can not set up CA file.", [*mode, *key, "--tlsCAFile", junk], 1),
            ("CRL", "has no revocation list", [*mode, *key, "--tlsCAFile", ca.file, "--tlsCRLFile", ca.file], 1),
            ("cluster file", "Can not set up cluster file.", [*mode, *key, "--tlsClusterFile", junk], 1),
            ("ciphers", "selects no cipher suite", [*mode, *key, "--setParameter", "opensslCipherConfig=RC4-SHA"], 1)):
        starts_not(name, says, *flags, status=status)
    os.chmod(mixed, 0o644)
    soon = ca.sign("soon", SERVER, pki.LOCAL, dates=("-days", "5"))
    os.chmod(soon, 0o644)
    with Server(*mode, "--tlsCertificateKeyFile", soon) as server, client() as c:
        warnings = str(c.admin.command("getLog", "startupWarnings")["log"])
        for says in ("readable by all users", "expires in 4 days", "no CA file has been provided"):
            check(says, says in warnings, warnings)
        check("waiting", server.lines(23016)[0]["attr"]["ssl"] == "on")


def protocols():
    # The client's own configuration must not forbid the old ones.
    old = ["-cipher", "ALL:@SECLEVEL=0"]
    with tls("--tlsLogVersions", "TLS1_2,TLS1_3", "--setParameter", "opensslCipherConfig=ECDHE-ECDSA-AES128-GCM-SHA256") as server:
        for flag in ("-tls1", "-tls1_1"):
            seen = s_client(flag, *old)
            check(flag + " is refused", "alert" in seen and "Cipher is (NONE)" in seen, seen)
        seen = s_client("-tls1_2")
        check("-tls1_2", "Verify return code: 0" in seen and "ECDHE-ECDSA-AES128-GCM-SHA256" in seen, seen)
        check("one cipher", "Cipher is (NONE)" in s_client("-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384"))
        check("weak cipher", "Cipher is (NONE)" in s_client("-tls1_2", "-cipher", "AES256-SHA:@SECLEVEL=0"))
        check("-tls1_3", "Verify return code: 0" in s_client("-tls1_3"))
        check("server name", "Verify return code: 0" in s_client("-servername", "db.example.com"))
        for version, log in ((ssl.TLSVersion.TLSv1_2, "1.2"), (ssl.TLSVersion.TLSv1_3, "1.3")):
            logged = [line["attr"]["tlsVersion"] for line in server.lines(23218)]
            check("logged " + log, log in logged, logged)
        with client() as c:
            counts = c.admin.command("serverStatus")["transportSecurity"]
            check("counts", counts["1.2"] >= 1 and counts["1.3"] >= 2 and counts["1.1"] == 0, counts)
            security = c.admin.command("serverStatus")["security"]
            equal("subject", security["SSLServerSubjectName"], "CN=localhost,OU=Servers,O=Nagi")
            equal("authority", security["SSLServerHasCertificateAuthority"], False)
            check("expiration", security["SSLServerCertificateExpirationDate"].year >= 2030, security)
    for disabled, left, gone in (("TLS1_3", "-tls1_2", "-tls1_3"), ("TLS1_0,TLS1_1,TLS1_2", "-tls1_3", "-tls1_2")):
        with tls("--tlsDisabledProtocols", disabled):
            check(disabled + " left", "Verify return code: 0" in s_client(left))
            check(disabled + " gone", "Cipher is (NONE)" in s_client(gone))


def resumption():
    context = ssl.create_default_context(cafile=ca.file)
    context.load_cert_chain(alice_pem)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context.minimum_version = context.maximum_version = version
        with tls("--tlsCAFile", ca.file) as server:
            def connect(session=None):
                raw = socket.create_connection(("localhost", PORT))
                with context.wrap_socket(raw, server_hostname="localhost", session=session) as s:
                    hello = b"\0\0\0\0\0" + bson.encode({"hello": 1, "$db": "admin"})
                    s.sendall((len(hello) + 16).to_bytes(4, "little") + b"\1\0\0\0\0\0\0\0\xdd\7\0\0" + hello)
                    check("reply", len(s.recv(4096)) > 100)
                    return s.session, s.session_reused
            session, reused = connect()
            check("first %s" % version, not reused)
            check("resumed %s" % version, connect(session)[1])
            # New files: the authority may have changed, so a session of before is not resumed.
            ping_rotate()
            check("not resumed after rotation %s" % version, not connect(session)[1])


def ping_rotate(**options):
    with client(tlsCertificateKeyFile=alice_pem, **options) as c:
        return c.admin.command("rotateCertificates", message="from the test")["ok"]


def client_certificates():
    bob = ca.sign("bob", "/O=Nagi/OU=Clients/CN=bob", CLIENT)
    ca.revoke("bob")
    crl = ca.list_revoked()
    stranger = other.sign("stranger", "/O=Nagi/OU=Clients/CN=alice", CLIENT)
    expired = ca.sign("expired", "/O=Nagi/OU=Clients/CN=old", CLIENT, dates=pki.PAST)
    future = ca.sign("future", "/O=Nagi/OU=Clients/CN=new", CLIENT, dates=pki.FUTURE)
    purpose = ca.sign("purpose", "/O=Nagi/OU=Clients/CN=web", "extendedKeyUsage=serverAuth")
    bad = (("wrong authority", stranger, "unable to get local issuer certificate"),
           ("expired", expired, "certificate has expired"),
           ("not yet valid", future, "certificate is not yet valid"),
           ("wrong purpose", purpose, "unsuitable certificate purpose"),
           ("revoked", bob, "certificate revoked"),
           ("none", None, "no SSL certificate provided by peer; connection rejected"))
    flags = ["--tlsCAFile", ca.file, "--tlsCRLFile", crl]
    with tls(*flags) as server:
        equal("good certificate", ping(tlsCertificateKeyFile=alice_pem), 1)
        for name, pem, reason in bad:
            refused(name, **({"tlsCertificateKeyFile": pem} if pem else {}))
            check(name + " reason", server.logged(reason), server.text()[-1500:])
        check("codes", all(line["attr"]["error"]["code"] == 141 for line in server.lines(22988)))
    with tls(*flags, "--tlsAllowConnectionsWithoutCertificates") as server:
        equal("without a certificate", ping(), 1)
        check("without a certificate: log", len(server.lines(23234)) > 0)
        refused("invalid is still invalid", tlsCertificateKeyFile=stranger)
    with tls(*flags, "--tlsAllowConnectionsWithoutCertificates", "--setParameter", "suppressNoTLSPeerCertificateWarning=true") as server:
        equal("suppressed", ping(), 1)
        equal("suppressed log", server.lines(23234), [])
    with tls(*flags, "--tlsAllowInvalidCertificates") as server:
        for name, pem, reason in bad[:-1]:
            equal(name + " allowed", ping(tlsCertificateKeyFile=pem), 1)
            check(name + " warned", server.logged(reason))
        refused("none is not invalid")
    with tls("--tlsCAFile", ca.file, "--tlsClusterCAFile", other.file):
        equal("cluster authority", ping(tlsCertificateKeyFile=stranger), 1)
        refused("not that of the cluster", tlsCertificateKeyFile=alice_pem)
    with tls():
        check("wrong authority of the server", "verify failed" in refused("client: authority", tlsCAFile=other.file))
        equal("client: invalid allowed", ping(tlsCAFile=None, tlsAllowInvalidCertificates=True), 1)
    wrong = ca.sign("wrong", SERVER, "subjectAltName=DNS:elsewhere.example.com")
    with Server("--tlsMode", "requireTLS", "--tlsCertificateKeyFile", wrong):
        check("wrong host", "mismatch" in refused("client: host"))
        equal("client: host allowed", ping(tlsAllowInvalidHostnames=True), 1)


def login(pem, **options):
    return client(tlsCertificateKeyFile=pem, authMechanism="MONGODB-X509", **options)


def x509():
    roles_pem = ca.sign("roles", "/O=Nagi/OU=Clients/CN=by roles", CLIENT + "\n" + pki.roles(("readWrite", "shop"), ("read", "stock")))
    member = ca.sign("member", "/O=Nagi/OU=Servers/CN=member", CLIENT)
    carol = ca.sign("carol", "/O=Nagi/OU=Clients/CN=carol", CLIENT)
    optional = ["--tlsCAFile", ca.file, "--tlsAllowConnectionsWithoutCertificates"]
    with tls("--auth", *optional) as server:
        with client() as c:
            c.admin.command("createUser", "root", pwd="secret", roles=["root"])
        root = client(username="root", password="secret")
        external = root["$external"]
        external.command("createUser", ALICE, roles=[{"role": "readWrite", "db": "shop"}])
        text = fails("member's name", 2, lambda: external.command("createUser", "CN=any,OU=Servers,O=Nagi", roles=[]))
        check("member's name text", "recognized as an internal cluster member" in str(text), text)
        fails("password", 2, lambda: external.command("createUser", "CN=x", pwd="x", roles=[]))
        with login(alice_pem) as c:
            equal("x509", c.shop.things.insert_one({"_id": 1}).inserted_id, 1)
            who = c.admin.command("connectionStatus")["authInfo"]
            equal("user", who["authenticatedUsers"], [{"user": ALICE, "db": "$external"}])
            fails("other database", 13, lambda: c.stock.things.insert_one({}))
            root["$external"].command("grantRolesToUser", ALICE, roles=[{"role": "readWrite", "db": "stock"}])
            check("granted while connected", c.stock.things.insert_one({}).acknowledged)
        with login(alice_pem, username=ALICE) as c:
            equal("named user", c.shop.things.count_documents({}), 1)
        with client(tlsCertificateKeyFile=alice_pem) as c:
            login_with = lambda db="$external", **more: c[db].command("authenticate", 1, mechanism="MONGODB-X509", **more)  # noqa: E731
            fails("without a login", 13, lambda: c.shop.things.find_one())
            fails("another's name", 18, lambda: login_with(user="CN=root"))
            fails("another database", 17, lambda: login_with("admin"))
            fails("mechanism", 334, lambda: c["$external"].command("authenticate", 1, mechanism="MONGODB-CR"))
            reply = login_with()
            equal("reply", (reply["dbname"], reply["user"]), ("$external", ALICE))
        speculative = {"authenticate": 1, "mechanism": "MONGODB-X509", "db": "$external"}
        with client(tlsCertificateKeyFile=alice_pem) as c:
            hello = c.admin.command({"hello": 1, "speculativeAuthenticate": speculative})
            equal("speculative", hello["speculativeAuthenticate"], {"dbname": "$external", "user": ALICE})
        with client() as c:
            hello = c.admin.command({"hello": 1, "speculativeAuthenticate": speculative})
            check("speculative without a certificate", hello["ok"] == 1 and "speculativeAuthenticate" not in hello, hello)
        for name, pem in (("unknown user", carol), ("member", member)):
            with login(pem) as c:
                error = fails(name, 18, lambda: c.admin.command("ping"))
                check(name + " text", "Authentication failed." in str(error), error)
        check("member log", server.logged("can only be used for cluster authentication"))
        with login(roles_pem) as c:
            equal("roles of the certificate", c.shop.things.count_documents({}), 1)
            shown = c.admin.command("connectionStatus")["authInfo"]["authenticatedUserRoles"]
            equal("roles shown", sorted((r["role"], r["db"]) for r in shown), [("read", "stock"), ("readWrite", "shop")])
            fails("no more roles", 13, lambda: c.stock.things.insert_one({}))
            root["$external"].command("revokeRolesFromUser", ALICE, roles=[{"role": "readWrite", "db": "stock"}])
            equal("roles stay when users change", c.shop.things.count_documents({}), 1)
        counted = root.admin.command("serverStatus")["security"]["authentication"]["mechanisms"]["MONGODB-X509"]
        check("counted", counted["authenticate"]["successful"] >= 4 and counted["speculativeAuthenticate"]["received"] >= 1, counted)
        root.close()
    with tls("--auth", *optional, "--setParameter", "enforceUserClusterSeparation=false") as server:
        with client() as c:
            c.admin.command("createUser", "root", pwd="secret", roles=["root"])
        with client(username="root", password="secret") as c:
            c["$external"].command("createUser", "CN=member,OU=Servers,O=Nagi", roles=[{"role": "root", "db": "admin"}])
        with login(member) as c:
            equal("no separation", c.admin.command("ping")["ok"], 1)
    with tls(*optional, "--setParameter", "authenticationMechanisms=SCRAM-SHA-256"), client(tlsCertificateKeyFile=alice_pem) as c:
        fails("switched off", 334, lambda: c["$external"].command("authenticate", 1, mechanism="MONGODB-X509"))
    with Server("--tlsMode", "preferTLS", "--tlsCertificateKeyFile", server_pem), pymongo.MongoClient("localhost", PORT) as c:
        fails("without TLS", 17, lambda: c["$external"].command("authenticate", 1, mechanism="MONGODB-X509"))


def rotation():
    pem = os.path.join(WORK, "rotated.pem")

    def install(path):
        shutil.copy(path, pem + ".new")
        os.replace(pem + ".new", pem)

    def serial():
        return ssl.get_server_certificate(("localhost", PORT))

    install(server_pem)
    second = ca.sign("second", SERVER, pki.LOCAL)
    third = ca.sign("third", SERVER, pki.LOCAL, "rsa")
    with Server("--tlsMode", "requireTLS", "--tlsCertificateKeyFile", pem) as server, client() as c:
        before = serial()
        install(second)
        equal("before", serial(), before)
        equal("rotate", c.admin.command("rotateCertificates", message="weekly")["ok"], 1)
        check("message", any(line["attr"]["message"] == "weekly" for line in server.lines(4913400)))
        now = serial()
        check("rotated", now != before)
        with open(pem, "w") as f:
            f.write("broken")
        text = fails("broken file", 140, lambda: c.admin.command("rotateCertificates"))
        check("broken file is named", "rotated.pem" in str(text), text)
        equal("the old certificate stays", serial(), now)
        install(third)
        server.process.send_signal(signal.SIGHUP)
        check("SIGHUP", wait_until(lambda: serial() != now, 10))
        equal("the first connection still works", c.admin.command("ping")["ok"], 1)
        fails("other database", 13, lambda: c.test.command("rotateCertificates"))


def large_messages():
    with tls(), client(compressors="zlib") as c:
        blob = os.urandom(12 << 20)
        c.test.blobs.insert_one({"_id": 1, "blob": blob})
        equal("12 MB", c.test.blobs.find_one()["blob"] == blob, True)
        c.test.many.insert_many([{"_id": i, "text": "x" * 1000} for i in range(20000)])
        equal("20 MB of documents", sum(1 for _ in c.test.many.find()), 20000)


def hostile():
    with tls("--tlsAllowConnectionsWithoutCertificates", "--tlsCAFile", ca.file) as server:
        hello = bytes.fromhex("160301020001") + os.urandom(506)
        held = []
        for size in range(0, 500, 25):
            s = socket.create_connection(("localhost", PORT))
            s.sendall(bytes.fromhex("16030102000100 01fc0303") + hello[:size])
            held.append(s)
        junk = socket.create_connection(("localhost", PORT))
        junk.sendall(bytes.fromhex("16030102000100 01fc0303") + os.urandom(2000))
        junk.settimeout(30)
        check("junk is answered by an alert", junk.recv(100)[:1] == b"\x15")
        began = time.time()
        equal("others connect meanwhile", ping(), 1)
        check("soon", time.time() - began < 5)
        held[-1].settimeout(30)
        check("half a handshake ends", held[-1].recv(100) == b"")
        check("within its time", time.time() - began < 20)
        check("log", server.logged("timed out while in the TLS handshake"))
        for s in held:
            s.close()


def disconnects():
    """A client that disconnects while its operation runs: the operation ends."""
    with tls(), client() as c:
        c.test.things.insert_many([{"_id": i} for i in range(1000)])
        context = ssl.create_default_context(cafile=ca.file)
        s = context.wrap_socket(socket.create_connection(("localhost", PORT)), server_hostname="localhost")
        body = {"aggregate": "things", "cursor": {}, "comment": "left behind", "$db": "test", "pipeline": [
            {"$match": {"$expr": {"$gt": [{"$reduce": {
                "input": {"$range": [0, 1000000]}, "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}}, 0]}}}]}
        message = b"\0\0\0\0\0" + bson.encode(body)
        s.sendall((len(message) + 16).to_bytes(4, "little") + b"\1\0\0\0\0\0\0\0\xdd\7\0\0" + message)
        running = lambda: [op for op in c.admin.aggregate([{"$currentOp": {}}])  # noqa: E731
                           if op.get("command", {}).get("comment") == "left behind"]
        check("it runs", wait_until(running, 10))
        s.close()
        check("it ends", wait_until(lambda: not running(), 15))


def tools():
    if not TOOLS:
        return
    dump, (node, shell) = TOOLS[0], TOOLS[1].split(":")
    with tls("--tlsCAFile", ca.file):
        with client(tlsCertificateKeyFile=alice_pem) as c:
            c.test.things.insert_many([{"_id": i} for i in range(100)])
        out = os.path.join(WORK, "dump")
        done = subprocess.run([dump, "--host", "localhost", "--port", str(PORT), "--ssl", "--sslCAFile", ca.file, "--sslPEMKeyFile", alice_pem,
                               "--out", out], capture_output=True, text=True, timeout=120)
        check("mongodump", done.returncode == 0 and os.path.getsize(out + "/test/things.bson") == 1400, done.stderr)
        done = subprocess.run([node, shell, "--norc", "--quiet", "--tls", "--tlsCAFile", ca.file, "--tlsCertificateKeyFile", alice_pem,
                               "mongodb://localhost:%d/test" % PORT, "--eval", "db.things.countDocuments()"],
                              capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": WORK})
        check("mongosh", done.stdout.strip() == "100", done.stdout + done.stderr)


for part in (modes, keys, chains, bad_files, protocols, resumption, client_certificates, x509, rotation, large_messages, disconnects,
             hostile, tools):
    if not os.environ.get("ONLY") or part.__name__ in os.environ["ONLY"].split():
        section(part)
finish("TLS")

"""What a scanner such as testssl looks for: weak.py NAGI FOLDER PORT.

Protocols, every cipher suite, renegotiation, compression and other faults of TLS; then client certificates that must not be
accepted, each with its reason in the log, and files of the server's own. Prints each failure and a count.
"""
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import hello  # noqa: E402
import pki  # noqa: E402
import server  # noqa: E402
from checks import check, equal, finish, section, wait_until  # noqa: E402

NAGI, WORK, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
CLIENT = "extendedKeyUsage=clientAuth"
SERVER = "/O=Nagi/OU=Servers/CN=localhost"
USER = "/O=Nagi/OU=Clients/CN=%s"
ANY_CIPHER = ["-cipher", "ALL:@SECLEVEL=0"]

shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(WORK)
ca = pki.Authority(os.path.join(WORK, "ca"), "/O=Nagi/CN=authority")
server_pem = ca.sign("server", SERVER, pki.LOCAL)
rsa_pem = ca.sign("rsa-server", SERVER, pki.LOCAL, "rsa")
EC_SUITES = {0xc02b, 0xc02c, 0xcca9}
RSA_SUITES = {0xc02f, 0xc030, 0xcca8}
SUITES_13 = {0x1301, 0x1302, 0x1303}


def tls(*flags, pem=server_pem):
    return server.Server(NAGI, WORK, PORT, "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", pem, *flags)


def ask(**how):
    return hello.ask(PORT, hello.hello(**how))


def versions(*wanted):
    return hello.extension(43, hello.words(wanted, 1))


def share():
    """A key share of TLS 1.3: 32 bytes are a valid point of X25519."""
    return hello.extension(51, hello.vector(b"\0\x1d" + hello.vector(b"\x09" + bytes(31), 2), 2))


def protocols():
    for version, name in ((0x0300, "SSL 3"), (0x0301, "TLS 1.0"), (0x0302, "TLS 1.1")):
        equal(name, ask(version=version, ciphers=range(1, 0x100)).alert, "protocol_version")
        more = versions(version)
        equal(name + " by its extension", ask(ciphers=EC_SUITES | RSA_SUITES, more=more).alert, "protocol_version")
    ssl2 = b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + b"\x01\x00\x80" * 7 + bytes(16)
    equal("SSL 2", hello.ask(PORT, ssl2).alert, "closed")
    answer = ask()
    equal("TLS 1.2", (answer.version, answer.alert), (0x0303, None))
    # The end of the random bytes tells a client of TLS 1.3 that somebody has removed it from the handshake.
    equal("mark of a downgrade", answer.random[-8:], b"DOWNGRD\1")
    answer = ask(ciphers=SUITES_13, more=versions(0x0304) + share())
    check("TLS 1.3", answer.cipher in SUITES_13 and 43 in answer.extensions, vars(answer))
    with_junk = ask(more=versions(0x7a7a, 0x0304, 0x0303) + share(), ciphers=[0x7a7a, 0x1301, 0xc02b])
    equal("unknown versions and suites are skipped", with_junk.cipher, 0x1301)
    equal("a later version in the old place", ask(version=0x0304).version, 0x0303)


def suites(own, others):
    """Every number of a suite that is, or may be, assigned."""
    accepted = set()
    for cipher in [*range(0x0000, 0x0100), *range(0x1300, 0x1310), *range(0xc000, 0xc100), *range(0xcc00, 0xcd00), *range(0xd000, 0xd010)]:
        answer = ask(ciphers=[cipher])
        if answer.alert is None:
            accepted.add(answer.cipher)
    equal("suites of TLS 1.2", {hex(one) for one in accepted}, {hex(one) for one in own})
    check("suites of the other key", all(ask(ciphers=[one]).alert == "handshake_failure" for one in others))
    accepted = set()
    for cipher in range(0x1300, 0x1310):
        answer = ask(ciphers=[cipher], more=versions(0x0304) + share())
        if answer.alert is None:
            accepted.add(answer.cipher)
    equal("suites of TLS 1.3", accepted, SUITES_13)


def names_of_openssl():
    """The same by openssl, whose list has names: each one alone."""
    listed = subprocess.run(["openssl", "ciphers", "-s", "-tls1_2", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"], capture_output=True, text=True)
    names = [name for name in listed.stdout.strip().split(":") if name and not name.startswith("TLS_")]
    strong = [name for name in names if name.startswith("ECDHE-ECDSA-") and ("AES" in name and "GCM" in name or "CHACHA20" in name)]
    check("openssl has suites", len(names) > 20 and len(strong) == 3, names)
    weak = ":".join(name for name in names if name not in strong)
    seen = server.s_client(PORT, "-tls1_2", "-cipher", weak + ":@SECLEVEL=0")
    check("no weak suite", "Cipher is (NONE)" in seen, seen[-500:])
    for name in strong:
        check(name, "Cipher is " + name in server.s_client(PORT, "-tls1_2", "-cipher", name))


def ciphers():
    with tls():
        protocols()
        suites(EC_SUITES, RSA_SUITES)
        names_of_openssl()
        faults()
    with tls(pem=rsa_pem):
        suites(RSA_SUITES, EC_SUITES)


def faults():
    equal("compression is not chosen", ask(compressions=b"\1\0").compression, 0)
    check("only compression", ask(compressions=b"\1").alert in ("illegal_parameter", "handshake_failure", "decode_error"))
    # Groups: none but old curves, and finite fields (ffdhe2048).
    equal("weak groups", ask(groups=[0x0001, 0x0013, 0x0015, 0x0100]).alert, "handshake_failure")
    equal("SHA-1 and MD5 signatures", ask(signatures=[0x0201, 0x0203, 0x0101, 0x0301]).alert, "handshake_failure")
    answer = ask(more=hello.extension(15, b"\1"))
    check("no heartbeat", answer.alert is None and 15 not in answer.extensions, vars(answer))
    answer = ask(more=hello.extension(16, hello.vector(hello.vector(b"h2", 1), 2)))
    check("no protocol of ALPN", answer.alert is None and 16 not in answer.extensions, vars(answer))
    answer = ask(ciphers=[0xc02b, 0x00ff])
    check("secure renegotiation", 0xff01 in answer.extensions, vars(answer))
    answer = ask(more=hello.extension(23, b""))
    check("extended master secret", 23 in answer.extensions, vars(answer))
    # A heartbeat of the famous kind: it claims more bytes than it has.
    with hello.connect(PORT) as s:
        s.sendall(hello.hello(more=hello.extension(15, b"\1")))
        hello.record(s)
        s.sendall(b"\x18\3\3\0\3\1\x40\0")
        seen = b""
        while more := s.recv(4096):
            seen += more
        check("a heartbeat ends the connection", b"\x18\3\3" not in seen[-64:], seen[-64:])
    # The client asks for a new handshake within the connection.
    before, asks, after = server.s_client(PORT, "-tls1_2", "-CAfile", ca.file, text="R\n", seconds=3).partition("RENEGOTIATING")
    check("renegotiation is refused", "depth=0" in before and asks and "depth=0" not in after, (before[-300:], after[-300:]))
    seen = server.s_client(PORT, "-tls1_3", "-early_data", os.devnull)
    check("no early data", "Early data was accepted" not in seen, seen[-300:])
    check("no stapled OCSP response", "OCSP response: no response sent" in server.s_client(PORT, "-status"))


def outcome(running, pem, *args):
    """Connects with a certificate and returns the line of the log about it."""
    before = len(running.lines(22988, 23218))
    shown = ["-cert", pem, "-key", pem, "-cert_chain", pem] if pem else []
    server.s_client(PORT, *shown, *args, *ANY_CIPHER)
    wait_until(lambda: len(running.lines(22988, 23218)) > before, 10)
    lines = running.lines(22988, 23218)[before:]
    return lines[-1] if lines else {"id": 0}


def reason(line):
    return str(line["attr"]["error"]["errmsg"]) if line["id"] == 22988 else "accepted" if line["id"] == 23218 else "nothing logged"


def client_certificates():
    rsa = pki.Authority(os.path.join(WORK, "rsa"), "/O=Nagi/CN=RSA authority", key="rsa")
    small = pki.Authority(os.path.join(WORK, "small"), "/O=Nagi/CN=small authority", key="rsa1024")
    old = pki.Authority(os.path.join(WORK, "old"), "/O=Nagi/CN=expired authority", dates=pki.PAST)
    plain = pki.Authority(os.path.join(WORK, "plain"), "/O=Nagi/CN=no authority", extensions="basicConstraints=CA:FALSE")
    usage = pki.Authority(os.path.join(WORK, "usage"), "/O=Nagi/CN=other usage", extensions="basicConstraints=CA:TRUE\nkeyUsage=digitalSignature")
    short = pki.Authority(os.path.join(WORK, "short"), "/O=Nagi/CN=short", extensions=pki.CA.replace("TRUE", "TRUE,pathlen:0"))
    below = pki.Authority(os.path.join(WORK, "below"), "/O=Nagi/CN=below", short)
    fake = pki.Authority(os.path.join(WORK, "fake"), "/O=Nagi/CN=fake", ca, extensions=CLIENT)
    other = pki.Authority(os.path.join(WORK, "other"), "/O=Other/CN=authority")
    trusted = pki.joined(os.path.join(WORK, "trusted.pem"), *(one.file for one in (ca, rsa, small, old, plain, usage, short)))

    def chain(name, *authorities):
        leaf = authorities[0].sign(name, USER % name, CLIENT)
        return pki.joined(os.path.join(WORK, name + "-chain.pem"), leaf, *(one.file for one in authorities))

    revoked = ca.sign("revoked", USER % "revoked", CLIENT)
    ca.revoke("revoked")
    crl = ca.list_revoked()
    weak_digest = "CA signature digest algorithm too weak"
    bad = (
        ("expired", ca.sign("expired", USER % "e", CLIENT, dates=pki.PAST), "certificate has expired"),
        ("not yet valid", ca.sign("future", USER % "f", CLIENT, dates=pki.FUTURE), "certificate is not yet valid"),
        ("another authority", other.sign("stranger", USER % "s", CLIENT), "unable to get local issuer certificate"),
        ("the name of the authority with another key", pki.Authority(os.path.join(WORK, "twin"), "/O=Nagi/CN=authority").sign(
            "twin", USER % "t", CLIENT), "certificate signature failure"),
        ("self-signed", pki.self_signed(WORK, "self", USER % "self"), "self-signed certificate"),
        ("that of an authority", ca.sign("ca-leaf", USER % "ca", pki.CA + ",digitalSignature"), "cannot be that of a client"),
        ("version 1", ca.sign("v1", USER % "v1"), "unsupported certificate version"),
        ("for servers", ca.sign("web", USER % "w", "extendedKeyUsage=serverAuth"), "unsuitable certificate purpose"),
        ("for mail", ca.sign("mail", USER % "m", "extendedKeyUsage=emailProtection,codeSigning"), "unsuitable certificate purpose"),
        ("for encipherment only", ca.sign("cipher", USER % "c", "keyUsage=keyEncipherment", "rsa"), "unsuitable certificate purpose"),
        ("a critical extension", ca.sign("critical", USER % "x", "1.2.3.4=critical,ASN1:UTF8:x"), "unhandled critical extension"),
        ("SHA-1", ca.sign("sha1", USER % "1", CLIENT, dates=("-md", "sha1")), weak_digest),
        ("SHA-1 by RSA", rsa.sign("rsa-sha1", USER % "2", CLIENT, dates=("-md", "sha1")), weak_digest),
        ("MD5 by RSA", rsa.sign("rsa-md5", USER % "3", CLIENT, dates=("-md", "md5")), weak_digest),
        ("RSA with 1024 bits", ca.sign("rsa1024", USER % "4", CLIENT, "rsa1024"), "certificate signature failure"),
        ("an authority with 1024 bits", small.sign("small", USER % "5", CLIENT), "certificate signature failure"),
        ("an expired authority", old.sign("by-old", USER % "6", CLIENT), "certificate has expired"),
        ("an authority that is none", plain.sign("by-plain", USER % "7", CLIENT), "invalid CA certificate"),
        ("an authority with another usage", usage.sign("by-usage", USER % "8", CLIENT), "invalid CA certificate"),
        ("a certificate below that of a client", chain("by-fake", fake), "invalid CA certificate"),
        ("one authority too many", chain("by-below", below), "path length constraint exceeded"),
        ("a chain without its middle", below.sign("lonely", USER % "9", CLIENT), "unable to get local issuer certificate"))
    good = (("an ECDSA key", ca.sign("good", USER % "good", CLIENT)), ("an RSA key", ca.sign("good-rsa", USER % "g", CLIENT, "rsa")),
            ("by an RSA authority", rsa.sign("by-rsa", USER % "g", CLIENT)), ("no purpose", ca.sign("any", USER % "any", "subjectKeyIdentifier=hash")),
            ("Ed25519", ca.sign("ed", USER % "ed", CLIENT, "ed25519")), ("at the end of a short path", short.sign("s", USER % "s", CLIENT)))
    log = ["--tlsLogVersions", "TLS1_2,TLS1_3"]
    with tls("--tlsCAFile", trusted, *log) as running:
        for version in ("-tls1_2", "-tls1_3"):
            for name, pem in good:
                equal("%s %s" % (name, version), reason(outcome(running, pem, version)), "accepted")
            for name, pem, why in bad:
                seen = reason(outcome(running, pem, version))
                check("%s %s" % (name, version), seen.endswith(why), seen)
            equal("none " + version, reason(outcome(running, None, version)), "no SSL certificate provided by peer; connection rejected")
        codes = {(line["attr"]["error"]["code"], line["attr"]["error"]["codeName"]) for line in running.lines(22988)}
        equal("codes", codes, {(141, "SSLHandshakeFailed")})
        check("the client is told", "alert" in server.s_client(PORT, "-tls1_2", "-cert", bad[0][1], "-key", bad[0][1], *ANY_CIPHER))
    with tls("--tlsCAFile", ca.file, "--tlsCRLFile", crl, *log) as running:
        check("revoked", reason(outcome(running, revoked)).endswith("certificate revoked"))
        equal("not revoked", reason(outcome(running, good[0][1])), "accepted")
    with tls("--tlsCAFile", trusted, "--tlsCRLFile", crl, *log) as running:
        seen = reason(outcome(running, rsa.path("by-rsa.pem")))
        check("an authority without a list", seen.endswith("unable to get certificate CRL"), seen)
    own = pki.self_signed(WORK, "own", USER % "own")
    with tls("--tlsCAFile", own, *log) as running:
        equal("self-signed and trusted", reason(outcome(running, own)), "accepted")
    warns = "has expired; those that it signed are refused"
    with tls("--tlsCAFile", old.file) as running:
        check("an expired authority is warned of", warns in running.text(), running.text()[-800:])


def own_files():
    def refused(name, says, pem, *flags):
        server.starts_not(NAGI, WORK, PORT, name, says, "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", pem, *flags)

    refused("expired", "expired or not yet valid", ca.sign("own-expired", SERVER, pki.LOCAL, dates=pki.PAST))
    refused("not yet valid", "expired or not yet valid", ca.sign("own-future", SERVER, pki.LOCAL, dates=pki.FUTURE))
    refused("RSA with 1024 bits", "it is an RSA key of 1024 bits, and must have 2048 to 8192", ca.sign("own-1024", SERVER, pki.LOCAL, "rsa1024"))
    pipe = os.path.join(WORK, "pipe.pem")
    os.mkfifo(pipe)
    refused("a pipe", "it is not a file", pipe)
    began = time.time()
    refused("a pipe of authorities", "it is not a file", server_pem, "--tlsCAFile", pipe)
    check("without waiting for a writer", time.time() - began < 20)
    own = pki.self_signed(WORK, "own-server", SERVER, "-addext", pki.LOCAL)
    with tls(pem=own):
        check("self-signed", "Verify return code: 0" in server.s_client(PORT, "-CAfile", own))
        check("for another host", "hostname mismatch" in server.s_client(PORT, "-CAfile", own, "-verify_hostname", "elsewhere.example.com").lower())
        check("untrusted", "Verify return code: 18" in server.s_client(PORT, "-CAfile", ca.file))
        check("plain HTTP gets the text for browsers", plain_http().endswith(b"over HTTP on the native driver port.\r\n"))
    sha1 = ca.sign("own-sha1", SERVER, pki.LOCAL, dates=("-md", "sha1"))
    with tls(pem=sha1):
        check("SHA-1 is refused by clients", "Verify return code: 0" not in server.s_client(PORT, "-CAfile", ca.file))


def plain_http():
    with hello.connect(PORT) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            return s.recv(1000)
        except ConnectionResetError:
            return b""


for part in (ciphers, client_certificates, own_files):
    if not os.environ.get("ONLY") or part.__name__ in os.environ["ONLY"].split():
        section(part)
finish("weak TLS")

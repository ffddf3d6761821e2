"""What strangers send: mutated handshakes, certificates, records, logins and tokens, for hostile.py.

A connection comes from an address of its own within 127.0.0.0/8: failed logins of one address would be delayed.
"""
import base64
import json
import os
import random
import socket
import ssl
import struct
import sys
import time

import bson

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oidc"))
import pki  # noqa: E402
from idp import Key, b64  # noqa: E402

# A mutated length makes the server wait for more; the client gives up then.
PATIENCE_SECONDS = 0.05
# The logins, or tokens, that are tried in one connection.
LOGINS = 16
KINDS = ["first flight", "second flight", "certificate", "record", "logins", "tokens", "no TLS", "cut off"]
ISSUER = "https://id.example.com"


class Files:
    """The certificates of a run, and an identity provider's keys and a token of it."""

    def __init__(self, folder):
        ca = pki.Authority(os.path.join(folder, "ca"), "/O=Nagi/CN=authority")
        other = pki.Authority(os.path.join(folder, "other"), "/O=Other/CN=authority")
        self.ca = ca.file
        self.server = ca.sign("server", "/O=Nagi/OU=Servers/CN=localhost", pki.LOCAL)
        self.alice = ca.sign("alice", "/O=Nagi/OU=Clients/CN=alice", "extendedKeyUsage=clientAuth")
        self.key_set = os.path.join(folder, "keys.json")
        key = Key("k1", "ES256")
        with open(self.key_set, "w") as f:
            json.dump({"keys": [key.jwk()]}, f)
        now = int(time.time())
        self.token = key.sign({"iss": ISSUER, "aud": "db", "sub": "ann", "groups": ["a"], "iat": now, "exp": now + 86400})
        self.stranger = other.sign("mallory", "/O=Nagi/OU=Clients/CN=alice", "extendedKeyUsage=clientAuth")

    def provider(self):
        """The parameter with the provider of the token."""
        return json.dumps([{"issuer": ISSUER, "audience": "db", "authNamePrefix": "corp", "authorizationClaim": "groups",
                            "supportsHumanFlows": False, "JWKSPollSecs": 0, "JWKSUri": "file://" + self.key_set}])


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

    def __init__(self, port, how, source="127.0.0.1"):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5, source_address=(source, 0))
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


def command(**fields):
    """A frame with a command for `admin`, or for the database `db`."""
    db = fields.pop("db", "admin")
    return message(bson.encode({**fields, "$db": db}))


def login(rng):
    """A frame of a login with a changed payload, or one out of order."""
    payload, mechanism = b"n,,n=root,r=clientnonce", rng.choice(["SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN", "MONGODB-X509", "MONGODB-OIDC"])
    payload = rng.choice([payload, b"\0root\0p", b"", mutate(rng, payload), os.urandom(rng.randrange(300))])
    if rng.randrange(3):
        return command(saslStart=1, mechanism=mechanism, payload=payload)
    return command(saslContinue=1, conversationId=1, payload=mutate(rng, b"c=biws,r=x,p=AAAA"))


def changed_token(rng, token):
    """A token that differs from a valid one: in its text, in the bytes of a part, or in the order of its parts."""
    parts = token.split(".")
    how = rng.randrange(4)
    if how == 0:
        changed = mutate(rng, token.encode()).decode("latin-1")
    elif how == 3:
        changed = ".".join(rng.choice(parts) for _ in range(rng.randrange(1, 5)))
    else:
        at = rng.randrange(3)
        part = mutate(rng, base64.urlsafe_b64decode(parts[at] + "==="))
        changed = ".".join(parts[:at] + [b64(part)] + parts[at + 1:])
    return changed if changed != token else changed + "A"


def by_token(rng, token):
    payload = bson.encode({"jwt": changed_token(rng, token)})
    payload = mutate(rng, payload) if rng.randrange(8) == 0 else payload
    return command(saslStart=1, mechanism="MONGODB-OIDC", payload=payload, db="$external")


def logs_in(answer):
    """True if the reply ends a login as a success."""
    try:
        reply = bson.decode(answer[21:])
    except (bson.errors.BSONError, IndexError):
        return False
    return bool(reply.get("ok")) and bool(reply.get("done"))


class Arsenal:
    """What all strangers of a process share, because it takes seconds to make."""

    def __init__(self, files, folder, seed):
        self.token = files.token
        self.contexts = [context(files, certificate, version) for certificate in (None, files.alice, files.stranger)
                         for version in (None, ssl.TLSVersion.TLSv1_2)]
        self.changed = changed_certificates(files, folder, random.Random(seed))
        self.flights = [self.first_flight(how) for how in self.contexts for _ in range(8)]

    @staticmethod
    def first_flight(how):
        outgoing = ssl.MemoryBIO()
        try:
            how.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
        except ssl.SSLWantReadError:
            pass
        return outgoing.read()


class Stranger:
    """Makes hostile connections, and counts them and what they send."""

    def __init__(self, arsenal, port, seed):
        self.arsenal, self.port, self.rng = arsenal, port, random.Random(seed)
        self.connections, self.sent, self.accepted, self.lost = [0] * len(KINDS), [0] * len(KINDS), 0, 0

    def attack(self):
        """One connection. What a server accepts that it must not is counted in `accepted`."""
        kind = self.rng.randrange(len(KINDS))
        source = "127.%d.%d.%d" % (self.rng.randrange(1, 255), self.rng.randrange(256), self.rng.randrange(1, 255))
        change = lambda data: mutate(self.rng, data)  # noqa: E731
        try:
            if kind in (0, 6, 7):
                return self.without_tls(kind, source)
            how = self.rng.choice(self.arsenal.changed if kind == 2 and self.arsenal.changed else self.arsenal.contexts)
            peer = Peer(self.port, how, source)
        except OSError:
            # The port accepts no connection for a moment.
            self.lost += 1
            return None
        self.connections[kind] += 1
        try:
            if kind in (4, 5):
                return self.logins(peer, kind)
            self.sent[kind] += 1
            if kind == 1:
                peer.handshake(change, 1)
            elif peer.handshake():
                # TLS 1.3: the client believes that it is done before the server has seen the certificate.
                peer.send(command(ping=1), change if kind == 3 else None)
                self.accepted += bool(peer.answer()) and kind == 2
        except (OSError, ValueError):
            pass
        finally:
            peer.close()
        return None

    def without_tls(self, kind, source):
        """Bytes that were made before: they cost this process next to nothing."""
        rng, hello = self.rng, self.rng.choice(self.arsenal.flights)
        if kind == 0:
            data = mutate(rng, hello)
        elif kind == 7:
            data = hello[:rng.randrange(1, len(hello))]
        else:
            data = rng.choice([b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", login(rng), os.urandom(rng.randrange(1, 2000)),
                               b"\x16", b"\x16\x03\x01\xff\xff"])
        with socket.create_connection(("127.0.0.1", self.port), timeout=5, source_address=(source, 0)) as connection:
            self.connections[kind] += 1
            self.sent[kind] += 1
            connection.settimeout(PATIENCE_SECONDS)
            try:
                connection.sendall(data)
                if kind != 7:
                    connection.recv(65536)
            except OSError:
                pass
            if kind == 7:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def logins(self, peer, kind):
        """Logins one after the other; the frame of the last one is changed anywhere, after which no answer may come."""
        if not peer.handshake():
            return
        for left in range(self.rng.randrange(1, LOGINS + 1), 0, -1):
            frame = login(self.rng) if kind == 4 else by_token(self.rng, self.arsenal.token)
            if left == 1 and self.rng.randrange(2):
                frame = mutate(self.rng, frame)
            self.sent[kind] += 1
            peer.send(frame)
            answer = peer.answer()
            if not answer:
                return
            self.accepted += logs_in(answer)

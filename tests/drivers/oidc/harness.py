"""What the parts of oidc.py share: servers, raw connections, claims, and callbacks of drivers."""
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

import bson
import pymongo
from pymongo.auth_oidc import OIDCCallback, OIDCCallbackResult

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "common"), os.path.join(HERE, "..", "tls")]
from checks import equal  # noqa: E402

NAGI, WORK, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
TOOLS = sys.argv[4:]
FULL = os.environ.get("FULL") == "1"
AUDIENCE = "https://db.example.com"

shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(WORK)


def provider(issuer, **more):
    """A provider of the parameter; None leaves a field out."""
    own = {"issuer": issuer, "audience": AUDIENCE, "authNamePrefix": "corp", "clientId": "app", "authorizationClaim": "groups",
           "requestScopes": ["openid", "email"], "logClaims": ["sub", "aud", "absent"], "JWKSPollSecs": 0, **more}
    return {name: value for name, value in own.items() if value is not None}


def claims(issuer, seconds=60, **more):
    now = int(time.time())
    own = {"iss": issuer, "aud": AUDIENCE, "sub": "ann", "groups": ["readers"], "iat": now, "exp": now + seconds, **more}
    return {name: value for name, value in own.items() if value is not None}


class Server:
    def __init__(self, name, providers, *args, **params):
        self.folder = os.path.join(WORK, name)
        os.makedirs(os.path.join(self.folder, "data"))
        params = {"authenticationMechanisms": "SCRAM-SHA-256,MONGODB-OIDC", "authFailedDelayMaxMs": 0,
                  "JWKSMinimumQuiescePeriodSecs": 0, "oidcIdentityProviders": json.dumps(providers), **params}
        self.args = [*args, *(a for n, v in params.items() for a in ("--setParameter", "%s=%s" % (n, v)))]

    def __enter__(self):
        usual = ["--dbpath", self.folder + "/data", "--port", str(PORT), "--bind_ip", "127.0.0.1", "--nounixsocket", "--auth",
                 "--logpath", self.folder + "/nagi.log", "--storageEngine", "inMemory"]
        self.out = open(self.folder + "/stdout", "wb")
        self.process = subprocess.Popen([NAGI, "serve", *usual, *self.args], stdout=self.out, stderr=self.out)
        first = pymongo.MongoClient(port=PORT, serverSelectionTimeoutMS=30000)
        first.admin.command("createUser", "root", pwd="swordfish", roles=["root"])
        first.close()
        self.root = self.scram()
        self.root.test.c.insert_one({"_id": 1})
        any_find = [{"resource": {"db": "test", "collection": ""}, "actions": ["find", "insert"]}]
        self.root.admin.command("createRole", "corp/readers", privileges=any_find, roles=[])
        return self

    def scram(self):
        client = pymongo.MongoClient(port=PORT, username="root", password="swordfish", authMechanism="SCRAM-SHA-256",
                                     serverSelectionTimeoutMS=30000)
        client.admin.command("ping")
        return client

    def __exit__(self, *_):
        self.root.close()
        self.process.send_signal(signal.SIGTERM)
        equal(self.folder + " ends", self.process.wait(60), 0)
        self.out.close()

    def log(self):
        with open(self.folder + "/nagi.log") as f:
            return f.read()

    def lines(self, id_):
        complete = self.log().rpartition("\n")[0]  # the last line may be in the middle of its write
        return [line for line in map(json.loads, complete.splitlines()) if line["id"] == id_]

    def oidc_counts(self):
        return self.root.admin.command("serverStatus")["security"]["oidc"]


class Raw:
    """A connection without a driver: one login after another, and nothing else."""

    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", PORT), 60)

    def run(self, db, **command):
        body = bson.encode({**command, "$db": db})
        self.socket.sendall(struct.pack("<iiiiIb", 21 + len(body), 1, 0, 2013, 0, 0) + body)
        head = self.read(16)
        return bson.decode(self.read(struct.unpack("<i", head[:4])[0] - 16)[5:])

    def read(self, n):
        data = b""
        while len(data) < n:
            more = self.socket.recv(n - len(data))
            if not more:
                raise OSError("closed")
            data += more
        return data

    def start(self, payload):
        return self.run("$external", saslStart=1, mechanism="MONGODB-OIDC", payload=bson.encode(payload))

    def show(self, token):
        """Shows a token; the code of the refusal, or 0."""
        return self.start({"jwt": token}).get("code", 0)

    def find(self):
        return self.run("test", find="c").get("code", 0)

    def close(self):
        self.socket.close()


def code_of(token):
    raw = Raw()
    try:
        return raw.show(token)
    finally:
        raw.close()


class Machine(OIDCCallback):
    """Makes a token each time it is asked."""

    def __init__(self, make):
        self.make, self.count, self.contexts = make, 0, []

    def fetch(self, context):
        self.count += 1
        self.contexts.append(context)
        return OIDCCallbackResult(access_token=self.make())


def client_of(callback, kind="OIDC_CALLBACK", **more):
    properties = {kind: callback, **more.pop("properties", {})}
    return pymongo.MongoClient(port=PORT, authMechanism="MONGODB-OIDC", authMechanismProperties=properties,
                               serverSelectionTimeoutMS=30000, **more)

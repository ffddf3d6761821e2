"""Servers, and runs of `nagi copy`, for copying.py NAGI FOLDER and what it imports."""
import os
import shutil
import signal
import socket
import subprocess
import sys

from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient

NAGI, FOLDER = sys.argv[1], sys.argv[2]
RAW = CodecOptions(document_class=RawBSONDocument)
INTERNAL = ("admin", "config", "local")


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Server:
    """A server with its data directory, which can be killed and started again."""

    started = []

    def __init__(self, name, *flags):
        self.folder = os.path.join(FOLDER, name)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder + "/data")
        self.port, self.flags, self.process = free_port(), flags, None
        self.uri = "mongodb://127.0.0.1:%d" % self.port
        Server.started.append(self)
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [NAGI, "serve", "--dbpath", self.folder + "/data", "--port", str(self.port), "--bind_ip", "127.0.0.1",
             "--nounixsocket", "--noconsole", "--logpath", self.folder + "/nagi.log", "--logappend", *self.flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = MongoClient(self.uri, directConnection=True, serverSelectionTimeoutMS=60000)
        self.client.admin.command("ping")
        return self

    def end(self, how=signal.SIGTERM):
        self.client.close()
        self.process.send_signal(how)
        self.process.wait(60)

    def block(self, on):
        self.client.admin.command({"setUserWriteBlockMode": 1, "global": on})

    def clear(self):
        """Removes what a part has left."""
        for name in self.client.list_database_names():
            if name not in INTERNAL:
                self.client.drop_database(name)


class Copy:
    """A run of the command."""

    runs = 0

    def __init__(self, source, target, *flags, environment=None):
        Copy.runs += 1
        self.said = os.path.join(FOLDER, "copy-%d" % Copy.runs)
        with open(self.said, "wb") as out:
            self.process = subprocess.Popen(
                [NAGI, "copy", "--from", getattr(source, "uri", source), "--to", getattr(target, "uri", target), *flags],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, **(environment or {})})

    def text(self):
        with open(self.said, encoding="utf-8") as said:
            return said.read()

    def end(self, seconds=120):
        """The exit status and the text."""
        return self.process.wait(seconds), self.text()

    def kill(self, how=signal.SIGKILL):
        self.process.send_signal(how)
        return self.process.wait(60)


def contents(client):
    """All that a server has: options, indexes and the bytes of all documents, those of capped collections in order."""
    found = {}
    for db in client.list_database_names():
        if db in INTERNAL:
            continue
        for listed in client[db].list_collections():
            name = listed["name"]
            if name == "system.views":
                continue
            listed["info"].pop("uuid", None)
            if listed["type"] == "view":
                found[db, name] = (listed, [], [])
                continue
            docs = [bytes(doc.raw) for doc in client[db].get_collection(name, codec_options=RAW).find()]
            if not listed["options"].get("capped"):
                docs.sort()
            indexes = sorted(repr(sorted(index.items())) for index in client[db][name].list_indexes())
            found[db, name] = (listed, docs, indexes)
    return found


def differences(source, target):
    """What differs between two servers, in words; empty if nothing does."""
    one, other = contents(source), contents(target)
    words = ["only at the source: %s.%s" % name for name in one.keys() - other.keys()]
    words += ["only at the target: %s.%s" % name for name in other.keys() - one.keys()]
    for name in one.keys() & other.keys():
        for what, here, there in zip(("options", "documents", "indexes"), one[name], other[name]):
            if here != there:
                seen = (len(here), len(there)) if what == "documents" else (here, there)
                words.append("%s of %s.%s: %r" % (what, *name, seen))
    return words

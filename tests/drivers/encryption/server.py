"""What the parts of the suite `encryption` share: servers with keys, and what is in their files.

The command line of the suite is NAGI FOLDER PORT.
"""
import base64
import json
import os
import signal
import subprocess
import sys

import pymongo

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, wait_until  # noqa: E402

NAGI, WORK, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
URI = "mongodb://127.0.0.1:%d/?directConnection=true&serverSelectionTimeoutMS=30000" % PORT


def path(*names):
    return os.path.join(WORK, *names)


def key_text():
    return base64.b64encode(os.urandom(32)).decode()


def key_file(name, text=None, mode=0o600):
    """A file with a master key; returns its path."""
    file = path(name)
    with open(file, "w") as f:
        f.write(key_text() + "\n" if text is None else text)
    os.chmod(file, mode)
    return file


def keys(file, *more):
    return ["--enableEncryption", "--encryptionKeyFile", file, *more]


def command(folder, flags):
    os.makedirs(path(folder), exist_ok=True)
    return [NAGI, "serve", "--dbpath", path(folder), "--port", str(PORT), "--bind_ip", "127.0.0.1", "--nounixsocket",
            "--logpath", path(folder + ".log"), *flags]


def refused(folder, flags, env=None):
    """A start that fails: its exit status, and its output and log."""
    log = path(folder + ".log")
    if os.path.exists(log):
        os.unlink(log)
    done = subprocess.run(command(folder, flags), capture_output=True, text=True, timeout=60, env=env)
    text = open(log).read() if os.path.exists(log) else ""
    return done.returncode, done.stdout + done.stderr + text


class Server:
    """A server on a folder, and a client of it."""

    def __init__(self, folder, *flags, env=None, login=None):
        self.folder, self.log = folder, path(folder + ".log")
        if os.path.exists(self.log):
            os.unlink(self.log)
        self.out = open(path(folder + ".out"), "w")
        self.process = subprocess.Popen(command(folder, flags), stdout=self.out, stderr=self.out, env=env)
        ready = lambda: "Waiting for connections" in self.text() or self.process.poll() is not None  # noqa: E731
        if not wait_until(ready, 60) or self.process.poll() is not None:
            raise RuntimeError("the server did not start: " + self.text()[-3000:] + open(path(folder + ".out")).read())
        self.client = pymongo.MongoClient(URI, **(login or {}))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self, how=signal.SIGTERM):
        self.client.close()
        self.process.send_signal(how)
        code = self.process.wait(60)
        if how == signal.SIGTERM:
            check("%s ends in order" % self.folder, code == 0, code)
        self.out.close()

    def text(self):
        return open(self.log, errors="replace").read() if os.path.exists(self.log) else ""

    def lines(self, log_id):
        complete = self.text().rpartition("\n")[0]  # the last line may be in the middle of its write
        return [line for line in map(json.loads, complete.splitlines()) if line["id"] == log_id]

    def at_rest(self):
        return self.client.admin.command("serverStatus").get("encryptionAtRest")


def files_with(folder, marker, but=()):
    """The files below a folder that contain these bytes."""
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            file = os.path.join(place, name)
            try:
                with open(file, "rb") as f:
                    if marker in f.read() and name not in but:
                        found.append(os.path.relpath(file, folder))
            except FileNotFoundError:
                pass
    return found


def nagi(*args, env=None):
    done = subprocess.run([NAGI, *args], capture_output=True, text=True, timeout=300, env=env)
    return done.returncode, (done.stdout + done.stderr).strip()

"""The steps of the articles on which this project is based, as tests.

Five Japanese articles of 2011 to 2021, about MongoDB 2.0 to 3.4, made people measure. Each test repeats one of their
commands, shell lines, files or observations, and names the article and the words that it follows:

    @step("000", "db.test.drop();")

    000  inserts freeze on ext3 (MongoDB 2.0.0)          001  ext3 takes minutes to allocate files (2.0.1)
    002  memory limit and compression of WiredTiger (3.0.4)   003  memory of mapped files (1.8)
    004  working set, caches and disk (3.4.10)

With SEEDS=FOLDER, the folder of the articles, the quotations are looked up in them.
"""
import glob
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import traceback

import pymongo

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "drivers", "common"))
import checks  # noqa: E402
from checks import check, equal, require, wait_until  # noqa: E402,F401

FULL = os.environ.get("FULL") == "1"
MB = 1 << 20
STEPS, SKIPPED = [], []


class Skip(Exception):
    """A step that this machine cannot do."""


def step(article, quote):
    """Registers a function with the arguments of `run`: what it follows, and what it does."""
    def register(f):
        STEPS.append((article, quote, f))
        return f
    return register


def look_up():
    """Checks the quotations, if the articles are there. White space does not count."""
    folder = os.environ.get("SEEDS")
    if not folder:
        return
    bare = lambda text: re.sub(r"\s+", "", text)
    texts = {os.path.basename(path)[:3]: bare(open(path, encoding="utf-8").read())
             for path in glob.glob(os.path.join(folder, "[0-9]*.txt"))}
    for article, quote, f in STEPS:
        check("%s: %s is in the article" % (f.__name__, article), bare(quote) in texts.get(article, ""), quote)


def run_all(bench):
    """Runs the steps in order; a failure does not stop the others."""
    for article, quote, f in STEPS:
        begin, failed = time.time(), len(checks.FAILED)
        try:
            said = f(bench)
        except Skip as why:
            SKIPPED.append(f.__name__)
            said = "skipped: %s" % why
        except Exception as error:
            traceback.print_exc()
            check(f.__name__, False, repr(error))
            said = None
        if len(checks.FAILED) > failed:
            said = "FAILED; the article %s: %s" % (article, quote)
        print("%s %-28s %5.1f s  %s" % (article, f.__name__, time.time() - begin, said or "ok"), flush=True)


class Bench:
    """The programs and the folder of a run."""

    def __init__(self, nagi, work, mongostat, shell):
        self.nagi, self.work, self.mongostat, self.shell_command = nagi, work, mongostat, shell

    def server(self, name, *args, **more):
        # The one next to the last may be that of a client's connection by now.
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        return Server(self, name, port, args, **more)

    def shell(self, server, text, database="test"):
        """Runs lines of the old shell through mongosh; returns the lines that it prints."""
        path = os.path.join(self.work, "lines.js")
        with open(path, "w") as f:
            f.write(text)
        done = subprocess.run([*self.shell_command, "--norc", "--quiet", "%s/%s" % (server.uri, database), "--file", path],
                              capture_output=True, text=True, timeout=3000, env=dict(os.environ, HOME=self.work))
        require(done.returncode == 0, "the shell fails: %s %s" % (done.stdout[-2000:], done.stderr[-2000:]))
        return [line for line in done.stdout.splitlines() if "DeprecationWarning" not in line]


class Server:
    """A running server; a context manager that stops it. `folder`: its folder, else a new one below the run's."""

    def __init__(self, bench, name, port, args, folder=None, file=None, keep=False):
        self.bench, self.port, self.args = bench, port, list(args)
        self.folder = folder or os.path.join(bench.work, name)
        self.data, self.log_path = os.path.join(self.folder, "data"), os.path.join(bench.work, name + ".log")
        self.uri = "mongodb://127.0.0.1:%d" % port
        if not keep:
            shutil.rmtree(self.data, ignore_errors=True)
        os.makedirs(self.data, exist_ok=True)
        if file is not None:
            path = os.path.join(self.folder, "mongod.conf")
            with open(path, "w", encoding="utf-8") as f:
                f.write(file)
            self.args += ["-f", path]
        else:
            self.args += ["--dbpath", self.data]

    def __enter__(self):
        usual = ["--port", str(self.port), "--bind_ip", "127.0.0.1", "--nounixsocket", "--logpath", self.log_path]
        # A relative path of the file is relative to the folder in which the server is started.
        self.process = subprocess.Popen([self.bench.nagi, "serve", *self.args, *usual], cwd=self.folder,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.client = pymongo.MongoClient(self.uri, directConnection=True, serverSelectionTimeoutMS=60_000)
        for _ in range(600):
            require(self.process.poll() is None, "the server ends: %s" % (self.process.stderr.read() if self.process.poll() is not None else ""))
            try:
                self.client.admin.command("ping")
                break
            except pymongo.errors.ConnectionFailure:
                time.sleep(0.1)
        return self

    def __exit__(self, *_):
        self.client.close()
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(300)

    def kill(self):
        self.client.close()  # which says goodbye to the server, and would wait for it
        self.process.kill()
        self.process.wait(60)

    def lines(self):
        with open(self.log_path, encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.startswith("{")]

    def said(self, pattern):
        """The messages of the log that the pattern matches, as an operator greps them."""
        return [found for line in self.lines() for found in [re.search(pattern, line["msg"])] if found]

    def status(self):
        return self.client.admin.command("serverStatus")

    def proc(self, name):
        """A figure of /proc/PID/status in bytes."""
        with open("/proc/%d/status" % self.process.pid) as f:
            return int(re.search(r"^%s:\s+(\d+)" % name, f.read(), re.M).group(1)) << 10

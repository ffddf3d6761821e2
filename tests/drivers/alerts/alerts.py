"""Alerts on a real server: built-in rules, rules of a file, webhook, program, silences, errors of the file, no console.

Usage: alerts.py NAGI FOLDER PORT. The ports PORT and PORT + 1000 are used, and a free one for the webhook.
"""
import glob
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from pymongo import MongoClient
from pymongo.errors import OperationFailure

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, finish, section, wait_until  # noqa: E402

NAGI, WORK, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
BUILT_IN = {"disk full", "disk space", "disk forecast", "memory bound", "memory refused", "cache hit rate", "stall",
            "connections", "unindexed queries", "processor limit", "failed logins", "replication window", "backup age"}


class Hook(http.server.ThreadingHTTPServer):
    """A webhook that keeps what it is sent. Answers with the statuses of `answers`, then 200; `held` holds all up."""

    def __init__(self):
        self.got, self.answers, self.held = [], [], threading.Event()
        self.held.set()
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.address = "http://127.0.0.1:%d/hooks/secret-path" % self.server_address[1]

    def states(self, alert):
        return [m["state"] for m in list(self.got) if m["alert"] == alert]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.held.wait(20)
        body = self.rfile.read(int(self.headers["content-length"]))
        status = self.server.answers.pop(0) if self.server.answers else 200
        if status == 200:
            self.server.got.append({**json.loads(body), "login": self.headers.get("Authorization"),
                                    "type": self.headers.get("content-type")})
        self.send_response(status)
        if status == 302:
            self.send_header("location", self.server.address + "/elsewhere")
        self.end_headers()

    def log_message(self, *_):
        pass


class Server:
    def __init__(self, name, rules, *args, mode=0o600, keep=False):
        self.folder = os.path.join(WORK, name)
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder + "/data", exist_ok=True)
        self.log = self.folder + "/nagi.log"
        self.args = [NAGI, "serve", "--dbpath", self.folder + "/data", "--port", str(PORT), "--bind_ip", "127.0.0.1",
                     "--nounixsocket", "--logpath", self.log, "--logappend", *args]
        if rules is not None:
            path = self.folder + "/rules.yaml"
            with open(path, "w") as file:
                file.write(rules)
            os.chmod(path, mode)
            self.args += ["--alertRules", path]

    def __enter__(self):
        self.process = subprocess.Popen(self.args, stdout=subprocess.DEVNULL, env={**os.environ, "NAGI_TEST_SECRET": "s3cret"})
        self.client = MongoClient("mongodb://127.0.0.1:%d/?directConnection=true" % PORT)
        self.client.admin.command("ping")
        return self

    def __exit__(self, *_):
        self.client.close()
        began = time.monotonic()
        self.process.terminate()
        equal(self.folder + " ends", self.process.wait(60), 0)
        self.stopped_in = time.monotonic() - began

    def refused(self):
        """Status and text of a start that fails."""
        done = subprocess.run(self.args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30)
        return done.returncode, done.stdout.decode()

    def lines(self, number):
        with open(self.log) as file:
            return [line["attr"] for line in map(json.loads, file) if line["id"] == number]

    def alerts(self):
        return get("/api/alerts")

    def rule(self, name):
        return next(rule for rule in self.alerts()["rules"] if rule["name"] == name)


def get(path, headers=()):
    with urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:%d%s" % (PORT + 1000, path), headers=dict(headers))) as reply:
        body = reply.read().decode()
        return json.loads(body) if "json" in reply.headers["content-type"] else body


def silence(rule, seconds):
    """The status of a request for silence."""
    headers = {"content-type": "application/json", "x-nagi-console": "1"}
    body = json.dumps({"rule": rule, "seconds": seconds}).encode()
    request = urllib.request.Request("http://127.0.0.1:%d/api/alerts/silence" % (PORT + 1000), body, headers)
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


def sessions(server, count):
    return [server.client.start_session() for _ in range(count)]


RULES = """
builtIn: {stall: {above: 1e9}, backup age: {above: 2}}
actions:
  hook: {webhook: "%(hook)s", headers: {Authorization: Bearer t0ken}}
  page: {command: ["%(program)s", "an argument", "; touch %(folder)s/injected"]}
defaultActions: [hook]
rules:
  - {name: 'cursors "open"', figure: cursors.open, above: 2, for: 2s, actions: [hook, page], advice: Close them., severity: critical}
  - {name: inserts, figure: ops.insert, over: 5s, above: 50, actions: [hook]}
  - {name: no queries, figure: ops.query, over: 3s, below: 1}
"""


def program(folder):
    path = folder + "/page"
    with open(path, "w") as file:
        file.write("#!/bin/sh\nexec >>%s/paged\necho \"$1|$2|$NAGI_ALERT|$NAGI_ALERT_STATE|$NAGI_ALERT_SEVERITY|"
                   "$NAGI_ALERT_VALUE|$NAGI_TEST_SECRET|$PWD\"\ncat\necho\n" % folder)
    os.chmod(path, 0o755)
    return path


def fires_and_resolves():
    hook = Hook()
    shutil.rmtree(WORK + "/fires", ignore_errors=True)
    os.makedirs(WORK + "/fires")
    folder = WORK + "/fires"
    rules = RULES % {"hook": hook.address, "program": program(folder), "folder": folder}
    with Server("fires", rules, keep=True) as server:
        equal("rules", {rule["name"] for rule in server.alerts()["rules"]}, BUILT_IN | {'cursors "open"', "inserts", "no queries"})
        server.client.test.c.insert_many([{"n": n} for n in range(300)])
        check("inserts fire", wait_until(lambda: hook.states("inserts") == ["firing"], 10), hook.got)
        cursors = [server.client.test.c.find().batch_size(10) for _ in range(4)]
        began = time.monotonic()
        for cursor in cursors:
            next(cursor)
        check("cursors fire", wait_until(lambda: hook.states('cursors "open"') == ["firing"], 10), hook.got)
        check("not before their time", time.monotonic() - began > 1.5)
        message = next(m for m in hook.got if m["alert"] == 'cursors "open"')
        equal("header", (message["login"], message["type"]), ("Bearer t0ken", "application/json"))
        equal("facts", (message["severity"], message["value"], message["advice"], message["version"]), ("critical", 4, "Close them.", 1))
        equal("text", message["text"], 'CRITICAL %s: cursors "open" - 4 (cursors.open above 2 for 2s)' % message["host"])
        equal("the console", server.rule('cursors "open"')["state"], "firing")
        check("metrics", 'nagi_alert_firing{rule="cursors \\"open\\""} 1' in get("/metrics"))
        check("metrics of others", 'nagi_alert_firing{rule="stall"} 0' in get("/metrics"))
        for cursor in cursors:
            cursor.close()
        check("cursors resolve", wait_until(lambda: hook.states('cursors "open"') == ["firing", "resolved"], 25), hook.got)
        check("inserts resolve", wait_until(lambda: hook.states("inserts") == ["firing", "resolved"], 25), hook.got)
        check("a dead importer", wait_until(lambda: "firing" in hook.states("no queries"), 20), hook.got)
        with open(folder + "/paged") as file:
            paged = file.read().splitlines()
        equal("the program's arguments and variables", paged[0],
              'an argument|; touch %s/injected|cursors "open"|firing|critical|4||/' % folder)
        equal("its input", json.loads(paged[1])["alert"], 'cursors "open"')
        check("no shell", not os.path.exists(folder + "/injected"))
        logged = [(line["alert"], line["severity"]) for line in server.lines(8200360)]
        check("the log", ('cursors "open"', "critical") in logged and ("inserts", "warning") in logged, logged)
        check("the end in the log", 'cursors "open"' in [line["alert"] for line in server.lines(8200361)])
        told = lambda: {action["name"]: action for action in server.alerts()["actions"]}  # noqa: E731
        check("the program ran twice", wait_until(lambda: told()["page"]["delivered"] == 2, 20), told())
        told = told()
        equal("counts", (told["page"]["delivered"], told["hook"]["failed"], told["hook"]["dropped"]), (2, 0, 0))
        history = [(event["alert"], event["state"]) for event in server.alerts()["history"]]
        check("history", ("inserts", "resolved") in history, history)
        backup_age(server, folder)


def backup_age(server, folder):
    check("no backup, no age", server.rule("backup age")["value"] is None)
    begun = server.client.admin.command("nagiBackup", "begin")
    server.client.admin.command("nagiBackup", "end", backupId=begun["backupId"])
    time.sleep(1.5)
    check("a backup that was not read is none", server.rule("backup age")["value"] is None)
    done = subprocess.run([NAGI, "backup", "--uri", "mongodb://127.0.0.1:%d" % PORT, "--out", folder + "/copy"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    equal("backup", done.returncode, 0)
    check("an age", wait_until(lambda: server.rule("backup age")["value"] is not None, 5))
    check("it fires", wait_until(lambda: server.rule("backup age")["state"] == "firing", 10), server.rule("backup age"))
    kept = list(server.client.local["nagi.backups"].find())
    check("its document", len(kept) == 1 and kept[0]["files"] > 3 and kept[0]["bytes"] > 1000, kept)


def survives_a_restart():
    with Server("fires", "builtIn: {backup age: {above: 1}}", keep=True) as server:
        check("the age of the backup is known", wait_until(lambda: (server.rule("backup age")["value"] or 0) > 1, 5))
        equal("the history is not", server.alerts()["actions"], [])


def silences():
    hook = Hook()
    rules = "builtIn: false\nactions: {h: {webhook: '%s'}}\ndefaultActions: [h]\n" \
            "rules: [{name: r, figure: cursors.open, above: 0}]" % hook.address
    with Server("silent", rules) as server:
        server.client.test.c.insert_many([{} for _ in range(50)])
        equal("statuses", (silence("r", 30), silence("x", 30), silence("r", -1), silence("r", 1.5), silence("r", 1e9)),
              (200, 404, 400, 400, 400))
        cursor = server.client.test.c.find().batch_size(5)
        next(cursor)
        check("it fires", wait_until(lambda: server.rule("r")["state"] == "firing", 10))
        equal("nobody is told", (hook.got, server.lines(8200360)), ([], []))
        equal("the history has it", [(e["state"], e["silenced"]) for e in server.alerts()["history"]], [("firing", True)])
        equal("the silence ends", silence("r", 0), 200)
        check("it is told then", wait_until(lambda: hook.states("r") == ["firing"], 10), hook.got)
        equal("who silenced it", [line["seconds"] for line in server.lines(8200364)], [30, 0])
        cursor.close()
        equal("it is silenced for long", silence("r", 3600), 200)
        until = server.rule("r")["silentUntilMs"]
    with Server("silent", rules, keep=True) as server:
        kept = server.rule("r")["silentUntilMs"] or 0
        check("the silence survives a restart", abs(kept - until) < 2000, (kept, until))
        server.client.admin.command("fsync", lock=True)
        equal("its end, while writes are blocked", silence("r", 0), 200)
    with Server("silent", rules, keep=True) as server:
        equal("the end does so, too", server.rule("r")["silentUntilMs"], None)


def a_hook_that_fails():
    """One hook fails twice and is told at the third time, one hangs, one does not exist: nothing else waits."""
    flaky, stuck = Hook(), Hook()
    flaky.answers = [500, 302]
    stuck.held.clear()
    rules = """
builtIn: false
actions:
  flaky: {webhook: "%s"}
  stuck: {webhook: "%s"}
  none: {webhook: "http://127.0.0.1:1/secret-path"}
  bad: {command: [/bin/false]}
  slow: {command: [/bin/sleep, "300"]}
defaultActions: [flaky, stuck, none, bad, slow]
rules: [{name: r, figure: cursors.open, above: 0}]
""" % (flaky.address, stuck.address)
    server = Server("failing", rules)
    with server:
        server.client.test.c.insert_many([{} for _ in range(50)])
        cursor = server.client.test.c.find().batch_size(5)
        next(cursor)
        check("told at the third time", wait_until(lambda: flaky.states("r") == ["firing"], 20), flaky.got)
        failed = lambda: {line["action"]: line["error"] for line in server.lines(8200362)}  # noqa: E731
        check("failures are logged", wait_until(lambda: {"none", "bad"} <= set(failed()), 30), failed())
        check("with their reasons", "exit status: 1" in failed().get("bad", "") and "secret" not in str(failed()), failed())
        began = time.monotonic()
        server.client.admin.command("serverStatus")
        check("the server answers", time.monotonic() - began < 2)
        cursor.close()
    check("a program that hangs does not hold up the stop", server.stopped_in < 15, server.stopped_in)
    check("and is ended", not any("/bin/sleep 300" in line for line in command_lines()))
    stuck.held.set()


def command_lines():
    """The command lines of all processes."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                yield f.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            pass  # it has ended


def failed_logins():
    with Server("logins", "builtIn: {failed logins: {above: 3}}", "--auth", "--setParameter", "authFailedDelayMs=0") as server:
        server.client.admin.command("createUser", "root", pwd="secret", roles=["root"])
        for _ in range(5):
            try:
                MongoClient("127.0.0.1", PORT, username="root", password="wrong").admin.command("ping")
                check("a wrong password", False)
            except OperationFailure as error:
                equal("a wrong password", error.code, 18)
        logged = wait_until(lambda: "failed logins" in [line["alert"] for line in server.lines(8200360)], 10)
        check("it is told", logged, server.lines(8200360))
        try:
            get("/api/alerts")
            check("without a login", False)
        except urllib.error.HTTPError as error:
            equal("without a login", error.code, 401)
        equal("nor a silence", silence("stall", 10), 401)
        root = MongoClient("127.0.0.1", PORT, username="root", password="secret")
        root.admin.command("createUser", "watch", pwd="w", roles=["clusterMonitor"])
        root.admin.command("createUser", "host", pwd="h", roles=["clusterMonitor", "hostManager"])
        equal("rights to silence", [as_user("watch", "w"), as_user("host", "h")], [(200, 403), (200, 200)])
        gone = as_user("host", "h", lambda: root.admin.command("dropUser", "host"))
        check("a user that was dropped has no rights left", set(gone) <= {401, 403}, gone)
        root.close()


def as_user(user, password, before=lambda: None):
    """Statuses of a request for the alerts and one for a silence, after a login and what is to be done then."""
    base = "http://127.0.0.1:%d" % (PORT + 1000)
    headers = {"content-type": "application/json", "x-nagi-console": "1"}
    body = json.dumps({"user": user, "password": password, "db": "admin"}).encode()
    with urllib.request.urlopen(urllib.request.Request(base + "/api/login", body, headers)) as reply:
        headers["cookie"] = reply.headers["set-cookie"].split(";")[0]
    before()
    statuses = []
    for path, data in (("/api/alerts", None), ("/api/alerts/silence", b'{"rule": "stall", "seconds": 5}')):
        try:
            with urllib.request.urlopen(urllib.request.Request(base + path, data, headers)) as reply:
                statuses.append(reply.status)
        except urllib.error.HTTPError as error:
            statuses.append(error.code)
    return tuple(statuses)


def without_a_console():
    rules = "builtIn: false\nrules: [{name: r, figure: cursors.open, above: 0}]"
    with Server("bare", rules, "--noconsole") as server:
        server.client.test.c.insert_many([{} for _ in range(50)])
        cursor = server.client.test.c.find().batch_size(5)
        next(cursor)
        check("it fires nevertheless", wait_until(lambda: [line["alert"] for line in server.lines(8200360)] == ["r"], 10))
        cursor.close()
    with Server("off", None, "--noalerts") as server:
        equal("off", server.alerts(), {"enabled": False})


def wrong_files():
    command = "actions: {a: {command: [/bin/true]}}"
    for rules, mode, text in (
        ("rule: []", 0o600, "unknown name 'rule'"),
        ("rules: [{name: r, figure: ops.inserts, above: 1}]", 0o600, "rule 'r': figure: there is no figure 'ops.inserts'"),
        ("rules: [{name: r, figure: ops.insert, above: 1}]", 0o600, "a counter grows since the start: it needs 'over'"),
        ("builtIn: {stal: false}", 0o600, "there is no rule 'stal'"),
        ("rules: [", 0o600, "rules.yaml"),
        (command, 0o622, "chmod go-w"),
        ("- " * 10472, 0o600, "nested deeper"),
        ("? " * 9130, 0o600, "nested deeper"),
        ("actions: {a: {command: [/nonexistent]}}", 0o600, "/nonexistent"),
        ("actions: {a: {webhook: 'https://x/', caFile: /nonexistent}}", 0o600, "caFile: /nonexistent"),
    ):
        code, said = Server("wrong", rules, mode=mode).refused()
        check("refused: %s" % rules, code == 2 and text in said, (code, said))
        check("no secret path or panic", "panic" not in said, said)
    code, said = Server("wrong", "", "--noalerts").refused()
    check("--noalerts with rules", code == 2 and "--noalerts" in said, (code, said))
    missing = Server("wrong", None, "--alertRules", WORK + "/none.yaml")
    code, said = missing.refused()
    check("no file", code == 2 and "none.yaml" in said and "No such file" in said, (code, said))
    code, said = Server("wrong", None, "--alertRules", "/dev/zero").refused()
    check("a device", code == 2 and "not a file" in said, (code, said))
    check("each text is one line", len(re.findall("\n", said.strip())) == 0, said)


for part in (fires_and_resolves, survives_a_restart, silences, a_hook_that_fails, failed_logins, without_a_console, wrong_files):
    section(part)
finish("alerts")

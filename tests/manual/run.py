"""Runs the blocks of the manual: run.py --nagi FILE --work DIR [--page NAME] ... (see pages.py for the words of blocks).

Each page has a server of its own, a member of a replica set unless the page starts another one with `nagi serve`, and
an own folder, in which its scripts run. What a page calls port 27017 or /data is replaced in `Page.local`, and nowhere
else.
"""
import argparse
import concurrent.futures
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pages
import processes

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BLOCK_SECONDS = 120
ERROR = re.compile(r"^(?:Uncaught\b.*|(?:Uncaught )?[A-Z]\w*Error\b.*)$", re.M)


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Shell:
    """One session of mongosh: statements in, printed results out."""

    def __init__(self, page, user):
        login = ["-u", user, "-p", "secret", "--authenticationDatabase", "admin"] if user else []
        self.process = subprocess.Popen([os.path.join(page.bin, "mongosh"), *login], cwd=page.folder, env=page.env,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        self.marks = 0
        self.run("prompt = '@@'\npasswordPrompt = () => 'secret'\n0")

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.decode(errors="replace").replace("\r", ""))
        self.lines.put(None)

    def run(self, text):
        self.marks += 1
        mark = "end of block %d" % self.marks
        self.process.stdin.write((text + "\nprint('end of ' + 'block %d')\n" % self.marks).encode())
        self.process.stdin.flush()
        out, end = [], time.monotonic() + BLOCK_SECONDS
        while True:
            try:
                line = self.lines.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise RuntimeError("no end after %d s: %s" % (BLOCK_SECONDS, "".join(out)))
            if line is None:
                raise RuntimeError("mongosh ended: %s" % "".join(out))
            line = re.sub(r"^(?:@@|(?:\.\.\.|\|) )+", "", line)
            if line.strip().endswith(mark):
                return "".join(out)
            out.append(line)

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Page:
    def __init__(self, args, path):
        self.name = os.path.relpath(path, ROOT)
        with open(path) as f:
            text = f.read()
        self.elsewhere = pages.elsewhere(text)
        self.blocks = [] if self.elsewhere else pages.parse(self.name, text)
        self.folder = os.path.join(args.work, re.sub(r"\W", "-", self.name))
        self.bin = args.bin
        self.port, self.other = free_ports(2)
        self.env = dict(os.environ, MANUAL_PORT=str(self.port), MANUAL_HOME=self.folder + "/.run", MANUAL_NAGI=args.nagi,
                        MANUAL_TOOLS=args.tools, MANUAL_MONGOSH=args.mongosh, PATH=args.bin + ":" + os.environ["PATH"],
                        HOME=self.folder + "/.home", GOCACHE=args.gocache, GOPATH=args.gopath, TERM="dumb")
        self.shell, self.server_began, self.backgrounds = None, None, []
        self.run_count, self.not_run, self.failures, self.seconds = 0, [], [], 0.0

    def local(self, text):
        """The names of a page in the terms of this run."""
        for name, here in [("28017", str(self.port + 1000)), ("27017", str(self.port)), ("27999", str(self.other)), ("/var/lib/nagi", self.folder + "/var"),
                           ("/var/log/nagi", self.folder + "/log"), ("/etc/nagi.conf", self.folder + "/nagi.conf"),
                           ("/data", self.folder + "/root/data"), ("/backup", self.folder + "/root/backup")]:
            text = re.sub(r"(?<![\w.$-])" + re.escape(name) + r"(?![\w])", lambda _: here, text)
        return text

    def shown(self, text):
        """The output of this run in the terms of a page."""
        for here, name in [(self.folder + "/var", "/var/lib/nagi"), (self.folder + "/log", "/var/log/nagi"),
                           (self.folder + "/root", ""), (self.folder + "/", ""),
                           (str(self.port + 1000), "28017"), (str(self.port), "27017"), (str(self.other), "27999")]:
            text = text.replace(here, name)
        return text

    def pid_file(self):
        return os.path.join(self.folder, ".run", "server-%d.pid" % self.port)

    def ensure_server(self):
        if not os.path.exists(self.pid_file()) and not os.path.exists(self.folder + "/.run/own"):
            code, output = self.script("mkdir -p data && nagi serve --dbpath data --replSet rs0 --initiate")
            if code:
                raise RuntimeError("the server has not started: exit code %d\n%s" % (code, self.shown(output[-1000:])))

    def script(self, text):
        """Runs a script; its exit code and output. Servers that it leaves behind do not hold the output open."""
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=self.folder, env=self.env, timeout=BLOCK_SECONDS,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        return done.returncode, done.stdout

    def run(self):
        began = time.monotonic()
        for folder in ("/.run", "/.home", "/var", "/log", "/root/data", "/root/backup"):
            os.makedirs(self.folder + folder, exist_ok=True)
        self.prepare()
        try:
            for block in self.blocks:
                self.one(block)
                if self.failures:
                    break  # later blocks build on earlier ones
        finally:
            self.close()
        self.seconds = time.monotonic() - began
        return self

    def prepare(self):
        """What the blocks that install packages would have put into the folder."""
        os.symlink(self.env["MANUAL_NODE_MODULES"], self.folder + "/node_modules")
        os.symlink(self.env["MANUAL_JARS"], self.folder + "/lib")
        for name in ("go.mod", "go.sum"):
            shutil.copy(os.path.join(ROOT, "tests/drivers/go", name), self.folder)

    def one(self, block):
        words = block.words
        if "not-run" in words:
            self.not_run.append((block.line, words["not-run"]))
            return
        text = self.local(block.text)
        if "file" in words:
            path = os.path.join(self.folder, words["file"].lstrip("/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write(text + "\n")
            self.run_count += 1
            return
        if block.language == "text":
            return
        try:
            output = self.js(block, text) if block.language == "js" else self.sh(block, text)
        except (RuntimeError, subprocess.TimeoutExpired, BrokenPipeError) as error:
            self.failures.append("%s:%d: %s" % (block.page, block.line, error))
            return
        self.run_count += 1
        if not self.failures and block.output is not None and not pages.matches(block.output, self.shown(output)):
            self.failures.append("%s:%d: the output is\n%s" % (block.page, block.line, self.shown(output)))

    def sh(self, block, text):
        if not re.search(r"\bnagi serve\b", text):
            self.ensure_server()
        if "background" in block.words:
            return self.background(text)
        code, output = self.script(text)
        if "nagi serve" in text:
            open(self.folder + "/.run/own", "w").close()
        if code != int(block.words.get("exit", 0)):
            self.failures.append("%s:%d: exit code %d\n%s" % (block.page, block.line, code, self.shown(output)))
        return output

    def background(self, text):
        """Starts a script that runs until the page ends; returns its first output, which tells that it works."""
        path = "%s/.run/background-%d" % (self.folder, len(self.backgrounds))
        with open(path, "wb") as out:
            process = subprocess.Popen(["bash", "-c", text], cwd=self.folder, env=self.env, start_new_session=True,
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.backgrounds.append(process)
        if not processes.wait(lambda: os.path.getsize(path) or process.poll() is not None, BLOCK_SECONDS) or process.poll():
            raise RuntimeError("the background script has not begun: %s" % process.poll())
        with open(path) as f:
            return f.read()

    def js(self, block, text):
        self.ensure_server()
        with open(self.pid_file()) as f:
            server = f.read()
        session = (server, block.words.get("as"))
        if self.shell and (session != self.server_began or "session" in block.words):
            self.shell.close()
            self.shell = None
        if not self.shell:
            self.shell, self.server_began = Shell(self, block.words.get("as")), session
        output = self.shell.run(text)
        if "error" not in block.words and ERROR.search(output):
            self.failures.append("%s:%d: %s" % (block.page, block.line, self.shown(output)))
        return output

    def close(self):
        if self.shell:
            self.shell.close()
        for process in self.backgrounds:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(30)
        for name in os.listdir(self.folder + "/.run"):
            if name.endswith(".pid"):
                with open(os.path.join(self.folder, ".run", name)) as f:
                    processes.stop(int(f.read()))


def summary_pages():
    """The pages of the manual: those of docs/SUMMARY.md in docs itself, and the README."""
    with open(os.path.join(ROOT, "docs/SUMMARY.md")) as f:
        named = re.findall(r"\]\(([\w.-]+\.md)\)", f.read())
    return [os.path.join(ROOT, "README.md")] + [os.path.join(ROOT, "docs", n) for n in dict.fromkeys(named)]


def versions():
    """The versions of clients that docs/coming-from-mongodb.md and the quick start name are those that the tests use."""
    def read(path):
        with open(os.path.join(ROOT, path)) as f:
            return f.read()

    def version(path, pattern):
        return re.search(pattern, read("tests/drivers/" + path)).group(1)

    wanted = {
        "pymongo": version("pymongo/requirements.txt", r"pymongo==(\S+)"),
        "mongodb (Node)": version("node/package.json", r'"mongodb": "([^"]+)"'),
        "mongo-driver (Go)": version("go/go.mod", r"mongo-driver/v2 (\S+)"),
        "mongodb-driver-sync (Java)": version("java/pom.xml", r"mongodb-driver-sync</artifactId>\s*<version>([^<]+)"),
        "mongosh": version("mongosh/package.json", r'"mongosh": "([^"]+)"'),
        ", ".join(processes.TOOLS): "mongo-tools " + version("tools/go.mod", r"mongo-tools (\S+)"),
    }
    table = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", read("docs/coming-from-mongodb.md"), re.M))
    wrong = ["%s is %s, not %s" % (name, v, table.get(name)) for name, v in wanted.items() if not table.get(name, "").startswith(v)]
    start = read("docs/quick-start.md")
    wrong += ["docs/quick-start.md: %s" % v for v in list(wanted.values())[:4] if v not in start]
    return wrong


def main():
    parser = argparse.ArgumentParser()
    for name in ("nagi", "work", "tools", "mongosh", "node-modules", "jars", "gocache", "gopath"):
        parser.add_argument("--" + name, default="")
    parser.add_argument("--page", action="append", help="only this page, such as docs/backup.md")
    parser.add_argument("--parallel", type=int, default=3)
    args = parser.parse_args()
    os.environ.update(MANUAL_NODE_MODULES=args.node_modules, MANUAL_JARS=args.jars)
    args.bin = os.path.join(args.work, "bin")
    os.makedirs(args.bin, exist_ok=True)
    for name in processes.NAMES:
        if not os.path.exists(os.path.join(args.bin, name)):
            os.symlink(os.path.join(HERE, "command.py"), os.path.join(args.bin, name))
    wrong = versions()
    if wrong:
        sys.exit("FAILED: docs/coming-from-mongodb.md: %s" % "; ".join(wrong))
    try:
        chosen = [Page(args, path) for path in summary_pages() if not args.page or os.path.relpath(path, ROOT) in args.page]
    except pages.Untagged as error:
        sys.exit("FAILED: %s" % error)
    with concurrent.futures.ThreadPoolExecutor(args.parallel) as pool:
        done = list(pool.map(Page.run, chosen))
    report(done)


def report(done):
    for page in done:
        if page.run_count or page.not_run:
            print("%-34s %3d run, %2d not run, %.1f s" % (page.name, page.run_count, len(page.not_run), page.seconds))
    for page in done:
        if page.elsewhere:
            print("%-34s run by %s" % (page.name, page.elsewhere))
    print("\nnot run:")
    for page in done:
        for line, reason in page.not_run:
            print("  %s:%d: %s" % (page.name, line, reason.replace("-", " ")))
    failures = [f for page in done for f in page.failures]
    for failure in failures:
        print("FAILED: " + failure)
    run, not_run = sum(p.run_count for p in done), sum(len(p.not_run) for p in done)
    print("manual: %d pages, %d blocks run, %d not run" % (len(done), run, not_run))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()

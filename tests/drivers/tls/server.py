"""A server for a part of a test program, with its log; and openssl as a client."""
import json
import os
import subprocess

from checks import check, equal, wait_until


class Server:
    """Runs from `with` to its end, and must then exit with status 0. Its files are in the folder `work`."""

    def __init__(self, nagi, work, port, *flags, engine="inMemory", bind="localhost"):
        self.work, self.port = work, port
        self.log = os.path.join(work, "nagi.log")
        self.flags = [nagi, "serve", "--storageEngine", engine, "--dbpath", work, "--port", str(port), "--bind_ip", bind,
                      "--unixSocketPrefix", work, "--logpath", self.log, *flags]

    def __enter__(self):
        self.process = subprocess.Popen(self.flags, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if not wait_until(lambda: "Waiting for connections" in self.text() or self.process.poll() is not None):
            raise SystemExit("the server did not start: " + self.text()[-2000:])
        if self.process.poll() is not None:
            raise SystemExit("the server ended: " + self.text()[-2000:] + self.process.stderr.read())
        return self

    def __exit__(self, *_):
        self.process.terminate()
        equal("exit status of " + " ".join(self.flags[12:]), self.process.wait(60), 0)
        os.unlink(self.log)

    def text(self):
        return open(self.log).read() if os.path.exists(self.log) else ""

    def lines(self, *log_ids):
        # The last line may not be complete yet.
        complete = self.text().rpartition("\n")[0]
        return [line for line in map(json.loads, complete.splitlines()) if line["id"] in log_ids]

    def logged(self, text):
        return wait_until(lambda: text in self.text(), 10)

    def resident(self):
        """The resident bytes of the process."""
        with open("/proc/%d/statm" % self.process.pid) as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def s_client(port, *args, text="", host="localhost", seconds=60):
    """What `openssl s_client` prints within this time. The input ends with `text`, and the connection with it."""
    command = ["openssl", "s_client", "-connect", "%s:%d" % (host, port), *args]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        try:
            return running.communicate(text, timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            running.kill()
            return running.communicate()[0]


def starts_not(nagi, work, port, name, says, *flags, status=1):
    """A start that is refused."""
    command = [nagi, "serve", "--storageEngine", "inMemory", "--dbpath", work, "--port", str(port), "--nounixsocket", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    equal(name + ": status", done.returncode, status)
    check(name, says in done.stdout + done.stderr, (done.stdout + done.stderr)[-1500:])

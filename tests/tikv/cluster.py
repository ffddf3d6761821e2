"""Placement drivers and stores with TiKV's protocol on loopback, for tests; see `build` for what they are."""

import glob
import http.server
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
START_SECONDS_MAX = 60


def free_ports(count, after=0):
    """Different ports; one port in NAGI_TIKV_PORT is the first of consecutive ones, of which `after` are in use."""
    first = os.environ.get("NAGI_TIKV_PORT")
    if first:
        return [int(first) + after + n for n in range(count)]
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def stop(process):
    """Stops a process; none of its threads runs any more when this returns."""
    process.send_signal(signal.SIGSTOP)
    while any(state(f"/proc/{process.pid}/task/{thread}/stat") != "T" for thread in os.listdir(f"/proc/{process.pid}/task")):
        time.sleep(0.001)


def state(path):
    try:
        with open(path, encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:  # the thread has ended
        return "T"


def decoded(key):
    """A key of which the placement driver tells: groups of eight bytes, with a ninth that tells how many are not of the key."""
    groups = [key[n:n + 9] for n in range(0, len(key), 9)]
    return b"".join(group[:8 - (255 - group[8])] for group in groups if len(group) == 9)


class Stopped:
    """A process that is stopped while this is used as a context."""

    def __init__(self, process):
        self.process = process

    def __enter__(self):
        stop(self.process)

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGCONT)


class Control(http.server.BaseHTTPRequestHandler):
    """Does something with a process, for tests in other programs: POST /stop/NAME, /continue/NAME, /kill/NAME, /end/NAME
    (in good order), /start/NAME. GET /tables/FOLDER: the size of the tables in one of its folders."""

    cluster = None

    def do_POST(self):  # noqa: N802, the name that the base class calls
        _, what, name = self.path.split("/")
        if what == "kill":
            self.cluster.kill(name)
        elif what == "end":
            self.cluster.processes[name].terminate()
            self.cluster.processes[name].wait()
        elif what == "start":
            self.cluster.restart(name)
        elif what == "stop":
            stop(self.cluster.processes[name])
        else:
            self.cluster.processes[name].send_signal(signal.SIGCONT)
        self.send_response(200)
        self.end_headers()

    def do_GET(self):  # noqa: N802
        folder = urllib.parse.unquote(self.path.split("/")[2])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"%d" % self.cluster.size(folder))

    def log_message(self, *_):
        pass


class Cluster:
    """Placement drivers and stores: one of each, or more, with a replica of all data in each of up to three stores.
    Their data are removed at the end.

    `files`: authorities, certificate and key, in PEM; connections are encrypted then, and clients need certificates.
    `after`: see `free_ports`.
    """

    def __init__(self, files=None, after=0, drivers=1, stores=1):
        self.files, self.after = files or [], after
        self.drivers = ["PD"] if drivers == 1 else [f"PD{n + 1}" for n in range(drivers)]
        self.stores = ["STORE"] if stores == 1 else [f"STORE{n + 1}" for n in range(stores)]
        self.addresses, self.admins = {}, {}
        self.scheme = "https" if files else "http"
        self.context = ssl.create_default_context(cafile=files[0]) if files else None
        if files:
            self.context.load_cert_chain(*files[1:])
        self.programs = subprocess.check_output([os.path.join(HERE, "build")], text=True).strip()
        self.folder = tempfile.mkdtemp(prefix="nagi-tikv-")
        self.commands = {}
        self.processes = {}
        self.control = None

    def spawn(self, name, program, *arguments):
        self.commands[name] = [os.path.join(self.programs, program), *arguments]
        self.restart(name)

    def restart(self, name):
        """Starts a process that has ended again, on the same data and addresses."""
        with open(os.path.join(self.folder, name + ".log"), "ab") as log:
            self.processes[name] = subprocess.Popen(
                self.commands[name], stdout=log, stderr=log, cwd=self.folder,
                env={**os.environ, "NAGI_TEST_CLOCK": self.clock(name)})

    def clock(self, name):
        """The file with which a placement driver's clock is changed (pd/clock.go), if there is one."""
        return os.path.join(self.folder, name + ".clock")

    def kill(self, name):
        self.processes[name].kill()
        self.processes[name].wait()

    def stopped(self, name):
        """While it is used as a context, the process does not run."""
        return Stopped(self.processes[name])

    def wait_for(self, what, is_there):
        end = time.monotonic() + START_SECONDS_MAX
        while not is_there():
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise SystemExit(f"{name} ended at the start:\n{self.log(name)}")
            if time.monotonic() > end:
                raise SystemExit(f"no {what} after {START_SECONDS_MAX} seconds")
            time.sleep(0.05)

    def size(self, folder):
        """Bytes of the sorted tables of a store, as far as they are there while this looks."""
        paths = glob.glob(os.path.join(self.folder, folder, "*.sst"))
        return sum(os.path.getsize(path) for path in paths if os.path.exists(path))

    def log(self, name):
        with open(os.path.join(self.folder, name + ".log"), encoding="utf-8", errors="replace") as log:
            return log.read()[-4000:]

    def start(self):
        ports = iter(free_ports(2 * len(self.drivers + self.stores), self.after))
        peers = {name: f"127.0.0.1:{next(ports)}" for name in self.drivers}
        self.addresses = {name: f"127.0.0.1:{next(ports)}" for name in self.drivers + self.stores}
        self.admins = {name: f"127.0.0.1:{next(ports)}" for name in self.stores}
        for name in self.drivers:
            self.driver(name, self.addresses[name], peers)
        pd = self.addresses[self.drivers[0]]
        self.wait_for("placement driver", lambda: self.answers(f"{self.scheme}://{pd}/pd/api/v1/leader"))
        for name in self.stores:
            self.store(name)
        # The placement driver need not look for more stores than there are.
        replicas = b'{"max-replicas": %d}' % min(3, len(self.stores))
        setting = urllib.request.Request(f"{self.scheme}://{pd}/pd/api/v1/config", data=replicas, method="POST")
        self.wait_for("setting of the placement driver", lambda: self.answers(setting))
        if len(self.stores) > 1:
            self.wait_for("replicas", self.is_replicated)
        return {"NAGI_TIKV_PD": ",".join(self.addresses[name] for name in self.drivers), "NAGI_TIKV_ADMIN": self.admins[self.stores[0]]}

    def store(self, name):
        """Starts a store, which has to be ready before the next one starts."""
        files = [text for flag, path in zip(("-ca", "-cert", "-key"), self.files) for text in (flag, path)]
        drivers = ",".join(self.addresses[driver] for driver in self.drivers)
        folder = "kv" + (name[len("STORE"):] or "1")
        self.spawn(name, "tikvd", "-pd", drivers, "-addr", self.addresses[name], "-admin", self.admins[name], "-dir", folder, *files)
        self.wait_for("store", lambda: "ready" in self.log(name))

    def ask(self, path, body=None):
        """The answer of the placement drivers, of the first one that is there, to a GET, or to a POST of `body`."""
        data = None if body is None else json.dumps(body).encode()
        for name in self.drivers:
            try:
                request = urllib.request.Request(f"{self.scheme}://{self.addresses[name]}/pd/api/v1/{path}", data=data)
                with urllib.request.urlopen(request, timeout=5, context=self.context) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                refusal = OSError(f"{path}: {error.code} {error.read().decode()}")
            except OSError as error:
                refusal = error
        raise refusal

    def regions(self):
        """The regions with keys of tests: some further ones, which the store makes, begin with m and later letters."""
        return [region for region in self.ask("regions")["regions"] if region["start_key"] < "6D"]

    def is_replicated(self):
        """All regions have a replica in each store, and a leader."""
        try:
            regions = self.regions()
        except OSError:
            return False
        wanted = min(3, len(self.stores))
        return bool(regions) and all(
            len(r["peers"]) == wanted and not r.get("pending_peers") and r.get("leader", {}).get("store_id") for r in regions)

    def halve(self, region, least):
        """Splits a region in the middle of its keys, those behind `least`. Returns True if it has enough of them."""
        start = decoded(bytes.fromhex(region["start_key"]))
        admin = self.admins[self.store_ids()[region["leader"]["store_id"]]]
        try:
            url = f"http://{admin}/halve?key={max(start, least).hex()}"
            return urllib.request.urlopen(url, data=b"", timeout=15).status == 200
        except OSError:
            return False

    def leader(self):
        """The name of the placement driver that leads."""
        return self.ask("leader")["name"]

    def store_ids(self):
        """The names of the stores by their ids."""
        names = {address: name for name, address in self.addresses.items()}
        return {one["store"]["id"]: names[one["store"]["address"]] for one in self.ask("stores")["stores"]}

    def controlled(self):
        """Listens for tests (see `Control`); the address."""
        self.control = http.server.HTTPServer(("127.0.0.1", 0), Control)
        Control.cluster = self
        threading.Thread(target=self.control.serve_forever, daemon=True).start()
        return "127.0.0.1:%d" % self.control.server_port

    def driver(self, name, pd, peers):
        """Starts a placement driver, one of those in `peers`, which has the address of each for the others."""
        members = ",".join(f"{one}={self.scheme}://{peer}" for one, peer in peers.items())
        self.spawn(
            name, "pd-server", f"--name={name}", f"--data-dir={name}", f"--client-urls={self.scheme}://{pd}",
            f"--peer-urls={self.scheme}://{peers[name]}", f"--initial-cluster={members}", "--log-level=warn",
            f"--log-file={name}-own.log", *(f"--{flag}={path}" for flag, path in zip(("cacert", "cert", "key"), self.files)))

    def other_driver(self):
        """A placement driver of another cluster: its address."""
        pd, peer = (f"127.0.0.1:{port}" for port in free_ports(2, after=4))
        self.driver("OTHER", pd, {"OTHER": peer})
        self.wait_for("placement driver", lambda: self.answers(f"{self.scheme}://{pd}/pd/api/v1/leader"))
        return pd

    def answers(self, request):
        try:
            return urllib.request.urlopen(request, timeout=2, context=self.context).status == 200
        except urllib.error.HTTPError as error:
            if error.code >= 500:
                return False
            raise SystemExit(f"the placement driver refuses a request: {error.read().decode()}") from error
        except OSError:
            return False

    def report(self):
        """Says which process has ended too early, and why."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                print(f"{name} ended with {process.returncode}:\n{self.log(name)}", file=sys.stderr)

    def stop(self):
        if self.control:
            self.control.shutdown()
        for process in reversed(self.processes.values()):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

"""Three placement drivers, three stores and three servers over them, the connections of the first of which are disturbed, and
clocks that are changed."""
import os
import signal
import struct
import subprocess
import sys
import time
import urllib.request

import pymongo

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("../common", "../tikv", "../../tikv"):
    sys.path.insert(0, os.path.join(HERE, folder))
from checks import check, wait_until  # noqa: E402
from cluster import Cluster, free_ports  # noqa: E402
from nodes import FOLDER, Node  # noqa: E402

NODES = 3
STARTS_MAX = 5  # of a server that ends at its start


class Rig:
    """The cluster and its servers, which get some flags. `proxied`: the first one's connections go through a proxy."""

    def __init__(self, *flags, proxied=False):
        self.cluster, self.flags, self.proxied = Cluster(drivers=3, stores=3), flags, proxied
        self.nodes, self.address, self.proxy, self.control, self.ports = [], "", None, "", ""

    def start(self):
        os.makedirs(FOLDER, exist_ok=True)
        begun = time.monotonic()
        self.address = "tikv://%s/cluster" % self.cluster.start()["NAGI_TIKV_PD"]
        if self.proxied:
            self.start_proxy()
        self.nodes = [self.node(number) for number in range(NODES)]
        for node in self.nodes:
            node.ready()
        print("3 placement drivers, 3 stores and 3 servers after %.1f s" % (time.monotonic() - begun), flush=True)

    def start_proxy(self):
        control, *ports = free_ports(1 + len(self.cluster.addresses), after=12)
        pairs = list(zip(ports, self.cluster.addresses.values()))
        self.control = "127.0.0.1:%d" % control
        self.proxy = subprocess.Popen([os.path.join(self.cluster.programs, "proxy"), self.control,
                                       *("127.0.0.1:%d=%s" % pair for pair in pairs)])
        self.ports = ",".join("%s:%d" % (target.split(":")[1], port) for port, target in pairs)
        check("the proxy", wait_until(lambda: self.tell("")))

    def tell(self, what):
        """Tells the proxy something (see its source). Returns True if it answered."""
        try:
            with urllib.request.urlopen("http://%s/%s" % (self.control, what), data=b"", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def node(self, number):
        """Starts a server, with a clock that can be changed."""
        name = "node%d" % number
        self.set_clock(self.clock(name), 0)
        environment = {"LD_PRELOAD": os.path.join(self.cluster.programs, "shim.so"), "NAGI_TEST_CLOCK": self.clock(name)}
        if number == 0 and self.proxied:
            environment["NAGI_TEST_PORTS"] = self.ports
        return Node(name, self.address, number, *self.flags, environment=environment)

    @staticmethod
    def clock(name):
        return os.path.join(FOLDER, name + ".clock")

    @staticmethod
    def set_clock(path, seconds):
        """How far ahead a clock is. The file is written in place: programs have it in memory."""
        with open(path, "r+b" if os.path.exists(path) else "wb") as file:
            file.write(struct.pack("<q", int(seconds * 1000)))

    def kill(self, number):
        self.nodes[number].stop(signal.SIGKILL)

    def again(self, number):
        """Starts a server again that has ended, as a supervisor does: also if the cluster did not answer at its start."""
        for _ in range(STARTS_MAX):
            self.nodes[number] = self.node(number)
            answers = wait_until(lambda: self.nodes[number].process.poll() is not None or self.nodes[number].answers(), 60)
            if answers and self.nodes[number].process.poll() is None:
                break
        self.nodes[number].ready()

    def seeds(self):
        return ",".join("127.0.0.1:%d" % node.port for node in self.nodes)

    def client(self, **options):
        """A client with a list of all servers."""
        return pymongo.MongoClient("mongodb://%s/" % self.seeds(), serverSelectionTimeoutMS=40000, localThresholdMS=1000, **options)

    def direct(self, number):
        """A client of one server."""
        return pymongo.MongoClient("127.0.0.1", self.nodes[number].port, serverSelectionTimeoutMS=40000)

    def stop(self):
        for node in Node.started:
            node.process.kill()
        if self.proxy:
            self.proxy.kill()
        self.cluster.report()
        self.cluster.stop()

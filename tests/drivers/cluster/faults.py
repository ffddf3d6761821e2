"""What fails while the workloads run, one fault after the other, each over a database of its own: part `faults` of main.py.

Prints for each fault how long each kind of workload was without progress at most: the time between two acknowledgements of any
of its clients, from the beginning of the fault until all clients have gone on after it.
"""
import datetime
import os
import random
import threading
import time

from pymongo.errors import PyMongoError

from rig import NODES  # first: it sets the path
import workloads  # noqa: E402
from checks import check, equal, section, wait_until  # noqa: E402
from history_cases import wrong_cases  # noqa: E402
from nodes import CLUSTER  # noqa: E402

RECOVERY_SECONDS = 90  # in which each client has to go on after a fault
STEPS = 10  # of what is done once a second
PARTITION_SHORT, PARTITION_LONG = 5, 25  # seconds: less and more than a lease, which has 10
DRIVER_AHEAD, DEFINITIONS_SECONDS = 10, 15
CLOCKS = (3600, -3600, 86400 * 30, 0)  # seconds ahead


def none(_rig, _db):
    """The gaps of a busy machine."""
    pause(5)


def node_killed(rig, _db):
    for number in 1, 2:
        rig.kill(number)
        pause(3)
        rig.again(number)


def store_killed(rig, _db):
    """One store after the other, so each leader of a region once at least."""
    for name in rig.cluster.stores:
        rig.cluster.kill(name)
        pause(3)
        rig.cluster.restart(name)
        pause(3)


def store_stopped(rig, _db):
    """The store that leads the first region."""
    name = rig.cluster.store_ids()[rig.cluster.regions()[0]["leader"]["store_id"]]
    with rig.cluster.stopped(name):
        pause(10)


def driver_killed(rig, _db):
    name = rig.cluster.leader()
    rig.cluster.kill(name)
    pause(5)
    rig.cluster.restart(name)


def splits(rig, _db):
    """Between documents and index entries, in the middle of a region with the data, and of its halves."""
    before = len(rig.cluster.regions())
    for _ in range(STEPS):
        regions = rig.cluster.regions()
        region = random.choice(regions)
        rig.cluster.halve(region, b"cluster")
        pause(0.5)
    after = len(rig.cluster.regions())
    check("regions have split", after >= before + STEPS // 2, (before, after))


def leader_transfers(rig, _db):
    """All regions' leaders move to another store, once a second."""
    moved = 0
    for step in range(STEPS):
        for region in rig.cluster.regions():
            others = [peer["store_id"] for peer in region["peers"] if peer["store_id"] != region["leader"]["store_id"]]
            try:
                rig.cluster.ask("operators", {"name": "transfer-leader", "region_id": region["id"],
                                              "to_store_id": others[step % len(others)]})
                moved += 1
            except OSError:
                pass  # one is under way
        pause(1)
    check("leaders have moved", moved >= STEPS // 2, moved)


def delayed(rig, _db):
    """What one server sends to placement drivers and stores, and their answers, take 250 ms longer each."""
    rig.tell("delay?ms=250")
    try:
        with rig.direct(0) as client:
            begun = time.monotonic()
            client.config.settings.find_one({"_id": "none"})
            check("requests are delayed", time.monotonic() - begun > 0.5, time.monotonic() - begun)
        pause(15)
    finally:
        rig.tell("delay?ms=0")


def partitioned_shortly(rig, _db):
    rig.tell("cut")
    pause(PARTITION_SHORT)
    rig.tell("join")


def partitioned(rig, _db):
    """A server is cut off for longer than its lease: it ends, and a supervisor starts it again."""
    rig.tell("cut")
    pause(PARTITION_LONG)
    rig.tell("join")
    status = rig.nodes[0].ended()
    check("a server that was cut off ends", status == CLUSTER, status)
    rig.again(0)


def node_clocks(rig, _db):
    for number in range(NODES):
        for seconds in CLOCKS:
            rig.set_clock(rig.clock("node%d" % number), seconds)
            with rig.direct(number) as client:
                local = client.admin.command("hello")["localTime"].replace(tzinfo=datetime.timezone.utc).timestamp()
            check("the clock of a server", abs(local - time.time() - seconds) < 60, (local, seconds))
            pause(1.5)


def driver_clock(rig, _db):
    """The clock of timestamps, of the placement driver that leads: back, forward, and back."""
    path = rig.cluster.clock(rig.cluster.leader())
    for seconds in (-60, DRIVER_AHEAD, 0):
        rig.set_clock(path, seconds)
        pause(3)
        if seconds > 0:
            with rig.direct(0) as client:
                ahead = client.admin.command("hello")["operationTime"].time - time.time()
            check("the clock of timestamps", ahead > seconds / 2, ahead)
    # Timestamps do not go back: they stand almost still until the clock has caught up, and so do the ages of locks.
    pause(DRIVER_AHEAD)


def definitions(rig, db):
    """Indexes, validators, renames and drops, by one server after the other."""
    define(rig, db, time.monotonic() + DEFINITIONS_SECONDS)


def define(rig, db, end):
    """The same, until a moment."""
    step = 0
    while time.monotonic() < end:
        with rig.direct(step % NODES) as client:
            own, name = client[db], ("accounts", "unique", "counters", "lists")[step % 4]
            own[name].create_index("other%d" % (step % 3), sparse=bool(step % 2))
            own[name].drop_index("other%d_1" % (step % 3))
            own.command("collMod", "lists", validator={"l": {"$exists": True}} if step % 2 else {})
            own.temporary.insert_one({"step": step})
            own.temporary.rename("renamed", dropTarget=True)
            own.renamed.drop()
        step += 1


def everything(rig, db):
    """Definitions while a server, a store and the placement driver are killed, leaders move and the network is slow."""
    ended = threading.Event()

    def defining():
        while not ended.is_set():
            try:
                define(rig, db, time.monotonic() + DEFINITIONS_SECONDS / 2)
            except PyMongoError:
                pass  # its server was killed

    beside = threading.Thread(target=defining, daemon=True)
    beside.start()
    try:
        rig.tell("delay?ms=20")
        rig.kill(1)
        leader_transfers(rig, db)
        rig.again(1)
        store_killed(rig, db)
        driver_killed(rig, db)
    finally:
        rig.tell("delay?ms=0")
        ended.set()
    beside.join(RECOVERY_SECONDS)
    check("definitions end", not beside.is_alive())


def sharded(rig, db):
    """A server and the stores are killed while all collections have stripes in regions of their own."""
    check("regions", len(rig.cluster.regions()) > 7 * 16, len(rig.cluster.regions()))
    node_killed(rig, db)
    store_killed(rig, db)


# Splits first: afterwards transactions are of several regions.
FAULTS = (none, splits, node_killed, store_killed, store_stopped, driver_killed, leader_transfers, delayed, partitioned_shortly,
          partitioned, node_clocks, driver_clock, definitions, everything, sharded)

LONG = (partitioned, everything)  # longer than requests to the cluster are repeated


def pause(seconds):
    """The time that a fault lasts."""
    threading.Event().wait(seconds)


def faults(rig):
    equal("the checker of histories", wrong_cases(), [])
    wanted = os.environ.get("FAULTS")
    rows = []
    for round_ in range(int(os.environ.get("FAULT_ROUNDS") or 1)):
        for fault in FAULTS:
            if not wanted or fault.__name__ in wanted.split(","):
                rows.append(one(rig, fault, "%s%d" % (fault.__name__, round_)))
    kinds = [kind.kind for kind, _ in workloads.KINDS]
    print("| fault | " + " | ".join(kinds) + " | codes |\n|---" + "|---" * (len(kinds) + 1) + "|")
    for name, gaps, codes in rows:
        print("| %s | %s | %s |" % (name, " | ".join("%.1f" % gaps[kind] for kind in kinds), " ".join(sorted(map(str, codes)))))


def one(rig, fault, name):
    """Runs a fault, and what comes after it, over a database with this name; its row."""
    print("== %s" % name, flush=True)
    workers = workloads.start(rig, name, sharded=fault is sharded)
    check(name + ": progress before", progress(workers, time.monotonic()), stuck(workers, 0))
    begun = time.monotonic()
    try:
        fault(rig, name)
    except (OSError, PyMongoError, KeyError, IndexError) as error:
        check(name, False, repr(error))
    over = time.monotonic()
    check(name + ": all go on", progress(workers, over), stuck(workers, over))
    ended = time.monotonic()
    workloads.end(workers)
    for number in range(NODES):
        section(seen_by, rig, number, workers, name)
    codes = set().union(*(worker.codes for worker in workers))
    check(name + ": what passes in 20 seconds is no error for clients", fault in LONG or 6 not in codes, codes)
    counts = ["%s %d" % (kind.kind, sum(len(w.sure) for w in workers if type(w) is kind)) for kind, _ in workloads.KINDS]
    print("%s: %.1f s, then all went on after %.1f s; %s; %d unknown; codes %s" % (
        name, over - begun, ended - over, ", ".join(counts), sum(len(w.unsure) for w in workers), sorted(map(str, codes))), flush=True)
    with rig.client() as client:
        client.drop_database(name)
    return name, {kind.kind: gap([w for w in workers if type(w) is kind], begun, ended) for kind, _ in workloads.KINDS}, codes


def seen_by(rig, number, workers, name):
    with rig.direct(number) as client:
        workloads.verify(client[name], workers)


def progress(workers, since):
    """Waits until each worker has had something acknowledged that it began after a moment, and two more."""
    return wait_until(lambda: not stuck(workers, since), RECOVERY_SECONDS)


def stuck(workers, since):
    return [(w.kind, w.number, sorted(map(str, w.codes))) for w in workers if len(w.times) < 3 or w.times[-3] < since]


def gap(workers, begun, ended):
    """The longest time between two acknowledgements of any of these workers, from a moment until another one."""
    times = sorted([begun, ended] + [t for w in workers for t in w.times if begun < t < ended])
    return max(after - before for before, after in zip(times, times[1:]))

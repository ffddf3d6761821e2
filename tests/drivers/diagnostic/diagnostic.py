"""Tests the diagnostic data: diagnostic.py NAGI WORK PORT.

The files are read by decode.py; their figures are compared with what clients did and with serverStatus. Parts about full
disks are in disks.py, those about encryption in encrypted.py.
"""
import glob
import os
import sys
import threading
import time

import decode
import disks
import encrypted
from server import FAST, FOLDER, Server, nagi

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, fails, finish, section, wait_until  # noqa: E402

INSERTS = ("serverStatus", "opcounters", "insert")
PREFIX = "diagnosticDataCollection"
# Names that MongoDB's tools read (mongo-ftdc, keyhole, t2), of a standalone and of a member of a set.
READ_BY_TOOLS = [
    "serverStatus.start", "serverStatus.uptime", "serverStatus.connections.current", "serverStatus.globalLock.activeClients.readers",
    "serverStatus.mem.resident", "serverStatus.metrics.queryExecutor.scanned", "serverStatus.opcounters.insert",
    "serverStatus.opLatencies.reads.latency", "serverStatus.network.bytesIn", "serverStatus.extra_info.page_faults",
    "serverStatus.wiredTiger.cache.bytes currently in the cache", "serverStatus.ok",
    "systemMetrics.cpu.num_cpus", "systemMetrics.cpu.user_ms", "systemMetrics.cpu.idle_ms", "systemMetrics.cpu.iowait_ms",
    "systemMetrics.memory.MemTotal_kb", "systemMetrics.memory.MemFree_kb", "systemMetrics.netstat.Tcp:InSegs",
    "systemMetrics.vmstat.pgmajfault", "systemMetrics.files.sys_file_handles_in_use",
]
READ_OF_A_MEMBER = ["replSetGetStatus.myState", "replSetGetStatus.members.0.optime.ts.t", "local.oplog.rs.stats.size"]


def counts_what_clients_do():
    with Server("counts", *FAST, "--replSet", "rs0", "--initiate") as server:
        check("a first sample", server.sample())
        for i in range(400):
            server.client.test.c.insert_one({"_id": i})
            time.sleep(0.005)
        data = server.sample()
        equal("sections", list(data), ["start", "serverStatus", "replSetGetStatus", "local.oplog.rs.stats", "systemMetrics", "end"])
        machine = {"cpu", "memory", "disks", "vmstat", "netstat", "files", "pressure"}
        check("the machine", machine <= set(data["systemMetrics"]), list(data["systemMetrics"]))
        for name, part in data.items():
            if isinstance(part, dict):
                check("times of " + name, data["start"] <= part["start"] <= part["end"] <= data["end"], part)
        time.sleep(0.3)
        last = server.admin.command("serverStatus")["opcounters"]["insert"]
        time.sleep(0.3)
        fails("another database", 13, lambda: server.client.test.command("getDiagnosticData"))
        shown = server.admin.command("getParameter", 1, **{FOLDER: 1})[FOLDER]
        equal("the path is shown", shown, server.diagnostic)
    (file,) = server.files()
    facts, samples = decode.read(file)
    equal("one record of facts", len(facts), 1)
    equal("facts", list(facts[0]), ["start", "buildInfo", "getCmdLineOpts", "hostInfo", "sysMaxOpenFiles", "ulimits", "end"])
    check("the command line", "--replSet" in facts[0]["getCmdLineOpts"]["argv"], facts[0]["getCmdLineOpts"])
    check("limits", facts[0]["ulimits"]["fileDescriptors"]["soft"] > 0, facts[0]["ulimits"])
    check("samples each 100 ms", len(samples) > 20, len(samples))
    series = [s[INSERTS] for s in samples]
    check("a counter that only grows", series == sorted(series) and series[-1] - series[0] > 100, series)
    equal("the last sample", series[-1], last)
    names = {".".join(path) for path in samples[-1]}
    equal("names that tools read", [name for name in READ_BY_TOOLS + READ_OF_A_MEMBER if name not in names], [])
    times = [s[("start",)] for s in samples]
    check("times in order", times == sorted(times) and times[-1] - times[0] < 120_000, (times[0], times[-1]))
    late = sorted(ms % 100 for ms in times)
    check("at multiples of the period", late[len(late) // 2] < 30, late)
    check("no interim file after a clean end", not glob.glob(server.diagnostic + "/*interim*"))
    equal("modes", {oct(os.stat(f).st_mode & 0o777) for f in server.files()}, {"0o600"})
    check("the name", os.path.basename(file)[:8] == "metrics." and file.endswith("Z-00000"), file)


def survives_a_kill():
    with Server("killed", *FAST) as server:
        server.client.test.c.insert_many([{} for _ in range(77)])
        check("an interim file", wait_until(lambda: os.path.exists(server.diagnostic + "/metrics.interim"), 10))
        time.sleep(1.5)
        server.kill()
    for turn in range(4):  # kills at any moment, also within the recovery
        with Server("killed", *FAST, keep=True) as again:
            time.sleep(0.9 + 0.35 * turn)
            again.kill()
    with Server("killed", *FAST, keep=True) as again:
        check("a sample", again.sample())
        check("another file", wait_until(lambda: len(again.files()) > 1, 10))
        time.sleep(0.5)
    samples = again.samples()
    check("samples of the killed process", any(s[INSERTS] == 77 for s in samples), [s[INSERTS] for s in samples])
    check("samples of the next one", any(s[INSERTS] == 0 for s in samples))
    times = [s[("start",)] for s in samples]
    equal("no sample twice", len(times), len(set(times)))
    check("it is logged", again.lines(8200225), "no line")
    check("no error is", not again.lines(8200210), again.lines(8200210))


def parameters():
    with Server("parameters", *FAST) as server:
        check("a file", wait_until(lambda: server.files(), 10))
        shown = server.admin.command("getParameter", "*")
        equal("defaults", {name[len(PREFIX):]: shown[name] for name in sorted(shown) if name.startswith(PREFIX)},
              {"DirectoryPath": server.diagnostic, "DirectorySizeMB": 250, "Enabled": True, "FileSizeMB": 10,
               "PeriodMillis": 100, "SamplesPerChunk": 300, "SamplesPerInterimUpdate": 10})
        for name, value, text in (
            ("PeriodMillis", 99, "99 is not greater than or equal to 100"),
            ("DirectorySizeMB", 9, "9 is not greater than or equal to 10"),
            ("FileSizeMB", 0, "0 is not greater than or equal to 1"),
            ("SamplesPerChunk", 1, "1 is not greater than or equal to 2"),
            ("SamplesPerInterimUpdate", 1, "1 is not greater than or equal to 2"),
            ("PeriodMillis", 1 << 31, "is not less than or equal to 2147483647"),
            ("FileSizeMB", 251, PREFIX + "FileSizeMB must be less than or equal to '250' which is the current value of "
             + PREFIX + "DirectorySizeMB."),
        ):
            error = fails("%s: %s" % (name, value), 2, lambda: server.set(**{name: value}))
            check("text of %s: %s" % (name, value), error and text in str(error), error)
        server.set(FileSizeMB=20)
        error = fails("a folder smaller than a file", 2, lambda: server.set(DirectorySizeMB=19))
        text = "must be greater than or equal to '20' which is the current value of diagnosticDataCollectionFileSizeMB."
        check("its text", error and text in str(error), error)
        error = fails("another path", 220, lambda: server.set(DirectoryPath="/tmp/other"))
        check("its text", "FTDC path has already been set to '%s'. It cannot be changed." % server.diagnostic in str(error), error)
        server.set(SamplesPerChunk=5, SamplesPerInterimUpdate=2)
        file = server.files()[0]
        check("chunks of five", wait_until(lambda: 5 in decode.chunk_sizes(file), 10), decode.chunk_sizes(file))
        server.set(PeriodMillis=3_600_000)
        before = server.sample()["start"]
        time.sleep(1.2)
        equal("an hour between samples", server.sample()["start"], before)
        server.set(PeriodMillis=100)
        check("a new period is seen at once", wait_until(lambda: server.sample()["start"] > before, 5))
    code, text = nagi("serve", "--dbpath", server.data, "--setParameter", PREFIX + "FileSizeMB=300")
    check("at the start", code == 2 and "must be less than or equal to '250'" in text, (code, text))
    sizes = ["--setParameter", PREFIX + "FileSizeMB=300", "--setParameter", PREFIX + "DirectorySizeMB=300"]
    with Server("parameters", *sizes, keep=True) as server:
        check("both at the start", server.sample())


def is_switched_off_and_bounded():
    with Server("off", *FAST, "--setParameter", PREFIX + "Enabled=false") as server:
        time.sleep(1.5)
        equal("no sample", server.admin.command("getDiagnosticData")["data"], {})
        equal("no file", server.files(), [])
        os.mkdir(server.diagnostic)
        for i in range(6):
            with open("%s/metrics.2020-01-0%dT00-00-00Z-00000" % (server.diagnostic, i + 1), "wb") as f:
                f.write(b"\0" * (3 << 20))
        server.set(DirectorySizeMB=10, Enabled=True)
        # 10 MB without the current file and the interim file: two of 3 MB, and the current one.
        check("old files are removed", wait_until(lambda: len(server.files()) == 3, 10), server.files())
        check("the oldest ones", [os.path.basename(f)[8:18] for f in server.files()[:2]] == ["2020-01-05", "2020-01-06"], server.files())
        time.sleep(0.5)
        server.set(Enabled=False)
        check("the file ends", wait_until(lambda: decode.read(server.files()[-1])[1], 10))
        first = server.files()
        before = server.sample()["start"]
        time.sleep(1.2)
        equal("no more samples", server.sample()["start"], before)
        server.set(Enabled=True)
        check("another file", wait_until(lambda: len(server.files()) == len(first) + 1, 10), server.files())


def stays_within_its_size():
    """Chunks of two samples are the worst use of the space: the folder turns over many times."""
    with Server("bounded", *FAST, "--setParameter", PREFIX + "SamplesPerChunk=2", "--setParameter", PREFIX + "DirectorySizeMB=10",
                "--setParameter", PREFIX + "FileSizeMB=1") as server:
        server.sample()
        filler = b"\0" * (1 << 20)
        largest = 0
        for turn in range(60):  # old files that look like those of a server of last year
            with open("%s/metrics.2025-01-01T00-00-%02dZ-00000" % (server.diagnostic, turn), "wb") as f:
                f.write(filler)
            if turn % 10 == 9:
                server.set(Enabled=False)
                time.sleep(0.3)
                server.set(Enabled=True)
                count = len(server.lines(8200210))
                check("trimmed", wait_until(lambda: 0 < server.size() <= 10 << 20, 10), server.size())
                largest = max(largest, server.size())
                equal("no error", len(server.lines(8200210)), count)
        check("the folder is in use", largest > 5 << 20, largest)


def needs_no_disk():
    with Server("memory", *FAST, "--storageEngine", "inMemory") as server:
        check("samples in memory", server.sample())
        equal("no folder", os.listdir(server.data), [])
        equal("no path", server.admin.command("getParameter", 1, **{FOLDER: 1})[FOLDER], "")
        server.diagnostic = server.folder + "/elsewhere"
        server.set(DirectoryPath=server.diagnostic)
        check("files where the parameter says", wait_until(lambda: server.files(), 10))
        fails("only once", 220, lambda: server.set(DirectoryPath=server.folder + "/again"))
    check("samples in them", server.samples())
    elsewhere = os.path.join(server.folder, "configured")
    with Server("elsewhere", *FAST, diagnostic=elsewhere) as server:
        check("a path at the start", wait_until(lambda: server.files(), 10))
        check("nothing in the data directory", not os.path.exists(server.data + "/diagnostic.data"))
    check("samples there", server.samples())


def thread_ns(process, name):
    """Processor time of a thread."""
    for task in glob.glob("/proc/%d/task/*" % process.pid):
        with open(task + "/comm") as f:
            if f.read().strip() == name:
                with open(task + "/schedstat") as f:
                    return int(f.read().split()[0])
    raise RuntimeError("no thread " + name)


def costs_little():
    """Processor time and bytes of a sample, with clients at work. The bounds are far above what is measured."""
    with Server("costs", *FAST, "--replSet", "rs0", "--initiate") as server:
        c = server.client.test.c
        stop = threading.Event()

        def work():
            i = 0
            while not stop.is_set():
                c.update_one({"_id": i % 1000}, {"$inc": {"n": 1}}, upsert=True)
                c.find_one({"_id": (i * 7) % 1000})
                i += 1

        clients = [threading.Thread(target=work) for _ in range(2)]
        for thread in clients:
            thread.start()
        server.sample()
        begun, before = time.time(), thread_ns(server.process, "ftdc")
        time.sleep(40)
        seconds, used = time.time() - begun, thread_ns(server.process, "ftdc") - before
        stop.set()
        for thread in clients:
            thread.join()
    (file,) = server.files()
    facts, samples = decode.read(file)
    us = used / 1e3 / (seconds * 10)
    with open(file, "rb") as f:
        # A section that appears, as the estimates of caches after some seconds, ends a chunk before it is full.
        long = [(len(data), count) for data, count in decode.chunks(f) if count >= 100]
    each = sum(size for size, _ in long) / sum(count for _, count in long)
    print("a sample: %d numbers, %.0f us of one core (%.3f %% at one a second), %.0f bytes; a day %.1f MB, a folder of 250 MB %.1f days"
          % (len(samples[-1]), us, us / 1e4, each, each * 86400 / 1e6, 250 * (1 << 20) / (each * 86400)))
    check("less than 1 % of a core at one sample a second", us < 10_000, us)
    check("a day takes less than 100 MB", each * 86400 < 100e6, each)


for part in (counts_what_clients_do, survives_a_kill, parameters, is_switched_off_and_bounded, stays_within_its_size, needs_no_disk,
             *encrypted.PARTS, costs_little, *disks.PARTS):
    section(part)
finish("diagnostic")

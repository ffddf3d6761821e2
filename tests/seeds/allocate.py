"""001: allocation of data files, on each file system."""
import os
import re
import subprocess

from seed import MB, Skip, check, equal, step, wait_until
from stall import STATE

LIMITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "limits.sh")
DONE = r"^done allocating datafile (\S+), size: (\d+)MB,  took ([0-9.]+) secs$"


@step("001", 'grep "done all"')
def grep_done_all(bench):
    server = STATE["server"]
    found = subprocess.run(["grep", "done all", server.log_path], capture_output=True, text=True).stdout.splitlines()
    done = server.said(DONE)
    check("lines", found and done, found)
    name, size, seconds = done[0].groups()
    equal("the file", name, os.path.join(server.data, "lmdb", "data.mdb"))
    equal("the first step", int(size), 64)
    check("no minutes", float(seconds) < 60, seconds)
    line = [line for line in server.lines() if re.search(DONE, line["msg"])][0]
    equal("of the thread", line["ctx"], "FileAllocator")
    check("as figures", line["attr"]["sizeMB"] == 64 and "method" in line["attr"], line)
    return done[-1].group(0).replace(server.data, "...")


def mounted(bench, kind, run):
    """Calls `run` with a folder on a new file system of this kind."""
    if os.geteuid() != 0:
        raise Skip("mounting needs root")
    mount = os.path.join(bench.work, "mnt-" + kind)
    os.makedirs(mount, exist_ok=True)
    if kind == "tmpfs":
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g,noatime", "tmpfs", mount], capture_output=True, text=True)
    else:
        made = subprocess.run([LIMITS, "fs", kind, "1G", bench.work, mount], capture_output=True, text=True)
    if made.returncode != 0:
        raise Skip(made.stderr.strip())
    try:
        return run(mount)
    finally:
        end = ["umount", mount] if kind == "tmpfs" else [LIMITS, "umount", mount]
        subprocess.run(end, check=True)


def allocates(bench, kind, method):
    def run(mount):
        with bench.server("on-" + kind, "--storageEngine", "mmapv1", folder=mount) as server:
            check(kind + ": lines", wait_until(lambda: server.said(DONE), 120), server.lines()[-3:])
            _, size, seconds = server.said(DONE)[0].groups()
            ways = [line["attr"]["method"] for line in server.lines() if re.search(DONE, line["msg"])]
            equal(kind + ": the method", ways[0], method)
            check(kind + ": the line before", server.said("^allocating datafile .*, %s\\.\\.\\.$" % method), "")
            file = os.stat(os.path.join(server.data, "lmdb", "data.mdb"))
            check(kind + ": the blocks are there", file.st_blocks * 512 >= int(size) * MB, file.st_blocks)
            # Documents survive the pages that are written while the file is filled.
            server.client.test.a.insert_many([{"_id": n, "text": "x" * 1000} for n in range(20_000)])
            server.client.admin.command("fsync")
            equal(kind + ": all documents", len(list(server.client.test.a.find({"text": "x" * 1000}, {"_id": 1}))), 20_000)
            check(kind + ": validate", server.client.test.validate_collection("a")["valid"])
        doctor = subprocess.run([bench.nagi, "doctor", "--quick", "--dbpath", server.data], capture_output=True, text=True).stdout
        check(kind + ": the doctor", ("ext3 has no fallocate" in doctor) == (kind == "ext3"), doctor)
        check(kind + ": the mount option", re.search(r"^good +mount_options +noatime$", doctor, re.M), doctor)
        return "64 MB in %s s, %s" % (seconds, method)
    return mounted(bench, kind, run)


RESERVED, FILLED = "reserving blocks with fallocate", "filling with zeroes"


@step("001", "MongoDBをext3で使ってはいけません!")
def on_ext3(bench):
    return allocates(bench, "ext3", FILLED)


@step("001", "ext4 ( kernel version >= 2.6.23 )")
def on_ext4(bench):
    return allocates(bench, "ext4", RESERVED)


@step("001", "xfs ( kernel version >= 2.6.25 )")
def on_xfs(bench):
    return allocates(bench, "xfs", RESERVED)


@step("004", "RAMドライブを使用して")
def on_a_ram_drive(bench):
    return allocates(bench, "tmpfs", RESERVED)

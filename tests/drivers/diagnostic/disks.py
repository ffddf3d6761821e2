"""Disks that are full, have no room for a file, or may not be written: the server works on, and records again later."""
import os
import subprocess
import time

import decode
from server import FAST, WORK, Server  # first: it sets the path of the next one
from checks import check, equal, wait_until  # noqa: E402

INSERTS = ("serverStatus", "opcounters", "insert")


def mounted(options, run):
    """Runs with a small file system in memory; says so if it cannot be mounted."""
    point = os.path.join(WORK, "mounted")
    os.makedirs(point, exist_ok=True)
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", point], capture_output=True, text=True)
    if made.returncode:
        print("not run, no file system can be mounted: " + made.stderr.strip())
        return
    try:
        run(point)
    finally:
        subprocess.run(["umount", "-l", point], check=True)


def works_on(server, turn):
    """Writes and reads are answered soon; returns the longest time in seconds."""
    longest = 0
    for i in range(200):
        begun = time.time()
        server.client.test.c.replace_one({"_id": i}, {"turn": turn}, upsert=True)
        server.client.test.c.find_one({"_id": i})
        longest = max(longest, time.time() - begun)
    return longest


def pauses_and_resumes(name, options, block, unblock):
    def run(point):
        folder = point + "/diagnostic"
        with Server(name, *FAST, diagnostic=folder) as server:
            check(name + ": files", wait_until(lambda: server.files(), 10))
            time.sleep(1.2)
            block(point)
            check(name + ": the error is logged", wait_until(lambda: server.lines(8200210), 20))
            longest = works_on(server, 1)
            check(name + ": requests are not slowed down", longest < 1, longest)
            now = server.sample()["start"]
            check(name + ": samples are still taken", wait_until(lambda: server.sample()["start"] > now, 5))
            time.sleep(11)  # another attempt fails
            equal(name + ": one line", len(server.lines(8200210)), 1)
            left = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
            check(name + ": no piles of empty files", len(left) <= 3, left)
            unblock(point)
            check(name + ": it resumes", wait_until(lambda: server.lines(8200211), 20))
            equal(name + ": one line of that", len(server.lines(8200211)), 1)
            works_on(server, 2)
            time.sleep(1.5)
            last = server.admin.command("serverStatus")["opcounters"]["update"]
            time.sleep(0.5)
        samples = server.samples()
        check(name + ": the newest sample", samples[-1][("serverStatus", "opcounters", "update")] == last, last)
        times = [s[("start",)] for s in samples]
        equal(name + ": no sample twice", len(times), len(set(times)))
        for file in server.files():
            equal(name + ": facts in each file", len(decode.read(file)[0]), 1)

    mounted(options, run)


def full_disk():
    def fill(point):
        with open(point + "/filler", "wb", buffering=0) as f:
            try:
                while True:
                    f.write(b"\0" * 65536)
            except OSError:
                pass

    pauses_and_resumes("full", "size=8m", fill, lambda point: os.unlink(point + "/filler"))


def no_more_files():
    """No inodes: the system refuses new files with ENOSPC although there is room."""

    def fill(point):
        for i in range(1000):
            try:
                open("%s/filler%d" % (point, i), "w").close()
            except OSError:
                return

    def remove(point):
        for name in os.listdir(point):
            if name.startswith("filler"):
                os.unlink(os.path.join(point, name))

    pauses_and_resumes("inodes", "size=16m,nr_inodes=12", fill, remove)


def read_only_disk():
    remount = lambda how: lambda point: subprocess.run(["mount", "-o", "remount," + how, point], check=True)  # noqa: E731
    # Files that are open for writing prevent a remount, so the folder cannot be written from the start.

    def run(point):
        remount("ro")(point)
        with Server("readonly", *FAST, diagnostic=point + "/diagnostic") as server:
            check("read-only: logged", wait_until(lambda: server.lines(8200210), 10))
            check("read-only: the reason", "Read-only" in server.lines(8200210)[0]["attr"]["error"], server.lines(8200210))
            check("read-only: requests", works_on(server, 1) < 1)
            check("read-only: samples", server.sample())
            remount("rw")(point)
            check("read-only: resumes", wait_until(lambda: server.lines(8200211), 20))
            check("read-only: files", wait_until(lambda: server.files(), 5))
        check("read-only: read", server.samples())

    mounted("size=16m", run)


PARTS = [full_disk, no_more_files, read_only_disk]

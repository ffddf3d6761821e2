"""The commands that blocks of the manual may call, and how a server that one of them left is stopped."""
import os
import signal
import time

TOOLS = ["bsondump", "mongodump", "mongoexport", "mongofiles", "mongoimport", "mongorestore", "mongostat", "mongotop"]
NAMES = ["nagi", "nagi-bench", "mongosh", *TOOLS]


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait(condition, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def stop(pid):
    try:
        os.kill(pid, signal.SIGTERM)
        if not wait(lambda: not alive(pid), 30):
            os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass

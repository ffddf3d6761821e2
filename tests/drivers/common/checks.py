"""Shared code of the Python test programs: counted assertions, and waiting for a condition.

`check` prints a failure and continues; `finish` prints the count and exits. `require` exits at the first
failure, for assertions without which the rest would be meaningless.
"""
import sys
import threading
import time
import traceback

from pymongo.errors import BulkWriteError, OperationFailure, PyMongoError

PASSED, FAILED = 0, []


def check(name, ok, seen=""):
    global PASSED
    if ok:
        PASSED += 1
    else:
        FAILED.append(name)
        print("FAILED %s %r" % (name, seen), flush=True)


def equal(name, seen, expected):
    check(name, seen == expected, "saw %r, expected %r" % (seen, expected))


def fails(name, code, f, kind=OperationFailure, label=None):
    """Checks that `f` fails with `code` and, if given, with the error label. Returns the error."""
    try:
        seen = f()
    except kind as e:
        got = e.details["writeErrors"][0]["code"] if isinstance(e, BulkWriteError) else e.code
        check(name, got == code, "%s %s" % (got, e))
        if label:
            check(name + " label", e.has_error_label(label), e.details)
        return e
    except Exception as e:  # an error of another class is a failure; the run continues
        check(name, False, repr(e))
        return None
    check(name, False, "no error: %r" % (seen,))


def section(f, *args):
    """Runs a part of the program: an exception counts as a failure, and the other parts still run."""
    try:
        f(*args)
    except Exception as e:
        traceback.print_exc()
        check(f.__name__, False, repr(e))


def require(ok, what):
    global PASSED
    PASSED += 1
    if not ok:
        sys.exit("FAILED: " + what)


def require_equal(found, wanted, what):
    require(found == wanted, "%s: %r is not %r" % (what, found, wanted))


def require_fails(code, text, what, run):
    try:
        result = run()
    except OperationFailure as error:
        require_equal(error.code, code, what)
        require(text in str(error), "%s: %s" % (what, error))
    else:
        require(False, "%s: no error but %r" % (what, result))


def passed():
    return PASSED


def wait_until(condition, seconds=30):
    """Returns True if the condition becomes true within this many seconds; polls a hundred times a second."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.01)
    return condition()  # evaluated once more, because the machine may have paused


class Running(threading.Thread):
    """Runs something in a thread of its own; its return value or exception is in `result`."""

    def __init__(self, run):
        super().__init__(daemon=True)
        self.run_it, self.result = run, None
        self.start()

    def run(self):
        try:
            self.result = self.run_it()
        except (PyMongoError, OSError) as error:
            self.result = error

    def code(self):
        """The error code with which it finished; None if it has not finished in time."""
        self.join(60)
        return None if self.is_alive() else getattr(self.result, "code", self.result)


def finish(what):
    print("%s: %d assertions passed, %d failed" % (what, PASSED, len(FAILED)))
    sys.exit(1 if FAILED else 0)

"""What the Python programs of the tests share: assertions that are counted, and waiting for something.

`check` goes on after a failure and prints it; `finish` prints the count and ends the program.
`require` ends the program at the first failure, where the rest would make no sense without it.
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
    """Whether `f` fails with `code`, and the error label, if one is wanted; the error."""
    try:
        seen = f()
    except kind as e:
        got = e.details["writeErrors"][0]["code"] if isinstance(e, BulkWriteError) else e.code
        check(name, got == code, "%s %s" % (got, e))
        if label:
            check(name + " label", e.has_error_label(label), e.details)
        return e
    except Exception as e:  # another class of error is a failure, not the end of the run
        check(name, False, repr(e))
        return None
    check(name, False, "no error: %r" % (seen,))


def section(f, *args):
    """Runs a part of the program: what it throws is a failure, not the end of the others."""
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
    """Whether the condition holds before so many seconds have passed; looks a hundred times a second."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.01)
    return condition()  # a machine that stood still meanwhile has not shown anything


class Running(threading.Thread):
    """Runs something in a thread of its own; what it gave or raised is in `result`."""

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
        """The code it ended with; none if it has not ended in time."""
        self.join(60)
        return None if self.is_alive() else getattr(self.result, "code", self.result)


def finish(what):
    print("%s: %d assertions passed, %d failed" % (what, PASSED, len(FAILED)))
    sys.exit(1 if FAILED else 0)

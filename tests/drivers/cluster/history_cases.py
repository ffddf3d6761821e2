"""Small histories with what history.py has to say of them: run before the faults, since a checker that finds nothing proves
nothing."""
from history import Transaction, anomalies


def transaction(begun, ended, *steps, outcome="sure"):
    """Steps are `a1=5`, an append of 5 to list 1, and `r1=5,6`, a read."""
    one = Transaction(begun)
    one.ended, one.outcome = ended, outcome
    for step in steps:
        key, _, values = step[1:].partition("=")
        numbers = [int(value) for value in values.split(",") if value]
        if step[0] == "a":
            one.append(int(key), numbers[0])
        else:
            one.read(int(key), numbers)
    return one


# Each: what has to be found (None: nothing), the final lists, and the transactions. Times 0 to 9 are at once.
CASES = (
    (None, {1: [1, 2]}, transaction(0, 1, "r1=", "a1=1"), transaction(2, 3, "r1=1", "a1=2", "r1=1,2")),
    (None, {1: [1]}, transaction(0, 1, "a1=1"), transaction(0, 1, "a1=2", outcome="unknown")),
    # Write skew, which snapshot isolation allows.
    (None, {1: [1], 2: [2]}, transaction(0, 9, "r1=", "a2=2"), transaction(0, 9, "r2=", "a1=1")),
    ("lost", {1: [1]}, transaction(0, 1, "a1=1"), transaction(0, 1, "a1=2")),
    ("2 times", {1: [1, 1]}, transaction(0, 1, "a1=1")),
    ("refused, and there", {1: [1]}, transaction(0, 1, "a1=1", outcome="refused")),
    ("in part", {1: [1]}, transaction(0, 1, "a1=1", "a2=2", outcome="unknown")),
    ("of nobody", {1: [7]}, transaction(0, 1, "r1=")),
    ("no beginning", {1: [1, 2]}, transaction(0, 9, "a1=1"), transaction(0, 9, "a1=2"), transaction(0, 9, "r1=2")),
    ("no beginning", {1: [1]}, transaction(0, 1, "a1=1"), transaction(0, 9, "a1=2", outcome="refused"), transaction(0, 9, "r1=1,2")),
    ("in the middle", {1: [1, 2]}, transaction(0, 9, "a1=1", "a1=2"), transaction(0, 9, "r1=1")),
    # A lost update: both have read the same and appended.
    ("cycle", {1: [1, 2]}, transaction(0, 9, "r1=", "a1=1"), transaction(0, 9, "r1=", "a1=2")),
    # Writes in different orders.
    ("cycle", {1: [1, 2], 2: [4, 3]}, transaction(0, 9, "a1=1", "a2=3"), transaction(0, 9, "a1=2", "a2=4")),
    # Each has read what the other wrote.
    ("cycle", {1: [1], 2: [2]}, transaction(0, 9, "a1=1", "r2=2"), transaction(0, 9, "a2=2", "r1=1")),
    # A read that has one of two writes of a transaction.
    ("cycle", {1: [1], 2: [2]}, transaction(0, 9, "a1=1", "a2=2"), transaction(0, 9, "r1=1", "r2=")),
    # Two readers that see two writers in different orders: no two anti-dependencies are adjacent.
    ("cycle", {1: [1], 2: [2]}, transaction(0, 9, "a1=1"), transaction(0, 9, "a2=2"), transaction(0, 9, "r1=1", "r2="),
     transaction(0, 9, "r1=", "r2=2")),
    # A read that begins after an acknowledgement and does not see it.
    ("cycle", {1: [1]}, transaction(0, 1, "a1=1"), transaction(2, 3, "r1=")),
)


def wrong_cases():
    """The cases of which history.py says something else."""
    wrong = []
    for expected, lists, *history in CASES:
        found = anomalies(history, lists)
        if bool(found) != bool(expected) or expected and not any(expected in text for text in found):
            wrong.append((expected, history, found))
    return wrong

"""Damage in a table file, as a driver sees it: damage.py URI fill|damaged|repaired, or FOLDER flip."""

import glob
import os
import sys

import pymongo
from pymongo.errors import OperationFailure

NAMES = ["one", "two", "three"]
COUNT = 5000


def fill(db):
    for name in NAMES:
        db[name].insert_many([{"_id": n, "k": n % 7, "t": [n % 5, -1], "pad": os.urandom(60).hex()} for n in range(COUNT)])
        db[name].create_index("k")
        db[name].create_index("t")
        db.command("compact", name, force=True)
    print("filled")


def flip(folder):
    """Flips one bit in the middle of the largest table, in a block of documents."""
    largest = max(glob.glob(folder + "/rocksdb/*.sst"), key=os.path.getsize)
    with open(largest, "r+b") as file:
        file.seek(os.path.getsize(largest) // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0x10]))
    print("flipped a bit of", os.path.basename(largest))


def damaged(db):
    good = 0
    for name in NAMES:
        try:
            good += sum(1 for _ in db[name].find({}, {"pad": 1})) == COUNT
        except OperationFailure as error:
            assert error.code == 301 and "offset" in str(error), error
            assert error.details["codeName"] == "DataCorruptionDetected", error.details
            print("error as it should be:", str(error).split(", full error")[0][-90:])
    assert good == 2, "%d of 3 collections can be read" % good
    db.fresh.insert_one({"_id": 1})


def repaired(db):
    counts = []
    for name in NAMES + ["fresh"]:
        report = db.command("validate", name, full=True)
        assert report["valid"], report
        counts.append(sum(1 for _ in db[name].find()))
        assert counts[-1] == report["nrecords"] == db.command("count", name)["n"], report
        if name in NAMES:
            assert sum(1 for _ in db[name].find({"t": -1}).hint("t_1")) == counts[-1]
    assert sorted(counts[:3])[1:] == [COUNT, COUNT] and min(counts[:3]) > COUNT - 300 and counts[3] == 1, counts
    print("damage: found by its checksum, told with code 301, repaired: %d of %d documents saved" % (sum(counts[:3]), 3 * COUNT))


if sys.argv[2] == "flip":
    flip(sys.argv[1])
else:
    {"fill": fill, "damaged": damaged, "repaired": repaired}[sys.argv[2]](pymongo.MongoClient(sys.argv[1]).damage)

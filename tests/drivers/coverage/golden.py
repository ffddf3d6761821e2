"""Runs the golden cases of tests/golden over the wire.

The crates' own tests compare every case with its text. Here a case is sent to a server. A row of the inventory
is proven by a case that uses the row's name, is no error, and gets exactly the expected result. A file is
abandoned at the first case that needs the process itself (the verb `set`, a clock).
"""
import glob
import os
import re

from bson import SON
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError
from pymongo.errors import PyMongoError

from shell_values import Unreadable, parse, plain, same

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "..", "golden")
# Folder, kinds of rows, position of the name.
FOLDERS = [("expr", "expression"), ("accum", "accumulator"), ("window", "window-function"), ("stages", "stage")]
OPTIONS = CodecOptions(document_class=SON, tz_aware=True, datetime_conversion=DatetimeConversion.DATETIME_MS)
# Commands that change the server for the following files, or stop it.
LASTING = ("configureFailPoint", "fsync", "setClusterParameter", "setDefaultRWConcern", "setParameter", "setQuerySettings", "setUserWriteBlockMode",
           "shutdown", "sleep")
# Refusals, and values that pymongo cannot represent: a NUL in a name, dates outside its range of years.
REFUSED = (PyMongoError, BSONError, TypeError, ValueError, OverflowError)


def cases(path):
    """Yields (verb, input, output lines) for each case of a file."""
    with open(path, encoding="utf-8") as f:
        text = "\n".join(line for line in f.read().split("\n") if not line.startswith("#"))
    for part in re.split(r"\n\n+", text):
        asked, mark, answer = part.strip("\n").partition("\n---")
        if mark:
            verb, _, rest = asked.strip().partition(" ")
            yield verb, rest.strip(), answer.strip("\n")


def keys(value, found):
    if isinstance(value, dict):
        for name, item in value.items():
            found.add(name)
            keys(item, found)
    elif isinstance(value, list):
        for item in value:
            keys(item, found)
    return found


class Replay:
    def __init__(self, client, rows):
        """`rows`: (kind, protocol name) -> ids."""
        self.db, self.rows, self.proven, self.asked = client.get_database("test", OPTIONS), rows, set(), 0
        self.admin = client.get_database("admin", OPTIONS)
        client.drop_database("test")

    def run(self, pipeline):
        return self.db.command(SON([("aggregate", 1), ("pipeline", pipeline), ("cursor", {"batchSize": 10_000})]))["cursor"]["firstBatch"]

    def of(self, document, pipeline):
        """The result of the pipeline for one document. $documents would evaluate names with `$` or a dot, so
        such a document is stored."""
        if not any("$" in name or "." in name for name in document):
            return self.run([{"$documents": [{"$literal": document}]}, *pipeline])
        self.db.c.drop()
        self.db.c.insert_one(document)
        return list(self.db.c.aggregate(pipeline))

    def prove(self, kind, request, seen, wanted):
        self.asked += 1
        if same(plain(seen), plain(wanted)):
            for name in keys(request, set()):
                self.proven.update(self.rows.get((kind, name), ()))

    def folder(self, folder, kind):
        for path in sorted(glob.glob(os.path.join(GOLDEN, folder, "*.txt"))):
            getattr(self, folder)(kind, cases(path))

    def expr(self, kind, found):
        for verb, asked, answer in found:
            if verb != "eval" or answer.startswith("error") or answer == "missing":
                continue
            try:
                request, rest = parse(asked)
                document = parse(rest[2:])[0] if rest.startswith("on") else SON()
                wanted = parse(answer)[0]
                seen = self.of(document, [{"$replaceWith": SON(r=request)}])
            except (Unreadable, *REFUSED):
                continue
            if seen:
                self.prove(kind, SON(r=request), seen[0].get("r"), wanted)

    def accum(self, kind, found):
        for _, asked, answer in found:
            if answer.startswith("error"):
                continue
            try:
                request, rest = parse(asked)
                documents, wanted = parse(rest.strip()[4:])[0], parse(answer)[0]
                seen = self.run([{"$documents": documents}, {"$group": SON(_id=None, r=request)}, {"$unset": "_id"}])
            except (Unreadable, *REFUSED):
                continue
            if seen:
                self.prove(kind, request, seen[0], wanted)

    def window(self, kind, found):
        """Runs the cases of stages and others: documents, then pipelines over them."""
        for verb, asked, answer in found:
            if answer.startswith("error"):
                continue
            try:
                request, rest = parse(asked) if asked else (None, "")
                if verb == "begin":
                    self.db.c.drop()
                elif verb == "docs" and not rest:
                    self.db.c.drop()
                    self.db.c.insert_many(request)
                elif verb == "aggregate" and not rest:
                    wanted = [parse(line)[0] for line in answer.split("\n") if line]
                    seen = self.db.command(SON([("aggregate", "c"), ("pipeline", request), ("cursor", {})]))["cursor"]["firstBatch"]
                    if wanted:
                        self.prove(kind, request, seen, wanted)
                else:
                    continue
            except (Unreadable, *REFUSED):
                continue

    stages = window

    def commands(self):
        for path in sorted(glob.glob(os.path.join(GOLDEN, "commands", "*.txt"))):
            for name in self.db.client.list_database_names():
                if name not in ("admin", "config", "local"):
                    self.db.client.drop_database(name)
            for verb, asked, answer in cases(path):
                if verb == "begin":
                    self.db.client.drop_database("test")
                elif verb not in ("run", "admin"):
                    break
                elif not self.command(self.admin if verb == "admin" else self.db, asked, answer):
                    break

    def command(self, db, asked, answer):
        """Returns True if the file may continue."""
        try:
            request, rest = parse(asked)
            if rest or not isinstance(request, dict) or not request or next(iter(request)) in LASTING:
                return False
            wanted = None if answer.startswith("error") else parse(answer)[0]
            seen = db.command(request, codec_options=OPTIONS)
        except Unreadable:
            return False
        except REFUSED:
            return True
        if wanted is not None and not seen.get("writeErrors"):
            seen.pop("$clusterTime", None), seen.pop("operationTime", None)
            self.prove("command", SON([(next(iter(request)), 1)]), seen, wanted)
        return True


def replay(client, rows):
    """The ids of the rows that the cases prove, and the number of cases that were sent."""
    run = Replay(client, rows)
    for folder, kind in FOLDERS:
        run.folder(folder, kind)
    run.commands()
    client.drop_database("test")
    return run.proven, run.asked

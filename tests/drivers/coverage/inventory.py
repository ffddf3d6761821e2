"""Reads docs/features.tsv, and checks or writes the page docs/coverage.md: inventory.py --check|--write FILE of
ids that tests named.

A row of the inventory counts as present when a test that ran over the wire named it and passed. A fifth cell
`part` means that only a part of the row is tested, so that the row is not counted as present.
"""
import collections
import os
import re
import sys

import page as coverage_page

HERE = os.path.dirname(os.path.abspath(__file__))
DOCS = os.path.join(HERE, "..", "..", "..", "docs")
PAGE = os.path.join(DOCS, "coverage.md")
TIERS = coverage_page.TIERS
Row = collections.namedtuple("Row", "id name kind tier part")


def rows():
    found = []
    with open(os.path.join(DOCS, "features.tsv")) as f:
        for line in f:
            if not line.startswith("#"):
                ident, name, kind, tier, part = line.rstrip("\n").split("\t")
                if tier not in TIERS or part not in ("", "part"):
                    sys.exit("docs/features.tsv: %s" % line)
                found.append(Row(ident, name, kind, tier, part == "part"))
    return found


def names(row):
    """Protocol names in a cell: `isMaster / ismaster`, `$eq / implicit equality`."""
    words = re.findall(r"[A-Za-z0-9$_]+", row.name)
    return words if row.kind == "command" else [w for w in words if w.startswith("$") and len(w) > 1]


def by_name():
    """(kind, protocol name) -> ids of the rows with only this name; a row with a list of names is not proven by
    one of them."""
    found = collections.defaultdict(set)
    for row in rows():
        words = names(row)
        if " " not in row.name or " / " in row.name or row.name.startswith("$"):
            for word in words[:1]:
                found[row.kind, word].add(row.id)
    return found


def page(named):
    all_rows = rows()
    unknown = sorted(set(named) - {r.id for r in all_rows})
    if unknown:
        sys.exit("named by a test, but no row of docs/features.tsv: %s" % " ".join(unknown))
    there = {r.id for r in all_rows if r.id in named and not r.part}
    return coverage_page.text(all_rows, there), there


def main():
    how, path = sys.argv[1:]
    with open(path) as f:
        named = set(f.read().split())
    text, there = page(named)
    if how == "--write":
        with open(PAGE, "w") as f:
            f.write(text)
    else:
        with open(PAGE) as f:
            written = f.read()
        claimed = coverage_page.claimed(written)
        if written != text:
            print("claimed by docs/coverage.md, but named by no test that passed: %s" % " ".join(sorted(claimed - there)))
            print("named by a test that passed, but not there in docs/coverage.md: %s" % " ".join(sorted(there - claimed)))
            sys.exit("docs/coverage.md is not what the tests of this run say: make coverage")
    print("coverage: %d of %d rows of the inventory are named by tests that passed" % (len(there), len(rows())))


if __name__ == "__main__":
    main()

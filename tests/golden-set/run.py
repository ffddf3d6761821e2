"""Runs the golden set (recorded replies of a real server) against a server.

    run.py --uri URI [--areas filter,update,...] [--filter REGEX] [--out FILE] [--min-pass P]
    run.py --uri mongodb://HOST,HOST,HOST --listed cluster.txt     servers that share their data; their own differences
    run.py ... --write-differences            rewrites explained.txt and docs/differences.md

The cases are in `known/` next to this file, compressed; README.md describes their origin and format.

A case that fails must follow a rule of `differences.py` (a later version's behaviour) and be listed in
`explained.txt` with exactly its reply, or be listed in `open.txt` (known, to be fixed). Any other failed case
fails the run, and so does a listed case that agrees. A rule whose patterns match any two replies is closed:
--write-differences adds no case to it and changes no reply of it; this is done by hand.

A file of --listed has cases in which the servers of the URI differ from one server with data of its own, under the reason,
each with exactly its reply, with `*` if that depends on the machine, or with `agrees` if the recorded reply is right there.
Such a case is judged by it alone.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

from backports import zstd

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "drivers", "coverage"))
import differences  # noqa: E402
import inventory  # noqa: E402

EXPLAINED = os.path.join(HERE, "explained.txt")
OPEN = os.path.join(HERE, "open.txt")
SHOWN_MAX = 300  # of differences that are printed
AREAS = ["collation", "command", "date", "error", "expr", "filter", "index", "pipeline", "project", "sort", "update"]

def cases(area):
    """The lines of an area's cases."""
    with zstd.open(os.path.join(HERE, "known", area + ".jsonl.zst"), "rt", encoding="utf-8") as f:
        for line in f:
            if line.strip():
                yield line


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--uri")
    ap.add_argument("--areas", default=",".join(AREAS))
    ap.add_argument("--filter", help="regular expression on the line of a case")
    ap.add_argument("--out")
    ap.add_argument("--sample", type=int, default=1, help="every n-th case")
    ap.add_argument("--jobs", default="2")
    ap.add_argument("--timeout", default="5", help="seconds for a reply")
    ap.add_argument("--listed", help="a file in this folder with the differences of these servers")
    ap.add_argument("--write-differences", action="store_true")
    o = ap.parse_args()
    ran, shown, rows = set(), {}, {row.id: row for row in inventory.rows()}
    with tempfile.TemporaryDirectory() as folder:
        for area in o.areas.split(","):
            with open(os.path.join(folder, area + ".jsonl"), "w") as f:
                for number, line in enumerate(cases(area)):
                    case = re.search(r'"id": ?"([^"]+)"', line).group(1)
                    if number % o.sample == 0 and not (o.filter and not re.search(o.filter, line)):
                        ran.add(case)
                        shown[case] = proves(json.loads(line), rows)
                        f.write(line)
        out = o.out or os.path.join(folder, "failed.out")
        command = [sys.executable, os.path.join(HERE, "replay.py"), "--uri", o.uri, "--golden", folder, "--version", "8.0",
                   "--jobs", o.jobs, "--timeout", o.timeout, "--out", out]
        replay = subprocess.run(command, env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"), stdout=subprocess.PIPE, text=True)
        print(replay.stdout[replay.stdout.find("by area"):], end="")
        if "golden: " not in replay.stdout:
            sys.exit("the replay did not end")
        listed = read_explained(os.path.join(HERE, o.listed)) if o.listed else {}
        status = judge(out, o.write_differences, ran, listed)
        if os.environ.get("NAGI_COVERS"):
            with open(out) as f:
                failed = {json.loads(line)["id"] for line in f}
            with open(os.environ["NAGI_COVERS"], "a") as f:
                f.writelines(row + "\n" for row in sorted(set().union(*(shown[case] for case in ran - failed))))
    sys.exit(status)


def proves(case, rows):
    """Ids of the inventory rows that the case proves if its reply is the recorded one: no part of it is an
    error, and the request contains one of the row's names, if the row has any."""
    replies = case.get("reply")
    replies = replies if isinstance(replies, list) else [replies]
    if not all(isinstance(r, dict) and not {"code", "errmsg", "writeErrors"} & set(r) for r in replies):
        return set()
    words = set(re.findall(r'"(\$?\w+)"', json.dumps(case["request"])))
    known = [rows[i] for i in case.get("feature", "").split() if i in rows]
    return {row.id for row in known if not inventory.names(row) or words & set(inventory.names(row))}


def read_explained(path=EXPLAINED):
    """The rule and the answer of every case that a file lists: explained.txt, by rules of differences.py."""
    found, rule = {}, None
    for line in open(path):
        if line.startswith("## "):
            rule = line[3:].strip()
        elif line.strip() and not line.startswith("#"):
            case, answer = line.split()
            found[case] = (rule, answer)
    return found


def judge(out, write, ran, listed):
    """Sorts the failed cases: explained with exactly this reply, listed for these servers, known and open, unexplained.
    Returns the exit status."""
    counts, unexplained, still_open, agree = collections.Counter(), [], 0, []
    explained, groups = read_explained(), collections.defaultdict(dict)
    known = {line.split()[0] for line in open(OPEN) if line.strip() and not line.startswith("#")}
    failed_ids = set()
    for line in open(out):
        failed = json.loads(line)
        failed_ids.add(failed["id"])
        rule, texts = differences.rule_for(failed["id"], failed["case"], failed["actual"], explained)
        answer = differences.fingerprint(failed["id"], failed["actual"])
        if write and rule:
            groups[rule][failed["id"]] = answer
        if failed["id"] in listed:
            if listed[failed["id"]][1] in (answer, "*"):
                counts["listed"] += 1
            else:
                unexplained.append((failed["id"], texts, listed[failed["id"]], answer))
            continue
        if failed["id"] in known and not (write and rule):
            still_open += 1
        elif rule and (write or explained.get(failed["id"]) == (rule, answer)):
            counts[rule] += 1
        else:
            unexplained.append((failed["id"], texts, explained.get(failed["id"]), answer))
    agree = sorted(case for case in set(explained) | known | set(listed) if case in ran and case not in failed_ids
                   and listed.get(case, ("", ""))[1] != "agrees")
    if write:
        for case, (rule, answer) in explained.items():
            if case not in ran:  # another area, or excluded by --filter
                groups[rule][case] = answer
        write_explained(groups)
        agree = []
    for case, (want, got), entry, answer in unexplained[:SHOWN_MAX]:
        print("UNEXPLAINED %s %s\n  recorded %s\n  answered %s" % (case, answer, want[:200], got[:200]))
        if entry:
            print("  listed as %s, %s" % entry)
    for case in agree[:SHOWN_MAX]:
        print("AGREES NOW %s: take it off the list (--write-differences)" % case)
    own = counts.pop("listed", 0)
    print("golden set: %d follow a later version's rule, %d known and open, %d unexplained, %d listed that agree%s"
          % (sum(counts.values()), still_open, len(unexplained), len(agree), ", %d of these servers" % own if listed else ""))
    return 1 if unexplained or agree else 0


def write_explained(groups):
    counts = {rule: len(cases) for rule, cases in groups.items()}
    with open(os.path.join(HERE, "..", "..", "docs", "differences.md"), "w") as f:
        f.write(differences.markdown(counts))
    with open(EXPLAINED, "w") as f:
        f.write("# Cases that follow a rule of differences.py, each with the answer that was looked at: codes, and a checksum\n"
                "# of what is no error. Another answer fails the run. Written by run.py --write-differences; read the diff.\n")
        for rule, _, _, _, _ in differences.RULES:
            if groups.get(rule):
                f.write("\n## %s\n" % rule)
                f.writelines("%s %s\n" % pair for pair in sorted(groups[rule].items()))


if __name__ == "__main__":
    main()

"""Runs the golden set (recorded answers of a real server) against a server, without what is pending.

    run.py --golden DIR --uri URI [--areas filter,update,...] [--filter REGEX] [--out FILE] [--min-pass P]
    run.py --golden DIR --write-pending       makes pending.txt anew
    run.py ... --write-differences            writes docs/differences.md and open.txt anew

`pending.txt` names the cases of the areas in scope that need a feature of a later release. It is made from
what a case asks for (its request and set-up), never from whether it failed. A case that fails must follow a rule of
`differences.py` (a later version's behaviour) or stand in `open.txt` (known, to be mended); any other fails the run.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import differences  # noqa: E402

OPEN = os.path.join(HERE, "open.txt")
PENDING = os.path.join(HERE, "pending.txt")
AREAS = ["command", "error", "filter", "index", "project", "sort", "update"]
STAGES = {"$match", "$project", "$addFields", "$set", "$unset", "$sort", "$limit", "$skip", "$group", "$unwind", "$count",
          "$replaceRoot", "$replaceWith"}
KNOWN_STAGES = {"$bucket", "$bucketAuto", "$facet", "$lookup", "$graphLookup", "$out", "$sortByCount", "$redact", "$sample",
                "$geoNear", "$collStats", "$indexStats", "$currentOp", "$listSessions", "$listLocalSessions", "$changeStream"}
LATER_COMMANDS = {
    "mapReduce": "js", "mapreduce": "js", "group": "js", "eval": "js", "$eval": "js", "geoNear": "geo", "geoSearch": "geo",
    "createUser": "users", "updateUser": "users", "dropUser": "users", "usersInfo": "users", "createRole": "users",
    "updateRole": "users", "dropRole": "users", "rolesInfo": "users", "grantRolesToUser": "users", "dropAllUsersFromDatabase": "users",
    "dropAllRolesFromDatabase": "users", "grantPrivilegesToRole": "users", "grantRolesToRole": "users",
    "revokePrivilegesFromRole": "users", "revokeRolesFromRole": "users", "revokeRolesFromUser": "users",
    "invalidateUserCache": "users", "saslStart": "users", "saslContinue": "users", "logout": "users", "authenticate": "users",
    "getnonce": "users", "copydbgetnonce": "users", "authSchemaUpgrade": "users",
    "profile": "profiler", "collMod": "collMod", "convertToCapped": "capped", "cloneCollectionAsCapped": "capped",
    "compact": "maintenance", "reIndex": "maintenance", "repairDatabase": "maintenance", "fsync": "maintenance",
    "fsyncUnlock": "maintenance", "touch": "maintenance", "logRotate": "maintenance", "dataSize": "maintenance",
    "planCacheClear": "plan cache", "planCacheListFilters": "plan cache", "planCacheSetFilter": "plan cache",
    "planCacheClearFilters": "plan cache", "planCacheListPlans": "plan cache", "planCacheListQueryShapes": "plan cache",
    "commitTransaction": "transactions", "abortTransaction": "transactions", "prepareTransaction": "transactions",
    "top": "statistics", "connPoolStats": "statistics", "features": "statistics", "setFeatureCompatibilityVersion": "parameters",
    "setParameter": "parameters", "killAllSessions": "sessions", "killAllSessionsByPattern": "sessions",
    "refreshLogicalSessionCacheNow": "sessions", "reapLogicalSessionCacheNow": "sessions", "applyOps": "replication",
    "currentOp": "statistics", "killOp": "statistics", "filemd5": "maintenance", "parallelCollectionScan": "removed since",
    "copydb": "removed since", "clone": "removed since", "cloneCollection": "removed since",
}
REASONS = {
    "js": "server-side JavaScript ($where, mapReduce, group, eval): with the document language",
    "geo": "geometry operators and indexes (2d, 2dsphere, geoHaystack): with the document language and index kinds",
    "text": "text indexes and $text: with the index kinds",
    "collation": "collation: with the document language; refused clearly until then",
    "jsonSchema": "$jsonSchema and validators: with the document language",
    "hashed": "hashed indexes: with the index kinds",
    "wildcard": "wildcard indexes: with the index kinds",
    "stages": "stages beyond the first fourteen: with the query engine",
    "views": "views: with the query engine",
    "capped": "capped collections: with special collections",
    "users": "users, roles and login: with security",
    "profiler": "the profiler: with operations",
    "collMod": "collMod: with special collections",
    "maintenance": "compact, reIndex, fsync and the like: with storage",
    "plan cache": "plan cache commands and index filters: with the query engine",
    "transactions": "transactions: with sessions and replication",
    "replication": "replica set commands: with sessions and replication",
    "sessions": "session administration: with sessions and replication",
    "statistics": "top, currentOp and other statistics: with operations",
    "parameters": "setParameter and feature compatibility: with operations",
    "removed since": "commands that no server since 4.2 has",
    "timezones": "time zones: with the document language",
    "expressions": "expression operators beyond the first families: with the document language",
}


def walk(value):
    """Every (key, value) in a document, with duplicates as they stand."""
    if isinstance(value, list) and value and isinstance(value[0], Pair):
        for pair in value:
            yield pair.key, pair.value
            yield from walk(pair.value)
    elif isinstance(value, list):
        for item in value:
            yield from walk(item)


class Pair:
    __slots__ = ("key", "value")

    def __init__(self, key, value):
        self.key, self.value = key, value


def pairs(items):
    return [Pair(k, v) for k, v in items] or {}


def requests(case):
    found = dict((p.key, p.value) for p in case).get("request")
    if isinstance(found, list) and found and isinstance(found[0], Pair):
        return [found]
    return [r for r in found or [] if isinstance(r, list)]


def reason(line):
    """Why a case is pending, or None."""
    case = json.loads(line, object_pairs_hook=pairs)
    top = {p.key: p.value for p in case}
    keys = collections.defaultdict(list)
    for part in ("request", "create", "indexes", "extra"):
        for key, value in walk(top.get(part, [])):
            keys[key].append(value)
    features = top.get("feature", "")
    if top.get("needs") == "js" or keys.keys() & {"$where", "$function", "$accumulator"}:
        return "js"
    specs = [v for name in ("key", "keys") for v in keys.get(name, []) if isinstance(v, list) and v and isinstance(v[0], Pair)]
    kinds = {p.value for spec in specs for p in spec if isinstance(p.value, str)}
    kinds |= {v for values in keys.values() for v in values if isinstance(v, str) and v in ("2d", "2dsphere", "text", "hashed",
                                                                                            "geoHaystack")}
    geo_keys = {"$geoWithin", "$geoIntersects", "$near", "$nearSphere", "$within", "$geoNear", "$geometry", "$maxDistance",
                "$minDistance"}
    if keys.keys() & geo_keys or kinds & {"2d", "2dsphere", "geoHaystack"}:
        return "geo"
    if keys.keys() & {"$text"} or "text" in kinds or "textScore" in kinds or "q.text" in features or "idx.text" in features:
        return "text"
    collations = [v for v in keys.get("collation", []) if isinstance(v, list) and v and isinstance(v[0], Pair)]
    if collations or "idx.opt.collation" in features:
        return "collation"
    if keys.keys() & {"$jsonSchema", "validator"}:
        return "jsonSchema"
    if "hashed" in kinds or "idx.hashed" in features and "hashed" in line:
        return "hashed"
    if any("$**" in p.key for spec in specs for p in spec) or "wildcardProjection" in keys:
        return "wildcard"
    if keys.keys() & {"viewOn"}:
        return "views"
    if "capped" in keys and any(v not in (False, None) for v in keys["capped"]):
        return "capped"
    for request in requests(case):
        if not request or not isinstance(request[0], Pair):
            continue
        name = request[0].key
        if name == "explain" and isinstance(request[0].value, list) and request[0].value and isinstance(request[0].value[0], Pair):
            name = request[0].value[0].key
        if name in LATER_COMMANDS:
            return LATER_COMMANDS[name]
    stages = {p.key for v in keys.get("pipeline", []) if isinstance(v, list) for s in v if isinstance(s, list)
              for p in s if isinstance(p, Pair)}
    if stages & KNOWN_STAGES - STAGES:
        return "stages"
    return None


def read_pending():
    ids, group = {}, None
    for line in open(PENDING):
        line = line.rstrip("\n")
        if line.startswith("# "):
            group = line[2:].split(":")[0]
        elif line:
            ids[line] = group
    return ids


def cases(golden, areas):
    for area in areas:
        with open(os.path.join(golden, "known", area + ".jsonl")) as f:
            for line in f:
                if line.strip():
                    yield area, line


def write_pending(golden):
    groups = collections.defaultdict(list)
    total = 0
    for _, line in cases(golden, AREAS):
        total += 1
        why = reason(line)
        if why:
            groups[why].append(json.loads(line)["id"])
    with open(PENDING, "w") as f:
        for why in sorted(groups):
            f.write("# %s: %s\n" % (why, REASONS[why]))
            f.writelines(case + "\n" for case in groups[why])
            f.write("\n")
    for why in sorted(groups):
        print("%-16s %5d" % (why, len(groups[why])))
    print("%d of %d cases pending" % (sum(map(len, groups.values())), total))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--golden", required=True)
    ap.add_argument("--uri")
    ap.add_argument("--areas", default=",".join(AREAS))
    ap.add_argument("--filter")
    ap.add_argument("--out")
    ap.add_argument("--all", action="store_true", help="pending cases too")
    ap.add_argument("--sample", type=int, default=1, help="every n-th case")
    ap.add_argument("--write-differences", action="store_true")
    ap.add_argument("--write-pending", action="store_true")
    o = ap.parse_args()
    if o.write_pending:
        return write_pending(o.golden)
    pending = {} if o.all else read_pending()
    left_out = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for area in o.areas.split(","):
            with open(os.path.join(folder, area + ".jsonl"), "w") as f:
                for number, (_, line) in enumerate(cases(o.golden, [area])):
                    why = pending.get(re.search(r'"id": ?"([^"]+)"', line).group(1))
                    if why:
                        left_out[why] += 1
                    elif number % o.sample == 0:
                        f.write(line)
        out = o.out or os.path.join(folder, "failed.out")
        command = [sys.executable, os.path.join(o.golden, "replay.py"), "--uri", o.uri, "--golden", folder, "--version", "8.0",
                   "--jobs", "2", "--out", out]
        command += ["--filter", o.filter] if o.filter else []
        replay = subprocess.run(command, env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"), stdout=subprocess.PIPE, text=True)
        print(replay.stdout[replay.stdout.find("by area"):], end="")
        if "golden: " not in replay.stdout:
            sys.exit("the replay did not end")
        status = judge(out, o.write_differences)
    print("pending: " + ", ".join("%s %d" % pair for pair in left_out.most_common()))
    sys.exit(status)


def judge(out, write):
    """Sorts the failed cases: by rule, known, unexplained. Returns the exit status."""
    counts, unexplained, still_open = collections.Counter(), [], 0
    known = {line.split()[0] for line in open(OPEN) if line.strip() and not line.startswith("#")}
    for line in open(out):
        failed = json.loads(line)
        rule, texts = differences.rule_for(failed["id"], failed["case"], failed["actual"])
        if rule:
            counts[rule] += 1
        elif failed["id"] in known and not write:
            still_open += 1
        else:
            unexplained.append((failed["id"], texts))
    if write:
        with open(os.path.join(HERE, "..", "..", "docs", "differences.md"), "w") as f:
            f.write(differences.markdown(counts))
        with open(OPEN, "w") as f:
            f.write("# Cases that do not agree, follow no rule of differences.py, and are to be mended or explained.\n")
            f.writelines(case + "\n" for case, _ in sorted(unexplained))
        unexplained, still_open = [], len(unexplained)
    for case, (want, got) in unexplained[:50]:
        print("UNEXPLAINED %s\n  recorded %s\n  answered %s" % (case, want[:200], got[:200]))
    print("golden set: %d follow a later version's rule, %d known and open, %d unexplained"
          % (sum(counts.values()), still_open, len(unexplained)))
    return 1 if unexplained else 0


if __name__ == "__main__":
    main()

"""Where Nagi follows a later version than the one that the golden set was recorded from (4.0).

The rules come from documentation, not from a recording of a later server. A rule names what the
recorded server answered, what Nagi answers, and the later version's rule. A case
that fails and matches no rule is a failure; `docs/differences.md` is printed from this table.
"""
import re

STRICT = r"^(14 BSON field|40413 |40414 |40415 |51024 )"
PLAN = r"^OK .*\"plan\":"

# (name, cases, recorded answer, Nagi's answer, the later version and its rule)
RULES = [
    ("strict arguments", r"", r"", STRICT,
     "4.4 to 5.0: commands parse their arguments strictly: unknown field 40415, missing 40414, wrong type 14, below the minimum 51024"),
    ("numbers and booleans of batches", r"", r"10065 invalid parameter", r"^(14|9) ", "5.0: a batch of the wrong type is a TypeMismatch"),
    ("collection name of a wrong type", r"", r"collection name has invalid type|of BSON type string", r"^73 ",
     "5.0: a collection name that is no string is InvalidNamespace"),
    ("invalid names", r"/namespace/", r"^(OK|26 )", r"^73 ", "4.4: names are checked before the collection is looked for"),
    ("comment of any type", r"", r"comment", r"^OK", "4.4: comment takes any value on every command"),
    ("null arguments", r"", r"(must be a boolean, not a null|must be specified|had the wrong type\. Expected \w+, found null|should be an object|wrong type for field)",
     r"^OK", "4.4: null and undefined count as an absent argument"),
    ("arguments between members", r"/getMore", r"(term|lastKnownCommittedOpTime)", r"^43 ",
     "arguments that only members of a replica set send are not looked at"),
    ("empty modifiers", r"", r"is empty\. You must specify a field", r"^OK", "5.0: {$set: {}} is allowed and changes nothing"),
    ("names with $", r"", r"(\$ prefixed field|dollar \(\$\)|is not valid for storage)", r"^OK", "5.0: names beginning with $ are storable"),
    ("names with $ in _id", r"^update/insert", r"", r"^WE 52 _id fields may not contain", "5.0: nowhere inside _id"),
    ("plan stages", r"", r"SORT_KEY_GENERATOR|PROJECTION", PLAN, "4.4: SORT_KEY_GENERATOR is gone, PROJECTION has three names"),
    ("plans of pipelines", r"", r"\$cursor", PLAN, "4.4: $sort, $match and projections at the front run in the plan below $cursor"),
    ("ordering of sort", r"", r"^2 (bad sort specification|Failed)", r"^(1597\d|17312|40352|15998|16410)", "4.4: find's sort is checked as $sort is"),
    ("codes of projections", r"", r"^2 ", r"^(312\d\d|51050|51246|312|31395)", "4.4: errors of find's projection have codes of their own"),
    ("regular expressions", r"", r"", r"^51091 Regular expression is invalid", "6.1: patterns are PCRE2's; one that does not compile is an error"),
    ("drop of nothing", r"/drop", r"^26 ", r"^OK", "7.0: drop of a missing collection succeeds"),
    ("same collection again", r"/create", r"^48 ", r"^OK", "4.2: create with the same options succeeds"),
    ("autoIndexId", r"/create", r"autoIndexId", r"^OK", "the note on autoIndexId is gone with 4.0's option"),
    ("conflicting indexes", r"^index/", r"^85 ", r"^86 ", "4.4: an index of the same name but another signature is IndexKeySpecsConflict"),
    ("min and max without hint", r"", r"unable to find", r"^51173", "4.2: min() and max() require a hint"),
    ("hello", r"", r"^59 .*hello", r"^OK", "4.4.2: hello"),
    ("booleans as numbers", r"", r"(field must be of BSON type bool|must be a boolean, not a)", r"^(OK|2 error processing|WE|73|9 )",
     "4.4: boolean arguments take numbers"),
    ("readConcern and writeConcern", r"", r"(readConcern|writeConcern|write concern|'w')", r"^(14|9|2|OK)",
     "4.4: read and write concerns are parsed strictly, and before anything runs"),
    ("undefined is not null", r"^(filter|project|sort|update)/", r"undefined", r"^OK", "8.0: equality with null does not match undefined"),
    ("first parameter", r"", r"First parameter must be a string|must be a string", r"^(73|14) ", "5.0: a collection name that is no string is InvalidNamespace"),
    ("hint of count", r"", r"^OK", r"^9 Hint must be", "4.4: hint is checked wherever it is given"),
    ("snapshot", r"/find", r"snapshot", r"^OK", "drivers of 2010-2014 send snapshot; it is accepted"),
    ("batch size of getMore", r"", r"Batch size for getMore must be positive, but received: 0", r"^(OK|43)", "4.4: zero means no limit"),
    ("$mod with fractions and infinity", r"", r"", r"^2 malformed mod", "5.1: divisor and remainder must be whole finite numbers"),
    ("names of sort fields", r"^sort/form|/notcapped", r"^OK", r"^16410 ", "4.4: a sort key does not begin with $"),
    ("errors without a code", r"", r"^None ", r"^\d", "4.2: every error has a code"),
    ("commands of clusters and of 4.0", r"^command/", r"", r"^59 no such command", "a server that is no member of a cluster, and later versions, do not have them"),
    ("commands since", r"^command/known", r"^59 ", r"^(OK|13|14|9|2) ", "commands of later versions"),
    ("options of indexes", r"^index/spec", r"^OK", r"^(14|67|2|197) ", "4.4: options of an index are checked by type"),
    ("count by metadata", r"^index/explain.count", r"COUNT", r"RECORD_STORE_FAST_COUNT", "4.4: the plan says that it counted without reading"),
    ("distinct key", r"distinct", r"^OK", r"^2 distinct key cannot", "5.0: a key with a NUL is refused"),
    ("max of create", r"/create", r"^OK", r"^14 'max' has to be a number", "4.4: options of create are checked by type"),
    ("absent arguments", r"^(error|sort|command)/.*", r"^(?!OK).*(null|undefined|must be a number|valid number|either a string or nested)", r"^OK",
     "4.4: null and undefined count as an absent argument"),
    ("index names and options of later versions", r"^index/spec", r"^(67|197) ", r"^OK",
     "4.2 to 6.0: no limit on names, hidden indexes, more expressions in partial indexes"),
    ("same key under another signature", r"^index/again", r"^85 ", r"^OK", "5.0: another partial filter makes another index"),
    ("drop of system collections", r"/namespace", r"^26 ", r"^20 ", "4.4: what may be dropped is checked first"),
    ("length of names", r"/namespace", r"^73 fully qualified", r"^OK", "4.4: a namespace has up to 255 bytes"),
    ("rename to itself", r"/rename", r"", r"^20 Can't rename a collection to itself", "4.4: checked before anything is looked for"),
    ("order of explain of deletes", r"^index/explain.delete", r"plan", r"DELETE", "4.4: the plan of a multi-delete names DELETE"),
    ("$meta in sort", r"^sort/form", r"\$meta", r"^40218 ", "4.4: sort by $meta needs no projection, but the metadata"),
    ("$natural with other keys", r"^sort/form", r"^OK", r"^2 Cannot include '\$natural'", "4.4: $natural stands alone in a sort"),
    ("update of a pipeline", r"", r"", r"^(9|WE 9) Update argument must be either an object or an array", "4.2: update takes a document or a pipeline"),
]


def text_of(reply):
    """One line: the code and message of an error or of the first write error, else OK and the reply."""
    import json
    if isinstance(reply, dict):
        for prefix, where in (("", reply), ("WE ", (reply.get("writeErrors") or [{}])[0])):
            code = where.get("code")
            if code is not None or "errmsg" in where:
                number = code.get("$numberInt", "?") if isinstance(code, dict) else code
                return "%s%s %s" % (prefix, number, where.get("errmsg"))
    return "OK " + json.dumps(reply)


def first_difference(want, got):
    """The texts of the first pair of replies that differ."""
    want = want if isinstance(want, list) else [want]
    got = got if isinstance(got, list) else [got]
    pairs = [(text_of(w), text_of(g)) for w, g in zip(want, got)]
    plain = lambda t: re.sub(r'[ "]', "", t.split(" ", 1)[0]) if not t.startswith("OK") else t
    return next(((w, g) for w, g in pairs if plain(w) != plain(g)), pairs[0] if pairs else ("", ""))


def rule_for(case_id, case, actual):
    """The name of the rule that a failed case follows, or None; and the two texts."""
    if "problem" in actual:
        return None, ("", "problem: %s" % actual["problem"])
    texts = first_difference(case.get("reply"), actual.get("reply"))
    for name, cases, want, got, _ in RULES:
        if re.search(cases, case_id) and re.search(want, texts[0]) and re.search(got, texts[1]):
            return name, texts
    return None, texts


def markdown(counts):
    """docs/differences.md."""
    lines = ["# Where Nagi differs from the recorded MongoDB 4.0", "",
             "Printed by `tests/golden-set/run.py` from `tests/golden-set/differences.py`; the number of recorded cases that follow each.", "",
             "| rule | since, and what holds now | cases |", "|---|---|---|"]
    for name, _, _, _, why in RULES:
        lines.append("| %s | %s | %d |" % (name, why, counts.get(name, 0)))
    return "\n".join(lines) + "\n"

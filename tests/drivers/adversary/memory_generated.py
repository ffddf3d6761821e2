"""Requests that use much memory, generated from the feature inventory: one for every expression, accumulator,
window function, stage and update operator, with arguments of maximum length, many times.

A row without a request here is listed in `LEFT_OUT` with the reason. A new row of the inventory that has
neither fails the suite.
"""
import random

from memory_kinds import ARRAY, COLLECT, DENSE, LOOKUP, TEXT, doubled, mapped, pipeline, value

LISTS = "lists what the server has: a row for each thing, none for each byte of a request"
SEARCH = "search is refused (31082)"
PASSES = "holds no more than the document that passes"
LEFT_OUT = {
    "expression": {
        "$literal": "a constant of the request", "$const": "a constant of the request", "$meta": "a number that a search left",
        "timezone argument": "a part of others", "$currentDate (expression)": "a date",
        "$sampleRate": "a filter on a random number",
    },
    "accumulator": {"$_internalJsReduce, $_internalConstructStats": "parts of mapReduce, which the kind `script: emit` runs"},
    "window-function": {},
    "stage": dict(
        {name: LISTS for name in ("$collStats", "$currentOp", "$indexStats", "$listClusterCatalog", "$listLocalSessions", "$listSessions",
                                  "$listSampledQueries", "$listSearchIndexes", "$planCacheStats", "$querySettings", "$queryStats",
                                  "$shardedDataDistribution")},
        **{name: SEARCH for name in ("$search", "$searchMeta", "$vectorSearch", "$rankFusion", "$scoreFusion", "$score")},
        **{name: PASSES for name in ("$limit", "$skip", "$match", "$count", "$unset")},
        **{"$changeStream": "of replica sets only; one event at a time", "$changeStreamSplitLargeEvent": "of replica sets only",
           "internal stages ($_internal*, $mergeCursors, $queue, $listMqlEntities, $backupCursor)": "refused"}),
    "update-operator": {"$pushAll": "no operator since 3.6", "$each": "a part of $push", "$position": "a part of $push",
                        "$slice": "a part of $push", "$sort": "a part of $push"},
}

# Operators with named arguments.
NAMED = {
    "$arrayToObject": mapped(500_000, {"k": {"$toString": "$$this"}, "v": "$$this"}),
    "$filter": {"input": ARRAY, "cond": True},
    "$reduce": {"input": ARRAY, "initialValue": [], "in": {"$concatArrays": ["$$value", ["$$this"]]}},
    "$map": {"input": ARRAY, "in": TEXT},
    "$zip": {"inputs": [ARRAY] * 5},
    "$sortArray": {"input": ARRAY, "sortBy": -1},
    "$regexFind": {"input": TEXT, "regex": "(ab)+"},
    "$regexFindAll": {"input": TEXT, "regex": "(a)(b)"},
    "$replaceOne": {"input": TEXT, "find": "a", "replacement": TEXT},
    "$replaceAll": {"input": doubled(10, "ab", "$concat"), "find": "a", "replacement": doubled(12, "ab", "$concat")},
    "$convert": {"input": ARRAY, "to": "string"},
    "$switch": {"branches": [{"case": True, "then": ARRAY}]},
    "$let": {"vars": {"v": ARRAY}, "in": {"$concatArrays": ["$$v", "$$v"]}},
    "$setField": {"field": "x", "input": {"a": ARRAY}, "value": ARRAY},
    "$getField": {"field": "x", "input": {"x": ARRAY}},
    "$percentile": {"input": ARRAY, "p": [0.5], "method": "approximate"},
    "$median": {"input": ARRAY, "method": "approximate"},
    "$dateToString": {"date": "$$NOW", "format": "%B" * 100_000},
    "$function": {"body": "function(a) { return a.concat(a) }", "args": [ARRAY], "lang": "js"},
}
NAMED.update({name: {"n": 1_000_000, "input": ARRAY} for name in ("$firstN", "$lastN", "$maxN", "$minN")})
NAMED.update({name: {"input": TEXT} for name in ("$trim", "$ltrim", "$rtrim")})
NAMED.update({name: {"input": TEXT, "algorithm": "sha256"} for name in ("$hash", "$hexHash")})
NAMED.update({name: {"input": {"a": ARRAY}} for name in ("$serializeEJSON", "$deserializeEJSON")})


def forms(name):
    """Forms of an operator with long arguments; some of them are refused."""
    if name in NAMED:
        return [NAMED[name]]
    return [[ARRAY], [ARRAY] * 2, [TEXT], [TEXT] * 2, [{"a": ARRAY, "b": TEXT}], [ARRAY, 0, 1_000_000], [ARRAY] * 20, [TEXT] * 20]


def argument_of(name):
    """The argument with which an accumulator holds as much as possible."""
    if name in ("$firstN", "$lastN", "$maxN", "$minN"):
        return {"n": 1_000_000, "input": "$$ROOT"}
    if name in ("$topN", "$bottomN"):
        return {"n": 1_000_000, "sortBy": {"_id": 1}, "output": "$$ROOT"}
    if name in ("$top", "$bottom"):
        return {"sortBy": {"_id": 1}, "output": "$$ROOT"}
    if name in ("$percentile", "$median"):
        return dict({"input": "$x", "method": "approximate"}, **({"p": [0.5]} if name == "$percentile" else {}))
    if name in ("$concatArrays", "$setUnion"):
        return "$many"
    if name == "$accumulator":
        return COLLECT[name]
    return {} if name == "$count" else "$$ROOT"


def collected(name):
    return [{"$set": {"many": {"$range": [0, 20_000]}}}, {"$unwind": {"path": "$a", "includeArrayIndex": "x"}},
            {"$group": {"_id": "$x", "r": {name: argument_of(name)}}}, {"$count": "n"}]


def function(name):
    """A window function that holds as much as possible."""
    argument = {
        "$rank": {}, "$denseRank": {}, "$documentNumber": {}, "$count": {}, "$linearFill": "$_id", "$locf": "$$ROOT",
        "$shift": {"output": "$$ROOT", "by": 4000}, "$derivative": {"input": "$_id"}, "$integral": {"input": "$_id"},
        "$expMovingAvg": {"input": "$_id", "N": 100_000}, "$covariancePop": ["$_id", "$k"], "$covarianceSamp": ["$_id", "$k"],
        "$minMaxScaler": {"input": "$_id"},
    }.get(name, argument_of(name))
    bare = ("$rank", "$denseRank", "$documentNumber", "$linearFill", "$locf", "$shift", "$expMovingAvg")
    window = {} if name in bare else {"window": {"documents": [-2500, 2500]}}
    return [{"$set": {"many": {"$range": [0, 1000]}, "x": "$_id"}},
            {"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"r": dict({name: argument}, **window)}}}, {"$count": "n"}]


WIDE = {"$set": {"m": {"$map": {"input": {"$range": [0, 200]}, "in": {"$concat": ["$s", {"$toString": "$$this"}]}}}}}
ALL = {"$group": {"_id": None, "l": {"$push": "$$ROOT"}}}
# Stages, with the stages before them.
STAGES = {
    "$addFields": [{"$limit": 3}, {"$addFields": {"x": ARRAY}}, {"$addFields": {"y": ["$x", "$x", "$x"]}}],
    "$set": [{"$limit": 3}, {"$set": {"x": ARRAY}}, {"$set": {"y": {"a": "$x", "b": "$x", "c": "$x"}}}],
    "$project": [{"$limit": 3}, {"$project": {"x": ARRAY}}, {"$project": {"y": {"a": "$x", "b": "$x"}, "x": 1}}],
    "$bucket": [WIDE, {"$bucket": {"groupBy": "$_id", "boundaries": list(range(0, 5001, 50)), "output": {"l": {"$push": "$$ROOT"}}}}],
    "$bucketAuto": [WIDE, {"$bucketAuto": {"groupBy": "$m", "buckets": 1000}}],
    "$densify": [{"$limit": 2}, {"$densify": dict(DENSE, partitionByFields=["k"])}],
    "$documents": None,
    "$facet": [WIDE, {"$facet": {"f%d" % n: [{"$sort": {"m": n % 2 * 2 - 1}}, ALL] for n in range(10)}}],
    "$fill": [WIDE, {"$fill": {"sortBy": {"_id": 1}, "partitionByFields": ["m"], "output": {"z": {"method": "locf"}}}}],
    "$geoNear": [{"$geoNear": {"near": {"type": "Point", "coordinates": [0, 0]}, "distanceField": "d"}}, WIDE, ALL],
    "$graphLookup": [{"$graphLookup": {"from": "g", "startWith": "$_id", "connectFromField": "to", "connectToField": "_id", "as": "z"}}],
    "$group": [WIDE, {"$group": {"_id": "$m", "l": {"$addToSet": "$m"}}}],
    "$lookup": [{"$lookup": dict(LOOKUP, **{"from": "g"})}, {"$lookup": dict(LOOKUP, **{"as": "y"})}],
    "$merge": [{"$limit": 20}, {"$set": {"x": {"$range": [0, 1_000_000]}}}, {"$merge": {"into": "merged"}}],
    "$out": [WIDE, {"$out": "out"}],
    "$redact": [{"$limit": 20}, {"$set": {"x": {"$map": {"input": {"$range": [0, 500_000]}, "in": {"a": "$$this"}}}}},
                {"$redact": "$$DESCEND"}],
    "$replaceRoot": [{"$limit": 3}, {"$replaceRoot": {"newRoot": {"x": [ARRAY] * 10}}}],
    "$replaceWith": [{"$limit": 3}, {"$replaceWith": {"x": [ARRAY] * 10}}],
    "$sample": [WIDE, {"$sample": {"size": 4000}}],
    "$setWindowFields": [WIDE, {"$setWindowFields": {"partitionBy": "$k", "sortBy": {"m": 1}, "output": {"r": {"$push": "$m"}}}}],
    "$sort": [WIDE, {"$sort": {"m": -1}}],
    "$sortByCount": [WIDE, {"$sortByCount": "$m"}],
    "$unionWith": [{"$unionWith": {"coll": "big", "pipeline": [ALL]}}, ALL],
    "$unwind": [{"$limit": 50}, {"$set": {"x": {"$range": [0, 300_000]}}}, {"$unwind": "$x"}, {"$group": {"_id": "$x"}}],
}
LONG = 700_000
# Update operators, on a document with an array `a` of LONG numbers and a text `s` of five megabytes.
UPDATES = {
    "$set": {"$set": {"a.$[]": "0123456"}}, "$unset": {"$unset": {"a.$[]": 1}}, "$inc": {"$inc": {"a.$[]": 2 ** 40}},
    "$mul": {"$mul": {"a.$[]": 1.5}}, "$min": {"$min": {"a.$[]": -1.5}}, "$max": {"$max": {"a.$[]": 1e9}}, "$rename": {"$rename": {"a": "b", "s": "t"}},
    "$currentDate": {"$currentDate": {"a.$[]": True}}, "$setOnInsert": {"$setOnInsert": {"b": [1] * 1_200_000}},
    "$bit": {"$bit": {"a.$[]": {"or": 2 ** 40}}},
    "$push": {"$push": {"a": {"$each": list(range(200_000)), "$position": 1000, "$sort": -1, "$slice": 800_000}}},
    "$addToSet": {"$addToSet": {"b": {"$each": list(range(500_000))}}}, "$pop": {"$pop": {"a": -1}},
    "$pull": {"$pull": {"a": {"$gte": 10}}}, "$pullAll": {"$pullAll": {"a": list(range(500_000))}},
    "$ (first match)": {"$set": {"a.$": "z" * 5_000_000}}, "$[]": {"$set": {"a.$[]": {"x": 1}}},
    "$[id] with arrayFilters": {"$set": {"a.$[e]": "abcdefg"}},
}


def updated(change):
    def run(db):
        key = random.random()
        if "$setOnInsert" not in change:
            db.updated.insert_one({"_id": key, "a": list(range(LONG)), "s": "x" * 5_000_000})
        filters = [{"e": {"$gte": 5}}] if "a.$[e]" in str(change)[:40] else None
        query = {"_id": key, "a": 3} if "a.$'" in str(change)[:40] else {"_id": key}
        try:
            db.updated.update_one(query, change, upsert="$setOnInsert" in change, array_filters=filters)
        finally:
            db.updated.delete_one({"_id": key})
    return run


def several(runs):
    def run(db):
        worst = None
        for one in runs:
            try:
                one(db)
            except Exception as error:  # refused forms are acceptable; the last error is shown
                worst = error
        if worst:
            raise worst
    return run


def made(kind, name):
    """The kind for a row of the inventory; None if there is none."""
    if kind == "expression" and name.startswith("$"):
        return "many " + name, several([value(mapped(1000, {name: form})) for form in forms(name)])
    if kind == "accumulator":
        return "group " + name, pipeline(collected(name), allowDiskUse=True)
    if kind == "window-function":
        return "window " + name, pipeline(function(name), allowDiskUse=True)
    if kind == "stage" and name == "$documents":
        rows = {"$documents": mapped(3_000_000, {"a": "$$this"})}
        return "stage " + name, lambda db: list(db.aggregate([rows, {"$count": "n"}], maxTimeMS=30_000))
    if kind == "stage" and name in STAGES:
        ends = name in ("$out", "$merge")
        collection = "near" if name == "$geoNear" else "c"
        return "stage " + name, pipeline(STAGES[name] + ([] if ends else [{"$count": "n"}]), collection, allowDiskUse=True)
    if kind == "update-operator" and name in UPDATES:
        return "update " + name, updated(UPDATES[name])
    return None


def generated(inventory):
    """A kind for every row of the inventory that can grow, and the rows that have neither a kind nor a
    reason."""
    kinds, uncovered = [], []
    with open(inventory) as file:
        rows = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    for row in rows:
        if len(row) < 5 or row[2] not in LEFT_OUT or row[1] in LEFT_OUT[row[2]]:
            continue
        kind = made(row[2], row[1])
        if kind:
            kinds.append(kind)
        else:
            uncovered.append("%s %s" % (row[2], row[1]))
    return kinds, uncovered

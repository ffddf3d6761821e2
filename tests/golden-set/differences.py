"""The rules by which Nagi follows a later version than MongoDB 4.0, from which the golden set was recorded.

The rules come from documentation, not from a recording of a later server. A rule has a pattern of the recorded
reply, a pattern of Nagi's reply, and the later version's rule. A case that fails and matches no rule is a
failure. `docs/differences.md` is generated from this table.
"""
import hashlib
import json
import re

PLAN = r"^OK .*\"plan\":"
# Errors of the argument parsers of 4.0.
OLD_TYPE = (r"^(OK |None scale has to be|10065 invalid parameter|13111 wrong type for field|16 Write batch sizes|26 ns (not found|does not exist)|27 invalid index name spec|40422 "
            r"|2 (collection name has invalid type|maxTimeMS must be|(limit|skip) value is not|collation value is not|cursor object|'\w+' has to be|.*must be a number)"
            r"|2 >1 field in obj|9 (Failed to parse|Cannot specify both an update|Field '\w+' (must be|contains)|explain command requires|j must be numeric|.*must be|writeConcern)"
            r"|14 .*(must be|had the wrong type|has to be))")

# The scope of rules about arguments: groups of cases that were reviewed. A new group must be reviewed before it
# is added.
GROUPS = {
    "unknown arguments": (
        "command/args command/collMod command/collMod.nocoll command/create command/cursor command/cursor.form command/drop "
        "command/mapReduce "
        "command/generic command/rename command/writeConcern error/aggregate.type error/aggregate.unknown error/collMod.unknown "
        "error/count.unknown error/create.unknown error/createIndexes.type error/createIndexes.unknown error/delete.type "
        "error/distinct.type error/distinct.unknown error/dropIndexes.unknown error/explain.unknown error/find.type "
        "error/find.unknown error/findAndModify.type error/findAndModify.unknown error/getMore.unknown error/insert.type "
        "error/killCursors.unknown error/listIndexes.type error/listIndexes.unknown error/update.type index/cmd "
        "index/explain.form index/list pipeline/cmd project/count.nocoll project/distinct.form project/distinct.nocoll "
        "update/fam.form update/fam.nocoll"
    ),
    "missing arguments": (
        "collation/collation.create collation/collation.createIndex error/count.type error/create.type error/find.type "
        "command/args command/cursor.form command/known command/mapReduce command/rename error/aggregate.missing error/aggregate.type "
        "error/createIndexes.missing error/createIndexes.type error/delete.item.type error/delete.type error/distinct.type "
        "error/dropIndexes.type error/explain.type error/getMore.missing error/getMore.type error/insert.type "
        "error/killCursors.type error/update.item.type error/update.type index/drop project/distinct project/distinct.form "
        "project/distinct.nocoll update/delete.form"
    ),
    "arguments of logins": (
        "command/args command/known"
    ),
    "mechanisms of logins": (
        "command/args"
    ),
    "types of arguments": (
        "collation/collation.create collation/collation.form command/args command/collMod command/collMod.nocoll command/create command/create.again command/cursor.form "
        "command/dbname command/generic command/known command/listCollections command/maintenance command/stats "
        "command/writeConcern error/aggregate.type error/collMod.type error/count.type error/create.type error/delete.item "
        "error/delete.item.type error/delete.type error/dropIndexes.type error/explain.type error/find.type "
        "error/findAndModify.type error/getMore.type error/insert.item error/insert.type error/killCursors.type error/update.item "
        "error/update.item.type error/update.type index/drop index/drop.nocoll index/minmax pipeline/cmd project/count "
        "project/count.nocoll project/options sort/batch sort/form update/delete.form update/fam.form update/fam.nocoll "
        "update/pos_filtered"
    ),
    "bounds of arguments": (
        "command/create command/create.again command/stats error/count.type error/find.type error/getMore.type project/count project/count.nocoll sort/batch "
        "sort/getMore sort/getMore.agg"
    ),
    "null arguments": (
        "command/generic command/writeConcern error/aggregate.type error/collMod.type error/count.type error/create.type "
        "error/createIndexes.type error/delete.type error/distinct.type error/find.type error/findAndModify.type "
        "error/getMore.type error/insert.type error/update.item.type project/count.nocoll project/options sort/batch"
    ),
    "comment of any type": (
        "command/create error/aggregate.type pipeline/cmd"
    ),
    "batch size of getMore": (
        "error/getMore.type sort/getMore sort/getMore.agg"
    ),
    "readConcern of a wrong type": (
        "command/generic error/aggregate.type error/count.type error/distinct.type error/find.type"
    ),
    "readConcern level": (
        "command/generic pipeline/cmd project/distinct.nocoll"
    ),
    "errors without a code": (
        "command/args command/known command/maintenance command/namespace command/rename"
    ),
    "empty modifiers": (
        "index/unique.upsert update/fam.rule update/rule update/rule.multi update/rule.upsert"
    ),
}

# Commands of 4.0 by the version that removed them, according to the release notes of that version or the named
# issue.
GONE = r"^command/ & \{\"(%s)\":"
GONE_REPLY = r"^(OK|2|9|13|14|26|139|10046|40414|73|203|None) "

# (name, cases, recorded reply, Nagi's reply, the later version and its rule). `cases` is a pattern for ids; a
# pattern for the request may follow after " & ". Each case that follows a rule is listed in explained.txt with
# its reply.
RULES = [
    # ---- arguments of commands
    ("unknown arguments", r"", r"^(OK |2 (cursor object|Invalid field)|9 |14 |26 |27 |48 |59 |72 |73 |None )", r"^40415 BSON field '[\w.]+(\.[^']*)?' is an unknown field",
     "4.4 to 5.0: every command refuses arguments it does not know (40415)"),
    ("missing arguments", r"", r"^(OK |2 |(WE )?4 |9 |14 |16 |27 |59 |10065 |13606 )", r"^(WE )?40414 BSON field '[\w.]+' is missing but a required field",
     "4.4 to 5.0: an absent argument, or one that is null or undefined, is 40414 where one is required"),
    ("arguments of logins", r" & saslStart", r"^None ", r"^40414 BSON field 'saslStart.mechanism' is missing", "4.4 to 5.0: saslStart says what is missing"),
    ("mechanisms of logins", r" & saslStart", r"^2 Unsupported mechanism", r"^334 Received authentication for mechanism \w+ which is not enabled",
     "4.4: a mechanism that is not there is MechanismUnavailable"),
    ("types of arguments", r"", OLD_TYPE, r"^14 BSON field '[\w.$]+' is the wrong type", "4.4 to 5.0: wrong types are TypeMismatch and say what is expected"),
    ("bounds of arguments", r"", r"^(2 .*negative|2 .*must be|2 size has to be|None scale has to be)", r"^51024 BSON field", "4.4 to 5.0: below the minimum is 51024"),
    ("switches of find", r"^error/find.type", r"^9 Failed to parse: (\w+): .*'\1' field must be of BSON type bool", r"^14 Field '\w+' should be a boolean value",
     "4.4: the switches of find take booleans only, neither numbers nor null"),
    ("enumerations of a collation", r"^(collation|error)/", r"^9 Field '(strength|caseFirst|alternate|maxVariable)' must be",
     r"^2 Enumeration value '.*' for field 'collation\.\w+' is not a valid value", "5.0: a collation is parsed as arguments are, and a value outside an enumeration is BadValue"),
    ("unknown fields of a collation", r"^(collation|error|index)/", r"^9 Collation spec contains unknown field", r"^40415 BSON field 'collation\.\w+' is an unknown field",
     "5.0: a collation is parsed as arguments are"),
    ("order of the Unicode data", r"^collation/collation/1344e9e68d", r"^OK", r"^OK", "none: ICU4X brings a later CLDR than ICU 57, in which Danish no longer has the letter oe behind its own"),
    ("collection names in indexes", r"^collation/collation.create", r"^OK .*\"idIndex\": .*\"ns\"", r"^OK ", "4.4: an index no longer says the name of its collection"),
    ("near without an index", r"^(filter/geo|pipeline/geoNear)", r"unable to find index for \$geoNear query", r"^291 ", "4.4: a query that no plan can answer is NoQueryExecutionPlans"),
    ("near in a $match", r"^pipeline/form & \"\$match\": \{\"a\": \{\"\$near", r"^2 \$geoNear, \$near, and \$nearSphere are not allowed", r"^5626500 ", "5.0: $near in a $match is 5626500, which says why"),
    ("arguments of $geoNear", r"^pipeline/geoNear", r"", r"^(2 (max|min)Distance must be nonnegative|14 query must be an object)", "4.2: a negative distance and a query that is no document are errors"),
    ("limits of $geoNear", r"^pipeline/geoNear", r"^(OK|2 error processing)", r"^5085[78] \$geoNear no longer supports", "4.2: limit and num are gone"),
    ("haystack indexes", r"^index/spec & geoHaystack", r"^(OK|16775|16777)", r"^67 Unknown index plugin 'geoHaystack'", "5.0: geoHaystack indexes are gone"),
    ("null arguments", r"", r"^(2 (maxTimeMS must be a number|(limit|skip) value is not a valid number|collation value is not a document)"
     r"|50001 autoIndexId:false|9 (Failed to parse|hint must be|readConcern field should be an object)|13111 wrong type for field .* (null|undefined) != string|10065 invalid parameter: expected an object \(arrayFilters"
     r"|14 (\"\w+\" had the wrong type\. Expected [\w ]+, found (null|undefined)|\w+ must be an? \w+, not an? (null|undefined)|Field 'batchSize' must be a number))",
     r"^(OK |43 cursor id 5)", "4.4: null and undefined count as an absent argument"),
    ("null cursor option", r"^error/aggregate.type", r"^14 cursor field must be missing or an object", r"^9 The 'cursor' option is required",
     "4.4: null and undefined count as an absent argument"),
    ("null update", r"^error/findAndModify.type & \"update\": (null|\{\"\$undefined)", r"^OK", r"^9 Either an update or remove=true must be specified",
     "4.4: null and undefined count as an absent argument"),
    ("NaN as a batch size", r"^error/getMore.type & NaN", r"^(OK|2 Batch size)", r"^(OK|43 cursor id 5)", "4.4: NaN is read as 0, no longer as the least int64"),
    ("limits and skips of count", r"^(error|project|pipeline)/count", r"^(OK|2 )", r"^9 (Expected an integer|Expected a non-negative number in|Cannot represent as a 64-bit integer)",
     "4.4: limit and skip of count must be integers of 64 bits, skip none below 0"),
    ("limits and skips of stages", r"^pipeline/", r"^(OK|1597[26]|1595[678]|15972)", r"^510720[01] invalid argument to \$(limit|skip) stage: ",
     "5.0: $limit and $skip take integers of 64 bits only, with codes of their own"),
    ("least int64 as limit of count", r"^project/count & -9223372036854775808", r"^OK", r"^2 limit value for count cannot be min long",
     "4.2: the negation of the least int64 is no int64, so it is refused"),
    ("collection name of a wrong type", r"^(command/namespace|error/find.type) & \"find\":", r"^9 Failed to parse: find: .*BSON type string",
     r"^73 collection name has invalid type", "4.4 to 5.0: find checks its collection name before its other arguments: InvalidNamespace"),
    ("collection name of a wrong type in aggregate and killCursors", r"^(command/(cursor.form|namespace)|error/(aggregate|killCursors).type|pipeline/collectionless) & \"(aggregate|killCursors)\":",
     r"^14 collection name has invalid type|^9 First parameter must be a string", r"^2 collection name has invalid type",
     "5.0: the arguments are parsed from a description, where such a name is BadValue"),
    ("comment of any type", r" & \"comment\"", r"comment", r"^OK", "4.4: comment takes any value on every command"),
    ("batch size of getMore", r" & \"batchSize\": \{\"\$numberInt\": \"0\"", r"^2 Batch size for getMore must be positive, but received: 0", r"^(OK|43 cursor id 5)",
     "4.4: zero means no limit"),
    ("hint of count", r"(error|project)/count", r"^OK", r"^9 Hint must be a string or an object", "4.4: hint is checked wherever it is given"),
    ("capped without a size", r"^(command|error)/create", r"^14832 specify size:<n> when capped is true", r"^(72 the 'size' field is required|14 BSON field 'create\.(capped|size)' is the wrong type)",
     "4.2: a capped collection without a size is InvalidOptions, and a wrong type TypeMismatch"),
    ("no limit of documents in a capped collection", r"^command/create", r"\"max\": \{\"\$numberDouble\": \"2147483647.0\"", r"\"max\": \{\"\$numberInt\": \"2147483647\"",
     "4.2: numbers of options are integers"),
    ("rounded sizes of capped collections", r"^command/create", r"\"capped\": true, \"size\": \{\"\$numberInt\": \"5120\"", r"\"capped\": true, \"size\": \{\"\$numberInt\": \"5000\"",
     "6.2: sizes are no longer rounded up to multiples of 256 (SERVER-67246)"),
    ("size of convertToCapped", r"^command/maintenance", r"^None invalid command spec", r"^14 BSON field 'convertToCapped.size' is the wrong type", "4.4 to 5.0: wrong types are TypeMismatch and say what is expected"),
    ("null terms", r"^error/getMore.type & \"term\"", r"^14 Field 'term' must be of type NumberLong .*term: (null|undefined)", r"^43 cursor id 5", "4.4: null and undefined count as an absent argument"),
    ("duplicates in full capped collections", r"^command/capped", r"^WE 11000 ", r"^WE 11000 ", "4.2: a refused insert pushes no other document out"),
    ("deletes in capped collections", r"^command/capped", r"^(WE )?20 cannot remove from a capped collection", r"^OK", "5.0: documents of a capped collection may be deleted"),
    ("growing updates in capped collections", r"^command/capped", r"^WE 10003 Cannot change the size of a document", r"^OK", "5.0: updates may change the size of a document"),
    ("readConcern of a wrong type", r"", r"^9 readConcern field should be an object", r"^14 \"readConcern\" had the wrong type", "4.4: read concerns are parsed strictly"),
    ("readConcern level", r"", r"^9 readConcern.level must be either", r"^2 Enumeration value '\w+' for field 'readConcern.level' is not a valid value",
     "4.4: read concerns are parsed strictly"),
    ("readConcern snapshot", r"^command/generic & snapshot", r"^72 readConcern level snapshot is only valid in multi", r"^123 ",
     "5.0: snapshot reads need no transaction, but a replica set"),
    ("writeConcern w", r"^command/writeConcern", r"^(OK|2 cannot use 'w' > 1)", r"^(9 w has to be a non-negative number|2 cannot use non-majority 'w' mode)",
     "4.4: write concerns are parsed strictly, and before anything runs"),
    # ---- names, creating and dropping
    ("names are checked first", r"^command/namespace", r"^(26 ns (not found|does not exist)|OK)", r"^73 (Invalid collection name|cannot write to)",
     "4.4: names are checked before the collection is looked for"),
    ("names with $ of databases", r"^command/dbname & a\$b", r"^OK", r"^73 Invalid database name", "4.4: names are checked before the collection is looked for"),
    ("system.indexes", r"^command/namespace & system.indexes", r"^WE (10156|12050) ", r"^73 cannot write to", "4.2: system.indexes is a system collection like others"),
    ("length of names", r"^command/namespace", r"^73 fully qualified", r"^OK", "4.4: a namespace has up to 255 bytes"),
    ("drop of nothing", r"^command/(drop|namespace)", r"^26 ns not found", r"^OK", "7.0: drop of a missing collection succeeds"),
    ("drop of system collections", r"^command/namespace & system", r"^26 ", r"^20 can't drop system collection", "4.4: what may be dropped is checked first"),
    ("same collection again", r"^command/create.again", r"^48 a collection '.*' already exists", r"^OK", "4.2: create with the same options succeeds"),
    ("arguments of create are checked first", r"^command/create.again & (storageEngine|autoIndexId|\"pipeline\")", r"^48 ", r"^(2 Empty 'storageEngine'|50001 autoIndexId|72 'pipeline' requires)",
     "4.4: arguments are checked before the collection is looked for"),
    ("pipeline without viewOn", r"^error/create.type & \"pipeline\"", r"^(OK|2 'pipeline' cannot be specified without 'viewOn')", r"^72 'pipeline' requires 'viewOn'",
     "4.4: 'pipeline' requires 'viewOn'"),
    ("wildcard indexes", r"^index/spec & \$\*\*", r"^67 ", r"^OK", "4.2: wildcard indexes"),
    ("options of create since", r"^command/create & (clusteredIndex|timeseries|expireAfterSeconds|changeStreamPreAndPostImages)", r"^72 The field",
     r"^(48 Collection|OK)", "5.0 to 6.0: options of create of later versions"),
    ("size without capped", r"^(command/create(\.again)?|error/create\.type)/", r"^(OK|2 size has to be|48 )",
     r"^(72 the '(capped' field needs to be true when|size' field is required|temp' field is an invalid option)|51024 BSON field 'size' value must be >= 1)",
     "5.0: create checks size, max and capped together before it looks for the collection, and refuses temp"),
    ("levels and actions of validators", r"^(error/collMod|error/create)\.type/|^command/collMod", r"^(OK|26 )",
     r"^2 Enumeration value '.*' for field '(collMod|create)\.validation(Level|Action)' is not a valid value",
     "5.0: a value outside an enumeration is BadValue, before the collection is looked for"),
    ("a target to drop", r"^command/rename/", r"^OK", r"^14 BSON field 'renameCollection.dropTarget' is the wrong type", "5.0: dropTarget is a boolean or the target's UUID"),
    ("flags of MMAPv1", r"^command/create & \"flags\"", r"\"flags\"", r"^OK", "4.2: the flags of MMAPv1 mean nothing and are not kept"),
    ("rename to itself", r"^command/rename", r"^(26|48) ", r"^20 Can't rename a collection to itself", "4.4: checked before anything is looked for"),
    ("errors without a code", r"", r"^None ", r"^(59|72|73|96|20|14|13|26|2|9) ", "4.2: every error has a code"),
    # ---- commands
    ("hello", r"^command/known & hello", r"^59 .*hello", r"^OK", "4.4.2: hello"),
    ("commands of 4.0", GONE % r"\$?eval|geoNear|parallelCollectionScan", GONE_REPLY, r"^59 no such command", "4.2: eval (SERVER-35847), geoNear and parallelCollectionScan (SERVER-33998) are gone"),
    ("commands of 4.2", GONE % r"mapreduce\.shardedfinish|planCacheList(Plans|QueryShapes)", GONE_REPLY, r"^59 no such command",
     "4.4: planCacheListPlans and planCacheListQueryShapes are gone, and mapReduce became a pipeline, so that shards have no part of their own"),
    ("geoSearch", GONE % "geoSearch", GONE_REPLY, r"^59 no such command", "5.0: geoSearch is gone with the geoHaystack index"),
    ("availableQueryOptions", GONE % "availableQueryOptions", GONE_REPLY, r"^59 no such command", "6.1: availableQueryOptions is gone (SERVER-60892)"),
    ("commands of clusters", GONE % "getShardMap|moveChunk|shardingState", GONE_REPLY, r"^59 no such command",
     "none: a server that is no member of a cluster does not have the commands of clusters"),
    ("commands since", r"^command/known", r"^59 no such command", r"^(OK|2|4|9|13|14|20|73|344|31082|40414|51300) ", "4.4 to 8.0: setIndexCommitQuorum and getDefaultRWConcern (4.4), rotateCertificates and setAuditConfig (5.0), getClusterParameter (6.0), createSearchIndexes (7.0), bulkWrite (8.0)"),
    ("collStats of nothing", r"^command/namespace & collStats", r"^None Database", r"^OK", "4.2: collStats of what does not exist says zero"),
    ("collStats", r"^command/stats & collStats", r"\"size\": \{\"\$numberInt\"", r"\"size\": \{\"\$numberLong\"", "4.4: sizes are int64; more fields"),
    ("parameters", r"^command/args & getParameter", r"^OK", r"^OK", "none: the reply to * lists what the server has, which changes with each version"),
    ("free monitoring", r"^command/known & getFreeMonitoringStatus", r"^OK", r"^OK", "7.0: free monitoring is gone"),
    ("cursors of another collection", r"^(command/cursor|error/getMore.type) & getMore", r"^96 collection dropped between getMore calls", r"^(13 Requested getMore on namespace|43 cursor id 5)",
     "4.2: the cursor is looked for before the collection"),
    ("cursors of dropped collections", r"^command/cursor & getMore", r"^96 collection dropped between getMore calls", r"^175 ", "4.2: QueryPlanKilled"),
    # ---- filters
    ("undefined is not null", r"^(filter|project|sort|update)/", r"^OK", r"^OK.*undefined", "8.0: equality with null does not match undefined"),
    ("undefined is not null, without undefined", r"^(filter|project|sort|update)/ & null", r"undefined", r"^OK", "8.0: equality with null does not match undefined"),
    ("$mod with fractions and infinity", r"^filter/mod", r"^OK", r"^2 malformed mod", "5.1: divisor and remainder must be whole finite numbers"),
    ("$mod of NaN and infinity", r"^filter/mod", r"^OK", r"^OK", "5.1: what is no finite int64 has no remainder; the divisor is an int64, no int32"),
    ("patterns that do not compile", r"^filter/ & ([rR]eg|[pP]attern)", r"^(OK|2 Invalid regular expression)", r"^51091 Regular expression is invalid", "6.1: a pattern that does not compile is an error"),
    ("options of patterns", r"^filter/regex.form", r"^OK", r"^(51075 options set in both|51108 invalid flag)", "4.2: options are checked and given once"),
    ("$not of $regex", r"^filter/regex.form", r"^2 \$not cannot have a regex", r"^OK", "4.0.7: $not takes $regex"),
    ("$size of a decimal", r"^filter/size", r"^2 \$size needs a number", r"^OK", "4.2: any number"),
    ("$type 0", r"^filter/type & \"0\"", r"^OK", r"^2 Invalid numerical type code: 0", "4.2: there is no type 0"),
    # ---- projections and sorts
    ("codes of projections", r"^(project|update)/", r"^2 (Projection|Cannot|Positional|.*positional operator|>1|Unsupported)", r"^(312\d\d|31325|51246|31394|31395) ",
     "4.4: errors of find's projection have codes of their own"),
    ("paths that collide in $project", r"^pipeline/project & \"\$project\"", r"^40176 Invalid \$project", r"^(31249|31250) Invalid \$project :: caused by :: Path collision at",
     "4.4: $project is read as find's projection is: paths that collide"),
    ("mixed projections in $project", r"^(pipeline/project|expr/value) & \"\$project\"", r"^4017[89] Bad projection", r"^(31253|31254|31310) Invalid \$project :: caused by :: Cannot (do|use)",
     "4.4: $project is read as find's projection is: inclusion beside exclusion"),
    ("_id beside exclusions in $project", r"^pipeline/project & \"_id\": \{\"\$numberInt\": \"1\"", r"^40178 Bad projection", r"^OK", "4.4: {_id: 1, a: 0} excludes a"),
    ("empty projections in $project", r"^(pipeline/project|expr/value) & \"\$project\"", r"^(40177|40180) Invalid \$project", r"^(51272|51270) Invalid \$project",
     "4.4: $project is read as find's projection is: empty specifications"),
    ("operators beside fields in $project", r"^(pipeline/project|expr/value) & \"\$project\"", r"^40181 Invalid \$project", r"^16410 Invalid \$project",
     "4.4: what is not one operator alone is names of fields"),
    ("unknown expressions in $project", r"^(pipeline/project|expr/value) & \"\$project\"", r"^168 Unrecognized expression", r"^31325 Invalid \$project :: caused by :: Unknown expression",
     "4.4: $project is read as find's projection is: unknown expressions"),
    ("positional paths in $project", r"^pipeline/project & \.\$\"", r"^16410 Invalid \$project", r"^31324 Invalid \$project", "4.4: a positional path has an error of its own in $project"),
    ("paths in nested projections", r"^(pipeline/project|expr/value) & \"\$project\"", r"^40183 Invalid \$project :: caused by :: cannot use dotted", r"^OK", "4.4: {a: {'b.c': 1}} is the path a.b.c"),
    ("positional projection against the query", r"^(project/positional|update/fam.fields) & \.\$\"", r"^2 Positional projection '[\w.$]+' does not match the query", r"^(OK|51246 )",
     "4.4 to 6.0: a positional path needs a position where a document has an array, whatever the query names"),
    ("positional projection with a literal", r"^project/positional", r"^OK", r"^31308 ", "4.4: the value of a positional path is a number or a boolean"),
    ("$where with scope", r"^filter/where & \$scope", r"^OK", r"^4649201 ", "4.4: $where takes no code with scope"),
    ("positional projection of no array", r"^project/positional", r"^OK", r"^OK", "4.4: what is no array is projected as it is, and `v.x.$` projects the path"),
    ("positional projection at the end", r"^project/positional & \$", r"^OK", r"^(31394|31271|31250) ", "4.4: `$` stands at the end, alone and once"),
    ("min and max without hint", r"(minmax|find.type) & \"(min|max)\"", r"(?s)^(OK|2 error processing query.*unable to find)", r"^51173 When using min", "4.2: min() and max() require a hint"),
    ("min and max against the hint", r"^index/minmax", r"(?s)^2 .*hint provided does not work with min", r"^5117[45] ", "4.2: codes of their own"),
    ("ordering of sort", r"^(sort/form|update/fam)", r"^2 (bad sort specification|Failed)", r"^(1597\d|17312|40352|15998|16410) ", "4.4: find's sort is checked as $sort is"),
    ("names of sort fields", r"^sort/form|/notcapped", r"^OK", r"^(16410|40353|15998) ", "4.4: a sort key is a field path: no empty part, no $ in front"),
    ("$meta in sort", r"^sort/form & \$meta", r"\$meta", r"^40218 ", "4.4: sort by $meta needs no projection, but the metadata"),
    ("$natural with other keys", r"^sort/form & \$natural", r"^OK", r"^2 Cannot include '\$natural'", "4.4: $natural stands alone in a sort"),
    ("$sort as sort", r"^sort/(nested|types.agg) & \$sort", r"^OK", r"^OK", "4.4: one sort for find and aggregate: missing is null, an array its least or greatest element"),
    # ---- writes
    ("empty modifiers", r"", r"^(WE )?9 '\$\w+' is empty\. You must specify a field", r"^OK", "5.0: {$set: {}} is allowed and changes nothing"),
    ("names with $", r"^update/", r"^(WE )?(2 .*Document can't have \$ prefixed|52 The dollar \(\$\) prefixed field|55 )", r"^(OK|WE 2 can't)", "5.0: names beginning with $ are storable"),
    ("update of a pipeline", r"^error/(findAndModify|update)", r"^(OK|14 BSON field 'update.updates.u')", r"^(9 Update argument must be either|40323 |OK)", "4.2: update takes a document or a pipeline"),
    ("arrayFilters of a replacement", r"^update/ & arrayFilters", r"^OK", r"^(WE )?9 arrayFilters may not be specified", "4.2: arrayFilters belong to operators"),
    ("order of new fields", r"^update/(fam.)?rule", r"^OK", r"^OK", "5.0: new fields with numbers for names are added in the order of the numbers"),
    # ---- indexes and plans
    ("conflicting indexes", r"^index/again", r"^85 ", r"^86 ", "4.4: an index of the same name but another signature is IndexKeySpecsConflict"),
    ("same key under another signature", r"^index/again", r"^85 ", r"^OK", "5.0: sparse, unique and partial filter are part of an index's identity"),
    ("same key under another name", r"^index/again", r"^OK", r"^85 Index already exists with a different name", "4.2: no index is made twice"),
    ("options of indexes", r"^index/spec", r"^OK", r"^(14 The field|67 TTL index) ?", "4.4: options of an index are checked by type"),
    ("index names and options of later versions", r"^index/spec", r"^(67 (namespace name generated|unsupported expression)|197 The field 'hidden')", r"^OK",
     "4.2 to 6.0: no limit on names, hidden indexes, more expressions in partial indexes"),
    ("order of fields of indexes", r"^index/(build|spec) & \"unique\"", r"^OK.*\"unique\".*\"key\"", r"^OK.*\"name\".*\"unique\"", "4.2: specifications are listed in the order they were given"),
    ("lists of indexes to drop", r"^index/drop & deleteIndexes", r"^27 invalid index name spec", r"^(OK|72 cannot drop _id index)", "4.2: dropIndexes takes a list of names"),
    ("plan stages", r"^index/explain", r"SORT_KEY_GENERATOR|\"PROJECTION\", \"(FETCH|IDHACK)", PLAN, "4.4: SORT_KEY_GENERATOR is gone, PROJECTION has three names"),
    ("express plans", r"^index/explain", r"IDHACK|FETCH\", \"IXSCAN", r"EXPRESS_", "8.0: point reads by _id, or by a unique index, are EXPRESS plans"),
    ("plans of pipelines", r"^(index/explain.agg|error/aggregate.type)", r"\$cursor", PLAN, "4.4: $sort, $match and projections at the front run in the plan below $cursor"),
    ("count by metadata", r"^index/explain.count", r"\"COUNT\"", r"RECORD_STORE_FAST_COUNT", "4.4: the plan says that it counted without reading"),
    ("writes above the plan", r"^index/explain.(fam|update)", PLAN, r"\"(DELETE|UPDATE)\"", "4.2: several candidates show below UPDATE and DELETE, too"),
    ("an index changes no answer", r"^index/(query|explain.(delete|distinct|update))|^project/distinct", r"^OK", r"^OK",
     "Nagi's own: what does not come out of the index as it does of the documents (missing fields of a sparse index, distinct arrays in arrays) is read from the documents"),
    ("distinct key", r"^project/distinct", r"^OK", r"^2 distinct key cannot contain", "5.0: a key with a NUL is refused"),
    ("hashed indexes", r"^index/(spec|explain)", r"^(16763 |OK.*COLLSCAN)", r"^OK", "4.4: hashed fields in compound indexes; {$exists: false} has one hash"),
    # ---- the language
    ("division by zero", r"", r"^(WE )?16608 can't \$divide by zero", r"^(WE )?2 (.*: )?can't \$divide by zero", "5.0: division by zero is BadValue"),
    ("decimal functions", r"^expr/(log|sqrt)", r"^OK.*\$numberDecimal", r"^OK.*\$numberDecimal", "none: a fault of the recorded build, which took the wrong function of its decimal library: its sqrt of 1 is 2.718"),
    ("infinite decimals", r"^expr/(add|ceil|floor|trunc)", r"^OK.*\$numberDecimal\": \"NaN", r"^OK.*\$numberDecimal", "none: a fault of the recorded build, which lost large and infinite decimals"),
    ("overflow of $subtract", r"^expr/subtract", r"^OK.*\$numberLong", r"^OK.*\$numberDouble", "4.4: a difference beyond int64 is a double, as a sum is"),
    ("sums of doubles", r"^(expr/(add|avg|sum)|pipeline/acc.sum)", r"^OK.*\"0.0\"", r"^OK.*\"(1.0|0.3333333333333333)\"", "5.0: sums keep what doubles lose"),
    ("doubles as text", r"^expr/(convert|substr|toLower|toString)", r"^OK.*e[+-]", r"^OK", "4.2: the shortest text that gives the same double, not six digits"),
    ("conversion of timestamps", r"^expr/(convert|toDate)", r"^(OK.*ERR|241 Unsupported conversion from timestamp to date)", r"^OK.*\$date", "4.2: timestamps convert to dates"),
    ("texts of documents and binary data", r"^expr/(convert|toString)", r"^(241 Unsupported conversion from (object|array|regex|binData) to string|OK.*ERR)", r"^OK",
     "8.0 to 8.3: binary data, documents, arrays and regular expressions convert to text"),
    ("conversion of tiny decimals", r"^expr/(convert|toDouble)", r"^241 Conversion would overflow", r"^OK.*\"0.0\"", "4.2: what is too small for a double is 0"),
    ("repeated keys of $arrayToObject", r"^expr/arrayToObject", r"^OK", r"^OK", "4.0.5: the last value of a key is taken"),
    ("arguments of operators since", r"^expr/(filter|meta|trunc)", r"^(28647 Unrecognized parameter to \$filter: limit|17308 .*indexKey|16020 )", r"^OK", "4.2 to 5.2: $trunc with a place, $filter with limit, $meta: indexKey"),
    ("counts of arguments", r"^expr/(ifNull|trunc)", r"^16020 ", r"^(1257300|28667) ", "4.2 and 5.0: $trunc and $ifNull take several arguments"),
    ("dates before the year 0 and after 9999", r"^date/", r"^OK", r"^(OK|31095 )", "4.2: years below 0 and weeks out of range are counted on, week years end at 9999; zones before the railways have seconds"),
    ("formats of dates", r"^date/(fromString.format|toString)", r"^(18536 Invalid format character|OK)", r"^OK", "4.4 to 8.0: %b, %B, %j and other formats"),
    ("collectionless names", r"^pipeline/collectionless", r"^OK", r"^73 Invalid collection name", "4.4: names are checked before the collection is looked for"),
    ("let", r"^pipeline/cmd & \"let\"", r"^9 unrecognized field 'let'", r"^OK", "5.0: let"),
    ("stages between members", r"^pipeline/form & mergeCursors", r"^40414 ", r"^40324 Unrecognized pipeline stage name",
     "none: $mergeCursors is a stage that only members of a cluster send one another"),
    ("missing fields of $graphLookup", r"^pipeline/graphLookup", r"^9 missing 'from'", r"^40105 ", "5.0: the fields of $graphLookup are checked together"),
    ("order of $graphLookup", r"^pipeline/graphLookup", r"^OK", r"^OK", "none: the documentation of $graphLookup says that the order of what is found is not defined"),
    ("operators that are no accumulators", r"^pipeline/group", r"^40237 The \$add accumulator", r"^15952 unknown group operator", "4.4: what is no accumulator is unknown"),
    ("$lookup by fields and pipeline", r"^pipeline/lookup.form", r"^9 \$lookup with 'pipeline' may not specify", r"^OK", "5.0: both together"),
    ("writing stages in $lookup", r"^pipeline/lookup.pipeline", r"^OK", r"^51047 ", "4.2: $out and $merge are refused in sub-pipelines"),
    ("duplicates in $out", r"^pipeline/out", r"^16996 ", r"^11000 ", "4.2: $out passes the error of the insert on"),
    ("argument of $out", r"^pipeline/out", r"^14 \$out stage requires a string argument", r"^(16990|16994|40415) ", "4.4: $out takes a document, too"),
    ("names in $out", r"^pipeline/out", r"^17385 Can't \$out to special collection", r"^73 Invalid collection name", "4.4: names are checked first"),
    ("$sort of missing fields", r"^pipeline/sort & \$sort", r"^OK", r"^OK", "4.4: one sort for find and aggregate: missing is null"),
    ("$meta in $sort", r"^pipeline/sort & \$meta", r"^17308 Unsupported argument", r"^31138 Illegal \$meta sort", "4.4: $sort names what it does not know"),
    ("arrays in arrays in computed paths", r"^pipeline/project", r"^OK", r"^OK", "4.4: a computed path replaces scalars in an array at any depth, not only at the last"),
    # ---- views, validators
    ("counts of views", r"^command/view & count", r"\"ok\": \{\"\$numberInt\"", r"\"ok\": \{\"\$numberDouble\"", "4.2: ok is a double there too"),
    ("projections of views", r"^command/view & \"\$elemMatch\"", r"^168 Unsupported in view pipeline", r"^31325 Invalid \$project :: caused by :: Unknown expression",
     "4.4: a projection of a view is a $project, in which $elemMatch is an unknown expression"),
    ("$out to a view", r"^command/view & \$out", r"^18631 ", r"^166 ", "4.4: CommandNotSupportedOnView itself"),
    ("collMod of indexes", r"^command/collMod", r"^(OK|72 no expireAfterSeconds)", r"^OK", "4.4 to 5.0: hidden; seconds are int64"),
]


def number(code):
    return code.get("$numberInt", "?") if isinstance(code, dict) else code


def text_of(reply):
    """One line: the code and message of an error or of the write errors, else OK and the reply."""
    if isinstance(reply, dict):
        if "code" in reply or "errmsg" in reply:
            return "%s %s" % (number(reply.get("code")), reply.get("errmsg"))
        errors = reply.get("writeErrors")
        if errors:
            return "WE " + " | ".join("%s %s" % (number(e.get("code")), e.get("errmsg")) for e in errors)
    return "OK " + json.dumps(reply)


def code_of(text):
    """The code of a text: `OK`, `14`, or `WE 9` for a write error."""
    return " ".join(text.split(" ", 2)[:2 if text.startswith("WE ") else 1])


def agree(want, got):
    """Compares approximately like replay.py: errors are equal by code, the fields of a reply are a set."""
    codes = code_of(text_of(want)), code_of(text_of(got))
    if codes[0] != codes[1] or not isinstance(want, dict):
        return codes[0] == codes[1] and want == got
    if codes[0] != "OK":
        errors = [[(number(e.get("index")), number(e.get("code"))) for e in r.get("writeErrors") or []] for r in (want, got)]
        return errors[0] == errors[1]
    plain = [sorted((k, json.dumps(v)) for k, v in r.items()) for r in (want, got)]
    return plain[0] == plain[1]


def first_difference(want, got):
    """The texts of the first pair of replies that differ, or of the first pair."""
    want = want if isinstance(want, list) else [want]
    got = got if isinstance(got, list) else [got]
    differ = [(w, g) for w, g in zip(want, got) if not agree(w, g)]
    pairs = differ or list(zip(want, got))
    return (text_of(pairs[0][0]), text_of(pairs[0][1])) if pairs else ("", "")


# Fields that differ from run to run, so that they cannot be part of a fingerprint.
VOLATILE = {"$recordId", "connectionId", "freeStorageSize", "info", "localTime", "localUpdateWallClockTime", "topologyVersion",
            "totalSize", "uuid"}
OWN_OIDS = "5a7c1f00"
# Replies that list objects of the server: only their codes are part of the fingerprint.
LISTS = {"command/args/bace13b222"}


def still(value):
    if isinstance(value, dict):
        if not str(value.get("$oid", OWN_OIDS)).startswith(OWN_OIDS):
            return "a new _id"
        if isinstance(value.get("$timestamp"), dict) and value["$timestamp"]["t"] > 1600000000:
            return "a new timestamp"
        return {k: still(v) for k, v in value.items() if k not in VOLATILE}
    return [still(v) for v in value] if isinstance(value, list) else value


def unordered(documents):
    """Sorts the documents of a collection, whose order is not defined."""
    return sorted(documents, key=json.dumps) if isinstance(documents, list) else documents


def fingerprint(case_id, actual):
    """The fingerprint of a result: the codes of errors, and a checksum of everything else and of the documents
    afterwards."""
    if "problem" in actual:
        return "problem"
    replies = actual.get("reply")
    replies = replies if isinstance(replies, list) else [replies]
    codes = [code_of(text_of(r)).replace(" ", "-") for r in replies]
    if case_id in LISTS:
        return ",".join(codes)
    rest = [still(r) for r, code in zip(replies, codes) if code == "OK"] + [unordered(still(actual.get("after")))]
    plain = json.dumps(rest, sort_keys=True)
    return "%s:%s" % (",".join(codes), hashlib.sha1(plain.encode()).hexdigest()[:8])


def is_closed(rule):
    """Returns True if the rule's patterns match any two replies without error: then only the list separates its
    cases from failures."""
    return all(re.search(text, "OK {}") for text in rule[2:4])


def rule_for(case_id, case, actual, explained):
    """The name of the rule that a failed case follows, or None; and the two texts. A closed rule has only the
    cases that `explained` lists for it, with the replies there; further ones are added by hand."""
    if "problem" in actual:
        return None, ("", "problem: %s" % actual["problem"])
    texts = first_difference(case.get("reply"), actual.get("reply"))
    request = json.dumps(case.get("request"))
    for rule in RULES:
        name, cases, want, got, _ = rule
        if is_closed(rule) and explained.get(case_id) != (name, fingerprint(case_id, actual)):
            continue
        where, _, asked = cases.partition(" & ")
        if name in GROUPS and case_id.rsplit("/", 1)[0] not in GROUPS[name].split():
            continue
        if re.search(where, case_id) and re.search(asked, request) and re.search(want, texts[0]) and re.search(got, texts[1]):
            return name, texts
    return None, texts


def markdown(counts):
    """The text of docs/differences.md."""
    lines = ["# Where Nagi differs from the recorded MongoDB 4.0", "",
             "Printed by `tests/golden-set/run.py` from `tests/golden-set/differences.py`; the number of recorded cases that follow each.", "",
             "| rule | since, and what holds now | cases |", "|---|---|---|"]
    for name, _, _, _, why in RULES:
        lines.append("| %s | %s | %d |" % (name, why, counts.get(name, 0)))
    return "\n".join(lines) + "\n"

"""Time series collections, as drivers use them."""
import datetime

from pymongo import DESCENDING

from probes import code_of, equal, need, probe


def at(minute, day=1):
    return datetime.datetime(2024, 1, day, 10, minute)


def series(client, name="probe_series", **options):
    client.test.drop_collection(name)
    options.setdefault("timeseries", {"timeField": "at", "metaField": "sensor", "granularity": "seconds"})
    return client.test.create_collection(name, **options)


def listed(client, name):
    [row] = list(client.test.list_collections(filter={"name": name}))
    return row


@probe("standalone", "ts.create")
def created(client):
    series(client, expireAfterSeconds=3600 * 24 * 365 * 20)
    row = listed(client, "probe_series")
    equal(row["type"], "timeseries")
    equal(row["options"]["timeseries"], {"timeField": "at", "metaField": "sensor", "granularity": "seconds", "bucketMaxSpanSeconds": 3600})
    equal(row["info"], {"readOnly": False})
    equal(listed(client, "system.buckets.probe_series")["type"], "collection")
    equal(client.test.command("collMod", "probe_series", timeseries={"granularity": "hours"})["ok"], 1)
    equal(listed(client, "probe_series")["options"]["timeseries"]["bucketMaxSpanSeconds"], 3600 * 24 * 30)
    equal(code_of(lambda: client.test.command("collMod", "probe_series", timeseries={"granularity": "minutes"})), 72)
    both = {"timeField": "at", "bucketMaxSpanSeconds": 300, "bucketRoundingSeconds": 300}
    series(client, name="probe_rounded", timeseries=both)
    equal(listed(client, "probe_rounded")["options"]["timeseries"], both)
    for wrong, code in [({}, 40414), ({"timeField": 1}, 14), ({"timeField": "a.b"}, 72), ({"timeField": "t", "x": 1}, 40415),
                        ({"timeField": "t", "bucketMaxSpanSeconds": 5}, 72)]:
        equal(code_of(lambda: client.test.command("create", "probe_wrong", timeseries=wrong)), code)
    client.test.drop_collection("probe_rounded")
    client.test.drop_collection("probe_series")
    equal([row["name"] for row in client.test.list_collections() if row["name"].endswith("probe_series")], [])


@probe("standalone", "ts.insert")
def inserted(client):
    c = series(client)
    c.insert_many([{"at": at(n), "sensor": n % 2, "v": n} for n in range(50)])
    c.insert_one({"_id": 1, "at": at(7), "sensor": 0, "v": -1})
    c.insert_one({"_id": 1, "at": at(7), "sensor": 0, "v": -2})
    equal(c.count_documents({}), 52)
    equal(c.count_documents({"_id": 1}), 2)
    for wrong in [{}, {"at": 5}, {"at": None}]:
        done = client.test.command("insert", "probe_series", documents=[wrong])
        error = done["writeErrors"][0]
        equal((done["n"], error["code"]), (0, 2))
        equal(error["errmsg"], "'at' must be present and contain a valid BSON UTC datetime value")
    buckets = list(client.test["system.buckets.probe_series"].find())
    equal(sum(bucket["control"]["count"] for bucket in buckets), 52)
    need(all(bucket["control"]["version"] == 2 for bucket in buckets), buckets)
    # Late, before 1970 and after 2038.
    c.insert_many([{"at": datetime.datetime(1960, 5, 5), "sensor": 9}, {"at": datetime.datetime(2100, 5, 5), "sensor": 9}])
    equal([doc["at"].year for doc in c.find({"sensor": 9}).sort("at", 1)], [1960, 2100])


@probe("standalone", "ts.query")
def queried(client):
    c = series(client)
    c.insert_many([{"_id": n, "at": at(n % 60, 1 + n // 60), "sensor": {"id": n % 3}, "v": n / 2, "s": "x" * (n % 5)} for n in range(600)])
    equal(list(c.find({"_id": 7})), [{"at": at(7), "sensor": {"id": 1}, "_id": 7, "v": 3.5, "s": "xx"}])
    equal(c.count_documents({"sensor.id": 2, "v": {"$gte": 100}}), 134)
    equal(c.count_documents({"at": {"$gte": at(0, 3), "$lt": at(0, 5)}}), 120)
    [latest] = c.find({"sensor": {"id": 1}}).sort("at", DESCENDING).limit(1)
    equal((latest["_id"], latest["at"]), (598, at(58, 10)))
    groups = c.aggregate([{"$group": {"_id": "$sensor.id", "n": {"$sum": 1}, "most": {"$max": "$v"}}}, {"$sort": {"_id": 1}}])
    equal(list(groups), [{"_id": 0, "n": 200, "most": 298.5}, {"_id": 1, "n": 200, "most": 299.0}, {"_id": 2, "n": 200, "most": 299.5}])
    equal(sorted(c.distinct("sensor.id")), [0, 1, 2])
    # Into another time series, whose options stay.
    into = {"db": "test", "coll": "probe_out", "timeseries": {"timeField": "at", "metaField": "sensor"}}
    client.test.drop_collection("probe_out")
    for pipeline, count in [([{"$out": into}], 600), ([{"$match": {"v": {"$lt": 10}}}, {"$out": "probe_out"}], 20)]:
        c.aggregate(pipeline)
        equal(client.test.probe_out.count_documents({}), count)
        equal(listed(client, "probe_out")["type"], "timeseries")
    equal(code_of(lambda: c.aggregate([{"$out": {**into, "timeseries": {"timeField": "at"}}}])), 7406103)
    equal(code_of(lambda: c.aggregate([{"$merge": "probe_out"}])), 1074330)
    stats = client.test.command("collStats", "probe_series")["timeseries"]
    equal((stats["bucketsNs"], stats["numMeasurementsCommitted"]), ("test.system.buckets.probe_series", 600))
    equal(client.admin.command("serverStatus")["bucketCatalog"]["numMeasurementsCommitted"] >= 600, True)
    client.test.drop_collection("probe_out")
    shown = client.test.command("explain", {"aggregate": "probe_series", "pipeline": [{"$match": {"v": 1}}], "cursor": {}})
    need("$_internalUnpackBucket" in str(shown), shown)


@probe("standalone", "ts.indexes")
def indexed(client):
    c = series(client)
    c.insert_many([{"_id": n, "at": at(n), "sensor": {"id": n % 3}} for n in range(30)])
    equal(c.create_index([("sensor.id", 1), ("at", -1)]), "sensor.id_1_at_-1")
    keys = {name: index["key"] for name, index in c.index_information().items()}
    equal(keys, {"sensor_1_at_1": [("sensor", 1), ("at", 1)], "sensor.id_1_at_-1": [("sensor.id", 1), ("at", -1)]})
    for hint in ["sensor.id_1_at_-1", [("sensor.id", 1), ("at", -1)]]:
        equal(len(list(c.find({"sensor.id": 1}).hint(hint))), 10)
    equal(c.update_many({"sensor.id": 1}, {"$set": {"sensor.x": 1}}, hint=[("sensor.id", 1), ("at", -1)]).modified_count, 1)
    equal(c.delete_many({"_id": 29}, hint="sensor.id_1_at_-1").deleted_count, 1)
    for change in [lambda: c.delete_many({"_id": 28}, hint="none"), lambda: c.update_many({"sensor.id": 1}, {"$set": {"sensor.x": 2}}, hint="none")]:
        equal(code_of(change), 2)
    c.drop_index([("sensor.id", 1), ("at", -1)])
    equal(len(c.index_information()), 1)
    # Partial and TTL indexes, and one on locations.
    c.insert_many([{"at": at(n), "sensor": {"id": 5 + n % 2}, "v": n, "place": {"type": "Point", "coordinates": [n, n]}} for n in range(20)])
    c.create_index([("v", 1)], partialFilterExpression={"sensor.id": 6, "v": {"$gte": 10}})
    c.create_index("at", expireAfterSeconds=10**9, partialFilterExpression={"sensor.id": 6})
    c.create_index([("place", "2dsphere")])
    info = c.index_information()
    equal((info["v_1"]["partialFilterExpression"], info["at_1"]["expireAfterSeconds"]), ({"sensor.id": 6, "v": {"$gte": 10}}, 10**9))
    equal(len(list(c.find({"sensor.id": 6, "v": {"$gt": 10}}).hint("v_1"))), 5)
    near = {"near": {"type": "Point", "coordinates": [3, 3]}, "key": "place", "distanceField": "d", "maxDistance": 200000}
    equal([doc["v"] for doc in c.aggregate([{"$geoNear": near}])][0], 3)
    equal(sorted(doc["v"] for doc in c.find({"place": {"$geoWithin": {"$centerSphere": [[3, 3], 0.03]}}}).hint("place_2dsphere")), [2, 3, 4])
    for wrong, code in [({"expireAfterSeconds": 5}, 72), ({"expireAfterSeconds": 5, "partialFilterExpression": {"v": 1}}, 72),
                        ({"partialFilterExpression": {"v": None}}, 5916301), ({"unique": True}, 72)]:
        equal(code_of(lambda: c.create_index("at", name="wrong", **wrong)), code)


@probe("standalone", "ts.restrict")
def restricted(client):
    c = series(client)
    c.insert_many([{"_id": n, "at": at(n), "sensor": {"id": n % 3}, "v": n} for n in range(30)])
    equal(c.update_many({"sensor.id": 1}, {"$set": {"sensor.name": "one"}}).matched_count > 0, True)
    equal(c.count_documents({"sensor.name": "one"}), 10)
    for change in [lambda: c.update_one({"sensor.id": 1}, {"$set": {"sensor.name": "x"}}),
                   lambda: c.update_many({"v": 1}, {"$set": {"sensor.name": "x"}}),
                   lambda: c.update_many({"sensor.id": 1}, {"$set": {"v": 1}}),
                   lambda: c.update_many({"sensor.id": 9}, {"$set": {"sensor.name": "x"}}, upsert=True),
                   lambda: c.create_index("at", unique=True)]:
        equal(code_of(change), 72)
    equal(c.delete_many({"v": {"$lt": 5}}).deleted_count, 5)
    equal(c.delete_one({"_id": 20}).deleted_count, 1)
    equal(sorted(doc["v"] for doc in c.find()), [n for n in range(5, 30) if n != 20])

"""Change streams of a server over a cluster: order, tokens, times, transactions, images, delay."""

import time

from checks import check, equal


def streams(node):
    client = node.client
    db = client.streams
    db.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    with client.start_session() as session:
        with db.c.watch(full_document="required", full_document_before_change="whenAvailable") as stream:
            delays = []
            for n in range(5):
                begun = time.monotonic()
                db.c.insert_one({"_id": n}, session=session)
                event = stream.next()
                delays.append(time.monotonic() - begun)
                equal("an insert", (event["operationType"], event["fullDocument"]), ("insert", {"_id": n}))
                equal("its time is that of the write", event["clusterTime"], session.operation_time)
            print("change streams: delays of %s s" % " ".join("%.2f" % delay for delay in delays), flush=True)
            check("the delay", sorted(delays)[2] < 2, delays)
            db.c.update_one({"_id": 1}, {"$set": {"a": 1}})
            event = stream.next()
            equal("images", (event["fullDocumentBeforeChange"], event["fullDocument"]), ({"_id": 1}, {"_id": 1, "a": 1}))
            db.c.insert_many([{"_id": 100 + n} for n in range(50)])
            batch = [stream.next() for _ in range(50)]
            equal("a batch", [event["documentKey"]["_id"] for event in batch], list(range(100, 150)))
            with session.start_transaction():
                db.c.delete_one({"_id": 2}, session=session)
                db.c.insert_one({"_id": 200}, session=session)
            events = [stream.next(), stream.next()]
            equal("a transaction", [event["operationType"] for event in events], ["delete", "insert"])
            equal("has one time", events[0]["clusterTime"], events[1]["clusterTime"])
            check("and a name", events[0]["lsid"] and events[0]["txnNumber"], events)
            for event in (batch[20], events[0]):
                with db.c.watch(resume_after=event["_id"], full_document="default") as again:
                    behind = again.next()
                    check("behind a token", behind["_id"]["_data"] > event["_id"]["_data"], (event, behind))
            before = session.operation_time
            copy = db.c.count_documents({})
            db.c.insert_one({"_id": 300}, session=session)
            with client.watch(start_at_operation_time=before) as all_of_it:
                events = [all_of_it.next() for _ in range(3)]
                equal("from a time on", [event["documentKey"]["_id"] for event in events], [2, 200, 300])
            check("a copy", copy == 55, copy)
    with db.watch() as stream:
        db.d.insert_one({"_id": 1})
        db.drop_collection("c")
        client.drop_database("streams")
        equal("drops", [event["operationType"] for event in stream],
              ["insert", "drop", "drop", "dropDatabase", "invalidate"])

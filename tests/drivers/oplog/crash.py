"""The log after kills: crash.py NAGI FOLDER PORT [ROUNDS] [SECONDS].

Each round starts the server on the data of the round before, changes documents and the catalog, and kills the server
with SIGKILL. After the next start all collections are rebuilt from the log alone, and must be equal to what the
server has: an entry is there exactly when its change is.
"""
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from load import Load  # noqa: E402
from model import Model, differences, found, read_log  # noqa: E402
from server import Server  # noqa: E402
from checks import check, equal, finish, require, wait_until  # noqa: E402

NAGI, FOLDER, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
ROUNDS = int(sys.argv[4]) if len(sys.argv) > 4 else 2
SECONDS = float(sys.argv[5]) if len(sys.argv) > 5 else 1.5

os.makedirs(FOLDER, exist_ok=True)
server, model, last, entries = Server(NAGI, os.path.join(FOLDER, "data"), PORT), Model(), None, 0
for round_number in range(ROUNDS):
    load = Load(server.uri, random.randrange(10**6), pace=0.001)
    time.sleep(SECONDS * random.uniform(0.5, 1.5))
    server.kill()
    load.stop()
    equal("round %d: only expected errors" % round_number, load.errors, [])
    server.start()
    require(wait_until(lambda: server.client.admin.command("hello")["isWritablePrimary"]), "the server is primary again")
    for entry in read_log(server.client, after=last):
        model.apply(entry)
        last, entries = entry["ts"], entries + 1
    check("round %d: no part of a transaction without its end" % round_number, not model.parts, model.parts[:1])
    wrong = differences(model.state(), found(server.client))
    check("round %d: the log is the data" % round_number, not wrong, wrong)
    count = server.client.local["oplog.rs"].estimated_document_count()
    equal("round %d: the count of the log" % round_number, count, entries)
    check("round %d: a valid log" % round_number, server.client.local.command("validate", "oplog.rs")["valid"])
server.stop()
print("%d entries in %d rounds" % (entries, ROUNDS))
finish("the log after kills")

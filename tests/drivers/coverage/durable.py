"""State that outlives a server: its lock, its journal, its repair; and the ways in which a server
terminates."""
import os
import shutil
import signal
import subprocess

import pymongo

from probes import equal, need, probe


@probe("start", "ops.startup_lock", "ops.durability", "mnt.repair", "cmd.shutdown")
def killed_and_started_again(start):
    with start.server("durable") as server:
        second = subprocess.run([start.nagi, "serve", "--dbpath", server.folder + "/data", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, timeout=30)
        need(second.returncode != 0, second.returncode)
        c = server.client.test.c.with_options(write_concern=pymongo.WriteConcern(w=1, j=True))
        for i in range(50):
            c.insert_one({"_id": i})
        server.stop(signal.SIGKILL)
    with start.server("durable", keep=True) as server:
        equal(server.client.test.c.count_documents({}), 50)
        server.client.close()
        last = pymongo.MongoClient("127.0.0.1", server.port, serverSelectionTimeoutMS=2000)
        try:
            last.admin.command("shutdown")
        except pymongo.errors.ConnectionFailure:
            pass
        last.close()
        equal(server.process.wait(60), 0)
    repaired = subprocess.run([start.nagi, "--repair", "--dbpath", server.folder + "/data", "--logpath", server.folder + "/repair.log"], timeout=60)
    equal(repaired.returncode, 0)
    with start.server("durable", keep=True) as server:
        equal((server.client.test.c.count_documents({}), server.client.test.command("validate", "c", full=True)["valid"]), (50, True))

"""Users, roles and logins as a driver sees them: auth.py URI before|after|prepare|lose|found

`before` runs on a server with --auth that has no users yet, `after` on the same data after a restart. `prepare`
creates the users for dump and restore, `lose` deletes the content of the dump, and `found` checks for it
afterwards. Prints one line with a count; the exit status is 0 if every assertion held.
"""
import hashlib
import os
import sys

import pymongo
from bson.binary import Binary

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import passed, require, require_equal, require_fails  # noqa: E402

uri, phase = sys.argv[1], sys.argv[2]
host = uri.removeprefix("mongodb://")


def client(user=None, password=None, **options):
    return pymongo.MongoClient(uri, username=user, password=password, serverSelectionTimeoutMS=5000, **options)


def unauthorized(what, run, text="not authorized on"):
    require_fails(13, text, what, run)


def localhost_exception():
    nobody = client()
    require_equal(nobody.admin.command("hello")["ok"], 1, "hello needs no login")
    require_equal(nobody.admin.command("ping")["ok"], 1, "ping needs no login")
    require_equal(nobody.admin.command("buildInfo")["ok"], 1, "buildInfo needs no login")
    unauthorized("find before the first user", lambda: nobody.test.c.find_one())
    unauthorized("a first user outside admin", lambda: nobody.test.command("createUser", "x", pwd="x", roles=[]))
    nobody.admin.command("createUser", "root", pwd="secret", roles=["root"])
    unauthorized(
        "the exception is over",
        lambda: nobody.admin.command("createUser", "second", pwd="x", roles=["root"]),
        "Command createUser requires authentication",
    )
    unauthorized("find without login", lambda: nobody.test.c.find_one(), "Command find requires authentication")
    unauthorized("insert without login", lambda: nobody.test.c.insert_one({}), "requires authentication")
    status = nobody.admin.command("connectionStatus")["authInfo"]
    require_equal(status["authenticatedUsers"], [], "nobody is logged in")
    unauthorized("no sessions without login", lambda: nobody.admin.command("endSessions", [{"id": Binary(bytes(16), 4)}]),
                 "Command endSessions requires authentication")


def mechanisms(root):
    for name in ("SCRAM-SHA-1", "SCRAM-SHA-256"):
        one = client("root", "secret", authMechanism=name)
        require_equal(one.test.command("ping")["ok"], 1, name)
        users = one.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]
        require_equal(users, [{"user": "root", "db": "admin"}], name + " is root")
        wrong = client("root", "wrong", authMechanism=name)
        require_fails(18, "Authentication failed.", name + " wrong password", lambda: wrong.test.c.find_one())
        unknown = client("nobody", "secret", authMechanism=name)
        require_fails(18, "Authentication failed.", name + " unknown user", lambda: unknown.test.c.find_one())
    require_equal(
        root.admin.command("hello", saslSupportedMechs="admin.root")["saslSupportedMechs"],
        ["SCRAM-SHA-1", "SCRAM-SHA-256"],
        "mechanisms of a user",
    )
    # An unknown user name is reported with the mechanisms of a user; otherwise names could be probed.
    require_equal(
        root.admin.command("hello", saslSupportedMechs="admin.none")["saslSupportedMechs"],
        ["SCRAM-SHA-1", "SCRAM-SHA-256"],
        "mechanisms of an unknown user",
    )
    root.test.command("createUser", "old", pwd="p", roles=[], mechanisms=["SCRAM-SHA-1"])
    require_equal(
        root.admin.command("hello", saslSupportedMechs="test.old")["saslSupportedMechs"], ["SCRAM-SHA-1"], "one only"
    )
    require_equal(client("old", "p", authSource="test").test.command("ping")["ok"], 1, "negotiated to SHA-1")
    refused = client("old", "p", authSource="test", authMechanism="SCRAM-SHA-256")
    require_fails(18, "Authentication failed.", "no such credentials", lambda: refused.test.c.find_one())
    # Names with special characters of SCRAM, and a password that SASLprep changes.
    root.test.command("createUser", "a,b=c", pwd="I\u00adX \u2168", roles=["read"])
    named = client("a,b=c", "IX IX", authSource="test", authMechanism="SCRAM-SHA-256")
    require_equal(named.test.c.count_documents({}), 0, "escaped name, prepared password")
    disabled = lambda: root.admin.command(
        "saslStart", 1, mechanism="PLAIN", payload=Binary(b"\0root\0secret")
    )
    require_fails(334, "Received authentication for mechanism PLAIN which is not enabled", "PLAIN", disabled)
    require_fails(17, "No SASL session state found", "continue from nowhere",
          lambda: root.admin.command("saslContinue", 1, conversationId=1, payload=Binary(b"")))


def speculative(root):
    """The driver sends its first message inside hello; the log contains the result."""
    first = b"n,,n=root,r=abcdefghijklmnop"
    start = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": Binary(first), "db": "admin"}
    reply = root.admin.command("hello", speculativeAuthenticate=start)["speculativeAuthenticate"]
    require_equal((reply["conversationId"], reply["done"]), (1, False), "speculative reply")
    require(bytes(reply["payload"]).startswith(b"r=abcdefghijklmnop"), "server-first in hello")
    start["mechanism"] = "FOO"
    require("speculativeAuthenticate" not in root.admin.command("hello", speculativeAuthenticate=start), "no such mechanism")
    log = "\n".join(root.admin.command("getLog", "global")["log"])
    require('"isSpeculative":true' in log and "Successfully authenticated" in log, "a speculative login in the log")
    require("Failed to authenticate" in log, "failures in the log")
    counted = root.admin.command("serverStatus")["security"]["authentication"]["mechanisms"]["SCRAM-SHA-256"]
    for kind in ("speculativeAuthenticate", "authenticate"):
        require(counted[kind]["received"] > counted[kind]["successful"] > 0, "logins are counted: " + kind)


def roles_allow_and_deny(root):
    root.shop.orders.insert_many([{"_id": i, "n": i} for i in range(300)])
    root.other.secret.insert_one({"_id": 1})
    root.shop.command("createUser", "reader", pwd="r", roles=["read"])
    root.shop.command("createUser", "writer", pwd="w", roles=["readWrite"], customData={"team": 7})
    root.admin.command("createUser", "monitor", pwd="m", roles=["clusterMonitor"])
    root.shop.command("createUser", "owner", pwd="o", roles=["dbOwner"])

    reader = client("reader", "r", authSource="shop")
    require_equal(reader.shop.orders.count_documents({}), 300, "a reader reads")
    require_equal(len(list(reader.shop.orders.find(batch_size=50))), 300, "a reader reads on")
    require_equal(reader.shop.list_collection_names(), ["orders"], "a reader lists")
    unauthorized("a reader does not insert", lambda: reader.shop.orders.insert_one({}), "not authorized on shop to execute command { insert: \"orders\"")
    unauthorized("a reader does not update", lambda: reader.shop.orders.update_one({}, {"$set": {"n": 1}}))
    unauthorized("a reader does not delete", lambda: reader.shop.orders.delete_many({}))
    unauthorized("a reader does not drop", lambda: reader.shop.orders.drop())
    unauthorized("a reader does not read elsewhere", lambda: reader.other.secret.find_one())
    unauthorized("nor by $lookup", lambda: list(reader.shop.orders.aggregate(
        [{"$lookup": {"from": "system.profile", "localField": "n", "foreignField": "n", "as": "x"}}])))
    unauthorized("nor by $unionWith in a $facet", lambda: list(reader.shop.orders.aggregate(
        [{"$lookup": {"from": "orders", "as": "x", "pipeline": [{"$unionWith": "system.profile"}]}}])))
    unauthorized("nor writes by $out", lambda: list(reader.shop.orders.aggregate([{"$out": "copy"}])))
    unauthorized("nor by $merge", lambda: list(reader.shop.orders.aggregate([{"$merge": {"into": {"db": "other", "coll": "copy"}}}])))
    unauthorized("nor is told how", lambda: reader.shop.command("explain", {"delete": "orders", "deletes": [{"q": {}, "limit": 1}]}))
    require("queryPlanner" in reader.shop.command("explain", {"find": "orders"}), "but how it reads")
    unauthorized("a reader does not see the server", lambda: reader.admin.command("serverStatus"))
    unauthorized("a reader does not see users", lambda: reader.shop.command("usersInfo", 1))
    require_equal(reader.shop.command("usersInfo", "reader")["users"][0]["user"], "reader", "but itself")
    require_equal([d["name"] for d in reader.list_databases()], ["shop"], "a reader's databases")
    unauthorized("not all", lambda: reader.admin.command("listDatabases", authorizedDatabases=False))

    writer = client("writer", "w", authSource="shop")
    writer.shop.orders.insert_one({"_id": "w"})
    writer.shop.orders.bulk_write([pymongo.UpdateOne({"_id": "w"}, {"$set": {"n": 0}}, upsert=True), pymongo.DeleteOne({"_id": "w"})])
    writer.shop.orders.create_index("n")
    require_equal(writer.shop.orders.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}})["n"], 1, "a writer writes")
    list(writer.shop.orders.aggregate([{"$match": {"n": {"$lt": 3}}}, {"$out": "copy"}]))
    unauthorized("a writer drops no database", lambda: writer.drop_database("shop"))
    unauthorized("a writer makes no users", lambda: writer.shop.command("createUser", "x", pwd="x", roles=[]))
    unauthorized("a writer stays out of admin", lambda: writer.admin.system.users.insert_one({"_id": "admin.x"}))

    # A cursor belongs to the user who opened it.
    cursor = reader.shop.command("find", "orders", batchSize=2)["cursor"]["id"]
    with writer.start_session():
        unauthorized("a foreign cursor", lambda: writer.shop.command("getMore", cursor, collection="orders"),
                     "was not created by the authenticated user")
    unauthorized("nor killed", lambda: writer.shop.command("killCursors", "orders", cursors=[cursor]))

    # A session is known by its UUID and its user, so that another one with the same UUID ends nothing.
    with reader.start_session() as session:
        found = reader.shop.orders.find(batch_size=2, session=session)
        next(found)
        own = session.session_id
        digest = hashlib.sha256(b"reader@shop").digest()
        writer.admin.command("endSessions", [own])
        writer.admin.command("killSessions", [own])
        for command in ("endSessions", "refreshSessions", "killSessions"):
            unauthorized(command + " of another user", lambda name=command: writer.admin.command(name, [{**own, "uid": digest}]),
                         "Unauthorized to set user digest in LogicalSessionId")
        require(len(list(found)) > 100, "the cursor is open still")
        listed = [one["_id"]["uid"] for one in reader.admin.aggregate([{"$listLocalSessions": {}}])]
        require(listed and set(listed) == {digest}, "own sessions with their user")

    monitor = client("monitor", "m")
    require(monitor.admin.command("serverStatus")["ok"], "a monitor sees the server")
    require(monitor.shop.command("collStats", "orders")["count"] >= 300, "and sizes")
    unauthorized("but no documents", lambda: monitor.shop.orders.find_one())
    require("inprog" in monitor.admin.command("currentOp"), "and operations")
    unauthorized("a reader sees only its own", lambda: reader.admin.command("currentOp"))
    require("inprog" in reader.admin.command({"currentOp": 1, "$ownOps": True}), "which it may")

    owner = client("owner", "o", authSource="shop")
    owner.shop.command("createUser", "made", pwd="x", roles=["read"])
    unauthorized("an owner grants only its own", lambda: owner.shop.command(
        "createUser", "made2", pwd="x", roles=[{"role": "root", "db": "admin"}]))
    owner.shop.command("dropUser", "made")


def changes_take_effect_at_once(root):
    reader = client("reader", "r", authSource="shop", maxPoolSize=1)
    unauthorized("not yet", lambda: reader.shop.orders.insert_one({"_id": "x"}))
    root.shop.command("grantRolesToUser", "reader", roles=["readWrite"])
    require_equal(reader.shop.orders.insert_one({"_id": "x"}).inserted_id, "x", "granted at once")
    root.shop.command("revokeRolesFromUser", "reader", roles=["readWrite"])
    unauthorized("revoked at once", lambda: reader.shop.orders.insert_one({"_id": "y"}))
    root.shop.command("createRole", "orders", roles=[], privileges=[
        {"resource": {"db": "shop", "collection": "orders"}, "actions": ["insert", "remove"]}])
    root.shop.command("updateUser", "reader", roles=["orders"])
    require_equal(reader.shop.orders.delete_one({"_id": "x"}).deleted_count, 1, "a role of one's own")
    unauthorized("which does not read", lambda: reader.shop.orders.find_one())
    root.shop.command("grantRolesToRole", "orders", roles=["read"])
    require(reader.shop.orders.find_one(), "until it contains read")
    root.shop.command("revokePrivilegesFromRole", "orders", privileges=[
        {"resource": {"db": "shop", "collection": "orders"}, "actions": ["remove"]}])
    unauthorized("less", lambda: reader.shop.orders.delete_one({}))
    shown = reader.admin.command("connectionStatus", showPrivileges=True)["authInfo"]
    require_equal(shown["authenticatedUserRoles"], [{"role": "orders", "db": "shop"}, {"role": "read", "db": "shop"}], "all roles")
    require({"resource": {"db": "shop", "collection": "orders"}, "actions": ["insert"]} in shown["authenticatedUserPrivileges"], "privileges")
    root.shop.command("dropRole", "orders")
    unauthorized("gone with its role", lambda: reader.shop.orders.find_one())
    require_equal(root.shop.command("usersInfo", "reader")["users"][0]["roles"], [], "taken from users")
    root.shop.command("updateUser", "reader", roles=["read"], pwd="new")
    require_equal(client("reader", "new", authSource="shop").shop.orders.count_documents({}), 300, "a new password")
    old = client("reader", "r", authSource="shop")
    require_fails(18, "Authentication failed.", "the old one is no more", lambda: old.shop.orders.find_one())
    root.shop.command("createUser", "gone", pwd="g", roles=["read"])
    gone = client("gone", "g", authSource="shop", maxPoolSize=1)
    require(gone.shop.orders.find_one(), "still there")
    root.shop.command("dropUser", "gone")
    unauthorized("a dropped user is logged out", lambda: gone.shop.orders.find_one(), "requires authentication")


def secrets_stay_secret(root):
    root.admin.command("setParameter", 1, logLevel=0)
    root.shop.command("profile", 2)
    root.shop.command("createUser", "hidden", pwd="Tr0ub4dor", roles=[])
    root.shop.command("updateUser", "hidden", pwd="Tr0ub4dor&3")
    client("hidden", "Tr0ub4dor&3", authSource="shop").shop.command("ping")
    root.shop.command("profile", 0)
    profiled = str(list(root.shop["system.profile"].find()))
    require("root@admin" in profiled, "who did it is in the profile")
    require("createUser" in profiled and "Tr0ub4dor" not in profiled, "no password in the profile")
    require("Tr0ub4dor" not in str(root.admin.command("getLog", "global")), "no password in the log")
    shown = root.shop.command("usersInfo", "hidden")["users"][0]
    require("credentials" not in shown, "no credentials unless asked for")
    asked = root.shop.command("usersInfo", "hidden", showCredentials=True)["users"][0]["credentials"]
    require_equal(asked["SCRAM-SHA-256"]["iterationCount"], 15000, "iterations of SHA-256")
    require_equal(asked["SCRAM-SHA-1"]["iterationCount"], 10000, "iterations of SHA-1")
    require_fails(13, 'pwd: "xxx"', "no password in errors", lambda: client("writer", "w", authSource="shop").shop.command(
        "createUser", "x", pwd="Tr0ub4dor", roles=[]))


def after_restart():
    root = client("root", "secret")
    require_equal(root.shop.orders.count_documents({}), 300, "users survive a restart")
    require_equal(client("reader", "new", authSource="shop").shop.orders.count_documents({}), 300, "all of them")
    unauthorized("and so does the need to log in", lambda: client().shop.orders.find_one(), "requires authentication")
    unauthorized("no second exception", lambda: client().admin.command("createUser", "x", pwd="x", roles=[]), "requires authentication")
    writer = root.shop.command("usersInfo", "writer")["users"][0]
    require_equal(writer["customData"], {"team": 7}, "custom data")
    require_equal(writer["roles"], [{"role": "readWrite", "db": "shop"}], "roles")


def prepare():
    root = client("root", "secret")
    root.shop.command("createRole", "clerk", roles=[], privileges=[
        {"resource": {"db": "shop", "collection": "orders"}, "actions": ["find"]}])
    root.shop.command("updateUser", "writer", roles=["clerk"])
    root.admin.command("createUser", "dumper", pwd="d", roles=["backup"])
    root.admin.command("createUser", "restorer", pwd="r", roles=["restore"])


def found():
    root = client("root", "secret")
    writer = client("writer", "w", authSource="shop")
    require_equal(writer.shop.orders.count_documents({}), 300, "a user, its role and the documents are back")
    unauthorized("with their limits", lambda: writer.shop.orders.insert_one({}))
    require_equal(root.shop.command("usersInfo", "writer")["users"][0]["customData"], {"team": 7}, "and custom data")


def lose():
    root = client("root", "secret")
    root.shop.command("dropAllUsersFromDatabase")
    root.shop.command("dropAllRolesFromDatabase")
    root.drop_database("shop")


if phase in ("prepare", "lose", "found"):
    {"prepare": prepare, "lose": lose, "found": found}[phase]()
elif phase == "before":
    localhost_exception()
    root = client("root", "secret")
    mechanisms(root)
    speculative(root)
    roles_allow_and_deny(root)
    changes_take_effect_at_once(root)
    secrets_stay_secret(root)
else:
    after_restart()
print("pymongo %s, %s: %d assertions passed" % (pymongo.version, phase, passed()))

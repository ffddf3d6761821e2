"""What is no row of the matrix: cursors of other users, roles revoked under a cursor, views, other databases."""
import hashlib
import os

from bson import Binary, Int64
from pymongo.errors import OperationFailure

from checks import check, equal, section
from fixture import connect


def refused(what, run, text):
    try:
        seen = run()
    except OperationFailure as error:
        message = (error.details or {}).get("errmsg", "")
        check(what, error.code == 13 and text in message, "%s %s" % (error.code, message))
    else:
        check(what, False, "allowed: %r" % (seen,))


class Users:
    """Users of these checks, with their clients."""

    def __init__(self, fixture, uri):
        self.fixture, self.uri, self.clients = fixture, uri, []

    def login(self, name, roles, source="admin"):
        self.fixture.user(source, name, roles)
        client = connect(self.uri, name, source)
        self.clients.append((source, name, client))
        return client

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for source, name, client in self.clients:
            client.close()
            self.fixture.quietly(self.fixture.root[source], {"dropUser": name})


def open_cursor(client, db, command):
    """Opens a cursor with an empty first batch. Returns a command that continues it."""
    cursor = client[db].command({**command, "cursor": {"batchSize": 0}})["cursor"] if "find" not in command else \
        client[db].command({**command, "batchSize": 0})["cursor"]
    check("%s leaves a cursor" % command, cursor["id"] != 0)
    return {"getMore": Int64(cursor["id"]), "collection": cursor["ns"].partition(".")[2], "batchSize": 1}


def cursors_of_others(fixture, uri):
    read = [{"role": "read", "db": "shop"}]
    commands = [("shop", {"find": "c"}), ("shop", {"aggregate": "c", "pipeline": []}), ("shop", {"listCollections": 1}),
                ("shop", {"listIndexes": "c"}), ("shop", {"aggregate": 1, "pipeline": [{"$documents": [{}, {}, {}]}]})]
    with Users(fixture, uri) as users:
        owner, other = users.login("owner", read), users.login("peer", read)
        strong = users.login("strong", ["root"])
        killer = users.login("killer", ["hostManager"])
        for db, command in commands:
            more = open_cursor(owner, db, command)
            number, of = more["getMore"], more["collection"]
            kill = {"killCursors": of, "cursors": [number]}
            for who in (other, strong):
                refused("a getMore of another's %s" % command, lambda: who[db].command(more),
                        "cursor id %d was not created by the authenticated user" % number)
            refused("a kill of another's %s" % command, lambda: other[db].command(kill), "not authorized on %s" % db)
            nobody = connect(uri)
            refused("a getMore without a login", lambda: nobody[db].command(more), "Command getMore requires authentication")
            refused("a kill without a login", lambda: nobody[db].command(kill), "Command killCursors requires authentication")
            nobody.close()
            equal("the owner continues", len(owner[db].command(more)["cursor"]["nextBatch"]), 1)
            equal("killAnyCursor kills it", killer[db].command(kill)["cursorsKilled"], [number])
            more = open_cursor(owner, db, command)
            kill = {"killCursors": of, "cursors": [more["getMore"]]}
            equal("the owner kills it", owner[db].command(kill)["cursorsKilled"], [more["getMore"]])


# What a user has, what it opens, and what is revoked: then the cursor is refused, also by its owner.
REVOKED = [
    ("shop", {"find": "c"}, [("shop", "c", "find")], "find"),
    ("shop", {"find": "v"}, [("shop", "v", "find")], "find"),
    ("shop", {"aggregate": "c", "pipeline": [{"$unionWith": "d"}]}, [("shop", "c", "find"), ("shop", "d", "find")], "d"),
    ("shop", {"aggregate": "c", "pipeline": [{"$lookup": {"from": "d", "localField": "n", "foreignField": "n", "as": "x"}}]},
     [("shop", "c", "find"), ("shop", "d", "find")], "d"),
    ("shop", {"listIndexes": "c"}, [("shop", "c", "listIndexes")], "listIndexes"),
    ("shop", {"listCollections": 1}, [("shop", "", "listCollections")], "listCollections"),
    ("shop", {"aggregate": "c", "pipeline": [{"$indexStats": {}}]}, [("shop", "c", "indexStats")], "indexStats"),
    ("admin", {"aggregate": 1, "pipeline": [{"$currentOp": {"allUsers": True, "idleConnections": True}}]},
     [("", "", "inprog")], "inprog"),
]


def privilege(db, collection, action):
    on = {"cluster": True} if not db else {"db": db, "collection": collection}
    return {"resource": on, "actions": [action]}


def revoked_under_a_cursor(fixture, uri):
    root = fixture.root.admin
    for db, command, needed, lost in REVOKED:
        everything = [privilege(*one) for one in needed]
        less = [privilege(*one) for one in needed if lost not in one]
        root.command("createRole", "held", roles=[], privileges=everything)
        with Users(fixture, uri) as users:
            one = users.login("one", ["held"])
            more = open_cursor(one, db, command)
            root.command("updateRole", "held", privileges=less)
            refused("a cursor of %s after %s is gone" % (command, lost), lambda: one[db].command(more),
                    "not authorized for getMore with cursor id %d" % more["getMore"])
            refused("the command itself", lambda: one[db].command({**command, "cursor": {}} if "find" not in command else command),
                    "not authorized on %s" % db)
            root.command("updateRole", "held", privileges=everything)
            check("the cursor with its privileges again", one[db].command(more)["cursor"]["nextBatch"])
            more = open_cursor(one, db, command)
            root.command("revokeRolesFromUser", "one", roles=["held"])
            refused("a cursor after its role is revoked", lambda: one[db].command(more), "not authorized for getMore")
            root.command("dropUser", "one")
            refused("a cursor of a dropped user", lambda: one[db].command(more), "requires authentication")
        root.command("dropRole", "held")


def other_databases(fixture, uri):
    """Pipelines reach other databases only where MongoDB lets them, and then only with their privileges."""
    join = {"localField": "n", "foreignField": "n", "as": "x"}
    with Users(fixture, uri) as users:
        writer = users.login("writer", ["readWrite"], "shop")
        before = fixture.fingerprint()
        for stage in ({"$out": {"db": "other", "coll": "out"}}, {"$merge": {"into": {"db": "other", "coll": "out"}}}, {"$merge": {"into": {"db": "other", "coll": "c"}}}):
            refused("%s into another database" % stage, lambda: list(writer.shop.c.aggregate([stage])), "not authorized on shop")
        nested = [{"$facet": {"a": [{"$unionWith": {"coll": "c", "pipeline": [{"$unionWith": "system.users"}]}}]}}]
        refused("a nested system collection", lambda: list(writer.shop.c.aggregate(nested)), "not authorized on shop")
        # No stage reads a collection of another database; a name with a dot is a collection of this one.
        for stage in ({"$lookup": {"from": {"db": "other", "coll": "c"}, **join}}, {"$unionWith": {"db": "other", "coll": "c"}},
                      {"$graphLookup": {"from": {"db": "other", "coll": "c"}, "startWith": "$n", "connectFromField": "n",
                                        "connectToField": "n", "as": "x"}}):
            try:
                seen = list(writer.shop.c.aggregate([stage]))
            except OperationFailure:
                continue
            check("%s reads nothing of another database" % stage, False, seen)
        for stage in ({"$lookup": {"from": "other.c", **join}}, {"$unionWith": "other.c"}):
            seen = list(writer.shop.c.aggregate([stage, {"$match": {"x.0": {"$exists": True}}}]))
            equal("%s finds nothing" % stage, seen, [])
        equal("nothing changed", fixture.fingerprint(), before)


def views(fixture, uri):
    """A view shows what its reader may not read otherwise; only who may read its sources defines a readable one."""
    root = fixture.root.shop
    root.command("createRole", "viewer", roles=[], privileges=[privilege("shop", "v", "find")])
    root.command("createRole", "builder", roles=[], privileges=[
        {"resource": {"db": "shop", "collection": name}, "actions": ["createCollection", "collMod", "find"]} for name in ("v", "mine")])
    root.command("create", "elsewhere", viewOn="other.c", pipeline=[])
    with Users(fixture, uri) as users:
        viewer = users.login("viewer", ["viewer"], "shop").shop
        builder = users.login("builder", ["builder"], "shop").shop
        equal("a view without its source", len(list(viewer.v.find())), 3)
        equal("an aggregation of it", list(viewer.v.aggregate([{"$count": "n"}])), [{"n": 3}])
        refused("its source", lambda: list(viewer.c.find()), "not authorized on shop")
        refused("its source from it", lambda: list(viewer.v.aggregate([{"$unionWith": "c"}])), "not authorized on shop")
        refused("a view of what it may not read", lambda: builder.command("create", "mine", viewOn="c", pipeline=[]), "not authorized")
        refused("a view that joins it", lambda: builder.command("create", "mine", viewOn="v", pipeline=[{"$unionWith": "d"}]),
                "not authorized on shop")
        refused("a change to such a view", lambda: builder.command("collMod", "v", viewOn="d", pipeline=[]), "not authorized")
        builder.command("create", "mine", viewOn="v", pipeline=[])
        equal("a view of what it may read", len(list(builder.mine.find())), 3)
        equal("a view of a name with a dot reads this database", list(fixture.root.shop.elsewhere.find()), [])
        for stage in ({"$out": "x"}, {"$merge": {"into": {"db": "other", "coll": "c"}}}):
            try:
                fixture.root.shop.command("create", "writes", viewOn="c", pipeline=[stage])
                check("a view that writes", False)
            except OperationFailure as error:
                equal("a view that writes", error.code, 167)
    for name in ("mine", "elsewhere"):
        root.command("drop", name)
    for name in ("viewer", "builder"):
        root.command("dropRole", name)


def by_uuid(fixture, uri):
    """A collection by its UUID needs `useUUID`, and what its name needs."""
    root = fixture.root
    uuid = next(one["info"]["uuid"] for one in root.shop.list_collections() if one["name"] == "c")
    everything = [privilege("shop", "c", "find"), privilege("", "", "useUUID")]
    root.admin.command("createRole", "finder", roles=[], privileges=everything)
    with Users(fixture, uri) as users:
        finder = users.login("finder", ["finder"]).shop
        equal("a find by UUID", len(finder.command("find", uuid)["cursor"]["firstBatch"]), 3)
        for kept in everything:
            root.admin.command("updateRole", "finder", privileges=[kept])
            refused("with only %s" % kept, lambda: finder.command("find", uuid), "not authorized on shop")
    root.admin.command("dropRole", "finder")


def sessions(fixture, uri):
    """killSessions with an empty list ends the user's own sessions only."""
    with Users(fixture, uri) as users:
        one, two = users.login("one", ["readAnyDatabase"]), users.login("two", ["readAnyDatabase"])
        mine, its = ({"id": client.admin.command("startSession", 1)["id"]["id"]} for client in (one, two))
        for client, lsid in ((one, mine), (two, its)):
            cursor = client.shop.command({"find": "c", "batchSize": 1, "lsid": lsid})["cursor"]["id"]
            lsid["cursor"] = cursor
        one.admin.command("killSessions", [])
        more = {"collection": "c"}
        code = None
        try:
            one.shop.command({"getMore": Int64(mine["cursor"]), **more, "lsid": {"id": mine["id"]}})
        except OperationFailure as error:
            code = error.code
        equal("the cursor of one's own killed session", code, 43)
        batch = two.shop.command({"getMore": Int64(its["cursor"]), **more, "lsid": {"id": its["id"]}})["cursor"]["nextBatch"]
        equal("another's cursor", len(batch), 2)
        same_uuid(fixture, one, two)


def same_uuid(fixture, one, two):
    """Two users with the same UUID have two sessions."""
    lsid = {"id": Binary(os.urandom(16), 4)}
    for client in (one, two):
        client.admin.command({"refreshSessions": [lsid]})
    listing = [{"$listLocalSessions": {"allUsers": True}}, {"$match": {"_id.id": lsid["id"]}}]
    found = list(fixture.root.admin.aggregate(listing))
    digests = {hashlib.sha256(name.encode()).digest() for name in (one_name(client) for client in (one, two))}
    equal("two sessions", {bytes(session["_id"]["uid"]) for session in found}, digests)
    opened = one.shop.command({"find": "c", "batchSize": 1, "lsid": lsid})["cursor"]["id"]
    foreign = {**lsid, "uid": hashlib.sha256(one_name(one).encode()).digest()}
    for command in ("endSessions", "killSessions", "refreshSessions"):
        refused(command + " of another's session", lambda command=command: two.admin.command({command: [foreign]}),
                "Unauthorized to set user digest in LogicalSessionId")
    two.admin.command({"endSessions": [lsid]})
    two.admin.command({"killSessions": [lsid]})
    batch = one.shop.command({"getMore": Int64(opened), "collection": "c", "lsid": lsid})["cursor"]["nextBatch"]
    equal("a cursor in a session with the same UUID", len(batch), 2)


def one_name(client):
    user = client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"][0]
    return "%s@%s" % (user["user"], user["db"])


def run(fixture, uri):
    for part in (cursors_of_others, revoked_under_a_cursor, other_databases, views, by_uuid, sessions):
        section(part, fixture, uri)

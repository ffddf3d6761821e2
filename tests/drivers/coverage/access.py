"""Users, roles and logins: the actions of each built-in role, performed by a user who has only that role."""
from bson import SON
from pymongo import MongoClient

from probes import code_of, equal, need, probe


def first_user(client):
    """Creates `root` by the localhost exception, which is a row of its own. Returns a logged-in client."""
    client.admin.command("createUser", "root", pwd="secret", roles=["root"])
    root = login(client, "root", "secret")
    root.shop.orders.insert_many([{"_id": i} for i in range(5)])
    return root


def login(client, user, password, source="admin", **options):
    return MongoClient(*client.address, username=user, password=password, authSource=source, directConnection=True, **options)


# Role, its database, its permitted commands, its forbidden commands: (database, command).
ROLES = [
    ("rbac.read", "read", "shop", [("shop", {"find": "orders"})], [("shop", {"insert": "orders", "documents": [{}]})]),
    ("rbac.readwrite", "readWrite", "shop", [("shop", {"insert": "orders", "documents": [{"x": 1}]}), ("shop", {"createIndexes": "orders", "indexes": [{"key": {"x": 1}, "name": "x"}]})],
     [("shop", {"dropDatabase": 1}), ("other", {"find": "c"})]),
    ("rbac.dbadmin", "dbAdmin", "shop", [("shop", {"collStats": "orders"}), ("shop", {"validate": "orders"}), ("shop", {"profile": -1})], [("shop", {"find": "orders"})]),
    ("rbac.dbowner", "dbOwner", "shop", [("shop", {"find": "orders"}), ("shop", {"create": "made"}), ("shop", {"drop": "made"}), ("shop", {"usersInfo": 1})], [("other", {"find": "c"})]),
    ("rbac.useradmin", "userAdmin", "shop", [("shop", {"createUser": "made", "pwd": "p", "roles": []}), ("shop", {"dropUser": "made"})], [("shop", {"find": "orders"})]),
    ("rbac.readany", "readAnyDatabase", "admin", [("shop", {"find": "orders"}), ("other", {"find": "c"}), ("admin", {"listDatabases": 1})], [("shop", {"insert": "orders", "documents": [{}]})]),
    ("rbac.readwriteany", "readWriteAnyDatabase", "admin", [("other", {"insert": "c", "documents": [{}]}), ("shop", {"find": "orders"})], [("admin", {"serverStatus": 1})]),
    ("rbac.useradminany", "userAdminAnyDatabase", "admin", [("other", {"createUser": "made", "pwd": "p", "roles": ["read"]}), ("other", {"dropUser": "made"})], [("shop", {"find": "orders"})]),
    ("rbac.dbadminany", "dbAdminAnyDatabase", "admin", [("shop", {"collStats": "orders"}), ("other", {"dbStats": 1})], [("shop", {"find": "orders"})]),
    ("rbac.clustermonitor", "clusterMonitor", "admin", [("admin", {"serverStatus": 1}), ("admin", {"top": 1}), ("shop", {"collStats": "orders"})], [("shop", {"find": "orders"}), ("admin", {"killOp": 1, "op": 1})]),
    ("rbac.hostmanager", "hostManager", "admin", [("admin", {"killOp": 1, "op": 123456}), ("admin", {"setParameter": 1, "logLevel": 0})], [("shop", {"find": "orders"}), ("admin", {"serverStatus": 1})]),
    ("rbac.clusteradmin", "clusterAdmin", "admin", [("admin", {"serverStatus": 1}), ("admin", {"setParameter": 1, "logLevel": 0}), ("other", {"dropDatabase": 1})], [("shop", {"find": "orders"})]),
    ("rbac.backup", "backup", "admin", [("shop", {"find": "orders"}), ("admin", {"find": "system.users"}), ("admin", {"listDatabases": 1})], [("shop", {"insert": "orders", "documents": [{}]})]),
    ("rbac.restore", "restore", "admin", [("other", {"insert": "restored", "documents": [{}]}), ("other", {"createIndexes": "restored", "indexes": [{"key": {"x": 1}, "name": "x"}]}),
                                          ("other", {"drop": "restored"})], [("shop", {"find": "orders"})]),
    ("rbac.root", "root", "admin", [("shop", {"find": "orders"}), ("admin", {"serverStatus": 1}), ("other", {"insert": "c", "documents": [{}]}), ("admin", {"usersInfo": 1})], []),
    ("rbac.system", "__system", "admin", [("shop", {"find": "orders"}), ("admin", {"serverStatus": 1}), ("admin", {"usersInfo": 1})], []),
]


def of_a_role(role, db, may, may_not):
    def run(root):
        root[db].command("createUser", "one", pwd="p", roles=[role])
        try:
            with login(root, "one", "p", db) as one:
                for where, command in may:
                    equal(one[where].command(SON(command))["ok"], 1)
                for where, command in may_not:
                    equal((command, code_of(lambda: one[where].command(SON(command)))), (command, 13))
        finally:
            root[db].command("dropUser", "one")
    run.__name__ = "role_" + role
    return run


for row, role, db, may, may_not in ROLES:
    probe("auth", row)(of_a_role(role, db, may, may_not))


@probe("auth", "auth.localhost", "auth.enable", "conf.sec.authz", "rbac.error")
def only_with_a_login(root):
    with MongoClient(*root.address) as nobody:
        equal(nobody.admin.command("ping")["ok"], 1)
        equal(code_of(lambda: nobody.shop.orders.find_one()), 13)
        equal(code_of(lambda: nobody.admin.command("createUser", "second", pwd="x", roles=[])), 13)
    equal(root.shop.orders.count_documents({"_id": 0}), 1)


@probe("auth", "auth.scram256", "auth.scram1", "auth.default_mech", "cmd.saslstart", "cmd.saslcontinue", "auth.reauth", "hello.arg.sasl_supported", "hello.reply.mechs")
def mechanisms(root):
    for name in ("SCRAM-SHA-1", "SCRAM-SHA-256"):
        with login(root, "root", "secret", authMechanism=name) as one:
            equal(one.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"], [{"user": "root", "db": "admin"}])
        counted = root.admin.command("serverStatus")["security"]["authentication"]["mechanisms"][name]["authenticate"]
        need(counted["successful"] > 0, counted)
    root.shop.command("createUser", "old", pwd="p", roles=["read"], mechanisms=["SCRAM-SHA-1"])
    equal(root.admin.command("hello", saslSupportedMechs="shop.old")["saslSupportedMechs"], ["SCRAM-SHA-1"])
    with login(root, "old", "p", "shop") as one:
        equal(one.shop.orders.count_documents({"_id": 0}), 1)
    root.shop.command("dropUser", "old")


@probe("auth", "auth.speculative", "hello.arg.speculative")
def speculative(root):
    start = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=root,r=abcdefghijklmnop", "db": "admin"}
    reply = root.admin.command("hello", speculativeAuthenticate=start)["speculativeAuthenticate"]
    need(reply["conversationId"] == 1 and not reply["done"] and bytes(reply["payload"]).startswith(b"r=abcdefghijklmnop"), reply)


@probe("auth", "auth.restrictions")
def restricted(root):
    for name, address in (("here", "127.0.0.1"), ("elsewhere", "10.9.8.7")):
        root.shop.command("createUser", name, pwd="p", roles=["read"], authenticationRestrictions=[{"clientSource": [address]}])
    with login(root, "here", "p", "shop") as here, login(root, "elsewhere", "p", "shop") as elsewhere:
        equal(here.shop.orders.count_documents({"_id": 0}), 1)
        equal(code_of(lambda: elsewhere.shop.orders.find_one()), 18)
    for name in ("here", "elsewhere"):
        root.shop.command("dropUser", name)


@probe("auth", "auth.storage")
def stored(root):
    user = root.admin["system.users"].find_one({"_id": "admin.root"})
    need(user["credentials"]["SCRAM-SHA-256"]["storedKey"] and user["roles"] == [{"role": "root", "db": "admin"}], user)
    equal(root.admin["system.version"].find_one({"_id": "authSchema"})["currentVersion"], 5)


@probe("auth", "rbac.custom", "rbac.resource", "rbac.own", "rbac.list", "rbac.actions.crud", "cmd.createrole", "cmd.updaterole", "cmd.droprole", "cmd.rolesinfo",
       "cmd.grantprivilegestorole", "cmd.revokeprivilegesfromrole", "cmd.grantrolestorole", "cmd.revokerolesfromrole", "cmd.createuser", "cmd.updateuser",
       "cmd.dropuser", "cmd.usersinfo", "cmd.grantrolestouser", "cmd.revokerolesfromuser")
def own_roles(root):
    orders = {"db": "shop", "collection": "orders"}
    root.shop.command("createRole", "clerk", roles=[], privileges=[{"resource": orders, "actions": ["find"]}])
    root.shop.command("createUser", "carl", pwd="p", roles=["clerk"], customData={"team": 7})
    with login(root, "carl", "p", "shop", maxPoolSize=1) as carl:
        equal(carl.shop.orders.count_documents({"_id": 1}), 1)
        equal(code_of(lambda: carl.shop.other.find_one()), 13)
        equal([d["name"] for d in carl.list_databases()], ["shop"])
        equal(carl.shop.command("usersInfo", "carl")["users"][0]["customData"], {"team": 7})
        equal(code_of(lambda: carl.shop.command("usersInfo", 1)), 13)
        root.shop.command("grantPrivilegesToRole", "clerk", privileges=[{"resource": orders, "actions": ["insert", "update", "remove"]}])
        carl.shop.orders.insert_one({"_id": "c"})
        carl.shop.orders.update_one({"_id": "c"}, {"$set": {"n": 1}})
        equal(carl.shop.orders.delete_one({"_id": "c"}).deleted_count, 1)
        root.shop.command("revokePrivilegesFromRole", "clerk", privileges=[{"resource": orders, "actions": ["remove"]}])
        equal(code_of(lambda: carl.shop.command("delete", "orders", deletes=[{"q": {}, "limit": 1}])), 13)
        root.shop.command("grantRolesToRole", "clerk", roles=["read"])
        equal(carl.shop.other.find_one(), None)
        equal(root.shop.command("rolesInfo", "clerk")["roles"][0]["inheritedRoles"], [{"role": "read", "db": "shop"}])
        root.shop.command("revokeRolesFromRole", "clerk", roles=["read"])
        equal(code_of(lambda: carl.shop.other.find_one()), 13)
        root.shop.command("grantRolesToUser", "carl", roles=["readWrite"])
        equal(carl.shop.other.insert_one({"_id": 1}).inserted_id, 1)
        root.shop.command("revokeRolesFromUser", "carl", roles=["readWrite"])
        equal(code_of(lambda: carl.shop.command("insert", "other", documents=[{}])), 13)
        root.shop.command("updateRole", "clerk", privileges=[], roles=["read"])
        equal(carl.shop.other.count_documents({}), 1)
        root.shop.command("dropRole", "clerk")
        equal(code_of(lambda: carl.shop.orders.find_one()), 13)
        root.shop.command("updateUser", "carl", roles=["read"], pwd="new")
    with login(root, "carl", "new", "shop") as carl:
        equal(carl.shop.orders.count_documents({"_id": 1}), 1)
    root.shop.command("dropUser", "carl")
    equal(root.shop.command("usersInfo", "carl")["users"], [])


@probe("auth", "rbac.actions.diag")
def diagnosing(root):
    actions = ["collStats", "dbStats", "dbHash", "indexStats", "validate"]
    cluster = ["connPoolStats", "getCmdLineOpts", "getLog", "hostInfo", "listDatabases", "serverStatus", "top"]
    root.admin.command("createRole", "doctor", roles=[], privileges=[{"resource": {"db": "shop", "collection": ""}, "actions": actions},
                                                                     {"resource": {"cluster": True}, "actions": cluster}])
    root.admin.command("createUser", "doctor", pwd="p", roles=["doctor"])
    with login(root, "doctor", "p") as doctor:
        for command in ({"collStats": "orders"}, {"dbStats": 1}, {"dbHash": 1}, {"validate": "orders"}):
            equal(doctor.shop.command(SON(command))["ok"], 1)
        for command in ({"connPoolStats": 1}, {"getCmdLineOpts": 1}, {"getLog": "global"}, {"hostInfo": 1}, {"listDatabases": 1}, {"serverStatus": 1}, {"top": 1}):
            equal(doctor.admin.command(SON(command))["ok"], 1)
        need(list(doctor.shop.orders.aggregate([{"$indexStats": {}}])))
        equal(code_of(lambda: doctor.shop.orders.find_one()), 13)
    root.admin.command("dropUser", "doctor")
    root.admin.command("dropRole", "doctor")


@probe("auth", "rbac.system_coll")
def system_collections(root):
    root.admin.command("createUser", "writer", pwd="p", roles=["readWrite"])
    with login(root, "writer", "p") as writer:
        equal(code_of(lambda: writer.admin.command("insert", "system.users", documents=[{"_id": "admin.x"}])), 13)
        equal(writer.admin.plain.insert_one({"_id": 1}).inserted_id, 1)
    root.admin.command("dropUser", "writer")
    need("root" in [u["user"] for u in root.admin["system.users"].find()])


@probe("auth", "diag.log_redact_pw")
def no_passwords_in_logs(root):
    root.shop.command("createUser", "hidden", pwd="Tr0ub4dor", roles=[])
    root.shop.command("dropUser", "hidden")
    need("Tr0ub4dor" not in str(root.admin.command("getLog", "global")))


@probe("auth", "auth.failure_delay")
def delayed(root):
    import time
    with login(root, "root", "secret") as one:
        one.admin.command("ping")
        began = time.monotonic()
        for _ in range(3):
            with login(root, "root", "wrong") as wrong:
                equal(code_of(lambda: wrong.admin.command("ping", 1)) or code_of(lambda: wrong.shop.orders.find_one()), 18)
        need(time.monotonic() - began > 0.2, time.monotonic() - began)

"""The databases, users and roles that the matrix runs on, and how they are made again after a command changed them."""
import pymongo
from pymongo.errors import OperationFailure

DATABASES = ["shop", "other", "admin"]
COLLECTIONS = ["c", "d", "v", "out", "new", "fs.chunks"]


def connect(uri, user=None, source="admin"):
    """A client with one connection and without retries, so that a row is one command."""
    login = {"username": user, "password": "p", "authSource": source, "authMechanism": "SCRAM-SHA-256"} if user else {}
    return pymongo.MongoClient(uri, directConnection=True, maxPoolSize=1, retryReads=False, retryWrites=False, **login)


class Fixture:
    def __init__(self, root):
        self.root = root
        for db in DATABASES:
            self.data(db)
            self.users(db)

    def user(self, db, name, roles):
        self.root[db].command("createUser", name, pwd="p", roles=roles, mechanisms=["SCRAM-SHA-256"])

    def restore(self, what, db):
        """Makes again what a row changed. A row that names another database names `shop` or `other`."""
        if what == "data":
            for one in sorted({db, "shop", "other"} - {"config"}):
                self.data(one)
        elif what == "users":
            self.users(db)

    def data(self, db):
        db = self.root[db]
        for name in COLLECTIONS:
            self.quietly(db, {"drop": name})
        db.command("insert", "c", documents=[{"_id": n, "n": n} for n in range(3)])
        db.command("createIndexes", "c", indexes=[{"key": {"n": 1}, "name": "n_1"}])
        db.command("insert", "d", documents=[{"_id": 1, "n": 1}])
        db.command("insert", "fs.chunks", documents=[{"_id": 1, "files_id": 1, "n": 0, "data": b"x"}])
        db.command("createIndexes", "fs.chunks", indexes=[{"key": {"files_id": 1, "n": 1}, "name": "files"}])
        db.command("create", "v", viewOn="c", pipeline=[])
        self.quietly(db, {"delete": "system.js", "deletes": [{"q": {}, "limit": 0}]})

    def users(self, db):
        db = self.root[db]
        for command in ({"dropUser": "made"}, {"dropRole": "made"}, {"dropUser": "victim"}, {"dropRole": "victims"}):
            self.quietly(db, command)
        db.command("createUser", "victim", pwd="p", roles=["read"], mechanisms=["SCRAM-SHA-256"])
        db.command("createRole", "victims", roles=["read"], privileges=[
            {"resource": {"db": db.name, "collection": "c"}, "actions": ["find"]}])

    @staticmethod
    def quietly(db, command):
        try:
            db.command(command)
        except OperationFailure:
            pass

    def fingerprint(self):
        """Everything that a refused command might change."""
        found = {}
        for name in DATABASES:
            db = self.root[name]
            found[name] = db.command("dbHash")["collections"]
            found[name + " options"] = sorted(str(one) for one in db.list_collections())
            found[name + " indexes"] = sorted(str(one) for one in db["c"].list_indexes())
            found[name + " profile"] = db.command("profile", -1)["was"]
        for kind in ("users", "roles"):
            found[kind] = sorted(str(doc) for doc in self.root.admin["system." + kind].find())
        found["level"] = self.root.admin.command("getParameter", 1, logLevel=1)["logLevel"]
        return found

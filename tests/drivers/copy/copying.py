"""`nagi copy` between two servers: copying.py NAGI FOLDER [PART...]. Prints each failure and a count.

Tested: collections of all kinds; writers of all kinds during the copy; kills of the command in the base copy and later;
servers that are away for a while; names that are chosen; the end with and without the block; what is refused.
"""
import os
import signal
import sys

from pymongo import MongoClient

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from checks import check, equal, fails, finish, section, wait_until  # noqa: E402
from load import Load, Trickle, shapes  # noqa: E402
from servers import Copy, Server, differences, free_port  # noqa: E402

OWN = "nagi_copy"
FAILURE, BAD_OPTIONS = 1, 2


def ended(name, copy, status, *texts, seconds=180):
    """Checks how a run ends, and that it has said the texts."""
    got, said = copy.end(seconds)
    check(name, got == status and all(text in said for text in texts), (got, said[-1500:]))
    return said


def alike(name, source, target):
    equal(name, differences(source.client, target.client), [])
    check(name + ": no state is left", OWN not in target.client.list_database_names())


def follows(copy):
    """Waits until a run follows the changes."""
    return wait_until(lambda: "follows the changes" in copy.text() or copy.process.poll() is not None, 120)


def quiet(source, target):
    """All kinds of collections, without writers: the end blocks the source, and compares."""
    shapes(source.client)
    ended("a copy", Copy(source, target, "--cutOver", "--verify"), 0,
          "all documents compared; the source still refuses writes")
    alike("a copy", source, target)
    source.block(False)
    ended("the target has the data", Copy(source, target, "--finish"), FAILURE, "the target has ", " already")
    check("no state of a refused copy", OWN not in target.client.list_database_names())
    target.clear()


def busy(source, target):
    """Writers of all kinds from the beginning to the block."""
    load = Load(source.uri)
    copy = Copy(source, target)
    check("it follows", follows(copy), copy.text())
    before = load.count
    check("writers go on", wait_until(lambda: load.count > before + 300), (before, load.count))
    equal("a signal", copy.kill(signal.SIGTERM), FAILURE)
    check("its text", "the same command continues" in copy.text(), copy.text())
    ended("the end", Copy(source, target, "--cutOver", "--verify"), 0, "continues an earlier copy", "all documents compared")
    equal("writers until the block", load.ended(), [])
    alike("with writers", source, target)
    source.block(False)
    target.clear()


def killed(source, target):
    """kill -9 in the base copy and later, each with writers."""
    load = Load(source.uri, seed=50)
    copied = target.client.shop.orders
    for round_number in range(3):
        copy = Copy(source, target, "--workers", "2")
        seen = copied.estimated_document_count()
        check("the base goes on", wait_until(lambda: copied.estimated_document_count() > seen or "follows" in copy.text()))
        copy.kill()
    for round_number in range(3):
        copy = Copy(source, target)
        check("continues", follows(copy), copy.text())
        before = load.count
        check("writers go on", wait_until(lambda: load.count > before + 100))
        copy.kill()
    older = Copy(source, target)
    check("one follows", follows(older), older.text())
    ended("is not replaced", Copy(source, target), FAILURE, "another nagi copy writes to the target, from 127.0.0.1")
    check("goes on", older.process.poll() is None, older.text())
    older.kill()
    equal("writers", load.stop(), [])
    with Trickle(source.uri):
        ended("finish with a writer", Copy(source, target, "--finish"), FAILURE, "the source is still written to")
    ended("finish", Copy(source, target, "--finish", "--verify"), 0, "all documents compared")
    alike("after kills", source, target)
    target.clear()


def older(source, target):
    """Documents that an index of the source did not allow any more when it was created, and that the change log has."""
    source.client.old.large.insert_many({"_id": n, "s": "x" * 1000} for n in range(60_000))
    source.client.old.arrays.insert_one({"_id": 1, "a": [1, 2], "b": 1})
    phase = lambda: (target.client[OWN].state.find_one({"_id": "copy"}) or {}).get("phase")  # noqa: E731
    copy = Copy(source, target, "--workers", "1")
    check("the base begins", wait_until(lambda: target.client.old.large.estimated_document_count() > 0, 60), copy.text())
    copy.kill()
    check("it was killed in the base", phase() == "base", phase())
    arrays = source.client.old.arrays
    arrays.insert_one({"_id": "both", "a": [1, 2], "b": [1, 2]})
    source.client.old.create_collection("between")  # what comes before it is applied before it
    arrays.delete_one({"_id": "both"})
    arrays.create_index([("a", 1), ("b", 1)])
    arrays.insert_one({"_id": 2, "a": 1, "b": [1, 2]})
    source.client.old.arrays.update_one({"_id": 1}, {"$set": {"c": 1}})
    ended("an index that is newer than documents", Copy(source, target, "--finish", "--verify"), 0,
          "its indexes are dropped until the end", "all documents compared")
    alike("an index that is newer than documents", source, target)
    source.clear()
    target.clear()


def away(source, target):
    """Both servers are killed and started again while the copy follows, and it goes on."""
    load = Load(source.uri, seed=90, structures=False)
    copy = Copy(source, target)
    check("it follows", follows(copy), copy.text())
    for server in source, target, source:
        server.end(signal.SIGKILL)
        server.start()
        before = load.count
        check("writers go on", wait_until(lambda: load.count > before + 50))
        check("the copy goes on", copy.process.poll() is None, copy.text())
    check("it says that a side is away", "does not answer" in copy.text(), copy.text())
    copy.kill(signal.SIGINT)
    source.end()
    ended("a source that is away", Copy(source, target, "--finish"), FAILURE, "source: ", "127.0.0.1")
    source.start()
    target_away = Copy(source, target, "--retrySeconds", "1")
    check("it follows", follows(target_away), target_away.text())
    target.end(signal.SIGKILL)
    ended("a target that is away for too long", target_away, FAILURE, "the target has been away for 1 seconds")
    target.start()
    equal("writers", load.stop(), [])
    ended("the end", Copy(source, target, "--finish", "--verify"), 0)
    alike("after restarts", source, target)
    source.clear()
    target.clear()


def chosen(source, target):
    """Names that are included and excluded, and renames across."""
    for db in "a", "b", "c":
        for name in "x", "y":
            source.client[db][name].insert_many({"_id": n, "in": db + name} for n in range(10))
    names = ("--include", "a", "--include", "b.x", "--exclude", "a.y", "--include", "b.new")
    copy = Copy(source, target, *names)
    check("it follows", follows(copy), copy.text())
    have = lambda: {(db, name) for db in target.client.list_database_names() if db in "abc"  # noqa: E731
                    for name in target.client[db].list_collection_names()}
    equal("what was chosen", have(), {("a", "x"), ("b", "x")})
    source.client.b.y.rename("new")
    source.client.a.x.rename("y", dropTarget=True)
    source.client.b.new.insert_one({"_id": "later"})
    check("renamed in and out", wait_until(lambda: have() == {("b", "x"), ("b", "new")}), have())
    check("with its documents", wait_until(lambda: target.client.b.new.count_documents({}) == 11))
    copy.kill()
    ended("other names", Copy(source, target, "--include", "a"), FAILURE, "an unfinished copy")
    ended("the end", Copy(source, target, *names, "--finish", "--verify"), 0)
    equal("what remains", have(), {("b", "x"), ("b", "new")})
    source.clear()
    target.clear()


def kept(source, target):
    """What the target has and the copy has not made is not replaced."""
    source.client.d.c.insert_one({"_id": 1})
    copy = Copy(source, target)
    check("it follows", follows(copy), copy.text())
    target.client.d.own.insert_one({"_id": "own"})
    source.client.d.own.insert_one({"_id": 1})
    ended("a name that the target has", copy, FAILURE, "another d.own that is not of this copy")
    equal("it is kept", list(target.client.d.own.find()), [{"_id": "own"}])
    target.client.d.own.drop()
    copy = Copy(source, target)
    check("goes on without it", wait_until(lambda: list(target.client.d.own.find()) == [{"_id": 1}], 60), copy.text())
    target.client.d.taken.insert_one({"_id": "own"})
    source.client.d.own.rename("taken")
    ended("a new name that the target has", copy, FAILURE, "rename d.own to d.taken")
    equal("it is kept", list(target.client.d.taken.find()), [{"_id": "own"}])
    target.client.d.taken.drop()
    ended("the end", Copy(source, target, "--finish", "--verify"), 0)
    alike("in the end", source, target)
    plain = Server("plain-target")
    source.client.d.create_collection("images", changeStreamPreAndPostImages={"enabled": True})
    ended("a collection that the target cannot have", Copy(source, plain), FAILURE, "create d.images")
    equal("nothing is left", [name for name in plain.client.list_database_names() if name in ("d", OWN)], [])
    source.client.d.images.drop()
    ended("a target that is no replica set", Copy(source, plain, "--cutOver", "--verify"), 0)
    alike("a target that is no replica set", source, plain)
    plain.end()
    source.block(False)
    source.clear()
    target.clear()


def transaction(source, target):
    """A transaction that is open when the writes are blocked is waited for."""
    client = MongoClient(source.uri, directConnection=True)
    client.t.c.insert_one({"_id": 1})
    with client.start_session() as session:
        session.start_transaction()
        client.t.c.insert_one({"_id": 2}, session=session)
        copy = Copy(source, target, "--cutOver", "--verify")
        check("it blocks", wait_until(lambda: "refuses the writes" in copy.text(), 60), copy.text())
        check("and waits", not wait_until(lambda: copy.process.poll() is not None, 3), copy.text())
        copy.process.send_signal(signal.SIGINT)
        ended("a signal before the end", copy, FAILURE, "accepts writes again", "the same command continues")
        client.t.c.insert_one({"_id": 3})
        copy = Copy(source, target, "--cutOver", "--verify")
        check("it blocks again", wait_until(lambda: "refuses the writes" in copy.text(), 60), copy.text())
        session.commit_transaction()
    ended("the end", copy, 0)
    equal("what it wrote", target.client.t.c.count_documents({}), 3)
    ended("a block of somebody else", Copy(source, target, "--cutOver"), FAILURE, "the target has t.c already")
    source.block(False)
    client.close()
    source.clear()
    target.clear()


def refused(source, target):
    """What is refused, with which text and exit status; nothing is left in the target."""
    source.client.d.c.insert_many([{"_id": 1, "u": 1}, {"_id": 2, "u": 2}])
    plain = Server("plain")
    for name, copy, texts in (
            ("no change log", Copy(plain, target), ["no change log", "--replSet"]),
            ("itself", Copy(source, source), ["the same deployment"]),
            ("no server", Copy("mongodb://127.0.0.1:%d" % free_port(), target), ["source: ", "refused"]),
            ("a user without a login", Copy(source.uri.replace("//", "//u:p@"), target), ["uthentication failed"])):
        ended(name, copy, FAILURE, *texts)
    check("nothing is left", OWN not in target.client.list_database_names() + source.client.list_database_names())
    for flags, text in (
            (["--cutOver", "--finish"], "exclude each other"), (["--include", "admin"], "never copied"),
            (["--workers", "0"], "bad value '0'"), (["--nothing"], "unrecognised option")):
        ended("usage %s" % flags, Copy(source, target, *flags), BAD_OPTIONS, text)
    plain.end()
    target.block(True)
    ended("a target that refuses writes", Copy(source, target), FAILURE, "User writes blocked")
    target.block(False)
    # A value that is twice in a unique index, by a write of somebody else to the target.
    source.client.d.c.create_index("u", unique=True)
    copy = Copy(source, target)
    check("it follows", follows(copy), copy.text())
    copy.kill()
    target.client.d.c.insert_one({"_id": "another's", "u": 1})
    ended("the target was written to", Copy(source, target, "--cutOver"), FAILURE, "u_1", "accepts writes again")
    source.client.d.c.insert_one({"_id": 3, "u": 3})
    target.client.d.c.delete_one({"_id": "another's"})
    ended("and is complete after that", Copy(source, target, "--finish", "--verify"), 0)
    alike("in the end", source, target)
    source.clear()
    target.clear()


def logins(*_):
    """The roles that the manual names, passwords from files, and a wrong one."""
    auth = ("--auth", "--setParameter", "scramSHA256IterationCount=5000")
    source = Server("source-auth", "--replSet", "rs0", "--initiate", *auth)
    target = Server("target-auth", "--replSet", "rs1", "--initiate", *auth)
    roles = {source: ["backup", "readAnyDatabase", "clusterMonitor", "clusterManager"],
             target: ["restore", "readWriteAnyDatabase", "dbAdminAnyDatabase"]}
    for server in roles:
        server.client.admin.command("createUser", "root", pwd="secret", roles=["root"])
        server.client.close()
        server.client = MongoClient(server.uri.replace("//", "//root:secret@"), directConnection=True)
        server.client.admin.command("createUser", "copier", pwd="of " + server.folder, roles=roles[server])
    shapes(source.client)
    source.client.shop.command("createRole", "counter", roles=[], privileges=[
        {"resource": {"db": "shop", "collection": "orders"}, "actions": ["find"]}])
    source.client.shop.command("createUser", "clerk", pwd="of the clerk", roles=["counter"])
    files = []
    for server in roles:
        files.append(server.folder + "/password")
        with open(os.open(files[-1], os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write("of " + server.folder + "\n")
    uris = [server.uri.replace("//", "//copier@") for server in roles]
    ended("wrong password", Copy(*uris, "--fromPasswordFile", files[0], "--toPasswordFile", files[0]), FAILURE,
          "target: ", "uthentication failed")
    ended("no password", Copy(*uris, environment={"NAGI_PASSWORD": "wrong"}), FAILURE, "source: ", "uthentication failed")
    ended("with logins", Copy(*uris, "--fromPasswordFile", files[0], "--toPasswordFile", files[1], "--cutOver", "--verify",
                                "--users"), 0, "all documents compared", "1 roles are copied, 0 are in the target already",
          "1 users are copied, 2 are in the target already")
    alike("with logins", source, target)
    clerk = MongoClient(target.uri.replace("//", "//clerk:of%20the%20clerk@") + "/shop", directConnection=True)
    equal("a user that was copied", clerk.shop.orders.count_documents({"_id": {"$lt": 10}}), 10)
    fails("has no other rights", 13, lambda: clerk.shop.orders.insert_one({}))
    clerk.close()
    equal("no rest", [name for name in target.client.admin.list_collection_names() if name.startswith("temp")], [])
    for server in roles:
        server.end()


def log_too_short(_, target):
    """A copy that was away for longer than the log goes back."""
    source = Server("short", "--replSet", "short", "--initiate", "--oplogSize", "1")
    source.client.d.c.insert_one({"_id": 1})
    copy = Copy(source, target)
    check("it follows", follows(copy), copy.text())
    copy.kill()
    first = source.client.local["oplog.rs"].find_one(sort=[("$natural", 1)])["ts"]

    def is_gone():
        source.client.d.filler.insert_many({"s": "x" * 100_000} for _ in range(20))
        source.client.d.filler.delete_many({})
        return source.client.local["oplog.rs"].find_one(sort=[("$natural", 1)])["ts"] > first
    check("the log is cut", wait_until(is_gone, 120))
    ended("the log is too short", Copy(source, target), FAILURE, "does not go back", "--oplogSize")
    source.end()
    target.clear()


def main():
    source = Server("source", "--replSet", "rs0", "--initiate")
    target = Server("target", "--replSet", "rs1", "--initiate")
    try:
        for part in quiet, busy, killed, older, away, chosen, kept, transaction, refused, logins, log_too_short:
            if not sys.argv[3:] or part.__name__ in sys.argv[3:]:
                section(part, source, target)
    finally:
        for server in Server.started:
            if server.process.poll() is None:
                server.end()
    finish("copy")


if __name__ == "__main__":
    main()

"""Every command and stage x every built-in role x own, other and admin database: matrix.py URI SOURCES [full]

The server runs with --auth, test commands and no users yet. What MongoDB allows (roles.py, commands.py,
model.py) is compared with what the server does. A refusal is 13 with MongoDB's text and changes nothing; every other
answer counts as allowed. SOURCES is the folder of the server's crates, from which the names of its stages are read.

The same rows run with roles of exactly the needed privileges, and with one of them missing, and with roles that
inherit the built-in ones. special.py has what is no row: cursors of others, revoked roles, views, other databases.
"""
import glob
import os
import re
import sys

import pymongo
from bson import Binary
from pymongo.errors import OperationFailure

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import commands  # noqa: E402
import model  # noqa: E402
import special  # noqa: E402
from checks import check, equal, finish, section  # noqa: E402
from fixture import DATABASES, Fixture, connect  # noqa: E402
from roles import OF_EVERY_DATABASE, ROLES  # noqa: E402

URI, SOURCES, FULL = sys.argv[1], sys.argv[2], sys.argv[3:] == ["full"]
ROWS = commands.rows()
# A row is one of this many in the runs that repeat the matrix with inherited roles.
INHERITED_EACH = 1 if FULL else 7


def of_database(value, db):
    """The value with the name of the command's database in place of DB, and a new UUID in place of UUID."""
    if value == commands.UUID:
        return Binary(os.urandom(16), 4)
    if isinstance(value, str):
        return db + value[2:] if value == "DB" or value.startswith("DB.") else value
    if isinstance(value, list):
        return [of_database(one, db) for one in value]
    if isinstance(value, dict):
        return {key: of_database(one, db) for key, one in value.items()}
    return value


class Subject:
    """A client with its privileges. `None` for the privileges is a client without a login."""

    def __init__(self, name, held, databases, user=None, source="admin"):
        self.name, self.held, self.databases, self.user, self.source = name, held, databases, user, source
        self.client = self.connect()

    def connect(self):
        return connect(URI, self.user, self.source) if self.user else connect(URI)

    def run(self, db, command, alone=False):
        """The code and text of the answer; code 0 without an error."""
        client = self.connect() if alone else self.client
        try:
            client[db].command(command)
        except OperationFailure as error:
            return error.code, (error.details or {}).get("errmsg", "")
        finally:
            if alone:
                client.close()
        return 0, ""


def wanted(subject, db, row):
    """True if the row is allowed, and the text that a refusal must have."""
    command, needs, options = row
    name = next(iter(command))
    if options.get("admin") and db != "admin":
        return False, name + " may only be run against the admin database."
    allowed = model.allowed(subject.held, needs.replace("DB/", db + "/"), db)
    if subject.held is None:
        return allowed, "Command %s requires authentication" % name if needs != "oidReset@#" else "not authorized on"
    return allowed, "not authorized on %s to execute command { " % db


def places(subject, rows):
    """Each row with the databases to run it in."""
    for row in rows:
        only, never = row[2].get("on"), row[2].get("off")
        for db in [only] if only else subject.databases:
            if db != never:
                yield db, row


def run_subject(fixture, subject, rows):
    """Runs what is refused first, so that one comparison shows that nothing changed; then what is allowed."""
    before = fixture.fingerprint()
    allowed = []
    for db, row in places(subject, rows):
        may, text = wanted(subject, db, row)
        if may:
            allowed.append((db, row))
            continue
        refused(fixture, subject, db, row, text)
    equal("%s: what a refused command changed" % subject.name, fixture.fingerprint(), before)
    for db, row in allowed:
        permitted(fixture, subject, db, row)
    subject.client.close()


def refused(fixture, subject, db, row, text):
    command, needs, options = row
    code, message = subject.run(db, of_database(command, db), options.get("alone"))
    known = code == 13 and (message.startswith(text) or subject.held is None and "may only be run" in message)
    check("%s on %s: refused %s (%s)" % (subject.name, db, shown(command), needs), known, "%s %s" % (code, message[:200]))
    if code != 13:
        fixture.restore(options.get("changes"), db)


def permitted(fixture, subject, db, row):
    command, needs, options = row
    code, message = subject.run(db, of_database(command, db), options.get("alone"))
    check("%s on %s: allowed %s (%s)" % (subject.name, db, shown(command), needs), code != 13, message[:200])
    fixture.restore(options.get("changes"), db)


def shown(command):
    return str(command)[:160]


def built_in(fixture):
    """The subjects of the matrix: each role, no role, no login."""
    root = fixture.root
    some = DATABASES if FULL else ["shop", "admin"]
    for role in ROLES:
        for source in (["shop", "admin"] if role in OF_EVERY_DATABASE else ["admin"]):
            user = "has_%s" % role
            fixture.user(source, user, [{"role": role, "db": source}])
            databases = DATABASES if source == "shop" else some
            yield Subject("%s@%s" % (role, source), model.privileges(role, source), databases, user, source)
            root[source].command("dropUser", user)
    fixture.user("admin", "roleless", [])
    yield Subject("no role", {}, DATABASES, "roleless")
    root.admin.command("dropUser", "roleless")
    yield Subject("no login", None, DATABASES)


def matrix(fixture):
    for subject in built_in(fixture):
        run_subject(fixture, subject, ROWS)


def inherited(fixture):
    """A role of a role of each built-in role allows the same."""
    root = fixture.root
    for number, role in enumerate(ROLES):
        root.admin.command("createRole", "inner", roles=[{"role": role, "db": "admin"}], privileges=[])
        root.admin.command("createRole", "outer", roles=["inner"], privileges=[])
        fixture.user("admin", "heir", ["outer"])
        subject = Subject("role of %s" % role, model.privileges(role, "admin"), ["shop", "admin"], "heir")
        run_subject(fixture, subject, ROWS[number % INHERITED_EACH::INHERITED_EACH])
        root.admin.command("dropUser", "heir")
        for made in ("outer", "inner"):
            root.admin.command("dropRole", made)


def exact(fixture):
    """Exactly the needed privileges suffice, and each of them is needed."""
    root = fixture.root
    root.admin.command("createRole", "exact", roles=[], privileges=[])
    fixture.user("admin", "exact", ["exact"])
    subject = Subject("exact role", {}, ["shop"], "exact")
    for row in ROWS:
        needs, options = row[1], row[2]
        if needs in ("-", "login") or "?" in needs:
            continue
        db = options.get("on") or ("admin" if options.get("admin") else "shop")
        for terms in model.alternatives(needs.replace("DB/", db + "/"), db):
            terms = [(action, target) for is_wanted, action, target in terms if is_wanted]
            for missing in [None, *terms]:
                held = {}
                for action, on in terms:
                    if (action, on) != missing:
                        model.add(held, {on: {action}})
                root.admin.command("updateRole", "exact", privileges=model.as_documents(held))
                subject.held = held
                may, text = wanted(subject, db, row)
                if may:
                    permitted(fixture, subject, db, row)
                else:
                    refused(fixture, subject, db, row, text)
    subject.client.close()
    root.admin.command("dropUser", "exact")
    root.admin.command("dropRole", "exact")


def complete(fixture):
    """Each command of the server has a row, and each row is of a command that exists; the same for stages and roles."""
    listed = fixture.root.admin.command("listCommands")["commands"]
    equal("commands with a row", sorted({next(iter(row[0])) for row in ROWS}), sorted(listed))
    marked = {next(iter(row[0])) for row in ROWS if row[2].get("admin")}
    equal("commands of admin only", sorted(marked), sorted(name for name, one in listed.items() if one["adminOnly"]))
    folders = [os.path.join(SOURCES, "query/src/stages"), os.path.join(SOURCES, "server/src/commands/crud/own_stages")]
    files = [path for folder in folders for path in glob.glob(folder + "/**/*.rs", recursive=True)]
    stages = {name for path in files for name in re.findall(r'name: "(\$[a-zA-Z]+)"', open(path, encoding="utf-8").read())}
    with_row = {name for row in ROWS for stage in row[0].get("pipeline", []) for name in stage}
    equal("stages without a row", sorted({name for name in stages if not name.startswith("$_")} - with_row), [])
    known = fixture.root.admin.command("rolesInfo", 1, showBuiltinRoles=True)["roles"]
    equal("built-in roles", sorted(role["role"] for role in known if role["isBuiltin"]), sorted(ROLES))
    for role in ROLES:
        compare_role(fixture, role)


def compare_role(fixture, role):
    """rolesInfo shows the privileges of the tables."""
    info = fixture.root.admin.command("rolesInfo", {"role": role, "db": "admin"}, showPrivileges=True)["roles"]
    if role == "__system":
        return
    seen = {}
    for privilege in (info[0].get("inheritedPrivileges") or info[0]["privileges"]) if info else []:
        on = privilege["resource"]
        kind = ("cluster", "", "") if on.get("cluster") else ("any", "", "") if on.get("anyResource") else \
            ("buckets", "", "") if "system_buckets" in on else model_resource(on["db"], on["collection"])
        model.add(seen, {kind: set(privilege["actions"])})
    expected = model.privileges(role, "admin")
    for on in sorted(set(seen) | set(expected)):
        equal("privileges of %s on %s" % (role, on), sorted(seen.get(on, ())), sorted(expected.get(on, ())))


def model_resource(db, collection):
    if collection:
        return ("collection", db, collection) if db else ("named", "", collection)
    return ("database", db, "") if db else ("everywhere", "", "")


def main():
    first = pymongo.MongoClient(URI)
    first.admin.command("createUser", "root", pwd="p", roles=["root", "__system"])
    fixture = Fixture(connect(URI, "root"))
    section(complete, fixture)
    section(matrix, fixture)
    section(exact, fixture)
    section(inherited, fixture)
    special.run(fixture, URI)
    finish("matrix: %d rows, %d roles" % (len(ROWS), len(ROLES)))


main()

"""Decides what a set of privileges allows, by MongoDB's rules. Shares nothing with the server.

A need is text: what a command requires. `find@c, insert@d | anything@.` is `find` on collection c and `insert` on
collection d of the command's database, or `anything` on that database.

    ACTION@NAME      on a collection of the command's database
    ACTION@DB/NAME   on a collection of another database
    ACTION@.         on the command's database;     ACTION@DB/   on another database
    ACTION@*         on the normal collections of all databases
    ACTION@#         on the cluster
    ?@.              any action on anything within the command's database
    !ACTION@NAME     the privilege must be missing
    login            a login only
    -                not even a login
"""
from roles import CONTAINS, ROLES

SPECIAL = ("local", "config")


def privileges(role, db):
    """The privileges of a built-in role of a database: a dict from resource to a set of actions."""
    role, _, elsewhere = role.partition("@")
    db = elsewhere or db
    all_of_them = {}
    for on, actions in ROLES[role].items():
        all_of_them.setdefault(resource(on, db), set()).update(actions.split())
    for other in CONTAINS.get(role, []):
        add(all_of_them, privileges(other, db))
    return all_of_them


def add(privileges_, more):
    for on, actions in more.items():
        privileges_.setdefault(on, set()).update(actions)


def resource(text, db):
    """A resource of roles.py as (kind, database, collection)."""
    head, _, name = text.partition(" ")
    if head == ".":
        return ("collection", db, name) if name else ("database", db, "")
    if head == "*":
        return ("named", "", name) if name else ("everywhere", "", "")
    if head in ("cluster", "any", "buckets"):
        return (head, "", "")
    database, _, collection = head.partition("/")
    return ("collection", database, collection) if collection else ("database", database, "")


def is_normal(db, collection):
    return not collection.startswith("system.") and not (db == "local" and collection.startswith("replset."))


def covering(target):
    """The resources whose privileges hold for a target (kind, database, collection)."""
    kind, db, collection = target
    yield ("any", "", "")
    if kind == "cluster":
        yield ("cluster", "", "")
    elif kind == "everywhere":
        yield ("everywhere", "", "")
    elif kind == "database":
        yield ("database", db, "")
        if db not in SPECIAL:
            yield ("everywhere", "", "")
    else:
        yield ("collection", db, collection)
        yield ("named", "", collection)
        if is_normal(db, collection):
            yield ("database", db, "")
            if db not in SPECIAL:
                yield ("everywhere", "", "")
        if collection.startswith("system.buckets."):
            yield ("buckets", "", "")


def has(held, action, target):
    return any({action, "anyAction"} & held.get(on, set()) for on in covering(target))


def any_within(held, db):
    """True if there is any action on anything within the database."""
    def touches(on):
        kind, database, _ = on
        return (kind in ("any", "named", "buckets") or (kind == "everywhere" and db not in SPECIAL)
                or (kind in ("database", "collection") and database == db))
    return any(actions and touches(on) for on, actions in held.items())


def target(text, db):
    if text == "#":
        return ("cluster", "", "")
    if text == "*":
        return ("everywhere", "", "")
    if text == ".":
        return ("database", db, "")
    database, slash, collection = text.partition("/")
    if not slash:
        return ("collection", db, text)
    return ("collection", database, collection) if collection else ("database", database, "")


def alternatives(need, db):
    """The alternatives of a need: lists of (wanted, action, target)."""
    for alternative in need.split("|"):
        terms = []
        for term in alternative.split(","):
            action, _, on = term.strip().partition("@")
            terms.append((not action.startswith("!"), action.lstrip("!"), target(on, db)))
        yield terms


def allowed(held, need, db):
    """True if a logged-in user with these privileges may. `None` for `held` is a client without a login."""
    if need == "-":
        return True
    if held is None:
        return False
    if need == "login":
        return True

    def met(term):
        wanted, action, on = term
        if action == "?":
            return any_within(held, on[1])
        return has(held, action, on) == wanted
    return any(all(map(met, terms)) for terms in alternatives(need, db))


def as_documents(held):
    """The privileges as createRole takes them."""
    def document(on):
        kind, db, collection = on
        if kind == "cluster":
            return {"cluster": True}
        if kind == "any":
            return {"anyResource": True}
        if kind == "buckets":
            return {"db": "", "system_buckets": ""}
        return {"db": db, "collection": collection}
    return [{"resource": document(on), "actions": sorted(actions)} for on, actions in held.items()]

"""What a log says: collections, documents, indexes and views, built from the entries of an oplog alone.

`Model` applies entries, `found` reads the same from a server. Documents are compared as bytes, so types and the
order of fields count. The difference of two states is a list of texts.
"""
import bson

OWN = ("admin", "config", "local")


def key(value):
    return bson.encode({"": value})


def apply_diff(doc, diff):
    """An update entry's difference, `$v: 2`: `d` removes, `u` and `i` set, `s<field>` goes into a field."""
    for name in diff.get("d", {}):
        doc.pop(name, None)
    for name, value in diff.get("u", {}).items():
        doc[name] = value
    for name, value in diff.get("i", {}).items():
        doc.pop(name, None)
        doc[name] = value
    for name, inner in diff.items():
        if name[0] == "s" and len(name) > 1:
            into = doc[name[1:]]
            apply_array(into, inner) if inner.get("a") is True else apply_diff(into, inner)


def apply_array(array, diff):
    if "l" in diff:
        del array[diff["l"]:]
    for name, value in diff.items():
        if name[0] == "u":
            at = int(name[1:])
            while len(array) <= at:
                array.append(None)
            array[at] = value
        elif name[0] == "s":
            into = array[int(name[1:])]
            apply_array(into, value) if value.get("a") is True else apply_diff(into, value)


def copied(value):
    """A deep copy; `copy.deepcopy` takes several times as long."""
    if isinstance(value, dict):
        return {k: copied(v) for k, v in value.items()}
    return [copied(v) for v in value] if isinstance(value, list) else value


class Model:
    def __init__(self):
        self.collections = {}  # namespace -> {"docs": {key: document}, "indexes": {name: spec}, "options": {}}
        self.parts = []  # of a transaction that is logged in several entries

    def apply(self, entry):
        # Later entries change the documents, and the entries are used again.
        self.apply_own(copied(entry))

    def apply_own(self, entry):
        if entry["op"] == "n":
            return
        database = entry["ns"].split(".")[0]
        if entry["op"] == "c":
            return self.command(database, entry["o"])
        docs = self.collections[entry["ns"]]["docs"]
        if entry["op"] == "i":
            at = key(entry["o"]["_id"])
            assert at not in docs, "inserted twice: %r" % entry
            docs[at] = entry["o"]
        elif entry["op"] == "d":
            del docs[key(entry["o"]["_id"])]
        elif "$v" in entry["o"]:
            apply_diff(docs[key(entry["o2"]["_id"])], entry["o"]["diff"])
        else:
            at = key(entry["o2"]["_id"])
            assert at in docs, "replaced without an insert: %r" % entry
            docs[at] = entry["o"]

    def command(self, database, o):
        name, first = next(iter(o.items()))
        if name == "applyOps":
            self.parts += first
            if not o.get("partialTxn"):
                parts, self.parts = self.parts, []
                for part in parts:
                    self.apply_own(part)
            return
        ns = "%s.%s" % (database, first)
        rest = {k: v for k, v in o.items() if k != name}
        if name == "create":
            assert ns not in self.collections, "created twice: %s" % ns
            index = rest.pop("idIndex", None)
            indexes = {index["name"]: dict(index)} if index else {}
            self.collections[ns] = {"docs": {}, "indexes": indexes, "options": rest}
        elif name == "drop":
            del self.collections[ns]
        elif name == "renameCollection":
            self.collections[o["to"]] = self.collections.pop(first)
            if not o.get("stayTemp"):
                self.collections[o["to"]]["options"].pop("temp", None)
        elif name == "createIndexes":
            self.collections[ns]["indexes"][rest["name"]] = rest
        elif name == "commitIndexBuild":
            self.collections[ns]["indexes"].update({spec["name"]: dict(spec) for spec in o["indexes"]})
        elif name == "dropIndexes":
            del self.collections[ns]["indexes"][o["index"]]
        elif name == "collMod":
            self.modify(self.collections[ns], rest)
        else:
            assert name == "dropDatabase", "an unknown command: %r" % o

    def modify(self, collection, changes):
        index = changes.pop("index", None)
        if index:
            spec = collection["indexes"][index["name"]]
            for option, value in index.items():
                if value is False:
                    spec.pop(option, None)
                else:
                    spec[option] = value
        for option, value in changes.items():
            collection["options"].pop(option, None)
            if value != "off":
                collection["options"][option] = value

    def state(self):
        """The databases of users: per namespace documents, indexes and options; views by their documents."""
        state = {}
        for ns, collection in self.collections.items():
            if ns.split(".")[0] in OWN:
                continue
            docs = {at: bson.encode(doc) for at, doc in collection["docs"].items()}
            if ns.endswith(".system.views"):
                for view in collection["docs"].values():
                    state[view["_id"]] = {k: v for k, v in view.items() if k != "_id"}
            else:
                state[ns] = {"docs": docs, "indexes": collection["indexes"], "options": shown(collection["options"])}
        return state


def shown(options):
    """Without an empty validator, which is the same as none."""
    return {name: value for name, value in options.items() if (name, value) != ("validator", {})}


def found(client):
    """The same of a server."""
    state = {}
    for database in client.list_database_names():
        if database in OWN:
            continue
        db = client[database]
        for info in db.command("listCollections")["cursor"]["firstBatch"]:
            ns = "%s.%s" % (database, info["name"])
            if info["type"] == "view":
                state[ns] = dict(info["options"])
            elif info["name"] != "system.views":
                docs = {key(doc["_id"]): bson.encode(doc) for doc in db[info["name"]].find()}
                indexes = {spec["name"]: dict(spec) for spec in db[info["name"]].list_indexes()}
                state[ns] = {"docs": docs, "indexes": indexes, "options": shown(info["options"])}
    return state


def read_log(client, after=None):
    """The entries of a server's log, in order."""
    query = {"ts": {"$gt": after}} if after else {}
    last = None
    for entry in client.local["oplog.rs"].find(query):
        assert last is None or entry["ts"] > last, "the log is not in order"
        last = entry["ts"]
        yield entry


def model_at(entries, time=None):
    """The model of all entries up to `time`."""
    model = Model()
    for entry in entries:
        if time is not None and entry["ts"] > time:
            break
        model.apply(entry)
    return model


def differences(expected, seen):
    """Up to ten differences of two states, as texts."""
    texts = ["only %s: %s" % (side, ns) for side, these, those in (("expected", expected, seen), ("found", seen, expected))
             for ns in sorted(set(these) - set(those))]
    for ns in sorted(set(expected) & set(seen)):
        a, b = expected[ns], seen[ns]
        if "docs" not in a or "docs" not in b:
            if a != b:
                texts.append("%s: %r, expected %r" % (ns, b, a))
            continue
        for part in ("indexes", "options"):
            if a[part] != b[part]:
                texts.append("%s: %s %r, expected %r" % (ns, part, b[part], a[part]))
        ids = [at for at in set(a["docs"]) | set(b["docs"]) if a["docs"].get(at) != b["docs"].get(at)]
        decoded = lambda doc: bson.decode(doc) if doc else None
        if ids:
            texts.append("%s: %d of %d documents differ; first %r, expected %r" % (
                ns, len(ids), len(a["docs"]), decoded(b["docs"].get(ids[0])), decoded(a["docs"].get(ids[0]))))
    return texts[:10]

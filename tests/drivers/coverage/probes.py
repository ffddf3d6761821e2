"""The list of probes. A probe names the rows of the inventory that it uses, and checks the replies:

  @probe("standalone", "cmd.ping")
  def ping(client): equal(client.admin.command("ping")["ok"], 1)

A probe shows that a row works. A refusal does not show that, unless the row is a rule about refusals. A probe
gets a client of the server that it names: `standalone`, `replica` (a set of one member) or `auth`. A probe that
starts servers of its own gets a `starts.Starter`. An exception in a probe fails the run.
"""
PROBES = []


def probe(server, *rows):
    def keep(f):
        PROBES.append((server, rows, f))
        return f
    return keep


def need(ok, seen=None):
    if not ok:
        raise AssertionError("saw %r" % (seen,))


def equal(seen, wanted):
    if seen != wanted:
        raise AssertionError("saw %r, wanted %r" % (seen, wanted))


def fields(document, names):
    """Checks that all the fields are present; `a.b` is the field `b` in `a`."""
    for path in names.split():
        value = document
        for name in path.split("."):
            if not isinstance(value, dict) or name not in value:
                raise AssertionError("no %s in %r" % (path, document if len(str(document)) < 2000 else sorted(document)))
            value = value[name]


def code_of(run):
    """The error code of a command, None if it succeeds."""
    from pymongo.errors import OperationFailure
    try:
        run()
    except OperationFailure as error:
        return error.code
    return None

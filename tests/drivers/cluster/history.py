"""Checks a history of transactions that append unique values to lists and read them.

The final lists tell in which order the values of a list were written; so the order of any two transactions that touched the same
list is known, as in Elle (Kingsbury, Alvaro, 2020). Reported are: values that are lost, there twice, or of a refused
transaction; reads that are no beginning of the final list, of a refused transaction, or of a list between two appends of one
transaction; and cycles that snapshot isolation forbids if each read sees what was acknowledged before: those in which no two
anti-dependencies ("read before the other wrote") are adjacent. Edges of a cycle are: wrote before the other wrote, wrote what
the other read, ended before the other began, read before the other wrote.
"""
import collections

SHOWN_MAX = 5


class Transaction:
    """What a client has done, and how it ended: `sure`, `unknown`, `refused`. Times in seconds."""

    def __init__(self, begun):
        self.begun, self.ended, self.outcome, self.steps = begun, begun, "refused", []

    def append(self, key, value):
        self.steps.append(("append", key, value))

    def read(self, key, values):
        self.steps.append(("read", key, list(values)))

    def appends(self):
        return sum(1 for what, _, _ in self.steps if what == "append")

    def __repr__(self):
        return "%s[%.3f-%.3f %s]" % (self.outcome, self.begun, self.ended, " ".join(
            "%s %s %s" % (what, key, value if what == "append" else value[-3:]) for what, key, value in self.steps))


def anomalies(history, lists):
    """What is wrong with a history whose lists ended as `lists`, by key: at most some texts of each kind."""
    writers = {value: t for t in history for what, _, value in t.steps if what == "append"}
    texts = values(history, lists, writers) + reads(history, lists, writers)
    return texts or cycles(history, lists, writers)


def values(history, lists, writers):
    texts = []
    places = collections.Counter(value for final in lists.values() for value in final)
    texts += ["%s is there %d times" % pair for pair in places.items() if pair[1] > 1][:SHOWN_MAX]
    texts += ["%s is of nobody" % value for value in places if value not in writers][:SHOWN_MAX]
    for t in history:
        there = [value in lists.get(key, ()) for what, key, value in t.steps if what == "append"]
        if t.outcome == "sure" and not all(there):
            texts.append("lost: %r" % t)
        elif t.outcome == "refused" and any(there):
            texts.append("refused, and there: %r" % t)
        elif any(there) and not all(there):
            texts.append("in part: %r" % t)
    return texts[:4 * SHOWN_MAX]


def reads(history, lists, writers):
    texts = []
    for t in history:
        own = collections.defaultdict(list)
        for what, key, value in t.steps:
            if what == "append":
                own[key].append(value)
                continue
            if own[key] and t.outcome != "sure":
                continue  # what it wrote may not be there
            if value != lists.get(key, [])[:len(value)] or value[len(value) - len(own[key]):] != own[key]:
                texts.append("no beginning of list %s, %s: %r" % (key, lists.get(key, [])[:len(value) + 1][-6:], t))
            others = value[:len(value) - len(own[key])]
            if others and others[-1] in writers:
                mine = [v for w, k, v in writers[others[-1]].steps if w == "append" and k == key]
                if mine and mine[-1] != others[-1]:
                    texts.append("a read in the middle of %r: %r" % (writers[others[-1]], t))
    return texts[:4 * SHOWN_MAX]


def cycles(history, lists, writers):
    """Cycles without two adjacent anti-dependencies."""
    there = {value for final in lists.values() for value in final}
    done = [t for t in history if t.outcome == "sure" or any(w == "append" and v in there for w, _, v in t.steps)]
    strong, anti = dependencies(done, lists, writers)
    after_ended(done, strong)
    # A node (t, True) was reached by an anti-dependency, so no other one may follow.
    graph = {}
    for node in set(strong) | set(anti):
        graph[node, True] = [(other, False) for other in strong.get(node, ())]
        graph[node, False] = graph[node, True] + [(other, True) for other in anti.get(node, ())]
    return ["a cycle: " + " -> ".join(repr(node) for node, _ in found if isinstance(node, Transaction))
            for found in components(graph)][:SHOWN_MAX]


def dependencies(done, lists, writers):
    """What precedes what: writes and reads of writes; and reads before writes."""
    strong, anti = collections.defaultdict(set), collections.defaultdict(set)
    for final in lists.values():
        for before, after in zip(final, final[1:]):
            if writers[before] is not writers[after]:
                strong[writers[before]].add(writers[after])
    for t in done:
        own = set()
        for what, key, value in t.steps:
            if what == "append":
                own.add(key)
            elif key not in own:  # otherwise the order of the writes says the same
                final, length = lists.get(key, []), len(value)
                if length and writers[final[length - 1]] is not t:
                    strong[writers[final[length - 1]]].add(t)
                if length < len(final) and writers[final[length]] is not t:
                    anti[t].add(writers[final[length]])
    return strong, anti


def after_ended(done, strong):
    """A transaction precedes those that begin after its acknowledgement: through a node for each moment of one."""
    events = sorted([(t.begun, 1, n) for n, t in enumerate(done)] + [(t.ended, 0, n) for n, t in enumerate(done) if t.outcome == "sure"])
    moment = None
    for _, is_begin, n in events:
        if is_begin:
            if moment is not None:
                strong[moment].add(done[n])
        else:
            following = ("moment", n)
            strong[done[n]].add(following)
            if moment is not None:
                strong[moment].add(following)
            moment = following


def components(graph):
    """Strongly connected components of more than one node (Tarjan, without recursion)."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(graph.get(other, ()))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    if len(component) > 1:
                        found.append(component)
    return found

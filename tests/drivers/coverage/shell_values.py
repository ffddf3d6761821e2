"""Reads values in the notation of the golden cases (crates/bson/src/json): documents as the shell writes them.

`parse(text)` returns the value, and `plain(value)` the form that is compared: canonical wrappers are read, and
numbers keep their kind (integer, double, decimal), because the relaxed notation of a reply does not distinguish
int32 from int64.
"""
import base64
import datetime
import math
import re
import uuid

from bson import SON, Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.datetime_ms import DatetimeMS

WORD = re.compile(r"[A-Za-z_$][\w$.]*")
NUMBER = re.compile(r"-?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?)")
SPACE = re.compile(r"\s*")
WORDS = {"true": True, "false": False, "null": None, "NaN": math.nan, "Infinity": math.inf, "MinKey": MinKey(), "MaxKey": MaxKey()}
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}


class Unreadable(Exception):
    """Raised for notation that this reader does not support: the case is skipped."""


def date(text):
    text = text.replace("Z", "+00:00")
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise Unreadable(str(error))
    return DatetimeMS(moment if moment.tzinfo else moment.replace(tzinfo=datetime.timezone.utc))


def integer(value):
    return int(value[0])


CALLS = {
    "NumberInt": integer, "NumberLong": lambda a: Int64(a[0]), "Long": lambda a: Int64(a[0]),
    "NumberDecimal": lambda a: Decimal128(str(a[0])), "Decimal128": lambda a: Decimal128(str(a[0])), "Double": lambda a: float(a[0]),
    "ISODate": lambda a: date(a[0]), "Date": lambda a: date(a[0]), "ObjectId": lambda a: ObjectId(a[0]),
    "Timestamp": lambda a: Timestamp(a[0], a[1]), "BinData": lambda a: Binary(base64.b64decode(a[1]), a[0]),
    "HexData": lambda a: Binary(bytes.fromhex(a[1]), a[0]), "UUID": lambda a: Binary(uuid.UUID(a[0]).bytes, 4),
    "MinKey": lambda a: MinKey(), "MaxKey": lambda a: MaxKey(), "Code": lambda a: Code(*a),
}


class Reader:
    def __init__(self, text):
        self.text, self.at = text, 0

    def skip(self):
        self.at = SPACE.match(self.text, self.at).end()

    def take(self, mark):
        self.skip()
        if self.text.startswith(mark, self.at):
            self.at += len(mark)
            return True
        return False

    def match(self, pattern):
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def string(self):
        quote = self.text[self.at]
        self.at += 1
        out = []
        while self.text[self.at] != quote:
            c = self.text[self.at]
            self.at += 1
            if c == "\\":
                c = self.text[self.at]
                self.at += 1
                if c in "ux":
                    digits = 4 if c == "u" else 2
                    c = chr(int(self.text[self.at:self.at + digits], 16))
                    self.at += digits
                else:
                    c = ESCAPES.get(c, c)
            out.append(c)
        self.at += 1
        return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16")

    def items(self, close, item):
        out = []
        while not self.take(close):
            out.append(item())
            self.take(",")
        return out

    def field(self):
        self.skip()
        name = self.string() if self.text[self.at] in "\"'" else self.match(re.compile(r"[^\s:]+")).group()
        if not self.take(":"):
            raise Unreadable("no colon at %r" % self.text[self.at:self.at + 20])
        return name, self.value()

    def value(self):
        self.skip()
        if self.at >= len(self.text):
            raise Unreadable("the text ends")
        c = self.text[self.at]
        if c in "\"'":
            return self.string()
        if self.take("{"):
            return document(self.items("}", self.field))
        if self.take("["):
            return self.items("]", self.value)
        if c == "/":
            found = self.match(re.compile(r"/((?:\\.|[^/\\])+)/(\w*)"))
            return Regex(found.group(1), found.group(2))
        found = self.match(NUMBER)
        if found:
            return number(found.group())
        sign = -1 if self.take("-") else 1
        found = self.match(WORD)
        if not found:
            raise Unreadable("what is %r" % self.text[self.at:self.at + 20])
        word = found.group()
        if word == "new":
            return self.value()
        if word in CALLS and self.take("("):
            return CALLS[word](self.items(")", self.value))
        if word in WORDS:
            return -math.inf if sign < 0 else WORDS[word]
        raise Unreadable("what is %s" % word)


def number(text):
    if not re.fullmatch(r"-?\d+", text):
        return float(text)
    value = int(text)
    return value if -2**31 <= value < 2**31 else Int64(value)


WRAPPERS = {
    "$numberInt": int, "$numberLong": Int64, "$numberDouble": lambda t: float(t.replace("Infinity", "inf")),
    "$numberDecimal": Decimal128, "$oid": ObjectId, "$minKey": lambda _: MinKey(), "$maxKey": lambda _: MaxKey(),
    "$date": lambda t: DatetimeMS(int(t)) if isinstance(t, int) else date(t),
    "$binary": lambda b: Binary(base64.b64decode(b["base64"]), int(b["subType"], 16)),
    "$timestamp": lambda t: Timestamp(t["t"], t["i"]), "$uuid": lambda t: Binary(uuid.UUID(t).bytes, 4),
    "$regularExpression": lambda r: Regex(r["pattern"], r["options"]), "$code": Code,
}


def document(fields):
    if len(fields) == 1 and fields[0][0] in WRAPPERS and not isinstance(fields[0][1], list):
        name, value = fields[0]
        try:
            return WRAPPERS[name](value)
        except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
            pass
    return SON(fields)


def parse(text):
    """The value, and the text after it."""
    reader = Reader(text)
    try:
        value = reader.value()
    except (IndexError, AttributeError, TypeError, ValueError, OverflowError, ArithmeticError) as error:
        raise Unreadable(str(error))
    reader.skip()
    return value, text[reader.at:]


def plain(value):
    """The form in which equal values are equal; "..." stands for any value."""
    if isinstance(value, dict):
        return [(name, plain(item)) for name, item in value.items()]
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return ("integer", int(value))
    if isinstance(value, DatetimeMS):
        return ("date", int(value))
    if isinstance(value, Regex):
        return ("regex", value.pattern, value.flags)
    if isinstance(value, bytes):
        return ("binary", getattr(value, "subtype", 0), bytes(value))
    return (type(value).__name__, str(value))


def same(seen, wanted):
    """Returns True if a reply is as expected, both in the form of `plain`."""
    if wanted == ("str", "..."):
        return True
    if isinstance(wanted, list):
        return isinstance(seen, list) and len(seen) == len(wanted) and all(same(s, w) for s, w in zip(seen, wanted))
    if isinstance(wanted, tuple) and len(wanted) == 2 and isinstance(seen, tuple) and len(seen) == 2:
        return same(seen[1], wanted[1]) and seen[0] == wanted[0] if isinstance(wanted[1], (list, tuple)) else seen == wanted
    return seen == wanted

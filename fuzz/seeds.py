"""Writes the seeds of the fuzz targets: seeds.py TARGET CORPUS writes small inputs made from the golden
cases."""
import glob
import hashlib
import os
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "tests", "golden")
REGISTRIES = {"filter": ["filter"], "expression": ["expr"], "update": ["update"], "pipeline": ["stages"],
              "projection": ["project"], "schema": []}
FEW = {
    "filter": ['{a: {$gt: 5, $in: [1, "x", /a/i]}, $or: [{"b.c": null}, {d: {$elemMatch: {e: 1}}}]}\n{a: [6, 1], b: {c: 1}, d: [{e: 1}]}',
               '{$expr: {$eq: ["$a", {$add: [1, 2]}]}}\n{a: 3}', '{a: {$type: "number", $mod: [4, 0], $size: 2, $all: [1]}}\n{a: 8}'],
    "expression": ['{$add: ["$a", 1, 2.5]}\n{a: 3}', '{x: {$cond: [{$gt: ["$a", 1]}, "$b", {$concat: ["x", "$c"]}]}}\n{a: 1, c: "d"}',
                   '{$map: {input: "$l", as: "e", in: {$multiply: ["$$e", 2]}}}\n{l: [1, 2]}'],
    "update": ['{$set: {"a.b": 1}, $push: {l: {$each: [1], $sort: -1, $slice: 3, $position: 0}}}\n{l: [3, 2]}',
               '{$inc: {n: 1}, $unset: {x: ""}, $rename: {y: "z"}}\n{n: 1, x: 2, y: 3}', '[{$set: {a: {$add: ["$b", 1]}}}]\n{b: 1}'],
    "projection": ['{a: 1, "b.c": 1, d: {$slice: [1, 2]}, e: {$elemMatch: {f: 1}}}\n{a: 1, b: [{c: 1}, 2], d: [1, 2, 3], e: [{f: 1}]}',
                   '{a: 0, "b.c": 0}\n{a: 1, b: [{c: 1}, {d: 2}]}', '{"a.$": 1}\n{a: [1, 2]}', '{x: {$add: ["$a", 1]}, _id: 0}\n{a: 1}'],
    "schema": ['{bsonType: "object", required: ["a"], properties: {a: {type: "number", minimum: 1, exclusiveMaximum: true, maximum: 9, multipleOf: 2}}}\n{a: 4}',
               '{patternProperties: {"^a": {type: "string", minLength: 1, pattern: "x$"}}, additionalProperties: false, minProperties: 1}\n{ab: "x"}',
               '{properties: {a: {type: "array", items: [{enum: [1, null]}, {}], additionalItems: {not: {}}, uniqueItems: true, minItems: 1}}}\n{a: [1, 2]}',
               '{anyOf: [{allOf: [{required: ["a"]}]}, {oneOf: [{}, {title: "t"}]}], dependencies: {a: ["b"], c: {maxProperties: 3}}}\n{a: 1}'],
    "text": ['{$search: "the quick -brown \\"red fox\\" -\\"lazy dogs\\""}\n{a: "Quick red foxes", b: [{c: "a dog"}], language: "en"}',
             '{$search: "\u00c9t\u00e9 l\u2019h\u00f4tel", $language: "french", $caseSensitive: true, $diacriticSensitive: true}\n{a: "\u00e9t\u00e9", b: {c: "HOTEL", language: "fr"}}',
             '{$search: "I\u0131\u0130 -\u05d0 \u4e2d", $language: "turkish"}\n{a: ["\u0130stanbul", 5], language: "none"}'],
    "pipeline": ['[{$match: {a: 1}}, {$group: {_id: "$b", n: {$sum: 1}}}, {$sort: {_id: 1}}, {$limit: 3}]\n{a: 1, b: 2}',
                 '[{$match: {$text: {$search: "x \\"y\\" -z"}}}, {$sort: {s: {$meta: "textScore"}}}]\n{$text: {$search: "x"}}',
                 '[{$geoNear: {near: {type: "Point", coordinates: [1, 2]}, distanceField: "f", maxDistance: 9e6}}]\n{g: {$near: [1, 2]}}',
                 '[{$unwind: "$l"}, {$project: {l: 1}}, {$count: "n"}]\n{l: [1, 2]}'],
}


def frames():
    ping = b"\x10ping\0\1\0\0\0\x02$db\0\6\0\0\0admin\0"
    doc = struct.pack("<i", len(ping) + 5) + ping + b"\0"
    sequence = b"documents\0" + doc
    bodies = [(2013, b"\0\0\0\0\0" + doc),
              (2013, b"\0\0\0\0\0" + doc + b"\1" + struct.pack("<i", len(sequence) + 4) + sequence),
              (2004, b"\0\0\0\0admin.$cmd\0" + struct.pack("<ii", 0, -1) + doc),
              (2002, b"\0\0\0\0a.b\0" + doc + doc), (2005, b"\0\0\0\0a.b\0" + struct.pack("<iq", 5, 7)),
              (2001, b"\0\0\0\0a.b\0\0\0\0\0" + doc + doc), (2006, b"\0\0\0\0a.b\0\0\0\0\0" + doc),
              (2007, b"\0\0\0\0" + struct.pack("<iq", 1, 7)),
              (2012, struct.pack("<iiB", 2013, len(doc) + 5, 0) + b"\0\0\0\0\0" + doc)]
    return [struct.pack("<iiii", len(b) + 16, 1, 0, op) + b for op, b in bodies] + [doc]


def edits(kinds):
    """Inputs of the targets that change valid bytes: each kind without an edit, and with one at some positions."""
    some = [b""] + [struct.pack(">BHB", operation, at, value) for operation in range(8) for at, value in ((0, 1), (5, 200), (90, 3))]
    return [bytes([kind]) + edit for kind in kinds for edit in some]


def keys():
    """Files of keys and certificates that openssl writes: old and new formats, with a password and without."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    commands = [["req", "-x509", *key, "-nodes", "-keyout", "-", "-subj", "/O=Nagi/CN=localhost"],
                ["req", "-x509", *key, "-passout", "pass:p", "-keyout", "-", "-subj", "/DC=com/O=Nagi/OU=a+CN=b"],
                ["genrsa", "1024"], ["genrsa", "-traditional", "-aes128", "-passout", "pass:p", "1024"],
                ["genrsa", "-traditional", "-des3", "-passout", "pass:p", "1024"], ["ecparam", "-name", "prime256v1", "-genkey"],
                ["genpkey", "-algorithm", "ed25519"]]
    made = [subprocess.run(["openssl", *command], capture_output=True, check=False).stdout for command in commands]
    return [bytes([kind]) + text for text in made if text for kind in (0, 4, 64)]


def element(tag, *contents):
    body = b"".join(contents)
    return bytes([tag, len(body)]) + body if len(body) < 128 else bytes([tag, 0x82]) + struct.pack(">H", len(body)) + body


def directory():
    """Answers of LDAP servers as OpenLDAP and Active Directory write them, for kinds that take any bytes: to a query of a
    login (kind 11, 15) or of groups (3, 7), and to what follows it."""
    def message(number, *contents):
        return element(0x30, element(2, bytes([number])), *contents)

    def result(number, tag, code):
        return message(number, element(tag, element(10, bytes([code])), element(4), element(4, b"text")))

    def entry(number, name, attribute, *values):
        values = element(0x31, *(element(4, value) for value in values))
        return message(number, element(0x64, element(4, name), element(0x30, element(0x30, element(4, attribute), values))))

    user = entry(1, b"uid=ann,dc=org", b"dn", b"uid=ann,dc=org") + result(1, 0x65, 0)
    referral = message(1, element(0x73, element(4, b"ldap://other/dc=org")))
    controls = message(1, element(0x65, element(10, b"\0"), element(4), element(4)), element(0xA0, element(0x30, element(4, b"1.2"))))
    padded = b"\x30\x84\0\0\0\x10\2\1\1\x61\x84\0\0\0\7\n\1\0\4\0\4\0"
    goodbye = message(0, element(0x78, element(10, b"\x34"), element(4), element(4, b"going down"), element(0x8A, b"1.3.6.1.4.1.1466.20036")))
    groups = entry(2, b"cn=admins,dc=org", b"memberOf", b"cn=admins,dc=org", b"cn=\xff", b"root") + result(2, 0x65, 0)
    firsts = [user, referral + user, entry(1, b"uid=ann,dc=org", b"dn") + controls, user + user, goodbye, b""]
    seconds = [result(1, 0x61, 0), result(1, 0x61, 49), padded, groups, goodbye, result(2, 0x65, 32)]
    return [bytes([kind]) + first + b"\xff\xfe" + second for kind in (3, 7, 11, 15) for first in firsts for second in seconds]


def structure(kinds, length):
    """Inputs of the targets that change elements: one change, and two of them."""
    changes = [bytes([what, at, value])[:length] for what in range(8) for at in (0, 2, 5) for value in (0, 1, 200)]
    return [bytes([kind]) + change for kind in kinds for change in changes + [a + b for a, b in zip(changes, changes[11:])]]


def provider():
    """Parts of what identity providers send."""
    tokens = [open(os.path.join(HERE, "fixtures", name), "rb").read().strip() for name in ("rs256.jwt", "ps384.jwt")]
    modulus = open(os.path.join(HERE, "fixtures", "rsa.modulus"), "rb").read().strip()
    rsa = b'{"keys":[{"kid":"rsa","kty":"RSA","alg":"RS256","use":"sig","e":"AQAB","n":"' + modulus + b'","x5c":["AA=="]}]}'
    other = b'{"keys":[{"kid":"a","kty":"oct","k":"AAAA"},{"kid":"b","kty":"EC","crv":"P-384","x":"AA","y":"AA"}]}'
    found = b'{"issuer":"https://id.example.com","jwks_uri":"%s"}'
    addresses = [b"https://a/keys", b"http://127.0.0.1:1/k", b"http://localhost@b/", b"file:///etc/passwd", b"https://[::1]x/", b"//a"]
    return [bytes([kind]) + token for kind in (0, 32, 48) for token in tokens + [b"e30.e30.", b"..", b"eyJhbGciOiJub25lIn0.e30."]] + \
        [b"\x27" + rsa, b"\x37" + rsa, b"\x07" + other] + [b"\x0a" + found % address for address in addresses] + \
        [bytes([16 * which + 6, a, b, c]) for which in range(4) for a in range(4) for b in range(4) for c in range(4)]


SPECIAL = {
    # The handshake of a client that offers nothing, a record of an alert, and a request without TLS.
    "handshake": lambda: edits(range(1, 64, 2)) + [b"\0\x16\x03\x01\0\x05\x01\0\0\x01\x03", b"\2\x15\x03\x03\0\2\2\0",
                                                b"\xfeGET / HTTP/1.0\r\n\r\n"],
    "certificates": lambda: edits(kind for kind in range(1, 16) if kind & 3) + keys(),
    "ldap": lambda: edits(range(0, 256, 7)) + structure((kind for kind in range(8, 256, 5) if kind & 8), 3) + directory(),
    "tokens": lambda: edits(kind for kind in range(256) if kind % 16 not in (0, 7, 10)) + provider(),
    "kmip": lambda: edits(range(1, 32, 2)) + structure(range(2, 32, 4), 3) + [bytes([3, n]) for n in range(4)],
    "login": lambda: edits(range(16)) + [b"\3n,,n=root,r=nonce\xffc=biws,r=nonce,p=AAAA", b"\x0bn,,n=root,r=x", b"\x13\0root\0pwd",
                                         b"\x1b", b"\4n,,n=root,r=nonce", b"\4y,a=x,n=a=2Cb,r=n"],
}


def main():
    target, corpus = sys.argv[1:]
    seeds = [s.encode() for s in FEW.get(target, [])] + SPECIAL.get(target, list)()
    if target in ("frames", "bson"):
        seeds += [f[f.find(b"\x10ping") - 4:] if target == "bson" else f for f in frames()]
    for registry in REGISTRIES.get(target, []):
        for path in glob.glob(os.path.join(GOLDEN, registry, "*.txt")):
            for case in open(path, encoding="utf-8").read().split("\n\n"):
                text = "\n".join(line for line in case.split("\n---")[0].split("\n") if not line.startswith("#"))
                _, _, rest = text.partition(" ")
                rest = rest.replace("\n", " ").replace("} {", "}\n{", 1)
                if 0 < len(rest) < 4096:
                    seeds.append(rest.encode())
    for seed in seeds:
        with open(os.path.join(corpus, hashlib.sha1(seed).hexdigest()), "wb") as f:
            f.write(seed)


main()

"""Reads files of diagnostic.data, by MongoDB's description of the format: independent of the server's code."""
import struct
import zlib
from datetime import datetime, timedelta

import bson
from bson import Timestamp
from bson.int64 import Int64


def leaves(document, path=()):
    """The numbers of a sample in their order: path and integer."""
    items = enumerate(document) if isinstance(document, list) else document.items()
    for name, value in items:
        here = path + (str(name),)
        if isinstance(value, (dict, list)):
            yield from leaves(value, here)
        elif isinstance(value, Timestamp):
            yield here + ("t",), value.time
            yield here + ("i",), value.inc
        elif isinstance(value, datetime):
            # Not by a floating-point number: it would be a millisecond off at times.
            yield here, (value - datetime(1970, 1, 1)) // timedelta(milliseconds=1)
        elif isinstance(value, (bool, int, float, Int64)):
            yield here, int(value)


class Varints:
    def __init__(self, data):
        self.data, self.at, self.zeroes = data, 0, 0

    def raw(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def next(self):
        if self.zeroes:
            self.zeroes -= 1
            return 0
        value = self.raw()
        if value == 0:
            self.zeroes = self.raw()
        return value


def chunk(data):
    """The samples of a chunk: dictionaries of path and number."""
    length = struct.unpack_from("<I", data)[0]
    content = zlib.decompress(data[4:])
    assert len(content) == length, "length of a chunk"
    size = struct.unpack_from("<I", content)[0]
    reference = dict(leaves(bson.decode(content[:size])))
    columns, rows = struct.unpack_from("<II", content, size)
    assert columns == len(reference), (columns, len(reference))
    deltas = Varints(content[size + 8:])
    samples = [dict(reference) for _ in range(rows + 1)]
    for path, value in reference.items():
        for row in range(rows):
            value = (value + deltas.next()) % 2**64
            samples[row + 1][path] = value - 2**64 if value >= 2**63 else value
    assert deltas.zeroes == 0 and deltas.at == len(deltas.data), "the end of a chunk"
    return samples


def chunks(file):
    """The data of each chunk of an open file, and the number of its samples."""
    for record in bson.decode_file_iter(file):
        if record["type"] == 1:
            data = record["data"]
            yield data, len(chunk(data))


def chunk_sizes(path):
    """The numbers of samples of the chunks of a file. The last record may be in the middle of being written."""
    sizes = []
    with open(path, "rb") as file:
        try:
            sizes.extend(count for _, count in chunks(file))
        except bson.errors.InvalidBSON:
            pass
    return sizes


def read(path):
    """Metadata documents and samples of a file."""
    facts, samples = [], []
    with open(path, "rb") as file:
        for record in bson.decode_file_iter(file):
            if record["type"] == 0:
                facts.append(record["doc"])
            elif record["type"] == 1:
                samples += chunk(record["data"])
    return facts, samples

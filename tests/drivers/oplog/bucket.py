"""A store that speaks as much of S3 as archives use: bucket.py PORT. For tests: signatures are not verified.

Objects are kept in memory. Uploads in parts, ranges and listings with a delimiter are supported, and a listing has at
most three entries, so that clients must ask for the rest. Every tenth request fails with 503, as those of a busy store.
"""
import sys
import threading
import urllib.parse
import xml.sax.saxutils
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(sys.argv[1])
PAGE = 3
lock, uploads, objects, count = threading.Lock(), {}, {}, [0]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, code, body=b"", **headers):
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def parts(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        bucket, _, key = urllib.parse.unquote(url.path).lstrip("/").partition("/")
        return bucket, key, query

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def busy(self):
        """True if this request is one of those that fail."""
        with lock:
            count[0] += 1
            fails = count[0] % 10 == 0
        if fails:
            self.body()
            self.reply(503, b"<Error><Code>SlowDown</Code></Error>")
        return fails or not self.signed()

    def signed(self):
        if self.headers.get("Authorization", "").startswith("AWS4-HMAC-SHA256"):
            return True
        self.body()
        self.reply(403, b"<Error><Code>AccessDenied</Code></Error>")
        return False

    def do_PUT(self):
        if self.busy():
            return
        _, key, query = self.parts()
        data = self.body()
        with lock:
            if "uploadId" in query:
                uploads[query["uploadId"]][int(query["partNumber"])] = data
            else:
                objects[key] = data
        self.reply(200, ETag='"%d"' % len(data))

    def do_POST(self):
        if self.busy():
            return
        _, key, query = self.parts()
        self.body()
        with lock:
            if "uploads" in query:
                number = str(len(uploads))
                uploads[number] = {}
                text = "<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>" % number
            else:
                parts = uploads[query["uploadId"]]
                objects[key] = b"".join(parts[at] for at in sorted(parts))
                text = '<CompleteMultipartUploadResult><ETag>"x"</ETag></CompleteMultipartUploadResult>'
        self.reply(200, text.encode())

    def do_DELETE(self):
        if self.busy():
            return
        _, key, query = self.parts()
        with lock:
            if "uploadId" in query:
                uploads.pop(query["uploadId"], None)
            else:
                objects.pop(key, None)
        self.reply(204)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        if self.busy():
            return
        _, key, query = self.parts()
        if "list-type" in query:
            return self.list(query)
        with lock:
            data = objects.get(key)
        if data is None:
            return self.reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
        headers = {"ETag": '"x"', "Last_Modified": "Thu, 26 Nov 2026 00:00:00 GMT"}
        asked = self.headers.get("Range")
        if not asked:
            return self.reply(200, data, **headers)
        first, last = asked.removeprefix("bytes=").split("-")
        first, last = int(first), min(int(last), len(data) - 1)
        headers["Content_Range"] = "bytes %d-%d/%d" % (first, last, len(data))
        self.reply(206, data[first:last + 1], **headers)

    def list(self, query):
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        found = {}
        with lock:
            for key, data in objects.items():
                if key.startswith(prefix):
                    rest = key[len(prefix):]
                    cut = delimiter and delimiter in rest
                    found[prefix + rest.split(delimiter)[0] + delimiter if cut else key] = None if cut else len(data)
        names = [name for name in sorted(found) if name > query.get("continuation-token", "")]
        page, escape = names[:PAGE], xml.sax.saxutils.escape
        text = "<ListBucketResult><Name>b</Name><IsTruncated>%s</IsTruncated>" % str(len(names) > PAGE).lower()
        if len(names) > PAGE:
            text += "<NextContinuationToken>%s</NextContinuationToken>" % escape(page[-1])
        for name in page:
            if found[name] is None:
                text += "<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>" % escape(name)
            else:
                text += ("<Contents><Key>%s</Key><Size>%d</Size><LastModified>2026-11-26T00:00:00.000Z</LastModified>"
                         '<ETag>"x"</ETag></Contents>' % (escape(name), found[name]))
        self.reply(200, (text + "</ListBucketResult>").encode())


ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()

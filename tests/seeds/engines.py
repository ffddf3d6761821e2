"""002: the two engines, the configuration file of the article, the limit of memory, compression."""
import json
import os
import subprocess
import time

from seed import FULL, MB, Skip, check, equal, step, wait_until

# The file as it is printed, with its remarks; the reader starts the server with `mongod -f`.
FILE = """\
storage:
   dbPath: data                       //データディレクトリのパス
   engine: wiredTiger                 //ストレージエンジンの名称
   journal:
      enabled: false                  //journal(先行書き込みログ)を有効にするかどうか
   wiredTiger:
      engineConfig:
         cacheSizeGB: 1               //キャッシュサイズの上限
         statisticsLogDelaySecs: 0    //稼働統計ログをどれ位遅延して出すか
         journalCompressor: none      //journalの圧縮有無
         directoryForIndexes: false   //インデックスごとにディレクトリを分けるか
      collectionConfig:
         blockCompressor: none        //コレクションの圧縮 snappy と zlibが指定可能
      indexConfig:
         prefixCompression: false     //インデックスのプレフィックスの圧縮
"""
DOCUMENTS = 10_000 if FULL else 330
LINES = """
longstr = ""
for(var i=0;i<100000;i++){longstr+="0123456789"}
for(var i=0;i<%d;i++){db.hoge.insert({a:longstr})}
print(db.stats()["dataSize"])
""" % DOCUMENTS
READ = """db.hoge.find().forEach(function(doc){ print(doc["a"].length);} );
print(EJSON.stringify(db.hoge.stats().wiredTiger.cache, {relaxed: true}));
"""


@step("002", "./bin/mongod --storageEngine wiredTiger")
def engine_by_option(bench):
    with bench.server("option", "--storageEngine", "wiredTiger") as server:
        equal("the engine", server.status()["storageEngine"]["name"], "wiredTiger")


@step("002", "細かく設定したいのであれば、以下の様な設定ファイル(yaml)を作りmongod-fで食わせて起動。")
def the_file_as_it_is_printed(bench):
    with bench.server("file", file=FILE) as server:
        parsed = server.client.admin.command("getCmdLineOpts")["parsed"]["storage"]
        wired = parsed["wiredTiger"]
        equal("dbPath", parsed["dbPath"], "data")
        equal("engine", server.status()["storageEngine"]["name"], "wiredTiger")
        equal("cacheSizeGB", server.status()["wiredTiger"]["cache"]["maximum bytes configured"], 1 << 30)
        equal("engineConfig", wired["engineConfig"], {"cacheSizeGB": 1, "directoryForIndexes": False,
                                                      "journalCompressor": "none", "statisticsLogDelaySecs": 0})
        server.client.test.c.insert_one({})
        stored = server.client.test.command("collStats", "c")["wiredTiger"]["creationString"]
        check("blockCompressor", "block_compressor=none" in stored, stored)
        warned = " ".join(server.client.admin.command("getLog", "startupWarnings")["log"])
        check("a warning names the lines", "The configuration file is not YAML" in warned and "2, 3, 5, 8, 9, 10, 11, 13, 15" in warned, warned)
        check("what holds instead", "Writes are always journaled" in warned and "prefix compression cannot be turned off" in warned, warned)
        check("in the folder", os.path.exists(os.path.join(server.folder, "data", "nagi.storage")), "")


@step("002", "設定ファイル例")
def other_mistakes_have_their_line(bench):
    path = os.path.join(bench.work, "wrong.conf")
    with open(path, "w", encoding="utf-8") as f:
        f.write(FILE.replace("cacheSizeGB: 1 ", "cacheSizeGB: much "))
    done = subprocess.run([bench.nagi, "serve", "-f", path], capture_output=True, text=True, timeout=60)
    check("the line", done.returncode == 2 and "bad value 'much'" in done.stderr and "(line 8 of" in done.stderr, done.stderr)


def columns(text):
    """The rows of mongostat by column."""
    rows, names = [], []
    for line in text.splitlines():
        words = line.split()
        if words and words[0] == "insert":
            names = words
        elif len(words) >= len(names) > 0:
            rows.append(dict(zip(names, words)))
    return names, rows


def size(text):
    units = {"B": 1, "K": 1 << 10, "M": MB, "G": 1 << 30}
    return float(text[:-1]) * units[text[-1]]


def plateau(bench, gigabytes):
    """The article's inserts and its scan under mongostat."""
    limit = gigabytes * (1 << 30)
    file = FILE.replace("cacheSizeGB: 1 ", "cacheSizeGB: %s " % gigabytes)
    with bench.server("limit", file=file) as server:
        command = [bench.mongostat, "--port", str(server.port), "1"]
        watch = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        printed = bench.shell(server, LINES)
        equal("dataSize", int(printed[-1]), DOCUMENTS * 1_000_030)
        printed = bench.shell(server, READ)
        equal("lengths", set(printed[:-1]), {"1000000"})
        watch.terminate()
        names, rows = columns(watch.communicate()[0])
        equal("columns", [name for name in ("getmore", "command", "dirty", "used", "flushes", "vsize", "res", "qrw", "arw", "conn")
                          if name not in names], [])
        check("no column of MongoDB 2", "locked_db" not in names, names)
        used, resident = [float(row["used"][:-1]) for row in rows], [size(row["res"]) for row in rows]
        check("the cache fills", max(used) > 60, used)
        check("and never more", max(used) <= 100 and max(float(row["dirty"][:-1]) for row in rows) <= 100, used)
        check("memory levels off", max(resident) <= limit * 1.10 + 64 * MB, (max(resident) / MB, limit / MB))
        check("late rows are not larger", max(resident[-3:]) <= max(resident) and min(resident[-3:]) > limit * 0.3, resident)
        check("vsize", all(size(row["vsize"]) >= size(row["res"]) for row in rows), rows[-1])
        check("flushes", sum(int(row["flushes"]) for row in rows) > 0, rows)
        check("getmore", sum(int(row["getmore"].strip("*")) for row in rows) > 0, rows)
        cache = json.loads(printed[-1])
        status = server.status()["wiredTiger"]["cache"]["bytes currently in the cache"]
        check("collection.stats()", limit * 0.2 < cache["bytes currently in the cache"] <= status * 1.3, (cache, status))
        return "cacheSizeGB %s: used %.0f to %.0f %%, res levels off at %.0f MB (%d rows)" % (
            gigabytes, min(used), max(used), max(resident) / MB, len(rows))


@step("002", "1Gに設定すると、メモリ使用量は900Mで頭打ち")
def memory_levels_off(bench):
    return plateau(bench, 1 if FULL else 0.25)


@step("002", "2Gと設定すると、メモリ使用量は1.6Gで頭打ち")
def memory_levels_off_later(bench):
    if not FULL:
        raise Skip("needs FULL=1")
    return plateau(bench, 2)


@step("002", "none 10,038,214,656 170")
def sizes_and_times_by_compressor(bench):
    documents, said, bytes_by = (10_000 if FULL else 40), [], {}
    for name in ("none", "snappy", "zlib"):
        file = FILE.replace("blockCompressor: none ", "blockCompressor: %s " % name)
        lines = LINES.replace("i<%d;" % DOCUMENTS, "i<%d;" % documents)
        with bench.server("compressor", file=file) as server:
            begin = time.time()
            equal("dataSize", int(bench.shell(server, lines)[-1]), documents * 1_000_030)
            insert = time.time() - begin
        # "MongoDB is stopped to empty the memory once."
        with bench.server("compressor", file=file, keep=True) as server:
            begin = time.time()
            text = 'db.hoge.find().limit(%d).forEach(function(doc){ print(doc["a"].length);} );' % (documents // 2)
            equal("lengths", len(bench.shell(server, text)), documents // 2)
            read = time.time() - begin
            bytes_by[name] = server.client.test.command("collStats", "hoge")["storageSize"]
        said.append("%s %.1f MB, %.1f s, read %.1f s" % (name, bytes_by[name] / MB, insert, read))
    scale = documents / 10_000
    check("none", documents * 1_000_000 <= bytes_by["none"] <= 10_038_214_656 * scale * 1.02, bytes_by)
    check("snappy is not larger than in the article", bytes_by["snappy"] <= 491_556_864 * scale, bytes_by)
    check("nor is zlib", bytes_by["zlib"] <= 41_123_840 * scale, bytes_by)
    return "%d documents: %s" % (documents, "; ".join(said))


@step("002", "データ圧縮できない")
def the_mapped_engine_has_neither(bench):
    """No compression and no limit; options of the other engine are named in the log."""
    with bench.server("unused", "--storageEngine", "mmapv1", "--wiredTigerCollectionBlockCompressor", "zlib") as server:
        warned = [line["attr"] for line in server.lines() if "no effect with this storage engine" in line["msg"]]
        check("a warning", warned and "blockCompressor" in warned[0]["options"], warned)
        check("no share of a cache", "cache" not in server.status().get("wiredTiger", {}), "")
        watch = subprocess.run([bench.mongostat, "--port", str(server.port), "-n", "2", "1"], capture_output=True, text=True)
        names, _ = columns(watch.stdout)
        check("mongostat's columns of this engine", {"mapped", "faults"} <= set(names) and "used" not in names, names)
        check("the log says so at once", wait_until(lambda: server.said("datafile"), 5), "")

"""004: the default size of the cache, hits and misses, statistics, compaction, recovery after a crash."""
import os

from seed import FULL, MB, check, equal, step


@step("004", "デフォルトでは、WiredTigerキャッシュサイズはシステムメモリを引いた50%マイナス1GBです")
def default_size_of_the_cache(bench):
    # Files read past the page cache leave more memory to the server: three quarters of it (docs/memory.md).
    with bench.server("default", "--directIO", "false") as server:
        with open("/proc/meminfo") as f:
            memory = int(f.readline().split()[1]) << 10
        limit = server.status()["wiredTiger"]["cache"]["maximum bytes configured"]
        wanted = max((memory - (1 << 30)) // 2, 256 * MB)
        check("half of what exceeds 1 GB", abs(limit - wanted) < wanted * 0.01, (limit, wanted))
        return "%d MB of %d MB" % (limit // MB, memory // MB)


@step("004", "WiredTigerキャッシュのヒット率は100%、アクセスがなく、ファイルシステムキャッシュにバイトが読み取られていないことがわかりました")
def a_working_set_in_the_cache(bench):
    """Uniform reads by `_id`: once all is in the cache, no page is read any more; of a set beyond it, pages are read."""
    documents, gigabytes = (200_000, 1) if FULL else (20_000, 0.25)
    with bench.server("hits", "--cacheSizeGB", str(gigabytes), "--wiredTigerCollectionBlockCompressor", "none") as server:
        c = server.client.ycsb.usertable
        for first in range(0, documents, 1000):
            c.insert_many([{"_id": "user%d" % n, "field0": os.urandom(500).hex()} for n in range(first, first + 1000)])
        server.client.admin.command("fsync")
        cache = lambda: server.status()["wiredTiger"]["cache"]
        names = ("bytes currently in the cache", "maximum bytes configured", "bytes read into cache", "pages read into cache",
                 "pages requested from the cache", "bytes written from cache", "tracked dirty bytes in the cache")
        equal("figures", [name for name in names if name not in cache()], [])
        for _ in range(2):
            before = cache()
            for n in range(0, documents, 7):
                c.find_one({"_id": "user%d" % (n * 7919 % documents)})
            after = cache()
        equal("pages read in the second round", after["pages read into cache"] - before["pages read into cache"], 0)
        statistics(server)


def statistics(server):
    """db.stats() and db.collection.stats(): the sizes of data and indexes, and what of them is in the cache."""
    all_, one = server.client.ycsb.command("dbStats"), server.client.ycsb.command("collStats", "usertable")
    equal("the same size", int(all_["dataSize"]), one["size"])
    check("indexes", one["totalIndexSize"] == all_["indexSize"] and one["indexSizes"]["_id_"] > 0, (one["indexSizes"], all_))
    cache, index = one["wiredTiger"]["cache"], one["indexDetails"]["_id_"]["cache"]
    most = server.status()["wiredTiger"]["cache"]["bytes currently in the cache"]
    for name, figures in (("documents", cache), ("index", index)):
        both = figures["bytes currently in the cache"], figures["tracked dirty bytes in the cache"]
        check(name + " in the cache", 0 <= both[1] <= both[0] <= most, (both, most))
    check("most documents are in the cache", cache["bytes currently in the cache"] > one["size"] * 0.5, (cache, one["size"]))


@step("004", "db.collection.stats()")
def statistics_follow_the_reads(bench):
    """After a start the cache is empty; a scan brings the collection into it, and not its neighbour."""
    with bench.server("follow", "--cacheSizeGB", "0.25", "--wiredTigerCollectionBlockCompressor", "none") as server:
        for name in ("one", "two"):
            server.client.test[name].insert_many([{"_id": n, "text": os.urandom(2000).hex()} for n in range(15_000)])
        # A stop leaves much that is in memory to the log, which the next start reads into memory.
        for name in ("one", "two"):
            server.client.test.command("compact", name)
    with bench.server("follow", "--cacheSizeGB", "0.25", "--cacheWarmUp", "false", keep=True) as server:
        stats = lambda name: server.client.test.command("collStats", name)
        cached = lambda name: stats(name)["wiredTiger"]["cache"]["bytes currently in the cache"]
        size, cold = stats("one")["size"], cached("one")
        check("cold", cold < size * 0.3, (cold, size))
        list(server.client.test.one.find())
        one, two = cached("one"), cached("two")
        check("warm", size * 0.7 < one < size * 1.5, (one, size))
        check("not the neighbour", two < one * 0.5, (one, two))
        return "%d MB of %d MB in the cache, its neighbour %d MB" % (one // MB, size // MB, two // MB)


@step("004", "データファイルをデフラグして未使用のディスクスペースをリサイクルするコンパクトコマンドを使用すること")
def compact_frees_space(bench):
    with bench.server("compact", "--wiredTigerCollectionBlockCompressor", "none") as server:
        c = server.client.test.c
        c.insert_many([{"_id": n, "text": os.urandom(2000).hex()} for n in range(8000)])
        c.delete_many({"_id": {"$gte": 1000}})
        before = server.client.test.command("collStats", "c")["storageSize"]
        equal("compact", server.client.test.command("compact", "c")["ok"], 1)
        after = server.client.test.command("collStats", "c")["storageSize"]
        check("smaller", after < before * 0.5 or before < 8 * MB, (before, after))
        return "%.1f MB before, %.1f MB after" % (before / MB, after / MB)


@step("004", "MongoDBはクラッシュまたは停電から回復することができます")
def recovery_after_a_crash(bench):
    for engine in ("wiredTiger", "mmapv1"):
        with bench.server("crash-" + engine, "--storageEngine", engine) as server:
            for n in range(500):
                server.client.test.c.insert_one({"_id": n})
            server.kill()
        with bench.server("crash-" + engine, "--storageEngine", engine, "--logappend", keep=True) as server:
            equal(engine + ": all documents", server.client.test.c.count_documents({}), 500)
            if engine == "mmapv1":
                check("the log says so", server.said("^Recovered commits from the journal"), "")

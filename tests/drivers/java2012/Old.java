// The operations of programs of 2010-2014, through the Java driver 2.7.3: OP_INSERT, OP_UPDATE, OP_DELETE,
// OP_QUERY, OP_GET_MORE and getLastError. Usage: java Old HOST PORT DOCUMENTS INSERT_MS_MAX
import com.mongodb.*;
import java.util.*;
import java.util.concurrent.atomic.*;
import org.bson.types.*;

public class Old {
    static int passed, failed;

    static void check(String name, boolean ok, Object seen) {
        if (ok) {
            passed++;
        } else {
            failed++;
            System.out.println("FAILED " + name + ": " + seen);
        }
    }

    static void equal(String name, Object seen, Object expected) {
        check(name, expected == null ? seen == null : expected.equals(seen), "saw " + seen + ", expected " + expected);
    }

    static BasicDBObject o(Object... pairs) {
        BasicDBObject out = new BasicDBObject();
        for (int i = 0; i < pairs.length; i += 2) {
            out.put((String) pairs[i], pairs[i + 1]);
        }
        return out;
    }

    static DBObject list(Object... values) {
        BasicDBList out = new BasicDBList();
        out.addAll(Arrays.asList(values));
        return out;
    }

    public static void main(String[] args) throws Exception {
        Mongo mongo = new Mongo(args[0], Integer.parseInt(args[1]));
        DB db = mongo.getDB("nagi_java2012");
        db.dropDatabase();
        crud(db.getCollection("crud"));
        errors(db.getCollection("errors"));
        types(db.getCollection("types"));
        cursors(db.getCollection("cursors"));
        admin(mongo, db);
        load(db.getCollection("load"), Integer.parseInt(args[2]), Long.parseLong(args[3]));
        db.dropDatabase();
        mongo.close();
        System.out.println("java driver 2.7.3: " + passed + " assertions passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }

    static void crud(DBCollection c) {
        WriteResult r = c.insert(o("_id", 1, "name", "Ada", "born", 1815), WriteConcern.SAFE);
        check("insert", r.getLastError().ok() && r.getError() == null, r.getLastError());
        c.insert(new DBObject[] {o("_id", 2, "born", 1900), o("_id", 3, "born", 1950), o("_id", 4, "born", 2000)}, WriteConcern.SAFE);
        equal("count", c.count(), 4L);
        equal("findOne", c.findOne(o("_id", 1)).get("name"), "Ada");
        equal("findOne by id", c.findOne(2).get("born"), 1900);
        equal("nothing", c.findOne(o("_id", 404)), null);
        equal("count with filter", c.count(o("born", o("$gt", 1900))), 2L);
        equal("fields", c.findOne(o("_id", 1), o("born", 1)).keySet(), new HashSet<String>(Arrays.asList("_id", "born")));
        List<Object> ids = new ArrayList<Object>();
        for (DBObject d : c.find().sort(o("born", -1)).skip(1).limit(2)) {
            ids.add(d.get("_id"));
        }
        equal("sort, skip, limit", ids, Arrays.<Object>asList(3, 2));
        equal("negative limit", c.find().limit(-2).toArray().size(), 2);
        r = c.update(o("_id", 1), o("$set", o("x", 5), "$inc", o("born", 1)), false, false, WriteConcern.SAFE);
        equal("update n", r.getN(), 1);
        equal("updatedExisting", r.getField("updatedExisting"), true);
        equal("updated", c.findOne(1).get("born"), 1816);
        r = c.update(o("born", o("$gte", 1900)), o("$set", o("m", 1)), false, true, WriteConcern.SAFE);
        equal("multi", r.getN(), 3);
        r = c.update(o("_id", 77), o("$set", o("u", 1)), true, false, WriteConcern.SAFE);
        equal("upsert", r.getField("updatedExisting"), false);
        equal("upserted", c.findOne(77).get("u"), 1);
        ObjectId generated = new ObjectId();
        r = c.update(o("k", "v"), o("$set", o("u", 2)), true, false, WriteConcern.SAFE);
        check("upserted id", r.getField("upserted") instanceof ObjectId, r.getField("upserted"));
        c.save(o("_id", 77, "whole", true));
        equal("save replaces", c.findOne(77).keySet().size(), 2);
        c.save(o("_id", generated, "new", true), WriteConcern.SAFE);
        equal("save inserts", c.findOne(generated).get("new"), true);
        r = c.remove(o("_id", generated), WriteConcern.SAFE);
        equal("remove", r.getN(), 1);
        DBObject was = c.findAndModify(o("_id", 2), null, null, false, o("$inc", o("born", 1)), false, false);
        equal("findAndModify old", was.get("born"), 1900);
        DBObject is = c.findAndModify(o("_id", 2), null, null, false, o("$inc", o("born", 1)), true, false);
        equal("findAndModify new", is.get("born"), 1902);
        check("findAndRemove", c.findAndRemove(o("_id", 4)) != null && c.findOne(4) == null, null);
        equal("distinct", c.distinct("m").size(), 1);
        equal("in", c.count(o("_id", o("$in", new int[] {1, 2, 99}))), 2L);
        c.update(o("_id", 1), o("$push", o("l", 1)), false, false, WriteConcern.SAFE);
        c.update(o("_id", 1), o("$pushAll", o("l", new int[] {2, 3})), false, false);
        c.update(o("_id", 1), o("$addToSet", o("s", "a")), false, false, WriteConcern.SAFE);
        check("arrays", ((List<?>) c.findOne(1).get("l")).size() >= 1 && ((List<?>) c.findOne(1).get("s")).size() == 1, c.findOne(1));
        c.insert(o("_id", "none"), WriteConcern.NONE);
        c.insert(o("_id", "normal"), WriteConcern.NORMAL);
        c.insert(o("_id", "fsync"), WriteConcern.FSYNC_SAFE);
        c.insert(o("_id", "journal"), WriteConcern.JOURNAL_SAFE);
        equal("write concerns", c.count(o("_id", o("$in", new String[] {"none", "normal", "fsync", "journal"}))), 4L);
    }

    static void errors(DBCollection c) {
        c.insert(o("_id", 1), WriteConcern.SAFE);
        try {
            c.insert(o("_id", 1), WriteConcern.SAFE);
            check("duplicate key", false, "no error");
        } catch (MongoException.DuplicateKey e) {
            equal("duplicate key", e.getCode(), 11000);
            check("text", e.getMessage().contains("E11000 duplicate key error"), e.getMessage());
        }
        c.insert(o("_id", 1), WriteConcern.NORMAL);
        CommandResult gle = c.getDB().getLastError();
        check("getLastError later", gle.getString("err") != null && gle.getInt("code") == 11000, gle);
        c.insert(o("_id", 2), WriteConcern.NORMAL);
        equal("getLastError is reset", c.getDB().getLastError().get("err"), null);
        try {
            c.findOne(o("a", o("$nope", 1)));
            check("bad query", false, "no error");
        } catch (MongoException e) {
            check("bad query", e.getMessage().contains("$nope"), e.getMessage());
        }
        try {
            c.update(o("_id", 1), o("$nope", o("a", 1)), false, false, WriteConcern.SAFE);
            check("bad modifier", false, "no error");
        } catch (MongoException e) {
            check("bad modifier", true, e);
        }
        CommandResult r = c.getDB().command("noSuchCommand");
        check("unknown command", !r.ok() && r.getErrorMessage().contains("no such c"), r);
        c.insert(new DBObject[] {o("_id", 10), o("_id", 1), o("_id", 11)});
        check("batch stops at the first error", c.findOne(10) != null && c.findOne(11) == null, c.find().toArray());
    }

    static void types(DBCollection c) throws Exception {
        Date now = new Date();
        Object[] values = {1.5, "text \u00e9\u4e2d", o("a", o()), list(1, list()), new byte[] {1, 2, 3}, new ObjectId(), true, now, null,
            java.util.regex.Pattern.compile("^a", java.util.regex.Pattern.CASE_INSENSITIVE), new Code("f()"), 7, new BSONTimestamp(5, 6),
            1L << 40, new MinKey(), new MaxKey(), new Binary((byte) 5, new byte[16]), UUID.randomUUID(), new Symbol("s")};
        for (int i = 0; i < values.length; i++) {
            c.insert(o("_id", i, "v", values[i]), WriteConcern.SAFE);
            Object back = c.findOne(i).get("v");
            boolean same = values[i] instanceof byte[] ? Arrays.equals((byte[]) values[i], (byte[]) back)
                : values[i] == null ? back == null
                : values[i] instanceof java.util.regex.Pattern ? back.toString().equals(values[i].toString())
                : values[i] instanceof Symbol || values[i] instanceof MinKey || values[i] instanceof MaxKey
                    || values[i] instanceof Binary ? back != null
                : values[i].equals(back);
            check("type " + i, same, back);
        }
    }

    static void cursors(DBCollection c) {
        for (int i = 0; i < 5000; i += 100) {
            List<DBObject> batch = new ArrayList<DBObject>();
            for (int j = i; j < i + 100; j++) {
                batch.add(o("_id", j, "k", j % 10));
            }
            c.insert(batch);
        }
        equal("5,000 inserted", c.count(), 5000L);
        for (int size : new int[] {0, 2, 97, 1000}) {
            int n = 0;
            DBCursor cursor = c.find().batchSize(size);
            while (cursor.hasNext()) {
                cursor.next();
                n++;
            }
            equal("batch size " + size, n, 5000);
        }
        DBCursor open = c.find().batchSize(10);
        open.next();
        open.close();
        c.ensureIndex(o("k", 1));
        equal("index", c.getIndexInfo().size(), 2);
        equal("hinted", c.find(o("k", 3)).hint("k_1").count(), 500);
        equal("sorted by index", c.find(o("k", o("$gte", 8))).sort(o("k", -1)).limit(1).toArray().get(0).get("k"), 9);
        check("explain", c.find(o("k", 3)).explain() != null, null);
        equal("snapshot", c.find().snapshot().toArray().size(), 5000);
        c.dropIndexes();
        equal("dropIndexes", c.getIndexInfo().size(), 1);
        AtomicInteger n = new AtomicInteger();
        for (DBObject d : c.find(o("$query", o("k", 1), "$orderby", o("_id", -1)))) {
            n.incrementAndGet();
        }
        equal("wrapped query", n.get(), 500);
    }

    static void admin(Mongo mongo, DB db) {
        check("databases", mongo.getDatabaseNames().contains("nagi_java2012"), mongo.getDatabaseNames());
        check("collections", db.getCollectionNames().contains("crud"), db.getCollectionNames());
        check("stats", db.getStats().ok() && db.getCollection("crud").getStats().ok(), db.getStats());
        DBCollection c = db.createCollection("made", o("capped", false));
        c.insert(o("a", 1), WriteConcern.SAFE);
        c.rename("renamed");
        equal("rename", db.getCollection("renamed").count(), 1L);
        db.getCollection("renamed").drop();
        check("drop", !db.getCollectionNames().contains("renamed"), db.getCollectionNames());
        check("isMaster", db.command("isMaster").getBoolean("ismaster"), null);
    }

    /** One thread inserts, another counts: counts never shrink, and the last one is the number of inserted documents. */
    static void load(final DBCollection c, final int documents, long limit) throws Exception {
        final AtomicBoolean done = new AtomicBoolean();
        final AtomicReference<Throwable> problem = new AtomicReference<Throwable>();
        final AtomicLong slowest = new AtomicLong();
        Thread writer = new Thread() {
            public void run() {
                Random random = new Random(1);
                byte[] bytes = new byte[1024];
                try {
                    for (int i = 0; i < documents; i++) {
                        random.nextBytes(bytes);
                        long start = System.nanoTime();
                        c.insert(o("data", new String(bytes, "ISO-8859-1")), WriteConcern.SAFE);
                        slowest.set(Math.max(slowest.get(), (System.nanoTime() - start) / 1000000));
                    }
                } catch (Throwable e) {
                    problem.set(e);
                }
                done.set(true);
            }
        };
        writer.start();
        long last = 0;
        boolean grows = true;
        while (!done.get()) {
            long count = c.count();
            grows &= count >= last;
            last = count;
            Thread.sleep(50);
        }
        writer.join();
        equal("no error while loading", problem.get(), null);
        check("counts never shrink", grows, last);
        equal("last count", c.count(), (long) documents);
        check("no insert over " + limit + " ms", slowest.get() <= limit, slowest.get());
        System.out.println("loaded " + documents + " documents, slowest insert " + slowest.get() + " ms");
    }
}

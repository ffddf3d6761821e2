// The typical operations of an application through the current synchronous Java driver. Usage: java Crud URI
import static com.mongodb.client.model.Filters.*;
import static com.mongodb.client.model.Updates.*;

import com.mongodb.*;
import com.mongodb.bulk.BulkWriteResult;
import com.mongodb.client.*;
import com.mongodb.client.model.*;
import com.mongodb.client.result.*;
import java.util.*;
import java.util.stream.*;
import org.bson.*;
import org.bson.types.*;

public class Crud {
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
        check(name, Objects.equals(seen, expected), "saw " + seen + ", expected " + expected);
    }

    static void fails(String name, int code, Runnable f) {
        try {
            f.run();
            check(name, false, "no error");
        } catch (MongoException e) {
            check(name, e.getCode() == code, e.getCode() + " " + e.getMessage());
        }
    }

    static Document d(Object... pairs) {
        Document out = new Document();
        for (int i = 0; i < pairs.length; i += 2) {
            out.append((String) pairs[i], pairs[i + 1]);
        }
        return out;
    }

    public static void main(String[] args) {
        try (MongoClient client = MongoClients.create(args[0])) {
            MongoDatabase db = client.getDatabase("nagi_java");
            db.drop();
            crud(db.getCollection("crud"));
            updates(db.getCollection("updates"));
            errors(db, db.getCollection("errors"));
            cursors(db.getCollection("many"));
            types(db.getCollection("types", RawBsonDocument.class));
            admin(client, db);
            db.drop();
        }
        System.out.println("java driver: " + passed + " assertions passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }

    static void crud(MongoCollection<Document> c) {
        equal("insertOne", c.insertOne(d("_id", 1, "name", "Ada", "born", 1815)).getInsertedId(), new BsonInt32(1));
        InsertManyResult m = c.insertMany(IntStream.range(2, 12)
            .mapToObj(i -> d("_id", i, "born", 1900 + i, "n", d("a", i % 3), "t", List.of(i, i + 1))).collect(Collectors.toList()));
        equal("insertMany", m.getInsertedIds().size(), 10);
        equal("find first", c.find(eq("_id", 1)).first(), d("_id", 1, "name", "Ada", "born", 1815));
        equal("nothing", c.find(eq("_id", 404)).first(), null);
        equal("range", c.countDocuments(and(gte("born", 1905), lt("born", 1908))), 3L);
        equal("dotted", c.countDocuments(eq("n.a", 0)), 3L);
        equal("elements", c.countDocuments(all("t", 5, 6)), 1L);
        equal("elemMatch", c.countDocuments(elemMatch("t", new Document("$gt", 10).append("$lt", 12))), 2L);
        equal("or", c.countDocuments(or(eq("_id", 1), eq("born", 1902))), 2L);
        equal("nin", c.countDocuments(nin("_id", 1, 2)), 9L);
        equal("exists", c.countDocuments(exists("name")), 1L);
        equal("type", c.countDocuments(type("name", BsonType.STRING)), 1L);
        equal("mod", c.countDocuments(mod("_id", 5, 0)), 2L);
        equal("regex", c.countDocuments(regex("name", "^a", "i")), 1L);
        equal("size", c.countDocuments(size("t", 2)), 10L);
        equal("not", c.countDocuments(not(gt("born", 1900))), 1L);
        equal("estimated", c.estimatedDocumentCount(), 11L);
        List<Integer> ids = c.find().sort(Sorts.descending("born")).skip(1).limit(3).projection(Projections.include("_id"))
            .map(x -> x.getInteger("_id")).into(new ArrayList<>());
        equal("sort skip limit", ids, List.of(10, 9, 8));
        equal("distinct", c.distinct("n.a", Integer.class).into(new TreeSet<>()), new TreeSet<>(Set.of(0, 1, 2)));
        equal("exclude", c.find(eq("_id", 2)).projection(Projections.exclude("t", "n")).first(), d("_id", 2, "born", 1902));
        equal("slice", c.find(eq("_id", 2)).projection(Projections.slice("t", 1)).first().get("t"), List.of(2));
    }

    static void updates(MongoCollection<Document> c) {
        for (int i = 0; i < 5; i++) {
            c.insertOne(d("_id", i, "a", i, "l", List.of(1, 2, 3)));
        }
        UpdateResult r = c.updateOne(eq("_id", 1), combine(inc("a", 5), set("n.x", "y"), push("l", 4)));
        equal("updateOne", r.getModifiedCount(), 1L);
        equal("updated", c.find(eq("_id", 1)).first(), d("_id", 1, "a", 6, "l", List.of(1, 2, 3, 4), "n", d("x", "y")));
        equal("updateMany", c.updateMany(lt("a", 5), mul("a", 2)).getMatchedCount(), 4L);
        r = c.updateOne(eq("_id", "up"), setOnInsert("s", 1), new UpdateOptions().upsert(true));
        equal("upsert", r.getUpsertedId(), new BsonString("up"));
        equal("replaceOne", c.replaceOne(eq("_id", "up"), d("z", 1)).getModifiedCount(), 1L);
        Document after = c.findOneAndUpdate(eq("_id", 2), unset("l"), new FindOneAndUpdateOptions().returnDocument(ReturnDocument.AFTER));
        equal("findOneAndUpdate", after, d("_id", 2, "a", 4));
        equal("findOneAndDelete", c.findOneAndDelete(eq("_id", 3)).get("_id"), 3);
        c.updateOne(eq("_id", 4), set("g", List.of(d("k", 1), d("k", 2))));
        c.updateOne(eq("_id", 4), set("g.$[e].v", 9), new UpdateOptions().arrayFilters(List.of(eq("e.k", 2))));
        equal("arrayFilters", c.find(eq("_id", 4)).first().get("g"), List.of(d("k", 1), d("k", 2, "v", 9)));
        BulkWriteResult b = c.bulkWrite(List.of(new InsertOneModel<>(d("_id", 100)), new UpdateManyModel<>(new Document(), set("b", 1)),
            new DeleteOneModel<>(eq("_id", 0)), new ReplaceOneModel<>(eq("_id", 101), d("q", 1), new ReplaceOptions().upsert(true))));
        equal("bulkWrite", List.of(b.getInsertedCount(), b.getModifiedCount(), b.getDeletedCount(), b.getUpserts().size()),
            List.of(1, 6, 1, 1));
        equal("deleteMany", c.deleteMany(new Document()).getDeletedCount(), 6L);
    }

    static void errors(MongoDatabase db, MongoCollection<Document> c) {
        equal("createIndex", c.createIndex(Indexes.ascending("u"), new IndexOptions().unique(true)), "u_1");
        c.insertOne(d("_id", 1, "u", "a"));
        try {
            c.insertOne(d("_id", 2, "u", "a"));
            check("duplicate", false, "no error");
        } catch (MongoWriteException e) {
            equal("duplicate", e.getError().getCategory(), ErrorCategory.DUPLICATE_KEY);
            check("text", e.getMessage().contains("index: u_1 dup key: { u: \"a\" }"), e.getMessage());
        }
        fails("unknown command", 59, () -> db.runCommand(d("nope", 1)));
        fails("unknown argument", 40415, () -> db.runCommand(d("find", "errors", "nope", 1)));
        fails("wrong type", 14, () -> db.runCommand(d("find", "errors", "limit", "x")));
        fails("unknown operator", 2, () -> c.find(d("a", d("$nope", 1))).first());
        fails("unknown modifier", 9, () -> c.updateOne(eq("_id", 1), d("$nope", d("a", 1))));
        fails("unknown stage", 40324, () -> c.aggregate(List.of(d("$nope", 1))).first());
        fails("conflict", 40, () -> c.updateOne(eq("_id", 1), d("$set", d("a", 1), "$unset", d("a.b", 1))));
        fails("immutable", 66, () -> c.replaceOne(eq("_id", 1), d("_id", 9)));
    }

    static void cursors(MongoCollection<Document> c) {
        c.insertMany(IntStream.range(0, 10000).mapToObj(i -> d("_id", i, "k", i % 10)).collect(Collectors.toList()));
        equal("batches", StreamSupport.stream(c.find().batchSize(99).spliterator(), false).count(), 10000L);
        int last = -1;
        boolean ordered = true;
        for (Document x : c.find().sort(Sorts.ascending("_id")).batchSize(777)) {
            ordered &= x.getInteger("_id") == ++last;
        }
        check("ordered batches", ordered && last == 9999, last);
        List<Document> groups = c.aggregate(List.of(Aggregates.match(lt("_id", 100)),
            Aggregates.group("$k", Accumulators.sum("n", 1), Accumulators.max("hi", "$_id")), Aggregates.sort(Sorts.ascending("_id"))))
            .into(new ArrayList<>());
        equal("groups", groups.get(4), d("_id", 4, "n", 10, "hi", 94));
        check("explain", c.find(eq("_id", 3)).explain().toJson().contains("winningPlan"), null);
    }

    static void types(MongoCollection<RawBsonDocument> c) {
        BsonValue[] values = {new BsonDouble(1.5), new BsonDouble(-0.0), new BsonString("\u00e9\u4e2d"), new BsonDocument("a", new BsonNull()),
            new BsonArray(List.of(new BsonInt32(1))), new BsonBinary(new byte[] {1}), new BsonBinary((byte) 0x80, new byte[] {2}),
            new BsonUndefined(), new BsonObjectId(new ObjectId()), BsonBoolean.TRUE, new BsonDateTime(-5), BsonNull.VALUE,
            new BsonRegularExpression("a", "im"), new BsonDbPointer("a.b", new ObjectId()), new BsonJavaScript("f()"),
            new BsonSymbol("s"), new BsonJavaScriptWithScope("f()", new BsonDocument("x", new BsonInt32(1))), new BsonInt32(-1),
            new BsonTimestamp(7, 8), new BsonInt64(Long.MIN_VALUE), new BsonDecimal128(Decimal128.parse("1E-6176")), new BsonMinKey(),
            new BsonMaxKey()};
        for (int i = 0; i < values.length; i++) {
            BsonDocument sent = new BsonDocument("_id", new BsonInt32(i)).append("v", values[i]);
            RawBsonDocument raw = new RawBsonDocument(sent, new org.bson.codecs.BsonDocumentCodec());
            c.insertOne(raw);
            RawBsonDocument back = c.find(eq("_id", i)).first();
            check("bytes of " + values[i], raw.getByteBuffer().asNIO().equals(back.getByteBuffer().asNIO()), back);
        }
    }

    static void admin(MongoClient client, MongoDatabase db) {
        check("databases", client.listDatabaseNames().into(new ArrayList<>()).contains("nagi_java"), null);
        check("collections", db.listCollectionNames().into(new ArrayList<>()).containsAll(List.of("crud", "many")), null);
        db.createCollection("made");
        db.getCollection("made").renameCollection(new MongoNamespace("nagi_java", "renamed"));
        db.getCollection("renamed").drop();
        equal("indexes", db.getCollection("errors").listIndexes().into(new ArrayList<>()).size(), 2);
        db.getCollection("errors").dropIndex("u_1");
        equal("dropIndex", db.getCollection("errors").listIndexes().into(new ArrayList<>()).size(), 1);
        equal("collStats", ((Number) db.runCommand(d("collStats", "many")).get("count")).intValue(), 10000);
        equal("wire version", db.runCommand(d("hello", 1)).getInteger("maxWireVersion"), 25);
        try (ClientSession s = client.startSession()) {
            check("session", db.getCollection("crud").find(s, eq("_id", 1)).first() != null, null);
        }
        WriteConcern durable = WriteConcern.MAJORITY.withJournal(true);
        db.getCollection("crud").withWriteConcern(durable).insertOne(d("_id", "durable"));
        equal("durable", db.getCollection("crud").countDocuments(eq("_id", "durable")), 1L);
    }
}

// The typical operations of an application through the Go driver: crud URI.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

var passed, failed int
var ctx = context.Background()

func check(name string, ok bool, seen ...any) {
	if ok {
		passed++
		return
	}
	failed++
	fmt.Println("FAILED", name, seen)
}

func equal(name string, seen, expected any) {
	check(name, reflect.DeepEqual(seen, expected), fmt.Sprintf("saw %v (%T), expected %v (%T)", seen, seen, expected, expected))
}

func none(name string, err error) bool {
	check(name, err == nil, err)
	return err == nil
}

func fails(name string, code int, err error) {
	var server mongo.ServerError
	check(name, errors.As(err, &server) && server.HasErrorCode(code), err)
}

func commands(client *mongo.Client, db *mongo.Database) {
	var hello bson.M
	none("hello", db.RunCommand(ctx, bson.D{{"hello", 1}}).Decode(&hello))
	equal("writable", hello["isWritablePrimary"], true)
	equal("wire version", hello["maxWireVersion"], int32(25))
	var info bson.M
	none("buildInfo", db.RunCommand(ctx, bson.D{{"buildInfo", 1}}).Decode(&info))
	check("version", strings.HasPrefix(fmt.Sprint(info["version"]), "8.0"), info["version"])
	none("ping", client.Ping(ctx, nil))
	fails("unknown command", 59, db.RunCommand(ctx, bson.D{{"nope", 1}}).Err())
	fails("unknown argument", 40415, db.RunCommand(ctx, bson.D{{"find", "x"}, {"nope", 1}}).Err())
	fails("wrong type", 14, db.RunCommand(ctx, bson.D{{"find", "x"}, {"filter", 1}}).Err())
}

func insertFind(db *mongo.Database) {
	c := db.Collection("people")
	r, err := c.InsertOne(ctx, bson.D{{"_id", 1}, {"name", "Ada"}, {"born", 1815}})
	check("InsertOne", err == nil && r.InsertedID == int32(1), r, err)
	var docs []any
	for i := 2; i < 12; i++ {
		docs = append(docs, bson.D{{"_id", i}, {"born", 1900 + i}, {"n", bson.D{{"a", i % 3}}}, {"t", bson.A{i, i + 1}}})
	}
	m, err := c.InsertMany(ctx, docs)
	check("InsertMany", err == nil && len(m.InsertedIDs) == 10, err)
	var d bson.D
	none("FindOne", c.FindOne(ctx, bson.D{{"_id", 1}}).Decode(&d))
	equal("document", d, bson.D{{"_id", int32(1)}, {"name", "Ada"}, {"born", int32(1815)}})
	equal("no document", c.FindOne(ctx, bson.D{{"_id", 404}}).Err(), mongo.ErrNoDocuments)
	count := func(name string, filter bson.D, expected int64) {
		n, err := c.CountDocuments(ctx, filter)
		check(name, err == nil && n == expected, n, err)
	}
	count("range", bson.D{{"born", bson.D{{"$gte", 1905}, {"$lt", 1908}}}}, 3)
	count("dotted", bson.D{{"n.a", 0}}, 3)
	count("array element", bson.D{{"t", 5}}, 2)
	count("and, or", bson.D{{"$or", bson.A{bson.D{{"_id", 1}}, bson.D{{"$and", bson.A{bson.D{{"t", 5}}, bson.D{{"t", 4}}}}}}}}, 2)
	count("exists", bson.D{{"name", bson.D{{"$exists", false}}}}, 10)
	count("size", bson.D{{"t", bson.D{{"$size", 2}}}}, 10)
	count("elemMatch", bson.D{{"t", bson.D{{"$elemMatch", bson.D{{"$gt", 10}, {"$lt", 12}}}}}}, 2)
	count("nin", bson.D{{"_id", bson.D{{"$nin", bson.A{1, 2, 3}}}}}, 8)
	n, err := c.EstimatedDocumentCount(ctx)
	check("estimated", err == nil && n == 11, n, err)
	var values []int32
	none("distinct", c.Distinct(ctx, "n.a", bson.D{}).Decode(&values))
	equal("distinct values", len(values), 3)
	cur, err := c.Find(ctx, bson.D{}, options.Find().SetSort(bson.D{{"born", -1}}).SetSkip(2).SetLimit(3).SetProjection(bson.D{{"_id", 1}}))
	var sorted []bson.D
	if none("Find", err) {
		none("All", cur.All(ctx, &sorted))
		equal("sorted", sorted, []bson.D{{{"_id", int32(9)}}, {{"_id", int32(8)}}, {{"_id", int32(7)}}})
	}
}

func updates(db *mongo.Database) {
	c := db.Collection("updates")
	for i := 0; i < 5; i++ {
		_, err := c.InsertOne(ctx, bson.D{{"_id", i}, {"a", i}, {"l", bson.A{1, 2}}})
		none("insert", err)
	}
	r, err := c.UpdateOne(ctx, bson.D{{"_id", 1}}, bson.D{{"$inc", bson.D{{"a", int64(1) << 40}}}, {"$push", bson.D{{"l", 3}}}})
	check("UpdateOne", err == nil && r.MatchedCount == 1 && r.ModifiedCount == 1, err)
	var d bson.M
	none("read", c.FindOne(ctx, bson.D{{"_id", 1}}).Decode(&d))
	equal("widened to int64", d["a"], int64(1)<<40+1)
	r, err = c.UpdateMany(ctx, bson.D{}, bson.D{{"$set", bson.D{{"s", true}}}})
	check("UpdateMany", err == nil && r.MatchedCount == 5 && r.ModifiedCount == 5, err)
	r, err = c.UpdateOne(ctx, bson.D{{"_id", "new"}}, bson.D{{"$set", bson.D{{"x", 1}}}}, options.UpdateOne().SetUpsert(true))
	check("upsert", err == nil && r.UpsertedID == "new", err)
	r, err = c.ReplaceOne(ctx, bson.D{{"_id", "new"}}, bson.D{{"y", 2}})
	check("ReplaceOne", err == nil && r.ModifiedCount == 1, err)
	d = nil
	none("FindOneAndUpdate", c.FindOneAndUpdate(ctx, bson.D{{"_id", 2}}, bson.D{{"$unset", bson.D{{"l", ""}}}},
		options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&d))
	equal("after", d, bson.M{"_id": int32(2), "a": int32(2), "s": true})
	none("FindOneAndDelete", c.FindOneAndDelete(ctx, bson.D{{"_id", 3}}).Err())
	_, err = c.UpdateOne(ctx, bson.D{{"_id", 4}}, bson.D{{"$set", bson.D{{"$bad", 1}}}})
	check("dollar name refused or stored", true, err)
	_, err = c.UpdateOne(ctx, bson.D{{"_id", 4}}, bson.D{{"$nope", bson.D{{"a", 1}}}})
	fails("unknown modifier", 9, err)
	_, err = c.UpdateOne(ctx, bson.D{{"_id", 4}}, bson.D{{"$push", bson.D{{"a", 1}}}})
	fails("push to a number", 2, err)
	del, err := c.DeleteMany(ctx, bson.D{{"a", bson.D{{"$exists", true}}}})
	check("DeleteMany", err == nil && del.DeletedCount == 4, err)
}

func duplicates(db *mongo.Database) {
	c := db.Collection("dup")
	name, err := c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{"u", 1}}, Options: options.Index().SetUnique(true)})
	check("CreateOne", err == nil && name == "u_1", name, err)
	_, err = c.InsertOne(ctx, bson.D{{"_id", 1}, {"u", "a"}})
	none("first", err)
	_, err = c.InsertOne(ctx, bson.D{{"_id", 2}, {"u", "a"}})
	check("duplicate", mongo.IsDuplicateKeyError(err), err)
	var we mongo.WriteException
	if errors.As(err, &we) && len(we.WriteErrors) == 1 {
		raw := we.WriteErrors[0].Raw
		var body struct {
			KeyPattern bson.D `bson:"keyPattern"`
			KeyValue   bson.D `bson:"keyValue"`
		}
		none("raw", bson.Unmarshal(raw, &body))
		equal("keyPattern", body.KeyPattern, bson.D{{"u", int32(1)}})
		equal("keyValue", body.KeyValue, bson.D{{"u", "a"}})
		check("text", strings.Contains(we.WriteErrors[0].Message, "E11000 duplicate key error collection: nagi_go.dup index: u_1"),
			we.WriteErrors[0].Message)
	} else {
		check("write exception", false, err)
	}
	_, err = c.InsertMany(ctx, []any{bson.D{{"_id", 1}}, bson.D{{"_id", 7}, {"u", 7}}}, options.InsertMany().SetOrdered(false))
	var bulk mongo.BulkWriteException
	check("bulk exception", errors.As(err, &bulk) && len(bulk.WriteErrors) == 1 && bulk.WriteErrors[0].Index == 0, err)
	n, _ := c.CountDocuments(ctx, bson.D{})
	equal("unordered went on", n, int64(2))
}

func cursors(db *mongo.Database) {
	c := db.Collection("many")
	var docs []any
	for i := 0; i < 20000; i++ {
		docs = append(docs, bson.D{{"_id", i}, {"k", i % 10}})
	}
	_, err := c.InsertMany(ctx, docs)
	none("20,000 inserts", err)
	for _, batch := range []int32{1000, 77} {
		cur, err := c.Find(ctx, bson.D{}, options.Find().SetBatchSize(batch).SetSort(bson.D{{"_id", 1}}))
		if !none("find", err) {
			continue
		}
		n := 0
		inOrder := true
		for cur.Next(ctx) {
			inOrder = inOrder && cur.Current.Lookup("_id").Int32() == int32(n)
			n++
		}
		none("cursor", cur.Err())
		check(fmt.Sprint("batches of ", batch), n == 20000 && inOrder, n)
	}
	cur, err := c.Aggregate(ctx, bson.A{
		bson.D{{"$match", bson.D{{"_id", bson.D{{"$lt", 1000}}}}}},
		bson.D{{"$group", bson.D{{"_id", "$k"}, {"n", bson.D{{"$sum", 1}}}, {"max", bson.D{{"$max", "$_id"}}}}}},
		bson.D{{"$sort", bson.D{{"_id", 1}}}},
	})
	var groups []struct {
		ID  int32 `bson:"_id"`
		N   int32
		Max int32
	}
	if none("Aggregate", err) {
		none("groups", cur.All(ctx, &groups))
		check("ten groups", len(groups) == 10 && groups[3].N == 100 && groups[3].Max == 993, groups)
	}
	_, err = c.Aggregate(ctx, bson.A{bson.D{{"$nope", 1}}})
	fails("unknown stage", 40324, err)
	_, err = c.Find(ctx, bson.D{{"a", bson.D{{"$nope", 1}}}})
	fails("unknown operator", 2, err)
	cur, err = c.Find(ctx, bson.D{}, options.Find().SetBatchSize(2))
	if none("open", err) {
		none("close", cur.Close(ctx))
	}
}

func bulkWrites(db *mongo.Database) {
	c := db.Collection("bulk")
	r, err := c.BulkWrite(ctx, []mongo.WriteModel{
		mongo.NewInsertOneModel().SetDocument(bson.D{{"_id", 1}}),
		mongo.NewInsertOneModel().SetDocument(bson.D{{"_id", 2}}),
		mongo.NewUpdateOneModel().SetFilter(bson.D{{"_id", 1}}).SetUpdate(bson.D{{"$set", bson.D{{"a", 1}}}}),
		mongo.NewUpdateManyModel().SetFilter(bson.D{}).SetUpdate(bson.D{{"$inc", bson.D{{"b", 1}}}}),
		mongo.NewReplaceOneModel().SetFilter(bson.D{{"_id", 9}}).SetReplacement(bson.D{{"r", 1}}).SetUpsert(true),
		mongo.NewDeleteOneModel().SetFilter(bson.D{{"_id", 2}}),
	})
	check("BulkWrite", err == nil && r.InsertedCount == 2 && r.MatchedCount == 3 && r.ModifiedCount == 3 && r.UpsertedCount == 1 &&
		r.DeletedCount == 1 && r.UpsertedIDs[4] == int32(9), r, err)
	j := true
	durable := db.Collection("bulk", options.Collection().SetWriteConcern(&writeconcern.WriteConcern{W: "majority", Journal: &j}))
	_, err = durable.InsertOne(ctx, bson.D{{"_id", "durable"}})
	none("majority, journal", err)
}

func types(db *mongo.Database) {
	c := db.Collection("types")
	id, _ := bson.ObjectIDFromHex("64b7f0f0f0f0f0f0f0f0f0f0")
	decimal, _ := bson.ParseDecimal128("123456789012345678901234567890.1234")
	values := []any{1.5, math.Copysign(0, -1), math.Inf(1), math.NaN(), "text \u00e9", "", bson.D{{"a", bson.D{}}}, bson.A{1, bson.A{}},
		bson.Binary{Data: []byte{1, 2}}, bson.Binary{Subtype: 2, Data: []byte("old")}, bson.Binary{Subtype: 4, Data: make([]byte, 16)},
		bson.Undefined{}, id, true, false, bson.DateTime(-62135596800000), nil, bson.Regex{Pattern: "^a", Options: "ix"},
		bson.DBPointer{DB: "a.b", Pointer: id}, bson.JavaScript("f()"), bson.Symbol("sym"),
		bson.CodeWithScope{Code: "f()", Scope: bson.D{{"x", 1}}}, int32(math.MinInt32), bson.Timestamp{T: math.MaxUint32, I: 1},
		int64(math.MaxInt64), decimal, bson.MinKey{}, bson.MaxKey{}}
	for i, v := range values {
		sent, err := bson.Marshal(bson.D{{"_id", i}, {"v", v}})
		none("marshal", err)
		_, err = c.InsertOne(ctx, bson.Raw(sent))
		none("insert", err)
		raw, err := c.FindOne(ctx, bson.D{{"_id", i}}).Raw()
		check(fmt.Sprintf("bytes of %T %v", v, v), err == nil && bytes.Equal(raw, sent), raw, err)
	}
}

func admin(client *mongo.Client, db *mongo.Database) {
	names, err := db.ListCollectionNames(ctx, bson.D{})
	check("collections", err == nil && len(names) >= 5, names, err)
	dbs, err := client.ListDatabaseNames(ctx, bson.D{{"name", "nagi_go"}})
	check("databases", err == nil && len(dbs) == 1, dbs, err)
	none("CreateCollection", db.CreateCollection(ctx, "made"))
	err = db.CreateCollection(ctx, "made", options.CreateCollection().SetCapped(true).SetSizeInBytes(4096))
	fails("create with other options", 48, err)
	none("Drop", db.Collection("made").Drop(ctx))
	list, err := db.Collection("dup").Indexes().ListSpecifications(ctx)
	check("indexes", err == nil && len(list) == 2 && list[1].Unique != nil && *list[1].Unique, list, err)
	none("DropOne", db.Collection("dup").Indexes().DropOne(ctx, "u_1"))
	fails("DropOne again", 27, db.Collection("dup").Indexes().DropOne(ctx, "u_1"))
	var plan bson.M
	none("explain", db.RunCommand(ctx, bson.D{{"explain", bson.D{{"find", "many"}, {"filter", bson.D{{"_id", bson.D{{"$gt", 5}}}}}}},
		{"verbosity", "queryPlanner"}}).Decode(&plan))
	check("winning plan", strings.Contains(fmt.Sprint(plan["queryPlanner"]), "IXSCAN"), plan["queryPlanner"])
	session, err := client.StartSession()
	if none("session", err) {
		err = mongo.WithSession(ctx, session, func(sc context.Context) error {
			return db.Collection("people").FindOne(sc, bson.D{{"_id", 1}}).Err()
		})
		none("find in a session", err)
		session.EndSession(ctx)
	}
}

func parallel(db *mongo.Database) {
	c := db.Collection("parallel")
	var group sync.WaitGroup
	problems := make(chan error, 1000)
	for w := 0; w < 10; w++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := 0; i < 50; i++ {
				if _, err := c.UpdateOne(ctx, bson.D{{"_id", i % 5}}, bson.D{{"$inc", bson.D{{"n", 1}}}},
					options.UpdateOne().SetUpsert(true)); err != nil {
					problems <- err
				}
			}
		}()
	}
	group.Wait()
	check("no error in parallel upserts", len(problems) == 0, len(problems))
	cur, err := c.Find(ctx, bson.D{})
	var docs []struct{ N int32 }
	if none("find", err) {
		none("all", cur.All(ctx, &docs))
		sum := int32(0)
		for _, d := range docs {
			sum += d.N
		}
		check("five documents, 500 increments", len(docs) == 5 && sum == 500, len(docs), sum)
	}
}

func compression(uri string) {
	for _, name := range []string{"snappy", "zlib", "zstd"} {
		client, err := mongo.Connect(options.Client().ApplyURI(uri).SetCompressors([]string{name}))
		if !none("connect "+name, err) {
			continue
		}
		c := client.Database("nagi_go").Collection("packed")
		_, err = c.InsertOne(ctx, bson.D{{"_id", name}, {"x", strings.Repeat("y", 100000)}})
		none("insert "+name, err)
		var d struct{ X string }
		none("find "+name, c.FindOne(ctx, bson.D{{"_id", name}}).Decode(&d))
		equal("length "+name, len(d.X), 100000)
		client.Disconnect(ctx)
	}
}

func main() {
	uri := os.Args[1]
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetServerSelectionTimeout(5 * time.Second))
	if err != nil {
		panic(err)
	}
	db := client.Database("nagi_go")
	none("drop", db.Drop(ctx))
	commands(client, db)
	insertFind(db)
	updates(db)
	duplicates(db)
	cursors(db)
	bulkWrites(db)
	types(db)
	admin(client, db)
	parallel(db)
	compression(uri)
	none("drop", db.Drop(ctx))
	fmt.Printf("go driver v2: %d assertions passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

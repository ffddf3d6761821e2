// What mongosh shows of a router: sh.status(), and what its helpers read of `config`. The last line says that all was there.
const assert = require("assert")

// The shell's values are not of the world of `assert`.
function same(seen, expected) {
  assert.strictEqual(EJSON.stringify(seen, { relaxed: true }), EJSON.stringify(expected, { relaxed: true }))
}

function fails(run, code) {
  try {
    run()
  } catch (error) {
    assert.strictEqual(error.code, code, error.message)
    return
  }
  assert.fail("no error: " + run)
}

const shell = db.getSiblingDB("shell")
shell.dropDatabase()
assert.strictEqual(db.hello().msg, "isdbgrid")
assert.strictEqual(sh.enableSharding("shell").ok, 1)
assert.strictEqual(sh.shardCollection("shell.c", { k: 1 }).collectionsharded, "shell.c")
assert.strictEqual(sh.shardCollection("shell.h", { _id: "hashed" }).ok, 1)
assert.ok(db.adminCommand({ shardCollection: "shell.i", key: { _id: 1 } }).note.includes("records are spread over the store in 16"))
fails(() => sh.shardCollection("shell.r", { k: 1 }, false, { numInitialChunks: 4 }), 72)
fails(() => sh.shardCollection("shell.c", { other: 1 }), 23)
shell.c.insertMany([1, 2, 3].map((k) => ({ k })))

const status = sh.status().value
same(status.shards.map((shard) => [shard._id, shard.state]), [["store", 1]])
assert.strictEqual(Object.values(status["active mongoses"][0])[0], 1)
assert.strictEqual(status.balancer["Currently enabled"], "yes")
assert.strictEqual(status.balancer["Currently running"], "no")
const sharded = status.databases.find((one) => one.database._id === "shell")
assert.strictEqual(sharded.database.primary, "store")
same(sharded.collections["shell.c"].shardKey, { k: 1 })
same(sharded.collections["shell.c"].chunkMetadata, [{ shard: "store", nChunks: 1 }])
same(sharded.collections["shell.h"].shardKey, { _id: "hashed" })
sh.status(true)

const distribution = shell.c.getShardDistribution().value
assert.strictEqual(distribution.Totals.docs, 3)
assert.strictEqual(distribution.Totals.chunks, 1)
const stats = shell.c.stats()
assert.ok(stats.sharded && Number(stats.shards.store.count) === 3 && Number(stats.count) === 3, JSON.stringify(stats))
assert.strictEqual(shell.plain.insertOne({}).acknowledged && shell.plain.stats().sharded, false)

assert.strictEqual(sh.stopBalancer().ok, 1)
assert.strictEqual(sh.getBalancerState(), false)
assert.strictEqual(sh.isBalancerRunning().mode, "off")
assert.strictEqual(sh.startBalancer().ok, 1)
assert.strictEqual(sh.getBalancerState(), true)
assert.strictEqual(sh.balancerCollectionStatus("shell.c").balancerCompliant, true)
fails(() => sh.addShard("rs/host:1"), 20)
fails(() => sh.splitAt("shell.c", { k: 2 }), 20)
fails(() => sh.moveChunk("shell.c", { k: 2 }, "store"), 20)
fails(() => sh.addShardToZone("store", "zone"), 20)
fails(() => sh.reshardCollection("shell.c", { other: 1 }), 20)
assert.strictEqual(db.adminCommand({ listShards: 1 }).shards.length, 1)
const found = db.adminCommand({ listDatabases: 1 }).databases.find((one) => one.name === "shell")
same(Object.keys(found.shards), ["store"])
assert.ok(Object.keys(shell.runCommand({ dbStats: 1 }).raw).length === 1)
fails(() => rs.status(), 59)

const session = db.getMongo().startSession()
session.startTransaction()
session.getDatabase("shell").c.insertOne({ k: 4 })
session.getDatabase("shell").plain.insertOne({})
session.commitTransaction()
session.endSession()
assert.strictEqual(shell.c.countDocuments({}), 4)
shell.dropDatabase()
assert.strictEqual(db.getSiblingDB("config").collections.countDocuments({ _id: /^shell/ }), 0)
print("mongosh: a router")

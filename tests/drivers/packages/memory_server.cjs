// Tests mongodb-memory-server, two versions of it, with the program of the package nagi-server.
"use strict";

const { createRequire } = require("node:module");
const { binaryPath } = require("nagi-server");

const ENGINES = [undefined, "wiredTiger", "ephemeralForTest", "inMemory"];
let passed = 0;

function check(name, ok, seen = "") {
  if (!ok) throw new Error(`FAILED ${name}: ${seen}`);
  passed += 1;
}

// The variables are read when a package is loaded, and the page's test may have set them.
delete process.env.MONGOMS_SYSTEM_BINARY;
delete process.env.MONGOMS_VERSION;

async function versionOf(name) {
  const load = createRequire(require.resolve(name));
  const { MongoMemoryReplSet, MongoMemoryServer } = require(name);
  const { MongoClient } = load("mongodb"); // the driver that the package uses
  const binary = { systemBinary: binaryPath(), version: "8.0.4" };

  const count = async (uri, options) => {
    const client = await MongoClient.connect(uri, { serverSelectionTimeoutMS: 10_000, ...options });
    try {
      await client.db("shop").collection("orders").insertOne({ item: "tea" });
      return await client.db("shop").collection("orders").countDocuments();
    } finally {
      await client.close();
    }
  };

  for (const storageEngine of ENGINES) {
    const server = await MongoMemoryServer.create({ binary, instance: { storageEngine } });
    check(`${storageEngine}`, (await count(server.getUri())) === 1);
    await server.stop();
    const set = await MongoMemoryReplSet.create({ binary, replSet: { count: 1, storageEngine } });
    check(`a set on ${storageEngine}`, (await count(set.getUri())) === 1);
    await set.stop();
  }

  const auth = { enable: true, customRootName: "root", customRootPwd: "secret" };
  const login = { auth: { username: "root", password: "secret" }, authSource: "admin" };
  for (const create of [
    () => MongoMemoryServer.create({ binary, auth }),
    () => MongoMemoryReplSet.create({ binary, replSet: { count: 1, auth } }),
  ]) {
    const server = await create();
    check("a login", (await count(server.getUri(), login)) === 1);
    const error = await count(server.getUri()).catch((error) => error);
    check("no login", error.codeName === "Unauthorized", error);
    await server.stop();
  }

  // Stopped and started again with its data, and the port of another server.
  const server = await MongoMemoryServer.create({ binary, instance: { storageEngine: "wiredTiger" } });
  await count(server.getUri());
  await server.stop({ doCleanup: false });
  await server.start(true);
  check("data after a restart", (await count(server.getUri())) === 2);
  const { MongoInstance } = load(`${name}/lib/util/MongoInstance`);
  const other = await MongoMemoryServer.create({ binary });
  const instance = { port: server.instanceInfo.port, dbPath: other.instanceInfo.dbPath + "/nothing", ip: "127.0.0.1" };
  require("node:fs").mkdirSync(instance.dbPath);
  const error = await MongoInstance.create({ binary, instance }).catch((error) => error);
  check("a port in use", /already in use/.test(error.message), error);
  for (const one of [server, other]) await one.stop({ doCleanup: true, force: true });
}

async function main() {
  for (const name of ["mongodb-memory-server-core", "mongodb-memory-server-8"]) await versionOf(name);
  console.log(`mongodb-memory-server: ${passed} assertions passed`);
}

main().catch((error) => {
  console.log(error);
  process.exit(1);
});

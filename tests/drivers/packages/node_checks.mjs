// Tests the package nagi-server as a project does that has installed it. Run in the project's folder.
import { fork, spawn } from "node:child_process";
import { copyFileSync, existsSync, openSync, readFileSync, unlinkSync, writeFileSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { MongoClient } from "mongodb";
import { Server, StartError, binaryPath, start } from "nagi-server";

const STARTS = 20;
const MEDIAN_MS_MAX = 300;
const ROUNDS = 3;

let passed = 0;
let failed = 0;

function check(name, ok, seen = "") {
  if (ok) passed += 1;
  else {
    failed += 1;
    console.log("FAILED", name, seen);
  }
}

function equal(name, seen, expected) {
  check(name, JSON.stringify(seen) === JSON.stringify(expected), `saw ${JSON.stringify(seen)}`);
}

async function waitUntil(condition, seconds = 20) {
  const until = performance.now() + 1000 * seconds;
  while (!condition() && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 10));
  return condition();
}

// True for a process that runs. A zombie, whose parent has not waited for it, does not.
function alive(pid) {
  const stat = `/proc/${pid}/stat`;
  return existsSync(stat) && !/\) Z/.test(readFileSync(stat, "utf8"));
}

async function withClient(uri, body) {
  const client = await MongoClient.connect(uri, { serverSelectionTimeoutMS: 10_000 });
  try {
    return await body(client);
  } finally {
    await client.close();
  }
}

// In a process of its own: prints what it started, and waits to be killed, or ends by itself.
if (process.argv[2] === "parent") {
  const server = await start();
  process.send({ pid: server.pid });
  setInterval(() => {}, 1000); // keeps this process running
} else if (process.argv[2] === "careless") {
  const server = await start();
  await withClient(server.uri, (client) => client.db("shop").collection("orders").findOne());
  console.log(server.pid); // not stopped: this process must end nevertheless
} else {
  await main();
}

async function main() {
  for (const part of [replicaSet, required, starts, severalAtOnce, refused, noPlaceForTheLog, ends]) {
    try {
      await part();
    } catch (error) {
      console.log(error);
      check(part.name, false, String(error));
    }
  }
  console.log(`Node ${process.version}: ${passed} assertions passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

async function replicaSet() {
  const server = await start({ cacheMb: 32 });
  check("a Server", server instanceof Server && server.isRunning && server.log(1).includes("Waiting for connections"));
  await withClient(server.uri, async (client) => {
    const orders = client.db("shop").collection("orders");
    await orders.insertOne({ _id: 0 });
    const changes = orders.watch();
    const next = changes.next();
    await new Promise((resolve) => changes.once("resumeTokenChanged", resolve));
    await client.withSession((session) => session.withTransaction(() => orders.insertOne({ _id: 1 }, { session })));
    equal("a change", (await next).fullDocument, { _id: 1 });
    await changes.close();
    const { parsed } = await client.db("admin").command({ getCmdLineOpts: 1 });
    equal("engine", parsed.storage.engine, "inMemory");
    equal("cacheMb", parsed.storage.inMemory.engineConfig.inMemorySizeGB, 0.03125);
  });
  await server[Symbol.asyncDispose]();
  check("stopped", !server.isRunning && server.log(3).includes("Now exiting"), server.log(3));
}

async function required() {
  const { start: startByRequire } = createRequire(import.meta.url)("nagi-server");
  const server = await startByRequire({ replSet: false, args: ["--setParameter", "ttlMonitorSleepSecs=1"] });
  equal("a standalone", server.uri, `mongodb://127.0.0.1:${server.port}/`);
  await withClient(server.uri, async (client) => {
    const reply = await client.db("admin").command({ getParameter: 1, ttlMonitorSleepSecs: 1 });
    equal("an option", reply.ttlMonitorSleepSecs, 1);
  });
  await server.stop();
}

async function medianOfStarts(replSet) {
  const times = [];
  for (let i = 0; i < STARTS; i++) {
    const begin = performance.now();
    const server = await start({ replSet });
    await withClient(server.uri, async (client) => {
      await client.db("shop").collection("orders").findOne({});
      times.push(performance.now() - begin);
    });
    await server.stop();
  }
  times.sort((a, b) => a - b);
  const median = times[STARTS / 2];
  console.log(`Node, replSet: ${replSet}: start to first reply in ms: median ${median.toFixed()}, ` +
    `most ${times.at(-1).toFixed()} of ${STARTS}`);
  return median;
}

async function starts() {
  for (const replSet of [true, false]) {
    let quick = false;
    // A machine that is busy with other work has a quiet moment in one of the rounds.
    for (let i = 0; i < ROUNDS && !quick; i++) quick = (await medianOfStarts(replSet)) < MEDIAN_MS_MAX;
    check("start to first reply", quick);
  }
}

async function severalAtOnce() {
  const servers = await Promise.all(Array.from({ length: 8 }, () => start()));
  equal("ports", new Set(servers.map((server) => server.port)).size, 8);
  for (const server of servers) {
    const me = await withClient(server.uri, async (client) => (await client.db("admin").command({ hello: 1 })).me);
    equal("each answers for itself", me, `127.0.0.1:${server.port}`);
    await server.stop();
    await server.stop();
    check("stopped", !alive(server.pid));
  }
}

async function refused() {
  const server = await start();
  // A program that is never ready; the real one can be ready at the first look.
  const idle = `${process.cwd()}/idle`;
  writeFileSync(idle, "#!/bin/sh\nexec cat >/dev/null\n", { mode: 0o700 });
  for (const [options, says] of [
    [{ port: server.port }, "Address already in use"],
    [{ args: ["--nonsense"] }, "unrecognised option '--nonsense'"],
    [{ binary: "/no/such/program" }, "ENOENT"],
    [{ binary: idle, timeoutMs: 500 }, "did not start in 500 ms"],
  ]) {
    const begin = performance.now();
    const error = await start(options).catch((error) => error);
    check(`refused: ${JSON.stringify(options)}`, error instanceof StartError && error.message.includes(says), error);
    check("refused at once", performance.now() - begin < 5000);
  }
  // A copy whose head names a processor of 1985.
  const foreign = `${process.cwd()}/foreign`;
  copyFileSync(binaryPath(), foreign);
  writeSync(openSync(foreign, "r+"), Buffer.from([3, 0]), 0, 2, 18);
  for (const [options, says] of [
    [{ binary: foreign }, "another processor"],
    [{ args: ["x".repeat(1 << 18)] }, "E2BIG"],
  ]) {
    const error = await start(options).catch((error) => error);
    check(`refused: ${says}`, error instanceof StartError && error.message.includes(says), error);
  }
  unlinkSync(foreign);
  check("--fork", (await start({ args: ["--fork"] }).catch((error) => error)) instanceof TypeError);
  const unknown = await start({ replset: true }).catch((error) => error);
  check("an unknown option", unknown instanceof TypeError && unknown.message.includes("'replset'"), unknown);
  await server.stop();
}

// A folder for temporary files that does not exist: the log is in another one.
async function noPlaceForTheLog() {
  const before = process.env.TMPDIR;
  process.env.TMPDIR = "/no/such/folder";
  const server = await start();
  if (before === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = before;
  equal("no lines", server.log(0), "");
  equal("one line", server.log(1).split("\n").length, 2);
  await server.stop();
}

async function ends() {
  const parent = fork(new URL(import.meta.url), ["parent"]);
  const { pid } = await new Promise((resolve) => parent.once("message", resolve));
  check("the parent's server", alive(pid));
  parent.kill("SIGKILL");
  check("the server ends with its parent", await waitUntil(() => !alive(pid)));
  const careless = spawn(process.execPath, [new URL(import.meta.url).pathname, "careless"]);
  let said = "";
  careless.stdout.on("data", (data) => (said += data));
  const code = await new Promise((resolve) => careless.once("close", resolve));
  check("a program that does not stop its server ends", code === 0 && said.trim(), `${code} ${said}`);
  check("and so does the server", await waitUntil(() => !alive(Number(said))));
  check("the program's path", existsSync(binaryPath()));
}

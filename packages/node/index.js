// A MongoDB-compatible server for tests: Nagi, with its data in memory.
//
//     const server = await start();
//     const client = await MongoClient.connect(server.uri);
//     ...
//     await server.stop();
//
// - The server's standard input is a pipe whose other end only this process has: the kernel closes it with this
//   process, also if it is killed, and the server stops (--stopAtEndOfInput).
// - Its log is a file that is unlinked at once: nothing remains, and the server never waits for this process to read.
// - It selects its port itself, and its log says which: no other process can take it in between.
"use strict";

const { spawn } = require("node:child_process");
const { randomBytes } = require("node:crypto");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

const SET_NAME = "rs0";
const OPTIONS = ["replSet", "port", "cacheMb", "args", "timeoutMs", "binary"];
// Options that would take from us what we need: the log, the address, the name of the set, and the process itself.
const REFUSED = ["--logpath", "--syslog", "--fork", "--shutdown", "--repair", "--config", "-f", "--replSet", "--bind_ip",
  "--bind_ip_all"];
const WAITING_FOR_CONNECTIONS = 23016;
const TAIL_LINES = 20;
const CHUNK = 1 << 20;
// The log of a start has some kilobytes. What is written to a full folder is lost, and with it the server's port.
const LOG_RESERVE = 256 << 10;
// Fields of a program's head (ELF): where its processor is, and the number of each that Node.js knows.
const MACHINE_AT = 18;
const MACHINES = { x64: 62, arm64: 183 };

class StartError extends Error {
  name = "StartError";
}

function binaryPath() {
  return path.join(__dirname, "bin", "nagi");
}

async function start(options = {}) {
  const unknown = Object.keys(options).find((name) => !OPTIONS.includes(name));
  if (unknown) throw new TypeError(`start() has no option '${unknown}'; it takes ${OPTIONS.join(", ")}`);
  const { replSet = true, port = 0, cacheMb, args = [], timeoutMs = 30_000, binary = binaryPath() } = options;
  const setName = replSet === true ? SET_NAME : replSet || undefined;
  const command = commandLine(binary, setName, port, cacheMb, args.map(String));
  checkMachine(binary);
  const log = openLog();
  const server = new Server(spawned(binary, command, log), log, setName);
  try {
    await server._untilReady(timeoutMs);
  } catch (error) {
    await server.stop();
    throw error;
  }
  return server;
}

function commandLine(binary, setName, port, cacheMb, args) {
  const given = new Set(args.filter((arg) => arg.startsWith("-")).map((arg) => arg.split("=", 1)[0]));
  for (const option of REFUSED) {
    if (given.has(option)) throw new TypeError(`${option} cannot be used for a server for tests`);
  }
  const ours = [["--port", String(port)], ["--bind_ip", "127.0.0.1"], ["--nounixsocket"], ["--stopAtEndOfInput"]];
  if (!given.has("--consolePort")) ours.push(["--noconsole"]);
  if (!given.has("--storageEngine")) {
    // With this engine the folder is only looked at; it must not have the data of another engine.
    ours.push(["--storageEngine", "inMemory"], ["--dbpath", path.dirname(path.resolve(binary))]);
    if (cacheMb !== undefined) ours.push(["--inMemorySizeGB", String(cacheMb / 1024)]);
  } else if (cacheMb !== undefined) {
    ours.push(["--cacheSizeGB", String(cacheMb / 1024)]);
  }
  if (setName) ours.push(["--replSet", setName], ["--initiate"], ["--oplogSize", "64"]);
  return ["serve", ...ours.filter(([option]) => !given.has(option)).flat(), ...args];
}

function spawned(binary, command, log) {
  try {
    // A session of its own, so that Ctrl-C in a terminal ends the tests first and then the server.
    return spawn(binary, command, { stdio: ["pipe", log, log], detached: true });
  } catch (error) {
    fs.closeSync(log);
    // Others are mistakes in the arguments.
    throw error.syscall ? new StartError(`the server cannot be started: ${error.message}`) : error;
  }
}

// The system gives a program of another processor to the shell, which says nothing of use.
function checkMachine(binary) {
  const head = Buffer.alloc(MACHINE_AT + 2);
  let file;
  try {
    file = fs.openSync(binary, "r");
    fs.readSync(file, head, 0, head.length, 0);
  } catch {
    return; // `spawn` says what is wrong.
  } finally {
    if (file !== undefined) fs.closeSync(file);
  }
  const machine = head.readUInt16LE(MACHINE_AT);
  if (head.toString("latin1", 0, 4) === "\x7fELF" && machine !== (MACHINES[process.arch] ?? machine)) {
    throw new StartError(`the server cannot be started: ${binary} is a program for another processor`);
  }
}

// An open file that has no name any more, in the first folder with some free space.
function openLog() {
  const folders = [...new Set([os.tmpdir(), "/tmp", "/var/tmp", "/dev/shm", process.cwd()])];
  const failures = [];
  for (const folder of folders) {
    const file = path.join(folder, `nagi-server-${randomBytes(12).toString("hex")}.log`);
    let log;
    try {
      log = fs.openSync(file, "wx+", 0o600);
      fs.unlinkSync(file);
      if (fs.writeSync(log, Buffer.alloc(LOG_RESERVE), 0, LOG_RESERVE, 0) < LOG_RESERVE) {
        throw new Error(`no space left on device, write '${file}'`);
      }
      fs.ftruncateSync(log);
      return log;
    } catch (error) {
      if (log !== undefined) fs.closeSync(log);
      failures.push(error.message);
    }
  }
  throw new StartError(`the server's log cannot be written:\n${failures.join("\n")}`);
}

const closeLog = new FinalizationRegistry((log) => fs.close(log, () => {}));

class Server {
  #child;
  #log;
  #setName;
  #ended;
  #failed;

  constructor(child, log, setName) {
    this.#child = child;
    this.#log = log;
    this.#setName = setName;
    this.pid = child.pid;
    this.port = undefined;
    this.#ended = new Promise((resolve) => {
      child.once("exit", (code, signal) => resolve(code ?? signal));
      child.once("error", (error) => resolve((this.#failed = error)));
    });
    // A write could fail once the server has ended; there are none. Neither keeps this process running.
    child.stdin?.on("error", () => {});
    child.stdin?.unref();
    child.unref();
    closeLog.register(this, log);
  }

  get uri() {
    return `mongodb://127.0.0.1:${this.port}/${this.#setName ? `?replicaSet=${this.#setName}` : ""}`;
  }

  get isRunning() {
    return !this.#failed && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  log(lines) {
    const text = this.#read(0).toString();
    if (lines === undefined) return text;
    return lines > 0 ? text.split(/(?<=\n)/).slice(-lines).join("") : "";
  }

  async stop({ timeoutMs = 10_000 } = {}) {
    if (!this.isRunning) return;
    this.#child.ref();
    this.#child.stdin.destroy();
    this.#child.kill();
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), timeoutMs);
    await this.#ended;
    clearTimeout(timer);
  }

  // The log from `offset` on. Positioned reads: the server shares the file's position.
  #read(offset) {
    const parts = [];
    for (;;) {
      const part = Buffer.allocUnsafe(CHUNK);
      const length = fs.readSync(this.#log, part, 0, CHUNK, offset);
      if (length === 0) return Buffer.concat(parts);
      parts.push(part.subarray(0, length));
      offset += length;
    }
  }

  async _untilReady(timeoutMs) {
    const until = performance.now() + timeoutMs;
    let seen = 0;
    for (;;) {
      const wasRunning = this.isRunning;
      const fresh = this.#read(seen);
      const complete = fresh.lastIndexOf("\n") + 1;
      seen += complete;
      this.port = fresh.toString("utf8", 0, complete).split("\n").map(portOf).find(Boolean);
      if (this.port) return;
      if (this.#failed) throw new StartError(`the server cannot be started: ${this.#failed.message}`);
      if (!wasRunning) throw new StartError(`the server ended with ${await this.#ended}:\n${this.log(TAIL_LINES)}`);
      if (performance.now() > until) {
        throw new StartError(`the server did not start in ${timeoutMs} ms:\n${this.log(TAIL_LINES)}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }
}

// `await using server = await start()`
if (Symbol.asyncDispose) {
  Server.prototype[Symbol.asyncDispose] = function () {
    return this.stop();
  };
}

// The port in the log's line that says that the server accepts connections; undefined for other lines.
function portOf(line) {
  if (!line.includes(`"id":${WAITING_FOR_CONNECTIONS}`)) return undefined;
  try {
    return JSON.parse(line).attr.port;
  } catch {
    return undefined;
  }
}

exports.start = start;
exports.Server = Server;
exports.StartError = StartError;
exports.binaryPath = binaryPath;

#!/usr/bin/env node
// Runs a server until Ctrl-C: npx nagi-server [--port N] [--standalone] [--cache-mb N] [-- options of nagi serve]
"use strict";

const { parseArgs } = require("node:util");
const { binaryPath, start } = require("./index.js");

const USAGE = `npx nagi-server [options] [-- options of nagi serve]: runs a server for tests until Ctrl-C
  --port N        TCP port; 0, the default, selects a free one
  --standalone    no replica set
  --cache-mb N    the most data in MiB
  --log           copy the server's log to standard error
  --path          print the path of the server's program, and exit
`;
const POLL_MS = 100;

async function main() {
  const options = {
    port: { type: "string", default: "0" },
    standalone: { type: "boolean" },
    "cache-mb": { type: "string" },
    log: { type: "boolean" },
    path: { type: "boolean" },
    help: { type: "boolean", short: "h" },
  };
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  if (values.help) return process.stdout.write(USAGE);
  if (values.path) return process.stdout.write(`${binaryPath()}\n`);
  const server = await start({
    replSet: !values.standalone,
    port: Number(values.port),
    cacheMb: values["cache-mb"] && Number(values["cache-mb"]),
    args: positionals,
  });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    process.once(signal, async () => {
      await server.stop();
      process.exit(0);
    });
  }
  process.stdout.write(`${server.uri}\n`);
  let copied = 0;
  setInterval(() => {
    if (values.log) {
      const text = server.log();
      process.stderr.write(text.slice(copied));
      copied = text.length;
    }
    if (!server.isRunning) {
      process.stderr.write(`the server has ended:\n${server.log(20)}`);
      process.exit(1);
    }
  }, POLL_MS);
}

main().catch((error) => {
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
});

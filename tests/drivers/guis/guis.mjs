// Interfaces for MongoDB from npm against a server with and without logins: node guis.mjs WORK PORT, with NAGI_BINARY.
// ONLY=compass,express,gui runs these parts.
import { mkdirSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { check, counts, need, startServer, stopServer } from '../console/harness.mjs';
import { compass } from './compass.mjs';
import { express } from './express.mjs';
import { gui } from './gui.mjs';

const nagi = process.env.NAGI_BINARY;
const [work, port] = [process.argv[2], Number(process.argv[3])];
mkdirSync(work, { recursive: true });
const parts = { compass, express, gui };

const freePort = () =>
  new Promise((done) => {
    const socket = net.createServer().listen(0, '127.0.0.1', () => {
      const free = socket.address().port;
      socket.close(() => done(free));
    });
  });

/** Runs all interfaces; `login` is the part of connection strings with the user. */
async function all(server, folder, login) {
  for (const [name, run] of Object.entries(parts)) {
    if (process.env.ONLY && !process.env.ONLY.split(',').includes(name)) continue;
    const before = counts.passed;
    try {
      await run({ server, login, log: path.join(folder, `${name}.log`), port: await freePort() });
    } catch (error) {
      check(`${name}: ${String(error.stack ?? error).slice(0, 1200)}`, false);
    }
    console.log(`${name}${login ? ' with a login' : ''}: ${counts.passed - before} checks passed`);
  }
}

async function onServer(name, flags, login) {
  const folder = path.join(work, name);
  const server = await startServer(nagi, folder, port, flags);
  try {
    server.isSet = flags.includes('--replSet');
    if (login) await makeUser(server);
    await all(server, folder, login);
  } finally {
    await stopServer(server);
  }
}

async function makeUser(server) {
  const { MongoClient } = need('mongodb');
  const client = await new MongoClient(server.uri).connect();
  await client.db('admin').command({ createUser: 'root', pwd: 'secret', roles: ['root'] });
  await client.close();
}

await onServer('open', [], '');
await onServer('closed', ['--auth'], 'root:secret@');
await onServer('set', ['--replSet', 'rs0', '--initiate'], '');
console.log(`guis: ${counts.passed} checks passed, ${counts.failed.length} failed`);
if (counts.failed.length) console.log(`FAILED ${counts.failed.slice(0, 10).join('; ').slice(0, 1000)}`);
process.exit(counts.failed.length ? 1 : 0);

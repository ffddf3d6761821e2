// Web applications as processes, and a client that keeps cookies and sends forms, as a browser does.
import { spawn } from 'node:child_process';
import { openSync } from 'node:fs';
import path from 'node:path';
import { check, until } from '../console/harness.mjs';

const MODULES = path.join(process.env.NODE_MODULES_DIR ?? import.meta.dirname, 'node_modules');

/** The folder of an installed package. */
export const folderOf = (name) => path.join(MODULES, name);

/** Starts a script of a package, and waits until it answers at `base`. */
export async function startApp(name, script, { args = [], env = {}, cwd = folderOf(name), base, log, headers = {} }) {
  const out = openSync(log, 'a');
  const before = ['--require', path.join(import.meta.dirname, 'loopback.cjs')];
  const child = spawn(process.execPath, [...before, path.join(folderOf(name), script), ...args], {
    cwd,
    env: { PATH: process.env.PATH, HOME: path.dirname(log), ...env },
    stdio: ['ignore', out, out],
  });
  const app = { child, base, headers };
  await until(
    `${name} answers`,
    async () => {
      if (child.exitCode !== null) throw new Error(`${name} ended with status ${child.exitCode}: see ${log}`);
      return (await fetch(base, { headers, redirect: 'manual' })).status < 500;
    },
    30000,
  );
  return app;
}

export async function stopApp({ child }) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((done) => {
    child.once('exit', done);
  });
  child.kill('SIGKILL');
  await ended;
}

/** A browser's session with a web application. */
export class Session {
  constructor(app) {
    this.app = app;
    this.cookies = new Map();
    this.at = app.base;
  }

  /** A request, with the redirects that follow it: `{status, url, text}`. */
  async request(method, target, { body, headers = {} } = {}) {
    let url = new URL(target, `${this.app.base}/`);
    let options = { method, body, headers };
    for (let hop = 0; hop < 5; hop++) {
      const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const reply = await fetch(url, {
        ...options,
        redirect: 'manual',
        headers: { ...this.app.headers, ...options.headers, cookie, referer: this.at },
        signal: AbortSignal.timeout(20000),
      });
      for (const line of reply.headers.getSetCookie()) {
        const [pair] = line.split(';');
        this.cookies.set(pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1));
      }
      const to = reply.headers.get('location');
      if (reply.status < 300 || reply.status >= 400 || !to) {
        const text = await reply.text();
        if (method === 'GET') this.at = url.href;
        return { status: reply.status, url: url.href, text, headers: reply.headers };
      }
      await reply.arrayBuffer();
      url = new URL(to, url);
      options = { method: 'GET', headers: {} };
    }
    throw new Error(`more than five redirects from ${target}`);
  }

  /** A page; a status of an error is a failure. */
  async page(target) {
    const reply = await this.request('GET', target);
    check(`GET ${target}: status 200`, reply.status === 200, { status: reply.status, text: reply.text.slice(0, 300) });
    return reply.text;
  }

  /** Sends JSON and reads JSON. */
  async json(method, target, value) {
    const reply = await this.request(method, target, {
      body: value === undefined ? undefined : JSON.stringify(value),
      headers: value === undefined ? {} : { 'content-type': 'application/json' },
    });
    check(`${method} ${target}: status 200`, reply.status === 200, {
      status: reply.status,
      text: reply.text.slice(0, 300),
    });
    try {
      return JSON.parse(reply.text);
    } catch {
      return reply.text;
    }
  }
}

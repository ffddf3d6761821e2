// Servers, the browser, and checks that are counted.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, openSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';

// The modules are installed in the cache, not next to this file: NODE_MODULES_DIR names the folder.
export const need = createRequire(path.join(process.env.NODE_MODULES_DIR ?? import.meta.dirname, 'x.js'));

export const counts = { passed: 0, failed: [] };

export function check(name, ok, seen) {
  if (ok) counts.passed++;
  else {
    counts.failed.push(name);
    console.log(`FAILED ${name}`, JSON.stringify(seen ?? null)?.slice(0, 1500));
  }
}

export const sleep = (ms) =>
  new Promise((done) => {
    setTimeout(done, ms);
  });

/** Waits until `read` returns something true, and checks that it did. Returns it. */
export async function until(name, read, ms = 15000) {
  const end = Date.now() + ms;
  let last;
  do {
    last = await Promise.resolve()
      .then(read)
      .catch((error) => {
        last = String(error);
        return false;
      });
    if (last) break;
    await sleep(150);
  } while (Date.now() < end);
  check(name, Boolean(last), last);
  return last;
}

/** A server with its console. */
export async function startServer(nagi, folder, port, flags = []) {
  mkdirSync(path.join(folder, 'data'), { recursive: true });
  const out = openSync(path.join(folder, 'stdout'), 'a');
  const child = spawn(
    nagi,
    [
      'serve',
      '--dbpath',
      path.join(folder, 'data'),
      '--port',
      String(port),
      '--bind_ip',
      '127.0.0.1',
      '--logpath',
      path.join(folder, 'nagi.log'),
      '--logappend',
      ...flags,
    ],
    { stdio: ['ignore', out, out] },
  );
  const server = { child, port, base: `http://127.0.0.1:${port + 1000}`, uri: `mongodb://127.0.0.1:${port}` };
  const end = Date.now() + 30000;
  while (Date.now() < end) {
    if (child.exitCode !== null) throw new Error(`the server ended with status ${child.exitCode}: see ${folder}`);
    const reply = await send(server, { path: '/api/session' }).catch(() => null);
    if (reply?.status === 200) return server;
    await sleep(100);
  }
  throw new Error('the console did not answer within 30 s');
}

export async function stopServer(server, signal = 'SIGTERM') {
  const { child } = server;
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((done) => {
    child.once('exit', done);
  });
  child.kill(signal);
  const timer = setTimeout(() => child.kill('SIGKILL'), 20000);
  await ended;
  clearTimeout(timer);
}

/** One HTTP request with any headers: `{status, headers, body}`. */
export function send(server, { method = 'GET', path: target, headers = {}, body }) {
  return new Promise((done, fail) => {
    const request = http.request(`${server.base}${target}`, { method, headers, timeout: 10000 }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('end', () =>
        done({ status: response.statusCode, headers: response.headers, body: Buffer.concat(parts).toString() }),
      );
    });
    request.on('error', fail);
    request.on('timeout', () => request.destroy(new Error('no reply within 10 s')));
    request.end(body);
  });
}

const PLACES = [
  '/usr/bin/chromium-headless-shell',
  '/usr/lib/chromium/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/google-chrome',
];

/** Starts Chromium: of CHROMIUM, of the distribution, or one that playwright has downloaded. */
export async function startBrowser() {
  const { chromium } = need('playwright-core');
  const found = [process.env.CHROMIUM, ...PLACES].find((place) => place && existsSync(place));
  const browser = await chromium.launch({
    executablePath: found,
    args: process.getuid() === 0 ? ['--no-sandbox'] : [],
  });
  console.log(`browser: ${found ?? 'of playwright'}, Chromium ${browser.version()}`);
  return browser;
}

/** A page whose errors are collected: `{page, errors, foreign}`; `errors.expect` hides those that are provoked. */
export async function openPage(browser, server, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const seen = { page, context, errors: [], foreign: [], expecting: false };
  const note = (text) => {
    if (!seen.expecting) seen.errors.push(text);
  };
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type()) && !message.text().startsWith('Canvas2D'))
      note(`${message.text()} ${message.location().url}`);
  });
  page.on('pageerror', (error) => note(String(error.stack ?? error)));
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(`${server.base}/`) && !url.startsWith('data:')) seen.foreign.push(url);
  });
  page.setDefaultTimeout(15000);
  seen.go = async (hash) => {
    await page.goto(`${server.base}/#/${hash}`);
    await page.waitForSelector('h1');
  };
  return seen;
}

/** The value of a tile. */
export const tile = (page, label) =>
  page
    .locator('.tile', { has: page.locator('dt', { hasText: new RegExp(`^${label}$`) }) })
    .locator('.figure')
    .textContent();

/** Clicks a button of the open dialog, typing a name first if it asks for one. */
export async function confirmDialog(page, label, typed) {
  const dialog = page.locator('dialog[open]').last();
  await dialog.waitFor();
  if (typed !== undefined) {
    check(
      `the button "${label}" waits for the name`,
      await dialog.getByRole('button', { name: label, exact: true }).isDisabled(),
    );
    await dialog.locator('input').fill(typed);
  }
  await dialog.getByRole('button', { name: label, exact: true }).click();
}

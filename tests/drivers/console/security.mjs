// Hostile names, requests of other origins, headers, logins.
import { check, openPage, send, sleep, tile, until } from './harness.mjs';
import { withoutRights } from './truth.mjs';

const EVIL = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>';

/** Names and values that are HTML are shown as text on every page. */
export async function hostile({ page, go }, client) {
  const evil = client.db('hostile').collection(EVIL);
  await evil.insertMany([
    { _id: EVIL, [EVIL]: EVIL, nested: { [EVIL]: [EVIL] } },
    { _id: 2, '</script>': '"]}\u2028\u0000', __proto__x: 1 },
  ]);
  await evil.createIndex({ a: 1 }, { name: EVIL });
  await client.db('admin').command({ profile: 0, slowms: 0 });
  await evil
    .find({ [EVIL]: { $gt: EVIL } })
    .comment(EVIL)
    .toArray();
  await evil
    .find({ $where: 'sleep(200); return true' })
    .toArray()
    .catch(() => {});
  await client.db('admin').command({ profile: 0, slowms: 100 });
  const name = encodeURIComponent(EVIL);
  const clean = async (where, shown) => {
    await until(`hostile: ${where} shows the text`, async () => (await page.textContent('main')).includes(shown));
    const seen = await page.evaluate(() => ({
      hacked: window.hacked,
      images: document.querySelectorAll('main img, main script, dialog img').length,
    }));
    check(`hostile: ${where} is inert`, seen.hacked === undefined && seen.images === 0, seen);
  };
  await go('databases/hostile');
  await clean('the list of collections', '<img src=x');
  await go(`collection/hostile/${name}`);
  await clean('the collection', '<img src=x');
  await go(`documents/hostile/${name}`);
  await clean('the table of documents', '<img src=x');
  await page.getByRole('radio', { name: 'JSON' }).check();
  await clean('documents as JSON', '<img src=x');
  await page.getByRole('button', { name: /^Delete document <img/ }).click();
  await clean('a dialog', '<img src=x');
  await page.locator('dialog[open]').getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('button', { name: 'Explain' }).click();
  await clean('explain', 'COLLSCAN');
  await go('slow');
  await page
    .locator('tbody tr', { hasText: 'hostile.<img' })
    .first()
    .getByRole('button', { name: /^Examine/ })
    .click();
  await until('hostile: the slowest example', async () =>
    (await page.locator('.details pre').first().textContent()).includes('<img src=x'),
  );
  await clean('slow operations', '<img src=x');
  await go('log');
  await page.getByLabel('Text', { exact: true }).fill('onerror');
  await clean('the log', '<img src=x');
  const running = evil
    .find({ $where: 'sleep(2500); return true' })
    .comment(EVIL)
    .toArray()
    .catch(() => {});
  await go('operations');
  await clean('operations', 'hostile.<img');
  await running;
  await client.db('hostile').dropDatabase();
}

const json = { 'content-type': 'application/json' };
const own = { ...json, 'x-nagi-console': '1' };
const ping = '{"db": "admin", "command": {"ping": 1}}';

/** What other pages could send. */
export async function requests(server) {
  const { host } = new URL(server.base);
  const post = (headers, body = ping) => send(server, { method: 'POST', path: '/api/command', headers, body });
  for (const [name, headers, wanted] of [
    ['own', own, 200],
    ['own origin', { ...own, origin: server.base }, 200],
    ['without the header', json, 403],
    ['as a form', { 'x-nagi-console': '1', 'content-type': 'text/plain' }, 403],
    ['of a foreign origin', { ...own, origin: 'http://evil.example.com' }, 403],
    ['of no origin', { ...own, origin: 'null' }, 403],
    ['of another port', { ...own, origin: 'http://127.0.0.1:1' }, 403],
    ['with a foreign host', { ...own, host: 'evil.example.com' }, 403],
    ['cross-site', { ...own, 'sec-fetch-site': 'cross-site' }, 403],
  ]) {
    const reply = await post(headers);
    check(`requests: POST ${name} is ${wanted}`, reply.status === wanted, [reply.status, reply.body]);
  }
  const foreign = await send(server, { path: '/', headers: { host: 'evil.example.com:80' } });
  check('requests: the page under a foreign host is refused', foreign.status === 403, foreign.status);
  check('requests: GET of a command is refused', (await send(server, { path: '/api/command' })).status >= 400);
  check(
    'requests: unknown assets are not found',
    (await send(server, { path: '/assets/../Cargo.toml' })).status === 404,
  );
  const page = await send(server, { path: '/', headers: { host } });
  for (const [name, wanted] of [
    ['content-security-policy', /default-src 'none'.*script-src 'self'.*form-action 'none'.*frame-ancestors 'none'/],
    ['x-frame-options', /^DENY$/],
    ['x-content-type-options', /^nosniff$/],
    ['referrer-policy', /^no-referrer$/],
    ['content-type', /^text\/html; charset=utf-8$/],
  ])
    check(`requests: header ${name}`, wanted.test(page.headers[name] ?? ''), page.headers);
  check('requests: no inline script or style', !/<script(?![^>]*src=)|style=|\son\w+=/i.test(page.body));
}

const fillLogin = async (page, user, password) => {
  await page.getByLabel('User').fill(user);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
};

/** With authorization on: nothing before a login, the user's rights after it. */
export async function logins(browser, server) {
  for (const [method, path] of [
    ['GET', '/api/figures'],
    ['GET', '/api/latencies'],
    ['GET', '/api/stalls'],
    ['GET', '/api/slow'],
    ['GET', '/api/stream'],
    ['GET', '/api/events'],
    ['GET', '/api/disk'],
    ['GET', '/api/growth'],
    ['GET', '/api/doctor'],
    ['POST', '/api/command'],
  ]) {
    const reply = await send(server, {
      method,
      path,
      headers: method === 'POST' ? own : {},
      body: method === 'POST' ? ping : undefined,
    });
    check(`logins: ${path} needs a login`, reply.status === 401, reply.status);
  }
  const seen = await openPage(browser, server);
  const { page, context } = seen;
  await seen.go('overview');
  await until('logins: the login page', async () => (await page.textContent('h1')) === 'Log in');
  seen.expecting = true; // the browser reports the status 401 as an error
  await fillLogin(page, 'root', 'wrong');
  await until('logins: a wrong password is refused', async () =>
    /AuthenticationFailed \(18\)/.test(await page.locator('.error').textContent()),
  );
  seen.expecting = false;
  await fillLogin(page, 'root', 'secret');
  await until(
    'logins: logged in',
    async () => (await page.textContent('h1')) === 'Overview' && (await page.textContent('#user')) === 'root@admin',
  );
  await until('logins: live', async () => (await page.textContent('#state')) === 'Live');
  await until('logins: figures', async () => (await tile(page, 'CPU')) !== '-');
  const [cookie] = await context.cookies();
  check('logins: the cookie', cookie.httpOnly && cookie.sameSite === 'Strict', cookie);
  await page.reload();
  await until('logins: after a reload', async () => (await page.textContent('#user')) === 'root@admin');
  await seen.go('users');
  await until('logins: users', async () => (await page.locator('tbody tr', { hasText: 'reader' }).count()) > 0);
  check(
    'logins: roles of a user',
    (await page.locator('tbody tr', { hasText: 'reader' }).first().textContent()).includes('read@shop'),
  );
  await page.getByRole('button', { name: 'Log out' }).click();
  await until('logins: logged out', async () => (await page.textContent('h1')) === 'Log in');
  const old = await send(server, { path: '/api/figures', headers: { cookie: `${cookie.name}=${cookie.value}` } });
  check('logins: the old cookie is worth nothing', old.status === 401, old.status);
  await lesser(seen);
  check('logins: no errors in the console', seen.errors.length === 0, seen.errors);
  await context.close();
}

/** A user with few rights sees the server's refusals at their places. */
async function lesser(seen) {
  const { page } = seen;
  seen.expecting = true; // of 403
  await fillLogin(page, 'reader', 'read');
  await until('logins: a user without clusterMonitor', async () =>
    /clusterMonitor/.test(await page.textContent('#state')),
  );
  await withoutRights(seen);
  await seen.go('operations');
  await until('logins: own operations only', async () => /own user/.test(await page.textContent('main')));
  await seen.go('log');
  await until('logins: the log is refused', async () =>
    /Unauthorized \(13\)/.test(await page.locator('.page > .error').textContent()),
  );
  await seen.go('server');
  await page.getByRole('button', { name: 'Run the checks' }).click();
  await until('logins: the doctor is for administrators', async () =>
    /Unauthorized \(13\)/.test(
      await page.locator('section', { hasText: 'Run the checks' }).locator('.error').textContent(),
    ),
  );
  await seen.go('documents/shop/orders');
  await until('logins: documents may be read', async () => (await page.locator('table tbody tr').count()) > 0);
  await page
    .getByRole('button', { name: /^Delete document/ })
    .first()
    .click();
  await page.locator('dialog[open]').getByRole('button', { name: 'Delete', exact: true }).click();
  await until('logins: but not deleted', async () =>
    /Unauthorized \(13\)/.test(await page.locator('dialog[open] .error').textContent()),
  );
  await page.locator('dialog[open]').getByRole('button', { name: 'Close' }).click();
  await sleep(200);
  seen.expecting = false;
}

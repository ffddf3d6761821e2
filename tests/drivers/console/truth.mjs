// Pages say only what they know: while they load, without rights, and while the server does not answer.
import { check, sleep, until } from './harness.mjs';

/** What only a reply of the server can tell. */
const CLAIMS = new RegExp(
  [
    'No stall since|does not tell|does not report pools|Nothing has happened|There are no|There is no|There was no',
    'No operation runs|No lines|too few reads|gave no warnings|No indexes|has no collections|has no entries',
    'are written to the log only|No advice|No documents|newest 0 lines',
  ].join('|'),
);

const PAGES = [
  'overview',
  'memory',
  'storage',
  'alerts',
  'operations',
  'slow',
  'advice',
  'databases',
  'databases/shop',
  'collection/shop/orders',
  'documents/shop/orders',
  'users',
  'log',
  'server',
];

const claimOf = async (page) => CLAIMS.exec(await page.locator('main').innerText())?.[0] ?? null;

/** No reply but the session's has come. */
export async function loading({ page, context, go }) {
  const waiting = [];
  await context.route('**/api/**', (route) =>
    route.request().url().endsWith('/api/session') ? route.continue() : waiting.push(route),
  );
  try {
    for (const name of PAGES) {
      await go(name);
      await page.reload();
      await page.waitForSelector('.page', { state: 'attached' });
      await sleep(400);
      const text = await page.locator('main').innerText();
      const claim = CLAIMS.exec(text)?.[0];
      check(`loading: ${name} claims nothing`, !claim, claim);
      // The page Advice says that the server is at work; Documents has nothing before it knows the databases.
      if (!/^(advice|documents)/.test(name)) check(`loading: ${name} says so`, text.includes('Loading ...'), text);
    }
  } finally {
    await context.unroute('**/api/**');
    for (const route of waiting) await route.continue().catch(() => {});
  }
}

/** A user without clusterMonitor is told which role is missing. */
export async function withoutRights({ page, go }) {
  for (const name of ['overview', 'memory', 'storage', 'alerts', 'slow', 'advice', 'log', 'server']) {
    await go(name);
    await until(`rights: ${name} names the role`, async () =>
      /needs the role clusterMonitor/.test(await page.locator('main').innerText()),
    );
    await sleep(300);
    const text = await page.locator('main').innerText();
    const claim = CLAIMS.exec(text);
    check(`rights: ${name} claims nothing`, claim === null && !text.includes('Loading ...'), claim?.[0] ?? text);
  }
}

const SINCE = /^The server does not answer since \d\d:\d\d:\d\d; last figures of \d\d:\d\d:\d\d\.$/;
const noticeOf = async (page) =>
  (await page.locator('main > .notice').isVisible()) ? page.locator('main > .notice').innerText() : '';

/** A server that stands still: its connections stay open, and no figures come. */
export async function frozen({ page, go }, server) {
  await go('overview');
  await until('frozen: live', async () => (await page.textContent('#state')) === 'Live');
  check('frozen: no notice before', (await noticeOf(page)) === '', await noticeOf(page));
  server.child.kill('SIGSTOP');
  try {
    await until('frozen: the page says since when', async () => SINCE.test(await noticeOf(page)), 12000);
  } finally {
    server.child.kill('SIGCONT');
  }
  await until('frozen: it answers again', async () => (await noticeOf(page)) === '');
}

/** A server that was stopped. `page` shows the page Overview. */
export async function stopped({ page, go }) {
  for (const name of ['overview', 'memory', 'storage']) {
    await go(name);
    await until(`stopped: ${name} says of when its figures are`, async () => SINCE.test(await noticeOf(page)));
  }
  for (const name of [
    'slow',
    'alerts',
    'operations',
    'databases',
    'users',
    'log',
    'server',
    'collection/shop/orders',
  ]) {
    await go(name);
    await until(`stopped: ${name} says that nothing is known`, async () => {
      const text = await page.locator('main').innerText();
      return (
        /does not answer since \d\d:\d\d:\d\d\./.test(text) && text.includes('Not known: the server does not answer.')
      );
    });
    const claim = await claimOf(page);
    check(`stopped: ${name} claims nothing`, claim === null, claim);
  }
  await go('overview');
}

/** Gone when the server is back. */
export async function answersAgain({ page }) {
  await until('stopped: the notice is gone after the restart', async () => (await noticeOf(page)) === '', 20000);
}

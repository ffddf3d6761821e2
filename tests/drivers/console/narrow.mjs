// Long names, values and lines in a window of 390 px: no page is wider than it.
import { check, until } from './harness.mjs';
import { PAGES } from './looks.mjs';

const [WIDTH, HEIGHT] = [390, 844];
const long = (name, length) => name.padEnd(length, 'longWithoutBlanks');
const [DB, COLLECTION] = [long('wide', 60), long('wide', 150)];
const FIELD = long('field', 200);
const VALUE = long('value', 4000);

/** What is wider than the window: the page itself, or the frames of tables that show cells below each other. */
const wide = (page) =>
  page.evaluate(() => {
    const root = document.documentElement;
    const frames = [...document.querySelectorAll('.scroll:has(.stacked, .log)')];
    const found = frames.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent.slice(0, 80));
    return root.scrollWidth > innerWidth || document.body.scrollWidth > innerWidth
      ? [`the page: ${root.scrollWidth}`, ...found]
      : found;
  });

async function fill(client) {
  const c = client.db(DB).collection(COLLECTION);
  await c.insertMany([1, 2].map((_id) => ({ _id: `${_id}${VALUE}`, [FIELD]: VALUE, [long('array', 100)]: [VALUE, { [FIELD]: VALUE }] })));
  await c.createIndex({ [FIELD]: 1, [long('other', 100)]: -1 }, { name: long('index', 120) });
  const roles = [long('role', 80), long('role2', 80)];
  for (const role of roles)
    await client.db(DB).command({ createRole: role, privileges: [], roles: [] });
  await client.db(DB).command({ createUser: long('user', 150), pwd: 'x', roles });
  await client.db('admin').command({ profile: 0, slowms: 0 });
  await c.find({ [FIELD]: { $gt: VALUE } }, { comment: VALUE }).sort({ [long('other', 100)]: 1 }).toArray();
  await c.aggregate([{ $match: { [long('other', 100)]: VALUE } }, { $group: { _id: `$${FIELD}` } }]).toArray();
  await c.updateMany({ [FIELD]: VALUE }, { $set: { [long('new', 200)]: VALUE } });
  await client.db('admin').command({ profile: 0, slowms: 100 });
}

/** Every page, and what is opened on it. */
export async function narrow({ page, go }, client) {
  await fill(client);
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: WIDTH, height: HEIGHT });
  const fits = async (where) => {
    await page.waitForTimeout(300);
    const found = await wide(page);
    check(`narrow: ${where} is not wider than the window`, found.length === 0, found);
  };
  const [db, name] = [encodeURIComponent(DB), encodeURIComponent(COLLECTION)];
  const own = [
    [`databases/${db}`, 'tbody tr'],
    [`collection/${db}/${name}`, 'tbody tr:nth-child(2)'],
    [`documents/${db}/${name}`, '.query'],
  ];
  for (const [hash, ready] of [...PAGES, ...own]) {
    await go(hash);
    await until(`narrow: ${hash.slice(0, 40)}: ready`, () => page.locator(ready).first().isVisible());
    await fits(hash.slice(0, 40));
  }
  const operation = client.db(DB).collection(COLLECTION).find({ $where: `sleep(8000); return '${VALUE}'` });
  const running = operation.maxTimeMS(20000).toArray().catch(() => {});
  await go('operations');
  const row = page.locator('tbody tr', { hasText: DB.slice(0, 40) }).first();
  await until('narrow: an operation is shown', () => row.isVisible());
  await fits('operations with long commands');
  await running;
  await slow(page, go, fits);
  await log(page, go, fits);
  await documents(page, go, fits, `documents/${db}/${name}`);
  await page.setViewportSize({ width: 1280, height: 900 });
  await client.db(DB).command({ dropAllUsersFromDatabase: 1 });
  await client.db(DB).command({ dropAllRolesFromDatabase: 1 });
  await client.db(DB).dropDatabase();
}

async function slow(page, go, fits) {
  await go('slow');
  const rows = page.locator('tbody tr', { hasText: DB.slice(0, 40) });
  await until('narrow: slow operations', async () => (await rows.count()) > 1);
  await fits('slow operations with long names');
  for (const row of (await rows.all()).slice(0, 3)) {
    await row.getByRole('button', { name: /^Examine/ }).click();
    await until('narrow: an example', () => page.locator('.details pre').first().isVisible());
    await fits('a slow operation');
  }
}

/** The log, whose lines are opened. */
async function log(page, go, fits) {
  await go('log');
  await page.getByLabel('Text', { exact: true }).fill('longWithoutBlanks');
  await until('narrow: long lines', async () => (await page.locator('tbody details').count()) > 2);
  await fits('the log');
  await page.locator('tbody details summary').first().click();
  await until('narrow: a line is opened', () => page.locator('tbody details[open] pre').isVisible());
  await fits('the log with an open line');
  const head = await page.locator('tbody tr td').first().boundingBox();
  check('narrow: the first cell of the log is readable', head && head.width > 60 && head.height < 60, head);
}

async function documents(page, go, fits, hash) {
  await go(hash);
  await until('narrow: documents', async () =>
    (await page.locator('main tbody').first().textContent()).includes('longWithoutBlanks'),
  );
  await fits('documents');
  await page.getByRole('radio', { name: 'JSON' }).check();
  await fits('documents as JSON');
  await page.getByRole('button', { name: 'Explain' }).click();
  await until('narrow: a plan', async () => (await page.textContent('main')).includes('COLLSCAN'));
  await fits('a plan');
  await page.locator('.plan details summary').last().click();
  await fits('the details of a plan');
}

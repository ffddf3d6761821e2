// Every page in light and dark, wide and narrow: accessibility, overflow, keyboard, screenshots.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { check, need, until } from './harness.mjs';

const axe = readFileSync(need.resolve('axe-core/axe.min.js'), 'utf8');

/** Violations of axe that are not minor. */
async function violations(page) {
  // Evaluated by the debugger's protocol, which the content security policy does not apply to.
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  return found.violations
    .filter((one) => one.impact !== 'minor')
    .map((one) => ({
      id: one.id,
      nodes: one.nodes.slice(0, 3).map((node) => [node.html.slice(0, 160), node.failureSummary?.slice(0, 200)]),
    }));
}

const overflow = (page) =>
  page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    const wide = [...document.querySelectorAll('body *')].filter(
      (node) =>
        node.getBoundingClientRect().right > width + 1 && !node.closest('.scroll, .plot, .code, .unseen, .probe'),
    );
    return document.documentElement.scrollWidth > width
      ? wide.slice(0, 4).map((node) => `${node.tagName}.${node.className} ${node.textContent.slice(0, 40)}`)
      : null;
  });

/** Headers of tables whose text is cut, or wrapped on a narrow screen; tables that no frame within the screen scrolls. */
const tables = (page) =>
  page.evaluate(() => {
    const [width, isNarrow] = [document.documentElement.clientWidth, innerWidth < 500];
    const cut = [...document.querySelectorAll('thead th')].filter((th) => {
      const range = document.createRange();
      range.selectNodeContents(th);
      const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top / 8)));
      return th.scrollWidth > th.clientWidth + 1 || (isNarrow && lines.size > 2);
    });
    const loose = [...document.querySelectorAll('table')].filter((table) => {
      const frame = table.closest('.scroll')?.getBoundingClientRect();
      return !frame || frame.right > width + 1;
    });
    return [...cut, ...loose].map((node) => node.textContent.slice(0, 60));
  });

/** Buttons in rows of tables that are outside of the view, which must be scrolled sideways to be found. */
const hidden = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll('main tbody button')]
      .filter((one) => one.getBoundingClientRect().right > document.documentElement.clientWidth)
      .map((one) => one.getAttribute('aria-label') ?? one.textContent),
  );

/** Examines what the page shows now, such as a dialog, and takes a screenshot of it. */
export async function examine(page, work, name) {
  await page.waitForTimeout(300);
  const found = await violations(page);
  check(`${name}: axe`, found.length === 0, found);
  await page.screenshot({ path: path.join(work, `${name}.png`), fullPage: true });
}

/** Pages and what must be there before they are examined. */
export const PAGES = [
  ['overview', '.heatmap canvas'],
  ['memory', 'tbody tr:nth-child(2)'],
  ['storage', '.plot canvas'],
  ['alerts', 'tbody tr'],
  ['operations', 'tbody tr'],
  ['slow', 'tbody tr'],
  ['advice', '.page-advice details, .page-advice section'],
  ['databases', 'tbody tr:nth-child(2)'],
  ['databases/shop', 'tbody tr:nth-child(2)'],
  ['collection/shop/indexed', 'tbody tr:nth-child(2)'],
  ['documents/shop/kinds', '.query'],
  ['users', 'tbody tr'],
  ['log', 'tbody tr:nth-child(5)'],
  ['server', 'section:last-of-type tbody tr:nth-child(5)'],
];

/** Pages whose tables show cells below each other in a narrow window. */
const STACKED = ['alerts', 'operations', 'slow', 'collection/shop/indexed'];

/** Examines all pages of a context with a theme and a width. */
export async function pages({ page, go }, work, theme, width) {
  await page.emulateMedia({ colorScheme: theme });
  await page.setViewportSize({ width, height: width < 500 ? 844 : 900 });
  for (const [name, ready] of PAGES) {
    await go(name);
    await until(`${name}, ${theme}, ${width}: ready`, () => page.locator(ready).first().isVisible());
    await page.waitForTimeout(400);
    const found = await violations(page);
    check(`${name}, ${theme}, ${width}: axe`, found.length === 0, found);
    const wide = await overflow(page);
    check(`${name}, ${theme}, ${width}: no horizontal scrolling`, wide === null, wide);
    const bad = await tables(page);
    check(`${name}, ${theme}, ${width}: tables`, bad.length === 0, bad);
    if (STACKED.includes(name)) {
      const away = await hidden(page);
      check(`${name}, ${theme}, ${width}: buttons are in the view`, away.length === 0, away);
    }
    await page.screenshot({
      path: path.join(work, `${name.replaceAll('/', '-')}-${theme}-${width}.png`),
      fullPage: true,
    });
  }
}

/** Theme, menu, skip link and focus by keyboard. */
export async function keyboard({ page, go }) {
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ colorScheme: 'light' });
  await go('server');
  await page.reload();
  await page.waitForSelector('.facts');
  const since = await page.textContent('.running');
  await until('server: the time for which it has run moves', async () => (await page.textContent('.running')) !== since);
  await page.keyboard.press('Tab');
  check(
    'keyboard: the first stop is the skip link',
    await page.evaluate(() => document.activeElement.classList.contains('skip')),
  );
  await page.keyboard.press('Tab');
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  check('keyboard: the focus is visible', outline === 'solid', outline);
  const background = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await background();
  const theme = page.locator('#theme');
  await theme.focus();
  await page.keyboard.press('Enter');
  await page.keyboard.press('Enter');
  check('theme: dark by the button', (await theme.textContent()) === 'Theme: dark' && (await background()) !== light);
  await page.reload();
  await page.waitForSelector('.facts');
  check('theme: kept after a reload', (await theme.textContent()) === 'Theme: dark' && (await background()) !== light);
  await theme.click();
  check('theme: as the system', (await theme.textContent()) === 'Theme: system' && (await background()) === light);
  await page.getByRole('link', { name: 'Log', exact: true }).focus();
  await page.keyboard.press('Enter');
  await until('keyboard: a page by its link', async () => (await page.textContent('h1')) === 'Log');
  await page.setViewportSize({ width: 390, height: 844 });
  await page.locator('#menu').focus();
  await page.keyboard.press('Enter');
  check('menu: opened by the keyboard', await page.getByRole('link', { name: 'Memory' }).isVisible());
  await page.keyboard.press('Escape');
  check('menu: closed by Escape', !(await page.getByRole('link', { name: 'Memory' }).isVisible()));
  await page.setViewportSize({ width: 1280, height: 900 });
}

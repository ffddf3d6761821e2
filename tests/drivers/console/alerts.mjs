// The page of alerts, after a stall was provoked: the rule fires, is silenced, and the silence ends.
import { check, until } from './harness.mjs';

export async function alerts({ page, go }, examine) {
  await go('alerts');
  const rules = page.locator('section', { has: page.locator('h2', { hasText: /^Rules$/ }) }).locator('tbody tr');
  await until('alerts: the built-in rules', async () => (await rules.count()) === 13);
  const stall = rules.filter({ hasText: 'longest operation of a stall' });
  await until('alerts: the stall fires', async () =>
    /^firing since/.test(await stall.locator('td').first().textContent()),
  );
  check('alerts: what to do', (await stall.textContent()).includes('Overview page'), await stall.textContent());
  const limit = rules.filter({ hasText: 'processor limit' });
  check(
    'alerts: a condition has its unit',
    (await limit.textContent()).includes('above 30 s'),
    await limit.textContent(),
  );
  const history = page.locator('section', { has: page.locator('h2', { hasText: /^History$/ }) }).locator('tbody tr');
  await until('alerts: the history', async () => (await history.filter({ hasText: 'stall' }).count()) > 0);
  await stall.getByRole('button', { name: 'Silence stall' }).click();
  await examine('dialog-silence');
  const dialog = page.locator('dialog[open]');
  await dialog.getByLabel('For').selectOption('14400');
  await dialog.getByRole('button', { name: 'Silence', exact: true }).click();
  await until('alerts: silent', async () => /silent until/.test(await stall.textContent()));
  await stall.getByRole('button', { name: 'Silence stall' }).click();
  await page.locator('dialog[open]').getByRole('button', { name: 'End the silence' }).click();
  await until('alerts: not silent', async () => !/silent until/.test(await stall.textContent()));
}

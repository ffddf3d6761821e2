// Users and roles of all databases, read only.
import { command } from './api.js';
import { brief, button, code, el, errorBox, fill, section, showError } from './dom.js';
import { table } from './table.js';
import { each } from './databases.js';

const DATABASES_MAX = 200;
const roleNames = (roles) => (roles ?? []).map((role) => `${role.role}@${role.db}`).join(', ');

export async function usersPage(cx) {
  const [userBox, roleBox] = [errorBox(), errorBox()];
  const details = el('div', { class: 'details', hidden: true });
  const show = (title, value) => {
    details.hidden = false;
    fill(
      details,
      el('h2', {}, title),
      code(JSON.stringify(value, null, 2), title),
      button(
        'Close',
        () => {
          details.hidden = true;
        },
        { class: 'quiet' },
      ),
    );
    details.scrollIntoView({ block: 'nearest' });
  };
  const look = (of, name) => ({
    label: 'Actions',
    sort: false,
    cls: 'buttons',
    node: (one, current) =>
      button('Details', () => show(`${of} ${brief(one[name])}@${brief(one.db)}`, current()), {
        class: 'small',
        'aria-label': `Details of ${of} ${brief(one[name])}`,
      }),
  });
  const users = table(
    [
      { label: 'User', value: (user) => user.user },
      { label: 'Database', value: (user) => user.db },
      { label: 'Roles', value: (user) => roleNames(user.roles), cls: 'prose' },
      { label: 'Mechanisms', value: (user) => (user.mechanisms ?? []).join(', ') },
      look('user', 'user'),
    ],
    { label: 'Users', key: (user) => `${user.db}.${user.user}`, sortBy: 0, empty: 'There are no users.' },
  );
  const roles = table(
    [
      { label: 'Role', value: (role) => role.role },
      { label: 'Database', value: (role) => role.db },
      { label: 'Inherits', value: (role) => roleNames(role.roles), cls: 'prose' },
      { label: 'Privileges', value: (role) => (role.privileges ?? []).length, number: true },
      look('role', 'role'),
    ],
    {
      label: 'Roles',
      key: (role) => `${role.db}.${role.role}`,
      sortBy: 0,
      empty: 'There are no roles besides the built-in ones.',
    },
  );
  fill(
    cx.root,
    cx.session.authorization
      ? null
      : el('p', { class: 'notice' }, 'Authorization is off: everyone who reaches the server may do everything.'),
    section('Users', userBox, users.node),
    section('Roles', roleBox, roles.node),
    details,
  );

  command('admin', { usersInfo: { forAllDBs: true } })
    .catch((error) =>
      error.code === 13
        ? command(cx.session.db ?? 'admin', { usersInfo: cx.session.user ?? 1 })
        : Promise.reject(error),
    )
    .then(
      (reply) => {
        if (!cx.left) users.show(reply.users);
      },
      (error) => {
        if (!cx.left) showError(userBox, error);
      },
    );
  try {
    const found = [];
    const { databases } = await command('admin', { listDatabases: 1, nameOnly: true });
    const names = new Set(['admin', ...databases.map((db) => db.name)]);
    await each(cx, [...names].slice(0, DATABASES_MAX), async (db) => {
      found.push(...(await command(db, { rolesInfo: 1, showPrivileges: true })).roles);
    });
    if (!cx.left) roles.show(found);
  } catch (error) {
    if (!cx.left) showError(roleBox, error);
  }
}

// Users and roles of all databases, read only.
import { command } from './api.js';
import { brief, button, code, el, errorBox, fill, section, showError } from './dom.js';
import { table } from './table.js';
import { each } from './databases.js';

const DATABASES_MAX = 200;
const roleNames = (roles) => (roles ?? []).map((role) => `${role.role}@${role.db}`).join(', ');

const UNAUTHORIZED = 13;

/** The column with the button that shows a user or role as text. */
const detailsColumn = (details, of, name) => ({
  label: 'Actions',
  sort: false,
  cls: 'buttons',
  node: (one, current) =>
    button('Details', () => showDetails(details, `${of} ${brief(one[name])}@${brief(one.db)}`, current()), {
      class: 'small',
      'aria-label': `Details of ${of} ${brief(one[name])}`,
    }),
});

function showDetails(details, title, value) {
  const close = () => {
    details.hidden = true;
  };
  details.hidden = false;
  fill(
    details,
    el('h2', {}, title),
    code(JSON.stringify(value, null, 2), title),
    button('Close', close, { class: 'quiet' }),
  );
  details.scrollIntoView({ block: 'nearest' });
}

const userTable = (details) =>
  table(
    [
      { label: 'User', value: (user) => user.user },
      { label: 'Database', value: (user) => user.db },
      { label: 'Roles', value: (user) => roleNames(user.roles), cls: 'prose' },
      { label: 'Mechanisms', value: (user) => (user.mechanisms ?? []).join(', ') },
      detailsColumn(details, 'user', 'user'),
    ],
    { label: 'Users', key: (user) => `${user.db}.${user.user}`, sortBy: 0, empty: 'There are no users.' },
  );

const roleTable = (details) =>
  table(
    [
      { label: 'Role', value: (role) => role.role },
      { label: 'Database', value: (role) => role.db },
      { label: 'Inherits', value: (role) => roleNames(role.roles), cls: 'prose' },
      { label: 'Privileges', value: (role) => (role.privileges ?? []).length, number: true },
      detailsColumn(details, 'role', 'role'),
    ],
    {
      label: 'Roles',
      key: (role) => `${role.db}.${role.role}`,
      sortBy: 0,
      empty: 'There are no roles besides the built-in ones.',
    },
  );

/** All users; the own one if others may not be seen. */
async function readUsers(session) {
  try {
    return (await command('admin', { usersInfo: { forAllDBs: true } })).users;
  } catch (error) {
    if (error.code !== UNAUTHORIZED || !session.user) throw error;
    return (await command(session.db, { usersInfo: session.user })).users;
  }
}

async function readRoles(cx) {
  const found = [];
  const { databases } = await command('admin', { listDatabases: 1, nameOnly: true });
  const names = new Set(['admin', ...databases.map((db) => db.name)]);
  await each(cx, [...names].slice(0, DATABASES_MAX), async (db) => {
    found.push(...(await command(db, { rolesInfo: 1, showPrivileges: true })).roles);
  });
  return found;
}

export async function usersPage(cx) {
  const details = el('div', { class: 'details', hidden: true });
  const [users, roles] = [userTable(details), roleTable(details)];
  const load = async (list, read, box) => {
    try {
      const found = await read;
      if (!cx.left) list.show(found);
    } catch (error) {
      if (!cx.left) showError(box, error);
    }
  };
  const [userBox, roleBox] = [users, roles].map((list) => errorBox('userAdminAnyDatabase', list));
  fill(
    cx.root,
    cx.session.authorization
      ? null
      : el('p', { class: 'notice' }, 'Authorization is off: everyone who reaches the server may do everything.'),
    section('Users', userBox, users.node),
    section('Roles', roleBox, roles.node),
    details,
  );
  await Promise.all([load(users, readUsers(cx.session), userBox), load(roles, readRoles(cx), roleBox)]);
}

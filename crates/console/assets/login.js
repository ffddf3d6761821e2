// The login page: a user of the database, its password and the database that has the user.
import * as api from './api.js';
import { el, errorBox, field, fill, showError } from './dom.js';

/** Shows the form in `main`; calls `done` after a login. */
export function loginPage(main, session, done) {
  const user = el('input', {
    name: 'user',
    autocomplete: 'username',
    required: true,
    autocapitalize: 'none',
    spellcheck: 'false',
    maxlength: '256',
  });
  const password = el('input', {
    name: 'password',
    type: 'password',
    autocomplete: 'current-password',
    required: true,
    maxlength: '4096',
  });
  const db = el('input', {
    name: 'db',
    value: 'admin',
    required: true,
    autocapitalize: 'none',
    spellcheck: 'false',
    maxlength: '64',
  });
  const box = errorBox();
  const send = el('button', { type: 'submit' }, 'Log in');
  const submit = async (event) => {
    event.preventDefault();
    showError(box, null);
    send.disabled = true;
    try {
      await api.login(user.value, password.value, db.value);
      password.value = '';
      done();
    } catch (error) {
      showError(box, error);
      password.value = '';
      password.focus();
    } finally {
      send.disabled = false;
    }
  };
  const form = el(
    'form',
    { class: 'login', onsubmit: submit },
    field('User', user),
    field('Password', password),
    field('Database', db, 'The database in which the user was created, usually admin.'),
    box,
    el('div', { class: 'actions' }, send),
  );
  fill(main, el('h1', {}, 'Log in'), el('p', { class: 'hint' }, session?.host ? `Server ${session.host}` : ''), form);
  user.focus();
}

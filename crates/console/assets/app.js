// Starts the console: session, pages, navigation, theme, the state of the connection.
import * as api from './api.js';
import { announce, el, errorBox, fill, setText, showError } from './dom.js';
import * as contact from './contact.js';
import * as live from './live.js';
import { loginPage } from './login.js';
import { overviewPage } from './overview.js';
import { memoryPage } from './memory.js';
import { storagePage } from './storage.js';
import { operationsPage } from './operations.js';
import { slowPage } from './slow.js';
import { advisePage } from './advise.js';
import { databasesPage } from './databases.js';
import { collectionPage } from './collections.js';
import { documentsPage } from './documents.js';
import { alertsPage } from './alerts.js';
import { usersPage } from './users.js';
import { logPage } from './log.js';
import { serverPage } from './server.js';

const PAGES = {
  overview: { title: 'Overview', group: 'Watch', mount: overviewPage, showsFigures: true },
  memory: { title: 'Memory', group: 'Watch', mount: memoryPage, showsFigures: true },
  storage: { title: 'Storage', group: 'Watch', mount: storagePage, showsFigures: true },
  alerts: { title: 'Alerts', group: 'Watch', mount: alertsPage },
  operations: { title: 'Operations', group: 'Requests', mount: operationsPage },
  slow: { title: 'Slow operations', group: 'Requests', mount: slowPage },
  advice: { title: 'Advice', group: 'Requests', mount: advisePage },
  databases: { title: 'Databases', group: 'Data', mount: databasesPage },
  collection: { title: 'Collection', mount: collectionPage, parent: 'databases' },
  documents: { title: 'Documents', group: 'Data', mount: documentsPage },
  users: { title: 'Users and roles', group: 'Server', mount: usersPage },
  log: { title: 'Log', group: 'Server', mount: logPage },
  server: { title: 'Server', group: 'Server', mount: serverPage },
};

const $ = (id) => document.getElementById(id);
let session = null;
let leave = null;
let mounted = 0;
let open = null;
const notice = el('p', { class: 'notice', role: 'status', hidden: true });

/**
 * What a page gets: `every(ms, fn)` calls now and then again and again while the page is visible, one call at a time;
 * `onLeave` registers clean-up; `args` are the parts of the address after the page's name.
 */
function context(args, root) {
  const ends = [];
  let left = false;
  const cx = {
    args,
    root,
    session,
    get left() {
      return left;
    },
    onLeave: (end) => ends.push(end),
    every(ms, fn) {
      let timer = null;
      let busy = false;
      const tick = async () => {
        clearTimeout(timer);
        if (left || busy || document.hidden) return;
        busy = true;
        try {
          await fn();
        } finally {
          busy = false;
          if (!left) timer = setTimeout(tick, typeof ms === 'function' ? ms() : ms);
        }
      };
      const wake = () => {
        if (!document.hidden) tick();
      };
      document.addEventListener('visibilitychange', wake);
      ends.push(() => {
        clearTimeout(timer);
        document.removeEventListener('visibilitychange', wake);
      });
      tick();
      return tick;
    },
  };
  return {
    cx,
    end: () => {
      left = true;
      ends.forEach((end) => end());
    },
  };
}

function route() {
  const parts = location.hash.replace(/^#\/?/, '').split('/').map(decode);
  const name = Object.hasOwn(PAGES, parts[0]) ? parts[0] : 'overview';
  return { name, args: parts.slice(1) };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Shows the page of the address. `focus` moves the focus to it, as a click on a link does for a page of its own. */
function show(focus) {
  leave?.();
  leave = null;
  open = null;
  const mine = ++mounted;
  const main = $('main');
  if (!session || (session.authorization && !session.user)) {
    showLogin();
    return;
  }
  const { name, args } = route();
  const page = PAGES[name];
  document.title = `${page.title} - Nagi console`;
  drawNav(page.parent ?? name);
  const root = el('div', { class: `page page-${name}` });
  const { cx, end } = context(args, root);
  leave = end;
  open = page;
  contact.opened(page.showsFigures ? live.loadedMs() : null);
  fill(main, el('h1', { id: 'title' }, page.title), notice, root);
  drawNotice();
  Promise.resolve()
    .then(() => page.mount(cx))
    .catch((error) => {
      if (mine !== mounted) return;
      const box = errorBox();
      root.append(box);
      showError(box, error);
    });
  if (focus) {
    main.focus();
    window.scrollTo(0, 0);
  }
}

/** Says of the open page what it cannot know: one place for all pages. */
function drawNotice() {
  const said = open ? contact.noticeOf(contact.state(), open.showsFigures, live.currentState()) : '';
  notice.hidden = !said;
  setText(notice, said);
}

function drawNav(current) {
  const groups = new Map();
  for (const [name, page] of Object.entries(PAGES)) {
    if (!page.group) continue;
    if (!groups.has(page.group)) groups.set(page.group, []);
    groups
      .get(page.group)
      .push(el('li', {}, el('a', { href: `#/${name}`, 'aria-current': name === current ? 'page' : null }, page.title)));
  }
  fill(
    $('nav'),
    [...groups].map(([group, links]) => [el('p', { class: 'group' }, group), el('ul', { 'aria-label': group }, links)]),
  );
  openMenu(false);
}

function openMenu(open) {
  $('menu').setAttribute('aria-expanded', String(open));
  $('nav').classList.toggle('open', open);
}

function showLogin() {
  document.title = 'Log in - Nagi console';
  fill($('nav'));
  $('menu').hidden = true;
  live.stop();
  live.forget();
  showState('login');
  loginPage($('main'), session, start);
}

function drawSession() {
  setText(
    $('host'),
    session?.host
      ? [session.host, session.version, session.storageEngine, session.replicaSet].filter(Boolean).join(' - ')
      : '',
  );
  setText($('user'), session?.user ? `${session.user}@${session.db}` : '');
  $('logout').hidden = !session?.user;
  $('menu').hidden = false;
}

const STATES = {
  starting: 'Connecting',
  live: 'Live',
  lost: 'Connection lost, trying again',
  silent: 'No figures come from the server',
  login: 'Not logged in',
  refused: 'No figures: your user needs the role clusterMonitor',
};
function showState(state) {
  const node = $('state');
  node.className = `state state-${state}`;
  setText(node, STATES[state] ?? state);
}

/** Reads the session and shows the page; tries again while the server cannot be reached. */
async function start() {
  try {
    session = await api.get('api/session', { isOfPage: false });
  } catch (error) {
    showState('lost');
    const box = errorBox();
    fill($('main'), box);
    showError(box, error);
    setTimeout(start, 2000);
    return;
  }
  drawSession();
  if (!session.authorization || session.user) live.start();
  show(false);
}

/** The session has ended, or the server was restarted: the login page replaces the page. */
function loginRequired() {
  if (!session?.user && document.querySelector('form.login')) return;
  session = { ...session, authorization: true, user: null, db: null };
  drawSession();
  show(false);
  announce('Please log in again.');
}

const THEMES = ['system', 'light', 'dark'];
function currentTheme() {
  return document.documentElement.dataset.theme ?? 'system';
}
function setTheme(theme) {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    if (theme === 'system') localStorage.removeItem('nagi-theme');
    else localStorage.setItem('nagi-theme', theme);
  } catch {
    // Without storage the choice lasts until the page is closed.
  }
  drawTheme();
  document.dispatchEvent(new Event('nagi-theme'));
}
function drawTheme() {
  setText($('theme'), `Theme: ${currentTheme()}`);
}

api.onLoginRequired(loginRequired);
let lost = false;
contact.onContact(drawNotice);
live.on('sample', () => {
  if (open?.showsFigures && live.loadedMs() !== null) contact.loaded(live.loadedMs());
});
live.on('state', (state) => {
  showState(state);
  drawNotice();
  // The server may be another one now.
  if (state === 'live' && lost)
    api.get('api/session', { isOfPage: false }).then(
      (next) => {
        session = next;
        drawSession();
      },
      () => {},
    );
  lost = state === 'lost';
  if (state === 'login') loginRequired();
});
window.addEventListener('hashchange', () => show(true));
$('menu').addEventListener('click', () => openMenu($('menu').getAttribute('aria-expanded') !== 'true'));
$('theme').addEventListener('click', () => setTheme(THEMES[(THEMES.indexOf(currentTheme()) + 1) % THEMES.length]));
$('logout').addEventListener('click', async () => {
  await api.logout().catch(() => {});
  live.stop();
  start();
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && $('menu').getAttribute('aria-expanded') === 'true') {
    openMenu(false);
    $('menu').focus();
  }
});
drawTheme();
showState('starting');
start();

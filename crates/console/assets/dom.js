// Elements, errors and dialogs. Text is always inserted as text nodes, never parsed as HTML: names and values of
// documents are hostile.

import { reasonOf } from './contact.js';

/** Rows that a list shows at most. */
export const ROWS_MAX = 500;
/** Characters of one text that are shown at most. */
export const TEXT_MAX = 10000;

let ids = 0;
/** A new id of an element, for labels. */
export const newId = (prefix) => `${prefix}-${++ids}`;

/** Cuts a text to `max` characters and says so. */
export function cut(text, max = TEXT_MAX) {
  const all = String(text);
  return all.length <= max ? all : `${all.slice(0, max)} ... (${all.length - max} more characters are not shown)`;
}

/** Cuts without a note, for cells. */
export function brief(text, max = 120) {
  const all = String(text);
  return all.length <= max ? all : `${all.slice(0, max - 3)}...`;
}

/**
 * Creates an element. Properties: `on*` are listeners, `class` and everything else are attributes; true is an
 * attribute without a value; null, undefined and false are left out. Children: nodes, texts, arrays, null.
 */
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  append(node, children);
  return node;
}

/** Appends nodes and texts. */
export function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replaces the children. */
export function fill(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

/** Sets the text if it differs: an unchanged node keeps its selection. */
export function setText(node, text) {
  const next = String(text);
  if (node.textContent !== next) node.textContent = next;
}

export const button = (label, onclick, properties = {}) =>
  el('button', { type: 'button', onclick, ...properties }, label);

/** A label above its control. */
export function field(label, control, hint) {
  control.id ||= newId('field');
  const note = hint ? el('span', { class: 'hint', id: `${control.id}-hint` }, hint) : null;
  if (note) control.setAttribute('aria-describedby', note.id);
  return el('div', { class: 'field' }, el('label', { for: control.id }, label), control, note);
}

/** A `select` of texts or [value, text] pairs. */
export function select(options, value, onchange, properties = {}) {
  const node = el('select', { ...properties, onchange: () => onchange(node.value) });
  setOptions(node, options, value);
  return node;
}

export function setOptions(node, options, value) {
  fill(
    node,
    options.map((option) => {
      const [key, text] = Array.isArray(option) ? option : [option, option];
      return el('option', { value: key, selected: key === value }, text);
    }),
  );
}

/** A check box with its label behind it. */
export function checkBox(label, onchange) {
  const input = el('input', { type: 'checkbox', onchange: () => onchange(input.checked) });
  return el('label', { class: 'check' }, input, label);
}

/** A group of radio buttons with a legend. */
export function choice(legend, options, value, onchange) {
  const name = newId('choice');
  return el(
    'fieldset',
    { class: 'choice' },
    el('legend', {}, legend),
    options.map(([key, text]) => {
      const input = el('input', {
        type: 'radio',
        name,
        value: key,
        checked: key === value,
        onchange: () => onchange(key),
      });
      return el('label', {}, input, el('span', {}, text));
    }),
  );
}

/** For each error box the role that suffices for its requests, and what they fill. */
const requests = new WeakMap();

/**
 * A box for an error of the server at the place of the request; empty without one. `role` suffices for the request.
 * `parts` are what the request fills: tables, or others with `absent(text)`, which say why they are empty.
 */
export function errorBox(role, ...parts) {
  const box = el('div', { class: 'error', role: 'alert', hidden: true });
  requests.set(box, { role, parts });
  return box;
}

/** Names what the requests of a box fill. */
export const fills = (box, ...parts) => requests.get(box).parts.push(...parts);

/**
 * An element that says that it is loading, or why it has nothing, until it has something:
 * `{node, show(...children), absent(text)}`.
 */
export function pending() {
  const node = el('div', {}, el('p', { class: 'hint' }, reasonOf()));
  let isShown = false;
  return {
    node,
    show(...children) {
      isShown = true;
      fill(node, ...children);
    },
    absent(text) {
      if (!isShown) fill(node, el('p', { class: 'hint' }, text));
    },
  };
}

/** Shows an error, or hides the box if there is none. */
export function showError(box, error) {
  box.hidden = !error;
  if (!error) {
    if (box.firstChild) box.replaceChildren();
    return;
  }
  const { role, parts } = requests.get(box) ?? { parts: [] };
  const name = error.codeName ? `${error.codeName}${error.code ? ` (${error.code})` : ''}: ` : '';
  const needs = role && error.code === 13 ? ` (needs the role ${role})` : '';
  setText(box, cut(`${name}${error.message ?? error}${needs}`));
  parts.forEach((part) => part.absent(reasonOf(error, role)));
}

/** A part of a page with a heading. */
export function section(title, ...children) {
  const heading = el('h2', { id: newId('part') }, title);
  return el('section', { 'aria-labelledby': heading.id }, heading, children);
}

/**
 * A scrollable part that the keyboard reaches. It is a group, not a region: there may be many of one name, and the
 * landmarks of a page are its sections.
 */
export const scroller = (label, ...children) =>
  el('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': label }, children);

/** A text in a fixed-width block, cut to the limit. */
export const code = (text, label = 'Text') =>
  el('pre', { class: 'code', tabindex: '0', role: 'group', 'aria-label': label }, cut(text));

/** A list of names and values. */
export function facts(pairs) {
  return el(
    'dl',
    { class: 'facts' },
    pairs
      .filter((pair) => pair && pair[1] !== undefined && pair[1] !== null)
      .map(([name, value]) => [el('dt', {}, name), el('dd', {}, value instanceof Node ? value : cut(value, 2000))]),
  );
}

/** Says a sentence to screen readers. */
export function announce(text) {
  const node = document.getElementById('announce');
  node.textContent = '';
  // A change in the next task is announced even if the text is the same as before.
  setTimeout(() => {
    node.textContent = text;
  }, 50);
}

/**
 * Opens a modal dialog. `build(close)` returns its contents; the promise has the argument of `close`, or undefined if
 * the dialog was cancelled. The focus returns to where it was.
 */
export function dialog(title, build, wide = false) {
  return new Promise((resolve) => {
    const before = document.activeElement;
    const heading = el('h2', { id: newId('dialog') }, title);
    const node = el('dialog', { 'aria-labelledby': heading.id, class: wide ? 'wide' : null });
    let result;
    const close = (value) => {
      result = value;
      node.close();
    };
    append(node, [heading, build(close)]);
    node.addEventListener('close', () => {
      node.remove();
      if (before?.isConnected) before.focus();
      resolve(result);
    });
    document.body.append(node);
    node.showModal();
  });
}

/**
 * Asks before a change. With `typed` the button is enabled when this name has been typed. Resolves to true if it was
 * confirmed.
 */
export async function confirm({ title, text, detail, action, typed }) {
  const confirmed = await dialog(title, (close) => {
    const yes = button(action, () => close(true), { class: 'danger', disabled: typed !== undefined });
    const no = button('Cancel', () => close(false), { class: 'quiet', autofocus: typed === undefined });
    const input =
      typed === undefined
        ? null
        : el('input', {
            autocomplete: 'off',
            spellcheck: 'false',
            autofocus: true,
            oninput: () => {
              yes.disabled = input.value !== typed;
            },
          });
    return [
      el('p', {}, text),
      detail ? code(detail, 'Details') : null,
      input ? field(`Type ${brief(typed, 300)} to confirm`, input) : null,
      el('div', { class: 'actions' }, yes, no),
    ];
  });
  return confirmed === true;
}

// Advice of the server (nagiAdvise): indexes to create and to drop, collections to compress, the size of the caches,
// each with its evidence.
import { commandText } from './api.js';
import { brief, button, code, el, errorBox, facts, fill, setText, showError } from './dom.js';
import { bytes, count, duration, exact, percent, time } from './format.js';
import { dig, parse, text } from './ejson.js';
import { buildButton } from './trial.js';

const TIMEOUT_MS = 120000;
const number = (value, ...names) => Number(dig(value, ...names) ?? 0);
const list = (value) => (Array.isArray(value) ? value : []);
const string = (value, ...names) => String(dig(value, ...names) ?? '');
const dateOf = (value) => Date.parse(dig(value, '$date') ?? '');

export function advisePage(cx) {
  const box = errorBox('clusterMonitor');
  const note = el('p', { class: 'hint', role: 'status' });
  const shown = el('div');
  const again = button('Get advice', () => load(), { class: 'quiet' });

  async function load() {
    again.disabled = true;
    setText(note, 'The server looks at its slow operations and tries indexes on samples ...');
    try {
      const reply = parse(await commandText('admin', JSON.stringify({ nagiAdvise: 1 }), { timeoutMs: TIMEOUT_MS }));
      if (cx.left) return;
      showError(box, null);
      setText(note, summary(reply));
      fill(shown, list(reply.get('advice')).map(card), cacheList(reply), others(list(reply.get('notAdvised'))));
    } catch (error) {
      if (cx.left) return;
      setText(note, '');
      fill(shown);
      showError(box, error);
    } finally {
      again.disabled = false;
    }
  }

  fill(cx.root, el('div', { class: 'bar' }, again), note, box, shown);
  return load();
}

/** How much the advice is based on. */
export function summary(reply) {
  const advice = list(reply.get('advice')).length;
  const said = advice === 0 ? 'No advice' : advice === 1 ? '1 piece of advice' : `${advice} pieces of advice`;
  return (
    `${said}, from ${exact(number(reply, 'slowOperations', 'operations'))} slow operations of ` +
    `${exact(number(reply, 'slowOperations', 'shapes'))} shapes in ` +
    `${duration(number(reply, 'uptimeSeconds') * 1000)}. ` +
    `An operation is slow from ${exact(number(reply, 'slowms'))} ms on.`
  );
}

/** The title of a piece of advice. */
export function title(advice) {
  const ns = string(advice, 'ns');
  const titles = {
    createIndex: () => `Create the index ${text(advice.get('key'))} on ${ns}`,
    dropIndex: () => `Drop the index ${string(advice, 'name')} of ${ns}`,
    compress: () => `Compress ${ns} with ${string(advice, 'compressor')}`,
    cacheSize: () => `Enlarge the cache of ${string(advice, 'cache')}`,
  };
  const kind = string(advice, 'kind');
  return brief(Object.hasOwn(titles, kind) ? titles[kind]() : `${kind} on ${ns}`, 300);
}

function card(advice) {
  const box = errorBox();
  const note = el('p', { class: 'hint', role: 'status' });
  const ns = string(advice, 'ns');
  const [db, collection] = [ns.slice(0, ns.indexOf('.')), ns.slice(ns.indexOf('.') + 1)];
  const command = advice.get('kind') === 'createIndex' ? advice.get('command') : null;
  return el(
    'section',
    { class: 'advice' },
    el('h2', {}, title(advice)),
    el('p', {}, `${string(advice, 'reason')}.`),
    facts(evidence(advice)),
    list(advice.get('shapes')).map(shape),
    ['tryFirst', 'command']
      .filter((name) => advice.get(name) instanceof Map)
      .map((name) => code(text(advice.get(name), 2), name === 'command' ? 'Command' : 'Hide the index first')),
    command instanceof Map ? buildButton({ db, collection, command, note, box }) : null,
    note,
    box,
  );
}

/** What the advice is based on, as pairs of name and text. */
export function evidence(advice) {
  const measured = advice.get('measured');
  const pairs = [];
  if (advice.get('kind') === 'cacheSize') return cacheEvidence(advice);
  if (measured instanceof Map) {
    const [some, all] = ['documents', 'ofDocuments'].map((name) => exact(number(measured, 'sample', name)));
    pairs.push(['Measured on', `${some} of ${all} documents`]);
    if (measured.has('present')) pairs.push(...gain(measured));
  }
  if (advice.has('notMeasured')) pairs.push(['Not measured', string(advice, 'notMeasured')]);
  if (advice.has('sizeBytes')) pairs.push(['Size', bytes(number(advice, 'sizeBytes'))]);
  if (advice.has('accesses')) {
    const since = time(dateOf(dig(advice, 'accesses', 'since')));
    pairs.push(['Uses', `${exact(number(advice, 'accesses', 'ops'))} since ${since}`]);
  }
  if (advice.has('savedBytes')) {
    const [saved, all] = [number(advice, 'savedBytes'), number(advice, 'storageSizeBytes')];
    pairs.push(['Saved', `about ${bytes(saved)} of ${bytes(all)}`]);
  }
  return pairs;
}

function cacheEvidence(advice) {
  const sizes = list(dig(advice, 'measured', 'sizes'));
  const one = (size) => `${percent(number(size, 'hitRate'))} with ${bytes(number(size, 'bytes'))}`;
  const gib = (name) => `${number(advice, name)} GiB`;
  const pairs = [
    ['Now', bytes(number(advice, 'presentBytes'))],
    ['For 99 % hits', bytes(number(advice, 'bytesFor99Percent'))],
    ['Expected hits', sizes.map(one).join(', ')],
    ['Measured on', `${exact(number(advice, 'measured', 'sampledReads'))} sampled reads`],
  ];
  const change = `${gib('cacheSizeGB')} instead of ${gib('presentCacheSizeGB')}`;
  if (advice.has('option')) pairs.push(['Option', `${string(advice, 'option')}: ${change}`]);
  if (advice.has('memoryBytes')) pairs.push(['Memory of the machine', bytes(number(advice, 'memoryBytes'))]);
  return pairs;
}

/** One sentence on each cache of which enough is known. */
export function cacheTexts(reply) {
  return list(reply.get('caches')).map((size) => {
    const name = string(size, 'cache') === 'records' ? 'documents' : string(size, 'cache');
    const goal = size.has('bytesFor99Percent')
      ? `99 % need ${bytes(number(size, 'bytesFor99Percent'))}`
      : 'no size up to 8 times this one is expected to answer 99 %';
    return (
      `The cache of ${name} (${bytes(number(size, 'limitBytes'))}) answers ` +
      `about ${percent(number(size, 'hitRate'))} of its reads; ${goal} ` +
      `(from ${exact(number(size, 'sampledReads'))} sampled reads).`
    );
  });
}

const cacheList = (reply) => cacheTexts(reply).map((sentence) => el('p', { class: 'caches' }, sentence));

function gain(measured) {
  const side = (name) =>
    `${brief(list(dig(measured, name, 'plans')).join(', '), 200)}: ` +
    `${exact(number(measured, name, 'totalKeysExamined') + number(measured, name, 'totalDocsExamined'))} ` +
    `keys and documents for each operation${dig(measured, name, 'sortsInMemory') === true ? ', sorted in memory' : ''}`;
  return [
    ['Now', side('present')],
    ['With the index', side('withIndex')],
    ['Gain', `${exact(number(measured, 'examinedRatio'))} times less is examined`],
    ['Expected size', bytes(number(measured, 'expectedSizeBytes'))],
  ];
}

function shape(one) {
  return el(
    'p',
    { class: 'hint' },
    `${string(one, 'operation')} `,
    el('span', { class: 'mono' }, brief(string(one, 'shape'), 300)),
    `: ${count(number(one, 'count'))} times, ${duration(number(one, 'totalMillis'))} in all, ` +
      `${count(number(one, 'docsExamined'))} documents examined, ${count(number(one, 'nReturned'))} returned.`,
  );
}

function others(rows) {
  if (!rows.length) return null;
  return el(
    'details',
    {},
    el('summary', {}, `Slow operations without advice (${rows.length})`),
    rows.map((one) => [shape(one), el('p', {}, `${brief(string(one, 'ns'))}: ${brief(string(one, 'reason'), 400)}.`)]),
  );
}

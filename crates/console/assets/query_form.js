// The form of a query: find or aggregate in the notation of the shell, and the text of its command.
import { choice, el, field, select } from './dom.js';
import { compose, typedPart } from './typed.js';

/** Queries end after this time. */
export const QUERY_MAX_MS = 30000;
/** Matches pipelines that write. */
const WRITES = /["']?\$(out|merge)["']?\s*:/;
/** What was typed for each namespace, while the console is open. */
const drafts = new Map();
const DRAFTS_MAX = 50;

const input = (name, placeholder, rows = 1) =>
  rows > 1
    ? el('textarea', { name, rows, placeholder, spellcheck: 'false', class: 'mono' })
    : el('input', { name, placeholder, spellcheck: 'false', autocomplete: 'off', class: 'mono' });

function controls() {
  return {
    filter: input('filter', '{status: "open", total: {$gt: 10}}', 2),
    projection: input('projection', '{total: 1}'),
    sort: input('sort', '{total: -1}'),
    skip: el('input', { name: 'skip', type: 'number', min: '0', max: '2000000000', value: '0', class: 'short' }),
    size: select(['10', '20', '50'], '20', () => {}, { name: 'size' }),
    pipeline: input('pipeline', '[{$group: {_id: "$status", n: {$sum: 1}}}]', 5),
  };
}

/**
 * The form of the query: `{node, read(), onRun(handler)}`. `read` returns the query as it is typed now, which does not
 * change with the form: `{size, body(page), writes}`, where `body` is a `Composed` command; or throws SyntaxError.
 */
export function queryForm(db, collection) {
  const draft = drafts.get(`${db}.${collection}`) ?? {};
  const parts = controls();
  for (const [name, control] of Object.entries(parts)) if (draft[name] !== undefined) control.value = draft[name];
  let mode = draft.mode ?? 'find';
  const find = el(
    'div',
    { class: 'fields' },
    field('Filter', parts.filter),
    field('Projection', parts.projection),
    field('Sort', parts.sort),
    field('Skip', parts.skip),
  );
  const aggregate = el('div', { class: 'fields' }, field('Pipeline', parts.pipeline));
  const draw = () => {
    find.hidden = mode !== 'find';
    aggregate.hidden = mode !== 'aggregate';
  };
  draw();
  const node = el(
    'form',
    { class: 'query', 'aria-label': 'Query' },
    choice(
      'Kind',
      [
        ['find', 'find'],
        ['aggregate', 'aggregate'],
      ],
      mode,
      (next) => {
        mode = next;
        draw();
      },
    ),
    find,
    aggregate,
    field('Documents on a page', parts.size),
  );
  const keep = () => {
    if (drafts.size >= DRAFTS_MAX) drafts.clear();
    const values = Object.entries(parts).map(([name, control]) => [name, control.value]);
    drafts.set(`${db}.${collection}`, { mode, ...Object.fromEntries(values) });
  };
  return {
    node,
    onRun(handler) {
      node.addEventListener('submit', (event) => {
        event.preventDefault();
        keep();
        handler();
      });
      node.addEventListener('keydown', (event) => {
        if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        node.requestSubmit();
      });
    },
    read: () => queryOf(mode, parts, collection),
  };
}

function queryOf(mode, parts, collection) {
  const size = Number(parts.size.value);
  const name = JSON.stringify(collection);
  if (mode === 'aggregate') {
    const pipeline = typedPart('Pipeline', parts.pipeline.value, '[');
    const writes = WRITES.test(pipeline.text);
    const rest = `"cursor": {"batchSize": ${size + 1}}, "maxTimeMS": ${QUERY_MAX_MS}`;
    const body = (page) => compose`{"aggregate": ${name}, "pipeline": ${paged(pipeline, page * size, size)}, ${rest}}`;
    return { size, body, writes };
  }
  const skipped = Math.max(0, Number(parts.skip.value) || 0);
  const [filter, projection, sort] = ['Filter', 'Projection', 'Sort'].map((label) =>
    typedPart(label, parts[label.toLowerCase()].value),
  );
  const body = (page) => {
    const limits = `"skip": ${skipped + page * size}, "limit": ${size}, "singleBatch": true`;
    const query = compose`"filter": ${filter}, "projection": ${projection}, "sort": ${sort}`;
    return compose`{"find": ${name}, ${query}, ${limits}, "maxTimeMS": ${QUERY_MAX_MS}}`;
  };
  return { size, body, writes: false };
}

/** Adds $skip and $limit to a typed pipeline; one that writes stays as it is. */
function paged(pipeline, skip, limit) {
  if (WRITES.test(pipeline.text)) return pipeline;
  const inner = pipeline.inner();
  return compose`[${inner}${inner.text.trim() ? ', ' : ''}{"$skip": ${skip}}, {"$limit": ${limit}}]`;
}

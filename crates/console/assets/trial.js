// Tries an index that does not exist, by explain with hypotheticalIndexes, and builds it.
import { commandOf, ServerError } from './api.js';
import { brief, button, confirm, el, facts, fill, setText, showError } from './dom.js';
import { bytes, exact, plain } from './format.js';
import { text } from './ejson.js';

const BUILD_TIMEOUT_MS = 600000;
const TRIAL_MAX_MS = 30000;

/** The explain command of `explainText` with indexes that do not exist, as `createIndexes` takes them. */
export const trialText = (explainText, indexes) =>
  explainText.replace(/\}$/, `, "hypotheticalIndexes": ${text(indexes)}, "maxTimeMS": ${TRIAL_MAX_MS}}`);

const examined = (estimate) => plain(estimate.totalKeysExamined) + plain(estimate.totalDocsExamined);
const side = (plan) =>
  `${brief(plan.planSummary, 200)}: ${exact(examined(plan.estimate))} keys and documents` +
  (plan.estimate.sortsInMemory ? ', sorted in memory' : '');

/** What a trial has shown, as pairs of name and text; the first is its result in one sentence. */
export function trialFacts({ hypothetical }) {
  const [index] = hypothetical.indexes;
  const { sample, present, withIndexes } = hypothetical;
  const ratio = plain(hypothetical.examinedRatio);
  // A query that needs an index has no plan now.
  const now = present.estimate ? side(present) : brief(present.errmsg, 300);
  const avoids = present.estimate?.sortsInMemory && !withIndexes.estimate.sortsInMemory;
  const gain = avoids ? ' and would not be sorted in memory' : '';
  const helps = present.estimate
    ? `The query would examine ${exact(Math.round(ratio * 10) / 10)} times less${gain}.`
    : 'The query would have a plan.';
  return [
    ['Result', index.used ? helps : 'The planner would not use the index.'],
    ['Now', now],
    ['With the index', side(withIndexes)],
    ['Measured on', `${exact(plain(sample.documents))} of ${exact(plain(sample.ofDocuments))} documents`],
    ['Expected size', bytes(plain(index.expectedSizeBytes))],
  ];
}

/** A button that tries an advised index, and the element for its result. */
export function trialButton({ db, explain, indexes, box }) {
  const shown = el('div', { class: 'trial', 'aria-live': 'polite' });
  const node = button('Try', async () => {
    node.disabled = true;
    fill(shown, el('p', { class: 'hint' }, 'Trying the index on a sample of the documents ...'));
    try {
      const reply = await commandOf(db, trialText(explain, indexes));
      fill(shown, facts(trialFacts(reply)));
      showError(box, null);
    } catch (error) {
      fill(shown);
      showError(box, error);
    }
    node.disabled = false;
  });
  return { node, shown };
}

/** A button that runs the advised `command` (createIndexes) after a confirmation; `note` says how it goes. */
export function buildButton({ db, collection, command, note, box }) {
  const node = button('Build this index', async () => {
    const body = text(command, 2);
    const sure = await confirm({
      title: 'Build the index?',
      action: 'Build index',
      detail: body,
      text:
        `The index is built on ${db}.${collection}. Reads and writes continue; ` +
        'the build reads all documents and uses disk and processor.',
    });
    if (!sure) return;
    node.disabled = true;
    setText(note, 'Building ... The page Operations shows the progress.');
    try {
      await commandOf(db, body, { timeoutMs: BUILD_TIMEOUT_MS });
      showError(box, null);
      setText(note, 'The index is built. Explain the example to see it used.');
    } catch (error) {
      setText(
        note,
        error instanceof ServerError && error.status === 0 ? 'The build may still run: see the page Operations.' : '',
      );
      showError(box, error);
      node.disabled = false;
    }
  });
  return node;
}

// Insert, edit and delete one document, each with a confirmation.
import { checkWrite, commandOf, commandText } from './api.js';
import { announce, button, confirm, dialog, el, errorBox, field, showError } from './dom.js';
import { dig, hasDuplicates, parse, soften, text } from './ejson.js';
import { compose, typedPart } from './typed.js';

const TEXT_MAX = 1000000;

/** A dialog with a text; `save(text)` may throw. Resolves to true after it was saved. */
async function editor(title, source, hint, save) {
  return (
    (await dialog(
      title,
      (close) => {
        const box = errorBox();
        const area = el('textarea', { rows: 18, spellcheck: 'false', class: 'mono', autofocus: true });
        area.value = source;
        const send = button('Save', async () => {
          send.disabled = true;
          try {
            if (await save(area.value)) close(true);
          } catch (error) {
            showError(box, error);
          } finally {
            send.disabled = false;
          }
        });
        return [
          field('Document', area, hint),
          box,
          el(
            'div',
            { class: 'actions' },
            send,
            button('Cancel', () => close(false), { class: 'quiet' }),
          ),
        ];
      },
      true,
    )) === true
  );
}

export function insertDocument(db, collection) {
  return editor(
    'Insert a document',
    '{\n  \n}',
    'In the notation of the shell, such as {_id: 1, at: ISODate("2026-01-31")}. Without _id the server makes one.',
    async (source) => {
      const document = typedPart('Document', source);
      const sure = await confirm({
        title: 'Insert the document?',
        text: `Into ${db}.${collection}:`,
        action: 'Insert',
        detail: document.text,
      });
      if (!sure) return false;
      checkWrite(await commandOf(db, compose`{"insert": ${JSON.stringify(collection)}, "documents": [${document}]}`));
      announce('The document was inserted.');
      return true;
    },
  );
}

/** Reads the document with all types, and replaces it if it has not changed in the meantime. */
export async function editDocument(db, collection, id) {
  const name = JSON.stringify(collection);
  const filter = `{"_id": {"$eq": ${text(id)}}}`;
  let original;
  try {
    const reply = await commandText(db, `{"find": ${name}, "filter": ${filter}, "limit": 1, "singleBatch": true}`, {
      canonical: true,
    });
    original = dig(parse(reply), 'cursor', 'firstBatch', 0);
    if (!original) throw new Error('The document does not exist any more.');
    if (hasDuplicates(original)) throw new Error('The document has two fields of one name and cannot be edited here.');
  } catch (error) {
    return failed(error);
  }
  const source = text(soften(original), 2);
  if (source.length > TEXT_MAX) return failed(new Error('The document is too long to be edited here.'));
  return editor(
    'Edit the document',
    source,
    'The whole document is replaced. _id cannot be changed.',
    async (edited) => {
      const document = typedPart('Document', edited);
      if (/^\{\s*["']?\$/.test(document.text)) throw new SyntaxError('The first field must not begin with $');
      const sure = await confirm({
        title: 'Replace the document?',
        text: `In ${db}.${collection}:`,
        action: 'Replace',
        detail: document.text,
      });
      if (!sure) return false;
      // The comparison of the whole document refuses to overwrite another client's change.
      const unchanged = `{"_id": {"$eq": ${text(id)}}, "$expr": {"$eq": ["$$ROOT", {"$literal": ${text(original)}}]}}`;
      const reply = checkWrite(
        await commandOf(db, compose`{"update": ${name}, "updates": [{"q": ${unchanged}, "u": ${document}}]}`),
      );
      if (!Number(reply.n))
        throw new Error('The document was changed or deleted by another client. Close this window and open it again.');
      announce('The document was replaced.');
      return true;
    },
  );
}

export async function deleteDocument(db, collection, document) {
  const sure = await confirm({
    title: 'Delete the document?',
    text: `From ${db}.${collection}. This cannot be undone.`,
    action: 'Delete',
    detail: text(document, 2),
  });
  if (!sure) return false;
  try {
    checkWrite(
      await commandOf(
        db,
        `{"delete": ${JSON.stringify(collection)}, ` +
          `"deletes": [{"q": {"_id": {"$eq": ${text(document.get('_id'))}}}, "limit": 1}]}`,
      ),
    );
    announce('The document was deleted.');
    return true;
  } catch (error) {
    return failed(error);
  }
}

async function failed(error) {
  await dialog('This failed', (close) => {
    const box = errorBox();
    showError(box, error);
    return [
      box,
      el(
        'div',
        { class: 'actions' },
        button('Close', () => close(), { autofocus: true }),
      ),
    ];
  });
  return false;
}

// The findings of the doctor: checks of the machine and of the options, on request.
import { get } from './api.js';
import { announce, button, code, el, errorBox, facts, fill, section, showError } from './dom.js';
import { table } from './table.js';

const ORDER = { critical: 0, warning: 1, note: 2 };
const SEVERITY = { critical: 'E', warning: 'W' };

function findingTable() {
  return table(
    [
      { label: 'Severity', value: (one) => ORDER[one.severity] ?? 3, text: (one) => one.severity },
      { label: 'Check', value: (one) => one.title },
      { label: 'Found', value: (one) => one.what, cls: 'prose', max: 600 },
      { label: 'Why', value: (one) => one.why, cls: 'prose', max: 600 },
      { label: 'Fix', sort: false, node: (one) => code(one.fix, `Fix of ${one.check}`) },
    ],
    {
      label: 'Findings',
      key: (one) => one.check,
      sortBy: 0,
      empty: 'There is nothing to fix.',
      rowClass: (one) => (SEVERITY[one.severity] ? `severity-${SEVERITY[one.severity]}` : ''),
    },
  );
}

const rest = (title, rows = {}) => {
  const pairs = Object.entries(rows);
  return pairs.length ? el('details', {}, el('summary', {}, `${title}: ${pairs.length}`), facts(pairs)) : null;
};

/** The section of the page. */
export function doctorPart(cx) {
  const [box, found] = [errorBox('hostManager'), el('div')];
  const run = button('Run the checks', async () => {
    run.disabled = true;
    try {
      const report = await get('api/doctor');
      if (cx.left) return;
      showError(box, null);
      const findings = report.findings ?? [];
      const list = findingTable();
      fill(found, list.node, rest('Good', report.good), rest('Not known', report.notKnown));
      list.show(findings);
      announce(`${findings.length} findings`);
    } catch (error) {
      showError(box, error);
    } finally {
      run.disabled = false;
    }
  });
  return section(
    'Doctor',
    el(
      'p',
      { class: 'hint' },
      'Settings of this machine and of the server that harm a database. The test of the disk is left out: ',
      'it would take the disk from clients; `nagi doctor` runs it.',
    ),
    el('div', { class: 'bar' }, run),
    box,
    found,
  );
}

window.kw = (name) => getComputedStyle(document.body).getPropertyValue('--' + name).trim();
document.documentElement.lang = 'en';
/* Buttons that do something once: a second press of a double click goes nowhere, and the first one shows at once. */
document.addEventListener('click', (event) => {
  const button = event.target.closest?.('.kw-once');
  if (!button) return;
  if (button.dataset.pressed) {
    event.stopImmediatePropagation();
    event.preventDefault();
    return;
  }
  button.dataset.pressed = 'yes';
  button.setAttribute('aria-busy', 'true');
  setTimeout(() => { delete button.dataset.pressed; button.removeAttribute('aria-busy'); }, 1500);
}, true);
/* A session that is over is told by the page for signing in, not by attempts to connect that go on for ever. */
setInterval(() => {
  if (!window.socket || window.socket.connected) return;
  fetch(window.path_prefix + '/api/about').then((answer) => { if (answer.status === 401) location.reload(); }, () => {});
}, 3000);
/* The bar of requests under way comes without a name. */
window.addEventListener('load', () => window.Quasar.LoadingBar.setDefaults({'aria-label': 'Requests under way'}));
/* Tab goes round in a dialog; from its last stop it would leave the page. */
document.addEventListener('keydown', (event) => {
  const inside = [...document.querySelectorAll('.q-dialog__inner')].pop();
  if (event.key !== 'Tab' || !inside?.contains(document.activeElement)) return;
  const stops = [...inside.querySelectorAll('button, input, select, textarea, a[href], [tabindex]')]
    .filter((one) => one.tabIndex >= 0 && !one.disabled && one.checkVisibility());
  if (event.shiftKey) stops.reverse();
  if (!stops.length || document.activeElement !== stops.at(-1) && !(event.shiftKey && document.activeElement === inside)) return;
  event.preventDefault();
  stops[0].focus();
});
/* A list of choices holds choices alone, no stop of the keyboard around them. */
window.addEventListener('load', () => new MutationObserver(() => requestAnimationFrame(() => {
  for (const one of document.querySelectorAll('[role=listbox] .q-virtual-scroll__content[tabindex]')) one.removeAttribute('tabindex');
})).observe(document.body, {childList: true}));
/* Headings of tables are drawn anew when they sort: the one that was pressed keeps the focus. */
let headings;
document.addEventListener('click', (event) => {
  headings?.disconnect();
  const button = event.target.closest?.('.q-table .kw-sort');
  if (!button) return;
  const table = button.closest('.q-table__container');
  const at = [...table.querySelectorAll('.kw-sort')].indexOf(button);
  const watch = headings = new MutationObserver(() => {
    if (document.activeElement === document.body) table.querySelectorAll('.kw-sort')[at]?.focus();
  });
  headings.observe(table, {childList: true, subtree: true});
  setTimeout(() => watch.disconnect(), 3000);
});
/* What was uploaded leaves the list at once: the answer may take its time, and another file may be on its way by then. */
window.kwUploaded = (info, id, emit) => {
  const list = getElement(id).$refs.qRef;
  [...info.files, ...list.$el.refused ?? []].forEach(list.removeFile);
  list.$el.refused = [];
  emit(JSON.parse(info.xhr.responseText).id);
};
window.kwRefused = (info, id, emit) => {
  const list = getElement(id).$refs.qRef.$el;
  list.refused = [...list.refused ?? [], ...info.files];
  let why = '';
  try { why = JSON.parse(info.xhr.responseText).detail; } catch (error) { /* no answer of the studio */ }
  emit(why || 'The upload was refused or cut off. Is the file larger than the limit?');
};
/* A chart is made a moment after its element; one that is removed in that moment has nothing to dispose of yet. */
window.kwLate = (node) => {
  const owner = node.component.proxy;
  const late = {dispose: () => setTimeout(() => {
    if (owner.chart === late) return;
    owner.chart.dispose();
    owner.resizeObserver?.disconnect();
  }, 100)};
  owner.chart ??= late;
};
/* The horizontal coordinate of a click inside the axes of a chart. */
window.kwAcross = (event, id, emit) => {
  const chart = getElement(id).chart, box = chart.getDom().getBoundingClientRect();
  const at = [event.clientX - box.left, event.clientY - box.top];
  if (chart.containPixel('grid', at)) emit(chart.convertFromPixel({gridIndex: 0}, at)[0]);
};
/* On narrow screens the steps are a row that may be longer than the screen; scrolled by hand, since scrollIntoView would let
   the keyboard begin there. */
window.kwShowStep = () => {
  const step = document.querySelector('.kw-nav [aria-current]'), row = step?.closest('nav');
  if (!row) return;
  row.scrollLeft += step.getBoundingClientRect().left - row.getBoundingClientRect().left - (row.clientWidth - step.clientWidth) / 2;
};
/* Tables sort a column of numbers, which may be given as text, with empty cells first. */
window.kwNumerically = (a, b) => {
  const [x, y] = [a, b].map((value) => value === null || value === undefined || value === '' ? -Infinity : Number(value));
  return x < y ? -1 : x > y ? 1 : 0;
};

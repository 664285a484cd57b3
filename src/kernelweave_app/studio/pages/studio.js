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

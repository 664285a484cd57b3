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

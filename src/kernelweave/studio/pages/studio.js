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

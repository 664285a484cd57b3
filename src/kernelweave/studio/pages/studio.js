window.kw = (name) => getComputedStyle(document.body).getPropertyValue('--' + name).trim();
document.documentElement.lang = 'en';

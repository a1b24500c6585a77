'use strict';
(() => {
  const said = document.body.dataset, status = document.getElementById('live'), aloud = document.getElementById('aloud');
  const every = Number(said.every) * 1000, longest = 120000;
  if (!status || !aloud || !every) return;
  const parts = (page) => new Map([...page.querySelectorAll('[data-part]')].map((part) => [part.id, part.outerHTML]));
  let shown = parts(document), tag = said.tag, wait = every, timer = 0, busy = false, late = null;

  const say = (state, text) => {
    if (status.dataset.state === state && state === 'live') return;
    status.dataset.state = state;
    status.textContent = text;
  };
  const time = () => new Date().toLocaleTimeString(document.documentElement.lang, { hour: '2-digit', minute: '2-digit', second: '2-digit' });
  const attribute = (name, value) => `[${name}="${CSS.escape(value)}"]`;

  // How to find an element again in the part that takes this one's place.
  const path = (element) => {
    if (element.id) return '#' + CSS.escape(element.id);
    if (element.tagName === 'SUMMARY') return 'details' + attribute('data-key', element.parentElement.dataset.key || '') + '>summary';
    if (element.tagName === 'A') return 'a' + attribute('href', element.getAttribute('href') || '');
    const label = element.getAttribute('aria-label');
    return label ? attribute('aria-label', label) : '';
  };
  const selected = (part) => {
    const selection = getSelection();
    return !!selection && !selection.isCollapsed && selection.containsNode(part, true);
  };
  const swap = (old, fresh) => {
    const opened = new Map([...old.querySelectorAll('details[data-key]')].map((one) => [one.dataset.key, one.open]));
    const focus = old.contains(document.activeElement) ? path(document.activeElement) : '';
    const aside = [...old.querySelectorAll('.scroll')].map((one) => one.scrollLeft);
    fresh.querySelectorAll('details[data-key]').forEach((one) => {
      if (opened.has(one.dataset.key)) one.open = opened.get(one.dataset.key);
    });
    fresh.classList.add('fresh');
    old.replaceWith(fresh);
    fresh.querySelectorAll('.scroll').forEach((one, i) => { one.scrollLeft = aside[i] || 0; });
    const again = focus && (fresh.matches(focus) ? fresh : fresh.querySelector(focus));
    if (again) again.focus({ preventScroll: true });
  };

  // Parts that somebody selects text in wait until they are done.
  const apply = (page) => {
    let complete = true, before = null;
    for (const [id, html] of parts(page)) {
      const old = document.getElementById(id), fresh = () => document.importNode(page.getElementById(id), true);
      if (old && shown.get(id) !== html) {
        if (selected(old)) complete = false;
        else { swap(old, fresh()); shown.set(id, html); }
      } else if (!old && before) {
        before.after(fresh());
        shown.set(id, html);
      }
      before = document.getElementById(id) || before;
    }
    for (const id of [...shown.keys()]) {
      if (page.getElementById(id)) continue;
      const old = document.getElementById(id);
      if (old) old.remove();
      shown.delete(id);
    }
    if (document.title !== page.title) {
      document.title = page.title;
      aloud.textContent = page.title;
    }
    late = complete ? null : page;
  };

  const look = async () => {
    if (busy || document.hidden) return;
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { 'If-None-Match': tag }, cache: 'no-store', redirect: 'error', signal: AbortSignal.timeout(15000) });
      if (answer.status === 200) {
        apply(new DOMParser().parseFromString(await answer.text(), 'text/html'));
        tag = answer.headers.get('ETag') || '';
        say('updated', said.updated + ' ' + time());
      } else if (answer.status === 304) {
        if (late) apply(late);
        if (status.dataset.state !== 'updated') say('live', said.live);
      } else {
        throw new Error(String(answer.status));
      }
      wait = every;
    } catch {
      say('away', said.away);
      wait = Math.min(wait * 2, longest);
    }
    busy = false;
    next();
  };
  const next = () => {
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(look, wait * (0.9 + Math.random() * 0.2));
  };
  document.addEventListener('visibilitychange', () => { document.hidden ? clearTimeout(timer) : look(); });
  say('live', said.live);
  next();
})();

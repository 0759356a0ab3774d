// The link to the server: says Live, Slow or Stale, and comes back by itself, at once when there is a reason to.
import { learnClock, span } from './times.js';

const BEAT_MS = 3000;
const STALE_MS = 2 * BEAT_MS + 500; // two beats missed
const DEAD_MS = 4 * BEAT_MS; // the socket says it is open but nothing comes: make a new one
const GONE = { 4401: 'You are signed out. Sign in again.', 4403: 'Your role does not allow this page any more.' };

const NEWS = { opening: '', live: 'Live', slow: 'Slow: changes arrive late', stale: 'Stale: what is shown is old' };

let lastGood = performance.now(); // last proof that what is shown is what is
let lastHeard = performance.now();
let lastTry = -Infinity;
let trouble = '';
let slow = false;
let ended = '';
let everLive = false;

const state = () => document.getElementById('link-state');

function show() {
  const now = performance.now();
  const stale = Boolean(ended) || now - lastGood > STALE_MS;
  document.body.classList.toggle('stale', stale);
  const name = stale ? 'stale' : !everLive ? 'opening' : slow ? 'slow' : 'live';
  const words = {
    opening: 'Connecting…',
    live: 'Live',
    slow: 'Slow',
    stale: ended ? 'Signed out' : `Stale ${span(now - lastGood)}`,
  };
  const box = state();
  if (box.dataset.state !== name) {
    box.dataset.state = name;
    document.getElementById('link-news').textContent = NEWS[name]; // read out when it changes, not every second
  }
  const text = box.querySelector('span');
  if (text.textContent !== words[name]) text.textContent = words[name];
  const why = {
    opening: '',
    live: 'Changes arrive as they happen.',
    slow: 'The live store does not answer: changes arrive within 2 s, positions and batteries are old.',
    stale: ended || trouble || 'No word from the server. It is tried again by itself. Stop still works if the server does.',
  };
  box.title = why[name];
}

function heard(event) {
  lastHeard = performance.now();
  let message;
  try {
    message = JSON.parse(event.detail.message.data);
  } catch {
    return;
  }
  if (message.beat) {
    learnClock(message.beat);
    trouble = message.trouble;
    slow = message.slow;
  }
  if (!trouble) lastGood = lastHeard;
  everLive ||= Boolean(message.n);
  show();
}

function closed(event) {
  const { code } = event.detail;
  if (GONE[code]) {
    ended = GONE[code];
    const told = document.getElementById('told');
    told.textContent = ended;
    told.classList.add('problem');
  }
  show();
}

// htmx waits before it tries again; a new element in the same place tries now
export function reconnect() {
  if (ended || performance.now() - lastTry < 1000) return;
  lastTry = lastHeard = performance.now();
  const old = document.getElementById('wire');
  const fresh = old.cloneNode(false);
  for (const { name } of [...fresh.attributes]) if (name.startsWith('data-htmx')) fresh.removeAttribute(name);
  window.htmx.swap({ sourceElement: document.body, target: old, swap: 'outerHTML', text: fresh.outerHTML });
}

function wanted() {
  if (document.visibilityState === 'visible' && performance.now() - lastHeard > STALE_MS) reconnect();
}

export function startLink() {
  document.body.addEventListener('htmx:ws:before:message:incoming', heard);
  document.body.addEventListener('htmx:ws:close', closed);
  document.addEventListener('visibilitychange', wanted);
  window.addEventListener('online', reconnect);
  setInterval(() => {
    show();
    if (performance.now() - lastHeard > DEAD_MS) wanted();
  }, 1000);
  show();
}

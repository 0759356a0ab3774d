// What became of a stop of many robots: one line each, from asked to standing, read off the cards that are pushed anyway.
import { ask, onPress, send, sendStop } from './actions.js';
import { allIds, cardOf, nameOf, names } from './cards.js';
import { serverNow, span } from './times.js';

const KEPT = 'drover.stops'; // survives a reload
const LATE_MS = 16_500; // the server says so after 15 s; without its word the page does
const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const SKEW_MS = 2000; // between this clock and the server's
let shown = null; // {where, at, ids, errors, seen, asking}

const panel = () => document.getElementById('stops');

const WORDS = {
  asking: () => 'Stopping…',
  stands: (at) => `Stands since ${clock.format(at)}`,
  late: (at) => `Not confirmed for ${span(serverNow() - at)}; it may still be moving`,
  offline: () => 'Offline: cannot be told; will be told when it is back',
  released: () => 'Released',
  gone: () => 'Asked; it is not on this page',
};
const SUMS = [
  ['failed', 'not stopped'],
  ['late', 'not confirmed'],
  ['offline', 'offline'],
  ['asking', 'stopping'],
  ['stands', 'standing'],
  ['released', 'released'],
];

function stateOf(id) {
  const card = cardOf(id);
  if (shown.errors[id]) return ['failed', null];
  if (!card) return ['gone', null];
  const { stop, stopAt } = card.dataset;
  const at = new Date(stopAt ?? shown.at);
  if (!stop && shown.seen[id]) return ['released', at];
  // what it said before this stop does not count for it
  const news = stop && (stop !== 'stands' || shown.seen[id] || at >= shown.at - SKEW_MS);
  if (news) shown.seen[id] = true;
  if (news && stop !== 'asked') return [stop, at];
  const asked = news ? at : new Date(shown.at);
  return [serverNow() - asked > LATE_MS ? 'late' : 'asking', asked];
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function line(id) {
  const found = document.getElementById(`stopped-${id}`);
  if (found) return found;
  const made = document.createElement('li');
  made.id = `stopped-${id}`;
  const name = document.createElement('bdi');
  name.textContent = nameOf(id);
  made.append(name, document.createElement('span'));
  panel().querySelector('ul').append(made);
  return made;
}

const SOON_MS = 250; // a stop of thousands is not counted anew with each of twenty frames a second
let soon = 0;

export function showStopsSoon() {
  if (shown && !soon) soon = setTimeout(showStops, shown.ids.length > 100 ? SOON_MS : 0);
}

export function showStops() {
  clearTimeout(soon);
  soon = 0;
  const box = panel();
  box.hidden = !shown;
  if (!shown) return;
  const counts = {};
  for (const id of shown.ids) {
    const [state, at] = stateOf(id);
    counts[state] = (counts[state] ?? 0) + 1;
    const row = line(id);
    if (row.dataset.state !== state) row.dataset.state = state;
    put(row.lastChild, shown.errors[id] ?? WORDS[state](at));
  }
  const sum = SUMS.filter(([state]) => counts[state]).map(([state, word]) => `${counts[state]} ${word}`);
  const none = shown.asking ? 'Stopping…' : 'There is no robot here to stop.';
  put(box.querySelector('.sum'), sum.join(' · ') || none);
  box.dataset.state = counts.failed || counts.late ? 'bad' : counts.asking ? 'asking' : 'done';
}

function keep() {
  if (shown) sessionStorage.setItem(KEPT, JSON.stringify({ ...shown, asking: false }));
  else sessionStorage.removeItem(KEPT);
}

function open(where, ids) {
  shown = { where, at: serverNow(), ids, errors: {}, seen: {}, asking: true };
  panel().querySelector('ul').replaceChildren();
  panel().querySelector('.why input').value = '';
  put(panel().querySelector('h2'), `Stop, ${where}, ${clock.format(shown.at)}`);
  showStops();
}

// show these robots as stopping at once, then ask, and follow what comes of it
export async function follow(where, ids, asking) {
  open(where, [...ids]);
  const mine = shown;
  const answer = await asking();
  mine.asking = false;
  if (answer.ok) {
    mine.ids = [...new Set([...ids, ...Object.keys(answer.robots)])].filter((id) => id in answer.robots);
    for (const [id, word] of Object.entries(answer.robots)) if (word.endsWith('.')) mine.errors[id] = word;
  } else {
    for (const id of mine.ids) mine.errors[id] = 'Not asked to stop. Press Stop again.';
  }
  if (shown === mine) {
    keep();
    showStops();
  }
  return answer;
}

export async function releaseAll(ids) {
  const question = `Release ${names(ids)}? They may get work and move again.`;
  if (!ids.length || !(await ask(question, ids.length === 1 ? 'Release' : `Release ${ids.length} robots`))) return { ok: true };
  return send('Release', '/fleet/release', { robots: ids.join(' ') }, [], ids.length);
}

export function startStops() {
  const box = panel();
  onPress('stop-all', (button) =>
    follow(button.dataset.where, allIds(), () => sendStop('Stop all', button.formAction, {}, allIds().length)),
  );
  box.querySelector('.close').addEventListener('click', () => {
    shown = null;
    keep();
    showStops();
  });
  box.querySelector('.again').id = 'stop-again';
  onPress('stop-again', () => {
    const left = shown.ids.filter((id) => !['stands', 'released'].includes(stateOf(id)[0]));
    const ids = left.length ? left : shown.ids;
    return follow(shown.where, ids, () => sendStop('Stop again', '/fleet/stop', { robots: ids.join(' ') }, ids.length));
  });
  box.querySelector('.act.release').id = 'release-these';
  onPress('release-these', () => releaseAll(shown.ids.filter((id) => cardOf(id)?.dataset.stop)));
  const why = box.querySelector('.why input');
  const explain = () => why.value.trim() && send('Keep', '/fleet/explain', { robots: shown.ids.join(' '), why: why.value });
  box.querySelector('.keep').addEventListener('click', explain);
  why.addEventListener('keydown', (event) => event.key === 'Enter' && explain());
  try {
    shown = JSON.parse(sessionStorage.getItem(KEPT));
  } catch {
    shown = null;
  }
  if (shown) put(box.querySelector('h2'), `Stop, ${shown.where}, ${clock.format(shown.at)}`);
  showStops();
  setInterval(() => shown && showStops(), 1000);
}

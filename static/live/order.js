// Order and choice of cards: the worst first, re-sorted only in a pause and never under the pointer; search and filters.
const PAUSE_MS = 2000;
const chosen = { text: '', bucket: '' };
let timer = 0;

const robots = () => document.getElementById('robots');
const missions = () => document.getElementById('missions');

function inUse(home) {
  return home.matches(':hover') || home.contains(document.activeElement);
}

function compareRobots(a, b) {
  return a.dataset.rank - b.dataset.rank || a.dataset.name.localeCompare(b.dataset.name) || (a.id < b.id ? -1 : 1);
}

function compareMissions(a, b) {
  return a.dataset.rank - b.dataset.rank || (a.dataset.created < b.dataset.created ? 1 : -1);
}

function sort(home, compare) {
  const now = [...home.children];
  const wanted = [...now].sort(compare);
  if (now.every((child, i) => child === wanted[i])) return;
  const move = home.moveBefore ? 'moveBefore' : 'insertBefore'; // keeps focus and animations where the browser can
  wanted.forEach((child, i) => {
    if (home.children[i] !== child) home[move](child, home.children[i] ?? null);
  });
}

export function arrange() {
  timer = 0;
  for (const [home, compare] of [[robots(), compareRobots], [missions(), compareMissions]]) {
    if (inUse(home)) later();
    else sort(home, compare);
  }
}

function later() {
  if (!timer) timer = setTimeout(arrange, PAUSE_MS);
}

function choose(card) {
  const { name = '', bucket } = card.dataset;
  const fits = !chosen.text || `${name} ${card.id.slice(6)}`.toLowerCase().includes(chosen.text);
  card.hidden = !(fits && (!chosen.bucket || bucket === chosen.bucket));
}

function showChoice() {
  for (const card of robots().children) choose(card);
  showFilters();
}

function showFilters() {
  for (const button of document.querySelectorAll('.filter')) {
    button.setAttribute('aria-pressed', String(button.dataset.filter === chosen.bucket));
    if (button.dataset.filter === chosen.bucket) button.disabled = false;
  }
}

export function afterPush(frame) {
  if (chosen.text || chosen.bucket) {
    const cards = frame.put.filter((id) => id.startsWith('robot-')).map((id) => document.getElementById(id));
    for (const card of cards) if (card) choose(card);
    if (frame.put.includes('counts')) showFilters();
  }
  // a new row takes its place at once, what only changed keeps it until there is a pause
  const home = missions();
  if (frame.put.some((id) => frame.states.get(id) === undefined && id.startsWith('mission-')) && !inUse(home)) {
    sort(home, compareMissions);
  }
  later();
}

export function startOrder() {
  const find = document.getElementById('find');
  find.addEventListener('input', () => {
    chosen.text = find.value.trim().toLowerCase();
    showChoice();
  });
  document.getElementById('board').addEventListener('click', (event) => {
    const button = event.target.closest('.filter');
    if (!button) return;
    chosen.bucket = chosen.bucket === button.dataset.filter ? '' : button.dataset.filter;
    showChoice();
  });
  document.addEventListener('keydown', (event) => {
    const typing = event.target.closest?.('input, textarea, select, dialog');
    if (event.key === '/' && !typing) {
      event.preventDefault();
      find.focus();
    }
    if (event.key === 'Enter' && event.target === find) robots().querySelector('.card:not([hidden])')?.focus();
    if (event.key === 'Escape' && event.target === find) {
      find.value = '';
      find.dispatchEvent(new Event('input'));
      find.blur();
    }
  });
}

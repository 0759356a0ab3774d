// The keyboard: from robot to robot, open, select, and, unless switched off, pause and stop the one that has the focus.
import { act } from './actions.js';
import { clear, pick } from './chosen.js';

const OFF = 'drover.keys.off';
const NEXT = { j: 1, k: -1 };
const ARROWS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };

const cards = () => [...document.querySelectorAll('#robots > .card:not([hidden])')];
const acting = () => document.getElementById('acting-keys');

function move(from, by) {
  const all = cards();
  const to = all[from ? all.indexOf(from) + by : by > 0 ? 0 : all.length - 1];
  to?.focus();
  to?.scrollIntoView({ block: 'nearest' });
}

function press(card, which) {
  const button = card.querySelector(`.act.${which}`);
  if (button && getComputedStyle(button).display !== 'none') act(button);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.('input:not(.pick), textarea, select, dialog')) return;
  const card = document.activeElement.closest?.('.card');
  const itself = card === document.activeElement;
  const { key } = event;
  if (key in NEXT) move(card, NEXT[key]);
  else if (itself && key in ARROWS) move(card, ARROWS[key]);
  else if (itself && key === 'Enter') card.querySelector('.act.open').click();
  else if (itself && key === ' ') pick(card);
  else if (card && !event.repeat && acting().checked && (key === 'p' || key === 'x')) press(card, key === 'x' ? 'stop' : 'pause');
  else if (key === 'Escape') clear();
  else if (key === '?') document.getElementById('help').showModal();
  else return;
  event.preventDefault();
}

export function startKeys() {
  acting().checked = !localStorage.getItem(OFF);
  acting().addEventListener('change', () => {
    if (acting().checked) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, '1');
  });
  document.addEventListener('keydown', onKey);
  document.querySelector('.top .keys').addEventListener('click', () => document.getElementById('help').showModal());
}

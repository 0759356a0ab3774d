// The selection: which robots are ticked, and what is done to all of them. It is the browser's own and survives pushes.
import { onPress, sendStop, tell } from './actions.js';
import { cardOf, idOf } from './cards.js';
import { follow, releaseAll } from './stops.js';

const chosen = new Set(); // robot ids

function showBar() {
  const bar = document.getElementById('chosen');
  bar.hidden = !chosen.size;
  bar.querySelector('b').textContent = chosen.size;
}

function mark(card) {
  const on = chosen.has(idOf(card));
  card.classList.toggle('picked', on);
  const box = card.querySelector('.pick');
  if (box && box.checked !== on) box.checked = on;
}

export function pick(card, on = !chosen.has(idOf(card))) {
  if (on) chosen.add(idOf(card));
  else chosen.delete(idOf(card));
  mark(card);
  showBar();
}

export function clear() {
  const cards = [...chosen].map(cardOf);
  chosen.clear();
  cards.forEach((card) => card && mark(card));
  showBar();
}

// after a push: new nodes are marked again, robots that have gone are no longer chosen
export function keepChosen(frame) {
  if (!chosen.size) return;
  for (const id of [...chosen]) if (!cardOf(id)) chosen.delete(id);
  for (const id of frame.put) {
    const card = id.startsWith('robot-') && document.getElementById(id);
    if (card) mark(card);
  }
  showBar();
}

export function startChosen() {
  document.getElementById('robots').addEventListener('change', (event) => {
    const card = event.target.matches('.pick') && event.target.closest('.card');
    if (card) pick(card, event.target.checked);
  });
  document.querySelector('#chosen .clear').addEventListener('click', clear);
  onPress('stop-chosen', async () => {
    const ids = [...chosen];
    const answer = await follow('selected robots', ids, () => sendStop('Stop selected', '/fleet/stop', { robots: ids.join(' ') }, ids.length));
    if (answer.ok) clear();
    return answer;
  });
  onPress('release-chosen', async () => {
    const ids = [...chosen].filter((id) => cardOf(id)?.dataset.stop);
    if (!ids.length) tell('None of the selected robots is stopped.');
    const answer = await releaseAll(ids);
    if (answer.robots) clear();
    return answer;
  });
}

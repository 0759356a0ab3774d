// Frames from the server: make room for what is new, take away what is gone, let htmx swap, then say that it is done.
import { keepChosen } from './chosen.js';
import { arrange, afterPush } from './order.js';
import { showStopsSoon } from './stops.js';
import { format } from './times.js';

const HOMES = { robot: ['robots', 'article'], mission: ['missions', 'li'] };
const frames = new WeakMap(); // message → frame, from before the swap to after it
const AGAIN_MS = 5000; // a page that cannot apply a frame asks for a whole one, not more often than this
let askedAgain = -AGAIN_MS;
let current = null;
let snapshot = null; // ids of the snapshot that is arriving: it comes in parts

function makeRoom(id) {
  if (document.getElementById(id)) return;
  const [home, tag] = HOMES[id.split('-', 1)[0]] ?? [];
  if (!home) return;
  const place = document.createElement(tag);
  place.id = id;
  document.getElementById(home).append(place);
}

function keepOnly(wanted) {
  for (const [home] of Object.values(HOMES)) {
    for (const child of [...document.getElementById(home).children]) if (!wanted.has(child.id)) child.remove();
  }
}

function before(event) {
  const { message } = event.detail;
  let frame;
  try {
    frame = JSON.parse(message.data);
  } catch {
    return;
  }
  if (!frame.n) return;
  frames.set(message, frame);
  current = frame;
  if (frame.whole) snapshot = new Set();
  frame.put.forEach((id) => snapshot?.add(id));
  frame.last = snapshot && !frame.more;
  if (frame.last) {
    keepOnly(snapshot);
    document.getElementById('rest')?.remove(); // all are here
    snapshot = null;
  }
  frame.gone.forEach((id) => document.getElementById(id)?.remove());
  frame.put.forEach(makeRoom);
  frame.focus = document.activeElement.closest?.('.card')?.id;
  frame.states = new Map(frame.put.map((id) => [id, document.getElementById(id)?.dataset.state]));
}

function reply(connection, answer) {
  if (connection.socket?.readyState === WebSocket.OPEN) connection.socket.send(JSON.stringify(answer));
}

function after(event) {
  const { message, connection } = event.detail;
  const frame = frames.get(message);
  if (!frame) return;
  current = null;
  for (const id of frame.put) {
    const element = document.getElementById(id);
    if (!element) continue;
    format(element);
    const state = frame.states.get(id);
    if (state !== undefined && state !== element.dataset.state) {
      element.classList.add('changed');
      element.addEventListener('animationend', () => element.classList.remove('changed'), { once: true });
    }
  }
  // the button that was just pressed may be gone: its card keeps the focus
  if (frame.focus && document.activeElement === document.body) document.getElementById(frame.focus)?.focus({ preventScroll: true });
  afterPush(frame);
  keepChosen(frame);
  showStopsSoon();
  if (frame.last) arrange();
  reply(connection, { ack: frame.n });
}

function failed(event) {
  if (!current) return;
  const frame = current;
  current = null;
  const again = performance.now() - askedAgain > AGAIN_MS;
  if (again) askedAgain = performance.now();
  reply(event.detail.connection, { ack: frame.n, again });
}

export function startFrames() {
  document.body.addEventListener('htmx:ws:before:message:incoming', before);
  document.body.addEventListener('htmx:ws:after:message:incoming', after);
  document.body.addEventListener('htmx:ws:error', failed);
}

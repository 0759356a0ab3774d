// Times in the viewer's own clock and words. Fragments carry moments; this writes them into <time> and the ages of values.
const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const OLD_MS = 6000; // two heartbeats: then a value shows its age, unless its robot is one that speaks less often (data-old)
let ahead = 0; // this browser's clock minus the server's, ms

export const serverNow = () => Date.now() - ahead;

export function learnClock(serverMs) {
  ahead = Date.now() - serverMs;
}

export function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d`;
}

function at(moment, now) {
  const far = new Date(now).toDateString() !== moment.toDateString();
  return (far ? `${day.format(moment)} ` : '') + clock.format(moment);
}

const FORMS = {
  for: (moment, now) => span(now - moment),
  in: (moment, now) => (moment > now ? `in ${span(moment - now)}` : 'now'),
  at,
  since: at,
};

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function format(root) {
  const now = serverNow();
  for (const element of root.querySelectorAll('time[data-as]')) {
    const moment = new Date(element.dateTime);
    const form = FORMS[element.dataset.as];
    if (!form || Number.isNaN(+moment)) continue;
    put(element, form(moment, now));
    element.title = moment.toLocaleString();
  }
  for (const element of root.querySelectorAll('.live[data-at]')) {
    const told = Number(element.dataset.at);
    const old = told > 0 && now - told > (Number(element.dataset.old) || OLD_MS);
    element.classList.toggle('aged', old);
    const age = element.querySelector('.old');
    if (age) put(age, old ? `${span(now - told)} ago` : '');
    else if (old) element.title = `${span(now - told)} ago`;
    else element.removeAttribute('title');
  }
}

export function startTimes() {
  format(document);
  setInterval(() => format(document), 1000);
}

// Ages ("4 minutes ago") and countdowns ("in 12 s") stay true on a page that stays open. Moments come from the server.
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60]];
let ahead = 0; // this browser's clock minus the server's, ms

export function learnClock(serverTime) {
  const moment = Date.parse(serverTime);
  if (!Number.isNaN(moment)) ahead = Date.now() - moment;
}

function span(seconds) {
  const [unit, size] = UNITS.find(([, size]) => seconds >= size) ?? ["s", 1];
  const n = Math.floor(seconds / size);
  return unit === "s" ? `${n} s` : `${n} ${unit}${n === 1 ? "" : "s"}`;
}

const until = (left) => (left >= 0 ? `in ${left < 120 ? `${Math.ceil(left)} s` : span(left)}` : `due ${span(-left)} ago`);

export function tick() {
  const now = Date.now() - ahead;
  for (const time of document.querySelectorAll("time[data-ago], time[data-until]")) {
    const seconds = (now - Date.parse(time.dateTime)) / 1000;
    if (Number.isNaN(seconds)) continue;
    const text = "ago" in time.dataset ? `${span(Math.max(0, seconds))} ago` : until(-seconds);
    if (time.textContent !== text) time.textContent = text;
  }
}

learnClock(document.querySelector('meta[name="server-time"]')?.content);
setInterval(tick, 1000);

// Ages ("4 minutes ago") and countdowns ("in 12 s") stay true on a page that stays open. Moments come from the server.
import { learnClock as learn, serverNow } from "./times.js";

const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60]];

export function learnClock(serverTime) {
  const moment = Date.parse(serverTime);
  if (!Number.isNaN(moment)) learn(moment);
}

function span(seconds) {
  const [unit, size] = UNITS.find(([, size]) => seconds >= size) ?? ["s", 1];
  const n = Math.floor(seconds / size);
  return unit === "s" ? `${n} s` : `${n} ${unit}${n === 1 ? "" : "s"}`;
}

const until = (left) => (left >= 0 ? `in ${left < 120 ? `${Math.ceil(left)} s` : span(left)}` : `due ${span(-left)} ago`);

export function tick() {
  const now = serverNow();
  for (const time of document.querySelectorAll("time[data-ago], time[data-until]")) {
    const seconds = (now - Date.parse(time.dateTime)) / 1000;
    if (Number.isNaN(seconds)) continue;
    const text = "ago" in time.dataset ? `${span(Math.max(0, seconds))} ago` : until(-seconds);
    if (time.textContent !== text) time.textContent = text;
  }
}

learnClock(document.querySelector('meta[name="server-time"]')?.content);
setInterval(tick, 1000);

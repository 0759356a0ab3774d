// A mission's page follows the mission while it is open: it asks every few seconds, exchanges only the parts that say
// something else, and leaves alone what somebody is using. Without it the page is as it was when it was opened.
import { learnClock, tick } from "./ages.js";

const holder = document.getElementById("mission-now");
const says = document.getElementById("link-says");
const clock = () => new Date().toLocaleTimeString([], { hourCycle: "h23" });
const now = () => holder.querySelector(".mission-now");
let answered = clock();
const say = (text) => says.textContent !== text && (says.textContent = text); // a screen reader speaks only what is new
let waiting = false; // a part in use was left as it is: ask for everything again

const inUse = (part) => part.contains(document.activeElement) || part.querySelector("details[open]");

function exchange(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html").querySelector(".mission-now");
  if (!fresh) return;
  waiting = false;
  for (const part of fresh.querySelectorAll("[data-key]")) {
    const old = document.getElementById(part.id);
    if (!old || old.dataset.key === part.dataset.key) continue;
    if (inUse(old)) waiting = true;
    else old.replaceWith(part);
  }
  Object.assign(now().dataset, fresh.dataset);
  learnClock(fresh.dataset.now);
  tick();
}

async function ask() {
  const seen = waiting ? "" : now().dataset.stamp;
  try {
    const answer = await fetch(`${holder.dataset.url}?seen=${seen}`, { signal: AbortSignal.timeout(10000) });
    if (!answer.ok || answer.redirected) throw new Error(answer.status);
    if (answer.status === 200) exchange(await answer.text());
    answered = clock();
    say(Number(now().dataset.every) ? "This page follows the mission." : "");
    says.classList.remove("bad-text");
  } catch {
    say(`No answer from Drover since ${answered}: what you see may be old. It keeps asking.`);
    says.classList.add("bad-text");
  }
}

learnClock(now().dataset.now);
document.addEventListener("visibilitychange", () => document.hidden || ask());
for (;;) {
  const every = Number(now().dataset.every);
  if (!every && !waiting) break;
  await new Promise((resolve) => setTimeout(resolve, (every || 3) * 1000));
  if (!document.hidden) await ask();
}

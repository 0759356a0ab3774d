// Asks whether a robot has connected, less and less often, and says it in the page.

const PAUSES_MS = [1000, 1000, 2000, 2000, 3000, 5000, 8000, 15000];
const SHAPES = { ok: "●", info: "◌", warn: "△", bad: "◆" };
const box = document.getElementById("connection");
const words = box.querySelector("[data-words]");
const next = box.querySelector("[data-next]");
let tries = 0;
let timer = 0;

function say(token, text, more) {
  words.className = `said ${token}`;
  words.querySelector("i").textContent = SHAPES[token] ?? SHAPES.info;
  const line = words.querySelector("span");
  if (line.textContent !== text) line.textContent = text; // a screen reader speaks only what is new
  if (next.textContent !== more) next.textContent = more;
}

async function ask() {
  clearTimeout(timer);
  if (document.hidden) return; // it asks again when it is looked at
  try {
    const answer = await fetch(box.dataset.url, { headers: { Accept: "application/json" } });
    if (!answer.ok || answer.redirected) throw new Error(`answer ${answer.status}`);
    const { token, says, next: advice } = await answer.json();
    if (token !== box.dataset.token) tries = 0; // something happens: look closely again
    box.dataset.token = token;
    say(token, says, advice);
  } catch (error) {
    say("warn", "This page cannot ask at the moment.", `It tries again by itself (${error.message}).`);
  }
  timer = setTimeout(ask, PAUSES_MS[Math.min(tries++, PAUSES_MS.length - 1)]);
}

document.addEventListener("visibilitychange", () => {
  tries = 0;
  ask();
});
ask();
